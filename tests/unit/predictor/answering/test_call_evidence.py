"""Parts of a model that were measured on one device with one software add up to a call; nothing else does."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from domain.answers import Sizes
from domain.calls import CallPlan, Pipeline, Subject
from predictor.answering.call_evidence import composed_options, part_names, rated
from predictor.answering.option import Option

WHISPER = Subject(category="audio", family="whisper", task="automatic-speech-recognition", generates=True)
NUMBERS = itertools.count(1)
PIPELINE = Subject(category="diffusion", family="unet", pipeline=Pipeline(steps=20, guided=True))


def transcription(seconds: float = 30.0, tokens: int = 11) -> CallPlan:
    sizes = Sizes(audio_seconds=seconds, output_tokens=tokens)
    return CallPlan(kind="transcription", subject=WHISPER, sizes=sizes, assumed=True)


def image(side: int = 512) -> CallPlan:
    return CallPlan(kind="image", subject=PIPELINE, sizes=Sizes(image_size=side, steps=20))


def row(part: str, *, phase: str | None = None, **values: Any) -> dict[str, Any]:
    count = next(NUMBERS)
    options = {"flash_attention": False, **({"phase": phase} if phase else {})}
    plain = {
        "part": part, "position": count, "event_id": f"e{count}", "time": None, "model_id": f"m/{part}", "origin": "imported",
        "scenario": "single_stream", "batch_size": 1, "audio_seconds": None, "image_size": None, "input_tokens": None,
        "output_tokens": None, "hardware_id": "h", "hardware_count": 1, "platform": "cuda", "precision": "fp16",
        "runtime_name": "whisper.cpp", "runtime_version": "1", "options": json.dumps(options), "execution": "{}",
        "latency_mean_ms": None, "latency_p50_ms": None, "latency_p50_ci95_low_ms": None, "latency_p50_ci95_high_ms": None,
        "ttft_ms": None, "tpot_ms": None, "peak_memory_bytes": None, "verdict": None, "provenance_source": "a table",
    }  # fmt: skip
    return {**plain, **values}


def whisper_rows(**values: Any) -> list[dict[str, Any]]:
    """Encoder 100 ms, a token 2 ms, in a batch of five 1 ms, as prompt 0.5 ms."""
    return [
        row("encoder", latency_mean_ms=100.0, **values),
        row("decoder", tpot_ms=2.0, **values),
        row("decoder", **{"batch_size": 5, "tpot_ms": 1.0, **values}),
        row("decoder", phase="prompt", tpot_ms=0.5, **values),
    ]


def test_a_transcription_is_encoder_prompt_and_the_tokens_after_the_first() -> None:
    rows = whisper_rows()
    (option,) = composed_options(rows, [], transcription(), "m")
    assert option.latency_ms == 100.0 + 4 * 0.5 + 10 * 2.0
    assert option.throughput_per_s == pytest.approx(1e3 / 122.0)
    assert (option.basis, option.hardware, option.batch_size, option.low_ms) == ("imported", "h", 1, None)
    assert set(option.evidence) == {rows[0]["event_id"], rows[1]["event_id"], rows[3]["event_id"]}
    for words in ("encoder 100 ms", "prompt 4 × 0.5 ms", "10 further tokens of 2 ms", "11 tokens assumed", "a table"):
        assert words in option.why


def test_each_window_of_a_long_recording_has_its_encoder_and_its_prompt() -> None:
    (option,) = composed_options(whisper_rows(), [], transcription(95.0, 317), "m")
    assert option.latency_ms == 4 * 100.0 + 4 * 4 * 0.5 + 313 * 2.0
    assert "4 windows" in option.why
    (short,) = composed_options(whisper_rows(), [], transcription(1.5, 5), "m")
    assert short.latency_ms == 100.0 + 2.0 + 4 * 2.0


def test_the_rate_of_a_transcription_is_a_multiple_of_real_time() -> None:
    options = rated(composed_options(whisper_rows(), [], transcription(1.5, 5), "m"), transcription(1.5, 5))
    assert options[0].realtime_factor == pytest.approx(1500 / 110.0)
    assert options[0].tokens_per_s == pytest.approx(5000 / 110.0)


def test_an_exported_decoder_steps_through_the_prompt_as_well() -> None:
    rows = [
        row("encoder", latency_mean_ms=60.0, batch_size=None, peak_memory_bytes=7),
        row("decoder", latency_mean_ms=10.0, batch_size=None, peak_memory_bytes=5),
    ]
    (option,) = composed_options(rows, [], transcription(), "m")
    assert option.latency_ms == 60.0 + (4 + 10) * 10.0
    assert option.peak_memory_bytes == 12


@pytest.mark.parametrize(
    "other",
    [
        {"hardware_id": "other"},
        {"platform": "mps"},
        {"precision": "int8"},
        {"runtime_version": "2"},
        {"threads": 4},
        {"options": json.dumps({"flash_attention": True})},
        {"origin": "simulated"},
        {"verdict": "invalid"},
        {"scenario": "serving"},
        {"batch_size": 5},
    ],
)
def test_parts_of_other_software_or_that_are_no_evidence_make_no_call(other: dict[str, Any]) -> None:
    rows = [row("encoder", latency_mean_ms=100.0), row("decoder", tpot_ms=2.0, **other)]
    assert composed_options(rows, [], transcription(), "m") == []


def test_an_encoder_alone_is_no_transcription() -> None:
    assert composed_options([row("encoder", latency_mean_ms=100.0)], [], transcription(), "m") == []


def test_the_interval_of_a_call_is_the_sum_of_those_of_its_parts() -> None:
    rows = [
        row("encoder", latency_p50_ms=100.0, latency_p50_ci95_low_ms=90.0, latency_p50_ci95_high_ms=120.0),
        row("decoder", tpot_ms=2.0),
        row("decoder", tpot_ms=3.0),
    ]
    (option,) = composed_options(rows, [], transcription(), "m")
    # The newest run of each part gives its figure: 3 ms a token, the prompt as well.
    assert option.latency_ms == 100.0 + 14 * 3.0
    assert (option.low_ms, option.high_ms) == (90.0 + 14 * 2.0, 120.0 + 14 * 3.0)
    assert option.covered


def test_measured_parts_stand_before_imported_ones_and_together_are_measured() -> None:
    rows = whisper_rows()
    ours = [
        row("encoder", latency_p50_ms=50.0, origin="measured"),
        row("decoder", tpot_ms=1.0, origin="measured"),
        row("decoder", phase="prompt", tpot_ms=1.0, origin="measured"),
    ]
    (option,) = composed_options([*ours, *rows], [], transcription(), "m")
    assert (option.latency_ms, option.basis) == (50.0 + 4.0 + 10.0, "measured")


def test_times_to_the_first_token_and_per_token_make_a_transcription_with_the_shortest_prompt() -> None:
    rows = [
        row("", ttft_ms=100.0, tpot_ms=5.0, input_tokens=1024),
        row("", ttft_ms=60.0, tpot_ms=5.0, input_tokens=32),
    ]
    (option,) = composed_options([], rows, transcription(65.0, 21), "m")
    assert option.latency_ms == 3 * 60.0 + 18 * 5.0
    exact = [row("", ttft_ms=60.0, tpot_ms=5.0, audio_seconds=30.0, output_tokens=11)]
    assert composed_options([], exact, transcription(), "m") == [], "a row of the call itself needs no composing"


def test_an_image_is_both_texts_the_steps_twice_and_the_decoder() -> None:
    rows = [
        row("text_encoder", latency_mean_ms=3.0),
        row("denoiser", latency_mean_ms=50.0),
        row("vae_decoder", latency_mean_ms=90.0),
    ]
    (option,) = composed_options(rows, [], image(), "m")
    assert option.latency_ms == 2 * 3.0 + 20 * 2 * 50.0 + 90.0
    assert "denoiser 40 × 50 ms" in option.why
    assert composed_options(rows[:2], [], image(), "m") == []
    at_512 = [{**item, "image_size": 512} for item in rows]
    assert composed_options(at_512, [], image(1024), "m") == []


def test_parts_are_found_under_the_ids_that_their_sources_give_them() -> None:
    names = part_names("openai/whisper-small")
    assert names["openai/whisper-small/encoder"] == "encoder"
    assert names["ai-hub/whisper_small_quantized/WhisperSmallDecoderQuantizable"] == "decoder"
    assert part_names("stable-diffusion-v1-5/stable-diffusion-v1-5")["ai-hub/stable_diffusion_v1_5/unet"] == "denoiser"
    assert part_names("acme/asr")["acme/asr/decoder"] == "decoder"


def test_what_is_served_keeps_the_rates_that_it_has() -> None:
    served = Option(
        hardware="h", platform="cuda", precision="fp16", batch_size=None, basis="imported", latency_ms=100.0,
        throughput_per_s=10.0, tokens_per_s=7.0, concurrency=4,
    )  # fmt: skip
    assert rated([served], transcription()) == [served]
