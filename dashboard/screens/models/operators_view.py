"""The part of the Models page that tells what the time of a call goes into, operator by operator, on a chosen hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import altair as alt
import msgspec
import streamlit as st

from dashboard import answers
from dashboard.best_measured import MeasuredRow
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import chart, coded, downloads, escape, guarded, places, theme, to_paste
from dashboard.page_state import adopt, go, widget
from dashboard.screens.models import query
from dashboard.screens.models import words as model
from dashboard.screens.models.words import Model
from dashboard.tables.result_table import columns_of, result_table
from domain.answers import Faster
from domain.answers.model_profile import OperatorBreakdown
from domain.vocabulary import MODES, PLATFORMS, PRECISIONS
from presentation import formatting
from presentation.answer_words import evidence_words
from presentation.charts.breakdown_chart import breakdown
from presentation.explained_time import kernel_lines, sum_line
from presentation.faster_words import change_words, checks, none_words, other_words

__all__ = ["show_operators"]

PAGE = "models"
PART = f"{PAGE} operators"
NAMES = ("hw", "platform", "precision", "batch", "mode")


class Configuration(TypedDict):
    """The configuration that the page asks operators and latency of."""

    hardware: str | None
    platform: str
    precision: str
    batch_size: int


class Defaults(TypedDict):
    """What the page asks where the address leaves it open."""

    hw: str
    platform: str
    precision: str
    batch: int


def show_operators(bar: Model, measured: Sequence[MeasuredRow], at: int) -> None:
    """Show the operators of one call, the longest first, on the hardware chosen or the first of the rows `measured`."""
    bar = _bar(_filled(bar, measured, at), at)
    question = _question(bar)
    operators = query.operators(bar.id, at, mode=bar.mode, **question)
    sentence = model.bound_sentence(operators)
    st.markdown(f"**{escape(sentence)}**")
    _whence(bar, operators, at, question)
    drawn = breakdown(msgspec.to_builtins(model.parts(operators)), _title(operators), theme=theme())
    chart(drawn, key=f"{PART} picture", words=f"Operators of {bar.id}: {sentence}")
    result_table(columns_of(model.operators_table(operators)), key=f"{PART} table", words=f"Operators of {bar.id}")
    _files(bar, operators, sentence, at)


def _filled(model: Model, measured: Sequence[MeasuredRow], at: int) -> Model:
    """Fill what the address leaves open from where the model was measured fastest, else from the hardware of the log."""
    best = next((row for row in measured if row.get("precision")), measured[0] if measured else None)
    if best is None:
        own = next((row.id for row in answers.hardware(at) if row.measured), "")
        usual: Defaults = {"hw": own, "platform": "cpu", "precision": "fp32", "batch": 1}
    else:
        usual = {
            "hw": best["hardware"],
            "platform": best["platform"],
            "precision": best.get("precision") or "fp32",
            "batch": best.get("batch_size") or 1,
        }
    if model.hw and model.hw != usual["hw"]:
        row = next((row for row in answers.hardware(at) if row.id == model.hw), None)
        described = row.described_platforms or [] if row else []
        platforms = [item["platform"] for item in described if item.get("available")]
        offered = platforms or (row.platforms if row else None) or {}
        usual |= {"platform": next(iter(offered), "cpu"), "precision": "fp32", "batch": 1}
    return msgspec.structs.replace(model, **{name: getattr(model, name) or value for name, value in usual.items()})


def _bar(model: Model, at: int) -> Model:
    adopt(PART, model, {name: getattr(model, name) for name in NAMES})
    ids = [row.id for row in answers.hardware(at)]
    columns = places(3, 2, 2, 1, 2)
    columns[0].selectbox("Hardware", list(dict.fromkeys([*ids, model.hw])), key=widget(PART, "hw"))
    columns[1].selectbox(
        "Platform", list(dict.fromkeys([*PLATFORMS, model.platform])), key=widget(PART, "platform"), filter_mode=None
    )
    columns[2].selectbox(
        "Precision",
        list(dict.fromkeys([*PRECISIONS, model.precision])),
        key=widget(PART, "precision"),
        filter_mode=None,
    )
    columns[3].number_input("Batch", min_value=1, step=1, key=widget(PART, "batch"))
    columns[4].selectbox("Mode", MODES, key=widget(PART, "mode"), filter_mode=None)
    state = {name: st.session_state[widget(PART, name)] for name in NAMES}
    chosen = msgspec.structs.replace(model, **state)
    if chosen != model:
        if chosen.hw != model.hw:
            # Another device has platforms of its own.
            chosen = msgspec.structs.replace(chosen, platform="", precision="", batch=None)
        go(PAGE, chosen)
        st.session_state.pop(f"{PART} adopted", None)
        st.rerun()
    return chosen


def _question(model: Model) -> Configuration:
    return {
        "hardware": model.hw or None,
        "platform": model.platform,
        "precision": model.precision,
        "batch_size": model.batch or 1,
    }


def _title(row: OperatorBreakdown) -> str:
    if row.basis == "roofline":
        return "share of the least time, %"
    return "share of the bytes moved, %"


def _whence(model: Model, row: OperatorBreakdown, at: int, question: Configuration) -> None:
    sizes = {"sequence length": row.sequence_length, "image size": row.image_size}
    work = ", ".join(f"{words} {size}" for words, size in sizes.items() if size is not None)
    traced = f"Traced ({row.phase}{f', {work}' if work else ''}), batch {formatting.count(model.batch or 1)}"
    if row.basis != "roofline":
        st.caption(escape(f"{traced}. No times: {row.why_not}. Shares are of bytes in fp32."))
        return
    floor = formatting.latency(row.latency_ms)
    st.caption(
        escape(
            f"{traced}. ┄ Estimate (specs only): at least {floor} by the device's figures, not covered by measurement."
        )
    )
    with guarded("The prediction beside it"):
        if model.mode == "inference":
            _beside(model, row, at, question)


def _beside(model: Model, row: OperatorBreakdown, at: int, question: Configuration) -> None:
    sizes = {"sequence_length": row.sequence_length, "image_size": row.image_size}
    stated = {name: size for name, size in sizes.items() if size is not None}
    document = query.predicted(model.id, at, **question, **stated)
    if document.latency_ms is None or row.latency_ms is None:
        return
    latency = formatting.latency(document.latency_ms, document.latency_ms_low, document.latency_ms_high)
    explained = formatting.share(row.latency_ms / document.latency_ms)
    words = f"The whole call: {latency} ({evidence_words(document.basis, document.origin)}); the device's figures explain {explained} of it."
    st.caption(escape(words))
    if document.explanation is not None:
        lines = [sum_line(document.explanation), *kernel_lines(document.explanation)]
        st.markdown("  \n".join(f":small[{escape(line)}]" for line in lines))
    if document.faster is not None:
        _faster(document.faster)


def _faster(faster: Faster) -> None:
    """Show what would make the call faster, and the commands that check it."""
    if faster.best is None:
        st.caption(escape(f"What would make it faster: {none_words(faster)}"))
        return
    others = other_words(faster)
    words = f"What would make it faster: {change_words(faster.best)}{f'; {others}' if others else ''}."
    st.markdown(f"**{escape(words)}**")
    for what, command in checks(faster.best):
        st.caption(coded(what))
        to_paste(command)


def _files(request: Model, row: OperatorBreakdown, sentence: str, at: int) -> None:
    parts, title, shade = msgspec.to_builtins(model.parts(row)), _title(row), theme()

    def draw() -> alt.LayerChart:
        return breakdown(parts, title, theme=shade, picture=True)

    where = (
        f"{request.hw} · {request.platform} · {request.precision} · batch {request.batch}"
        if row.hardware
        else "by work alone"
    )
    footer = f"position {formatting.count(at)} · {where} · basis {row.basis}"
    name = stem(PAGE, f"{request.id}_operators", at)
    pictures = picture_files(name, draw, f"Operators of {request.id}", answer=sentence, footer=footer)
    downloads([*table_files(name, msgspec.to_builtins(row.operators), as_of=at), *pictures], PART)
