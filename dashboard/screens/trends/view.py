"""Trends: how has this configuration changed, and what changed with it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import answers, regressions
from dashboard.address import SCALES, Params
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
from dashboard.screens.trends import query as asking
from dashboard.screens.trends import words as history
from dashboard.screens.trends.chart import span_of, stacked, trend
from dashboard.screens.trends.words import AXES, METRICS, MOST, Lane, Trend
from domain.errors import AssayError
from domain.vocabulary import PLATFORMS, PRECISIONS
from presentation import formatting

__all__ = ["ahead", "show", "show_worse"]

_SPANS = (1.0, 7.0, 30.0, 90.0)
_REGRESSIONS_VIEW_RUN = st.column_config.LinkColumn(display_text=r"run=(.{1,28})", help="On the page Runs")


def show_worse(trend: Trend, at: int) -> None:
    """Show what is worse than it was some days before the newest event, each with a link to its history and its run."""
    spans = [*_SPANS, *([trend.days] if trend.days not in _SPANS else [])]
    days = st.segmented_control(
        "Over the last", spans, key=widget(PAGE, "days"), format_func=regressions.span_words, required=True
    )
    if days != trend.days:
        go(PAGE, msgspec.structs.replace(trend, days=days))
        st.rerun()
    result = asking.regressions(trend.days, at)
    with st.container(key="answer"):
        st.subheader(escape(regressions.sentence(result, trend.days)), anchor=False)
    if not result["compared"]:
        st.caption(
            "A change needs a measurement before that time and one after it. Choose a model above to see its whole history."
        )
        return
    rows = regressions.lines(result, zone())
    if rows:
        st.dataframe(
            pd.DataFrame(rows).dropna(axis="columns", how="all"),
            hide_index=True,
            key=f"{PAGE} worse",
            row_height=36,
            placeholder=formatting.MISSING,
            height="content" if len(rows) <= 12 else 470,
            alt="What got worse",
            column_config={"Over time": st.column_config.LinkColumn(display_text="open"), "Run": _REGRESSIONS_VIEW_RUN},
        )
        st.caption(
            "Beyond 10 % with the 95 % intervals apart, the worst first. Choose a model above to see its history."
        )
        downloads(
            table_files(stem(PAGE, "worse", at), [*result["changes"], *result["turns"]], as_of=at), f"{PAGE} worse"
        )


PAGE = "trends"
OFFERED = 100
"""Configurations that can be picked, those with the most points; a list of thousands would stop the browser."""
NEWEST = 10
"""Changes that are shown at once."""
RUN = 18
"""Letters of a run's name that are shown."""
USUAL = 3
"""Configurations shown where none is picked, those with the most points."""
_LISTS = ("rows", "hw", "platform", "precision")
_RUN = st.column_config.LinkColumn(display_text=r"run=(.{1,28})", help="On the page Runs")


def show() -> None:
    """Show each chosen configuration over time; without a model, what got worse over the last days."""
    header("Trends", "How has this configuration changed, and what changed with it?")
    with guarded("The service"):
        read = current(PAGE, history.read_trend)
        dropped(read.dropped)
        trend: Trend = read.asked
        at = answers.ready()["position"] if trend.as_of is None else trend.as_of
        provenance(
            PAGE, f"position {formatting.count(at)}", msgspec.structs.replace(trend, as_of=at), terminal=_command(trend)
        )
        adopt(PAGE, trend, _values(trend))
        if trend.model:
            titled(trend.model, "Trends")
        models = answers.models(at)
        _bar(trend, [row.id for row in models], _metrics(trend, at))
        if trend.model:
            with guarded(trend.model):
                _model(trend, at)
        elif not any(row.measurements for row in models):
            st.info("Nothing has been measured yet. Measure one model here today, and again after the next update:")
            to_paste("assay bench bert-base-uncased --platform cpu")
        else:
            with guarded("What got worse"):
                show_worse(trend, at)


def ahead(params: Params) -> None:
    """Ask what the page will ask for these parameters."""
    trend: Trend = history.read_trend(params).asked
    if trend.model:
        asking.lines(_question(trend), answers.ready()["position"] if trend.as_of is None else trend.as_of)


def _values(trend: Trend) -> dict[str, Any]:
    lists = {name: list(getattr(trend, name)) for name in _LISTS}
    days = {name: date.fromisoformat(value) if (value := getattr(trend, name)) else None for name in ("since", "until")}
    return (
        lists
        | days
        | {"model": trend.model or None, "metric": trend.metric, "x": trend.x, "scale": trend.scale, "days": trend.days}
    )


def _command(trend: Trend) -> str | None:
    if not trend.model:
        return None
    return f"assay trends {trend.model}" + ("" if trend.metric == "latency_ms" else f" --metric {trend.metric}")


def _metrics(trend: Trend, at: int) -> list[str]:
    """Return the metrics to offer: those that the model has, and the one that is asked for."""
    lines: Sequence[str] = ()
    # What the service refuses is said below the filters, which are there to change it.
    if trend.model:
        with suppress(AssayError):
            lines = asking.lines(_question(trend), at)["metrics"]
    return [name for name in METRICS if name == trend.metric or name in lines]


def _bar(trend: Trend, names: Sequence[str], metrics: Sequence[str]) -> None:
    first = st.columns([5, 3, 2, 2], vertical_alignment="bottom")
    first[0].selectbox(
        "Model",
        list(dict.fromkeys([*names, *([trend.model] if trend.model else [])])),
        index=None,
        key=widget(PAGE, "model"),
        accept_new_options=True,
        placeholder="Type a part of its name",
    )
    if trend.model:
        _how(trend, metrics, first[1:])
    state = {name: st.session_state.get(widget(PAGE, name)) for name in _values(trend)}
    chosen = msgspec.structs.replace(
        trend,
        model=state["model"] or "",
        metric=state["metric"],
        x=state["x"],
        scale=state["scale"],
        **{name: tuple(state[name]) for name in ("hw", "platform", "precision")},
        **{name: state[name].isoformat() if state[name] else "" for name in ("since", "until")},
    )
    if chosen != trend:
        fewer = chosen.model != trend.model
        turn(PAGE, msgspec.structs.replace(chosen, rows=()) if fewer else chosen)


def _how(trend: Trend, metrics: Sequence[str], places: Sequence[DeltaGenerator]) -> None:
    """Show what says which of a model's measurements are followed, and how."""
    places[0].selectbox(
        "Metric", metrics, key=widget(PAGE, "metric"), filter_mode=None, format_func=METRICS.__getitem__
    )
    places[1].selectbox(
        "Along", AXES, key=widget(PAGE, "x"), filter_mode=None, help="By time, or evenly by the order of measurements."
    )
    places[2].selectbox("Scale", SCALES, key=widget(PAGE, "scale"), filter_mode=None)
    _filters_bar(trend)


def _filters_bar(trend: Trend) -> None:
    """Offer the filters behind a button that says how many hold: the browser draws them when it is pressed."""
    holding = sum(bool(value) for value in (trend.hw, trend.platform, trend.precision, trend.since, trend.until))
    with st.popover(f"Filters ({holding})" if holding else "Filters", icon=":material/tune:", key=f"{PAGE} filters"):
        st.multiselect("Hardware", list(trend.hw), key=widget(PAGE, "hw"), accept_new_options=True, select_all=False)
        st.multiselect(
            "Platform",
            list(dict.fromkeys([*PLATFORMS, *trend.platform])),
            key=widget(PAGE, "platform"),
            select_all=False,
        )
        st.multiselect(
            "Precision",
            list(dict.fromkeys([*PRECISIONS, *trend.precision])),
            key=widget(PAGE, "precision"),
            select_all=False,
        )
        days = st.columns(2)
        days[0].date_input("From", value=None, key=widget(PAGE, "since"))
        days[1].date_input("To", value=None, key=widget(PAGE, "until"))


def _model(trend: Trend, at: int) -> None:
    answer = asking.lines(_question(trend), at)
    lines = answer["lines"]
    if not lines:
        _nothing(trend, at, answer["metrics"])
        return
    fits, pointed = history.lanes(lines), set(answer["with_points"])
    keys = tuple(key for key in trend.rows if any(lane.key == key for lane in fits))
    keys = keys or tuple(lane.key for lane in fits if lane.key in {history.key_of(item) for item in pointed})
    _picker(trend, fits, answer["histories"], keys)
    # Named among themselves: fewer words tell a few apart than a hundred.
    shown = history.lanes([line for line in lines if line["alike"] in pointed])
    matching_shown = [lane for lane in shown if lane.points]
    if not matching_shown:
        st.info("Nothing of these was measured between the two days.")
        return
    said = history.sentence(matching_shown, trend.metric, zone())
    with st.container(key="answer"):
        st.subheader(escape(said), anchor=False)
    if any(len(lane.points) > 1 for lane in matching_shown):
        _lanes(trend, matching_shown, answer["better"])
        _changes(trend, matching_shown)
    else:
        st.markdown(
            "A second measurement of one of them, after an update say, makes a history. "
            f"[Compare](/compare?model={quote(trend.model)}) sets what there is side by side."
        )
    _points(trend, matching_shown)
    _downloads(trend, at, matching_shown, answer["better"], said)


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
    }
    return {name: value for name, value in (question | _filters(trend)).items() if value not in (None, [])}


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
        offers = f" The list has {OFFERED}; the filters above lead to the others." if there > OFFERED else ""
        st.caption(
            f"{len(keys)} of {formatting.count(there)} configurations, those with the most measurements unless chosen.{offers}"
        )


def _lanes(request: Trend, lanes: Sequence[Lane], better: str) -> None:
    span, numbered = span_of(lanes, request.x), history.numbered(lanes) if request.x == "order" else None
    for lane in lanes:
        newest = lane.points[-1]
        scale = history.scale_for(request.metric, [point["value"] for point in lane.points])
        st.markdown(
            f"**{escape(lane.name)}** :gray[{_counted(lane)} · newest {scale.show(newest['value'], newest['low'], newest['high'])}]"
        )
        drawn = trend(
            lane, request.metric, better, span, numbered=numbered, log=_log(request), theme=theme(), zone=zone()
        )
        chart(drawn, key=f"{PAGE} {lane.key}", words=f"{METRICS[request.metric]} of {lane.name} over time")
    st.caption(
        "Bars are 95 % intervals. A line joins measurements of one configuration in one environment, and stops where either, or the "
        "value, changed. ▲ under the points: a driver, library or runtime that is not what it was. ⚠ suspect has a ring; ✕ invalid or "
        "simulated stands off the line and is compared with nothing."
    )


def _counted(lane: Lane) -> str:
    shown = len(lane.points)
    noun = "measurement" if shown == 1 else "measurements"
    return (
        f"{formatting.count(shown)} {noun}"
        if shown >= lane.total
        else f"the newest {formatting.count(shown)} of {formatting.count(lane.total)} {noun}"
    )


def _log(trend: Trend) -> bool | None:
    # Not from 0, so that the range alone decides nothing: logarithmic only on demand.
    return trend.scale == "log"


def _changes(trend: Trend, lanes: Sequence[Lane]) -> None:
    st.subheader("What changed", anchor=False)
    changed = history.changes(lanes, trend.metric, zone())
    sure = [line for line in changed if line["With it"] or not line["Why unclear"]]
    if sure:
        # A plain table: what draws the other kind is half a megabyte for the browser to read.
        newest = pd.DataFrame([_linked(line) for line in sure[:NEWEST]]).dropna(axis="columns", how="all")
        st.table(newest, hide_index=True, border="horizontal", alt="Changes, newest first")
        st.caption(
            "A change counts where it is beyond 10 % and the 95 % intervals are apart, by the rules of `assay regressions`."
        )
    else:
        st.caption("Neither a value beyond 10 % and the noise, nor anything that was recorded of the environment.")
    if len(changed) > len(sure[:NEWEST]):
        unclear = len(changed) - len(sure)
        words = f"Every change, {formatting.count(len(changed))}" + (
            f", {formatting.count(unclear)} of them unclear" if unclear else ""
        )
        folded(
            words,
            partial(_rows, changed, "changes", "Changes, newest first"),
            key=f"{PAGE} every change",
            icon=":material/table_rows:",
        )


def _linked(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change as Markdown, its run as a link."""
    values = {name: value if value is None else escape(str(value)) for name, value in line.items()}
    run = line["Run"]
    name = run and run.partition("=")[2]
    return values | {
        "Run": run and f"[{escape(name if len(name) <= RUN else f'{name[: RUN - 1]}…')}]({quote(run, safe='/?=')})"
    }


def _points(trend: Trend, lanes: Sequence[Lane]) -> None:
    lines = [line for lane in lanes for line in history.points_table(lane, trend.metric, zone())]
    folded(
        "Every point",
        partial(_rows, lines, "points", "Every point"),
        key=f"{PAGE} every point",
        icon=":material/table_rows:",
        expanded=len(lines) == len(lanes),
    )


def _rows(lines: Sequence[Mapping[str, Any]], name: str, words: str) -> None:
    st.dataframe(
        pd.DataFrame(lines).dropna(axis="columns", how="all"),
        hide_index=True,
        key=f"{PAGE} {name}",
        row_height=36,
        placeholder=formatting.MISSING,
        height="content" if len(lines) <= 10 else 400,
        alt=words,
        column_config={"Run": _RUN},
    )


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
    span, numbered = span_of(lanes, request.x), history.numbered(lanes) if request.x == "order" else None
    viewer = zone()

    def draw() -> Any:
        panels = [
            trend(
                lane,
                request.metric,
                better,
                span,
                numbered=numbered,
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
