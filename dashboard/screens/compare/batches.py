"""How a model scales with the batch: one line a way to run it, where it stops scaling, and how efficient each batch is."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any, NamedTuple

from dashboard import evidence, ratios
from dashboard.differences import EVIDENCE
from dashboard.ranking import completed
from dashboard.screens.compare import query
from dashboard.tables.result_table import Column, filled
from dashboard.work import Work, estimated
from domain.answers import ExcludedConfigurations
from domain.performance.batch_scaling import grouped, most_batches
from presentation import formatting
from presentation.answer_words import device_name, evidence_words
from presentation.charts import LATENCY, MEMORY, PANELS, THROUGHPUT, Metric, Row

__all__ = [
    "EFFICIENCY",
    "GAIN",
    "MOST_LINES",
    "Line",
    "Scaling",
    "Stop",
    "columns",
    "find",
    "joined",
    "rows_of",
    "sentence",
    "stop_of",
    "stop_words",
]

EFFICIENCY = PANELS["efficiency"]
GAIN = 0.10
"""Where twice the batch gives less than this much more throughput, a line has stopped scaling."""
MOST_LINES = 6
MOST_ASKED = 100
"""Lines that are read, of which the best are shown."""
LARGEST_ASKED = 256
SMALLEST_LAST = 64
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
    failed: list[ExcludedConfigurations]
    unpredicted: str | None


def find(
    model: str,
    hardware: Sequence[str],
    mode: str,
    basis: str,
    platforms: Sequence[str],
    precisions: Sequence[str],
    length: int | None,
    position: int,
) -> Scaling:
    """Return the lines of a model, on some hardware or (`hardware` empty) on each that measured it.

    Estimates fill the batches that a measured line lacks, unless `basis` is `measured`; with `all`, or where nothing was
    measured on a device that is named, they also make lines of their own.
    """

    def wanted(row: Row) -> bool:
        return (
            (not hardware or row.get("hardware") in hardware)
            and row.get("mode") in (mode, None)
            and bool(row.get("batch_size") and row.get(LATENCY.key))
            and (not platforms or row.get("platform") in platforms)
            and (not precisions or row.get("precision") in precisions)
        )

    answer = query.batches(
        model,
        mode,
        position,
        hardware=",".join(hardware) or None,
        platform=",".join(platforms) or None,
        precision=",".join(precisions) or None,
        sequence_length=length,
        lines=MOST_ASKED,
    )
    lines, work = _lines(answer["rows"]), Work(**({"sequence_length": length} if length else {}) | answer["work"])
    lines = _best(lines)
    others = answer["total"] - len(lines)
    seen = {str(points[0]["hardware"]) for points in lines}
    where = list(hardware) or sorted(seen)
    if basis == "measured" or not where:
        return _arranged(lines, work, others, [], None)
    document = estimated(model, where, mode, _batches(answer["batches"]), work, position)
    guessed = [row for row in document.rows if wanted(row)]
    failed = [row for row in document.excluded if _passes(row, platforms, precisions)]
    alone = None if basis == "all" or not lines else set(hardware) - seen
    filled = _filled(lines, guessed, alone)
    return _arranged(filled, work, others, failed, document.unpredicted)


def _best(lines: Sequence[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Return one line a device, of one device one a precision and platform: with most batches measured, then most throughput."""
    devices = {points[0]["hardware"] for points in lines}
    keys = ("hardware", "hardware_count") if len(devices) > 1 else _LIKE
    first: dict[Any, list[dict[str, Any]]] = {}
    for points in most_batches(lines, len(lines)):
        first.setdefault(tuple(points[0].get(key) or None for key in keys), points)
    return list(first.values())[:MOST_LINES]


def _lines(rows: Sequence[Row]) -> list[list[dict[str, Any]]]:
    """Return the points of each line as the service tells them."""
    documents: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        documents.setdefault(row["line"], []).append(
            completed({key: value for key, value in row.items() if key != "line"})
        )
    return list(documents.values())


def _passes(row: ExcludedConfigurations, platforms: Sequence[str], precisions: Sequence[str]) -> bool:
    return (not platforms or row.platform in platforms) and (
        not precisions or not row.precisions or bool(set(row.precisions) & set(precisions))
    )


def _batches(measured: Sequence[int]) -> list[int]:
    """Return the batches to ask for: those measured, and the powers of two up to the largest of them."""
    seen = set(measured)
    last = min(LARGEST_ASKED, max(seen | {SMALLEST_LAST}))
    return sorted(seen | {1 << power for power in range(last.bit_length()) if 1 << power <= last})


def _filled(
    lines: Sequence[list[dict[str, Any]]], guessed: Sequence[dict[str, Any]], alone: set[str] | None
) -> list[list[dict[str, Any]]]:
    """Put estimates where the lines that they are like have no point; what is like none makes lines on the hardware `alone` (None: on any)."""
    waiting: dict[Any, list[dict[str, Any]]] = {}
    for row in guessed:
        waiting.setdefault(tuple(row.get(key) or None for key in _LIKE), []).append(row)
    filled = []
    for points in lines:
        more = waiting.pop(tuple(points[0].get(key) or None for key in _LIKE), [])
        batch_sizes = {point["batch_size"] for point in points}
        whole = [*points, *(row for row in more if row["batch_size"] not in batch_sizes)]
        filled.append(sorted(whole, key=lambda row: int(row["batch_size"])))
    rest = [row for rows in waiting.values() for row in rows if alone is None or row["hardware"] in alone]
    return [*filled, *grouped(rest)]


def _arranged(
    lines: Sequence[list[dict[str, Any]]],
    work: Work,
    others: int,
    failed: list[ExcludedConfigurations],
    unpredicted: str | None,
) -> Scaling:
    """Name the lines that are shown; `others` more are known to the service alone."""
    kept = most_batches(lines, MOST_LINES)
    names = _names(kept)
    shown = [Line(ascii_uppercase[place], names[place], _efficient(points)) for place, points in enumerate(kept)]
    return Scaling(shown, work, others + len(lines) - len(kept), failed, unpredicted)


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
            said = {"threads": f"{value} threads", "hardware": device_name(str(value))}
            words.append(said.get(key, str(value)))
    return " · ".join(words)


def _efficient(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to each point the throughput of an item of its batch over that at batch 1; without batch 1 there is none."""
    item = next((point for point in points if point["batch_size"] == 1), {})
    efficient = []
    for point in points:
        ratio = ratios.of(point, item, THROUGHPUT.key, THROUGHPUT.low, THROUGHPUT.high)
        batch = point["batch_size"]
        document = ratios.Ratio(1.0, None, None) if batch == 1 and ratio.value else ratio
        shares = [None if end is None else end / batch for end in document]
        efficient.append({**point, **dict(zip((EFFICIENCY.key, EFFICIENCY.low, EFFICIENCY.high), shares, strict=True))})
    return efficient


def joined(line: Line, batches: Sequence[int]) -> list[tuple[Row, Row]]:
    """Return the neighbours that are joined: those between which the picture has no batch that this line lacks."""
    order = {batch: place for place, batch in enumerate(sorted(batches))}
    return [
        (point, other)
        for point, other in zip(line.points, line.points[1:], strict=False)
        if order[other["batch_size"]] - order[point["batch_size"]] == 1
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
    matching_points = [point for point in points if point[1].get("basis") in EVIDENCE] or points
    if not matching_points:
        return "No throughput is known"
    line, best = max(matching_points, key=lambda result: float(result[1][THROUGHPUT.key]))
    rate = formatting.throughput(best[THROUGHPUT.key], best.get(THROUGHPUT.low), best.get(THROUGHPUT.high))
    words = f"{line.name} gives most, {rate} at batch {best['batch_size']} ({evidence_words(best.get('basis'), best.get('origin'))})"
    return f"{words}; {stop_words(line)}"


def stop_words(line: Line) -> str:
    """Say where a line stops scaling, or that nothing known says so."""
    stop = stop_of(line)
    if stop is None:
        return "where it stops scaling is not known"
    # A gain near nothing is said as it is: a loss is no gain.
    change = f"{formatting.share(abs(stop.gain))} {'more' if stop.gain >= 0 else 'less'}"
    by = "" if stop.measured else ", by estimate"
    return f"it stops scaling at batch {stop.batch}: {2 * stop.batch} gives {change}{by}"


def rows_of(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return every point with the name of its line."""
    return [{"line": line.letter, "line_name": line.name, **point} for line in lines for point in line.points]


def columns(lines: Sequence[Line]) -> list[Column]:
    """Return every point: throughput and latency in their intervals, memory, efficiency, what it rests on."""
    rows: list[dict[str, Any]] = rows_of(lines)

    def measured(metric: Metric) -> Column:
        figures = [[row.get(key) for row in rows] for key in metric[:3]]
        scale = metric.scale(figures[0])
        shown = [scale.show(*each) for each in zip(*figures, strict=True)]
        return Column(head=metric.title, values=figures[0], shown=shown, low=figures[1], high=figures[2])

    memory, efficient = ([row.get(metric.key) for row in rows] for metric in (MEMORY, EFFICIENCY))
    size = MEMORY.scale(memory)
    drawn = [
        Column(
            head="Line",
            values=[f"{row['line']} {row['line_name']}" for row in rows],
            links=[evidence.about("hardware", str(row["hardware"])) for row in rows],
        ),
        Column(head="Batch", values=[row["batch_size"] for row in rows]),
        measured(THROUGHPUT),
        measured(LATENCY),
        Column(head="Memory", values=memory, shown=[size.show(value) for value in memory]),
        Column(head="Efficiency", values=efficient, shown=[formatting.share(value) for value in efficient]),
        Column(head="n", values=[row.get("n") for row in rows]),
        evidence.source_column(rows),
        Column(head="Verdict", values=[row.get("verdict") for row in rows]),
    ]
    return filled(drawn)
