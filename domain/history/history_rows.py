"""Rows of measurements, tests and failures put together into the histories of one configuration.

A configuration is one history across versions of its runtime, drivers, libraries and machines of one hardware
(`domain.comparison.comparison_input.alike_of`). Rows are those of the views `measurements`, `tests` and `failures`, or of
events (`row_of_event`), with `alike`, `position`, `time`, `source` and, where known, `recorded_at`, `branch`, `commit` and
`pull_request` of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from domain.comparison.regression import FIRST_OF
from domain.comparison.thresholds import MEASURING
from domain.figures import FIGURES, described, figure_of
from domain.history.history import History, Point
from domain.vocabulary import BENCH_FLAGS

__all__ = ["ALSO", "POINTS_NEEDED", "histories_of_rows", "row_order"]

POINTS_NEEDED = 8
"""With fewer points nothing is confirmed."""
ALSO = ("ttft_ms", "tpot_ms", "peak_memory_bytes")
"""Figures that are followed beside how fast the calls were."""
_DEFAULT_SOURCE = "assay-runner/"
"""A runner whose source begins so has no name of its own: it changes with the libraries."""
Row = Mapping[str, Any]


def histories_of_rows(
    measured: Sequence[Row],
    outcomes: Sequence[Row],
    metrics: Sequence[str] = (),
    subjects: Mapping[str, Row] | None = None,
) -> Iterator[History]:
    """Yield the histories of one configuration, of its figures and then of its tests; rows are in the order of time.

    `outcomes` are tests, and failures, which have no `test`. `metrics` names figures and tests; by default how fast the
    calls were, the times to and per token, memory, and every test are followed. `subjects` has what names a configuration,
    by its key, where rows do not have it themselves.
    """
    for column in _columns(measured, metrics):
        points = [(row, point) for row in measured if (point := _figure_point(row, column)) is not None]
        yield _history(points, column, subjects)
    tests: dict[str, list[Row]] = {}
    for row in outcomes:
        if row["outcome"] != "skipped":
            tests.setdefault(row.get("test") or MEASURING, []).append(row)
    for test, rows in sorted(tests.items()):
        if not metrics or test in metrics:
            attempts = sorted([*rows, *measured], key=row_order) if test == MEASURING else rows
            yield _history([(row, _test_point(row)) for row in attempts], test, subjects)


def row_order(row: Row) -> tuple[Any, int]:
    """Return what orders rows by time; a clock that runs ahead of the log counts as the log's."""
    times = [time for time in (row.get("time"), row.get("recorded_at")) if time is not None]
    return min(times), row["position"]


def _columns(measured: Sequence[Row], metrics: Sequence[str]) -> list[str]:
    """Return which figures are followed: those named, or how fast the calls were, times to and per token, and memory."""
    counts = Counter(name for row in measured for name in (*FIRST_OF, *ALSO, *metrics) if row.get(name) is not None)
    if metrics:
        return [name for name in dict.fromkeys(metrics) if counts[name] and name in FIGURES]
    speed = max(FIRST_OF, key=lambda name: counts[name])
    return [name for name in (speed, *ALSO) if counts[name]]


def _history(points: Sequence[tuple[Row, Point]], metric: str, subjects: Mapping[str, Row] | None) -> History:
    row, figure = points[-1][0], FIGURES.get(metric)
    newest = row if subjects is None else subjects[row["configuration"]]
    return History(
        alike=row["alike"],
        title=described(newest),
        model=newest["model_id"],
        hardware=newest["hardware_id"],
        platform=newest["platform"],
        precision=newest["precision"],
        metric=metric,
        unit=figure.unit if figure else "",
        better="lower" if figure and figure.better == "lower" else "higher",
        kind="performance" if figure else "functional",
        configuration=row["configuration"],
        mode=newest["mode"],
        batch_size=newest["batch_size"],
        bench=_bench_words(newest),
        points=[point for _, point in points],
    )


def _bench_words(subject: Row) -> list[str]:
    """Return the words of `assay bench` for sizes and threads of a configuration."""
    sizes = [(flag, subject.get(name)) for name, flag in BENCH_FLAGS.items()]
    words = [
        word
        for flag, value in (*sizes, ("--threads", subject.get("threads")))
        if value
        for word in (flag, f"{value:g}")
    ]
    return [*words, "--compiled"] if subject.get("compiled") else words


def _figure_point(row: Row, column: str) -> Point | None:
    figure = figure_of(row, column)
    if figure is None:
        return None
    return _point(row, figure.value, low=figure.low, high=figure.high, doubts=figure.doubts)


def _test_point(row: Row) -> Point:
    """Return 1 of what passed or was measured, and 0 of what did not."""
    outcome = row.get("outcome") or "passed"
    return _point(row, float(outcome == "passed"), outcome=outcome)


def _point(row: Row, value: float, **members: Any) -> Point:
    source = str(row["source"])
    return Point(
        event_id=str(row["event_id"]),
        position=row["position"],
        value=value,
        time=row.get("time"),
        recorded_at=row.get("recorded_at"),
        run_id=row.get("run_id"),
        runtime=" ".join(filter(None, (row.get("runtime_name"), row.get("runtime_version")))) or None,
        environment=row.get("environment_fingerprint"),
        machine=None if source.startswith(_DEFAULT_SOURCE) else source,
        branch=row.get("branch"),
        commit=row.get("commit"),
        pull_request=row.get("pull_request"),
        **members,
    )
