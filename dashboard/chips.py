"""Chips: what is in force or compared, each with a cross that takes it away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import streamlit as st

__all__ = ["removed"]

Item = TypeVar("Item")


def removed(chips: Mapping[str, Item], *, key: str, label: str) -> list[Item]:
    """Show a chip for each of these words, and return what the reader took away; `label` names them to those who do not see."""
    if not chips:
        return []
    kept = st.pills(
        label,
        list(chips),
        selection_mode="multi",
        default=list(chips),
        key=f"{key} chips {'|'.join(chips)}",
        format_func=lambda words: f"{words} ✕",
        label_visibility="collapsed",
        width="content",
    )
    return [item for words, item in chips.items() if words not in kept]
