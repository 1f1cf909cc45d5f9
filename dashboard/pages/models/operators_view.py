"""The part of the Models page that tells what the time of a call goes into, operator by operator, on a chosen hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import streamlit as st

from dashboard import answers
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import chart, downloads, escape, guarded, theme
from dashboard.page_state import adopt, go, widget
from dashboard.pages.models import query
from dashboard.pages.models import words as model
from dashboard.pages.models.words import Model
from domain.vocabulary import MODES, PLATFORMS, PRECISIONS
from presentation import formatting
from presentation.charts.breakdown_chart import breakdown
from presentation.palette import badge

__all__ = ["show_operators"]

PAGE = "models"
PART = f"{PAGE} operators"
NAMES = ("hw", "platform", "precision", "batch", "mode")


def show_operators(asked: Model, told: Mapping[str, Any], at: int) -> None:
    """Show the operators of one call, the longest first, on the hardware chosen or the one measured fastest."""
    asked = _bar(_filled(asked, told, at), at)
    question = _question(asked)
    found = query.operators(asked.id, at, mode=asked.mode, **question)
    sentence = model.bound_sentence(found)
    with st.container(key="answer"):
        st.markdown(f"**{escape(sentence)}**")
    _whence(asked, found, at, question)
    drawn = breakdown(model.parts(found), _title(found), theme=theme())
    chart(drawn, key=f"{PART} picture", words=f"Operators of {asked.id}: {sentence}")
    number = st.column_config.NumberColumn
    st.dataframe(
        model.operators_table(found), hide_index=True, key=f"{PART} table", row_height=36, height="content",
        placeholder=formatting.MISSING, alt=f"Operators of {asked.id}",
        column_config={
            "Operator": st.column_config.Column(pinned=True), "Calls": number(format="localized"),
            "GFLOP": number(format="%.3f"), "MB moved": number(format="%.2f"), "Least ms": number(format="%.4f"),
            "Of the time, %": number(format="%.1f"),
        },
    )  # fmt: skip
    _files(asked, found, sentence, at)


def _filled(asked: Model, told: Mapping[str, Any], at: int) -> Model:
    """Fill what the address leaves open from where the model was measured fastest, else from the hardware of the log."""
    best = next((row for row in told["best"] if row["precision"]), told["best"][0] if told["best"] else None)
    if best is None:
        own = next((str(row["id"]) for row in answers.hardware(at) if row.get("measured")), "")
        best = {"hardware": own, "platform": "cpu", "precision": "fp32", "batch_size": 1}
    usual = {
        "hw": best["hardware"] or "", "platform": best["platform"], "precision": best["precision"] or "fp32",
        "batch": best["batch_size"] or 1,
    }  # fmt: skip
    if asked.hw and asked.hw != usual["hw"]:
        row = next((row for row in answers.hardware(at) if row["id"] == asked.hw), {})
        said = [one["platform"] for one in row.get("described_platforms") or () if one.get("available")]
        usual |= {"platform": next(iter(said or row.get("platforms") or {}), "cpu"), "precision": "fp32", "batch": 1}
    return msgspec.structs.replace(asked, **{name: getattr(asked, name) or value for name, value in usual.items()})


def _bar(asked: Model, at: int) -> Model:
    adopt(PART, asked, {name: getattr(asked, name) for name in NAMES})
    ids = [str(row["id"]) for row in answers.hardware(at)]
    columns = st.columns([4, 2, 2, 1.5, 2], vertical_alignment="bottom")
    columns[0].selectbox("Hardware", list(dict.fromkeys([*ids, asked.hw])), key=widget(PART, "hw"))
    columns[1].selectbox(
        "Platform", list(dict.fromkeys([*PLATFORMS, asked.platform])), key=widget(PART, "platform"), filter_mode=None
    )
    columns[2].selectbox(
        "Precision",
        list(dict.fromkeys([*PRECISIONS, asked.precision])),
        key=widget(PART, "precision"),
        filter_mode=None,
    )
    columns[3].number_input("Batch", min_value=1, step=1, key=widget(PART, "batch"))
    columns[4].selectbox("Mode", MODES, key=widget(PART, "mode"), filter_mode=None)
    state = {name: st.session_state[widget(PART, name)] for name in NAMES}
    chosen = msgspec.structs.replace(asked, **state)
    if chosen != asked:
        if chosen.hw != asked.hw:
            # Another device has platforms of its own.
            chosen = msgspec.structs.replace(chosen, platform="", precision="", batch=None)
        go(PAGE, chosen)
        st.session_state.pop(f"{PART} adopted", None)
        st.rerun()
    return chosen


def _question(asked: Model) -> dict[str, Any]:
    found: dict[str, Any] = {"hardware": asked.hw or None, "platform": asked.platform, "precision": asked.precision}
    return {**found, "batch_size": asked.batch or 1}


def _title(found: Mapping[str, Any]) -> str:
    if found["basis"] == "roofline":
        return "share of the least time on the roofline, %"
    return "share of the bytes moved, %"


def _whence(asked: Model, found: Mapping[str, Any], at: int, question: Mapping[str, Any]) -> None:
    sizes = {"sequence_length": "sequence length", "image_size": "image size"}
    work = ", ".join(f"{words} {found[name]}" for name, words in sizes.items() if found[name] is not None)
    traced = f"Traced ({found['phase']}{f', {work}' if work else ''}), batch {formatting.count(asked.batch or 1)}"
    if found["basis"] != "roofline":
        st.caption(escape(f"{traced}. No times: {found['why_not']}. Shares are of bytes in fp32."))
        return
    floor = formatting.latency(found["latency_ms"])
    st.caption(
        escape(f"{traced}. Basis ┄ roofline: at least {floor} by the device's figures, not covered by measurement.")
    )
    with guarded("The prediction beside it"):
        if asked.mode == "inference":
            _beside(asked, found, at, question)


def _beside(asked: Model, found: Mapping[str, Any], at: int, question: Mapping[str, Any]) -> None:
    told = query.predicted(asked.id, at, **question, **{
        name: found[name] for name in ("sequence_length", "image_size") if found[name] is not None
    })  # fmt: skip
    if told["latency_ms"] is None:
        return
    known = formatting.latency(told["latency_ms"], told.get("latency_ms_low"), told.get("latency_ms_high"))
    explained = formatting.share(found["latency_ms"] / told["latency_ms"])
    words = f"The whole call: {known} ({badge(told['basis'], told.get('origin'))}); the roofline explains {explained} of it."
    st.caption(escape(words))


def _files(asked: Model, found: Mapping[str, Any], sentence: str, at: int) -> None:
    parts, title, shade = model.parts(found), _title(found), theme()

    def draw() -> Any:
        return breakdown(parts, title, theme=shade, picture=True)

    where = (
        f"{asked.hw} · {asked.platform} · {asked.precision} · batch {asked.batch}"
        if found["hardware"]
        else "by work alone"
    )
    footer = f"position {formatting.count(at)} · {where} · basis {found['basis']}"
    name = stem(PAGE, f"{asked.id}_operators", at)
    pictures = picture_files(name, draw, f"Operators of {asked.id}", answer=sentence, footer=footer)
    downloads([*table_files(name, found["operators"], as_of=at), *pictures], PART)
