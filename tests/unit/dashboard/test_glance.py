"""All that is known at a glance: freshness, coverage, runs and failures in words."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import msgspec

from assay.client.row_types import Run
from dashboard.address import parameters
from dashboard.screens.overview import view
from dashboard.screens.overview.view import Glance
from presentation import charts, formatting

DAYS = [{"day": "2026-11-20", "configurations": 3}, {"day": "2026-09-30", "configurations": 1},
        {"day": "2024-01-01", "configurations": 6}]  # fmt: skip
CELLS = [
    {"family": "unknown", "platform": "cuda", "measurements": 9000, "configurations": 9, "models": 3, "hardware": 2},
    {"family": "bert", "platform": "cpu", "measurements": 12, "configurations": 5, "models": 3, "hardware": 2},
]
DETAIL_TOOLTIP = {"families": ["unknown", "bert"], "families_total": 2, "cells": CELLS}


def test_freshness_is_a_share_of_all_and_missing_where_nothing_is_known() -> None:
    today = date(2026, 11, 22)
    assert [view.fresh(DAYS, 10, today, span) for span in (30, 90)] == [0.3, 0.4]
    assert view.fresh([], 0, today, 30) is None


def test_what_is_best_covered_is_a_family_that_is_known() -> None:
    words = formatting.plain(view.coverage_sentence(DETAIL_TOOLTIP))
    assert words == "2 of 4 cells have measurements (all families, 2 platforms); most: bert on cpu, 12"
    assert view.families_of(DETAIL_TOOLTIP) == ["bert", "unknown"]
    assert view.platforms_of(CELLS) == ["cpu", "cuda"]


def test_an_empty_cell_is_an_outline_and_never_zero() -> None:
    drawn = charts.coverage(
        CELLS, view.families_of(DETAIL_TOOLTIP), ["cpu", "cuda"], theme="dark", picture=True
    ).to_dict()
    cells = {(one["family"], one["platform"]): one for one in drawn["data"]["values"]}
    assert (cells["bert", "cuda"]["words"], cells["bert", "cuda"]["filled"]) == ("", 0)
    assert cells["unknown", "cuda"]["words"] == "9.00k"
    assert cells["bert", "cpu"]["fill"] != cells["unknown", "cuda"]["fill"]


def ran(**more: Any) -> Run:
    row = {
        "run_id": "r 1", "started_at": None, "recorded_at": "2026-11-22T10:00:00Z", "hardware": [{"id": "h"}], "source": "s",
        "outcome": None, "rows": 0, "rows_failed": 0, "rows_tested": 0, "models": 0,
        "position": 1, "event_id": "e-1", **more,
    }  # fmt: skip
    return msgspec.convert(row, Run)


def test_a_run_is_live_for_a_day_and_then_was_left_behind() -> None:
    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert view.is_live(ran(), noon)
    assert not view.is_live(ran(started_at="2026-11-20T10:00:00Z"), noon)
    assert not view.is_live(ran(outcome="completed"), noon)


def test_a_run_has_the_words_and_figures_that_it_has_on_the_page_of_runs() -> None:
    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)
    began = ran(started_at="2026-11-21T09:00:00Z", kind="bench", outcome="completed", rows=3, measured=5)
    table = view.run_table([ran(), began, ran(retracted_because="wrong")], noon, None)
    assert table["State"].tolist() == ["never ended", "completed", "retracted"]
    assert table["Started"].tolist()[:2] == ["came 22 Nov 2026 10:00 UTC", "21 Nov 2026 09:00 UTC"]
    assert (table["Run"][1], table["Rows"][1], table["Open"][1]) == ("bench on h", 3, "runs?run=r%201")


def test_failures_lead_to_their_newest() -> None:
    row = {"failures": 4, "platform": "cpu", "stage": "first_run", "error": "E", "models": 2, "message": "", "remedy": "try",
           "evidence": "e9"}  # fmt: skip
    table = view.failing_table([row])
    assert (table["At"][0], table["Newest"][0], table["To try"][0]) == ("first run", "runs?row=e9", "try")
    assert "Newest says" not in table


def test_the_overview_is_its_address() -> None:
    asked = Glance(days="30", as_of=7)
    assert view.read_glance(parameters(asked, everything=True)).asked == asked
    assert "must be one of 1, 7, 30" in view.read_glance({"days": ["9"]}).dropped[0]
