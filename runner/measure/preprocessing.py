"""Work before and after the model where a checkpoint brings it along: tokenizing, resizing, decoding words.

Only a folder on this machine is read, and code that it brings along is not run. What a checkpoint does not bring is
not timed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, Literal

import msgspec

from domain.configuration import Workload

__all__ = ["REPEATS", "Extraction", "extraction_of", "processing_times", "processor_in", "raw_items"]

_FILES = (
    ("processor_config.json", "AutoProcessor"),
    ("preprocessor_config.json", "AutoProcessor"),
    ("tokenizer.json", "AutoTokenizer"),
    ("tokenizer_config.json", "AutoTokenizer"),
)
REPEATS = 7
_WORD = "measure"
_SAMPLES_PER_SECOND = 16_000


def processing_times(folder: Path | None, workload: Workload) -> dict[str, float | None]:
    """Return `preprocess_ms` and `postprocess_ms` of one batch (medians of seven); None where there is nothing.

    `folder` holds the checkpoint, and None means that there is none.
    """
    untimed: dict[str, float | None] = {"preprocess_ms": None, "postprocess_ms": None}
    processor = None if folder is None or workload.mode == "training" else processor_in(folder)
    if processor is None:
        return untimed
    items = raw_items(processor, workload)
    before = None if items is None else _median_ms(lambda: processor(**items))
    after = None
    if workload.output_tokens and hasattr(processor, "batch_decode"):
        tokens = [[5] * workload.output_tokens] * (workload.batch_size or 1)
        after = _median_ms(lambda: processor.batch_decode(tokens, skip_special_tokens=True))
    return {"preprocess_ms": before, "postprocess_ms": after}


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """What an extractor does to the sound of one batch, said so that another program can do it.

    `kind`: `log10` is a log-mel spectrogram as Whisper takes it, `decibel` as CLAP does, `normalise` no mean and a
    deviation of one. `filters` are the mel filters, [1 + fft / 2, mels].
    """

    extractor: str
    source: Literal["checkpoint", "family"]
    """Who says so: the checkpoint, or the standard extractor of the family where there is none."""
    kind: Literal["log10", "decibel", "normalise"]
    rate: int
    seconds: float
    batch: int
    fft: int | None = None
    hop: int | None = None
    mels: int | None = None
    filters: Any = None

    def sound(self) -> Any:
        """Return one item of the batch, as it comes from outside: noise."""
        return _sound(self.rate, self.seconds)


def extraction_of(
    folder: Path | None, family: str | None, workload: Workload, shapes: Mapping[str, Sequence[int]]
) -> Extraction | None:
    """Return what is done to the sound of one batch; None for a model that takes none, or whose extractor does more.

    `shapes` are those of the model's inputs, by name: where no checkpoint says it, they tell the number of mel bands.
    """
    if not workload.audio_seconds:
        return None
    processor = None if folder is None else processor_in(folder)
    own = getattr(processor, "feature_extractor", processor)
    extractor = own if own is not None else _standard_extractor(family, shapes)
    steps = _steps(extractor, workload.audio_seconds)
    if steps is None:
        return None
    return Extraction(
        extractor=type(extractor).__name__,
        source="family" if own is None else "checkpoint",
        rate=int(extractor.sampling_rate),
        batch=workload.batch_size or 1,
        **steps,
    )


def _standard_extractor(family: str | None, shapes: Mapping[str, Sequence[int]]) -> Any:
    import transformers

    from runner.models.sizes import RAW_AUDIO

    features = shapes.get("input_features", ())
    if family == "whisper" and len(features) == 3:
        return transformers.WhisperFeatureExtractor(feature_size=features[1])
    if family == "clap" and len(features) == 4 and features[1] == 1:
        return transformers.ClapFeatureExtractor(feature_size=features[3], truncation="rand_trunc")
    if family in RAW_AUDIO and "input_values" in shapes:
        return transformers.Wav2Vec2FeatureExtractor()
    return None


def _steps(extractor: Any, seconds: float) -> dict[str, Any] | None:
    """Return the members of an extraction that differ from one class of extractors to another."""
    name = type(extractor).__name__
    if name == "Wav2Vec2FeatureExtractor" and extractor.do_normalize:
        return {"kind": "normalise", "seconds": seconds}
    mel = {"hop": getattr(extractor, "hop_length", None), "mels": getattr(extractor, "feature_size", None)}
    if name == "WhisperFeatureExtractor" and not extractor.dither:
        # It pads all sound to the length of its window.
        window = float(extractor.chunk_length)
        return {"kind": "log10", "seconds": window, "fft": extractor.n_fft, "filters": extractor.mel_filters, **mel}
    if name == "ClapFeatureExtractor" and extractor.truncation == "rand_trunc" and seconds <= extractor.max_length_s:
        window, filters = float(extractor.max_length_s), extractor.mel_filters_slaney
        return {"kind": "decibel", "seconds": window, "fft": extractor.fft_window_size, "filters": filters, **mel}
    return None


def processor_in(folder: Path) -> Any:
    """Return the processor, tokenizer, or extractor that a folder holds; None where it holds none that can be read."""
    import transformers

    for file, name in _FILES:
        if not (folder / file).is_file():
            continue
        # A configuration may name parts that are not there (a tokenizer's words, a package); the next one may do.
        with contextlib.suppress(OSError, ValueError, ImportError, KeyError, TypeError):
            return getattr(transformers, name).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return None


def raw_items(processor: Any, workload: Workload) -> dict[str, Any] | None:
    """Return one batch as it comes from outside, by the names of a processor's arguments; None for none known."""
    batch = workload.batch_size or 1
    words = " ".join([_WORD] * (workload.input_tokens or workload.sequence_length or 16))
    kind = type(processor).__name__
    parts: dict[str, Any] = {"return_tensors": "np"}
    if hasattr(processor, "tokenizer") or "Tokenizer" in kind:
        parts["text"] = [words] * batch
        if workload.input_tokens or workload.sequence_length:
            parts |= {"truncation": True, "max_length": workload.input_tokens or workload.sequence_length}
    if hasattr(processor, "image_processor") or "ImageProcessor" in kind:
        parts["images"] = _pictures(batch * (workload.images or 1), workload.image_size or 224)
    if hasattr(processor, "feature_extractor") or "FeatureExtractor" in kind:
        rate = _rate(processor)
        sound = [_sound(rate, workload.audio_seconds or 1.0)] * batch
        parts |= {("audio" if hasattr(processor, "feature_extractor") else "raw_speech"): sound, "sampling_rate": rate}
        # Recognizers take sound alone; words are their labels.
        parts.pop("text", None)
    return parts if len(parts) > 1 else None


def _rate(processor: Any) -> int:
    extractor = getattr(processor, "feature_extractor", processor)
    return int(getattr(extractor, "sampling_rate", None) or _SAMPLES_PER_SECOND)


def _pictures(count: int, side: int) -> list[Any]:
    import numpy as np

    # Larger than what the model takes, as pictures are, so that resizing is real work.
    pixels = np.random.default_rng(0).integers(0, 256, (side * 2, side * 2, 3), dtype=np.uint8)
    return [pixels] * count


def _sound(rate: int, seconds: float) -> Any:
    import numpy as np

    return np.random.default_rng(0).standard_normal(int(rate * seconds)).astype(np.float32)


def _median_ms(call: Callable[[], Any]) -> float:
    call()
    times = []
    for _ in range(REPEATS):
        started = perf_counter_ns()
        call()
        times.append((perf_counter_ns() - started) / 1e6)
    return median(times)
