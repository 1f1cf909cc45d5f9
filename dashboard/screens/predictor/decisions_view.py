"""How good are decisions? Success and overspend of choices on models that took no part, beside rules of thumb."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from dashboard import answers
from dashboard.downloads import stem, table_files
from dashboard.frame import chart, downloads, escape, folded, theme, to_paste
from dashboard.screens.predictor import decisions
from dashboard.tables.result_table import result_table
from presentation import charts, formatting

__all__ = ["show_decisions"]

PAGE = "decisions"


def show_decisions(at: int) -> None:
    """Show the figures that ship with the service, with the command that measures them again."""
    document = answers.decisions()
    rules = decisions.rules(document)
    st.markdown(f"**{escape(decisions.sentence(rules))}**")
    st.caption(
        f"Machines for a served language model: {formatting.count(rules[0]['questions'])} questions about models that took no "
        "part. Success: what was chosen meets the limits by what was measured. Overspend: what successes cost above the "
        "cheapest that does. Checked: so many loads are measured before deciding."
    )
    chart(
        charts.decided(rules, theme=theme()),
        key=f"{PAGE} rules",
        words="Success over overspend of our choices, filled and named, and of rules of thumb, hollow and numbered",
    )
    result_table(decisions.rules_table(rules), key=f"{PAGE} table", words="Rules that choose machines", height=360)
    folded("Which device first?", partial(_devices, document), key=f"{PAGE} first")
    folded("Does it fit in memory?", partial(_fits, document), key=f"{PAGE} memory")
    downloads(table_files(stem(PAGE, "rules", at), document["machines"], as_of=at), PAGE)
    folded("Measure all of it again", partial(_again, str(document["command"])), key=f"{PAGE} again")


def _devices(document: Mapping[str, Any]) -> None:
    st.caption("One device among eight or more: what the first choice loses beside the best measured one.")
    result_table(decisions.devices(document), key=f"{PAGE} devices", words="Loss of the first choice")


def _fits(document: Mapping[str, Any]) -> None:
    st.caption("Sure and wrong: it was said to fit with more than 95 %, and did not.")
    result_table(decisions.fits(document), key=f"{PAGE} fits", words="Right answers about memory")


def _again(command: str) -> None:
    st.caption("docs/choices.md says how it is measured.")
    to_paste(command)
