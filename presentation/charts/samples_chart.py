"""The raw samples behind a row: its calls in their order, and how the times of the steady ones lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import altair as alt

from presentation import formatting
from presentation.charts.axes import axis_of, needs_log
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.palette import INKS, PLATFORM_COLOURS, PLATFORM_DOMAIN, Ink, Theme, colour_key

__all__ = ["platform_colour", "samples", "times"]

HEIGHT = 260
Drawn = Mapping[str, Any]
_SHADE = {"y": alt.YValue(0), "y2": alt.Y2Value("height")}


class _Side(NamedTuple):
    """One side of a chart, which several layers share."""

    scale: alt.Scale
    axis: alt.Axis

    def x(self, field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=self.scale, axis=self.axis)

    def y(self, field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=self.scale, axis=self.axis)


def platform_colour(theme: Theme | None, *, picture: bool) -> alt.Color:
    """Return the colour of marks that are all of one platform, which is named elsewhere."""
    colours = {"range": list(PLATFORM_COLOURS[theme or "light"])} if picture else {}
    return alt.Color("platform:N", scale=alt.Scale(domain=list(PLATFORM_DOMAIN), **colours), legend=None)


def samples(drawn: Drawn, platform: str, *, theme: Theme | None = None, picture: bool = False) -> alt.LayerChart:
    """Draw a row's calls in their order, its warm-up shaded: a dot a call, or beyond what a chart holds a band.

    `drawn` is what `GET /v1/samples/{event_id}` answers. The axis is logarithmic where times range over 20 times.
    """
    scale, ink = _scale(drawn), INKS[theme]
    ends = [value / scale.divisor for value in _times(drawn)]
    log = needs_log(ends)
    last = drawn["warmup_n"] + drawn["n"]
    x = _Side(alt.Scale(domain=[0, last + 1], nice=False), axis_of("call, in the order made", ink, None))
    title = f"time of a call, {scale.unit} ({'log' if log else 'linear, not from 0'}), smaller is better"
    domain = [min(ends) / 1.03, max(ends) * 1.03]
    y = _Side(
        alt.Scale(type="log" if log else "linear", domain=domain, nice=False, zero=False),
        axis_of(title, ink, domain if log else None),
    )
    values = _dots(drawn, scale) if drawn["points"] is not None else _stretches(drawn, scale)
    refuse_too_many(2 * len(values) if drawn["points"] is None else len(values))
    base = alt.Chart(Rows(values=[{**value, "platform": colour_key(platform)} for value in values]))
    tooltip = [alt.Tooltip("calls:N", title="Call"), alt.Tooltip("detail:N", title="Time")]
    marks = base.mark_circle(size=16).encode(
        x=x.x("call"),
        y=y.y("time"),
        opacity=alt.Opacity("opacity:Q", scale=None),
        color=platform_colour(theme, picture=picture),
        tooltip=tooltip,
    )
    layers = [*_warm_up(drawn, ink, x)]
    if drawn["points"] is None:
        rules = base.mark_rule(strokeWidth=1.5, opacity=0.35)
        colour = platform_colour(theme, picture=picture)
        layers.append(rules.encode(x=x.x("call"), y=y.y("low"), y2=alt.Y2("high:Q"), color=colour, tooltip=tooltip))
    return finish(alt.layer(*layers, marks), height=HEIGHT, theme=theme, picture=picture)


def _dots(drawn: Drawn, scale: formatting.Scale) -> list[dict[str, Any]]:
    begin = drawn["steady_from"]
    return [
        {
            "call": at,
            "calls": formatting.count(at),
            "time": scale.of(value),
            "opacity": 0.4 if at < begin else 0.9,
            "detail": f"{scale.show(value)}, {'warm-up' if at < begin else 'steady'}",
        }
        for at, value in enumerate(drawn["points"], 1)
    ]


def _stretches(drawn: Drawn, scale: formatting.Scale) -> list[dict[str, Any]]:
    return [
        {
            "call": (band["first"] + band["last"]) / 2,
            "time": scale.of(band["middle"]),
            "opacity": 0.9,
            "calls": f"{formatting.count(band['first'])}–{formatting.count(band['last'])}",
            "low": scale.of(band["low"]),
            "high": scale.of(band["high"]),
            "detail": f"median {scale.show(band['middle'])}, from {scale.show(band['low'])} to {scale.show(band['high'])}",
        }
        for band in drawn["bands"]
    ]


def _warm_up(drawn: Drawn, ink: Ink, x: _Side) -> list[alt.Chart]:
    """Shade the calls before the steady state, and say where it begins."""
    if not drawn["warmup_n"]:
        return []
    # Words stand on the side that has room for them.
    left = drawn["warmup_n"] > drawn["n"]
    word = f"steady from call {formatting.count(drawn['steady_from'])}"
    base = alt.Chart(Rows(values=[{"call": 0.0, "cut": drawn["steady_from"] - 0.5, "word": word}]))
    look: dict[str, Any] = {"fontSize": 12, "color": ink.text, "baseline": "top"}
    said = base.mark_text(align="right", dx=-5, **look) if left else base.mark_text(align="left", dx=5, **look)
    return [
        base.mark_rect(color=ink.text, opacity=0.07).encode(x=x.x("call"), x2=alt.X2("cut:Q"), **_SHADE),
        base.mark_rule(color=ink.muted, strokeDash=[4, 3]).encode(x=x.x("cut")),
        said.encode(x=x.x("cut"), y=alt.YValue(3), text=alt.Text("word:N")),
    ]


def times(drawn: Drawn, platform: str, *, theme: Theme | None = None, picture: bool = False) -> alt.LayerChart:
    """Draw how the steady times lie, in the service's bins, with the median and its 95 % interval."""
    scale, ink, bins = _scale(drawn), INKS[theme], drawn["histogram"]
    values = [
        {
            "low": scale.of(item["low"]),
            "high": scale.of(item["high"]),
            "count": item["count"],
            "platform": colour_key(platform),
            "detail": f"{scale.show(item['low'])} to {scale.show(item['high'])}",
        }
        for item in bins
    ]
    low, high = bins[0]["low"], bins[-1]["high"]
    room = (high - low) * 0.02 or low * 0.05
    domain = [(low - room) / scale.divisor, (high + room) / scale.divisor]
    title = f"time of a steady call, {scale.unit} (linear, not from 0)"
    x = _Side(alt.Scale(domain=domain, nice=False, zero=False), axis_of(title, ink, None))
    # Room for the word at the median.
    y = _Side(
        alt.Scale(domain=[0, 1.15 * max(item["count"] for item in bins)], nice=False), axis_of("calls", ink, None)
    )
    tooltip = [alt.Tooltip("detail:N", title="Times"), alt.Tooltip("count:Q", title="Calls", format=",d")]
    bars = alt.Chart(Rows(values=values)).mark_rect(opacity=0.6, stroke=ink.ground, strokeWidth=0.5)
    colour = platform_colour(theme, picture=picture)
    if high > low:
        drawn_bars = bars.encode(
            x=x.x("low"), x2=alt.X2("high:Q"), y=y.y("count"), y2=alt.Y2Datum(0), color=colour, tooltip=tooltip
        )
    else:
        # A bin of one value has no width of its own.
        thick = bars.mark_bar(size=24, opacity=0.6)
        drawn_bars = thick.encode(x=x.x("low"), y=y.y("count"), color=colour, tooltip=tooltip)
    layers = alt.layer(drawn_bars, *_median(drawn, scale, ink, x))
    return finish(layers, height=HEIGHT, theme=theme, picture=picture)


def _median(drawn: Drawn, scale: formatting.Scale, ink: Ink, x: _Side) -> list[alt.Chart]:
    p50 = drawn["percentiles"]["p50"]
    document = f"p50 {scale.show(p50['ms'], p50['low'], p50['high'])}"
    value = {"p50": scale.of(p50["ms"]), "low": scale.of(p50["low"]), "high": scale.of(p50["high"]), "detail": document}
    base = alt.Chart(Rows(values=[value]))
    tooltip = alt.Tooltip("detail:N", title="Median, 95 % CI")
    text = base.mark_text(align="left", dx=5, baseline="top", fontSize=12, color=ink.text, text="p50")
    layers = [
        base.mark_rule(color=ink.text, strokeWidth=1.5).encode(x=x.x("p50"), tooltip=tooltip),
        text.encode(x=x.x("p50"), y=alt.YValue(3)),
    ]
    if p50["low"] is not None:
        interval = base.mark_rect(color=ink.text, opacity=0.14)
        layers.insert(0, interval.encode(x=x.x("low"), x2=alt.X2("high:Q"), tooltip=tooltip, **_SHADE))
    return layers


def _scale(drawn: Drawn) -> formatting.Scale:
    return formatting.latency_scale([drawn["percentiles"]["p50"]["ms"]])


def _times(drawn: Drawn) -> list[float]:
    if drawn["points"] is not None:
        return list(drawn["points"])
    return [band[name] for band in drawn["bands"] for name in ("low", "high")]
