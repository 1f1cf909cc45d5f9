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

from dashboard import answers
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
from dashboard.pages.trends import query as asking
from dashboard.pages.trends import words as history
from dashboard.pages.trends.regressions_view import show_worse
from dashboard.pages.trends.words import AXES, METRICS, MOST, Lane, Trend
from domain.errors import AssayError
from domain.vocabulary import PLATFORMS, PRECISIONS
from presentation import formatting
from presentation.charts.trend_chart import span_of, stacked, trend

__all__ = ["ahead", "show"]

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
        asked: Trend = read.asked
        at = answers.ready()["position"] if asked.as_of is None else asked.as_of
        provenance(
            PAGE, f"position {formatting.count(at)}", msgspec.structs.replace(asked, as_of=at), terminal=_command(asked)
        )
        adopt(PAGE, asked, _values(asked))
        if asked.model:
            titled(asked.model, "Trends")
        models = answers.models(at)
        _bar(asked, [str(row["id"]) for row in models], _metrics(asked, at))
        if asked.model:
            with guarded(asked.model):
                _model(asked, at)
        elif not any(row.get("measurements") for row in models):
            st.info("Nothing has been measured yet. Measure one model here today, and again after the next update:")
            to_paste("assay bench bert-base-uncased --platform cpu")
        else:
            with guarded("What got worse"):
                show_worse(asked, at)


def ahead(params: Params) -> None:
    """Ask what the page will ask for these parameters."""
    asked: Trend = history.read_trend(params).asked
    if asked.model:
        asking.lines(_question(asked), answers.ready()["position"] if asked.as_of is None else asked.as_of)


def _values(asked: Trend) -> dict[str, Any]:
    lists = {name: list(getattr(asked, name)) for name in _LISTS}
    days = {name: date.fromisoformat(value) if (value := getattr(asked, name)) else None for name in ("since", "until")}
    return (
        lists
        | days
        | {"model": asked.model or None, "metric": asked.metric, "x": asked.x, "scale": asked.scale, "days": asked.days}
    )


def _command(asked: Trend) -> str | None:
    if not asked.model:
        return None
    return f"assay trends {asked.model}" + ("" if asked.metric == "latency_ms" else f" --metric {asked.metric}")


def _metrics(asked: Trend, at: int) -> list[str]:
    """Return the metrics to offer: those that the model has, and the one that is asked for."""
    told: Sequence[str] = ()
    # What the service refuses is said below the filters, which are there to change it.
    if asked.model:
        with suppress(AssayError):
            told = asking.lines(_question(asked), at)["metrics"]
    return [name for name in METRICS if name == asked.metric or name in told]


def _bar(asked: Trend, known: Sequence[str], metrics: Sequence[str]) -> None:
    first = st.columns([5, 3, 2, 2], vertical_alignment="bottom")
    first[0].selectbox(
        "Model", list(dict.fromkeys([*known, *([asked.model] if asked.model else [])])), index=None, key=widget(PAGE, "model"),
        accept_new_options=True, placeholder="Type a part of its name",
    )  # fmt: skip
    if asked.model:
        _how(asked, metrics, first[1:])
    state = {name: st.session_state.get(widget(PAGE, name)) for name in _values(asked)}
    chosen = msgspec.structs.replace(
        asked, model=state["model"] or "", metric=state["metric"], x=state["x"], scale=state["scale"],
        **{name: tuple(state[name]) for name in ("hw", "platform", "precision")},
        **{name: state[name].isoformat() if state[name] else "" for name in ("since", "until")},
    )  # fmt: skip
    if chosen != asked:
        fewer = chosen.model != asked.model
        turn(PAGE, msgspec.structs.replace(chosen, rows=()) if fewer else chosen)


def _how(asked: Trend, metrics: Sequence[str], places: Sequence[DeltaGenerator]) -> None:
    """Show what says which of a model's measurements are followed, and how."""
    places[0].selectbox(
        "Metric", metrics, key=widget(PAGE, "metric"), filter_mode=None, format_func=METRICS.__getitem__
    )
    places[1].selectbox(
        "Along", AXES, key=widget(PAGE, "x"), filter_mode=None, help="By time, or evenly by the order of measurements."
    )
    places[2].selectbox("Scale", SCALES, key=widget(PAGE, "scale"), filter_mode=None)
    _filters_bar(asked)


def _filters_bar(asked: Trend) -> None:
    """Offer the filters behind a button that says how many hold: the browser draws them when it is pressed."""
    holding = sum(bool(value) for value in (asked.hw, asked.platform, asked.precision, asked.since, asked.until))
    with st.popover(f"Filters ({holding})" if holding else "Filters", icon=":material/tune:", key=f"{PAGE} filters"):
        st.multiselect("Hardware", list(asked.hw), key=widget(PAGE, "hw"), accept_new_options=True, select_all=False)
        st.multiselect(
            "Platform",
            list(dict.fromkeys([*PLATFORMS, *asked.platform])),
            key=widget(PAGE, "platform"),
            select_all=False,
        )
        st.multiselect(
            "Precision",
            list(dict.fromkeys([*PRECISIONS, *asked.precision])),
            key=widget(PAGE, "precision"),
            select_all=False,
        )
        days = st.columns(2)
        days[0].date_input("From", value=None, key=widget(PAGE, "since"))
        days[1].date_input("To", value=None, key=widget(PAGE, "until"))


def _model(asked: Trend, at: int) -> None:
    answer = asking.lines(_question(asked), at)
    lines = answer["lines"]
    if not lines:
        _nothing(asked, at, answer["metrics"])
        return
    fits, pointed = history.lanes(lines), set(answer["with_points"])
    keys = tuple(key for key in asked.rows if any(lane.key == key for lane in fits))
    keys = keys or tuple(lane.key for lane in fits if lane.key in {history.key_of(one) for one in pointed})
    _picker(asked, fits, answer["histories"], keys)
    # Named among themselves: fewer words tell a few apart than a hundred.
    shown = history.lanes([line for line in lines if line["alike"] in pointed])
    found = [lane for lane in shown if lane.points]
    if not found:
        st.info("Nothing of these was measured between the two days.")
        return
    said = history.sentence(found, asked.metric, zone())
    with st.container(key="answer"):
        st.subheader(escape(said), anchor=False)
    if any(len(lane.points) > 1 for lane in found):
        _lanes(asked, found, answer["better"])
        _changes(asked, found)
    else:
        st.markdown(
            "A second measurement of one of them, after an update say, makes a history. "
            f"[Compare](/compare?model={quote(asked.model)}) sets what there is side by side."
        )
    _points(asked, found)
    _downloads(asked, at, found, answer["better"], said)


def _filters(asked: Trend) -> dict[str, list[str]]:
    told = {"hardware": asked.hw, "platform": asked.platform, "precision": asked.precision}
    return {name: list(values) for name, values in told.items() if values}


def _question(asked: Trend) -> dict[str, Any]:
    """Return what names the configurations that can be picked and gives the points of those that are: one question, one wait."""
    until = (date.fromisoformat(asked.until) + timedelta(days=1)).isoformat() if asked.until else None
    question = {
        "model": asked.model, "metric": asked.metric, "top": OFFERED, "limit": asking.POINTS, "points_top": USUAL,
        "points_of": list(asked.rows), "since": f"{asked.since}T00:00:00" if asked.since else None,
        "until": f"{until}T00:00:00" if until else None,
    }  # fmt: skip
    return {name: value for name, value in (question | _filters(asked)).items() if value not in (None, [])}


def _picker(asked: Trend, fits: Sequence[Lane], there: int, keys: tuple[str, ...]) -> None:
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
        go(PAGE, msgspec.structs.replace(asked, rows=tuple(shown)))
        st.rerun()
    if there > len(keys):
        offers = f" The list has {OFFERED}; the filters above lead to the others." if there > OFFERED else ""
        st.caption(
            f"{len(keys)} of {formatting.count(there)} configurations, those with the most measurements unless chosen.{offers}"
        )


def _lanes(asked: Trend, found: Sequence[Lane], better: str) -> None:
    span, numbered = span_of(found, asked.x), history.numbered(found) if asked.x == "order" else None
    for lane in found:
        newest = lane.points[-1]
        scale = history.scale_for(asked.metric, [point["value"] for point in lane.points])
        st.markdown(
            f"**{escape(lane.name)}** :gray[{_counted(lane)} · newest {scale.show(newest['value'], newest['low'], newest['high'])}]"
        )
        drawn = trend(lane, asked.metric, better, span, numbered=numbered, log=_log(asked), theme=theme(), zone=zone())
        chart(drawn, key=f"{PAGE} {lane.key}", words=f"{METRICS[asked.metric]} of {lane.name} over time")
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


def _log(asked: Trend) -> bool | None:
    # Not from 0, so that the range alone decides nothing: logarithmic only on demand.
    return asked.scale == "log"


def _changes(asked: Trend, found: Sequence[Lane]) -> None:
    st.subheader("What changed", anchor=False)
    changed = history.changes(found, asked.metric, zone())
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
            words, partial(_rows, changed, "changes", "Changes, newest first"), key=f"{PAGE} every change",
            icon=":material/table_rows:",
        )  # fmt: skip


def _linked(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change as Markdown, its run as a link."""
    told = {name: value if value is None else escape(str(value)) for name, value in line.items()}
    run = line["Run"]
    name = run and run.partition("=")[2]
    return told | {
        "Run": run and f"[{escape(name if len(name) <= RUN else f'{name[: RUN - 1]}…')}]({quote(run, safe='/?=')})"
    }


def _points(asked: Trend, found: Sequence[Lane]) -> None:
    lines = [line for lane in found for line in history.points_table(lane, asked.metric, zone())]
    folded(
        "Every point", partial(_rows, lines, "points", "Every point"), key=f"{PAGE} every point", icon=":material/table_rows:",
        expanded=len(lines) == len(found),
    )  # fmt: skip


def _rows(lines: Sequence[Mapping[str, Any]], name: str, words: str) -> None:
    st.dataframe(
        pd.DataFrame(lines).dropna(axis="columns", how="all"), hide_index=True, key=f"{PAGE} {name}", row_height=36,
        placeholder=formatting.MISSING, height="content" if len(lines) <= 10 else 400, alt=words, column_config={"Run": _RUN},
    )  # fmt: skip


def _nothing(asked: Trend, at: int, metrics: Sequence[str]) -> None:
    if asked.metric in metrics:
        every = asking.lines({"model": asked.model, "metric": asked.metric, "limit": 0, "top": 1}, at)["histories"]
        st.info(f"The filters leave none of {formatting.count(every)} configurations.")
        if st.button("Reset filters", key=f"{PAGE} reset"):
            turn(PAGE, Trend(model=asked.model, metric=asked.metric, as_of=asked.as_of))
        return
    there = [METRICS[one] for one in METRICS if one in metrics]
    also = f" It has: {', '.join(there)}." if there else ""
    st.info(f"No measurement of this model has the metric {METRICS[asked.metric]}.{also} This would measure it here:")
    to_paste(f"assay bench {asked.model}")


def _downloads(asked: Trend, at: int, found: Sequence[Lane], better: str, said: str) -> None:
    name, shade = stem(PAGE, f"{asked.model}_{asked.metric}", at), theme()
    footer = f"position {formatting.count(at)} · {sum(len(lane.points) for lane in found)} measurements"
    rows = [
        {"model": asked.model, "metric": asked.metric, "lane": lane.name, "hardware": lane.hardware, "platform": lane.platform, "precision": lane.precision, **point}
        for lane in found for point in lane.points
    ]  # fmt: skip
    span, numbered = span_of(found, asked.x), history.numbered(found) if asked.x == "order" else None
    viewer = zone()

    def draw() -> Any:
        panels = [
            trend(
                lane,
                asked.metric,
                better,
                span,
                numbered=numbered,
                log=_log(asked),
                theme=shade,
                picture=True,
                zone=viewer,
            )
            for lane in found
        ]
        return stacked([(lane.name, panel) for lane, panel in zip(found, panels, strict=True)], shade)

    downloads(
        [
            *table_files(name, rows, as_of=at),
            *picture_files(name, draw, f"{asked.model} over time", answer=said, footer=footer),
        ],
        PAGE,
    )
