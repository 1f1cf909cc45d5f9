"""Cells of the matrix: their address, their class, what stands in them and what is said of them."""

from __future__ import annotations

import msgspec
import pytest

from dashboard.address import parameters
from dashboard.screens.compatibility import words
from dashboard.screens.compatibility.words import Matrix, cell_text, class_of, read_matrix, request
from domain.answers.compatibility import CellCase, CompatibilityMatrix, MatrixCell, MatrixRow
from domain.compatibility.states import STATES


def of(**states):
    names = {name.replace("_", " "): count for name, count in states.items()}
    working = names.get("verified", 0) + names.get("ran", 0)
    return {"state": next(iter(names)), "states": names, "models": sum(names.values()), "working": working}


def row(name, *found):
    document = {"name": name, "family": name, "category": "vision", "cells": list(found), "models": 0, "working": 0}
    return msgspec.convert(document, MatrixRow)


def cell_of(document):
    return msgspec.convert({"platform": "cuda", **document}, MatrixCell)


def answer(total, *platforms):
    return msgspec.convert({"items": [], "total": total, "platforms": platforms, "cells": {}}, CompatibilityMatrix)


def test_an_address_is_read_back_as_it_was_written():
    asked = Matrix(
        level="model", family="bert", category="vision", hw="h", platform=("cpu", "cuda"), state=("out of memory", "error"),
        stale="yes", claims=True, page=3, sel="a/b~cuda", as_of=7,
    )  # fmt: skip
    read = read_matrix(parameters(asked))
    assert (read.asked, read.dropped) == (asked, [])
    assert parameters(Matrix()) == {}


@pytest.mark.parametrize(
    ("given", "word"),
    [({"level": ["planet"]}, "family, model"), ({"sel": ["bert"]}, "~"), ({"state": ["sad"]}, "verified"), ({"page": ["0"]}, "above zero")],
)  # fmt: skip
def test_what_is_not_understood_is_named(given, word):
    read = read_matrix(given)
    assert read.asked == Matrix()
    assert word in read.dropped[0]


def test_a_request_has_the_words_of_the_api_and_nothing_empty():
    assert request(Matrix()) == {"level": "family", "claims": False, "offset": 0, "limit": words.PAGE_ROWS}
    asked = request(Matrix(state=("error",), stale="no", page=3, hw="h"))
    assert asked["seen"] == ["error"]
    assert asked["stale"] is False
    assert (asked["hardware"], asked["offset"]) == ("h", 2 * words.PAGE_ROWS)


@pytest.mark.parametrize(
    ("cell", "kind", "text"),
    [
        (of(verified=3), "right", "✓ 3/3"),
        (of(verified=2, ran=1), "ran", "○ 3/3"),
        (of(ran=2, error=1), "part", "≠ 2/3"),
        (of(wrong=2), "part", "≠ 0/2"),
        (of(error=1, unsupported=1), "failed", "✕ 0/2"),
        (of(unsupported=2), "unsupported", "⊘ 0/2"),
        ({"state": "verified", "speedup": 2.1}, "right", "✓ ×\u202f2.10"),
        ({"state": "out of memory"}, "failed", "M"),
        ({"state": "fell back"}, "part", "↘"),
        ({"state": "claimed", "claimed": "high; 3 s"}, "claimed", "high"),
    ],
)
def test_a_cell_says_its_class_and_how_many(cell, kind, text):
    assert (class_of(cell_of(cell)), cell_text(cell_of(cell))) == (kind, text)


def test_every_state_has_a_class():
    for state in STATES:
        assert class_of(cell_of({"state": state})) in words.CLASSES


def test_the_sentence_counts_what_did_not_run_and_names_where():
    platforms = [{"platform": "cpu", "models": 4, "working": 3}, {"platform": "mps", "models": 4, "working": 1}]
    said = words.sentence(answer(2, *platforms))
    assert said == "4 of 8 pairs of model and platform did not work: 3 on mps, 1 on cpu."
    ran = words.sentence(answer(2, {"platform": "cpu", "models": 4, "working": 4}))
    assert ran == "All 4 pairs of model and platform work."
    assert "nobody tried" in words.sentence(answer(1, {"platform": "mps", "models": 0, "working": 0}))


def test_the_table_has_a_line_a_cell_and_nothing_where_nobody_tried():
    seen = {"platform": "cpu", **of(verified=1), "tries": 2, "age_days": 300, "stale": True, "level": "high"}
    claimed = {"platform": "mps", "state": "claimed", "claimed": "low"}
    columns = {column.head: column for column in words.known_columns([row("bert", seen, claimed)], Matrix(hw="h"))}
    assert columns["Platform"].values == ["cpu", "mps"]
    assert columns["Seen"].values == ["✓ verified", None]
    assert columns["Ran"].values == [1, None] and columns["Tried"].values == [1, None]
    assert (columns["Age days"].values[0], columns["Age days"].shown[0]) == (300, "300 · stale")
    assert columns["Documents claim"].values == [None, "low"]
    assert columns["Name"].links[0] == "compatibility?hw=h&sel=bert~cpu"
    wide = words.wide([row("bert", seen)], ["cpu", "cuda"])
    assert wide == [{"name": "bert", "category": "vision", "family": "bert", "cpu": "verified", "cuda": None}]


def test_failures_come_worst_first_and_whole():
    long = "no kernel " + "x" * 500
    cells = [
        {"platform": "cuda", "state": state, "stopped": why}
        for state, why in (("fell back", "fell back"), ("error", long))
    ]
    columns = {
        column.head: column
        for column in words.failing_columns([row("bert", *cells, {"platform": "cpu", "state": "ran"})], Matrix())
    }
    assert columns["What happened"].values == ["error", "fell back"]
    assert columns["What stopped it"].values == [long, None], "a reason is not cut, and not said twice"
    assert words.failing(Matrix(family="bert", page=3))["seen"] == list(words.DID_NOT)
    assert words.failing(Matrix(state=("error",)))["seen"] == ["error"]


def test_every_state_that_did_not_work_has_its_place_among_failures():
    for state in words.DID_NOT:
        assert words.failing_columns([row("bert", {"platform": "cpu", "state": state})], Matrix())[0].values == ["bert"]


def test_outcomes_begin_with_what_stopped_and_stages_count_every_case():
    base = {"platform": "cuda", "precision": "fp32", "measurements": 1, "tests": 0, "failures": 0, "last_seen": None}
    found = [
        {**base, "model_id": "a", "state": "verified", "evidence_ids": ["one"]},
        {**base, "model_id": "b", "state": "error", "stopped_stage": "convert", "stopped_message": "no rule\nmore", "evidence_ids": ["two"]},
        {**base, "model_id": "c", "state": "unavailable", "stopped_stage": "resolve", "evidence": "three"},
    ]  # fmt: skip
    cells = msgspec.convert(found, list[CellCase])
    lines = words.outcomes(cells).to_dict("records")
    assert [line["Model"] for line in lines] == ["b", "c", "a"]
    assert (lines[0]["Stopped at"], lines[0]["Error"], lines[0]["Evidence"]) == ("convert", "no rule", "two")
    assert lines[1]["Evidence"] == "three"
    assert words.stages(cells) == [("resolve", 1, "1 unavailable"), ("convert", 1, "1 error"), ("came through", 1, "")]


def test_a_cell_is_found_by_its_name():
    rows = [row("a/b", {"platform": "cpu", "state": "ran"})]
    assert words.known_cell(rows, "a/b~cpu") == (rows[0], rows[0].cells[0])
    assert words.known_cell(rows, "a/b~cuda") is None


def test_an_open_cell_is_asked_for_alone_on_whatever_page_it_is():
    assert words.alone(Matrix(sel="clip (vision)~cpu"))["family"] == "clip"
    asked = Matrix(level="model", page=4, state=("error",), hw="h", sel="acme/tiny~cpu")
    assert words.alone(asked) == {
        "level": "model", "model": "acme/tiny", "hardware": "h", "claims": False, "offset": 0, "limit": words.PAGE_ROWS,
    }  # fmt: skip


def test_what_did_not_work_can_be_chosen():
    ran, not_all = ({"platform": "cpu", "working": working, "models": 2} for working in (2, 1))
    assert not words.some_did_not(answer(1, ran))
    assert words.some_did_not(answer(1, ran, not_all))
    assert set(words.DID_NOT) == {"fell back", "wrong", "out of memory", "timeout", "error", "unsupported"}
