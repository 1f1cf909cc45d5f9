"""What every kind of comparison has: where its answer stands, what its rows share, and what to do where there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import differences
from dashboard.address import Comparison
from dashboard.frame import escape, provenance, to_paste
from dashboard.page_state import turn
from presentation import formatting

__all__ = ["PAGE", "Places", "about", "nothing"]

PAGE = "compare"


class Places(NamedTuple):
    """Where an answer's sentence stands, above the workload bar, and where its provenance does, beside the chips."""

    answer: DeltaGenerator
    strip: DeltaGenerator


def about(
    places: Places,
    comparison: Comparison,
    at: int,
    rows: Sequence[Mapping[str, Any]],
    fields: Mapping[str, str] = differences.FIELDS,
) -> None:
    """Offer where the numbers come from: the position, the marks, what all rows share and in what they differ."""
    result = differences.find(rows, fields)
    words = [f"Position {formatting.count(at)} of the log."]
    if result.same:
        words.append("Same for all: " + ", ".join(f"{name} {value}" for name, value in result.same.items()) + ".")
    for field, values in result.differs:
        rest = f" and {formatting.count(len(values) - 4)} more" if len(values) > 4 else ""
        words.append(f"{field} differs: " + ", ".join(value for value, _ in values[:4]) + rest + ".")
    with places.strip:
        fixed = msgspec.structs.replace(comparison, as_of=at)
        provenance(PAGE, " ".join(words), fixed, rows=rows)


def nothing(comparison: Comparison, sentence: str, command: str | None, value: int = 0) -> None:
    """Say why there is nothing: the filters, which one click takes away, or that nothing is known, and what would help."""
    if value:
        rows = "1 row" if value == 1 else f"{formatting.count(value)} rows"
        st.info(f"The workload leaves none of {rows}. Reset it to see all.")
        if st.button("Reset filters", key=f"{PAGE} reset"):
            kept = {name: getattr(comparison, name) for name in ("what", "model", "hw", "metric")}
            turn(PAGE, Comparison(**kept))
        return
    st.info(escape(sentence))
    if command:
        to_paste(command)
