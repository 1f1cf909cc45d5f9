"""Compare: precisions of one model on one hardware."""

from __future__ import annotations

import msgspec
import streamlit as st

from dashboard.address import Comparison
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import chart, downloads, escape, guarded, theme
from dashboard.page_state import turn
from dashboard.screens.compare import precisions, query
from dashboard.screens.compare import words as comparing
from dashboard.screens.compare.comparison_frame import PAGE, Places, about, nothing
from dashboard.tables.result_table import result_table
from domain.catalogues.hardware import find
from presentation import charts, formatting

__all__ = ["show"]

MOST_DRAWN = 10
MOST = 300
"""Devices with fp32 among which one is chosen."""


def show(comparison: Comparison, at: int, places: Places) -> None:
    """Show speed, memory and outputs beside fp32; without a hardware, a known one with most measurements is chosen."""
    with guarded(comparison.model):
        if not comparison.hw:
            with places.answer:
                _choose(comparison, at)
            return
        devices = comparing.devices_of(comparison)
        result = precisions.find(comparison.model, devices, comparison.mode, comparison.batch, comparison.length, at)
        about(places, comparison, at, result.rows)
        if result.unpredicted:
            st.caption(f"Only what was measured is shown: {escape(result.unpredicted)}")
        if result.rows:
            _beside(comparison, at, result, places)
            return
        text = "Nothing was measured or can be estimated for this model on this hardware. There, this would measure it:"
        with places.answer:
            nothing(comparison, text, f"assay bench {comparison.model} --precision fp32,bf16,fp16", result.other_work)


def _choose(comparison: Comparison, at: int) -> None:
    answer = query.of_model(comparison.model, comparison.mode, at, precision="fp32", per_hardware=True, limit=MOST)
    beside = {row["hardware"] for row in answer["rows"]}
    if most := answer["whole"]["hardware"]:
        # A device of the catalogue comes before a machine without a name, and a measured fp32 before an estimated one, however
        # often they were measured.
        best = max(
            most, key=lambda item: (find(item["hardware"]) is not None, item["hardware"] in beside, item["rows"])
        )
        turn(PAGE, msgspec.structs.replace(comparison, hw=best["hardware"]))
    nothing(
        comparison,
        "Nothing was measured for this model. Add a hardware to see estimates, or measure:",
        f"assay bench {comparison.model} --precision fp32,bf16",
    )


def _beside(comparison: Comparison, at: int, result: precisions.Precisions, places: Places) -> None:
    rows, shade = result.rows, theme()
    sentence = precisions.sentence(rows)
    places.answer.subheader(escape(sentence), anchor=False)
    charts_of = {
        metric.title: [row for row in rows if row.get(metric.key) is not None]
        for metric in (precisions.SPEED, precisions.LESS_MEMORY)
    }
    for column, metric in zip(st.columns(2, gap="medium"), (precisions.SPEED, precisions.LESS_MEMORY), strict=True):
        with column:
            st.markdown(f"**{metric.title}**")
            drawn = charts_of[metric.title][:MOST_DRAWN]
            if not drawn:
                st.caption("No fp32 on the same platform to compare with.")
                continue
            chart(
                charts.intervals(drawn, metric, theme=shade, beside=1.0),
                key=f"{PAGE} {metric.key}",
                words=f"{metric.title}: {sentence}",
            )
    for words in comparing.slower_words(result.slower, several="," in (comparison.hw or "")):
        st.caption(escape(words))
    st.caption(_words(result))
    title = f"Precisions of {comparison.model} on {comparison.hw}"
    result_table(precisions.columns(rows), key=f"{PAGE} table", words=title, height=480)
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
        f"Batch {precisions.batch}. The fastest row of each is compared with fp32 on the same platform, compiled alike and under the same load"
    ]
    texts.append("outputs were compared with fp32 on the CPU by `assay verify`")
    if precisions.other_work:
        rest = (
            "1 measurement" if precisions.other_work == 1 else f"{formatting.count(precisions.other_work)} measurements"
        )
        texts.append(f"{rest} of this hardware at other batches or lengths left out")
    return "; ".join(texts) + "."
