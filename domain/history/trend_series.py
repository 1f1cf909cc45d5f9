"""The points of a history as trends show them: each value with its interval, and what changed since the one before."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from domain.comparison.comparison_sides import RUNS_KEPT
from domain.comparison.regression import change_of, is_same, judged, parts_changed
from domain.configuration import browser_of, decoded_options
from domain.figures import FIGURES, Figure, doubts_of, interval_of
from domain.measured import STATED
from domain.verdicts import ENERGY

__all__ = ["FACT", "LINE", "WHOLE", "Parts", "Series", "TrendLine", "line_of"]

Row = Mapping[str, Any]
LINE = (
    "configuration",
    "platform",
    "precision",
    "mode",
    "scenario",
    "batch_size",
    "sequence_length",
    "image_size",
    "compiled",
    "layout",
    "threads",
    "weights",
    "runtime_version",
    "hardware_count",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "arrival_rate_per_s",
)
WHOLE = ("model_id", "hardware_id", "device", "runtime_name", "workload", "execution")
"""What is read of a configuration for its line, and for what it is alike in."""
_SPREAD = (
    "latency_n",
    "latency_stddev_ms",
    "latency_p50_ms",
    "latency_p50_ci95_low_ms",
    "latency_p50_ci95_high_ms",
    "latency_mean_ms",
    "latency_mean_ci95_low_ms",
    "latency_mean_ci95_high_ms",
)
"""What `domain.figures` needs for the interval of any metric."""
FACT = ("event_id", "time", "recorded_at", "subject", "context", "judgement", *_SPREAD)
"""What `Series.extend` takes of a measurement after its moment and position; the columns of the metric follow.

Times are RFC 3339 in UTC, or None; `subject`, `context` and `judgement` name its parts.
"""
_DOUBTED = ("simulated", "page", "invalid")
_POINT_BYTES = 130
"""About what a point takes beside its text."""


class Parts(NamedTuple):
    """What many measurements share, by id; environments by fingerprint.

    Subjects are rows of `LINE` and `WHOLE`. Contexts: run, environment and origin. Judgements: the verdict, that on
    energy, the reasons, and the verdicts on single metrics.
    """

    subjects: dict[int, Row]
    contexts: dict[int, tuple[Any, ...]]
    judgements: dict[int, tuple[Any, ...]]
    environments: dict[str, dict[str, Any]]


class TrendLine:
    """Points of one configuration in their order, each as JSON text, and their moments in µs."""

    __slots__ = ("first", "moments", "points", "subject")

    def __init__(self, subject: int, first: Any) -> None:
        self.subject = subject
        """That of the first point."""
        self.first = first
        """What orders the line among others: the order of its first point."""
        self.moments: list[int] = []
        self.points: list[msgspec.Raw] = []


class _Point(msgspec.Struct, gc=False):
    time: str | None
    recorded_at: str
    position: int
    event_id: str
    run_id: str
    origin: str
    verdict: str | None
    runtime_version: str | None
    environment: str | None
    value: float
    low: float | None
    high: float | None
    n: int | None
    is_mean: bool
    changed: Sequence[Row]
    step: Row | None


class _Compared(msgspec.Struct, gc=False):
    """A row that is compared with others."""

    place: tuple[str, str | None, str]
    """Its configuration, environment and origin: runs of one place tell how much runs differ."""
    event_id: str
    values: Sequence[Any]
    doubts: list[str]


class _Column:
    """A column that may hold the metric, and where its value and its own interval stand among those of a row."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        self.name = name
        self.index = names.index(name)
        interval = FIGURES[name].interval
        self.interval = None if interval is None else (names.index(interval[0]), names.index(interval[1]))


class Series:
    """Takes the measurements of one history in their order and gives one line a configuration, for one metric.

    `columns` are those that may hold the metric, the one to show first.
    """

    def __init__(self, columns: Sequence[str], parts: Parts) -> None:
        self.lines: dict[str, TrendLine] = {}
        self.rows = 0
        """How many rows of the history were offered, those left out included; counted by the caller."""
        self.last: Any = None
        """The order of the newest row."""
        self.bytes = 0
        self._names = (*_SPREAD, *columns)
        self._columns = [_Column(name, self._names) for name in columns]
        self._energy = columns[0] in ENERGY
        self._metric = FIGURES[columns[0]].metric
        self._parts = parts
        self._encode = msgspec.json.Encoder().encode
        self._judgements: dict[int, tuple[str | None, list[str]]] = {}
        self._before: tuple[Row, str | None, str] | None = None
        """Subject, environment and origin of the row before."""
        self._sure: _Compared | None = None
        """The newest row that is not suspect, or the first of its origin: later rows are compared with it, suspect ones too."""
        self._runs: deque[Sequence[Any]] = deque(maxlen=RUNS_KEPT)
        """The values of such rows at the place of the newest one, which is the last."""

    def extend(self, ordered: Iterable[tuple[Any, Sequence[Any]]]) -> bool:
        """Add measurements, each with what orders it; return False where one would stand before what is there.

        A measurement is its moment and position, `FACT`, and the columns of the metric.
        """
        for order, fact in ordered:
            if self.last is not None and order < self.last:
                return False
            self.last = order
            self._take(order, *fact)
        return True

    def _take(
        self,
        order: Any,
        moment: int,
        position: int,
        event_id: str,
        time: str | None,
        recorded_at: str,
        subject_id: int,
        context_id: int,
        judgement_id: int,
        *values: Any,
    ) -> None:
        shown = next((column for column in self._columns if values[column.index] is not None), None)
        if shown is None:
            return
        subject, (run_id, fingerprint, origin) = self._parts.subjects[subject_id], self._parts.contexts[context_id]
        verdict, doubts = self._judgement(judgement_id)
        place = subject["configuration"], fingerprint, origin
        changed: Sequence[Row] = ()
        step = None
        if origin not in _DOUBTED and verdict not in _DOUBTED:
            changed = self._changed(subject, fingerprint, origin)
            step = self._step(_Compared(place, event_id, values, doubts))
        low, high = self._interval(shown, values)
        text = self._encode(
            _Point(
                time,
                recorded_at,
                position,
                event_id,
                run_id,
                origin,
                verdict,
                subject["runtime_version"],
                fingerprint,
                float(values[shown.index]),
                low,
                high,
                values[0],
                shown.name == "latency_mean_ms",
                changed,
                step,
            )
        )
        line = self.lines.get(place[0]) or self.lines.setdefault(place[0], TrendLine(subject_id, order))
        line.moments.append(moment)
        line.points.append(msgspec.Raw(text))
        self.bytes += len(text) + _POINT_BYTES

    def _judgement(self, judgement_id: int) -> tuple[str | None, list[str]]:
        """Return the verdict on the metric, and why it is doubted."""
        judgement = self._judgements.get(judgement_id)
        if judgement is None:
            on_times, on_energy, reasons, metrics = self._parts.judgements[judgement_id]
            verdict = on_energy if self._energy else on_times
            row = {"verdict": verdict, "verdict_reasons": reasons, "metric_verdicts": metrics}
            judgement = self._judgements[judgement_id] = verdict, doubts_of(row, self._metric)
        return judgement

    def _step(self, row: _Compared) -> dict[str, Any] | None:
        """Compare the value of a row with the newest one of its origin that is not suspect."""
        sure = self._sure
        if sure is None or sure.place[2] != row.place[2]:
            step = None
        else:
            step = self._judged(sure, row)
            if row.doubts:
                return step
        if sure is None or sure.place != row.place:
            self._runs.clear()
        self._runs.append(row.values)
        self._sure = row
        return step

    def _judged(self, sure: _Compared, row: _Compared) -> dict[str, Any] | None:
        for column in self._columns:
            value, value_now = sure.values[column.index], row.values[column.index]
            if value is None or value_now is None:
                continue
            if is_same(float(value), float(value_now)):
                return None
            runs = self._runs_of(column)
            before = self._figure(column, sure, runs)
            after = self._figure(column, row, [*runs, float(value_now)] if sure.place == row.place else [])
            state, why, between = judged(before, after, column.name)
            ratio = change_of(before.value, after.value) if before.value else None
            low, high = between or (None, None)
            return {"state": state, "change": ratio, "low": low, "high": high, "why": why, "from": sure.event_id}
        return None

    def _runs_of(self, column: _Column) -> list[float]:
        """Return the values of the newest runs in a row that have a column, oldest first."""
        newest = itertools.takewhile(
            lambda value: value is not None, (values[column.index] for values in reversed(self._runs))
        )
        return [float(value) for value in newest][::-1]

    def _figure(self, column: _Column, row: _Compared, runs: list[float]) -> Figure:
        low, high = self._interval(column, row.values)
        value = float(row.values[column.index])
        return Figure(value=value, low=low, high=high, doubts=row.doubts, runs=runs[-RUNS_KEPT:])

    def _interval(self, column: _Column, values: Sequence[Any]) -> tuple[float | None, float | None]:
        if column.interval is not None and values[column.index]:
            low, high = values[column.interval[0]], values[column.interval[1]]
            if low is not None and high is not None:
                return low, high
        return interval_of(dict(zip(self._names, values, strict=True)), column.name) or (None, None)

    def _changed(self, subject: Row, fingerprint: str | None, origin: str) -> Sequence[Row]:
        """Return what is not as it was at the row before, where that is of the same origin."""
        before, self._before = self._before, (subject, fingerprint, origin)
        if before is None or before[2] != origin:
            return ()
        old, new = before[1], fingerprint
        version, version_now = before[0]["runtime_version"], subject["runtime_version"]
        if old == new and version == version_now:
            return ()
        environments = self._parts.environments
        changed = [
            {"part": part, "before": value, "after": value_now}
            for part, value, value_now in parts_changed(old, new, environments, environments)
        ]
        if version != version_now:
            part = f"runtime {subject['runtime_name'] or ''}".strip()
            changed.append({"part": part, "before": version, "after": version_now})
        return changed


def line_of(subject: Row, alike: str) -> dict[str, Any]:
    """Return the line of a configuration, without points."""
    line = {name: subject[name] for name in LINE}
    return line | {
        "hardware": subject["hardware_id"],
        "hardware_id": subject["hardware_id"],
        "runtime": subject["runtime_name"],
        "browser": browser_of(decoded_options(subject["execution"]).get("options"))[0],
        "hardware_stated": subject["device"] == STATED,
        "alike": alike,
        "points": [],
    }
