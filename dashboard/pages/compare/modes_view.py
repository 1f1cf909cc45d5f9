"""Compare: training beside inference."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard.address import Comparison
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import basis_legend, chart, downloads, escape, guarded, theme
from dashboard.pages.compare import modes, query
from dashboard.pages.compare import words as comparison
from dashboard.pages.compare.comparison_frame import PAGE, differs, evidence_columns, nothing, strip
from domain.vocabulary import MODES
from presentation import charts, formatting

__all__ = ["show"]

MOST_DRAWN = 20


def show(asked: Comparison, position: int) -> None:
    """Show the pairs of one model that are alike in all but the mode, a hundred at most."""
    at = position if asked.as_of is None else asked.as_of
    with guarded(asked.model):
        answer = comparison.modes(asked, at)
        found = modes.paired(answer["pairs"])
        strip(asked, at, [asked.model], [str(pair.inference["hardware"]) for pair in found])
        if found:
            _pairs(asked, at, found, answer)
        else:
            _none(asked, answer["whole"])


def _pairs(asked: Comparison, at: int, found: list[modes.Pair], answer: dict[str, Any]) -> None:
    rows = [row for pair in found for row in (pair.inference, pair.training)]
    differs(rows)
    sentence = modes.sentence(found, answer["ratios"])
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
    shown, shade = found[:MOST_DRAWN], theme()
    drawn = [(pair.name, pair.inference, pair.training, pair.time.value or 0.0) for pair in shown]
    chart(charts.modes(drawn, theme=shade), key=f"{PAGE} picture", words=f"{asked.model}: {sentence}")
    basis_legend(rows)
    st.caption(_words(found, shown, answer))
    st.dataframe(
        modes.table(found), hide_index=True, key=f"{PAGE} table", row_height=36, placeholder=formatting.MISSING,
        height="content" if len(found) <= 15 else 500, alt=f"Training and inference of {asked.model}",
        column_config={
            "Configuration": st.column_config.Column(pinned=True),
            **evidence_columns("Evidence inference", "Evidence training"),
        },
    )  # fmt: skip
    name = stem(PAGE, f"{asked.model}-modes", at)
    everything = query.all_modes(asked.model, at, **comparison.filters(asked))
    files = table_files(name, lambda: modes.flat(modes.paired(everything())), as_of=at)
    footer = f"position {formatting.count(at)} · {formatting.count(len(shown))} of {formatting.count(answer['ratios']['pairs'])} pairs"
    picture = picture_files(
        name, lambda: charts.modes(drawn, theme=shade, picture=True), f"Training and inference of {asked.model}",
        answer=sentence, footer=footer,
    )  # fmt: skip
    downloads([*files, *picture], PAGE)


def _words(found: list[modes.Pair], shown: list[modes.Pair], answer: dict[str, Any]) -> str:
    """Say what times are, and count what has no partner or no place on the picture or in the table."""
    told = ["Times are of one item: a call's latency over its batch. Each pair is alike in all but the mode"]
    total, whole = answer["ratios"]["pairs"], answer["whole"]
    if total > len(shown):
        told.append(f"The {len(shown)} largest differences of {formatting.count(total)} are drawn")
    if total > len(found):
        told.append(f"The table has the {len(found)} largest, the files have all")
    told += [f"{formatting.count(whole[mode])} measured in {mode} alone" for mode in MODES if whole[mode]]
    return ". ".join(told) + "."


def _none(asked: Comparison, whole: dict[str, Any]) -> None:
    missing = "training" if whole["inference"] else "inference"
    if not any(whole[side] for side in ("both", *MODES)):
        nothing(asked, "Nothing was measured for this model. These measure both modes here:", _both(asked.model))
        return
    told = f"{missing.capitalize()} was not measured where {'inference' if missing == 'training' else 'training'} was. "
    nothing(asked, told + "This would:", f"assay bench {asked.model} --mode {missing}", whole["both"])


def _both(model: str) -> str:
    return f"assay bench {model}\nassay bench {model} --mode training"
