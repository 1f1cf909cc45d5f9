"""How cost grows, as docs/benchmarks.md shows it: the table of the kept results, their power laws, and their picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import msgspec

from benchmarks.power_law import PowerLaw, fit
from benchmarks.rows.growth import CURVES
from presentation import formatting
from presentation.charts import chart_files
from presentation.charts.axes import axis, reach_of
from presentation.charts.frame import Rows
from presentation.palette import BASIS_MARKS, DIVERGING, INKS

__all__ = ["Grown", "Point", "grown", "picture", "section", "shortages"]

FAR = {"events": 100_000_000, "training rows": 1_000_000}
"""The size that is extrapolated, by what sizes count."""
STORED = ("postgres", "duckdb", "archive")
QUESTIONS = ("compare", "trends", "recommend", "runs", "query")
PANELS: Mapping[str, tuple[str, ...]] = {
    "Rates, events/s": ("append", "project"),
    "Processor of an event, µs": ("append_processor", "project_processor"),
    "Questions, ms": QUESTIONS,
    "Processor of a question, ms": tuple(f"{name}_processor" for name in QUESTIONS),
    "Rebuild, s": ("rebuild", "rebuild_processor", "archived_rebuild", "archived_rebuild_processor"),
    "Peak memory, GB": ("project_memory", "rebuild_memory", "archived_rebuild_memory", "recommend_memory"),
    "Stored, GB": STORED,
    "Training by rows, s": ("train", "train_processor"),
}
_COLOURS = (*(DIVERGING["light"][place] for place in (9, 0, 7, 2)), INKS["light"].text)
_SHORT = {
    "runs": "list of runs", "query": "free query", "rebuild": "Postgres", "rebuild_processor": "Postgres, processor",
    "archived_rebuild": "archive", "archived_rebuild_processor": "archive, processor", "archived_rebuild_memory": "from archive",
    "rebuild_memory": "rebuild", "postgres": "Postgres", "duckdb": "DuckDB", "train": "training", "train_processor": "processor",
}  # fmt: skip
"""What a curve is called in its panel, where that is not the beginning of its name."""


def _short(name: str) -> str:
    return _SHORT.get(name) or _SHORT.get(first := name.partition("_")[0], first)


class Point(msgspec.Struct, frozen=True):
    """The median of the samples at one size."""

    size: int
    value: float


class Grown(msgspec.Struct, frozen=True):
    """One curve: its points by rising size, and the law through the upper ones where there are enough."""

    name: str
    points: list[Point]
    law: PowerLaw | None

    @property
    def far(self) -> int:
        """The size that is extrapolated."""
        return FAR[CURVES[self.name].of]


def grown(document: Mapping[str, Any]) -> dict[str, Grown]:
    """Return the curves of a result file by name, in the order of `CURVES`."""
    points: dict[str, list[Point]] = {}
    for line in document["lines"]:
        if "size" in line["details"]:
            point = Point(line["details"]["size"], statistics.median(line["ours"]))
            points.setdefault(line["details"]["curve"], []).append(point)
    return {name: _grown(name, points[name]) for name in CURVES if name in points}


def _grown(name: str, points: Sequence[Point]) -> Grown:
    ordered = sorted(points, key=lambda point: point.size)
    sizes, values = [point.size for point in ordered], [point.value for point in ordered]
    return Grown(name, ordered, fit(sizes, values, total=CURVES[name].total))


def section(document: Mapping[str, Any]) -> str:
    """Return the tables and the sentence on what runs out first, as Markdown."""
    curves = grown(document)
    parts = [
        _table([curve for curve in curves.values() if CURVES[curve.name].of == counted], counted) for counted in FAR
    ]
    machine = document["machine"]
    about = (
        f"{machine['processor']}, {machine['cores']} cores, {formatting.memory(machine['memory_bytes'])}; "
        f"run of {document['at'][:10]}, load of the machine before it: {document['load_before']:g}."
    )
    return "\n\n".join([about, *filter(None, parts), _runs_out(curves, document)]) + "\n"


def _table(curves: Sequence[Grown], counted: str) -> str:
    if not curves:
        return ""
    sizes = sorted({point.size for curve in curves for point in curve.points})
    shown = [size for size in sizes if size == sizes[-1] or math.log10(size).is_integer()]
    far = FAR[counted]
    heads = [counted, *(f"{size:,}" for size in shown), "exponent (95 %)", f"{far:,}, extrapolated (95 %)"]
    rows = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for curve in curves:
        spec, values = CURVES[curve.name], {point.size: point.value for point in curve.points}
        cells = [_figure(values[size], spec.unit) if size in values else "–" for size in shown]
        cells += _law_cells(curve, spec.unit)
        rows.append(f"| {spec.what} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _law_cells(curve: Grown, unit: str) -> list[str]:
    if curve.law is None:
        return ["–", "–"]
    exponent, far = curve.law.exponent, curve.law.at(curve.far)
    return [
        f"{exponent.value:.2f} ({exponent.low:.2f} to {exponent.high:.2f})",
        f"*{_figure(far.value, unit)}* ({_figure(far.low, unit)} to {_figure(far.high, unit)})",
    ]


def _figure(value: float, unit: str) -> str:
    if unit == "bytes":
        return formatting.memory(value)
    return f"{value:,.0f} {unit}" if abs(value) >= 100 else f"{value:.3g} {unit}"


def shortages(curves: Mapping[str, Grown], memory_bytes: float, disk_bytes: float) -> dict[str, float]:
    """Return by resource at how many events it would be used up, what runs out first first; memory by its first curve.

    What the laws do not use up below 10^15 events is left out.
    """
    peaks = [curve for name, curve in curves.items() if name.endswith("_memory") and CURVES[name].of == "events"]
    reached = {f"memory ({CURVES[curve.name].what})": curve.law.size_at(memory_bytes) for curve in peaks if curve.law}
    first = min(
        (what for what in reached if reached[what] is not None), key=lambda what: reached[what] or 0, default=None
    )
    reached = {what: size for what, size in reached.items() if what == first}
    stored = [curve.law for name in STORED if (curve := curves.get(name)) is not None and curve.law is not None]
    if len(stored) == len(STORED):
        reached["disk (Postgres, DuckDB and the archive together)"] = _full(stored, disk_bytes)
    used_up = {what: size for what, size in reached.items() if size is not None}
    return dict(sorted(used_up.items(), key=lambda item: item[1]))


def _full(laws: Sequence[PowerLaw], room: float) -> float | None:
    """Return the size at which the values together reach the room, by bisection of its logarithm."""
    low, high = math.log(1e3), math.log(1e15)

    def needed(place: float) -> float:
        return sum(law.at(math.exp(place)).value for law in laws)

    if needed(high) < room:
        return None
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) < room else (low, middle)
    return math.exp(low)


def _runs_out(curves: Mapping[str, Grown], document: Mapping[str, Any]) -> str:
    disk = next(line["ours"][0] for line in document["lines"] if line["details"].get("curve") == "disk")
    memory = document["machine"]["memory_bytes"]
    reached = shortages(curves, memory, disk)
    ends = "; ".join(f"{what} at {_rounded(size)} events" for what, size in reached.items())
    return (
        f"Where the laws hold, this machine runs out of what it has ({formatting.memory(disk)} of free disk, "
        f"{formatting.memory(memory)} of memory) in this order: {ends or 'of nothing below 10¹⁵ events'}."
    )


def _rounded(size: float) -> str:
    power = math.floor(math.log10(size))
    return f"{size / 10**power:.1f}·10{str(power).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def picture(document: Mapping[str, Any]) -> bytes:
    """Return the curves as SVG: filled points are measured, hollow ones and dashed lines extrapolated."""
    curves = grown(document)
    panels = [
        _panel(title, [curves[name] for name in names if name in curves])
        for title, names in PANELS.items()
        if any(name in curves for name in names)
    ]
    ink = INKS["light"]
    chart = (
        alt.concat(*panels, columns=2, background=ink.ground, padding=20, spacing=36)
        .resolve_scale(color="independent", x="independent", y="independent")
        .configure_view(stroke=None)
        .configure_legend(labelColor=ink.text)
        .configure_title(color=ink.text, subtitleColor=ink.muted, anchor="start", fontSize=16, offset=18)
    )
    return chart_files.svg(
        chart_files.titled(
            chart,
            "How does cost grow with the log?",
            answer="Filled points are measured; hollow points and dashed lines are power laws through the upper decade and a half",
            footer=f"python -m benchmarks growth, {document['at'][:10]}",
        )
    )


def _panel(title: str, curves: Sequence[Grown]) -> alt.LayerChart:
    ink, width = INKS["light"], BASIS_MARKS["measured"].stroke_width
    scale = 1e9 if title.endswith("GB") else 1.0

    def mark(curve: Grown, size: int, value: float) -> dict[str, Any]:
        return {"size": size, "value": value / scale, "curve": _short(curve.name)}

    fitted = [(curve, curve.law) for curve in curves if curve.law is not None]
    measured = [mark(curve, point.size, point.value) for curve in curves for point in curve.points]
    far = [mark(curve, curve.far, law.at(curve.far).value) for curve, law in fitted]
    dashed = [
        mark(curve, size, law.at(size).value) for curve, law in fitted for size in (curve.points[-1].size, curve.far)
    ]
    values = [float(drawn["value"]) for drawn in (*measured, *far)]
    counted, ends = CURVES[curves[0].name].of, [curves[0].points[0].size, curves[0].far]
    reach = reach_of(values, logarithmic=True)
    x = alt.X("size:Q", title=counted).scale(type="log", domain=ends, nice=False)
    x = x.axis(**{**axis(f"{counted} (log)", ink, ends), "format": "~s", "grid": False})
    y = alt.Y("value:Q", title=title).scale(**reach).axis(**axis(f"{title} (log)", ink, reach["domain"]))
    names = [_short(curve.name) for curve in curves]
    colour = alt.Color("curve:N", title=None, sort=names)
    colour = colour.scale(domain=names, range=list(_COLOURS[: len(names)])).legend(orient="bottom", columns=5)
    layers = [
        alt.Chart(Rows(values=measured)).mark_line(strokeWidth=width),
        alt.Chart(Rows(values=dashed)).mark_line(strokeDash=[4, 4], strokeWidth=1.5),
        alt.Chart(Rows(values=measured)).mark_point(filled=True, size=40, opacity=1),
        alt.Chart(Rows(values=far)).mark_point(filled=False, size=60, opacity=1, strokeWidth=1.5),
    ]
    return alt.layer(*(layer.encode(x=x, y=y, color=colour) for layer in layers)).properties(width=400, height=240)
