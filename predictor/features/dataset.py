"""Training rows: what a measurement says, reduced to what a predictor may learn from.

Simulated, retracted and invalid rows never train, nor measured rows that are suspect (imported ones seldom come with
the samples that would clear them, and are taken), nor rows whose work fell back to another device, rows without a
batch size, and repeats of a row. Software versions stay apart; nothing is averaged. Requests that a service answered teach
of serving alone: their times hold a queue, a network and other requests, and their hardware is what somebody stated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from domain.measured import STATED

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "COLUMNS",
    "TARGETS",
    "Row",
    "SoftwareKey",
    "by_software",
    "measured_target",
    "minor_version",
    "row_from_event",
    "row_from_table",
    "taught",
    "training_rows",
    "version_key",
    "without_runs",
]

SoftwareKey = tuple[str, str, str, str, bool, bool, str]
"""(hardware, platform, runtime name, precision, compiled, channels last, runtime version to the minor)."""


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One measurement. `latency_ms` is p50; where only a mean is known it stands in its place and `is_mean` says so.

    `precision` is empty where an imported row does not say it.
    """

    model: str
    hardware: str
    platform: str
    precision: str
    batch_size: int | None
    latency_ms: float | None = None
    is_mean: bool = False
    latency_p90_ms: float | None = None
    latency_p95_ms: float | None = None
    latency_p99_ms: float | None = None
    latency_n: int | None = None
    throughput_per_s: float | None = None
    tokens_per_s: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    peak_memory_bytes: float | None = None
    energy_j: float | None = None
    power_w: float | None = None
    mode: str = "inference"
    scenario: str | None = None
    image_size: int | None = None
    sequence_length: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    steps: int | None = None
    concurrency: int | None = None
    optimizer: str | None = None
    gradient_checkpointing: bool = False
    runtime: str = ""
    runtime_version: str = ""
    compiled: bool = False
    layout: str | None = None
    threads: int | None = None
    parallelism: dict[str, Any] = {}
    options: dict[str, Any] = {}
    count: int = 1
    hardware_kind: str | None = None
    origin: str = "measured"
    source: str | None = None
    verdict: str = "valid"
    family: str | None = None
    category: str | None = None
    fallback_share: float | None = None
    device: str | None = None
    time: str | None = None
    position: int = 0
    event_id: str = ""
    run_id: str = ""
    configuration: str = ""

    @property
    def software(self) -> SoftwareKey:
        """What is calibrated together."""
        return (
            self.hardware,
            self.platform,
            self.runtime,
            self.precision,
            self.compiled,
            self.channels_last,
            minor_version(self.runtime_version),
        )

    @property
    def channels_last(self) -> bool:
        """Whether images lie with their channels last."""
        return (self.layout or "").lower() in ("nhwc", "channels_last")

    @property
    def sizes(self) -> tuple[Any, ...]:
        """What one item of the workload is."""
        return (
            self.sequence_length,
            self.image_size,
            self.images,
            self.audio_seconds,
            self.frames,
            self.input_tokens,
            self.output_tokens,
            self.steps,
        )

    @property
    def shared(self) -> bool:
        """Whether several ranks shared one device: what they took together is not what one process takes."""
        return self.count == 1 and any((size or 1) > 1 for size in self.parallelism.values())

    @property
    def same(self) -> tuple[Any, ...]:
        """What two rows of one configuration have in common, also where the log did not name it."""
        return (
            *self.software,
            self.model,
            self.mode,
            self.scenario,
            self.batch_size,
            *self.sizes,
            self.concurrency,
            self.optimizer,
            self.gradient_checkpointing,
            self.threads,
            repr(sorted(self.parallelism.items())),
            repr(sorted(self.options.items(), key=repr)),
            self.count,
        )


@lru_cache(maxsize=1024)
def minor_version(version: str) -> str:
    """Return `2.13` of `2.13.0`."""
    return ".".join(version.split(".")[:2])


@lru_cache(maxsize=1024)
def version_key(version: str) -> tuple[int, ...]:
    """Return a version's numbers, so that 2.9 comes before 2.13."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def without_runs(measurements: pa.Table, runs: Collection[str]) -> pa.Table:
    """Return a table of measurements without those of some runs, before each row becomes a Python object."""
    import pyarrow as pa
    import pyarrow.compute as pc

    run_ids = measurements["run_id"]
    return measurements.filter(pc.invert(pc.is_in(run_ids, value_set=pa.array(sorted(runs), run_ids.type))))


def row_from_table(row: Mapping[str, Any]) -> Row | None:
    """Return the training row of a row of the view `measurements`, or None where the platform is unknown."""
    platform = row.get("platform") or row.get("platform_asked")
    if not platform:
        return None
    median, mean = row.get("latency_p50_ms"), row.get("latency_mean_ms")
    return Row(
        model=row.get("model_id") or row["model"],
        hardware=row.get("hardware_id") or row["hardware"],
        platform=platform,
        precision=row.get("precision") or "",
        latency_ms=median if median is not None else mean,
        is_mean=median is None and mean is not None,
        peak_memory_bytes=row.get("device_memory_bytes") or row.get("peak_memory_bytes"),
        mode=row.get("mode") or "inference",
        runtime=row.get("runtime") or row.get("runtime_name") or "",
        runtime_version=row.get("runtime_version") or "",
        compiled=bool(row.get("compiled")),
        gradient_checkpointing=bool(row.get("gradient_checkpointing")),
        parallelism=_object(row.get("parallelism")),
        options=_object(row.get("options")),
        count=int(row.get("hardware_count") or 1),
        origin=row.get("origin") or "measured",
        source=row.get("provenance_source"),
        verdict=row.get("verdict") or "valid",
        time=_text(row.get("time")),
        position=int(row.get("position") or 0),
        event_id=_text(row.get("event_id")) or "",
        run_id=_text(row.get("run_id")) or "",
        configuration=row.get("configuration") or "",
        **{name: row.get(name) for name in _AS_THEY_ARE},
    )


_AS_THEY_ARE = (
    "batch_size",
    "latency_p90_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "latency_n",
    "throughput_per_s",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "energy_j",
    "power_w",
    "scenario",
    "image_size",
    "sequence_length",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "optimizer",
    "layout",
    "threads",
    "hardware_kind",
    "family",
    "category",
    "fallback_share",
    "device",
)
COLUMNS = (
    "position",
    "event_id",
    "time",
    "run_id",
    "configuration",
    "model_id",
    "hardware_id",
    "hardware_count",
    "mode",
    "gradient_checkpointing",
    "platform",
    "platform_asked",
    "precision",
    "runtime_name",
    "runtime_version",
    "compiled",
    "parallelism",
    "options",
    "latency_mean_ms",
    "latency_p50_ms",
    "peak_memory_bytes",
    "device_memory_bytes",
    "verdict",
    "origin",
    "provenance_source",
    *_AS_THEY_ARE,
)
"""Columns of the view `measurements` that `row_from_table` reads."""
_OF_WORKLOAD = (
    "batch_size",
    "mode",
    "scenario",
    "image_size",
    "sequence_length",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "optimizer",
    "gradient_checkpointing",
)
_OF_METRICS = (
    "throughput_per_s",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "peak_memory_bytes",
    "device_memory_bytes",
    "energy_j",
    "power_w",
)


def _object(value: Any) -> dict[str, Any]:
    """A JSON column comes as text, an event's member as it is."""
    if not value or value == "{}":
        return {}
    if isinstance(value, str):
        value = msgspec.json.decode(value)
    return {name: item for name, item in (value or {}).items() if item is not None}


def row_from_event(event: Mapping[str, Any], position: int = 0) -> Row | None:
    """Return the training row of a `measurement.recorded` event, as `row_from_table` does of a projected one."""
    data = event["data"]
    workload, execution, metrics = data["workload"], data["execution"], data["metrics"]
    observed = data.get("observed") or {}
    latency = metrics.get("latency_ms") or {}
    runtime = execution.get("runtime") or {}
    return row_from_table(
        {
            **{key: workload.get(key) for key in _OF_WORKLOAD},
            **{key: metrics.get(key) for key in _OF_METRICS},
            **{f"latency_{key}_ms": latency.get(key) for key in ("mean", "p50", "p90", "p95", "p99")},
            **{key: execution.get(key) for key in ("compiled", "layout", "threads", "parallelism", "options")},
            "model": data["model"]["id"],
            "family": data["model"].get("family"),
            "category": data["model"].get("category"),
            "hardware": data["hardware"]["id"],
            "hardware_kind": data["hardware"].get("kind"),
            "hardware_count": data["hardware"].get("count", 1),
            "platform": observed.get("platform") or execution["platform"],
            "precision": observed.get("precision") or execution.get("precision"),
            "runtime": runtime.get("name"),
            "runtime_version": runtime.get("version"),
            "latency_n": latency.get("n"),
            "fallback_share": observed.get("fallback_share"),
            "device": observed.get("device"),
            "origin": data["provenance"]["origin"],
            "provenance_source": data["provenance"].get("source"),
            "verdict": (data.get("validity") or {}).get("verdict"),
            "time": event.get("time"),
            "event_id": event["id"],
            "run_id": data.get("run_id"),
            "position": position,
        }
    )


TARGETS = ("latency", "throughput", "memory", "ttft", "tpot", "energy")
"""What is predicted. Throughput is learned as its inverse, the time of one item or token."""


def measured_target(row: Row, target: str) -> float | None:
    """Return what a row says of a target in seconds, bytes or joules, or None where it says nothing of use.

    A figure that is not a positive finite number says nothing. `throughput` gives seconds an item (or a token, where
    tokens are counted).
    """
    value: float | None
    if target == "latency":
        value = None if row.latency_ms is None else row.latency_ms / 1e3
    elif target == "throughput":
        value = _seconds_each(row)
    elif target == "memory":
        value = row.peak_memory_bytes
    elif target == "energy":
        value = row.energy_j
    else:
        milliseconds = row.ttft_ms if target == "ttft" else row.tpot_ms
        value = None if milliseconds is None else milliseconds / 1e3
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _seconds_each(row: Row) -> float | None:
    if row.tokens_per_s or row.throughput_per_s:
        rate = row.tokens_per_s or row.throughput_per_s or math.nan
        return 1 / rate if rate > 0 else None
    if row.latency_ms and row.batch_size:
        return row.latency_ms / 1e3 / row.batch_size
    return None


def training_rows(
    rows: Iterable[Row | None], target: str = "latency", mode: str | None = "inference", *, served: bool = False
) -> list[Row]:
    """Return the rows that may teach a target, in their order; of one mode, or of both where it is None.

    They are of single calls, or with `served` of whatever was asked of a service too. A repeated figure of the same
    configuration counts once.
    """
    kept: list[Row] = []
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        value = None if row is None else taught(row, target, mode, served=served)
        if row is None or value is None or (figure := (*row.same, value)) in seen:
            continue
        seen.add(figure)
        kept.append(row)
    return kept


def taught(row: Row, target: str = "latency", mode: str | None = "inference", *, served: bool = False) -> float | None:
    """Return the figure that a row may teach of a target in a mode (None: in both); None where it may teach none."""
    if (mode is not None and row.mode != mode) or not _may_train(row) or not (served or _single_call(row)):
        return None
    return measured_target(row, target)


def _may_train(row: Row) -> bool:
    # In the server scenario latency is that of a queue, and the rate what was asked for.
    queued = row.origin == "measured" and row.scenario == "server"
    return (
        not queued
        and row.origin in ("measured", "imported")
        and (row.verdict == "valid" or (row.verdict == "suspect" and row.origin == "imported"))
        and (row.fallback_share or 0.0) == 0.0
    )


def _single_call(row: Row) -> bool:
    return row.scenario not in ("serving", "server") and (row.concurrency or 1) == 1 and row.device != STATED


def by_software(rows: Sequence[Row]) -> dict[SoftwareKey, list[int]]:
    """Return the indexes of the rows of each software configuration."""
    groups: dict[SoftwareKey, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row.software, []).append(index)
    return groups
