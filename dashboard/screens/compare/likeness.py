"""What is the same work: in what a row is unlike the one that it is compared with, and the workload that makes rows alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dashboard.address import Comparison
from dashboard.differences import EVIDENCE
from presentation.charts import THROUGHPUT, Metric, Row
from presentation.loads import STATED_WORDS, is_stated

__all__ = ["PER_DEVICE", "are_alike", "differing", "per_device", "same_workload", "unlike"]

PER_DEVICE = Metric(
    "throughput_per_device_per_s",
    "throughput_per_device_per_s_low",
    "throughput_per_device_per_s_high",
    "Throughput per device",
    THROUGHPUT.scale,
    "larger is better",
)
_WORK = {
    "mode": "{}",
    "precision": "{}",
    "batch_size": "batch {}",
    "sequence_length": "length {}",
    "image_size": "{} px",
    "images": "{} images",
    "audio_seconds": "{} s of audio",
    "frames": "{} frames",
    "input_tokens": "{} tokens in",
    "output_tokens": "{} tokens out",
    "steps": "{} steps",
    "concurrency": "{} at a time",
    "arrival_rate_per_s": "{} requests/s",
    "hardware_count": "{} devices",
    "scenario": "{}",
    "hardware_stated": "{}",
}
"""What has to be the same where figures are compared, and how a row says that it is not."""
_OF_EVIDENCE = ("scenario", "hardware_stated")
"""An estimate has no such thing: only evidence is unlike by it."""
_NAMES = {
    "precision": "precision",
    "batch_size": "batch",
    "sequence_length": "length",
    "hardware_count": "number of devices",
    "concurrency": "load",
    "arrival_rate_per_s": "load",
    "scenario": "load",
    "hardware_stated": "who saw the hardware",
    "image_size": "image size",
    "input_tokens": "tokens",
    "output_tokens": "tokens",
}
_UNSAID = {"hardware_count": 1, "scenario": "single_stream"}
"""What a row means that does not say: one device, and one request after another."""
_SETTABLE = {"precision": "precision", "batch_size": "batch", "sequence_length": "length"}
"""Fields of a row that the workload of the page sets, with its parameters."""


def per_device(rows: Sequence[Row], metric: Metric) -> tuple[list[Any], Metric]:
    """Return the rows with their throughput for each device, and that as the metric, where they have several; else both as they are."""
    if metric is not THROUGHPUT or all((row.get("hardware_count") or 1) == 1 for row in rows):
        return list(rows), metric
    keys = dict(zip(PER_DEVICE[:3], THROUGHPUT[:3], strict=True))

    def shared(row: Row, key: str) -> float | None:
        value = row.get(key)
        return None if value is None else value / (row.get("hardware_count") or 1)

    return [{**row, **{name: shared(row, key) for name, key in keys.items()}} for row in rows], PER_DEVICE


def unlike(row: Row, other: Row) -> dict[str, str]:
    """Return the fields in which a row is other work than `other`, with the row's own value in words."""
    evidence = all(each.get("basis") in EVIDENCE for each in (row, other))
    fields = [name for name in _WORK if name not in _OF_EVIDENCE or evidence]
    return {name: _words(name, _value(row, name)) for name in fields if _value(row, name) != _value(other, name)}


def are_alike(row: Row, other: Row, metric: Metric) -> bool:
    """Say whether the figures of two rows are of the same work; what is counted for each device may be of any number of them."""
    return not set(unlike(row, other)) - ({"hardware_count"} if metric is PER_DEVICE else set())


def differing(rows: Sequence[Row]) -> list[str]:
    """Return the names of the fields in which rows are unlike the first of them."""
    fields = dict.fromkeys(name for row in rows[1:] for name in unlike(row, rows[0]))
    return list(dict.fromkeys(_NAMES.get(name, name.replace("_", " ")) for name in fields))


def same_workload(comparison: Comparison, rows: Sequence[Row], whole: Mapping[str, Any]) -> Comparison | None:
    """Return the comparison at one workload: of each thing that can be set, the value that most rows have.

    Of values as frequent it is the one that was measured most. What the rows share is set as well: the best variant at another
    batch may have another precision. None where nothing that can be set differs.
    """
    if all(len({row.get(key) for row in rows}) == 1 for key in _SETTABLE):
        return None
    changes: dict[str, Any] = {}
    for key, parameter in _SETTABLE.items():
        counted = Counter(row[key] for row in rows if row.get(key) is not None)
        if not counted:
            continue
        usual = [item[key] for item in whole.get(key, ())]
        best = min(counted, key=lambda value: (-counted[value], usual.index(value) if value in usual else len(usual)))
        changes[parameter] = (best,) if key == "precision" else best
    return msgspec.structs.replace(comparison, **changes)


def _value(row: Row, name: str) -> Any:
    if name == "hardware_stated":
        return is_stated(row)
    return row.get(name) or _UNSAID.get(name)


def _words(name: str, value: Any) -> str:
    if name == "hardware_stated":
        return STATED_WORDS if value else "seen by the runner"
    if name == "hardware_count" and value == 1:
        return "1 device"
    if value is None:
        return f"{_NAMES.get(name, name.replace('_', ' '))} not said"
    return _WORK[name].format(f"{value:g}" if isinstance(value, float) else value)
