"""One ranked option of the Recommend page as a card: enough to decide by, the rest one click away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard import evidence
from dashboard.frame import escape, to_paste
from dashboard.pages.recommend import limits
from dashboard.pages.recommend import words as card
from presentation import charts, formatting

__all__ = ["sentence_of", "show_card"]

Row = Mapping[str, Any]
MOST_LINKS = 20


def show_card(percentile: str, row: Row, metric: charts.Metric, interval: float | None) -> None:
    """Show one option: its figures, what they cost, how surely they meet the limits, and what they rest on."""
    rank = row.get("rank_band") or row.get("rank")
    name = escape(" · ".join(charts.name_of(row).split(" · ")[1:]))
    st.markdown(f"**{rank} · {escape(card.title(row))}**  \n:small[{name}]")
    words = f"{percentile} latency" if metric is charts.LATENCY else metric.title
    st.metric(words, card.shown(row, metric).partition(" (")[0])
    escapes = [
        escape(card.interval_words(row, metric, interval)),
        escape(" · ".join(card.figures(row, metric, percentile))),
    ]
    escapes.append(escape(card.price_words(row) or "No price is known"))
    doubt = card.price_doubt(row)
    if doubt:
        escapes[-1] += f" :orange-badge[{escape(doubt)}]"
    power = card.power_words(row)
    escapes += [escape(power)] if power else []
    if metric is charts.ENERGY and (doubt := card.energy_doubt(row)) not in (None, "valid"):
        escapes[0] += f" · energy is {escape(str(doubt))}"
    escapes += [f"✓ {escape(sentence)}" for sentence in limits.met(row)]
    _lines(escapes)
    bar = card.memory_bar(row)
    if bar:
        st.html(bar)
    _lines([escape(card.memory_words(row))])
    _lines([escape(card.basis_words(row)), escape(sentence_of(str(row.get("why_above_next") or "")))])
    with st.popover("Evidence and how to check", width="stretch"):
        _checks(row)


def _lines(lines: Sequence[str]) -> None:
    """Show small lines, one below the other."""
    st.markdown("  \n".join(f":small[{line}]" for line in lines if line))


def _checks(row: Row) -> None:
    st.caption(escape(card.error_words(row)))
    explained = (row.get("explanation") or {}).get("told")
    if explained:
        st.caption(escape(sentence_of(str(explained))))
    events = row.get("evidence") or []
    if events:
        st.caption(f"Rests on {formatting.count(len(events))} event{'' if len(events) == 1 else 's'} of the log:")
        # As links, so that a row of numbers is one click away.
        links = [f"[{event}]({evidence.row_path(str(event))})" for event in events[:MOST_LINKS]]
        more = (
            f"  \nand {formatting.count(len(events) - MOST_LINKS)} more, in the files below"
            if len(events) > MOST_LINKS
            else ""
        )
        st.markdown(":small[" + "  \n".join(links) + "]" + more)
    st.caption("This measures it:")
    to_paste(str(row["command"]))


def sentence_of(words: str) -> str:
    """Begin with a capital."""
    return words[:1].upper() + words[1:]
