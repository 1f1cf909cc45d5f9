"""Compare: precisions of one model on one hardware."""

from __future__ import annotations

import msgspec
import streamlit as st

from dashboard.address import Comparison
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import basis_legend, chart, downloads, escape, guarded, theme
from dashboard.page_state import turn
from dashboard.pages.compare import precisions, query
from dashboard.pages.compare.comparison_frame import PAGE, differs, evidence_columns, nothing, strip
from presentation import charts, formatting

__all__ = ["show"]


def show(asked: Comparison, position: int) -> None:
    """Show speed, memory and outputs beside fp32; without a hardware, the one with most measurements is chosen."""
    at = position if asked.as_of is None else asked.as_of
    with guarded(asked.model):
        if not asked.hw:
            _choose(asked, at)
            return
        found = precisions.find(asked.model, asked.hw, asked.mode, asked.batch, at)
        strip(asked, at, [asked.model], [asked.hw])
        if found.unpredicted:
            st.caption(f"Only what was measured is shown: {escape(found.unpredicted)}")
        if found.rows:
            _beside(asked, at, found)
        else:
            told = "Nothing was measured or can be predicted for this model on this hardware. There, this would measure it:"
            nothing(asked, told, f"assay bench {asked.model} --precision fp32,bf16,fp16", found.other_work)


def _choose(asked: Comparison, at: int) -> None:
    most = query.of_model(asked.model, asked.mode, at, limit=0)["whole"]["hardware"]
    if most:
        turn(PAGE, msgspec.structs.replace(asked, hw=most[0]["hardware"]))
    nothing(asked, "Nothing was measured for this model. Choose a hardware to see what is predicted, or measure:",
            f"assay bench {asked.model} --precision fp32,bf16")  # fmt: skip


def _beside(asked: Comparison, at: int, found: precisions.Precisions) -> None:
    rows, shade = found.rows, theme()
    differs(rows)
    sentence = precisions.sentence(rows)
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
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
                key=f"{PAGE} {metric.key}", words=f"{metric.title}: {sentence}",
            )  # fmt: skip
    basis_legend(rows)
    st.caption(_words(found))
    st.dataframe(
        precisions.table(rows), hide_index=True, key=f"{PAGE} table", row_height=36, placeholder=formatting.MISSING,
        height="content" if len(rows) <= 15 else 500, alt=f"Precisions of {asked.model} on {asked.hw}",
        column_config=evidence_columns(),
    )  # fmt: skip
    name = stem(PAGE, f"{asked.model}-{asked.hw}-precision", at)
    footer = f"position {formatting.count(at)} · batch {found.batch}"
    speed = charts_of[precisions.SPEED.title] or rows
    picture = picture_files(
        name, lambda: charts.intervals(speed, precisions.SPEED, theme=shade, beside=1.0, picture=True),
        f"Precisions of {asked.model} on {asked.hw}", answer=sentence, footer=footer,
    )  # fmt: skip
    downloads([*table_files(name, rows, as_of=at), *picture], PAGE)


def _words(found: precisions.Precisions) -> str:
    """Say what is compared with what, and what was left out for other work."""
    told = [
        f"Batch {found.batch}. Each row stands beside fp32 on the same platform, compiled alike and under the same load"
    ]
    told.append("outputs were compared with fp32 on the CPU by `assay verify`")
    if found.other_work:
        rest = "1 measurement" if found.other_work == 1 else f"{formatting.count(found.other_work)} measurements"
        told.append(f"{rest} of this hardware at other batches or lengths left out")
    return "; ".join(told) + "."
