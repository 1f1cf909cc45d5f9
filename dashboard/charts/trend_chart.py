"""One configuration over time: points with their intervals, lines that break where something changed, and a strip of versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import altair as alt
import pandas as pd

from assay import numbers
from dashboard import history
from dashboard.charts.axes import axis_of, may_be_log
from dashboard.charts.frame import finish, refuse_too_many
from dashboard.charts.marks import platform_scale
from dashboard.history import Lane
from dashboard.palette import BASIS_MARKS, INKS, VERDICT_GLYPHS, Theme, basis_mark, colour_key

__all__ = ["span_of", "stacked", "trend"]

HEIGHT = 210
STRIP = 46
"""Pixels under the points where versions stand, so that they never cross the data."""
_RING = {"light": "#8A7B00", "dark": "#F0E000"}
_MOST_WORDS = 8
"""Changes of versions that are written out; more are ticks with a tooltip alone."""
_TOOLTIP = [
    alt.Tooltip("name:N", title="Configuration"),
    alt.Tooltip("told:N", title="Value"),
    alt.Tooltip("rests:N", title="Rests on"),
    alt.Tooltip("when:N", title="Measured"),
    alt.Tooltip("runtime:N", title="Runtime"),
    alt.Tooltip("changed:N", title="Changed before it"),
    alt.Tooltip("step:N", title="Beside the one before"),
    alt.Tooltip("click:N", title="Click"),
]


def span_of(lanes: Sequence[Lane], x: str) -> tuple[Any, Any]:
    """Return the two ends of the horizontal axis that all lanes share."""
    if x == "order":
        return 0.5, sum(len(lane.points) for lane in lanes) + 0.5
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
    numbered: Mapping[str, int] | None = None,
    log: bool | None = False,
    theme: Theme | None = None,
    picture: bool = False,
    zone: Any = None,
) -> alt.LayerChart:
    """Draw a lane over `span`; by the order of runs where `numbered` gives each event its place.

    A line joins what one configuration gave in one environment, and nothing else. Raise ValueError beyond `MAX_MARKS` marks.
    """
    scale = history.scale_for(metric, [point["value"] for point in lane.points])
    drawn = [_mark(lane, point, scale, metric, numbered, zone) for point in lane.points]
    for one, point in zip(drawn, lane.points, strict=True):
        place = one["place"] if numbered is not None else _moment(point)
        one["side"] = _side((place - span[0]) / (span[1] - span[0]))
    refuse_too_many(4 * len(drawn))
    ends = [end for one in drawn for end in (one["value"], one["low"], one["high"]) if end is not None]
    logarithmic = may_be_log(ends, log)
    ink = INKS[theme]
    around = (max(ends) - min(ends)) * 0.08 or abs(max(ends)) * 0.05 or 1.0
    domain = [min(ends) / 1.05, max(ends) * 1.05] if logarithmic else [min(ends) - around, max(ends) + around]
    low = HEIGHT - STRIP
    vertical = alt.Scale(type="log" if logarithmic else "linear", domain=domain, nice=False, range=[low, 24])
    mean = any(point["is_mean"] for point in lane.points) and metric == "latency_ms"
    title = f"{history.title_of(metric, better, scale, mean=mean)} ({'log' if logarithmic else 'linear'})"
    y_axis = axis_of(title, ink, None)
    # Lanes one above the other share their time only where their labels are as wide.
    y_axis.minExtent = y_axis.maxExtent = 58
    y = alt.Y("value:Q", scale=vertical, axis=y_axis)
    x = _x(numbered is not None, span, ink)
    colour = alt.Color("platform:N", scale=platform_scale(theme, picture=picture), legend=None)
    stroke = alt.Stroke("platform:N", scale=platform_scale(theme, picture=picture), legend=None)
    base = alt.Chart(alt.Data(values=drawn, format=_parsed(numbered))).encode(x=x)
    kept = base.transform_filter("isValid(datum.segment)")
    layers = [
        kept.mark_line(strokeWidth=2, opacity=0.75).encode(y=y, color=colour, detail="segment:N"),
        kept.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=5, opacity=0.28).encode(
            y=alt.Y("low:Q", scale=vertical, axis=y_axis), y2="high:Q", color=colour, tooltip=_TOOLTIP
        ),
        kept.transform_filter("datum.verdict == 'suspect'").mark_point(size=190, strokeWidth=2, shape="circle", fillOpacity=0).encode(
            y=y, stroke=alt.value(_RING[theme or "light"])
        ),
        kept.mark_point(size=70, strokeWidth=2, opacity=1).encode(
            y=y, stroke=stroke, fill=alt.Fill("platform:N", scale=platform_scale(theme, picture=picture), legend=None),
            shape=alt.Shape("shape:N", scale=None), fillOpacity=alt.FillOpacity("fill:Q", scale=None), tooltip=_TOOLTIP,
            href="href:N",
        ),
        base.transform_filter("!isValid(datum.segment)").mark_point(shape="M-1,-1L1,1M-1,1L1,-1", size=50, strokeWidth=2, fillOpacity=0).encode(
            y=y, stroke=alt.value(ink.muted), tooltip=_TOOLTIP, href="href:N"
        ),
        *_steps(kept, ink, low),
        *_strip(kept, ink, low, sum(bool(one["parts"]) for one in drawn)),
    ]  # fmt: skip
    layered = alt.layer(*layers)
    # A picture is one of several: what is around them is said once, by `stacked`.
    return (
        layered.properties(height=HEIGHT, width=860)
        if picture
        else finish(layered, height=HEIGHT, theme=theme, picture=False)
    )


def stacked(panels: Sequence[tuple[str, alt.LayerChart]], theme: Theme | None) -> alt.VConcatChart:
    """Return the pictures of several lanes one above the other, each under its name."""
    ink = INKS[theme or "light"]
    named = [panel.properties(title=alt.TitleParams(text=name, fontSize=13)) for name, panel in panels]
    return (
        alt.vconcat(*named)
        .properties(background=ink.ground, padding=20)
        .configure_view(stroke=None)
        .configure_title(color=ink.text, subtitleColor=ink.muted, anchor="start", fontSize=16, offset=12)
    )


def _x(by_order: bool, span: tuple[Any, Any], ink: Any) -> alt.X:
    look = {
        "domain": False, "ticks": False, "labelColor": ink.muted, "titleColor": ink.muted, "labelFontSize": 12, "grid": False,
        "labelPadding": 6, "titleFontSize": 12, "titleFontWeight": "normal", "titleAnchor": "start",
    }  # fmt: skip
    if by_order:
        # Words in place of a title, which would take its height from the strip of versions.
        axis = alt.Axis(title=None, labelExpr="'no. ' + datum.label", format=",d", tickMinStep=1, **look)
        return alt.X("place:Q", scale=alt.Scale(domain=list(span), nice=False), axis=axis)
    ends = [_date_time(end) for end in span]
    words = "%-d %b %Y" if span[1] - span[0] > timedelta(days=6) else "%-d %b %H:%M"
    return alt.X(
        "at:T",
        scale=alt.Scale(domain=ends, nice=False),
        axis=alt.Axis(title=None, format=words, labelOverlap=True, tickCount=6, **look),
    )


def _date_time(moment: Any) -> alt.DateTime:
    found = pd.Timestamp(moment).tz_convert("UTC")
    return alt.DateTime(
        year=found.year, month=found.month, date=found.day, hours=found.hour, minutes=found.minute, utc=True
    )  # fmt: skip


def _parsed(numbered: Mapping[str, int] | None) -> Any:
    return alt.DataFormat(parse={"at": "date"}) if numbered is None else alt.Undefined


def _steps(kept: alt.Chart, ink: Any, low: int) -> list[alt.Chart]:
    """Return a rule at each change of the value, with the change in words above it."""
    there = kept.transform_filter("datum.stepped")
    return [
        there.mark_rule(strokeWidth=1, color=ink.muted, strokeDash=[2, 2]).encode(y=alt.value(20), y2=alt.value(low)),
        *(
            there.transform_filter(f"datum.side == '{side}'")
            .mark_text(fontSize=12, fontWeight=600, color=ink.text, baseline="middle", align=side)
            .encode(y=alt.value(10), text="brief:N", tooltip=_TOOLTIP)
            for side in ("left", "center", "right")
        ),
    ]  # fmt: skip


def _strip(kept: alt.Chart, ink: Any, low: int, changed: int) -> list[alt.Chart]:
    """Return a tick under the points for each change of the environment; the words take turns on two lines."""
    there = kept.transform_filter("datum.parts != ''")
    ticks = there.mark_text(text="▲", fontSize=10, color=ink.muted, baseline="middle").encode(
        y=alt.value(low + 8), tooltip=_TOOLTIP
    )
    if changed > _MOST_WORDS:
        return [ticks]
    words = [
        there.transform_filter(f"datum.side == '{side}'")
        .mark_text(fontSize=11, color=ink.muted, baseline="middle", align=side, limit=230)
        .encode(y=alt.Y("line:Q", scale=None, axis=None), text="parts:N", tooltip=_TOOLTIP)
        for side in ("left", "center", "right")
    ]
    return [ticks, *words]


def _side(share: float) -> str:
    """Return which side of its place a text hangs on, so that neither end of the picture cuts it off."""
    return "left" if share < 0.15 else "right" if share > 0.85 else "center"


def _moment(point: Mapping[str, Any]) -> pd.Timestamp:
    return pd.Timestamp(point["time"] or point["recorded_at"])


def _mark(
    lane: Lane,
    point: Mapping[str, Any],
    scale: numbers.Scale,
    metric: str,
    numbered: Mapping[str, int] | None,
    zone: Any,
) -> dict[str, Any]:
    basis = "measured" if point["origin"] == "measured" else "imported"
    step = point.get("step") or {}
    stepped = step.get("state") in ("worse", "better")
    verdict = point["verdict"]
    told = scale.show(point["value"], point["low"], point["high"]) + (
        " (mean)" if point["is_mean"] and metric == "latency_ms" else ""
    )
    return {
        "at": _moment(point).isoformat(), "place": (numbered or {}).get(point["event_id"]), "value": scale.of(point["value"]),
        "low": scale.of(point["low"]), "high": scale.of(point["high"]), "segment": point["segment"],
        "platform": colour_key(lane.platform), "shape": basis_mark(basis).shape, "fill": basis_mark(basis).fill_opacity,
        "verdict": verdict or "none", "stepped": stepped, "name": lane.name, "told": told + (", 95 % CI" if point["low"] is not None else ""),
        "rests": f"{BASIS_MARKS[basis].glyph} {basis} · {numbers.samples(point['n'])} · {VERDICT_GLYPHS.get(verdict, '·')} {verdict or 'no verdict'}"
        + (" · SIMULATED" if point["origin"] == "simulated" else ""),
        "when": numbers.date(point["time"] or point["recorded_at"], zone),
        "runtime": " ".join(str(part) for part in (point.get("runtime"), point["runtime_version"]) if part) or "not said",
        "changed": history.parts_words(point["changed"], 6) or "nothing that was recorded",
        "parts": history.parts_words(point["changed"], 2), "line": HEIGHT - STRIP + 22 + 14 * (point.get("turn", 0) % 2),
        "step": history.change_words(step, metric) + (f": {step['why']}" if step.get("why") else "") if step else "within 10 %",
        "brief": history.change_words(step, metric, interval=False) if stepped else "",
        "href": f"/runs?row={point['event_id']}", "click": "opens its run",
    }  # fmt: skip
