"""Compare: models × hardware, best first; or all models of a hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec
import streamlit as st

from dashboard import answers, differences
from dashboard.address import Comparison
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import chart, downloads, escape, guarded, theme, trouble
from dashboard.page_state import turn
from dashboard.ranking import completed
from dashboard.screens.compare import likeness, query
from dashboard.screens.compare import words as comparison
from dashboard.screens.compare.comparison_frame import PAGE, Places, about, nothing
from dashboard.screens.compare.words import DRAWN, MOST, ComparedRow, distinguished, figure, named
from dashboard.tables.result_table import result_table
from domain.errors import AssayError
from presentation import charts, formatting
from presentation.charts import ENERGY, LATENCY, TOKEN_ENERGY, Metric

__all__ = ["OnHardware", "find", "show"]

AMONG_MODELS = {**differences.FIELDS, "model": "Model"}
LOG = {"auto": None, "log": True, "linear": False}


class OnHardware(NamedTuple):
    """Rows that have the metric, best first; how many configurations the hardware has under these filters."""

    rows: list[ComparedRow]
    total: int


class Found(NamedTuple):
    """Rows to compare, best first; how many variants and rows there are beside them, and notes on what is missing."""

    rows: list[ComparedRow]
    total: int
    variants: int
    whole: Mapping[str, Any]
    notes: list[str]


def find(comparison: Comparison, metric: Metric, position: int) -> OnHardware:
    """Return what was measured or imported on a hardware, at most a hundred configurations, the best of each model first."""
    answer = query.models(
        comparison.hw,
        comparison.mode,
        ",".join(comparison.platform) or None,
        ",".join(comparison.precision) or None,
        comparison.batch,
        comparison.length,
        MOST,
        metric.key if metric in (ENERGY, TOKEN_ENERGY) else LATENCY.key,
        position,
    )
    rows = [cast("ComparedRow", completed(row)) for row in answer["rows"] if row.get(metric.key) is not None]
    rows.sort(key=lambda row: figure(row, metric), reverse=metric.better.startswith("larger"))
    return OnHardware(rows, int(answer["total"]))


def show(comparison: Comparison, at: int, places: Places) -> None:
    """Show the rows of the subjects."""
    with guarded(comparison.hw if comparison.what == "models" else comparison.model):
        (_models if comparison.what == "models" else _hardware)(comparison, at, places)


def _hardware(request: Comparison, at: int, places: Places) -> None:
    asked = charts.COMPARED[request.metric]
    models = comparison.models_of(request)
    found = [
        _of_model(msgspec.structs.replace(request, model=name), asked, at, alone=len(models) == 1) for name in models
    ]
    rows, metric = likeness.per_device([row for each in found for row in each.rows], asked)
    rows.sort(key=lambda row: figure(row, metric), reverse=metric.better.startswith("larger"))
    rows = comparison.best_of_each(rows) if request.per_hw else rows
    rows = named(rows, models=len(models) > 1)
    about(places, request, at, rows, AMONG_MODELS if len(models) > 1 else differences.FIELDS)
    for note in (note for each in found for note in each.notes):
        st.caption(escape(note))
    if not rows:
        with places.answer:
            _none(request, asked, sum(each.total for each in found))
        return
    variants = sum(each.variants for each in found)
    left_out = sum(each.total for each in found) - (variants if request.per_hw else len(rows))
    rest = "1 row is" if left_out == 1 else f"{formatting.count(left_out)} rows are"
    _answer(request, rows, metric, found[0].whole, places)
    note = f"{rest} left out by the workload, or for want of this metric." if left_out > 0 else ""
    _rows(request, at, rows, metric, note, variants)


def _of_model(request: Comparison, metric: Metric, at: int, *, alone: bool) -> Found:
    """Return the rows of one model; of several models one that is not known leaves the others."""
    try:
        # Estimates cost the service most, and are shown only where they are asked for or nothing else is there.
        result = comparison.rows(request, at, estimates=request.basis == "all")
        rows = comparison.chosen(result.rows, request, metric)
        if request.basis == "auto" and (not rows or comparison.wants_estimates(request, rows)):
            result = comparison.rows(request, at)
            rows = comparison.chosen(result.rows, request, metric)
    except AssayError as problem:
        if alone:
            raise
        trouble(request.model, problem)
        return Found([], 0, 0, {}, [])
    rows = [cast("ComparedRow", {**row, "model": request.model}) for row in rows]
    notes = [f"Only what was measured is shown: {result.unpredicted}"] if result.unpredicted else []
    known = comparison.known(request, at)
    notes += comparison.slower_words(known.get("slower_precisions") or (), several=not request.hw)
    return Found(rows, result.total, result.variants, known["whole"], notes)


def _none(request: Comparison, metric: Metric, total: int) -> None:
    model = comparison.models_of(request)[0]
    if metric is charts.SPEEDUP and total:
        text = (
            "Nothing was measured on plain CPU: fp32, not compiled, at the same batch and lengths. This measures that:"
        )
        nothing(request, text, f"assay bench {model} --platform cpu --precision fp32")
        return
    text = "Nothing was measured for this model, and nothing can be estimated. This would measure it here:"
    nothing(request, text, f"assay bench {model}", total)


def _variants(request: Comparison, all_rows: int, shown: int) -> None:
    """Offer every variant of each line, or the best one alone."""
    every = st.toggle(
        f"Every variant ({formatting.count(all_rows)})" if request.per_hw else "Every variant",
        value=not request.per_hw,
        key=f"{PAGE} every {request.per_hw}",
        disabled=request.per_hw and all_rows == shown,
    )
    if every == request.per_hw:
        turn(PAGE, msgspec.structs.replace(request, per_hw=not every))


def _models(request: Comparison, at: int, places: Places) -> None:
    asked = charts.COMPARED["throughput" if request.metric == "speedup" else request.metric]
    devices = comparison.devices_of(request)
    found = [find(msgspec.structs.replace(request, hw=name), asked, at) for name in devices]
    rows, metric = likeness.per_device([row for each in found for row in each.rows], asked)
    rows.sort(key=lambda row: figure(row, metric), reverse=metric.better.startswith("larger"))
    variants, rows = len(rows), comparison.best_of_each(rows) if request.per_hw else rows
    rows = distinguished(named(rows, models=True, devices=len(devices) > 1))
    about(places, request, at, rows, AMONG_MODELS)
    every = sum(each.total for each in found)
    if not rows:
        total = every or len(answers.hardware(at))
        filtered = bool(request.platform or request.precision or request.batch or request.length or every)
        text = "Nothing was measured on this hardware in this mode. On that machine, this would be a first:"
        with places.answer:
            nothing(request, text, "assay bench bert-base-uncased", total if filtered else 0)
        return
    rest = ""
    if every > variants:
        rest = f"Of {formatting.count(every)} configurations {formatting.count(variants)} are read: the fastest of each model, "
        rest += "software and precision come first."
    _answer(request, rows, metric, {}, places)
    _rows(request, at, rows, metric, rest, variants)


def _answer(
    request: Comparison, rows: list[ComparedRow], metric: Metric, whole: Mapping[str, Any], places: Places
) -> None:
    """Say the answer; where the rows are not of the same work say in what, and offer the one click that makes them alike."""
    with places.answer:
        st.subheader(escape(comparison.sentence(rows, metric)), anchor=False)
        fields = likeness.differing(rows)
        if not fields:
            return
        alike = likeness.same_workload(request, rows, whole)
        with st.container(horizontal=True, vertical_alignment="center", key="unlike"):
            st.markdown(f":gray[≠ Not the same work: {escape(', '.join(fields))}.]", width="content")
            words = "" if alike is None else _workload_words(request, alike)
            if alike and words and st.button(f"Compare all at {words}", key=f"{PAGE} alike", icon=":material/balance:"):
                turn(PAGE, alike)


def _workload_words(request: Comparison, alike: Comparison) -> str:
    said = {
        "precision": ", ".join(alike.precision),
        "batch": f"batch {alike.batch}",
        "length": f"length {alike.length}",
    }
    return ", ".join(words for name, words in said.items() if getattr(alike, name) != getattr(request, name))


def _rows(request: Comparison, at: int, rows: list[ComparedRow], metric: Metric, rest: str, variants: int) -> None:
    """Show the first rows as a picture and all of them as a table; `variants` are offered where there are more."""
    shown, log, sentence = rows[:DRAWN], LOG[request.scale], comparison.sentence(rows, metric)
    beside = 1.0 if metric is charts.SPEEDUP else None
    subject = request.hw if request.what == "models" else request.model
    drawn = charts.intervals(shown, metric, theme=theme(), log=log, beside=beside)
    chart(drawn, key=f"{PAGE} picture", words=f"{subject}: {sentence}")
    notes = [f"The first {DRAWN} of {formatting.count(len(rows))} are drawn."] if len(rows) > DRAWN else []
    if log and any(figure(row, metric) <= 0 for row in shown):
        notes.append("A value of zero has no place on a log axis: this one is linear.")
    notes += [rest] if rest else []
    if notes:
        st.caption(" ".join(notes))
    _variants(request, variants, len(rows))
    result_table(comparison.columns(rows, metric), key=f"{PAGE} table", words=f"Comparison of {subject}", height=480)
    _downloads(request, at, rows, shown, metric)


def _downloads(request: Comparison, at: int, rows: list[ComparedRow], shown: list[ComparedRow], metric: Metric) -> None:
    among = request.what == "models"
    subject = request.hw if among else request.model
    name = stem(PAGE, subject, at)
    footer = f"position {formatting.count(at)} · {formatting.count(len(shown))} of {formatting.count(len(rows))} rows"
    shade, beside = theme(), 1.0 if metric is charts.SPEEDUP else None

    def draw() -> Any:
        return charts.intervals(shown, metric, theme=shade, log=LOG[request.scale], beside=beside, picture=True)

    title = f"Models on {subject}" if among else f"{subject} on different hardware"
    sentence = comparison.sentence(rows, metric)
    files = [*table_files(name, rows, as_of=at), *picture_files(name, draw, title, answer=sentence, footer=footer)]
    if not among:
        for model in comparison.models_of(request)[:1]:
            report = answers.reporter("model", model, at)
            files.append(("Report on this model", f"{name}_report.html", "text/html", report))
    downloads(files, PAGE)
