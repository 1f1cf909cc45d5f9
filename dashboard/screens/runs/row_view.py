"""One row of a run: its stages, its samples, its metrics with their verdicts, and what was asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence

import altair as alt
import msgspec
import pandas as pd
import streamlit as st

from dashboard import menu
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import Download, chart, downloads, escape, folded, guarded, theme, zone
from dashboard.screens.runs import query as asking
from dashboard.screens.runs import samples
from dashboard.screens.runs.query import OneRun
from dashboard.tables.result_table import Column, columns_of, result_table
from domain.answers.run import Fact, LoggedEvent
from domain.errors import Expired, NotFound
from domain.events import MEASUREMENT_RECORDED
from domain.samples import Picture
from presentation import energy, formatting, loads
from presentation.charts import samples_chart, stages_chart
from presentation.palette import badge

__all__ = ["show"]

PAGE = "runs"
ORIGINS = {
    **{name: badge(name) for name in ("measured", "imported")},
    "page": "measured by a page in somebody's browser; no operator has accepted the device",
}


def show(event: LoggedEvent, row: OneRun, at: int) -> None:
    """Show the fact that an event tells: a measurement, a failure or a test; of another event what it holds."""
    sent, fact = msgspec.json.decode(event.sent), event.fact
    if fact is not None:
        _head(event, fact, row)
        if event.type == MEASUREMENT_RECORDED:
            _measurement(event, fact, at)
        else:
            _outcome(fact)
        with guarded("Asked and actual"):
            _asked(fact)
        _details("Load", loads.lines(sent["data"]))
        if event.type == MEASUREMENT_RECORDED:
            _details("Energy", energy.lines(sent["data"]))
        _links(fact)
    else:
        st.markdown(f"This event is of type {escape(event.type)}.")
    with st.expander("The event as it was sent", icon=":material/data_object:"):
        st.json(sent, expanded=2)


def _head(event: LoggedEvent, fact: Fact, row: OneRun) -> None:
    taken = next((retraction for retraction in row.retractions if retraction.event_id == event.id), None)
    sentence = escape(samples.sentence(fact))
    if taken:
        st.error(
            f"This row was taken back: {escape(taken.reason)}. It is in no answer and in no training.",
            icon=":material/undo:",
        )
    gone = taken or row.run.retracted_because
    reasons = fact.validity.reasons if fact.validity else []
    with st.container(key="answer"):
        st.subheader(f"~~{sentence}~~" if gone else sentence, anchor=False)
        if reasons:
            st.warning("  \n".join(escape(reason) for reason in reasons), icon=":material/warning:")
    parts = [
        formatting.when(event.time, zone()) if event.time else f"came {formatting.date(event.recorded_at, zone())}"
    ]
    parts.append(ORIGINS.get(fact.provenance.origin, "SIMULATED"))
    if runtime := fact.execution.runtime:
        parts.append(f"{runtime.name} {runtime.version or ''}".strip())
    if fact.model.weights == "random":
        parts.append("random weights: speed and memory are right, outputs are not")
    st.caption(escape(" · ".join(parts)))


def _measurement(event: LoggedEvent, fact: Fact, at: int) -> None:
    drawn = _samples(event, fact)
    if drawn is not None:
        with guarded("The samples"):
            _series(event, fact, drawn, at)
    with guarded("The metrics"):
        st.subheader("Metrics", anchor=False)
        columns = columns_of(samples.metrics(fact))
        result_table(columns, key=f"{PAGE} metrics", words="Metrics of the row with their verdicts")
    with guarded("The stages"):
        _stages(fact, drawn)


def _asked(fact: Fact) -> None:
    """Show what was asked for beside what did the work, at once where they differ."""
    table = samples.asked(fact)
    folded(
        "Asked → actual",
        lambda: result_table(columns_of(table), key=f"{PAGE} asked", words="What was asked for, and what did the work"),
        key=f"{PAGE} fold asked",
        expanded=(table["Same"] == samples.DIFFERS).any(),
    )


def _details(head: str, names: Sequence[tuple[str, str]]) -> None:
    """Offer what is said of one thing, as names and words; nothing where nothing is."""
    if names:
        columns = [
            Column(head="What", values=[name for name, _ in names]),
            Column(head="Said", values=[words for _, words in names]),
        ]
        with guarded(head):
            folded(head, lambda: result_table(columns, key=f"{PAGE} {head}", words=head), key=f"{PAGE} fold {head}")


def _samples(event: LoggedEvent, fact: Fact) -> Picture | None:
    """Return the samples of a row, or say why there are none."""
    reference = fact.samples
    if reference is None:
        st.caption("No raw samples were recorded for this row: it has its figures alone.")
        return None
    try:
        return asking.samples(event.id)
    except (Expired, NotFound) as problem:
        text = f"There were {formatting.count(reference.n)}, digest {formatting.digest(reference.digest)}."
        why = "have expired" if isinstance(problem, Expired) else "are not in the log"
        st.info(f"The raw samples of this row {why}. {text} Its figures stay.", icon=":material/hourglass_disabled:")
        return None


def _stages(fact: Fact, drawn: Picture | None) -> None:
    stages = samples.stages(fact, drawn)
    if not any(item.end for item in stages):
        return
    sentence = ", ".join(f"{item.stage} {item.took}" for item in stages if item.end is not None)
    drawn_stages = stages_chart.stages(msgspec.to_builtins(stages), fact.execution.platform, theme=theme())
    folded(
        f"Stages: {sentence}",
        lambda: chart(drawn_stages, key=f"{PAGE} stages", words=f"Stages of the row: {sentence}"),
        key=f"{PAGE} fold stages",
    )


def _series(event: LoggedEvent, fact: Fact, drawn: Picture, at: int) -> None:
    st.subheader("Samples", anchor=False)
    platform, shade, shown = fact.execution.platform, theme(), msgspec.to_builtins(drawn)
    percentiles, lasted = samples.percentiles(drawn), samples.steady(drawn, fact)
    left, right = st.columns([3, 2])
    with left:
        calls = samples_chart.samples(shown, platform, theme=shade)
        chart(calls, key=f"{PAGE} samples", words=f"Time of each call: {lasted}")
    with right:
        times = samples_chart.times(shown, platform, theme=shade)
        chart(times, key=f"{PAGE} times", words=f"How steady times lie: {percentiles}")
    st.markdown(escape(percentiles))
    st.caption(escape(f"{lasted} · digest {formatting.digest(drawn.digest)}"))
    if drawn.bands is not None:
        st.caption(
            "Too many calls for a dot each: a dot is the median of a stretch, its line from the shortest to the longest."
        )
    downloads(_files(event, fact, drawn, at, percentiles), f"{PAGE} samples")


def _files(event: LoggedEvent, fact: Fact, drawn: Picture, at: int, text: str) -> list[Download]:
    name, shade, platform = stem("samples", event.id[:13], at), theme(), fact.execution.platform
    footer = (
        f"measurement {event.id} · position {formatting.count(event.position)} · {formatting.count(drawn.n)} samples"
    )
    about = {"measurement": event.id, "digest": drawn.digest}
    shown = msgspec.to_builtins(drawn)

    def draw() -> alt.LayerChart:
        return samples_chart.samples(shown, platform, theme=shade, picture=True)

    def lie() -> alt.LayerChart:
        return samples_chart.times(shown, platform, theme=shade, picture=True)

    title = samples.named(fact)
    histogram = [
        (f"{label} of the histogram", file.replace("samples_", "histogram_", 1), media, make)
        for label, file, media, make in picture_files(name, lie, title, answer=text, footer=footer)
    ]
    return [
        *table_files(name, samples.series(drawn).assign(**about).to_dict("records"), as_of=at),
        *picture_files(name, draw, title, answer=text, footer=footer),
        histogram[0],
        (
            "The event as JSON",
            f"{name}.json",
            "application/json",
            lambda: json.dumps(msgspec.json.decode(event.sent), indent=1).encode(),
        ),
    ]


def _outcome(fact: Fact) -> None:
    if fact.failure:
        st.markdown(f"**{escape(fact.failure.error)}**")
        st.code(fact.failure.message or "no message", language=None, wrap_lines=True, height="content")
    if fact.remedy:
        st.info(escape(fact.remedy), icon=":material/lightbulb:")
    checks = fact.checks or {}
    if checks.get("outputs"):
        st.subheader("Outputs", anchor=False)
        result_table(columns_of(pd.DataFrame(checks["outputs"])), key=f"{PAGE} outputs", words="What was compared")
    elif checks:
        st.json(checks, expanded=1)


def _links(fact: Fact) -> None:
    """Offer the pages that tell more of the model and the hardware, those that there are."""
    model, hardware = fact.model.id, fact.hardware.id
    with st.container(horizontal=True):
        for page, label, query in (
            ("compare", "Compare this model's rows", {"model": model}),
            ("trends", "Its trend", {"model": model}),
            ("models", "The model", {"id": model}),
            ("hardware", "The hardware", {"id": hardware}),
        ):
            if page in menu.by_path():
                st.page_link(menu.page(page), label=label, query_params=query)
