"""Parts of the Hardware page: its speed by model, what is like it, its specification, its machines, what was never tried."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import streamlit as st

from dashboard import menu
from dashboard.best_measured import MeasuredRow, columns
from dashboard.downloads import stem, table_files
from dashboard.frame import downloads, escape, folded, plain_table, to_paste
from dashboard.screens.hardware import words
from dashboard.tables.result_table import columns_of, result_table
from domain.answers.device import HardwareCoverage, HardwareProfile
from presentation import formatting

__all__ = ["show_answer", "show_gaps", "show_machines", "show_models", "show_siblings", "show_specification"]

PAGE = "hardware"
FIRST = 7
"""Models that are shown before the others are asked for."""
MOST = 50


def show_answer(row: HardwareProfile, rows: Sequence[MeasuredRow], *, cut: bool) -> None:
    """Show the best number that was measured on a hardware, or how to measure one; `cut` where there are more models."""
    with st.container(key="answer"):
        if rows:
            figure, how = words.headline(rows, cut=cut)
            st.header(escape(figure), anchor=False)
            st.caption(escape(how))
            return
        known = row.measurements
        said = (
            f"{formatting.count(known)} measurements, none with a throughput" if known else "Nothing was measured on it"
        )
        st.header(said, anchor=False)
        st.caption("On the machine itself this measures a small set:")
        to_paste("assay bench --models-set small")


def show_models(row: HardwareProfile, rows: Sequence[MeasuredRow], at: int) -> None:
    """Show the best measurement of each model on a hardware, the fastest first."""
    if not rows:
        return
    said = f"Fastest measured of each model on {row.id}"
    result_table(columns(rows, "model"), key=f"{PAGE} best", words=said, at_once=FIRST)
    with st.container(horizontal=True, vertical_alignment="center"):
        request = {"what": "models", "hw": row.id}
        st.page_link(menu.page("compare"), label="Compare models", query_params=request)
        downloads(table_files(stem(PAGE, f"{row.id}_models", at), rows, as_of=at), f"{PAGE} best")


def show_siblings(document: HardwareCoverage, at: int) -> None:
    """Show the hardware like this one, with the ratios of figures and speeds."""
    rows = document.siblings
    if not rows:
        st.info("Nothing of its kind is in the catalogue, and no other hardware ran its models.")
        return
    said = f"Hardware like {document.hardware}"
    result_table(words.siblings_columns(rows), key=f"{PAGE} siblings", words=said)
    st.caption(
        "× is the other's figure over this one's. Speed is the median over configurations measured on both: the same model, "
        "work, batch and precision; software may differ."
    )
    files = table_files(stem(PAGE, f"{document.hardware}_siblings", at), msgspec.to_builtins(rows), as_of=at)
    downloads(files, f"{PAGE} siblings")


def show_gaps(document: HardwareCoverage, at: int) -> None:
    """Show how many models of each family were tried on a hardware, and names of those that never were."""
    if not document.items:
        st.info("Nothing was tried on it. On the machine itself this measures a small set:")
        to_paste("assay bench --models-set small")
        return
    tried, families = formatting.count(document.families_tried), formatting.count(document.families)
    st.markdown(f"**{tried} of {families} families of models were tried on it**")
    shown = document.items
    result_table(words.families_columns(shown), key=f"{PAGE} families", words="Coverage by family", height=460)
    if document.next_cursor:
        st.caption(f"The {formatting.count(len(shown))} rows with the most models tried.")
    files = table_files(stem(PAGE, f"{document.hardware}_families", at), msgspec.to_builtins(shown), as_of=at)
    downloads(files, f"{PAGE} families")


def show_specification(row: HardwareProfile) -> None:
    """Show the figures of a hardware, each with how it is known."""
    plain_table(words.spec_table(row), hide_index=True, border="horizontal", alt=f"Specification of {row.id}")
    folded("Where the figures come from", partial(_sources, row), key=f"{PAGE} sources")


def _sources(row: HardwareProfile) -> None:
    plain_table(words.sources_table(row), hide_index=True, border="horizontal", alt="Sources of the specification")
    st.caption(
        "sourced: read in a publisher's document · derived: computed by the formula · unverified: generally known, no "
        "document at hand · measured: read from a machine or reached there · unknown: nobody said"
    )


def show_machines(row: HardwareProfile, at: int) -> None:
    """Show what an hour costs, in which environments it was seen, and which names mean it."""
    _prices(row, at)
    _environments(row, at)
    _names(row)


def _prices(row: HardwareProfile, at: int) -> None:
    st.markdown("**Prices**")
    prices = row.prices
    if not prices:
        st.caption("No price is known. This adds one:")
        to_paste(f"assay price add {row.id} --usd-per-hour 1.20")
        return
    stale = sum(1 for price in prices if price.stale)
    text = f"{formatting.count(len(prices))} price{'' if len(prices) == 1 else 's'}, cheapest device first"
    old = f"; {formatting.count(stale)} stale: older than 90 days, or undated" if stale else ""
    st.caption(text + old)
    result_table(words.prices_columns(prices), key=f"{PAGE} prices", words=f"Prices of {row.id}", height=400)
    downloads(table_files(stem(PAGE, f"{row.id}_prices", at), msgspec.to_builtins(prices), as_of=at), f"{PAGE} prices")


def _environments(row: HardwareProfile, at: int) -> None:
    st.markdown("**Environments it was seen in**")
    seen = row.environments
    if not seen:
        st.caption("None was recorded.")
        return
    frame = words.environments_table(seen[-MOST:])
    result_table(columns_of(frame), key=f"{PAGE} environments", words=f"Environments of {row.id}", height=400)
    if len(seen) > MOST:
        st.caption(f"The newest {MOST} of {formatting.count(len(seen))}.")
    downloads(
        table_files(stem(PAGE, f"{row.id}_environments", at), msgspec.to_builtins(seen), as_of=at),
        f"{PAGE} environments",
    )


def _names(row: HardwareProfile) -> None:
    st.markdown("**Other names**")
    st.caption(escape(", ".join(row.aliases) or "none"))
    for item in row.merged:
        why = f" ({item.reason})" if item.reason else ""
        st.caption(escape(f"{item.alias} means it, declared at position {formatting.count(item.position)}{why}"))
