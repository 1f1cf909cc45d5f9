"""The part of the Hardware page that tells of machines: prices with their dates, environments, and other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.downloads import stem, table_files
from dashboard.frame import downloads, escape, to_paste
from dashboard.pages.hardware import words
from presentation import formatting

__all__ = ["show_machines"]

MOST = 50


def show_machines(row: Mapping[str, Any], at: int) -> None:
    """Show what an hour costs, in which environments it was seen, and which names mean it."""
    _prices(row, at)
    _environments(row, at)
    _names(row)


def _prices(row: Mapping[str, Any], at: int) -> None:
    st.markdown("**Prices**")
    prices = row["prices"]
    if not prices:
        st.caption("No price is known. This adds one:")
        to_paste(f"assay price add {row['id']} --usd-per-hour 1.20")
        return
    stale = sum(1 for price in prices if price["stale"])
    text = f"{formatting.count(len(prices))} price{'' if len(prices) == 1 else 's'}, cheapest device first"
    old = f"; {formatting.count(stale)} stale: older than 90 days, or undated" if stale else ""
    st.caption(text + old)
    st.dataframe(
        words.prices_table(prices), hide_index=True, key="hardware prices", row_height=36,
        height="content" if len(prices) <= 10 else 400, alt=f"Prices of {row['id']}",
        column_config={"Machine": st.column_config.Column(pinned=True)},
    )  # fmt: skip
    downloads(table_files(stem("hardware", f"{row['id']}_prices", at), prices, as_of=at), "hardware prices")


def _environments(row: Mapping[str, Any], at: int) -> None:
    st.markdown("**Environments it was seen in**")
    seen = row["environments"]
    if not seen:
        st.caption("None was recorded.")
        return
    st.dataframe(
        words.environments_table(seen[-MOST:]), hide_index=True, key="hardware environments", row_height=36,
        height="content" if len(seen) <= 10 else 400, placeholder=formatting.MISSING,
        alt=f"Environments of {row['id']}", column_config={"Fingerprint": st.column_config.Column(pinned=True)},
    )  # fmt: skip
    if len(seen) > MOST:
        st.caption(f"The newest {MOST} of {formatting.count(len(seen))}.")
    downloads(table_files(stem("hardware", f"{row['id']}_environments", at), seen, as_of=at), "hardware environments")


def _names(row: Mapping[str, Any]) -> None:
    st.markdown("**Other names**")
    st.caption(escape(", ".join(row["aliases"]) or "none"))
    for item in row["merged"]:
        why = f" ({item['reason']})" if item["reason"] else ""
        st.caption(escape(f"{item['alias']} means it, declared at position {formatting.count(item['position'])}{why}"))
