"""The roofline of the Hardware page: what was measured under the device's limits, and what is over them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import streamlit as st

from dashboard.downloads import picture_files, stem
from dashboard.evidence import about
from dashboard.frame import basis_legend, chart, downloads, escape, folded, places, theme, to_paste
from dashboard.page_state import go, widget
from dashboard.screens.hardware import query
from dashboard.screens.hardware import roofline as roofs
from dashboard.screens.hardware.words import Device, figures
from dashboard.tables.result_table import columns_of, result_table
from domain.answers.device import HardwareProfile, Roofline, RooflinePoint
from domain.vocabulary import MODES
from presentation import formatting
from presentation.charts.roofline_chart import roofline

__all__ = ["show_near_limits", "show_roofline"]

PAGE = "hardware"
ANY = ""
"""No filter."""


def show_near_limits(row: HardwareProfile, at: int) -> None:
    """Show how close to its limits the hardware runs, where something measured has a place there."""
    document = query.roofline(row.id, at)
    if document.points:
        st.markdown("**How close to its limits it runs**")
        _picture(document, row.id)


def show_roofline(device: Device, row: HardwareProfile, at: int) -> None:
    """Show what was measured under the roofs of a hardware, of one platform, precision or mode where the address says so."""
    device = _points_bar(device, row)
    document = query.roofline(device.id, at, **_narrowed(device))
    if not document.roofs:
        st.info("Its peak is not known, so there is no roof to draw. A runner on the machine finds it:")
        to_paste("assay detect")
        return
    sentence = _picture(document, device.id)
    if roofs.bandwidth(document) is None:
        st.caption("Its bandwidth is not known: only the flat part of the roof can be drawn.")
    st.caption(escape(roofs.standing(document)) or "Nothing was measured on it.")
    _check(document)
    _points(device, document, sentence, at)


def _picture(document: Roofline, name: str) -> str:
    """Draw the roofs with what was measured under them, and return what the picture says."""
    sentence = roofs.sentence(document, name)
    st.markdown(escape(sentence))
    points, lines = msgspec.to_builtins(document.points), msgspec.to_builtins(roofs.roofs(document))
    drawn = roofline(points, lines, roofs.bandwidth(document), theme=theme())
    chart(drawn, key=f"{PAGE} picture", words=f"Roofline of {name}: {sentence}")
    if points:
        basis_legend(points)
    return sentence


def _narrowed(device: Device) -> dict[str, str | None]:
    return {name: getattr(device, name) or None for name in ("platform", "precision", "mode")}


def _points_bar(request: Device, row: HardwareProfile) -> Device:
    described = row.described_platforms or ()
    platforms = [item.platform for item in described if item.available] or list(row.platforms or {})
    rates = [name.partition(".")[2] for name in figures(row) if name.startswith("peak_flops.")]
    columns = places(3, 3, 4)
    offered = {"platform": platforms, "precision": sorted({*rates, "amp-fp16", "amp-bf16"}), "mode": list(MODES)}
    for column, (name, options) in zip(columns, offered.items(), strict=True):
        held = getattr(request, name)
        among = list(dict.fromkeys([ANY, *options, held]))
        column.selectbox(name.capitalize(), among, key=widget(PAGE, name), format_func=_any, filter_mode=None)
    chosen = msgspec.structs.replace(request, **{name: st.session_state[widget(PAGE, name)] for name in offered})
    if chosen != request:
        go(PAGE, chosen)
        st.rerun()
    return chosen


def _check(document: Roofline) -> None:
    if not document.above_count:
        return
    st.markdown(f"**Check these** :gray[{formatting.count(document.above_count)} over their roof, ringed above]")
    result_table(
        columns_of(roofs.above_table(document.above)),
        key=f"{PAGE} above",
        words="Points over their roof",
        height=250,
    )
    first = f" The table has the first {len(document.above)}." if len(document.above) < document.above_count else ""
    st.caption(f"{roofs.over(document)}.{first}")


def _points(device: Device, document: Roofline, sentence: str, at: int) -> None:
    rows = document.points
    if not rows:
        return
    folded(f"All {formatting.count(len(rows))} points as a table", partial(_table, rows), key=f"{PAGE} folded")
    points, lines = msgspec.to_builtins(rows), msgspec.to_builtins(roofs.roofs(document))
    feed, shade = roofs.bandwidth(document), theme()
    footer = f"position {formatting.count(at)} · {formatting.count(len(rows))} marks for {formatting.count(document.placed)} rows"

    draw = partial(roofline, points, lines, feed, theme=shade, picture=True)
    name = stem(PAGE, device.id, at)
    pictures = picture_files(name, draw, f"Roofline of {device.id}", answer=sentence, footer=footer)
    downloads([*query.points_files(name, device.id, at, **_narrowed(device)), *pictures], PAGE)


def _table(rows: Sequence[RooflinePoint]) -> None:
    frame = roofs.points_table(rows)
    links = {"Model": [about("models", name) for name in frame["Model"]]}
    result_table(columns_of(frame, links=links), key=f"{PAGE} points", words="Points of the roofline", height=400)


def _any(value: str) -> str:
    return value or "any"
