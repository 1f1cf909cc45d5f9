"""Compare: training beside inference."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard.address import Comparison
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import chart, downloads, escape, guarded, theme
from dashboard.screens.compare import modes, query
from dashboard.screens.compare import words as comparison
from dashboard.screens.compare.comparison_frame import PAGE, Places, about, nothing
from dashboard.tables.result_table import result_table
from domain.vocabulary import MODES
from presentation import charts, formatting

__all__ = ["show"]

MOST_DRAWN = 10


def show(request: Comparison, at: int, places: Places) -> None:
    """Show the pairs of one model that are alike in all but the mode, a hundred at most."""
    with guarded(request.model):
        answer = comparison.modes(request, at)
        result = modes.paired(answer["pairs"])
        about(places, request, at, [row for pair in result for row in (pair.inference, pair.training)])
        if result:
            _pairs(request, at, result, answer, places)
        else:
            with places.answer:
                _none(request, answer["whole"])


def _pairs(request: Comparison, at: int, pairs: list[modes.Pair], answer: dict[str, Any], places: Places) -> None:
    sentence = modes.sentence(pairs, answer["ratios"])
    places.answer.subheader(escape(sentence), anchor=False)
    shown, shade = pairs[:MOST_DRAWN], theme()
    drawn = [(pair.name, pair.inference, pair.training, pair.time.value or 0.0) for pair in shown]
    chart(charts.modes(drawn, theme=shade), key=f"{PAGE} picture", words=f"{request.model}: {sentence}")
    st.caption(_words(pairs, shown, answer))
    words = f"Training and inference of {request.model}"
    result_table(modes.columns(pairs), key=f"{PAGE} table", words=words, height=480)
    name = stem(PAGE, f"{request.model}-modes", at)
    everything = query.all_modes(request.model, at, **comparison.filters(request))
    files = table_files(name, lambda: modes.flat(modes.paired(everything())), as_of=at)
    footer = f"position {formatting.count(at)} · {formatting.count(len(shown))} of {formatting.count(answer['ratios']['pairs'])} pairs"
    picture = picture_files(
        name,
        lambda: charts.modes(drawn, theme=shade, picture=True),
        f"Training and inference of {request.model}",
        answer=sentence,
        footer=footer,
    )
    downloads([*files, *picture], PAGE)


def _words(pairs: list[modes.Pair], shown: list[modes.Pair], answer: dict[str, Any]) -> str:
    """Say what times are, and count what has no partner or no place on the picture or in the table."""
    texts = ["Times are of one item: a call's latency over its batch. Each pair is alike in all but the mode"]
    total, whole = answer["ratios"]["pairs"], answer["whole"]
    if total > len(shown):
        texts.append(f"The {len(shown)} largest differences of {formatting.count(total)} are drawn")
    if total > len(pairs):
        texts.append(f"The table has the {len(pairs)} largest, the files have all")
    texts += [f"{formatting.count(whole[mode])} measured in {mode} alone" for mode in MODES if whole[mode]]
    return ". ".join(texts) + "."


def _none(comparison: Comparison, whole: dict[str, Any]) -> None:
    missing = "training" if whole["inference"] else "inference"
    if not any(whole[side] for side in ("both", *MODES)):
        nothing(
            comparison, "Nothing was measured for this model. These measure both modes here:", _both(comparison.model)
        )
        return
    text = f"{missing.capitalize()} was not measured where {'inference' if missing == 'training' else 'training'} was. "
    nothing(comparison, text + "This would:", f"assay bench {comparison.model} --mode {missing}", whole["both"])


def _both(model: str) -> str:
    return f"assay bench {model}\nassay bench {model} --mode training"
