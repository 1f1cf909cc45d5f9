"""Measurements of a small batch, read and counted in Python: DuckDB plans the same statements for longer than it works.

What is read here is what the statements `seen` and `standing` give. Where that is not certain, nothing is read, and the
statements read it: a text that the two JSON writers would not write alike, a member of another type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from domain.measured import Latency, Metrics, SamplesReference
from ingest.projection.facts import halves

__all__ = ["FEW", "SENT", "Standing", "StandingMemory", "grown", "read_few", "standing_table"]

FEW = 400
"""Events up to which reading in Python takes less time than planning takes in DuckDB."""
SENT = ("model", "hardware", "workload", "execution", "observed", "run_id", "environment", "provenance", "validity")
"""Members of the data that are kept as text; the columns are called `run_sent` for `run_id`."""
_ENVELOPE = ("position", "event_id", "type", "time", "recorded_at", "source", "attestation")
_INTERVALS = frozenset(("p90", "p95", "p99", "min", "max", "stddev"))
"""Intervals for which the tables keep the text of all."""
_LATENCY = ("mean", "min", "max", "stddev", "p50", "p90", "p95", "p99", "n")
_METRICS = tuple(name for name in Metrics.__struct_fields__ if name != "latency_ms")
_WHOLE = frozenset(("n", "samples_n", *(name for name in _METRICS if name.endswith("_bytes"))))
_CONDITIONS = ("stopped_by", "other_load", "clock_before_hz", "clock_after_hz", "energy_reading")
_TEXT = frozenset(("other_ci95", "stopped_by", "energy_reading"))
_FIGURES = (
    *_LATENCY,
    *("p50_low", "p50_high", "mean_low", "mean_high", "other_ci95"),
    *_METRICS,
    "samples_n",
    *_CONDITIONS,
)
_SCHEMA = pa.schema(
    [
        *((f"{name.removesuffix('_id')}_sent", pa.string()) for name in SENT),
        *(
            (name, pa.string() if name in _TEXT else pa.int64() if name in _WHOLE else pa.float64())
            for name in _FIGURES
        ),
    ]
)
_TIMED = ("p50", "mean", "throughput_per_s", "tokens_per_s", "ttft_ms", "tpot_ms", "realtime_factor")
"""Figures of which one makes a row a measurement of speed."""
_NOT_GENUINE = ("page", "simulated")
_RANK = 2**60
_LEAST, _MOST = 1e-4, 1e15
"""Between them both JSON writers write a number without an exponent."""

_STANDING = pa.schema(
    [
        *((name, pa.int64()) for name in ("subject", "measurements", "measured", "first_position", "last_position")),
        ("newest", pa.timestamp("us", tz="UTC")),
        ("environment_position", pa.int64()),
        ("environment_fingerprint", pa.string()),
        ("genuine", pa.int64()),
        ("genuine_position", pa.int64()),
        ("best", pa.int64()),
        ("timed", pa.int64()),
        ("genuine_high", pa.uint64()),
        ("genuine_low", pa.uint64()),
    ]
)
_GENUINE_EVENT = 10
"""Where a row by subject has the event; the table has its halves at the end."""
Standing = tuple[Any, ...]
"""A row of the table `standing` after its subject; moments in microseconds since 1970, the event as text."""


_REMEMBERED = 50_000
"""Rows of `standing` in memory, of some 600 bytes each."""


class _Conditions(msgspec.Struct):
    stopped_by: str | None = None
    other_load: float | None = None
    clock_before_hz: float | None = None
    clock_after_hz: float | None = None
    energy: msgspec.Raw = msgspec.Raw()


class _Odd(Exception):
    """It is for DuckDB to read."""


class _Data(msgspec.Struct):
    """Data of a measurement: the members of SENT as text, those that give figures as the gate's types."""

    metrics: Metrics
    model: msgspec.Raw = msgspec.Raw()
    hardware: msgspec.Raw = msgspec.Raw()
    workload: msgspec.Raw = msgspec.Raw()
    execution: msgspec.Raw = msgspec.Raw()
    observed: msgspec.Raw = msgspec.Raw()
    run_id: msgspec.Raw = msgspec.Raw()
    environment: msgspec.Raw = msgspec.Raw()
    provenance: msgspec.Raw = msgspec.Raw()
    validity: msgspec.Raw = msgspec.Raw()
    samples: SamplesReference | msgspec.UnsetType = msgspec.UNSET
    conditions: _Conditions | msgspec.UnsetType = msgspec.UNSET


class _Event(msgspec.Struct):
    data: _Data


_events = msgspec.json.Decoder(_Event)
_sent_of, _latency_of, _metrics_of = attrgetter(*SENT), attrgetter(*_LATENCY), attrgetter(*_METRICS)
_NO_LATENCY = Latency()


class StandingMemory:
    """Rows of the table `standing` by subject: as they were committed, and as the transaction under way wrote them.

    A subject that has no row here may have one in the table.
    """

    def __init__(self) -> None:
        self._committed: dict[int, Standing] = {}
        self._written: dict[int, Standing] = {}

    def row(self, subject: int) -> Standing | None:
        """Return the row of a subject, None where it is not in memory."""
        return self._written.get(subject) or self._committed.get(subject)

    def read(self, rows: Iterable[Sequence[Any]]) -> None:
        """Remember rows as they stand in the table, each with its subject first."""
        # The transaction may have written them before they were forgotten.
        self._written |= {subject: tuple(row) for subject, *row in rows}

    def write(self, rows: Mapping[int, Standing]) -> None:
        """Remember rows that the transaction under way has written."""
        self._written |= rows

    def forget(self, subjects: Iterable[int] | None = None) -> None:
        """Forget the rows of subjects (of all without), because statements change them."""
        if subjects is None:
            self._committed, self._written = {}, {}
        else:
            for subject in subjects:
                self._committed.pop(subject, None)
                self._written.pop(subject, None)

    def settle(self) -> None:
        """Take what the transaction wrote as committed; begin anew where that is more than is to be remembered."""
        self._committed |= self._written
        self._written = {}
        if len(self._committed) > _REMEMBERED:
            self._committed = {}

    def undo(self) -> None:
        """Forget what the transaction wrote."""
        self._written = {}


def read_few(batch: pa.Table) -> pa.Table | None:
    """Return of a batch of measurements the columns of `seen` that are written; None where DuckDB has to read it."""
    try:
        rows = [_row(body) for body in batch.column("body").cast(pa.binary()).to_pylist()]
    except (_Odd, msgspec.MsgspecError, RecursionError):
        return None
    columns = zip(_SCHEMA, zip(*rows, strict=True), strict=True)
    table = batch.select(_ENVELOPE)
    arrays = [pa.array(values, field.type) for field, values in columns]
    return pa.table([*table.columns, *arrays], schema=pa.schema([*table.schema, *_SCHEMA]))


def _row(body: bytes) -> tuple[Any, ...]:
    # No space, no name twice, no number in another form than the shortest: the text of a member is what DuckDB makes of it.
    if b"\\" in body or msgspec.json.encode(msgspec.json.decode(body)) != body:
        raise _Odd
    data = _events.decode(body).data
    sent = [str(text, "utf-8") for text in _sent_of(data)]
    if not all(map(_plain, sent)):
        raise _Odd
    metrics = data.metrics
    latency = metrics.latency_ms or _NO_LATENCY
    intervals = latency.ci95 or {}
    if not _INTERVALS.isdisjoint(intervals):
        raise _Odd
    return (
        *sent,
        *_latency_of(latency),
        *(intervals.get("p50") or (None, None)),
        *(intervals.get("mean") or (None, None)),
        None,
        *_metrics_of(metrics),
        data.samples.n if data.samples else None,
        *_of_series(data.conditions),
    )


def _of_series(conditions: _Conditions | msgspec.UnsetType) -> tuple[Any, ...]:
    if not conditions:
        return (None,) * len(_CONDITIONS)
    energy = bytes(conditions.energy).decode() or None
    if energy is not None and (energy == "null" or not _plain(energy)):
        raise _Odd
    return (
        conditions.stopped_by,
        conditions.other_load,
        conditions.clock_before_hz,
        conditions.clock_after_hz,
        energy,
    )


@lru_cache(4096)
def _plain(text: str) -> bool:
    """Whether DuckDB writes this text of a JSON value as msgspec does."""
    return not text or _plain_value(msgspec.json.decode(text))


def _plain_value(value: Any) -> bool:
    if isinstance(value, float):
        return value == 0.0 or _LEAST <= abs(value) < _MOST
    if isinstance(value, int):
        return abs(value) < 2**63
    if isinstance(value, dict):
        return all(map(_plain_value, value.values()))
    return not isinstance(value, list) or all(map(_plain_value, value))


def grown(measured: pa.Table, seen: pa.Table, before: Mapping[int, Standing]) -> dict[int, Standing]:
    """Return by subject what its measurements come to: those `before`, and those of a batch that nothing retracts."""
    result: dict[int, Standing] = {}
    timed = _any_of(measured, _TIMED)
    columns = (measured.column(name).to_pylist() for name in ("position", "event_id", "subject"))
    moments = (measured.column(name).cast(pa.int64()).to_pylist() for name in ("time", "recorded_at"))
    texts = (seen.column(f"{name}_sent").to_pylist() for name in ("provenance", "environment", "validity"))
    for position, event, subject, time, recorded_at, provenance, environment, validity, has_time in zip(
        *columns, *moments, *texts, timed, strict=True
    ):
        origin, fingerprint = _member(provenance, "origin"), _member(environment, "fingerprint")
        verdict = _member(validity, "verdict") or "suspect"
        genuine = origin not in _NOT_GENUINE
        counts = has_time and genuine
        rank = (2 * (origin == "measured") + (verdict == "valid")) * _RANK + position
        row: Standing = (
            int(has_time), int(has_time and origin == "measured"), position, position,
            recorded_at if time is None else time, None if fingerprint is None else position, fingerprint,
            int(genuine), *((position, event) if genuine else (None, None)),
            rank if counts and verdict != "invalid" else None, int(counts),
        )  # fmt: skip
        earlier = result.get(subject) or before.get(subject)
        result[subject] = row if earlier is None else _joined(earlier, row)
    return result


def standing_table(rows: Mapping[int, Standing]) -> pa.Table:
    """Return rows by subject as the table `standing` has them, in the order of the subjects."""
    columns = [list(column) for column in zip(*((subject, *rows[subject]) for subject in sorted(rows)), strict=True)]
    events = halves(columns.pop(_GENUINE_EVENT))
    arrays = [pa.array(values, field.type) for field, values in zip(_STANDING, columns, strict=False)]
    return pa.table([*arrays, *events], schema=_STANDING)


def _any_of(table: pa.Table, names: Sequence[str]) -> list[bool]:
    columns = (table.column(name).is_valid().to_pylist() for name in names)
    return [any(values) for values in zip(*columns, strict=True)]


def _joined(earlier: Standing, later: Standing) -> Standing:
    """Return the sum of two rows of one subject, of which the second is of later positions."""
    return (
        earlier[0] + later[0],
        earlier[1] + later[1],
        earlier[2],
        later[3],
        max(earlier[4], later[4]),
        *(earlier[5:7] if later[5] is None else later[5:7]),
        earlier[7] + later[7],
        *(earlier[8:10] if later[8] is None else later[8:10]),
        _most((earlier[10], later[10])),
        earlier[11] + later[11],
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


@lru_cache(4096)
def _member(text: str, name: str) -> str | None:
    return msgspec.json.decode(text).get(name) if text else None
