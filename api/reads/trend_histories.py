"""Which histories a model has, how many points each has, and their lines: from rows in memory where the newest state is asked."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from domain.comparison.regression import version_key
from domain.history.trend_series import FACT, Series, TrendLine
from ingest.projection import Tables
from ingest.projection.memory.histories import ModelHistory

__all__ = ["Window", "history_of", "lines", "matching", "measured", "most", "named", "pointed", "undated_of"]

Row = dict[str, Any]
Window = tuple[datetime | None, datetime | None]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@contextmanager
def history_of(tables: Tables, model: str) -> Iterator[ModelHistory]:
    """Give the measurements of a model by its canonical id, from memory where the newest state is asked for."""
    if tables.memory is None or tables.position != tables.checkpoint:
        yield ModelHistory(model, tables.select).read()
        return
    with tables.memory.histories.of_model(tables.snapshot, model, tables.select) as history:
        yield history


def matching(history: ModelHistory, filters: Mapping[str, Sequence[str] | None]) -> list[int]:
    """Return the subjects that have in each of these columns one of its values."""
    supplied = [(name, set(values)) for name, values in filters.items() if values is not None]
    subjects = history.parts.subjects
    return [each for each in history.alike if all(subjects[each][name] in values for name, values in supplied)]


def lines(
    history: ModelHistory,
    subjects: Iterable[int],
    columns: Sequence[str],
    window: Window,
    limit: int | None,
    *,
    along: str,
    undated: bool,
) -> list[Row]:
    """Return the lines of whole histories, those of the subjects, by their first points.

    Each has its points within a window of time, the newest `limit` of them, and how many there are. `columns` are those
    that may hold the metric; rows that do not say when they were measured are left out where `undated` is false.
    """
    alike = dict.fromkeys(history.alike[subject] for subject in subjects)
    made = _series(history, list(alike), columns, along, undated)
    of_all = [line for name in alike for line in made[name].lines.values()]
    return [_cut(history, line, window, limit) for line in sorted(of_all, key=lambda line: line.first)]


def named(
    history: ModelHistory, subjects: Iterable[int], columns: Sequence[str], window: Window, undated: bool = True
) -> list[Row]:
    """Return the lines of measurements that have one of the columns, by their first points; `count` is of those in the window.

    Those that do not say when they were measured are counted as `undated`, and in `count` where `undated` is true.
    """
    import numpy as np

    numbers, times, recorded, *values = history.columns(("subject", "time", "recorded_at", *columns))
    there = np.isin(np.array(numbers, np.int64), list(subjects))
    there &= np.any([[value is not None for value in column] for column in values], axis=0)
    without = np.array([time is None for time in times], bool)[there]
    moments = np.array([came if time is None else time for time, came in zip(times, recorded, strict=True)], np.int64)[
        there
    ]
    since, until = (None if moment is None else (moment - _EPOCH) // _MICROSECOND for moment in window)
    inside = np.ones(len(moments), bool) if since is None else moments >= since
    inside &= True if until is None else moments < until
    # Rows lie in the order of their positions, which a stable sort keeps.
    order = np.argsort(moments, kind="stable")
    each, first, of = np.unique(np.array(numbers, np.int64)[there][order], return_index=True, return_inverse=True)
    counts = [np.bincount(of, chosen[order], len(each)).astype(int).tolist() for chosen in (inside, inside & without)]
    found: dict[str, Row] = {}
    for place in np.argsort(first).tolist():
        subject, points, without_time = int(each[place]), counts[0][place], counts[1][place]
        name = history.parts.subjects[subject]["configuration"]
        line = found.get(name)
        if line is None:
            line = found[name] = {**history.line(subject), "points": [], "count": 0, "undated": 0}
        line["count"] += points - (0 if undated else without_time)
        line["undated"] += without_time
    return list(found.values())


def measured(history: ModelHistory, metrics: Mapping[str, Sequence[str]]) -> list[str]:
    """Return which metrics, by name with the columns that may hold each, some row of a model has."""
    return [metric for metric, columns in metrics.items() if any(history.has(name) for name in columns)]


def most(lines: Iterable[Row], top: int, also: Sequence[str] = ()) -> tuple[list[Row], int]:
    """Return the lines of the `top` histories with the most points, in their order, and how many histories there are.

    `also` are beginnings of the names of others that are kept.
    """
    lines = list(lines)
    counts = _counts(lines)
    kept = {alike for alike in counts if alike.startswith(tuple(also))}
    kept |= set(sorted(counts, key=lambda alike: -counts[alike])[:top])
    return [line for line in lines if line["alike"] in kept], len(counts)


def pointed(lines: Iterable[Row], top: int, chosen: Sequence[str]) -> list[str]:
    """Return the histories whose names begin as `chosen`, or where there are none the `top` with the most points.

    One of a single point is not among those while another has several.
    """
    counts = _counts(lines)
    chosen_histories = [alike for alike in counts if alike.startswith(tuple(chosen))]
    several = [alike for alike, count in counts.items() if count > 1] or list(counts)
    return chosen_histories or sorted(several, key=lambda alike: -counts[alike])[:top]


def undated_of(lines: Iterable[Row]) -> dict[str, int]:
    """Take from each line how many of its points are undated; return them by history, of those that have some."""
    counts: dict[str, int] = {}
    for line in lines:
        number = line.pop("undated")
        if number:
            counts[line["alike"]] = counts.get(line["alike"], 0) + number
    return counts


def _counts(lines: Iterable[Row]) -> dict[str, int]:
    """Return how many points each history has."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line["alike"]] = counts.get(line["alike"], 0) + line["count"]
    return counts


def _series(
    history: ModelHistory, alike: Sequence[str], columns: Sequence[str], along: str, undated: bool
) -> dict[str, Series]:
    """Return the series of some histories, each made once: rows that came since are added to it."""
    made = history.series.setdefault((tuple(columns), along, undated), {})
    while behind := [name for name in alike if name not in made or made[name].rows < len(history.places[name])]:
        new = {name: history.places[name][made[name].rows if name in made else 0 :] for name in behind}
        facts = _facts(history, sorted(itertools.chain(*new.values())), columns, along)
        for name, places in new.items():
            series = made.setdefault(name, Series(columns, history.parts))
            ordered = (facts[place] for place in places)
            series.rows += len(places)
            if not series.extend(sorted(item for item in ordered if undated or item[1][3] is not None)):
                del made[name]  # A row stands before what is there: the series is made anew.
    return made


def _facts(
    history: ModelHistory, places: Sequence[int], columns: Sequence[str], along: str
) -> dict[int, tuple[Any, tuple[Any, ...]]]:
    """Return some rows by their numbers, as `Series.extend` takes them; `places` are in order."""
    first, facts = places[0], history.columns(("position", *FACT, *columns), places[0])
    if len(places) < len(facts[0]):
        facts = [[values[place - first] for place in places] for values in facts]
    positions, events, times, recorded, subjects, contexts, judgements, *rest = facts
    history.read_parts(contexts, judgements)
    moments = [came if time is None else time for time, came in zip(times, recorded, strict=True)]
    orders: Iterable[Any] = zip(moments, positions, strict=True)
    if along == "version":
        versions = {key: version_key(row["runtime_version"]) for key, row in history.parts.subjects.items()}
        orders = zip([versions[subject] for subject in subjects], moments, positions, strict=True)
    texts = _texts(times), _texts(recorded)
    rows = zip(moments, positions, events, *texts, subjects, contexts, judgements, *rest, strict=True)
    return dict(zip(places, zip(orders, rows, strict=True), strict=True))


def _texts(times: Sequence[int | None]) -> list[str | None]:
    """Return times in µs since 1970 as answers have them, all at once: one by one they take as long as all the rest of a point."""
    import numpy as np

    texts = np.datetime_as_string(np.array([time or 0 for time in times], dtype="datetime64[us]")).tolist()
    return [
        None if time is None else f"{text.removesuffix('.000000')}Z" for time, text in zip(times, texts, strict=True)
    ]


def _cut(history: ModelHistory, line: TrendLine, window: Window, limit: int | None) -> Row:
    """Return a line with the points within a window of time, the newest of them, and how many there are."""
    since, until = (None if moment is None else (moment - _EPOCH) // _MICROSECOND for moment in window)
    points = line.points
    if since is not None or until is not None:
        points = [
            point
            for moment, point in zip(line.moments, points, strict=True)
            if (since is None or moment >= since) and (until is None or moment < until)
        ]
    count = len(points)
    points = list(points) if limit is None else points[count - min(limit, count) :]
    return {**history.line(line.subject), "points": points, "count": count}
