"""Sound in a page: its features are those of transformers' extractors, and rows have their time apart from the model's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from domain.configuration import Workload
from domain.errors import PartMissing
from runner.browser.locations import choose_browser
from runner.browser.page import Page, opened
from runner.browser.platform import extract
from runner.measure.preprocessing import REPEATS, extraction_of

pytestmark = pytest.mark.browser
SECONDS = {"whisper": 30.0, "clap": 10.0, "wav2vec2": 10.0}
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "whisper": {"input_features": (1, 80, 3000)},
    "clap": {"input_features": (1, 1, 1001, 64)},
    "wav2vec2": {"input_values": (1, 160_000)},
}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    try:
        program = choose_browser("chromium")
    except PartMissing as missing:
        if os.environ.get("ASSAY_REQUIRE_BROWSER"):
            raise
        pytest.skip(missing.detail)
    with opened(program) as it:
        yield it


def workload(family: str, **changes: Any) -> Workload:
    return Workload(mode="inference", batch_size=1, audio_seconds=changes.get("seconds", SECONDS[family]))


def sound(rate: int, seconds: float) -> numpy.ndarray[Any, Any]:
    """Speech has loud tones and quiet between them; so has this."""
    at = numpy.arange(int(rate * seconds)) / rate
    noise = numpy.random.default_rng(3).standard_normal(at.size) * 1e-3
    return ((numpy.sin(at * 2 * numpy.pi * (200 + 300 * at)) * (at % 1 < 0.6) + noise) * 0.5).astype(numpy.float32)


@pytest.mark.parametrize(
    ("family", "name", "options"),
    [
        ("whisper", "WhisperFeatureExtractor", {}),
        ("clap", "ClapFeatureExtractor", {"truncation": "rand_trunc"}),
        ("wav2vec2", "Wav2Vec2FeatureExtractor", {}),
    ],
)
def test_features_of_a_page_are_those_of_the_extractor(
    page: Page, family: str, name: str, options: dict[str, Any]
) -> None:
    import transformers

    extractor = getattr(transformers, name)(**options)
    extraction = extraction_of(None, family, workload(family), SHAPES[family])
    assert extraction is not None
    assert (extraction.extractor, extraction.source) == (name, "family")
    heard = sound(extraction.rate, extraction.seconds)
    times, features = extract(page, extraction, heard, reply=True)
    assert features is not None
    assert len(times) == REPEATS
    assert min(times) > 0
    reference = extractor(heard, sampling_rate=extraction.rate, return_tensors="np")
    (expected,) = [value for member, value in reference.items() if member.startswith("input_")]
    assert features.shape == numpy.squeeze(expected).shape
    assert numpy.abs(features - numpy.squeeze(expected)).max() < 1e-3
    assert numpy.corrcoef(features.ravel(), expected.ravel())[0, 1] > 0.999999


def test_what_another_extractor_does_is_left_to_it() -> None:
    assert extraction_of(None, "bert", workload("whisper"), {"input_ids": (1, 8)}) is None
    assert extraction_of(None, "clap", workload("clap"), {"input_features": (1, 4, 1001, 64)}) is None
    text = Workload(mode="inference", batch_size=1, sequence_length=8)
    assert extraction_of(None, "whisper", text, SHAPES["whisper"]) is None


def test_a_checkpoint_says_what_its_extractor_does(tmp_path: Path) -> None:
    import transformers

    transformers.WhisperFeatureExtractor(feature_size=128, chunk_length=5).save_pretrained(tmp_path)
    extraction = extraction_of(tmp_path, "whisper", workload("whisper", seconds=5.0), SHAPES["whisper"])
    assert extraction is not None
    assert (extraction.source, extraction.mels, extraction.seconds) == ("checkpoint", 128, 5.0)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=False).save_pretrained(tmp_path)
    assert extraction_of(tmp_path, "wav2vec2", workload("wav2vec2"), SHAPES["wav2vec2"]) is None
