"""What variants cost in quality against how fast, or how large, they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from domain.answers.variants import VariantRow
from presentation import formatting
from presentation.charts.axes import axis
from presentation.charts.frame import Spec, finished, refuse_too_many
from presentation.charts.label_layout import Spot, labels, place_labels
from presentation.charts.marks import SIZE, colour
from presentation.palette import INKS, Ink, Theme, colour_key

__all__ = ["variants", "variants_drawn"]

_TOOLTIP = [
    {"field": field, "type": "nominal", "title": title}
    for field, title in (
        ("name", "Variant"), ("place", "Runs on"), ("loss_words", "Quality loss"), ("latency_words", "Latency"),
        ("size_words", "Size on disk"),
    )
]  # fmt: skip


def variants_drawn(rows: Sequence[VariantRow], *, size: bool = False) -> list[VariantRow]:
    """Return the rows that a picture has: with a known loss in points, and a latency (or a size). The caller counts the others."""
    return [
        row
        for row in rows
        if (row.is_reference or (row.quality is not None and row.quality.unit == "pt"))
        and (row.bytes if size else row.latency_ms)
    ]


def variants(
    rows: Sequence[VariantRow], *, size: bool = False, theme: Theme | None = None, picture: bool = False
) -> Spec:
    """Draw the loss of quality with its 95 % interval against the latency, or against the size on disk.

    Left and low is better. The model itself in fp32 is the rule at 0. Rows that nobody evaluated are left out:
    `variants_drawn` says which remain. Raise ValueError beyond `MAX_MARKS`.
    """
    drawn = variants_drawn(rows, size=size)
    refuse_too_many(len(drawn) * 3)
    ink = INKS[theme]
    amounts = [float((row.bytes if size else row.latency_ms) or 0.0) for row in drawn]
    scale = formatting.memory_scale(amounts) if size else formatting.latency_scale(amounts)
    lines = [_line(row, scale.of(amount) or 0.0) for row, amount in zip(drawn, amounts, strict=True)]
    ends = [0.0, *(line[end] for line in lines for end in ("low", "high"))]
    spread = max(ends) - min(ends) or 1.0
    across = [min(ends) - 0.06 * spread, max(ends) + 0.06 * spread]
    ups = _room([line["up"] for line in lines])
    spots = [
        Spot(*(_share(line["loss"], across), 1 - _share(math.log(line["up"]), [math.log(end) for end in ups])),
             _share(line["low"], across), _share(line["high"], across))
        for line in lines
    ]  # fmt: skip
    # Two platforms of one variant lie on one line: the faster one carries the name.
    names: dict[str, int] = {}
    for index in sorted(range(len(lines)), key=lambda at: lines[at]["up"]):
        names.setdefault(lines[index]["name"], index)
    named = place_labels({index: name for name, index in names.items()}, spots)
    values = [line | members for line, members in zip(lines, named, strict=True)]
    what = "size on disk" if size else "latency, p50"
    x = {
        "type": "quantitative",
        "scale": {"domain": across, "nice": False},
        "axis": axis("quality loss, pt, 95 % interval (left is better)", ink),
    }
    y = {
        "field": "up",
        "type": "quantitative",
        "scale": {"type": "log", "domain": ups, "nice": False},
        "axis": axis(f"{what}, {scale.unit} (log, low is better)", ink, ups),
    }
    worn = colour([{"platform": row.platform, "latency_ms": row.latency_ms} for row in drawn], theme, picture=picture)
    return finished(height=320, theme=theme, picture=picture, layer=_layers(values, x, y, worn, ink))


def _layers(
    values: list[dict[str, Any]], x: dict[str, Any], y: dict[str, Any], worn: dict[str, Any], ink: Ink
) -> list[dict[str, Any]]:
    data = {"values": values}
    return [
        {
            "data": {"values": [{"loss": 0}]},
            "mark": {"type": "rule", "color": ink.muted, "strokeDash": [2, 3]},
            "encoding": {"x": {**x, "field": "loss"}},
        },
        {
            "data": data,
            "mark": {"type": "rule", "strokeCap": "butt", "strokeWidth": 2},
            "encoding": {
                "x": {**x, "field": "low"},
                "x2": {"field": "high"},
                "y": y,
                "color": worn,
                "tooltip": _TOOLTIP,
            },
        },
        {
            "data": data,
            "mark": {"type": "point", "size": SIZE, "strokeWidth": 2, "opacity": 1, "filled": True},
            "encoding": {"x": {**x, "field": "loss"}, "y": y, "color": worn, "tooltip": _TOOLTIP},
        },
        *labels(values, {**x, "field": "loss"}, y, ink),
    ]


def _line(row: VariantRow, up: float) -> dict[str, Any]:
    loss = row.quality
    return {
        "name": row.recipe or str(row.precision),
        "place": " · ".join(str(part) for part in (row.platform, row.precision, row.hardware) if part),
        "platform": colour_key(row.platform),
        "loss": 0.0 if loss is None else loss.loss,
        "value": 0.0 if loss is None else loss.loss,
        "low": 0.0 if loss is None else loss.low,
        "high": 0.0 if loss is None else loss.high,
        "up": up,
        "loss_words": "0, by definition" if loss is None else loss.text(),
        "latency_words": formatting.latency(row.latency_ms, row.latency_ms_low, row.latency_ms_high),
        "size_words": formatting.memory(row.bytes),
    }


def _share(value: float, ends: Sequence[float]) -> float:
    return (value - ends[0]) / (ends[1] - ends[0])


def _room(values: Sequence[float]) -> list[float]:
    """Return the ends of a logarithmic axis with room for marks and names."""
    if not values:
        return [1.0, 10.0]
    beyond = max(1.25, (max(values) / min(values)) ** 0.15)
    return [min(values) / beyond, max(values) * beyond]
