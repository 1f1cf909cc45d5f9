"""How a model scales with the batch: one line a way to run it, where it stops scaling, and how efficient each batch is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any, NamedTuple

import pandas as pd
from pandas.io.formats.style import Styler

from assay import numbers
from dashboard import evidence, ratios
from dashboard.answers import comparing
from dashboard.charts import LATENCY, MEMORY, PANELS, THROUGHPUT, Row
from dashboard.differences import EVIDENCE
from dashboard.palette import badge
from dashboard.ranking import completed
from dashboard.work import Work, estimated, most_measured, work_of

__all__ = [
    "EFFICIENCY",
    "GAIN",
    "MOST_LINES",
    "Line",
    "Scaling",
    "Stop",
    "find",
    "joined",
    "rows_of",
    "sentence",
    "stop_of",
    "stop_words",
    "table",
]

EFFICIENCY = PANELS["efficiency"]
GAIN = 0.10
"""Where twice the batch gives less than this much more throughput, a line has stopped scaling."""
MOST_LINES = 6
LARGEST_ASKED = 256
SMALLEST_LAST = 64
_METHOD = (
    "hardware", "hardware_count", "platform", "precision", "compiled", "runtime", "threads", "scenario", "concurrency",
    "arrival_rate_per_s",
)  # fmt: skip
_LIKE = ("hardware", "platform", "precision", "compiled")


class Stop(NamedTuple):
    """Where a line stops scaling: the batch, what its double gives more, and whether both are evidence."""

    batch: int
    gain: float
    measured: bool


class Line(NamedTuple):
    """One way to run a model, by rising batch; `letter` names it on the picture."""

    letter: str
    name: str
    points: list[dict[str, Any]]

    @property
    def measured(self) -> int:
        """How many of its points are evidence."""
        return sum(point.get("basis") in EVIDENCE for point in self.points)


class Scaling(NamedTuple):
    """The lines that are shown, at one work; how many are not, what failed, and why nothing is predicted where nothing is."""

    lines: list[Line]
    work: Work
    left_out: int
    failed: list[dict[str, Any]]
    unpredicted: str | None


def find(
    model: str, hardware: str, mode: str, basis: str, platforms: Sequence[str], precisions: Sequence[str], position: int
) -> Scaling:
    """Return the lines of a model, on one hardware or (`hardware` empty) on each that measured it.

    Estimates fill the batches that a measured line lacks, unless `basis` is `measured`; with `all`, or where nothing was
    measured, they also make lines of their own.
    """

    def wanted(row: Row) -> bool:
        return (
            hardware in ("", row.get("hardware"))
            and row.get("mode") in (mode, None)
            and bool(row.get("batch_size") and row.get(LATENCY.key))
            and (not platforms or row.get("platform") in platforms)
            and (not precisions or row.get("precision") in precisions)
        )

    seen = [
        completed(row)
        for row in comparing.of_model(
            model,
            mode,
            position,
            hardware=hardware or None,
            platform=",".join(platforms) or None,
            precision=",".join(precisions) or None,
        )["rows"]
        if wanted(row)
    ]
    work = most_measured(seen)
    lines = _grouped([row for row in seen if work_of(row) == work])
    where = list(dict.fromkeys(str(points[0]["hardware"]) for points in _first(lines))) or [hardware] * bool(hardware)
    if basis == "measured" or not where:
        return _arranged(lines, work, [], None)
    told = estimated(model, where, mode, _batches(lines), work, position)
    guessed = [row for row in told.rows if wanted(row)]
    failed = [row for row in told.excluded if _passes(row, platforms, precisions)]
    return _arranged(_filled(lines, guessed, alone=basis == "all" or not lines), work, failed, told.unpredicted)


def _passes(row: Row, platforms: Sequence[str], precisions: Sequence[str]) -> bool:
    listed = row.get("precisions") or ()
    return (not platforms or row.get("platform") in platforms) and (
        not precisions or not listed or bool(set(listed) & set(precisions))
    )


def _grouped(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rows by method, each by rising batch; of one batch the fastest."""
    found: dict[Any, dict[int, dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: float(row[LATENCY.key])):
        found.setdefault(tuple(row.get(key) for key in _METHOD), {}).setdefault(row["batch_size"], row)
    return [[points[batch] for batch in sorted(points)] for points in found.values()]


def _first(lines: Sequence[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Return the lines that are shown: those with most batches measured, then the ones with most throughput."""

    def weight(points: Sequence[Row]) -> tuple[int, float]:
        evidence_rows = sum(point.get("basis") in EVIDENCE for point in points)
        return -evidence_rows, -max(float(point.get(THROUGHPUT.key) or 0) for point in points)

    return sorted(lines, key=weight)[:MOST_LINES]


def _batches(lines: Sequence[Sequence[Row]]) -> list[int]:
    """Return the batches to ask for: those measured, and the powers of two up to the largest of them."""
    seen = {int(point["batch_size"]) for points in lines for point in points}
    last = min(LARGEST_ASKED, max(seen | {SMALLEST_LAST}))
    return sorted(seen | {1 << power for power in range(last.bit_length()) if 1 << power <= last})


def _filled(
    lines: Sequence[list[dict[str, Any]]], guessed: Sequence[dict[str, Any]], *, alone: bool
) -> list[list[dict[str, Any]]]:
    """Put estimates where the lines that they are like have no point; what is like none makes lines `alone`."""
    waiting: dict[Any, list[dict[str, Any]]] = {}
    for row in guessed:
        waiting.setdefault(tuple(row.get(key) or None for key in _LIKE), []).append(row)
    filled = []
    for points in _first(lines):
        more = waiting.pop(tuple(points[0].get(key) or None for key in _LIKE), [])
        known = {point["batch_size"] for point in points}
        whole = [*points, *(row for row in more if row["batch_size"] not in known)]
        filled.append(sorted(whole, key=lambda row: int(row["batch_size"])))
    others = [points for points in lines if not any(points[0] is one for whole in filled for one in whole)]
    return [*filled, *others, *(_grouped([row for rows in waiting.values() for row in rows]) if alone else [])]


def _arranged(
    lines: Sequence[list[dict[str, Any]]], work: Work, failed: list[dict[str, Any]], unpredicted: str | None
) -> Scaling:
    kept = _first(lines)
    names = _names(kept)
    shown = [Line(ascii_uppercase[place], names[place], _efficient(points)) for place, points in enumerate(kept)]
    return Scaling(shown, work, len(lines) - len(kept), failed, unpredicted)


def _names(lines: Sequence[Sequence[Row]]) -> list[str]:
    """Name each line by hardware, platform and precision, and by what else tells it from a line of that name."""
    names = [_named(points[0], ("hardware", "platform", "precision", "compiled")) for points in lines]
    return [
        name if names.count(name) == 1 else f"{name} · {_named(points[0], ('runtime', 'threads', 'scenario'))}"
        for name, points in zip(names, lines, strict=True)
    ]


def _named(row: Row, keys: Sequence[str]) -> str:
    words = []
    for key in keys:
        value = row.get(key)
        if key == "compiled":
            words += ["compiled"] * bool(value)
        elif value is not None:
            words.append(f"{value} threads" if key == "threads" else str(value))
    return " · ".join(words)


def _efficient(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to each point the throughput of an item of its batch over that at batch 1; without batch 1 there is none."""
    one = next((point for point in points if point["batch_size"] == 1), {})
    found = []
    for point in points:
        ratio = ratios.of(point, one, THROUGHPUT.key, THROUGHPUT.low, THROUGHPUT.high)
        batch = point["batch_size"]
        told = ratios.Ratio(1.0, None, None) if batch == 1 and ratio.value else ratio
        shares = [None if end is None else end / batch for end in told]
        found.append({**point, **dict(zip((EFFICIENCY.key, EFFICIENCY.low, EFFICIENCY.high), shares, strict=True))})
    return found


def joined(line: Line, batches: Sequence[int]) -> list[tuple[Row, Row]]:
    """Return the neighbours that are joined: those between which the picture has no batch that this line lacks."""
    order = {batch: place for place, batch in enumerate(sorted(batches))}
    return [
        (one, other)
        for one, other in zip(line.points, line.points[1:], strict=False)
        if order[other["batch_size"]] - order[one["batch_size"]] == 1
    ]


def stop_of(line: Line) -> Stop | None:
    """Return the batch from which no known doubling gives `GAIN` more throughput; None where the last one still does."""
    rates = {point["batch_size"]: point for point in line.points if point.get(THROUGHPUT.key)}
    stop = None
    for batch in sorted(rates, reverse=True):
        if 2 * batch not in rates:
            continue
        pair = rates[batch], rates[2 * batch]
        gain = pair[1][THROUGHPUT.key] / pair[0][THROUGHPUT.key] - 1
        if gain >= GAIN:
            break
        stop = Stop(batch, gain, all(row.get("basis") in EVIDENCE for row in pair))
    return stop


def sentence(lines: Sequence[Line]) -> str:
    """Say which line gives most at which batch, and where it stops scaling; evidence speaks before estimates."""
    points = [(line, point) for line in lines for point in line.points if point.get(THROUGHPUT.key)]
    known = [found for found in points if found[1].get("basis") in EVIDENCE] or points
    if not known:
        return "No throughput is known"
    line, best = max(known, key=lambda found: float(found[1][THROUGHPUT.key]))
    rate = numbers.throughput(best[THROUGHPUT.key], best.get(THROUGHPUT.low), best.get(THROUGHPUT.high))
    words = (
        f"{line.name} gives most, {rate} at batch {best['batch_size']} ({badge(best.get('basis'), best.get('origin'))})"
    )
    return f"{words}; {stop_words(line)}"


def stop_words(line: Line) -> str:
    """Say where a line stops scaling, or that nothing known says so."""
    stop = stop_of(line)
    if stop is None:
        return "where it stops scaling is not known"
    # A gain near nothing is said as it is: a loss is no gain.
    change = f"{numbers.share(abs(stop.gain))} {'more' if stop.gain >= 0 else 'less'}"
    by = "" if stop.measured else ", by estimate"
    return f"it stops scaling at batch {stop.batch}: {2 * stop.batch} gives {change}{by}"


def rows_of(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return every point with the name of its line."""
    return [{"line": line.letter, "line_name": line.name, **point} for line in lines for point in line.points]


def table(lines: Sequence[Line]) -> Styler:
    """Return every point: latency, throughput, memory, efficiency, what it rests on."""
    rows: list[dict[str, Any]] = rows_of(lines)
    time, rate, size = (metric.scale([row.get(metric.key) for row in rows]) for metric in (LATENCY, THROUGHPUT, MEMORY))
    figures: Mapping[str, list[float | None]] = {
        f"Latency {time.unit}": [time.of(row.get(LATENCY.key)) for row in rows],
        "low": [time.of(row.get(LATENCY.low)) for row in rows],
        "high": [time.of(row.get(LATENCY.high)) for row in rows],
        f"Throughput {rate.unit}": [rate.of(row.get(THROUGHPUT.key)) for row in rows],
        f"Memory {size.unit}": [size.of(row.get(MEMORY.key)) for row in rows],
        "Efficiency %": [None if row.get("efficiency") is None else 100 * row["efficiency"] for row in rows],
    }
    floats = {head: pd.Series(values, dtype="float64") for head, values in figures.items()}
    frame = pd.DataFrame(
        {
            "Line": [f"{row['line']} {row['line_name']}" for row in rows],
            "Batch": pd.Series([row["batch_size"] for row in rows], dtype="Int64"),
            **floats,
            "n": pd.Series([row.get("n") for row in rows], dtype="Int64"),
            "Basis": [badge(row.get("basis"), row.get("origin")) for row in rows],
            "Verdict": [str(row.get("verdict") or numbers.MISSING) for row in rows],
            "Evidence": [evidence.path_of(row) for row in rows],
        }
    )
    return frame.style.format(dict.fromkeys(floats, numbers.significant), na_rep=numbers.MISSING)
