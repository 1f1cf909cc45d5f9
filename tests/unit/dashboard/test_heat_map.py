"""The heat map: evidence filled, claims hollow and dashed, one column a platform with its share."""

from __future__ import annotations

import json

import msgspec
import pytest
import vl_convert

from dashboard.screens.compatibility.heat_map import CELL, CELL_COLOURS, heat_map
from domain.answers.compatibility import MatrixRow, PlatformTotal
from presentation.charts import chart_files
from presentation.charts.frame import shared

DOCUMENT = [
    {
        "name": "bert", "models": 3, "working": 2,
        "cells": [
            {"platform": "cuda", "state": "verified", "states": {"verified": 2, "error": 1}, "models": 3, "working": 2, "tries": 4, "age_days": 200, "stale": True},
            {"platform": "mps", "state": "claimed", "claimed": "supported"},
        ],
    },
    {"name": "acme/vit", "models": 1, "working": 1, "cells": [{"platform": "cuda", "state": "ran", "models": 1, "working": 1}]},
]  # fmt: skip
ROWS = msgspec.convert(DOCUMENT, list[MatrixRow])
PLATFORMS = [PlatformTotal(platform="mps", models=0, working=0), PlatformTotal(platform="cuda", models=4, working=3)]


def marks(**more):
    """The specification, and the cells by their ids."""
    drawn = heat_map(ROWS, PLATFORMS, **more).to_dict()
    return drawn, {one["id"]: one for one in drawn["layer"][0]["data"]["values"]}


def test_a_claim_is_hollow_and_dashed_and_evidence_is_not():
    _, cells = marks(theme="light")
    claim, seen = cells["bert~mps"], cells["bert~cuda"]
    assert (claim["dashed"], claim["filled"], claim["text"]) == (True, 0.0, "supported")
    assert (seen["dashed"], seen["filled"], seen["text"]) == (False, 1.0, "≠ 2/3")
    assert seen["colour"] == CELL_COLOURS["light"]["part"]
    assert 0 < cells["acme/vit~cuda"]["filled"] < 1
    drawn, _ = marks()
    dashes = [layer["mark"].get("strokeDash") for layer in drawn["layer"] if layer["mark"]["type"] == "rect"]
    assert dashes == [None, [4, 3]]


def test_platforms_stand_in_their_own_order_with_their_share():
    drawn, _ = marks()
    assert drawn["layer"][0]["encoding"]["x"]["scale"]["domain"] == ["cuda|3/4", "mps|claimed", "all"]
    assert drawn["layer"][0]["encoding"]["y"]["scale"]["domain"] == ["bert", "acme/vit"]


def test_a_narrow_column_says_once_how_many_models_where_all_ran():
    drawn, _ = marks()
    totals = drawn["layer"][-1]["data"]["values"]
    assert [(one["text"], one["short"]) for one in totals] == [("2/3", "2/3"), ("1/1", "1")]
    assert [layer["encoding"]["text"]["field"] for layer in drawn["layer"][-2:]] == ["text", "short"]


def test_tooltips_say_what_it_rests_on_and_how_old_that_is():
    _, cells = marks()
    assert cells["bert~cuda"]["rests"] == "3 models · 4 runs · newest 200 d old, stale"
    assert cells["bert~cuda"]["seen"] == "≠ 2 verified, 1 error"
    assert cells["bert~mps"]["rests"] == "nothing seen"


def test_the_open_cell_has_an_edge_of_ink_and_a_click_names_a_cell():
    drawn, cells = marks(selected="bert~cuda", theme="dark")
    assert [name for name, one in cells.items() if one["width"] > 1] == ["bert~cuda"]
    assert [one["name"] for one in drawn["params"]] == [CELL]
    assert "params" not in heat_map(ROWS, PLATFORMS, picture=True).to_dict()


def test_too_many_cells_are_refused():
    many = [msgspec.structs.replace(ROWS[1], name=str(index)) for index in range(600)]
    with pytest.raises(ValueError, match="2000"):
        heat_map(many, PLATFORMS)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_is_drawn(theme):
    assert b"supported" in chart_files.svg(heat_map(ROWS, PLATFORMS, theme=theme, picture=True))


def test_a_page_gets_rows_that_layers_share_once_and_draws_the_same():
    spec = heat_map(ROWS, PLATFORMS, theme="light", picture=True).to_dict()
    told = shared(spec)
    assert [json.dumps(one).count('"acme/vit~cuda"') for one in (spec, told)] == [4, 1]
    assert vl_convert.vegalite_to_png(told) == vl_convert.vegalite_to_png(spec)
