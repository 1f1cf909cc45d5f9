"""How good are decisions? Success and overspend of choices on models that took no part, beside rules of thumb."""

from __future__ import annotations

import streamlit as st

from dashboard import answers
from dashboard.downloads import stem, table_files
from dashboard.frame import chart, downloads, escape, theme, to_paste
from dashboard.screens.predictor import decisions
from presentation import charts, formatting

__all__ = ["show_decisions"]

PAGE = "decisions"
COUNT = st.column_config.NumberColumn(format="localized")


def show_decisions(at: int) -> None:
    """Show the figures that ship with the service, with the command that measures them again."""
    document = answers.decisions()
    rules = decisions.rules(document)
    with st.container(key="answer"):
        st.subheader(escape(decisions.sentence(rules)), anchor=False)
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
    st.dataframe(
        decisions.rules_table(rules),
        hide_index=True,
        key=f"{PAGE} table",
        row_height=36,
        height="content",
        alt="Rules that choose machines",
    )
    st.subheader("Which device first?", anchor=False)
    st.caption("One device among eight or more: what the first choice loses beside the best measured one.")
    st.dataframe(
        decisions.devices(document),
        hide_index=True,
        key=f"{PAGE} devices",
        row_height=36,
        height="content",
        alt="Loss of the first choice",
        column_config={"Questions": COUNT},
    )
    st.subheader("Does it fit in memory?", anchor=False)
    st.caption("Sure and wrong: it was said to fit with more than 95 %, and did not.")
    st.dataframe(
        decisions.fits(document),
        hide_index=True,
        key=f"{PAGE} fits",
        row_height=36,
        height="content",
        alt="Right answers about memory",
        column_config={"Questions": COUNT, "Sure and wrong": COUNT},
    )
    downloads(table_files(stem(PAGE, "rules", at), document["machines"], as_of=at), PAGE)
    st.caption("This measures all of it again; docs/choices.md says how.")
    to_paste(str(document["command"]))
