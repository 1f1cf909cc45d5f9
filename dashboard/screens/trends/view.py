"""Trends: how has this configuration changed, and what changed with it?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
import streamlit as st

from dashboard import answers, regressions
from dashboard.address import SCALES, Params, parameters
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import (
    chart,
    downloads,
    dropped,
    escape,
    folded,
    guarded,
    header,
    provenance,
    theme,
    titled,
    to_paste,
    zone,
)
from dashboard.page_state import adopt, current, go, turn, widget
from dashboard.screens.compare import subjects
from dashboard.screens.trends import levels
from dashboard.screens.trends import query as asking
from dashboard.screens.trends import words as history
from dashboard.screens.trends.chart import Across, across, span_of, stacked, trend
from dashboard.screens.trends.words import AXES, DOUBTED, METRICS, MOST, Lane, Trend
from dashboard.tables.result_table import result_table
from domain.errors import AssayError
from domain.history.history import HistoryReport
from domain.vocabulary import PLATFORMS, PRECISIONS
from presentation import formatting

__all__ = ["ahead", "show"]

PAGE = "trends"
OFFERED = 100
"""Configurations that can be picked, those with the most points; a list of thousands would stop the browser."""
USUAL = 3
"""Configurations shown where none is picked, those with the most points."""
LEAST = 12
"""Points of a history of which a change can be confirmed; a shorter one has the steps from point to point."""
LISTED = 8
"""Models that are offered where nothing got worse."""
_SPANS = (1.0, 7.0, 30.0, 90.0)
_LISTS = ("rows", "hw", "platform", "precision")
_SWITCHES = (*DOUBTED, "undated")
_LEGEND = (
    "Bars are 95 % intervals. A line joins measurements of one configuration in one environment, and stops where either, or the "
    "value, changed; a dashed rule marks a change of value. ▲ under the points: a driver, library or runtime that is not what it "
    "was. ⚠ suspect has a ring; ✕ invalid or simulated is off the line and compared with nothing. From twelve points on a black line "
    "is a level, with the band in which 95 % of new points are expected; a point with a dashed ring is outside of it. Changes are "
    "those that are confirmed, each within its shaded range. With fewer points a change counts where it is beyond 10 % and the "
    "95 % intervals are apart, by the rules of assay regressions."
)


def show() -> None:
    """Show each chosen configuration over time; without a model, what got worse over the last days."""
    read = current(PAGE, history.read_trend)
    trend: Trend = read.asked
    owner, _, name = trend.model.rpartition("/")
    header(name or "Trends", "How has this changed, and what changed with it?", slug=trend.model if owner else "")
    with guarded("The service"):
        dropped(read.dropped)
        at = answers.ready()["position"] if trend.as_of is None else trend.as_of
        adopt(PAGE, trend, _values(trend))
        if trend.model:
            titled(trend.model, "Trends")
        _head(trend, at)
        if trend.model:
            with guarded(trend.model):
                _model(trend, at)
        elif not any(row.measurements for row in answers.models(at)):
            with st.container(key="answer"):
                st.info("Nothing has been measured yet. Measure one model here today, and again after the next update:")
                to_paste("assay bench bert-base-uncased --platform cpu")
        else:
            with guarded("What got worse"):
                _worse(trend, at)


def ahead(params: Params) -> None:
    """Ask what the page will ask for these parameters."""
    trend: Trend = history.read_trend(params).asked
    if trend.model:
        asking.lines(_question(trend), answers.ready()["position"] if trend.as_of is None else trend.as_of)


def _values(trend: Trend) -> dict[str, Any]:
    lists = {name: list(getattr(trend, name)) for name in _LISTS}
    days = {name: date.fromisoformat(value) if (value := getattr(trend, name)) else None for name in ("since", "until")}
    kept = {name: getattr(trend, name) for name in ("metric", "x", "scale", "days", *_SWITCHES)}
    return lists | days | kept | {"model": trend.model or None}


def _command(trend: Trend) -> str | None:
    if not trend.model:
        return None
    return f"assay trends {trend.model}" + ("" if trend.metric == "latency_ms" else f" --metric {trend.metric}")


def _head(trend: Trend, at: int) -> None:
    """Show the model, and where the answer comes from."""
    known = subjects.names(at)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="strip"):
        st.selectbox(
            "Model",
            list(dict.fromkeys([*(row.id for row in answers.models(at)), *([trend.model] if trend.model else [])])),
            index=None,
            key=widget(PAGE, "model"),
            accept_new_options=True,
            label_visibility="collapsed",
            placeholder="Type a model's name",
            on_change=_choose,
            args=(trend, known),
            width=330,
        )
        fixed = msgspec.structs.replace(trend, as_of=at)
        words = f"Position {formatting.count(at)} of the log. {_LEGEND if trend.model else ''}"
        provenance(PAGE, words, fixed, terminal=_command(trend))
    for text, models in st.session_state.pop(f"{PAGE} unknown", ()):
        with st.container(horizontal=True, vertical_alignment="center", key="offers"):
            st.markdown(f"No model is called “{escape(text)}”." + (" Did you mean:" if models else ""), width="content")
            for name in models:
                fitting = parameters(msgspec.structs.replace(trend, model=name, rows=()))
                st.markdown(f"[{escape(name)}](trends?{_query(fitting)})", width="content")


def _query(fitting: dict[str, list[str]]) -> str:
    return "&".join(f"{key}={quote(value, safe='/')}" for key, values in fitting.items() for value in values)


def _choose(trend: Trend, known: subjects.Names) -> None:
    """Take the model that was chosen or named exactly; a part of a name is offered, and never taken."""
    text = (st.session_state[widget(PAGE, "model")] or "").strip()
    typed = subjects.read(text, known) if text and text not in known.models else subjects.Typed(models=(text,))
    if len(typed.models) == 1 and not typed.unknown:
        go(PAGE, msgspec.structs.replace(trend, model=typed.models[0], rows=()))
    else:
        named = {part: models for part, models, _ in typed.unknown} or {text: typed.models}
        st.session_state[f"{PAGE} unknown"] = tuple(named.items())
    st.session_state.pop(f"{PAGE} adopted", None)


def _worse(trend: Trend, at: int) -> None:
    """Show what is worse than it was some days before the newest event, the worst first."""
    result = asking.regressions(trend.days, at)
    with st.container(key="answer"):
        st.subheader(escape(regressions.sentence(result, trend.days)), anchor=False)
    spans = [*_SPANS, *([trend.days] if trend.days not in _SPANS else [])]
    days = st.segmented_control(
        "Over the last", spans, key=widget(PAGE, "days"), format_func=regressions.span_words, required=True
    )
    if days != trend.days:
        go(PAGE, msgspec.structs.replace(trend, days=days))
        st.rerun()
    if not result["compared"]:
        st.caption("A change needs a measurement before that time and one after it. Models have their whole history:")
        most = sorted(answers.models(at), key=lambda row: -row.measurements)[:LISTED]
        links = [f"[{escape(row.id.rpartition('/')[2])}](trends?model={quote(row.id, safe='/')})" for row in most]
        st.markdown(" · ".join(links))
        return
    columns = regressions.columns(result, zone())
    if columns:
        result_table(columns, key=f"{PAGE} worse", words="What got worse", height=480)
        st.caption("Beyond 10 % with the 95 % intervals apart, the worst first.")
        rows = [*result["changes"], *result["turns"]]
        downloads(table_files(stem(PAGE, "worse", at), rows, as_of=at), f"{PAGE} worse")


def _model(request: Trend, at: int) -> None:
    answer, shown = _asked(request, at)
    lines = answer["lines"]
    place = st.container(key="answer")
    if not lines:
        _bar(request, at, ())
        with place:
            _nothing(request, at, answer["metrics"])
        return
    fits, pointed = history.lanes(lines, _along(shown)), set(answer["with_points"])
    keys = tuple(key for key in request.rows if any(lane.key == key for lane in fits))
    keys = keys or tuple(lane.key for lane in fits if lane.key in {history.key_of(item) for item in pointed})
    # Named among themselves: fewer words tell a few apart than a hundred.
    every = history.lanes([line for line in lines if line["alike"] in pointed], _along(shown))
    parts = [history.left_out(lane, shown) for lane in every]
    out = {kind: sum(counts[kind] for _, counts in parts) for kind in DOUBTED}
    out["undated"] = sum(count for alike, count in answer["undated"].items() if alike in pointed)
    matching = [lane for lane, _ in parts if lane.points]
    _bar(request, at, fits, answer["histories"], keys, out if shown == request else {**out, "undated": 0})
    if not matching:
        place.info("Nothing of these was measured between the two days, or all of it is left out.")
        return
    if _axis(shown) != "version":
        matching = _with_levels(shown, matching, at)
    said = history.sentence(matching, request.metric, zone())
    place.subheader(escape(said), anchor=False)
    if any(len(lane.points) > 1 for lane in matching):
        _lanes(shown, matching, answer["better"])
        _changes(request, matching)
    else:
        st.markdown(
            "A second measurement of one of them, after an update say, makes a history. "
            f"[Compare](/compare?model={quote(request.model)}) has what there is side by side."
        )
    _points(request, matching)
    _downloads(shown, at, matching, answer["better"], said)


def _with_levels(trend: Trend, lanes: Sequence[Lane], at: int) -> list[Lane]:
    """Return the lanes with what was found in the histories that have points enough, which is asked for once."""
    long = [lane for lane in lanes if len(lane.points) >= LEAST]
    figures = asking.figures_of(trend.metric)
    found: list[HistoryReport] = []
    alerts: dict[str, str] = {}
    if long and figures:
        with guarded("The levels"):
            for origin in ("measured", "imported"):
                alike = tuple(lane.alike for lane in long if levels.origin_of(lane) == origin)
                found += asking.reports(trend.model, alike, figures, origin, at) if alike else []
            alerts = asking.alerts_of(trend.model, at) if any(report.changes for report in found) else {}
    return levels.examined(lanes, found, alerts)


def _asked(request: Trend, at: int) -> tuple[dict[str, Any], Trend]:
    """Return the answer, and the view as it is shown: by version where nothing says when it was measured."""
    answer = asking.lines(_question(request), at)
    dated = any(line["points"] for line in answer["lines"])
    if request.x == "auto" and not request.undated and not dated and answer["undated"]:
        shown = msgspec.structs.replace(request, x="version", undated=True)
        return asking.lines(_question(shown), at), shown
    return answer, request


def _along(trend: Trend) -> str:
    """Return in which order points are compared: of versions where some say no time, for they came in no order of their own."""
    return "version" if trend.x == "version" or (trend.undated and trend.x != "time") else "time"


def _axis(trend: Trend) -> str:
    return trend.x if trend.x != "auto" else _along(trend)


def _filters(trend: Trend) -> dict[str, list[str]]:
    document = {"hardware": trend.hw, "platform": trend.platform, "precision": trend.precision}
    return {name: list(values) for name, values in document.items() if values}


def _question(trend: Trend) -> dict[str, Any]:
    """Return what names the configurations that can be picked and gives the points of those that are: one question, one wait."""
    until = (date.fromisoformat(trend.until) + timedelta(days=1)).isoformat() if trend.until else None
    question = {
        "model": trend.model,
        "metric": trend.metric,
        "top": OFFERED,
        "limit": asking.POINTS,
        "points_top": USUAL,
        "points_of": list(trend.rows),
        "since": f"{trend.since}T00:00:00" if trend.since else None,
        "until": f"{until}T00:00:00" if until else None,
        "along": _along(trend),
        "undated": trend.undated and trend.x != "time",
    }
    return {name: value for name, value in (question | _filters(trend)).items() if value not in (None, [])}


def _bar(
    trend: Trend,
    at: int,
    fits: Sequence[Lane],
    there: int = 0,
    keys: tuple[str, ...] = (),
    out: dict[str, int] | None = None,
) -> None:
    """Show what says which of a model's measurements are followed, and how; what is left out, with a switch for each kind."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="bar"):
        st.selectbox(
            "Metric",
            _metrics(trend, at),
            key=widget(PAGE, "metric"),
            filter_mode=None,
            format_func=METRICS.__getitem__,
            width=168,
        )
        st.selectbox(
            "Along", list(AXES), key=widget(PAGE, "x"), filter_mode=None, format_func=AXES.__getitem__, width=160
        )
        words = f"Configurations ({len(keys)} of {formatting.count(there)})" if fits else "Configurations"
        with st.popover(words, icon=":material/list:", key=f"{PAGE} configurations"):
            _picker(trend, fits, there, keys)
        _filters_bar(trend)
        for kind, count in (out or {}).items():
            if count or getattr(trend, kind):
                st.toggle(f"{kind.capitalize()} ({formatting.count(count)})", key=widget(PAGE, kind))
            else:
                st.session_state[widget(PAGE, kind)] = False
    state = {name: st.session_state.get(widget(PAGE, name)) for name in _values(trend) if name != "model"}
    chosen = msgspec.structs.replace(
        trend,
        metric=state["metric"],
        x=state["x"],
        scale=state["scale"],
        **{name: bool(state[name]) for name in _SWITCHES if out is not None},
        **{name: tuple(state[name]) for name in ("hw", "platform", "precision")},
        **{name: state[name].isoformat() if state[name] else "" for name in ("since", "until")},
    )
    if chosen != trend:
        turn(PAGE, chosen)


def _metrics(trend: Trend, at: int) -> list[str]:
    """Return the metrics to offer: those that the model has, and the one that is asked for."""
    lines: Sequence[str] = ()
    # What the service refuses is said below the filters, which are there to change it.
    with suppress(AssayError):
        lines = asking.lines(_question(trend), at)["metrics"]
    return [name for name in METRICS if name == trend.metric or name in lines]


def _filters_bar(trend: Trend) -> None:
    """Offer the filters behind a button that says how many hold: the browser draws them when it is pressed."""
    holding = sum(bool(value) for value in (trend.hw, trend.platform, trend.precision, trend.since, trend.until))
    with st.popover(f"Filters ({holding})" if holding else "Filters", icon=":material/tune:", key=f"{PAGE} filters"):
        st.multiselect("Hardware", list(trend.hw), key=widget(PAGE, "hw"), accept_new_options=True, select_all=False)
        for label, name, options in (("Software", "platform", PLATFORMS), ("Precision", "precision", PRECISIONS)):
            every = list(dict.fromkeys([*options, *getattr(trend, name)]))
            st.multiselect(label, every, key=widget(PAGE, name), select_all=False)
        days = st.columns(2)
        days[0].date_input("From", value=None, key=widget(PAGE, "since"))
        days[1].date_input("To", value=None, key=widget(PAGE, "until"))
        st.selectbox("Scale", SCALES, key=widget(PAGE, "scale"), filter_mode=None)


def _picker(trend: Trend, fits: Sequence[Lane], there: int, keys: tuple[str, ...]) -> None:
    named = {lane.key: f"{lane.name} (n {lane.total})" for lane in fits}
    place = widget(PAGE, "rows")
    # Keys of other filters would be no options; none left means those that are usual.
    st.session_state[place] = [key for key in st.session_state[place] if key in named] or list(keys)
    shown = st.multiselect(
        f"Configurations, {MOST} at most",
        list(named),
        key=place,
        max_selections=MOST,
        select_all=False,
        format_func=named.__getitem__,
    )
    if tuple(shown) != keys:
        go(PAGE, msgspec.structs.replace(trend, rows=tuple(shown)))
        st.rerun()
    if there > len(keys):
        offers = f" The list has {OFFERED}; the filters lead to the others." if there > OFFERED else ""
        st.caption(
            f"{len(keys)} of {formatting.count(there)} configurations, those with the most measurements unless chosen.{offers}"
        )


def _lanes(request: Trend, lanes: Sequence[Lane], better: str) -> None:
    on = across(lanes, _axis(request))
    span = span_of(lanes, on)
    for lane in lanes:
        newest = lane.points[-1]
        scale = history.scale_for(request.metric, [point["value"] for point in lane.points])
        st.markdown(
            f"**{escape(lane.name)}** :gray[{_counted(lane)} · newest {scale.show(newest['value'], newest['low'], newest['high'])}]"
        )
        drawn = trend(lane, request.metric, better, span, on=on, log=_log(request), theme=theme(), zone=zone())
        chart(drawn, key=f"{PAGE} {lane.key}", words=f"{METRICS[request.metric]} of {lane.name} over {_axis(request)}")


def _counted(lane: Lane) -> str:
    shown = len(lane.points)
    noun = "measurement" if shown == 1 else "measurements"
    newest = lane.total > asking.POINTS
    return (
        f"the newest {formatting.count(shown)} of {formatting.count(lane.total)} {noun}"
        if newest
        else f"{formatting.count(shown)} {noun}"
    )


def _log(trend: Trend) -> bool | None:
    # Not from 0, so that the range alone decides nothing: logarithmic only on demand.
    return trend.scale == "log"


def _changes(trend: Trend, lanes: Sequence[Lane]) -> None:
    """List the changes that the headline counts; those of the environment, and the unclear ones, are folded."""
    sure, every = history.changes(lanes), history.changes(lanes, every=True)
    if sure:
        st.subheader("What changed", anchor=False)
        columns = history.change_columns(sure, trend.metric, zone())
        result_table(columns, key=f"{PAGE} changes", words="Changes, newest first", height=300)
    if len(every) > len(sure):
        words = f"Every change of value or environment ({formatting.count(len(every))})"
        show = partial(_table, history.change_columns(every, trend.metric, zone()), "every change", words)
        folded(words, show, key=f"{PAGE} every change", icon=":material/table_rows:")


def _points(trend: Trend, lanes: Sequence[Lane]) -> None:
    alone = sum(len(lane.points) for lane in lanes) == len(lanes)
    show = partial(_table, history.point_columns(lanes, trend.metric, zone()), "points", "Every point")
    folded("Every point", show, key=f"{PAGE} every point", icon=":material/table_rows:", expanded=alone)


def _table(columns: Sequence[Any], name: str, words: str) -> None:
    result_table(columns, key=f"{PAGE} {name} table", words=words, height=400)


def _nothing(trend: Trend, at: int, metrics: Sequence[str]) -> None:
    if trend.metric in metrics:
        every = asking.lines({"model": trend.model, "metric": trend.metric, "limit": 0, "top": 1}, at)["histories"]
        st.info(f"The filters leave none of {formatting.count(every)} configurations.")
        if st.button("Reset filters", key=f"{PAGE} reset"):
            turn(PAGE, Trend(model=trend.model, metric=trend.metric, as_of=trend.as_of))
        return
    there = [METRICS[metric] for metric in METRICS if metric in metrics]
    also = f" It has: {', '.join(there)}." if there else ""
    st.info(f"No measurement of this model has the metric {METRICS[trend.metric]}.{also} This would measure it here:")
    to_paste(f"assay bench {trend.model}")


def _downloads(request: Trend, at: int, lanes: Sequence[Lane], better: str, said: str) -> None:
    name, shade = stem(PAGE, f"{request.model}_{request.metric}", at), theme()
    footer = f"position {formatting.count(at)} · {sum(len(lane.points) for lane in lanes)} measurements"
    rows = [
        {
            "model": request.model,
            "metric": request.metric,
            "lane": lane.name,
            "hardware": lane.hardware,
            "platform": lane.platform,
            "precision": lane.precision,
            **point,
        }
        for lane in lanes
        for point in lane.points
    ]
    on: Across = across(lanes, _axis(request))
    span = span_of(lanes, on)
    viewer = zone()

    def draw() -> Any:
        panels = [
            trend(
                lane,
                request.metric,
                better,
                span,
                on=on,
                log=_log(request),
                theme=shade,
                picture=True,
                zone=viewer,
            )
            for lane in lanes
        ]
        return stacked([(lane.name, panel) for lane, panel in zip(lanes, panels, strict=True)], shade)

    downloads(
        [
            *table_files(name, rows, as_of=at),
            *picture_files(name, draw, f"{request.model} over time", answer=said, footer=footer),
        ],
        PAGE,
    )
