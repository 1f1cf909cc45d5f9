"""What one call is, over HTTP: transcriptions from published parts, images in steps, pairs, generations, forward passes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from domain.errors import UsageError
from ingest import evidence
from tests.integration.conftest import RunningService

WHISPER = "openai/whisper-small"
DIFFUSION = "stable-diffusion-v1-5/stable-diffusion-v1-5"
M2 = "apple-m2-ultra-gpu"


def published() -> Iterator[dict[str, Any]]:
    """The shipped rows of parts of Whisper and of Stable Diffusion, with their runs, and those per token."""
    for batch in evidence.events({"whisper-cpp", "ai-hub", "openvino-llm"}):
        for event in map(json.loads, batch):
            model = event["data"].get("model", {}).get("id", "")
            if not model or "whisper" in model or "stable_diffusion_v1_5" in model:
                yield event


@pytest.fixture(scope="module")
def client(service_database: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a service of its own, to which these rows were posted."""
    running = RunningService(tmp_path_factory.mktemp("calls"), service_database().url)
    running.start()
    with running.client() as one:
        one.wait_for(one.post_events(list(published()))["last_position"])
        yield one
    running.stop()


def test_whisper_on_an_apple_chip_is_a_transcription_from_published_parts(client: Any) -> None:
    answer = client.recommend(WHISPER, hardware=["apple-m2-ultra"], top=1)
    assert (answer["call"]["unit"], answer["workload"]["output_tokens"]) == ("transcription", 100)
    assert answer["call"]["what"] == "30 s of audio: one encoder pass and 100 generated tokens"
    assert answer["call"]["assumed"].startswith("100 tokens, 3.33 a second")
    first = answer["ranked"][0]
    assert (first["hardware"], first["basis"]) == (M2, "imported")
    # Half a minute takes a quarter of a second: the encoder, four tokens of prompt and 99 further ones.
    assert first["realtime_factor"] == pytest.approx(30e3 / first["latency_ms"], rel=1e-4)
    assert 250 < first["latency_ms"] < 300
    assert "encoder" in first["why"]
    assert "100 tokens assumed" in first["why"]
    assert len(first["evidence"]) == 3
    assert client.event(first["evidence"][0])["data"]["model"]["id"].startswith(f"{WHISPER}/")


@pytest.mark.parametrize(
    ("seconds", "windows", "tokens"),
    [(1.5, 1, 5), (95.0, 4, 317)],
)
def test_a_clip_and_a_long_recording_are_as_many_windows(
    client: Any, seconds: float, windows: int, tokens: int
) -> None:
    answer = client.recommend(WHISPER, hardware=[M2, "nvidia-l4"], audio_seconds=seconds, precision=["fp16"])
    assert answer["call"]["items"] == {"audio_seconds": seconds, "encoder_passes": windows, "output_tokens": tokens}
    rows = {row["hardware"]: row for row in answer["ranked"]}
    assert (rows[M2]["basis"], rows["nvidia-l4"]["basis"]) == ("imported", "predicted")
    for row in rows.values():
        assert row["realtime_factor"] == pytest.approx(seconds * 1e3 / row["latency_ms"], rel=1e-4)
    whole = client.recommend(WHISPER, hardware=[M2], precision=["fp16"])["ranked"][0]
    assert (rows[M2]["latency_ms"] < whole["latency_ms"]) == (windows == 1)


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        ("nvidia-rtx-5090", "whisper.cpp"),
        ("qualcomm-snapdragon-8-elite-gen-5-qrd", "AI Hub"),
        ("intel-core-ultra-7-358h-igpu", "OpenVINO"),
    ],
)
def test_published_parts_answer_for_other_makers_too(client: Any, hardware: str, said: str) -> None:
    first = client.recommend(WHISPER, hardware=[hardware])["ranked"][0]
    assert first["basis"] == "imported"
    assert said in first["why"]
    assert first["realtime_factor"] > 10


def test_a_single_pass_of_whisper_is_no_transcription_and_stays_reachable(client: Any, build: Any) -> None:
    event = build.measurement(p50=3.0, model=WHISPER, hardware="h-forward", platform="cpu")
    event["data"]["workload"] = {"mode": "inference", "batch_size": 1, "audio_seconds": 30.0}
    event["data"]["model"] |= {"category": "audio", "family": "whisper"}
    client.wait_for(client.post_events([event])["last_position"])
    everything = client.recommend(WHISPER, top=500)["ranked"]
    assert "h-forward" not in {row["hardware"] for row in everything}
    forward = client.recommend(WHISPER, call="forward", hardware=["h-forward"])
    assert (forward["call"]["unit"], forward["call"]["what"]) == (
        "forward pass",
        "a forward pass of 30 s of audio",
    )
    assert forward["ranked"][0]["evidence"] == [event["id"]]
    assert forward["ranked"][0]["realtime_factor"] is None


def test_a_measured_transcription_stands_before_the_parts(client: Any, build: Any) -> None:
    event = build.measurement(p50=900.0, model=WHISPER, hardware="h-whole", platform="cpu")
    event["data"]["workload"] = {"mode": "inference", "batch_size": 1, "audio_seconds": 30.0, "output_tokens": 100}
    client.wait_for(client.post_events([event])["last_position"])
    first = client.recommend(WHISPER, hardware=["h-whole"])["ranked"][0]
    assert (first["basis"], first["latency_ms"], first["realtime_factor"]) == ("measured", 900.0, 33.3333)


def test_an_image_is_so_many_steps_of_the_whole_pipeline(client: Any) -> None:
    usual = client.recommend(DIFFUSION, hardware=["nvidia-l4"], platform=["cuda"], precision=["fp16"])
    assert usual["call"]["unit"] == "image"
    assert usual["call"]["what"] == "one image of 512 × 512 pixels in 50 steps, each with the prompt and without"
    few = client.recommend(DIFFUSION, hardware=["nvidia-l4"], platform=["cuda"], precision=["fp16"], steps=10)
    assert few["ranked"][0]["steps"] == 10
    step = client.recommend(DIFFUSION, hardware=["nvidia-l4"], platform=["cuda"], precision=["fp16"], call="forward")[
        "ranked"
    ][0]
    whole, short = (answer["ranked"][0]["latency_ms"] for answer in (usual, few))
    # Text encoders and the decoder run once, however many steps there are.
    assert 3 < whole / short < 5
    # Both texts of a step share the weights, so that 100 passes take less than 100 steps alone.
    assert 50 * step["latency_ms"] < whole < 110 * step["latency_ms"]
    assert usual["ranked"][0]["configuration"] != few["ranked"][0]["configuration"] != step["configuration"]


def test_published_modules_of_a_pipeline_make_an_image(client: Any) -> None:
    phone = "qualcomm-snapdragon-8-elite-gen-5-qrd"
    first = client.recommend(DIFFUSION, hardware=[phone], steps=20)["ranked"][0]
    assert (first["basis"], first["platform"]) == ("imported", "qnn")
    assert "denoiser 40 ×" in first["why"]
    longer = client.recommend(DIFFUSION, hardware=[phone], steps=40)["ranked"][0]
    assert 1.8 < longer["latency_ms"] / first["latency_ms"] < 2


@pytest.mark.parametrize(
    ("model", "question", "unit", "what"),
    [
        ("openai/clip-vit-base-patch32", {}, "image and text", "one image and one text"),
        ("google/siglip-base-patch16-224", {}, "image and text", "one image and one text"),
        ("facebook/wav2vec2-base-960h", {}, "transcription", "10 s of audio in one pass"),
        ("openai-community/gpt2", {}, "generation", "a prompt of 512 tokens and 128 generated tokens"),
        ("google-t5/t5-base", {}, "forward pass", "a forward pass of 128 tokens"),
        ("google-t5/t5-base", {"output_tokens": 16}, "generation", "a prompt of 128 tokens and 16 generated tokens"),
        ("openai-community/gpt2", {"sequence_length": 64}, "forward pass", "a forward pass of 64 tokens"),
        ("google/vit-base-patch16-224", {}, "forward pass", "a forward pass of one image of 224 × 224 pixels"),
        ("black-forest-labs/FLUX.1-schnell", {}, "image", "one image of 1024 × 1024 pixels in 4 steps"),
    ],
)
def test_the_unit_is_said(client: Any, model: str, question: dict[str, Any], unit: str, what: str) -> None:
    call = client.recommend(model, hardware=["nvidia-h100-sxm"], platform=["cuda"], **question)["call"]
    assert (call["unit"], call["what"]) == (unit, what)


def test_a_prediction_says_its_call_and_its_rate(client: Any) -> None:
    one = client.predict(
        WHISPER, hardware="nvidia-l4", platform="cuda", precision="fp16", batch_size=8, audio_seconds=60.0
    )
    assert one["call"]["what"] == "60 s of audio: 2 encoder passes of 30 s and 200 generated tokens"
    assert one["realtime_factor"] == pytest.approx(8 * 60e3 / one["latency_ms"], rel=1e-4)
    generated = client.predict(
        "openai-community/gpt2",
        hardware="nvidia-l4",
        platform="cuda",
        precision="fp16",
        input_tokens=128,
        output_tokens=64,
    )
    assert generated["tokens_per_s"] == pytest.approx(64e3 / generated["latency_ms"], rel=1e-4)


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"call": "whatever"}, "call"),
        ({"call": "forward", "output_tokens": 4}, "output_tokens"),
        ({"call": "forward", "steps": 4}, "steps"),
        ({"steps": 4}, "steps"),
        ({"steps": 0}, "steps"),
    ],
)
def test_a_call_that_cannot_be_is_refused_by_its_field(client: Any, question: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as refused:
        client.recommend(WHISPER, **question)
    assert refused.value.field == field
