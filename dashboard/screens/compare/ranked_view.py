"""Compare: hardware for a model, or models on a hardware, best first."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec
import streamlit as st

from dashboard import answers, differences
from dashboard.address import Comparison
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import basis_legend, chart, downloads, escape, guarded, theme
from dashboard.page_state import turn
from dashboard.ranking import completed
from dashboard.screens.compare import query
from dashboard.screens.compare import words as comparison
from dashboard.screens.compare.comparison_frame import PAGE, differs, evidence_columns, nothing, strip
from dashboard.screens.compare.words import MOST, ComparedRow, distinguished, figure
from presentation import charts, formatting
from presentation.charts import ENERGY, LATENCY, TOKEN_ENERGY, Metric

__all__ = ["OnHardware", "find", "show"]


class OnHardware(NamedTuple):
    """Rows that have the metric, best first; how many configurations the hardware has under these filters."""

    rows: list[ComparedRow]
    total: int


def find(comparison: Comparison, metric: Metric, position: int) -> OnHardware:
    """Return what was measured or imported on a hardware, at most a hundred configurations, the best of each model first."""
    answer = query.models(
        comparison.hw,
        comparison.mode,
        ",".join(comparison.platform) or None,
        ",".join(comparison.precision) or None,
        comparison.batch,
        MOST,
        metric.key if metric in (ENERGY, TOKEN_ENERGY) else LATENCY.key,
        position,
    )
    rows = [
        cast("ComparedRow", {**completed(row), "subject": row["model"]})
        for row in answer["rows"]
        if row.get(metric.key) is not None
    ]
    rows.sort(key=lambda row: figure(row, metric), reverse=metric.better.startswith("larger"))
    return OnHardware(distinguished(rows), int(answer["total"]))


PAGE_ROWS = 25
AMONG_MODELS = {**differences.FIELDS, "model": "Model"}
LOG = {"auto": None, "log": True, "linear": False}


def show(comparison: Comparison, position: int) -> None:
    """Show the rows of one subject."""
    at = position if comparison.as_of is None else comparison.as_of
    with guarded(comparison.hw if comparison.what == "models" else comparison.model):
        (_models if comparison.what == "models" else _hardware)(comparison, at)


def _hardware(request: Comparison, at: int) -> None:
    metric = charts.COMPARED[request.metric]
    # Estimates cost the service most, and are shown only where they are asked for or nothing else is there.
    result = comparison.rows(request, at, estimates=request.basis == "all")
    rows = comparison.chosen(result.rows, request, metric)
    if request.basis == "auto" and (not rows or comparison.wants_estimates(request, rows)):
        result = comparison.rows(request, at)
        rows = comparison.chosen(result.rows, request, metric)
    if request.per_hw:
        rows = comparison.best_of_each(rows)
    strip(request, at, [request.model], [str(row["hardware"]) for row in rows])
    if result.unpredicted:
        st.caption(f"Only what was measured is shown: {escape(result.unpredicted)}")
    if not rows:
        text = "Nothing was measured for this model, and nothing can be predicted. This would measure it here:"
        if metric is charts.SPEEDUP and result.total:
            text = "Nothing stands beside plain CPU: fp32, not compiled, at the same batch and lengths. This measures that:"
            nothing(request, text, f"assay bench {request.model} --platform cpu --precision fp32")
            return
        nothing(request, text, f"assay bench {request.model}", result.total)
        return
    left_out = result.total - (result.variants if request.per_hw else len(rows))
    rest = "1 row is" if left_out == 1 else f"{formatting.count(left_out)} rows are"
    _chart(request, at, rows, f"{rest} left out by the filters, or for want of this metric." if left_out else "")
    _variants(request, result.variants, len(rows))
    differs(rows)


def _variants(request: Comparison, all_rows: int, shown: int) -> None:
    """Offer every variant of each device, or the best one alone."""
    every = st.toggle(
        f"Every variant ({formatting.count(all_rows)})" if request.per_hw else "Every variant",
        value=not request.per_hw,
        key=f"{PAGE} every {request.per_hw}",
        disabled=request.per_hw and all_rows == shown,
    )
    if every == request.per_hw:
        turn(PAGE, msgspec.structs.replace(request, per_hw=not every))


def _models(comparison: Comparison, at: int) -> None:
    metric = charts.COMPARED["throughput" if comparison.metric == "speedup" else comparison.metric]
    result = find(comparison, metric, at)
    strip(comparison, at, [str(row["model"]) for row in result.rows], [comparison.hw])
    if not result.rows:
        total = result.total or len(answers.hardware(at))
        filtered = bool(comparison.platform or comparison.precision or comparison.batch or result.total)
        text = "Nothing was measured on this hardware in this mode. On that machine, this would be a first:"
        nothing(comparison, text, "assay bench bert-base-uncased", total if filtered else 0)
        return
    left_out = result.total - len(result.rows)
    rest = ""
    if left_out:
        rest = f"{formatting.count(len(result.rows))} of {formatting.count(result.total)} configurations: the fastest of each model, "
        rest += "platform and precision come first. Filters narrow them."
    _chart(comparison, at, result.rows, rest)
    differs(result.rows, AMONG_MODELS)


def _chart(request: Comparison, at: int, rows: list[ComparedRow], rest: str) -> None:
    metric = charts.COMPARED[
        "throughput" if request.what == "models" and request.metric == "speedup" else request.metric
    ]
    sentence = comparison.sentence(rows, metric)
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
    shown = _page(rows)
    log = LOG[request.scale]
    beside = 1.0 if metric is charts.SPEEDUP else None
    drawn = charts.intervals(shown, metric, theme=theme(), log=log, beside=beside)
    subject = request.hw if request.what == "models" else request.model
    chart(drawn, key=f"{PAGE} picture", words=f"{subject}: {sentence}")
    basis_legend(shown)
    if log and any(figure(row, metric) <= 0 for row in shown):
        st.caption("A value of zero has no place on a log axis: this one is linear.")
    if rest:
        st.caption(rest)
    head = "Model" if request.what == "models" else "Hardware"
    st.dataframe(
        comparison.table(rows, metric),
        hide_index=True,
        key=f"{PAGE} table",
        row_height=36,
        placeholder=formatting.MISSING,
        height="content" if len(rows) <= 15 else 500,
        column_config={head: st.column_config.Column(pinned=True), **evidence_columns()},
        alt=f"{head} for {subject}",
    )
    _downloads(request, at, rows, shown, sentence)


def _page(rows: list[ComparedRow]) -> list[ComparedRow]:
    if len(rows) <= PAGE_ROWS:
        return rows
    turned = st.pagination(-(-len(rows) // PAGE_ROWS), key=f"{PAGE} page")
    return rows[(turned - 1) * PAGE_ROWS : turned * PAGE_ROWS]


def _downloads(
    comparison: Comparison, at: int, rows: list[ComparedRow], shown: list[ComparedRow], sentence: str
) -> None:
    metric = charts.COMPARED[
        "throughput" if comparison.what == "models" and comparison.metric == "speedup" else comparison.metric
    ]
    among = comparison.what == "models"
    subject = comparison.hw if among else comparison.model
    name = stem(PAGE, subject, at)
    footer = f"position {formatting.count(at)} · {formatting.count(len(shown))} of {formatting.count(len(rows))} rows"
    shade, beside = theme(), 1.0 if metric is charts.SPEEDUP else None

    def draw() -> Any:
        return charts.intervals(shown, metric, theme=shade, log=LOG[comparison.scale], beside=beside, picture=True)

    title = f"Models on {subject}" if among else f"{subject} on different hardware"
    files = [*table_files(name, rows, as_of=at), *picture_files(name, draw, title, answer=sentence, footer=footer)]
    if not among:
        report = answers.reporter("model", comparison.model, at)
        files.append(("Report on this model", f"{name}_report.html", "text/html", report))
    downloads(files, PAGE)
