"""How often a choice meets its limits, and what it costs above the cheapest that does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from presentation import formatting
from presentation.charts.axes import axis
from presentation.charts.frame import Spec, finished, refuse_too_many
from presentation.palette import DIVERGING, INKS, Theme

__all__ = ["decided"]

LEAST = 0.5
"""Per cent: what costs less above the cheapest stands there, as a logarithm has no zero."""
HEIGHT = 320


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
    named = [{"x": at[0], "y": at[1], "mark": ", ".join(each)} for at, each in marks.items()]
    ink, ramp = INKS[theme], DIVERGING[theme or "light"]
    ends = [LEAST, *(entry["x"] for entry in drawn)]
    low = min([80.0, *(entry["y"] for entry in drawn)])
    x = {
        "field": "x",
        "type": "quantitative",
        "axis": axis("overspend, % (log), smaller is better", ink, ends),
        "scale": {"type": "log", "domain": [LEAST / 1.3, max(ends) * 1.6], "nice": False},
    }
    y = {
        "field": "y",
        "type": "quantitative",
        "axis": axis("success, %, larger is better", ink),
        "scale": {"domain": [max(0.0, low - 5), 101], "zero": False, "nice": False},
    }
    document = {"field": "detail", "type": "nominal", "title": "Rule"}
    looks = (
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
        for flag, look in looks
    ]
    layers.append(
        {
            "data": {"values": named},
            "encoding": {"text": {"field": "mark", "type": "nominal"}},
            "mark": {"type": "text", "align": "left", "dx": 9, "dy": -7, "fontSize": 12, "color": ink.text},
        }
    )
    return finished(layer=layers, encoding={"x": x, "y": y}, height=HEIGHT, theme=theme, picture=picture)
