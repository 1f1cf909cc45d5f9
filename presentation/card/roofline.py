"""The roofline of a card: roofs as lines, measured kernels as small dots, models as numbered marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from domain.performance.achieved_roofline import ridge
from presentation import formatting
from presentation.card.content import CardRoof, CardRoofline
from presentation.card.drawing import Canvas, text_width

__all__ = ["Box", "draw_roofline", "shown_roofs"]

TICK = 18.0


class Box(NamedTuple):
    """A rectangle: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float


class _Axes(NamedTuple):
    """Both axes: their ends as powers of ten, and the rectangle that they span."""

    box: Box
    x: tuple[float, float]
    y: tuple[float, float]

    def place(self, intensity: float, flops_per_s: float) -> tuple[float, float]:
        """Return where a point lies, at the nearest edge where it is outside."""
        across = (math.log10(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        up = (math.log10(flops_per_s) - self.y[0]) / (self.y[1] - self.y[0])
        left, top, right, bottom = self.box
        return (
            left + min(1.0, max(0.0, across)) * (right - left),
            bottom - min(1.0, max(0.0, up)) * (bottom - top),
        )


def shown_roofs(roofline: CardRoofline, most: int = 2) -> list[CardRoof]:
    """Return the roofs that a card has room for: fp32, and the precisions that were measured, fastest last."""
    ordered = sorted(
        roofline.roofs,
        key=lambda roof: (roof.precision != "fp32", roof.measured_flops is None, roof.precision == "int8"),
    )
    return sorted(ordered[:most], key=lambda roof: roof.specified_flops or roof.measured_flops or 0.0)


def draw_roofline(canvas: Canvas, roofline: CardRoofline, box: Box) -> None:
    """Draw the roofs of a device and what was measured under them; nothing where no roof is known."""
    bandwidth = roofline.bandwidth
    roofs = [roof for roof in shown_roofs(roofline) if roof.specified_flops or roof.measured_flops]
    if bandwidth is None or not roofs:
        return
    precisions = {roof.precision for roof in roofs}
    peaks = [max(filter(None, (roof.specified_flops, roof.measured_flops))) for roof in roofs]
    kernels = [kernel for kernel in roofline.kernels if kernel.precision in precisions]
    places = [(kernel.flop_per_byte, kernel.flops_per_s) for kernel in kernels]
    places += [(point.flop_per_byte, point.flops_per_s) for point in roofline.points]
    axes = _axes(box, places, peaks, bandwidth)
    _grid(canvas, axes)
    _roofs(canvas, axes, roofs, peaks, roofline)
    for kernel in kernels:
        canvas.dot(
            *axes.place(kernel.flop_per_byte, kernel.flops_per_s), 3.5, canvas.colour(kernel.platform), opacity=0.55
        )
    marks = [axes.place(point.flop_per_byte, point.flops_per_s) for point in roofline.points]
    for point, mark in zip(roofline.points, marks, strict=True):
        canvas.mark(*mark, 7, "measured", point.platform)
        if point.verdict == "suspect":
            canvas.ring(*mark, 11, canvas.suspect, 2)
    taken = [(x, y + 6) for x, y in marks]
    for point, mark in zip(roofline.points, marks, strict=True):
        _number(canvas, mark, str(point.row + 1), taken, box)


def _axes(box: Box, places: Sequence[tuple[float, float]], peaks: Sequence[float], bandwidth: float) -> _Axes:
    ridges = [ridge(peak, bandwidth) for peak in peaks]
    xs = [x for x, _ in places] + [ridge * side for ridge in ridges for side in (0.05, 8.0)]
    ys = [y for _, y in places] + [*peaks, min(peaks) / 30]
    low_x, high_x = math.log10(min(xs)) - 0.1, math.log10(max(xs)) + 0.1
    high_y = math.log10(max(ys)) + 0.25
    low_y = max(math.log10(min(ys)) - 0.15, high_y - 4.5)
    return _Axes(box, (low_x, high_x), (low_y, high_y))


def _grid(canvas: Canvas, axes: _Axes) -> None:
    left, top, right, bottom = axes.box
    for power in _powers(*axes.y):
        _, y = axes.place(1.0, 10.0**power)
        canvas.line(left, y, right, y)
        canvas.text(left - 6, y + 6, _tick(power), TICK, muted=True, anchor="end")
    for power in _powers(*axes.x):
        x, _ = axes.place(10.0**power, 1.0)
        half = text_width(_tick(power), TICK) / 2
        canvas.line(x, top, x, bottom)
        canvas.text(min(x, right - half), bottom + 20, _tick(power), TICK, muted=True, anchor="middle")
    canvas.line(left, bottom, right, bottom, colour=canvas.ink.muted)
    canvas.line(left, top, left, bottom, colour=canvas.ink.muted)


def _roofs(
    canvas: Canvas, axes: _Axes, roofs: Sequence[CardRoof], peaks: Sequence[float], roofline: CardRoofline
) -> None:
    """Draw the specified roof as a line and the measured one dashed, each peak with its precision."""
    feed, colour = roofline.bandwidth or 1.0, canvas.ink.muted
    least, most = 10.0 ** axes.x[0], 10.0 ** axes.x[1]
    top = max(peaks)
    start = max(least, 10.0 ** axes.y[0] / feed)
    canvas.path([axes.place(start, start * feed), axes.place(top / feed, top)], colour=colour, width=2)
    measured = roofline.measured_bandwidth
    if measured is not None and measured < feed * 0.97:
        start = max(least, 10.0 ** axes.y[0] / measured)
        canvas.path(
            [axes.place(start, start * measured), axes.place(top / measured, top)], colour=colour, width=2, dash="6 5"
        )
    above = -math.inf
    for roof, peak in sorted(zip(roofs, peaks, strict=True), key=lambda pair: -pair[1]):
        x, y = axes.place(max(least, peak / feed), peak)
        canvas.path([(x, y), axes.place(most, peak)], colour=colour, width=2)
        # Two peaks that lie close together have their names above the one and below the other.
        name_y = y + 18 if y - above <= 22 else y - 5
        canvas.text(axes.box.right, name_y, roof.precision, TICK, anchor="end", muted=True)
        above = y
        if roof.measured_flops is not None and roof.measured_flops < peak * 0.97:
            reached = roof.measured_flops
            canvas.path(
                [axes.place(max(least, reached / feed), reached), axes.place(most, reached)],
                colour=colour,
                width=2,
                dash="6 5",
            )


def _number(canvas: Canvas, mark: tuple[float, float], text: str, taken: list[tuple[float, float]], box: Box) -> None:
    """Write a model's number beside its mark, on the side where no other mark and no other number stands."""
    sides = [(18, 6), (-18, 6), (0, -13), (0, 27), (16, -10), (-16, -10), (16, 24), (-16, 24), (34, 6), (-34, 6)]
    places = [(mark[0] + dx, mark[1] + dy) for dx, dy in sides]
    inside = [place for place in places if box.left + 8 < place[0] < box.right - 8 and place[1] < box.bottom - 4]
    free = [place for place in inside if all(abs(place[0] - x) > 14 or abs(place[1] - y) > 17 for x, y in taken)]
    place = (free or inside or places)[0]
    taken.append(place)
    canvas.text(*place, text, TICK, bold=True, anchor="middle")


def _powers(low: float, high: float, most: int = 4) -> Sequence[int]:
    """Return the powers of ten between two logarithms, thinned to at most so many."""
    every = range(math.ceil(low), math.floor(high) + 1)
    return every[:: max(1, -(-len(every) // most))]


def _tick(power: int) -> str:
    """Write a power of ten short: `100 G`, `0.1`."""
    value = 10.0**power
    return (
        f"{value:g}"
        if value < 1e3
        else formatting.plain(formatting.si(value, "")).replace(".00", "").replace(".0", "").strip()
    )
