"""A model of one's own by its config alone, of every kind: traced here, asked about, and its call said in a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.own_models import CLIP_TEXT, SAMPLE_CONFIGS, write_config, write_pipeline

ON = ("--hardware", "nvidia-l4", "--platform", "cuda", "--precision", "fp16", "--batch-sizes", "1")


def asked(typed: Any, path: Path, *words: str) -> dict[str, Any]:
    """The answer about a folder as JSON."""
    said, _ = typed("recommend", str(path), *ON, *words, "--json", code=0)
    return dict(json.loads(said))


@pytest.mark.parametrize(
    ("name", "unit", "what"),
    [
        ("text", "forward pass", "a forward pass of 128 tokens"),
        ("vision", "forward pass", "a forward pass of one image of 32 × 32 pixels"),
        ("unlisted-vision", "forward pass", "a forward pass of one image of 32 × 32 pixels"),
        ("speech", "transcription", "30 s of audio: one encoder pass and 100 generated tokens"),
        ("ctc", "transcription", "10 s of audio in one pass"),
        ("unlisted-speech", "transcription", "10 s of audio: one encoder pass and 34 generated tokens"),
        ("multimodal", "image and text", "one image and one text"),
        ("reads-pictures", "generation", "a prompt of 1,024 tokens and 128 generated tokens"),
        ("experts", "generation", "a prompt of 1,024 tokens and 128 generated tokens"),
    ],
)
def test_a_config_alone_is_enough(typed: Any, tmp_path: Path, name: str, unit: str, what: str) -> None:
    folder = write_config(tmp_path / f"own-{name}", SAMPLE_CONFIGS[name])
    answer = asked(typed, folder)
    assert answer["model"] == f"local/own-{name}"
    assert (answer["call"]["unit"], answer["call"]["what"]) == (unit, what)
    first = answer["ranked"][0]
    assert first["latency_ms"] > 0
    assert (first["realtime_factor"] is not None) == (unit == "transcription")


def test_a_pipeline_of_diffusers_is_asked_for_by_its_folder_or_its_index(typed: Any, tmp_path: Path) -> None:
    folder = write_pipeline(tmp_path / "own-pipeline")
    answer = asked(typed, folder)
    assert answer["call"]["what"] == "one image of 64 × 64 pixels in 50 steps, each with the prompt and without"
    few = asked(typed, folder / "model_index.json", "--steps", "5")
    assert (few["model"], few["workload"]) == (
        "local/own-pipeline",
        {"image_size": 64, "mode": "inference", "steps": 5},
    )
    assert 5 < answer["ranked"][0]["latency_ms"] / few["ranked"][0]["latency_ms"] < 10
    step = asked(typed, folder, "--call", "forward")
    assert step["call"]["unit"] == "forward pass"


def test_the_call_and_its_rate_stand_in_a_terminal_of_a_hundred_columns(
    typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    folder = write_config(tmp_path / "own-words", SAMPLE_CONFIGS["speech"])
    said, _ = typed("recommend", str(folder), *ON, "--audio-seconds", "95")
    # Commands are one line each, to be pasted.
    lines = said.partition("What to measure next")[0].splitlines()
    assert max(map(len, lines)) <= 100
    assert "one call: 95 s of audio: 4 encoder passes of 30 s and 317 generated tokens" in lines
    head = next(line for line in lines if line.lstrip().startswith("#"))
    assert "real time" in head
    assert any(line.startswith("assumed: 317 tokens") for line in lines)
    image, _ = typed("recommend", str(write_pipeline(tmp_path / "own-pictures")), *ON)
    assert "one call: one image of 64 × 64 pixels in 50 steps" in image
    predicted, _ = typed("predict", str(folder), "--hardware", "nvidia-l4", "--platform", "cuda", "--precision", "fp16")
    assert "call        30 s of audio: one encoder pass and 100 generated tokens" in predicted
    assert "real time   ×" in predicted


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"_class_name": "UnheardOfPipeline"}, "UnheardOfPipeline"),
        ({"_class_name": "StableDiffusionPipeline", "text_encoder": ["transformers", "CLIPTextModel"]}, "text_encoder"),
        ({"_class_name": "StableDiffusionPipeline"}, "denoiser"),
    ],
)
def test_a_pipeline_that_is_not_known_or_not_whole_says_so(
    typed: Any, tmp_path: Path, broken: dict[str, Any], said: str
) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "model_index.json").write_text(json.dumps(broken))
    _, told = typed("recommend", str(folder), *ON, code=2)
    assert said in told


def test_a_config_whose_sizes_cannot_be_is_refused_in_a_sentence(typed: Any, tmp_path: Path) -> None:
    folder = write_config(tmp_path / "own-odd", {**SAMPLE_CONFIGS["text"], "hidden_size": 33})
    _, told = typed("recommend", str(folder), *ON, code=2)
    assert "local/own-odd cannot be built from its config" in told
    alone = write_config(tmp_path / "own-encoder", {**CLIP_TEXT, "model_type": None})
    _, told = typed("recommend", str(alone), *ON, code=2)
    assert "model_type" in told
