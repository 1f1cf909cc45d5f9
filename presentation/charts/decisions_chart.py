"""How often a choice meets its limits, and what it costs above the cheapest that does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from presentation import formatting
from presentation.charts.axes import axis
from presentation.charts.frame import Spec, finished, refuse_too_many
from presentation.charts.label_layout import Spot, looks, place_labels
from presentation.palette import DIVERGING, INKS, Theme

__all__ = ["decided"]

LEAST = 0.5
"""Per cent: what costs less above the cheapest stands there, as a logarithm has no zero."""
HEIGHT = 320
TOP = 101.0
"""Per cent: the end of the axis leaves room for a mark at 100."""


def decided(rules: Sequence[Mapping[str, Any]], *, theme: Theme | None = None, picture: bool = False) -> Spec:
    """Draw one dot a rule: success over overspend, ours filled and named, rules of thumb hollow and numbered.

    A rule is `{"rule", "ours", "mark", "success", "overspend"}` with shares; `mark` is what is written beside it.
    """
    drawn = [
        {
            "x": max(100 * rule["overspend"], LEAST),
            "y": 100 * rule["success"],
            "mark": rule["mark"],
            "ours": rule["ours"],
            "detail": f"{rule['rule']}: {formatting.share(rule['success'])} success, {formatting.share(rule['overspend'])} overspend",
        }
        for rule in rules
    ]
    refuse_too_many(2 * len(drawn))
    marks: dict[tuple[float, float], list[str]] = {}
    for item in drawn:
        # Rules that come to the same place share what is written there.
        marks.setdefault((round(item["x"], 1), round(item["y"], 1)), []).append(item["mark"])
    ink, ramp = INKS[theme], DIVERGING[theme or "light"]
    ends = [LEAST, *(entry["x"] for entry in drawn)]
    low = min([80.0, *(entry["y"] for entry in drawn)])
    reach = (LEAST / 1.3, max(ends) * 1.6)
    bottom = max(0.0, low - 5)
    names = {index: ", ".join(each) for index, each in enumerate(marks.values())}
    places = place_labels(names, [_spot(across, up, reach, bottom) for across, up in marks])
    named = [{"x": at[0], "y": at[1], "mark": names[index], **places[index]} for index, at in enumerate(marks)]
    led, text = looks(ink)
    x = {
        "field": "x",
        "type": "quantitative",
        "axis": axis("overspend, % (log), smaller is better", ink, ends),
        "scale": {"type": "log", "domain": list(reach), "nice": False},
    }
    y = {
        "field": "y",
        "type": "quantitative",
        "axis": axis("success, %, larger is better", ink),
        "scale": {"domain": [bottom, TOP], "zero": False, "nice": False},
    }
    document = {"field": "detail", "type": "nominal", "title": "Rule"}
    dots = (
        ("false", {"size": 80, "filled": False, "strokeWidth": 1.5, "color": ink.muted}),
        ("true", {"size": 90, "filled": True, "color": ramp[8]}),
    )
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": drawn},
            "transform": [{"filter": f"datum.ours == {flag}"}],
            "mark": {"type": "point", "opacity": 1, **look},
            "encoding": {"tooltip": document},
        }
        for flag, look in dots
    ]
    layers.append(
        {
            "data": {"values": named},
            "encoding": {"x2": {"field": "x"}, "y2": {"field": "y"}},
            "mark": {"type": "rule", **led},
        }
    )
    layers.append({"data": {"values": named}, "mark": {"type": "text", **text}})
    return finished(layer=layers, encoding={"x": x, "y": y}, height=HEIGHT, theme=theme, picture=picture)


def _spot(across: float, up: float, reach: tuple[float, float], bottom: float) -> Spot:
    at = math.log(across / reach[0]) / math.log(reach[1] / reach[0])
    return Spot(at, (TOP - up) / (TOP - bottom), at, at)
