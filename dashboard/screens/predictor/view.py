"""Predictor: how wrong is it, does it know when it is, and what should we measure next?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import streamlit as st

from dashboard import answers
from dashboard.address import GROUPS, LIVE_TARGETS, Scores, read_scores
from dashboard.downloads import picture_files, stem
from dashboard.frame import (
    chart,
    downloads,
    dropped,
    escape,
    folded,
    guarded,
    header,
    places,
    provenance,
    theme,
    to_paste,
)
from dashboard.page_state import adopt, current, go, widget
from dashboard.screens.predictor import words as scores
from dashboard.screens.predictor.decisions_view import show_decisions
from dashboard.tables.result_table import Column, result_table
from presentation import charts, formatting

__all__ = ["show"]

PAGE = "predictor"
MOST_GROUPS = 15
TITLES = {"scores": "Accuracy", "live": "Live accuracy", "decisions": "Decisions", "card": "What it knows"}
CHOICES = {"scores": ("split", "group"), "live": ("target", "group")}
"""What can be chosen in a part."""
DOTS = "Dots are mean errors, ticks medians; smaller is better."
LIVE_TILES = (
    ("Median error", "median_ape"),
    ("Within 20 %", "within_20"),
    ("80 % intervals held", "coverage_80"),
    ("Mean error, models alike", "macro_mape"),
)


def show() -> None:
    """Show what evaluations, live accuracy and the card say of the predictor in force."""
    header("Predictor", "How wrong is it, does it know when it is, and what should we measure next?")
    with guarded("The service"):
        read = current(PAGE, read_scores)
        dropped(read.dropped)
        bar: Scores = read.asked
        at = answers.ready()["position"] if bar.as_of is None else bar.as_of
        strip = st.container()
        with guarded("The card"):
            card = answers.predictor(at, bar.split)
            in_order = scores.in_order(card.get("scores") or {})
            with st.container(key="answer"):
                _expected(in_order)
            bar = _bar(bar, in_order)
            with strip:
                provenance(PAGE, _whence(card, at), msgspec.structs.replace(bar, as_of=at))
            for note in card.get("notes") or ():
                st.warning(escape(str(note)), icon=":material/report:")
            with guarded(TITLES[bar.tab]):
                _part(bar, card, in_order, at)
        folded("What to measure next", _next, key=f"{PAGE} next")


def _expected(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Say first how far an estimate is off, on devices that are known and on others."""
    expected = scores.expected(rows)
    if expected is None:
        st.subheader("How far estimates are off is not on the card of this predictor", anchor=False)
        return
    st.subheader(escape(expected), anchor=False)
    st.caption(escape(scores.expected_elsewhere(rows)))


def _next() -> None:
    st.caption("The runs that would lower the error of open questions most:")
    to_paste("assay suggest --budget 2h")


def _part(request: Scores, card: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], at: int) -> None:
    """Show the part that is open; what the others need is not asked for."""
    if request.tab == "scores":
        if request.split in rows and "fields" not in rows[request.split]:
            rows = scores.in_order(answers.predictor(at, request.split)["scores"])
        _evaluations(request, card, rows, at)
    elif request.tab == "live":
        _live(request, at)
    elif request.tab == "decisions":
        show_decisions(at)
    else:
        _widths(card)
        _history(at)
        _knowledge(card)


def _whence(card: Mapping[str, Any], at: int) -> str:
    whence = (
        "ships with Assay" if card.get("shipped") else f"trained at position {formatting.count(card.get('position'))}"
    )
    words = f"position {formatting.count(at)} · predictor {formatting.digest(card.get('digest'))} · {whence}"
    return f"{words} · {formatting.count(card.get('rows'))} rows"


def _bar(bar: Scores, rows: Mapping[str, Mapping[str, Any]]) -> Scores:
    """Show what is chosen, take what is chosen now, and return it; an evaluation that is not there gives way to another."""
    names = list(rows)
    if bar.split and bar.split not in names:
        st.warning(f"From the address: no evaluation is called {escape(bar.split)}.", icon=":material/link_off:")
    # What the first line is about, else the first that is no interpolation.
    order = sorted(names, key=lambda name: (rows[name]["split"] != "family", rows[name]["split"] == "random"))
    usual = order[0] if order else ""
    bar = msgspec.structs.replace(bar, split=bar.split if bar.split in names else usual)
    names_of: dict[str, tuple[str, Sequence[str]]] = {
        "split": ("Tested on", names),
        "group": ("Errors by", GROUPS),
        "target": ("Live accuracy of", LIVE_TARGETS),
    }
    adopt(PAGE, bar, {"tab": bar.tab} | {name: getattr(bar, name) or None for name in names_of})
    st.segmented_control(
        "Part",
        list(TITLES),
        key=widget(PAGE, "tab"),
        required=True,
        format_func=TITLES.__getitem__,
        label_visibility="collapsed",
    )
    shown = CHOICES.get(bar.tab, ())
    for name, place in zip(shown, places(4, 2, 4) if shown else (), strict=False):
        label, options = names_of[name]
        place.selectbox(
            label,
            options,
            key=widget(PAGE, name),
            filter_mode=None,
            disabled=not options,
            format_func=(lambda one: scores.short_title(rows[one])) if name == "split" else str,
        )
    state = {name: st.session_state[widget(PAGE, name)] or "" for name in ("tab", *shown)}
    chosen: Scores = msgspec.structs.replace(bar, **state)
    if chosen != bar:
        go(PAGE, chosen)
        st.rerun()
    return bar


def _evaluations(request: Scores, card: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], at: int) -> None:
    if not rows:
        st.info("The card of this predictor holds no scores. This scores its method on what the log holds:")
        to_paste("assay evaluate --split family")
        return
    answer = rows[request.split]
    sentence = scores.sentence(answer)
    st.markdown(escape(sentence))
    _tiles(answer)
    left, right = st.columns([1, 1], gap="large")
    with left:
        _parity(answer)
    with right:
        _calibration(rows)
    folded(f"Error by {request.group}", partial(_groups, request, answer), key=f"{PAGE} by group")
    folded("Every evaluation", partial(_splits, rows), key=f"{PAGE} all splits")
    _downloads(str(card.get("digest")), rows, at, sentence)


def _splits(rows: Mapping[str, Mapping[str, Any]]) -> None:
    result_table(scores.splits_table(rows), key=f"{PAGE} splits", words="Scores of each evaluation")
    st.caption(
        "Errors are relative to what was measured. Whole groups are held out; a random-row split is interpolation only."
    )


def _tiles(answer: Mapping[str, Any]) -> None:
    overall = answer["overall"]
    figures = (
        ("Median error", overall["median_ape"], "Half of the errors are smaller."),
        ("Within 20 %", overall["within_20"], "Share of estimates that are at most 20 % off."),
        ("80 % intervals held", overall.get("coverage_80"), scores.TIPS["80 % holds"]),
        ("80 % interval width", overall.get("width_80"), scores.TIPS["width at 80 %"]),
    )
    with st.grid(4, min_column_width=150, key="figures"):
        for label, value, tip in figures:
            st.metric(label, formatting.share(value), border=True, help=tip)
    text = f"{formatting.count(overall['rows'])} measurements"
    st.caption(text if overall.get("coverage_80") is not None else f"{text} · intervals are not calibrated")


def _parity(answer: Mapping[str, Any]) -> None:
    st.subheader("Predicted over measured", anchor=False)
    fields = answer.get("fields") or ()
    if not fields:
        st.info("This evaluation kept no counts to draw from. A new one does:")
        to_paste(_command(answer))
        return
    drawn = charts.parity(fields, scores.unit(answer), theme=theme())
    chart(drawn, key=f"{PAGE} parity", words=f"Predicted over measured, {scores.title(answer)}")
    st.caption("Colour counts the rows in a field; the line is where both are the same, the dotted ones 20 % from it.")


def _command(answer: Mapping[str, Any]) -> str:
    words = f"assay evaluate --split {answer['split']} --target {answer['target']}"
    return f"{words} --shots {answer['shots']}" if answer["shots"] else words


def _calibration(rows: Mapping[str, Mapping[str, Any]]) -> None:
    st.subheader("Does it know when it is wrong?", anchor=False)
    lines = [{"name": scores.short_title(value), "calibration": scores.calibration(value)} for value in rows.values()]
    drawn = charts.calibration(lines, theme=theme())
    chart(drawn, key=f"{PAGE} calibration", words="What intervals promised and held, by split")
    st.caption(
        "Ticks are what intervals promise, dots what they held: right of its tick, an interval is wider than it needs to be; "
        "left of it, narrower than it promises."
    )


def _groups(request: Scores, answer: Mapping[str, Any]) -> None:
    rows = scores.grouped(answer, request.group, MOST_GROUPS)
    if not rows:
        st.caption(f"This evaluation was not told by {request.group}; choose another one above.")
        return
    chart(charts.errors(rows, theme=theme()), key=f"{PAGE} groups", words=f"Errors by {request.group}")
    there = len(answer.get(f"by_{request.group}") or ())
    worst = (
        f" The {len(rows)} worst of {formatting.count(there)}, those of fewer than {scores.FEWEST_ROWS} rows left out."
    )
    st.caption(f"{DOTS}{worst if there > len(rows) else ''}")


def _widths(card: Mapping[str, Any]) -> None:
    table = scores.widths_table(card.get("widths") or {})
    if not table:
        return
    st.subheader("How wide are its intervals?", anchor=False)
    result_table(table, key=f"{PAGE} widths", words="Reach of the intervals by level")
    st.caption(
        "By how far a question lies from what trained, in log units: every row has a difficulty of its own, and its interval "
        "reaches as far as both multiplied; docs/accuracy.md has the mean widths that come of it. Families and devices count as one draw each; where too few of them "
        f"were measured, the interval is {scores.EMPTY_LEVEL}, and answers say so."
    )


def _live(request: Scores, at: int) -> None:
    st.subheader("Live accuracy", anchor=False)
    accuracy = answers.accuracy(request.target, at)
    if not accuracy["scored"]:
        value = accuracy["given"]
        st.info(
            f"{_counted(value, 'prediction')} given out and recorded; no {request.target} of that was measured since."
            if value
            else "No prediction was recorded yet. One that is recorded is scored when its configuration is measured:"
        )
        to_paste("assay predict MODEL --hardware … --platform … --precision … --record")
        return
    drift = accuracy.get("drift") or {}
    show_drift = st.warning if drift.get("flag") else st.caption
    show_drift(escape(str(drift.get("said") or "")))
    overall = accuracy["overall"]
    with st.grid(4, min_column_width=150, key="live"):
        for label, key in LIVE_TILES:
            st.metric(label, formatting.share(overall.get(key)), border=True)
    st.caption(f"{request.target} · n {formatting.count(overall['rows'])} · {_counted(overall['models'], 'model')}")
    rows = scores.grouped(accuracy, request.group, MOST_GROUPS)
    chart(charts.errors(rows, theme=theme()), key=f"{PAGE} live", words=f"Live errors by {request.group}")
    st.caption(DOTS)
    by_basis: Mapping[str, Any] = accuracy.get("by_basis") or {}
    columns = [
        Column(head="Rests on", values=[str(basis) for basis in by_basis]),
        Column(head="Rows", values=[item["rows"] for item in by_basis.values()]),
        scores.shares("Median error", [item["median_ape"] for item in by_basis.values()]),
        scores.shares("80 % held", [item.get("coverage_80") for item in by_basis.values()], scores.TIPS["80 % holds"]),
    ]
    result_table(columns, key=f"{PAGE} bases", words="Live errors by what estimates rest on")


def _counted(number: int, noun: str) -> str:
    return f"{formatting.count(number)} {noun}{'' if number == 1 else 's'}"


def _history(at: int) -> None:
    st.subheader("Training history", anchor=False)
    result_table(scores.history(answers.predictors(at)), key=f"{PAGE} history", words="Predictors, newest first")
    st.caption("`assay train` makes a new one from the log, which answers where it is not worse than the one in force.")


def _knowledge(card: Mapping[str, Any]) -> None:
    covered: Mapping[str, Any] = card.get("coverage") or {}
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Limits", anchor=False)
        st.markdown(
            "\n".join(f"- {escape(str(limit).rstrip('.'))}." for limit in card.get("limits") or ("none are stated",))
        )
    with right:
        st.subheader("What it rests on", anchor=False)
        data = card.get("data") or {}
        lines = [
            f"{formatting.count(covered.get('architectures'))} architectures of {len(covered.get('families') or ())} families",
            f"devices {', '.join(covered.get('hardware') or ()) or formatting.MISSING}",
            *([f"trees fitted on {data['machines']} machines together"] if data.get("machines") else []),
            *(_source(source) for source in data.get("sources") or ()),
        ]
        st.markdown("\n".join(f"- {escape(line)}" for line in lines))


def _source(row: Mapping[str, Any]) -> str:
    counts: Mapping[str, Any] = row.get("measurements") or {}
    taken = (
        f", {formatting.count(counts.get('kept'))} of {formatting.count(counts.get('read'))} rows kept"
        if counts
        else ""
    )
    return f"{row.get('name')} ({row.get('licence') or 'licence not said'}){taken}"


def _downloads(digest: str, rows: Mapping[str, Mapping[str, Any]], at: int, text: str) -> None:
    shade, whole = theme(), answers.card(at)
    name = stem(PAGE, formatting.digest(digest), at)
    footer = f"position {formatting.count(at)} · predictor {formatting.digest(digest)}"
    lines = [{"name": scores.short_title(value), "calibration": scores.calibration(value)} for value in rows.values()]

    def draw() -> Any:
        return charts.calibration(lines, theme=shade, picture=True)

    downloads(
        [
            ("CSV, every score", f"{name}.csv", "text/csv", lambda: _csv(whole(), at)),
            (
                "JSON, the whole card",
                f"{name}.json",
                "application/json",
                lambda: json.dumps(whole(), indent=2).encode(),
            ),
            *picture_files(name, draw, "What intervals promised and held", answer=text, footer=footer),
        ],
        PAGE,
    )


def _csv(card: Mapping[str, Any], at: int) -> bytes:
    return scores.csv_file(scores.in_order(card.get("scores") or {}), at, str(card.get("digest")))
