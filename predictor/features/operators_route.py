"""The route of traced work: rows whose model has an operator trace and whose device has figures, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.catalogues.hardware import HardwareSpec
from domain.performance.roofline import OPERATOR_CLASSES, Limits, limits_of
from predictor.features.dataset import Row, measured_target, version_key
from predictor.features.features import FEATURES, Features, Software, features_of, version_number
from predictor.features.table import Table
from predictor.features.traces import Trace, TraceBook

__all__ = ["SpecOf", "as_run", "asked", "distinct", "features_of_many", "relimited", "software_of", "tabulate"]

FUSED_SINCE = (2, 0)
PASSES, MIXED_PASSES = 6.0, 14.0
"""How often the scores are moved, in elements of the activations' size: written, scaled (read, write), normalised (read,
write), read; under mixed precision 28 bytes in the place of 2 an element, because normalising reads and writes fp32."""
_ATTENTION = OPERATOR_CLASSES.index("attention")


def as_run(traces: Sequence[Trace], rows: Sequence[Row]) -> list[Trace]:
    """Return the trace of each row with the traffic of its software; rows of a fused runtime keep theirs."""
    made: dict[tuple[int, float], Trace] = {}
    answer: list[Trace] = []
    for trace, row in zip(traces, rows, strict=True):
        passes = _passes(row)
        if passes and (id(trace), passes) not in made:
            made[id(trace), passes] = _unfused(trace, passes)
        answer.append(made[id(trace), passes] if passes else trace)
    return answer


def _passes(row: Row) -> float:
    if row.runtime != "torch" or not row.runtime_version or version_key(row.runtime_version) >= FUSED_SINCE:
        return 0.0
    return MIXED_PASSES if row.precision.startswith("amp") else PASSES


def _unfused(trace: Trace, passes: float) -> Trace:
    # Two products of 2 · scores · inner operations each make up the work of one attention.
    scores = np.where(trace.class_index == _ATTENTION, trace.flops / np.maximum(4 * trace.inner, 1.0), 0.0)
    return msgspec.structs.replace(trace, activations=trace.activations + passes * scores)


SpecOf = Callable[[str], HardwareSpec | None]
_TIMES = ("latency", "throughput")


def software_of(row: Row) -> Software:
    """Return what the features need of a row besides the trace and the device."""
    return Software(
        batch_size=row.batch_size or 1,
        compiled=row.compiled,
        channels_last=row.channels_last,
        runtime_version=version_number(row.runtime_version),
        cpu=row.platform == "cpu",
        training=row.mode == "training",
    )


def tabulate(rows: Sequence[Row], book: TraceBook, spec_of: SpecOf, target: str = "latency") -> Table:
    """Return the table of those rows whose model is traced at that size and whose device has the figures.

    The target is the time of a call in seconds, whether `latency` or `throughput` is asked: one follows from the other.
    """
    existing: dict[tuple[str, str, str], Limits | None] = {}
    kept: list[Row] = []
    traces: list[Trace] = []
    limits: list[Limits] = []
    measured: list[float] = []
    dropped: Counter[str] = Counter()
    for row in rows:
        value = measured_target(row, "latency" if target in _TIMES else target)
        of_row = _of_row(row, value, book, spec_of, existing)
        if isinstance(of_row, str):
            dropped[of_row] += 1
            continue
        kept.append(row)
        traces.append(of_row[0])
        limits.append(of_row[1])
        measured.append(value or 0.0)
    traces = as_run(traces, kept)
    features = features_of_many(traces, limits, [software_of(row) for row in kept])
    return Table(
        target=target,
        rows=kept,
        names=FEATURES,
        values=features.values,
        prior=features.prior_s,
        measured=np.array(measured, dtype=np.float64),
        subjects=list(traces),
        limits=list(limits),
        architecture=np.array([trace.architecture for trace in traces], dtype=str),
        family=np.array(
            [trace.family or row.family or row.model for trace, row in zip(traces, kept, strict=True)], dtype=str
        ),
        dropped=dict(dropped),
    )


def _of_row(
    row: Row,
    value: float | None,
    book: TraceBook,
    spec_of: SpecOf,
    limits: dict[tuple[str, str, str], Limits | None],
) -> tuple[Trace, Limits] | str:
    """Return trace and limits, or why the row stays out."""
    if value is None:
        return "no figure of the target"
    if not row.batch_size:
        return "no batch size"
    if row.count != 1:
        return "several devices"
    if row.shared:
        return "several ranks"
    trace = book.find_for(row)
    if trace is None:
        return "no trace"
    key = (row.hardware, row.precision, row.platform)
    if key not in limits:
        spec = spec_of(row.hardware)
        limits[key] = None if spec is None else limits_of(spec, row.precision, row.platform)
    return (trace, limits[key]) if limits[key] is not None else "no peak or bandwidth"  # type: ignore[return-value]


def asked(trace: Trace, rows: Sequence[Row], limits: Sequence[Limits]) -> Table:
    """Return the table of configurations of one model that were not measured: `measured` is NaN throughout."""
    traces = as_run([trace] * len(rows), rows)
    first, back = distinct(traces, limits, rows)
    features = features_of_many(
        [traces[index] for index in first],
        [limits[index] for index in first],
        [software_of(rows[index]) for index in first],
    )
    return Table(
        target="latency",
        rows=list(rows),
        names=FEATURES,
        values=features.values[back],
        prior=features.prior_s[back],
        measured=np.full(len(rows), np.nan),
        subjects=list(traces),
        limits=list(limits),
        architecture=np.array([trace.architecture] * len(rows), dtype=str),
        family=np.array([trace.family or trace.model] * len(rows), dtype=str),
    )


def distinct(
    subjects: Sequence[Trace], limits: Sequence[Limits | None], rows: Sequence[Row]
) -> tuple[list[int], NDArray[np.intp]]:
    """Return the indexes of rows that differ in features or work, and for each row the place among them of its like.

    Limits are the same where they are one object, as those of `candidates` are: half-precision formats share them.
    """
    matches: dict[tuple[object, ...], int] = {}
    first: list[int] = []
    back = np.empty(len(rows), dtype=np.intp)
    for index, (subject, limit, row) in enumerate(zip(subjects, limits, rows, strict=True)):
        work = (
            id(subject),
            id(limit),
            row.batch_size,
            row.platform,
            row.compiled,
            row.layout,
            row.runtime_version,
            row.mode,
        )
        place = matches.setdefault(work, len(first))
        if place == len(first):
            first.append(index)
        back[index] = place
    return first, back


def relimited(table: Table, limits: Sequence[Limits]) -> Table:
    """Return the table with other limits of its devices: prior and features made again, everything else as it is."""
    features = features_of_many(table.subjects, limits, [software_of(row) for row in table.rows])
    return msgspec.structs.replace(table, values=features.values, prior=features.prior_s, limits=list(limits))


def features_of_many(traces: Sequence[Trace], limits: Sequence[Limits], software: Sequence[Software]) -> Features:
    """Return the features of configurations of several traces, in their order; each trace is worked on once."""
    values = np.zeros((len(traces), len(FEATURES)))
    prior = np.zeros(len(traces))
    groups: dict[int, list[int]] = {}
    for index, trace in enumerate(traces):
        groups.setdefault(id(trace), []).append(index)
    for indexes in groups.values():
        part = features_of(
            traces[indexes[0]], [limits[index] for index in indexes], [software[index] for index in indexes]
        )
        values[indexes] = part.values
        prior[indexes] = part.prior_s
    return Features(values=values, prior_s=prior)
