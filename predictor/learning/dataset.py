"""Training rows: what a measurement says, reduced to what a predictor may learn from.

Simulated, retracted and invalid rows never train, nor measured rows that are suspect (imported ones seldom come with
the samples that would clear them, and are taken), nor rows whose work fell back to another device, rows without a
batch size, and repeats of a row. Software versions stay apart; nothing is averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from predictor.learning.features import Software, version_number

__all__ = ["Row", "SoftwareKey", "by_software", "minor_version", "row_from_event", "row_from_table", "training_rows"]

SoftwareKey = tuple[str, str, str, str, bool, bool, str]
"""(hardware, platform, runtime name, precision, compiled, channels last, runtime version to the minor)."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement. `latency_ms` is p50; where only a mean is known it stands in its place and `is_mean` says so."""

    model: str
    hardware: str
    platform: str
    precision: str
    batch_size: int
    latency_ms: float | None
    is_mean: bool = False
    throughput_per_s: float | None = None
    peak_memory_bytes: float | None = None
    mode: str = "inference"
    scenario: str | None = None
    image_size: int | None = None
    sequence_length: int | None = None
    runtime: str = ""
    runtime_version: str = ""
    compiled: bool = False
    layout: str | None = None
    count: int = 1
    origin: str = "measured"
    verdict: str = "valid"
    family: str | None = None
    fallback_share: float | None = None
    time: str | None = None
    position: int = 0
    event_id: str = ""
    run_id: str = ""
    configuration: str = ""

    @property
    def software(self) -> SoftwareKey:
        """What is calibrated together."""
        return (
            self.hardware, self.platform, self.runtime, self.precision, self.compiled, self.channels_last,
            minor_version(self.runtime_version),
        )  # fmt: skip

    @property
    def channels_last(self) -> bool:
        """Whether images lie with their channels last."""
        return (self.layout or "").lower() in ("nhwc", "channels_last")

    def features_software(self) -> Software:
        """What the features need of this row besides the trace and the device."""
        return Software(
            batch_size=self.batch_size,
            compiled=self.compiled,
            channels_last=self.channels_last,
            runtime_version=version_number(self.runtime_version),
            cpu=self.platform == "cpu",
            training=self.mode == "training",
        )


def minor_version(version: str) -> str:
    """Return `2.13` of `2.13.0`."""
    return ".".join(version.split(".")[:2])


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def row_from_table(row: Mapping[str, Any]) -> Row | None:
    """Return the training row of a row of the table `measurement`, or None where model or batch size is unknown."""
    batch = row.get("batch_size")
    platform = row.get("platform") or row.get("platform_asked")
    if not batch or not platform or not row.get("precision"):
        return None
    median, mean = row.get("latency_p50_ms"), row.get("latency_mean_ms")
    return Row(
        model=row.get("model_id") or row["model"],
        hardware=row.get("hardware_id") or row["hardware"],
        platform=platform,
        precision=row["precision"],
        batch_size=int(batch),
        latency_ms=median if median is not None else mean,
        is_mean=median is None and mean is not None,
        throughput_per_s=row.get("throughput_per_s"),
        peak_memory_bytes=row.get("device_memory_bytes") or row.get("peak_memory_bytes"),
        mode=row.get("mode") or "inference",
        scenario=row.get("scenario"),
        image_size=row.get("image_size"),
        sequence_length=row.get("sequence_length"),
        runtime=row.get("runtime") or row.get("runtime_name") or "",
        runtime_version=row.get("runtime_version") or "",
        compiled=bool(row.get("compiled")),
        layout=row.get("layout"),
        count=int(row.get("hardware_count") or 1),
        origin=row.get("origin") or "measured",
        verdict=row.get("verdict") or "valid",
        family=row.get("family"),
        fallback_share=row.get("fallback_share"),
        time=_text(row.get("time")),
        position=int(row.get("position") or 0),
        event_id=_text(row.get("event_id")) or "",
        run_id=_text(row.get("run_id")) or "",
        configuration=row.get("configuration") or "",
    )


def row_from_event(event: Mapping[str, Any], position: int = 0) -> Row | None:
    """Return the training row of a `measurement.recorded` event, as `row_from_table` does of a projected one."""
    data = event["data"]
    workload, execution, metrics = data["workload"], data["execution"], data["metrics"]
    observed = data.get("observed") or {}
    latency = metrics.get("latency_ms") or {}
    runtime = execution.get("runtime") or {}
    return row_from_table(
        {
            **{key: workload.get(key) for key in ("batch_size", "mode", "scenario", "image_size", "sequence_length")},
            "model": data["model"]["id"],
            "family": data["model"].get("family"),
            "hardware": data["hardware"]["id"],
            "hardware_count": data["hardware"].get("count", 1),
            "platform": observed.get("platform") or execution["platform"],
            "precision": observed.get("precision") or execution.get("precision"),
            "runtime": runtime.get("name"),
            "runtime_version": runtime.get("version"),
            "compiled": execution.get("compiled"),
            "layout": execution.get("layout"),
            "latency_p50_ms": latency.get("p50"),
            "latency_mean_ms": latency.get("mean"),
            "throughput_per_s": metrics.get("throughput_per_s"),
            "peak_memory_bytes": metrics.get("peak_memory_bytes"),
            "device_memory_bytes": metrics.get("device_memory_bytes"),
            "fallback_share": observed.get("fallback_share"),
            "origin": data["provenance"]["origin"],
            "verdict": (data.get("validity") or {}).get("verdict"),
            "time": event.get("time"),
            "event_id": event["id"],
            "run_id": data.get("run_id"),
            "position": position,
        }
    )


def training_rows(rows: Iterable[Row | None], mode: str = "inference") -> list[Row]:
    """Return the rows of a mode that may train, in their order.

    A repeated figure of the same configuration counts once.
    """
    kept: list[Row] = []
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        if row is None or row.mode != mode or not _may_train(row):
            continue
        same = (
            *row.software, row.model, row.mode, row.batch_size, row.image_size, row.sequence_length,
            row.count, row.latency_ms,
        )  # fmt: skip
        if same in seen:
            continue
        seen.add(same)
        kept.append(row)
    return kept


def _may_train(row: Row) -> bool:
    return (
        row.latency_ms is not None
        and row.latency_ms > 0
        and row.origin in ("measured", "imported")
        and (row.verdict == "valid" or (row.verdict == "suspect" and row.origin == "imported"))
        and (row.fallback_share or 0.0) == 0.0
        and row.count == 1
    )


def by_software(rows: Sequence[Row]) -> dict[SoftwareKey, list[int]]:
    """Return the indexes of the rows of each software configuration."""
    groups: dict[SoftwareKey, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row.software, []).append(index)
    return groups
