"""Compare: precisions of one model on one hardware."""

from __future__ import annotations

import msgspec
import streamlit as st

from dashboard.address import Comparison
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import basis_legend, chart, downloads, escape, guarded, theme
from dashboard.page_state import turn
from dashboard.screens.compare import precisions, query
from dashboard.screens.compare.comparison_frame import PAGE, differs, nothing, strip
from dashboard.tables.result_table import columns_of, result_table
from domain.catalogues.hardware import find
from presentation import charts, formatting

__all__ = ["show"]


def show(comparison: Comparison, position: int) -> None:
    """Show speed, memory and outputs beside fp32; without a hardware, the known one with most measurements is chosen."""
    at = position if comparison.as_of is None else comparison.as_of
    with guarded(comparison.model):
        if not comparison.hw:
            _choose(comparison, at)
            return
        result = precisions.find(comparison.model, comparison.hw, comparison.mode, comparison.batch, at)
        strip(comparison, at, [comparison.model], [comparison.hw])
        if result.unpredicted:
            st.caption(f"Only what was measured is shown: {escape(result.unpredicted)}")
        if result.rows:
            _beside(comparison, at, result)
        else:
            text = "Nothing was measured or can be predicted for this model on this hardware. There, this would measure it:"
            nothing(comparison, text, f"assay bench {comparison.model} --precision fp32,bf16,fp16", result.other_work)


def _choose(comparison: Comparison, at: int) -> None:
    most = query.of_model(comparison.model, comparison.mode, at, limit=0)["whole"]["hardware"]
    if most:
        # A machine that nobody could name says less than a device of the catalogue, however often it was measured.
        best = max(most, key=lambda item: (find(item["hardware"]) is not None, item["rows"]))
        turn(PAGE, msgspec.structs.replace(comparison, hw=best["hardware"]))
    nothing(
        comparison,
        "Nothing was measured for this model. Choose a hardware to see what is predicted, or measure:",
        f"assay bench {comparison.model} --precision fp32,bf16",
    )


def _beside(comparison: Comparison, at: int, result: precisions.Precisions) -> None:
    rows, shade = result.rows, theme()
    sentence = precisions.sentence(rows)
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
    differs(rows)
    charts_of = {
        metric.title: [row for row in rows if row.get(metric.key) is not None]
        for metric in (precisions.SPEED, precisions.LESS_MEMORY)
    }
    for column, metric in zip(st.columns(2, gap="medium"), (precisions.SPEED, precisions.LESS_MEMORY), strict=True):
        with column:
            st.markdown(f"**{metric.title}**")
            drawn = charts_of[metric.title]
            if not drawn:
                st.caption("No fp32 on the same platform to stand beside.")
                continue
            chart(
                charts.intervals(drawn, metric, theme=shade, beside=1.0),
                key=f"{PAGE} {metric.key}",
                words=f"{metric.title}: {sentence}",
            )
    basis_legend(rows)
    st.caption(_words(result))
    frame = precisions.table(rows).data
    links = {"Precision": list(frame.pop("Evidence"))}
    words = f"Precisions of {comparison.model} on {comparison.hw}"
    result_table(columns_of(frame, links=links), key=f"{PAGE} table", words=words, height=500)
    name = stem(PAGE, f"{comparison.model}-{comparison.hw}-precision", at)
    footer = f"position {formatting.count(at)} · batch {result.batch}"
    speed = charts_of[precisions.SPEED.title] or rows
    picture = picture_files(
        name,
        lambda: charts.intervals(speed, precisions.SPEED, theme=shade, beside=1.0, picture=True),
        f"Precisions of {comparison.model} on {comparison.hw}",
        answer=sentence,
        footer=footer,
    )
    downloads([*table_files(name, rows, as_of=at), *picture], PAGE)


def _words(precisions: precisions.Precisions) -> str:
    """Say what is compared with what, and what was left out for other work."""
    texts = [
        f"Batch {precisions.batch}. Each row stands beside fp32 on the same platform, compiled alike and under the same load"
    ]
    texts.append("outputs were compared with fp32 on the CPU by `assay verify`")
    if precisions.other_work:
        rest = (
            "1 measurement" if precisions.other_work == 1 else f"{formatting.count(precisions.other_work)} measurements"
        )
        texts.append(f"{rest} of this hardware at other batches or lengths left out")
    return "; ".join(texts) + "."
