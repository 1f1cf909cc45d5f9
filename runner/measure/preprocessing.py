"""Work before and after the model where a checkpoint brings it along: tokenizing, resizing, decoding words.

Only a folder on this machine is read, and code that it brings along is not run. What a checkpoint does not bring is
not timed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

from domain.configuration import Workload

__all__ = ["processing_times", "processor_in", "raw_items"]

_FILES = (
    ("processor_config.json", "AutoProcessor"),
    ("preprocessor_config.json", "AutoProcessor"),
    ("tokenizer.json", "AutoTokenizer"),
    ("tokenizer_config.json", "AutoTokenizer"),
)
_REPEATS = 7
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
    for _ in range(_REPEATS):
        started = perf_counter_ns()
        call()
        times.append((perf_counter_ns() - started) / 1e6)
    return median(times)
