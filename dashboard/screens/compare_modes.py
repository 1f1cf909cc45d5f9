"""Compare: training beside inference."""

from __future__ import annotations

from typing import Any

import streamlit as st

from assay import numbers
from dashboard import charts, modes
from dashboard.address import Comparison
from dashboard.answers import comparing
from dashboard.frame import basis_legend, chart, downloads, escape, guarded, theme
from dashboard.offers import picture_files, stem, table_files
from dashboard.screens.compare_frame import PAGE, differs, evidence_columns, nothing, strip

__all__ = ["show"]

MOST_DRAWN = 20


def show(asked: Comparison, position: int) -> None:
    """Show the pairs of one model that are alike in all but the mode."""
    at = position if asked.as_of is None else asked.as_of
    with guarded(asked.model):
        pairs = comparing.modes(asked.model, at)["pairs"]
        found = modes.find(pairs, asked.hw, asked.platform, asked.precision, asked.batch)
        strip(asked, at, [asked.model], [str(pair.inference["hardware"]) for pair in found])
        if found:
            _pairs(asked, at, found, modes.one_sided(pairs))
        else:
            _none(asked, pairs)


def _pairs(asked: Comparison, at: int, found: list[modes.Pair], alone: dict[str, int]) -> None:
    rows = [row for pair in found for row in (pair.inference, pair.training)]
    differs(rows)
    sentence = modes.sentence(found)
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
    shown, shade = found[:MOST_DRAWN], theme()
    drawn = [(pair.name, pair.inference, pair.training, pair.time.value or 0.0) for pair in shown]
    chart(charts.modes(drawn, theme=shade), key=f"{PAGE} picture", words=f"{asked.model}: {sentence}")
    basis_legend(rows)
    st.caption(_words(found, shown, alone))
    st.dataframe(
        modes.table(found), hide_index=True, key=f"{PAGE} table", row_height=36, placeholder=numbers.MISSING,
        height="content" if len(found) <= 15 else 500, alt=f"Training and inference of {asked.model}",
        column_config={
            "Configuration": st.column_config.Column(pinned=True),
            **evidence_columns("Evidence inference", "Evidence training"),
        },
    )  # fmt: skip
    name = stem(PAGE, f"{asked.model}-modes", at)
    flat: list[dict[str, Any]] = [
        {"pair": pair.name, "ratio": pair.time.value, "ratio_low": pair.time.low, "ratio_high": pair.time.high, **row}
        for pair in found
        for row in (pair.inference, pair.training)
    ]
    footer = f"position {numbers.count(at)} · {numbers.count(len(shown))} of {numbers.count(len(found))} pairs"
    picture = picture_files(
        name, lambda: charts.modes(drawn, theme=shade, picture=True), f"Training and inference of {asked.model}",
        answer=sentence, footer=footer,
    )  # fmt: skip
    downloads([*table_files(name, flat, as_of=at), *picture], PAGE)


def _words(found: list[modes.Pair], shown: list[modes.Pair], alone: dict[str, int]) -> str:
    """Say what times are, and count what has no partner or no place on the picture."""
    told = ["Times are of one item: a call's latency over its batch. Each pair is alike in all but the mode"]
    if len(found) > len(shown):
        told.append(f"The {len(shown)} largest differences of {numbers.count(len(found))} are drawn")
    told += [f"{numbers.count(count)} measured in {mode} alone" for mode, count in alone.items() if count]
    return ". ".join(told) + "."


def _none(asked: Comparison, pairs: list[Any]) -> None:
    both = sum(bool(pair["inference"] and pair["training"]) for pair in pairs)
    alone = modes.one_sided(pairs)
    missing = "training" if alone["inference"] else "inference"
    if not pairs:
        nothing(asked, "Nothing was measured for this model. These measure both modes here:", _both(asked.model))
        return
    told = f"{missing.capitalize()} was not measured where {'inference' if missing == 'training' else 'training'} was. "
    nothing(asked, told + "This would:", f"assay bench {asked.model} --mode {missing}", both)


def _both(model: str) -> str:
    return f"assay bench {model}\nassay bench {model} --mode training"
