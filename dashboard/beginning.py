"""How an installation gets its first measurements: measure this machine, import files, or add the published data."""

from __future__ import annotations

import streamlit as st

from dashboard.frame import to_paste

__all__ = ["offers", "show"]

MEASURE = "assay bench bert-base-uncased --platform cpu,openvino"


def show() -> None:
    """Say that nothing is known yet, and offer the ways to begin."""
    with st.container(key="answer"):
        st.subheader("Nothing has been measured yet. Begin with one of these:", anchor=False)
        offers()


def offers() -> None:
    """Offer the ways to add measurements."""
    to_paste(MEASURE)
