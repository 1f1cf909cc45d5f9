"""One configuration over time: points with their intervals, lines that break where something changed, and a strip of versions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from dashboard.screens.trends import levels
from dashboard.screens.trends import words as history
from dashboard.screens.trends.words import Lane, alert_path
from presentation import formatting
from presentation.charts.axes import axis, may_be_log
from presentation.charts.frame import Spec, finished, refuse_too_many
from presentation.palette import (
    BASIS_MARKS,
    INKS,
    ORIGIN_WORDS,
    PLATFORM_COLOURS,
    PLATFORM_DOMAIN,
    VERDICT_GLYPHS,
    Ink,
    Theme,
    basis_mark,
    colour_key,
)

__all__ = ["Across", "across", "span_of", "stacked", "trend"]

Member = dict[str, Any]
HEIGHT = 240
STRIP = 58
"""Pixels under the points where versions stand, so that they never cross the data."""
_LOW = HEIGHT - STRIP
_RING = {"light": "#8A7B00", "dark": "#F0E000"}
_LETTER, _LIMIT, _GAP = 7.0, 230.0, 10.0
"""Pixels: a letter of the words at its widest, the longest words, and what stands between two of them."""
_NEVER = 1e6
_ABOVE: Member = {"titleAngle": 0, "titleAlign": "left", "titleX": -50, "titleY": -8, "titleBaseline": "bottom"}
"""Where the words of the vertical axis stand, as a title is read: turned by the axis they would be longer than it is."""
_TOOLTIP = [
    {"field": field, "type": "nominal", "title": title}
    for field, title in (
        ("name", "Configuration"),
        ("detail", "Value"),
        ("rests", "Rests on"),
        ("when", "Measured"),
        ("runtime", "Runtime"),
        ("changed", "Changed before it"),
        ("step", "Beside the one before"),
        ("level", "Level"),
        ("click", "Click"),
    )
]


class On(NamedTuple):
    """Which marks are in a layer: as the browser asks it, and as it is known here."""

    asked: str
    holds: Callable[[Member], bool]


_KEPT = On("isValid(datum.segment)", lambda item: item["segment"] is not None)
_OFF = On("!isValid(datum.segment)", lambda item: item["segment"] is None)
_BOUND = On("isValid(datum.low)", lambda item: item["low"] is not None)
_SUSPECT = On("datum.verdict == 'suspect'", lambda item: item["verdict"] == "suspect")
_OUTSIDE = On("datum.outside", lambda item: bool(item["outside"]))
_STEPPED = On("datum.stepped", lambda item: bool(item["stepped"]))
_TURNED = On("datum.parts != ''", lambda item: item["parts"] != "")
_SIDES: tuple[tuple[str, On], ...] = tuple(
    (side, On(f"datum.side == '{side}'", partial(lambda side, item: item["side"] == side, side)))
    for side in ("left", "center", "right")
)


class Across(NamedTuple):
    """What stands across: by dates (no places), or the place of each event, counted from 1, with the words of the places."""

    places: Mapping[str, int] | None = None
    words: Sequence[str] = ()
    last: int = 0


BY_DATE = Across()


def across(lanes: Sequence[Lane], x: str) -> Across:
    """Return what stands across for `time`, `version` or `order`."""
    if x == "time":
        return BY_DATE
    places, words = history.numbered(lanes, x)
    return Across(places, words, max(places.values(), default=1))


def span_of(lanes: Sequence[Lane], on: Across) -> tuple[Any, Any]:
    """Return the two ends of the horizontal axis that all lanes share."""
    if on.places is not None:
        return 0.5, on.last + 0.5
    moments = [_moment(point) for lane in lanes for point in lane.points]
    first, last = min(moments), max(moments)
    around = (last - first) * 0.03 or timedelta(hours=12)
    return first - around, last + around


def trend(
    lane: Lane,
    metric: str,
    better: str,
    span: tuple[Any, Any],
    *,
    on: Across = BY_DATE,
    log: bool | None = False,
    theme: Theme | None = None,
    picture: bool = False,
    zone: Any = None,
) -> Spec:
    """Draw a lane over `span`, the ends of what stands across (`on`).

    A line joins what one configuration gave in one environment, and nothing else. Raise ValueError beyond `MAX_MARKS` marks.
    """
    scale = history.scale_for(metric, [point["value"] for point in lane.points])
    suspect, expected = levels.outside(lane), levels.level_words(lane, scale)
    drawn = [
        _mark(lane, point, scale, metric, on, zone)
        | {"outside": point["event_id"] in suspect, "level": expected.get(point["event_id"], formatting.MISSING)}
        for point in lane.points
    ]
    for item, point in zip(drawn, lane.points, strict=True):
        place = _moment(point) if on.places is None else item["place"]
        item["share"] = (place - span[0]) / (span[1] - span[0])
        item["side"] = _side(item["share"])
    _place(drawn)
    refuse_too_many(4 * len(drawn))
    mean = any(point["is_mean"] for point in lane.points) and metric == "latency_ms"
    ink = INKS[theme]
    y = _y(lane, drawn, log, history.title_of(metric, better, scale, mean=mean), scale, ink)
    members = {
        "data": {"values": drawn} | ({"format": {"parse": {"at": "date"}}} if on.places is None else {}),
        "encoding": {"x": _x(on, span, ink)},
        "layer": [
            *levels.layers(lane, scale, partial(_across, on), y, ink, _LOW),
            *_points(drawn, y, _worn(theme, picture), theme),
            *_steps(drawn, ink),
            *_strip(drawn, ink),
        ],
    }
    # A picture is one of several: what is around them is said once, by `stacked`.
    return (
        Spec(**members, height=HEIGHT, width=860)
        if picture
        else finished(**members, height=HEIGHT, theme=theme, picture=False)
    )


def _across(on: Across, point: Mapping[str, Any]) -> Member:
    """Return where a point stands across."""
    return {"at": _moment(point).isoformat()} if on.places is None else {"place": on.places[point["event_id"]]}


def _y(lane: Lane, drawn: Sequence[Member], log: bool | None, title: str, scale: formatting.Scale, ink: Ink) -> Member:
    """Return the vertical scale and axis, which begin where the values and the levels do."""
    bands = [scale.of(end) for level in (lane.report.levels if lane.report else ()) for end in (level.low, level.high)]
    ends = [end for item in drawn for end in (item["value"], item["low"], item["high"]) if end is not None]
    ends += [end for end in bands if end is not None]
    logarithmic = may_be_log(ends, log)
    around = (max(ends) - min(ends)) * 0.08 or abs(max(ends)) * 0.05 or 1.0
    domain = [min(ends) / 1.05, max(ends) * 1.05] if logarithmic else [min(ends) - around, max(ends) + around]
    kind = "log" if logarithmic else "linear"
    # Lanes one above the other share their time only where their labels are as wide.
    look = axis(f"{title} ({'log' if logarithmic else 'linear'})", ink, minExtent=58, maxExtent=58, **_ABOVE)
    return {
        "type": "quantitative",
        "axis": look,
        "scale": {"type": kind, "domain": domain, "nice": False, "range": [_LOW, 24]},
    }


def _worn(theme: Theme | None, picture: bool) -> Member:
    """Return a platform's colour: by its place alone in a page, which the browser colours by its theme."""
    scale: Member = {"domain": list(PLATFORM_DOMAIN)}
    if picture:
        scale["range"] = list(PLATFORM_COLOURS[theme or "light"])
    return {"field": "platform", "type": "nominal", "scale": scale, "legend": None}


def _points(drawn: Sequence[Member], y: Member, worn: Member, theme: Theme | None) -> list[Member]:
    """Return lines, intervals and points: rings around what is suspect, crosses off the line."""
    layer = partial(_layer, drawn)
    value, href = {"field": "value", **y}, {"field": "href", "type": "nominal"}
    shape = {"field": "shape", "type": "nominal", "scale": None}
    fill = {"field": "fill", "type": "quantitative", "scale": None}
    segment = {"field": "segment", "type": "nominal"}
    return [
        *layer({"type": "line", "strokeWidth": 2, "opacity": 0.75}, _KEPT, y=value, color=worn, detail=segment),
        *layer(
            {"type": "rule", "strokeWidth": 5, "opacity": 0.28},
            _KEPT,
            _BOUND,
            y={"field": "low", **y},
            y2={"field": "high"},
            color=worn,
            tooltip=_TOOLTIP,
        ),
        *layer(
            {"type": "point", "size": 190, "strokeWidth": 2, "shape": "circle", "fillOpacity": 0},
            _KEPT,
            _SUSPECT,
            y=value,
            stroke={"value": _RING[theme or "light"]},
        ),
        *layer(
            {
                "type": "point",
                "size": 230,
                "strokeWidth": 1.5,
                "strokeDash": [3, 2],
                "shape": "circle",
                "fillOpacity": 0,
            },
            _KEPT,
            _OUTSIDE,
            y=value,
            stroke={"value": INKS[theme].text},
        ),
        *layer(
            {"type": "point", "size": 70, "strokeWidth": 2, "opacity": 1},
            _KEPT,
            y=value,
            stroke=worn,
            fill=worn,
            shape=shape,
            fillOpacity=fill,
            tooltip=_TOOLTIP,
            href=href,
        ),
        *layer(
            {"type": "point", "shape": "M-1,-1L1,1M-1,1L1,-1", "size": 50, "strokeWidth": 2, "fillOpacity": 0},
            _OFF,
            y=value,
            stroke={"value": INKS[theme].muted},
            tooltip=_TOOLTIP,
            href=href,
        ),
    ]


def _layer(drawn: Sequence[Member], mark: Member, *on: On, **encoding: Any) -> list[Member]:
    """Return a layer of the marks that are on it; none without any, which the browser would set up all the same."""
    if not any(all(item.holds(row) for item in on) for row in drawn):
        return []
    return [{"mark": mark, "transform": [{"filter": item.asked} for item in on], "encoding": encoding}]


def stacked(panels: Sequence[tuple[str, Spec]], theme: Theme | None) -> Spec:
    """Return the pictures of several lanes one above the other, each under its name."""
    named = [panel.properties(title={"text": name, "fontSize": 13}).to_dict() for name, panel in panels]
    around = finished(height=HEIGHT, theme=theme, picture=True, vconcat=named).to_dict()
    return Spec(**{name: value for name, value in around.items() if name not in ("height", "width")})


def _x(on: Across, span: tuple[Any, Any], ink: Ink) -> Member:
    look = {
        "title": None,
        "domain": False,
        "ticks": False,
        "labelColor": ink.muted,
        "titleColor": ink.muted,
        "labelFontSize": 12,
        "grid": False,
        "labelPadding": 6,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titleAnchor": "start",
    }
    if on.places is not None:
        # Words in place of a title, which would take its height from the strip of versions.
        said = f"{json.dumps(list(on.words))}[datum.value - 1] || ''" if on.words else "'no. ' + datum.label"
        values: Member = {"values": list(range(1, on.last + 1))} if on.words else {"format": ",d", "tickMinStep": 1}
        look |= {"labelExpr": said, "labelOverlap": "greedy", "labelSeparation": 8, **values}
        return {"field": "place", "type": "quantitative", "scale": {"domain": list(span), "nice": False}, "axis": look}
    words = "%-d %b %Y" if span[1] - span[0] > timedelta(days=6) else "%-d %b %H:%M"
    look |= {"format": words, "labelOverlap": True, "tickCount": 6}
    ends = [_date_time(end) for end in span]
    return {"field": "at", "type": "temporal", "scale": {"domain": ends, "nice": False}, "axis": look}


def _date_time(moment: Any) -> Member:
    tz_convert = pd.Timestamp(moment).tz_convert("UTC")
    return {
        "year": tz_convert.year,
        "month": tz_convert.month,
        "date": tz_convert.day,
        "hours": tz_convert.hour,
        "minutes": tz_convert.minute,
        "utc": True,
    }


def _place(drawn: Sequence[Member]) -> None:
    """Say of each word how wide the picture has to be for it: on a narrower one it would meet another word, or be cut.

    A change of the environment has the one of two lines on which it needs less.
    """
    lines: list[list[Member]] = [[], []]
    for item in sorted((item for item in drawn if _TURNED.holds(item)), key=lambda item: float(item["share"])):
        needs = [_needed(item, "parts", others) for others in lines]
        line = needs.index(min(needs))
        item |= {"line": _LOW + 20 + 18 * line, "parts_from": min(needs)}
        if min(needs) < _NEVER:
            lines[line].append(item)
    above: list[Member] = []
    for item in sorted((item for item in drawn if _STEPPED.holds(item)), key=lambda item: float(item["share"])):
        item["brief_from"] = _needed(item, "brief", above)
        if item["brief_from"] < _NEVER:
            above.append(item)


def _needed(item: Member, words: str, others: Sequence[Member]) -> float:
    """Return the least width in pixels at which an item's words meet no words of `others` and no end of the picture."""
    share, before, after = _extent(item, words)
    needed = max(before / share if share > 0 else 0.0, after / (1 - share) if share < 1 else 0.0)
    for other in others:
        place, _, reach = _extent(other, words)
        if share - place <= 0:
            return _NEVER
        needed = max(needed, (reach + before + _GAP) / (share - place))
    return min(needed, _NEVER)


def _extent(item: Member, words: str) -> tuple[float, float, float]:
    """Return an item's share of the width, and how many pixels its words reach to the left and to the right of it."""
    pixels = min(len(str(item[words])) * _LETTER, _LIMIT)
    left = {"left": 0.0, "center": pixels / 2, "right": pixels}[item["side"]]
    return float(item["share"]), left, pixels - left


def _steps(drawn: Sequence[Member], ink: Ink) -> list[Member]:
    """Return a rule at each change of the value, with the change in words above it where there is room."""
    layer, there = partial(_layer, drawn), (_KEPT, _STEPPED)
    rule = {"type": "rule", "strokeWidth": 1, "color": ink.muted, "strokeDash": [2, 2]}
    words = {"type": "text", "fontSize": 12, "fontWeight": 600, "color": ink.text, "baseline": "middle"}
    words["text"] = {"expr": "width < datum.brief_from ? '' : datum.brief"}
    leads: Member = {"href": {"field": "alert", "type": "nominal"}} if any(item["alert"] for item in drawn) else {}
    layers = [
        layer({**words, "align": side}, *there, on, y={"value": 10}, tooltip=_TOOLTIP, **leads) for side, on in _SIDES
    ]
    return [*layer(rule, *there, y={"value": 20}, y2={"value": _LOW}), *(item for each in layers for item in each)]


def _strip(drawn: Sequence[Member], ink: Ink) -> list[Member]:
    """Return a tick under the points for each change of the environment; its words where there is room."""
    layer, there = partial(_layer, drawn), (_KEPT, _TURNED)
    tick = {"type": "text", "text": "▲", "fontSize": 10, "color": ink.muted, "baseline": "middle"}
    ticks = layer(tick, *there, y={"value": _LOW + 8}, tooltip=_TOOLTIP)
    words = {"type": "text", "fontSize": 11, "color": ink.muted, "baseline": "middle", "limit": _LIMIT}
    words["text"] = {"expr": "width < datum.parts_from ? '' : datum.parts"}
    y = {"field": "line", "type": "quantitative", "scale": None, "axis": None}
    layers = [layer({**words, "align": side}, *there, on, y=y, tooltip=_TOOLTIP) for side, on in _SIDES]
    return [*ticks, *(item for each in layers for item in each)]


def _side(share: float) -> str:
    """Return which side of its place a text hangs on, so that neither end of the picture cuts it off."""
    return "left" if share < 0.15 else "right" if share > 0.85 else "center"


def _moment(point: Mapping[str, Any]) -> pd.Timestamp:
    return pd.Timestamp(point["time"] or point["recorded_at"])


def _mark(
    lane: Lane,
    point: Mapping[str, Any],
    scale: formatting.Scale,
    metric: str,
    on: Across,
    zone: Any,
) -> dict[str, Any]:
    basis = "measured" if point["origin"] == "measured" else "imported"
    step = point.get("step") or {}
    stepped = step.get("state") in ("worse", "better")
    verdict = point["verdict"]
    show = scale.show(point["value"], point["low"], point["high"]) + (
        " (mean)" if point["is_mean"] and metric == "latency_ms" else ""
    )
    return {
        "at": _moment(point).isoformat(),
        "place": (on.places or {}).get(point["event_id"]),
        "value": scale.of(point["value"]),
        "low": scale.of(point["low"]),
        "high": scale.of(point["high"]),
        "segment": point["segment"],
        "platform": colour_key(lane.platform),
        "shape": basis_mark(basis).shape,
        "fill": basis_mark(basis).fill_opacity,
        "verdict": verdict or "none",
        "stepped": stepped,
        "name": lane.name,
        "detail": show + (", 95 % CI" if point["low"] is not None else ""),
        "rests": f"{BASIS_MARKS[basis].glyph} {basis} · {formatting.samples(point['n'])} · {VERDICT_GLYPHS.get(verdict, '·')} {verdict or 'no verdict'}"
        + (f" ·{word}" if (word := ORIGIN_WORDS.get(point["origin"])) else ""),
        "when": formatting.when(point["time"], zone) if point["time"] else "not said",
        "runtime": " ".join(str(part) for part in (point.get("runtime"), point["runtime_version"]) if part)
        or "not said",
        "changed": history.parts_words(point["changed"], 6) or "nothing that was recorded",
        "parts": history.parts_words(point["changed"], 2),
        "step": history.change_words(step, metric)
        + (f": {step['why']}" if step.get("why") else f", with {step['causes']}" if step.get("causes") else "")
        if step
        else "no confirmed change"
        if lane.report
        else "within 10 %",
        "brief": history.change_words(step, metric, interval=False) if stepped else "",
        "href": f"/runs?row={point['event_id']}",
        "alert": f"/{alert_path(step['alert'])}" if step.get("alert") else None,
        "click": "opens its run",
    }
