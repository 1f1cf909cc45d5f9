"""All that is known at a glance: freshness, coverage, runs and failures in words."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import msgspec

from assay.client.row_types import Run
from dashboard import regressions
from dashboard.address import parameters
from dashboard.screens.overview import words
from dashboard.screens.overview.words import Glance
from presentation import charts, formatting
from presentation.charts.interval_chart import intervals

DAYS = [{"day": "2026-11-20", "configurations": 3}, {"day": "2026-09-30", "configurations": 1},
        {"day": "2024-01-01", "configurations": 6}]  # fmt: skip
CELLS = [
    {"family": "unknown", "platform": "cuda", "measurements": 9000, "configurations": 9, "models": 3, "hardware": 2},
    {"family": "bert", "platform": "cpu", "measurements": 12, "configurations": 5, "models": 3, "hardware": 2},
]
DETAIL_TOOLTIP = {"families": ["unknown", "bert"], "families_total": 2, "cells": CELLS}


def test_freshness_is_a_share_of_all_and_missing_where_nothing_is_known() -> None:
    today = date(2026, 11, 22)
    assert [words.fresh(DAYS, 10, today, span) for span in (30, 90)] == [0.3, 0.4]
    assert words.fresh([], 0, today, 30) is None


def test_what_is_best_covered_is_a_family_that_is_known() -> None:
    said = formatting.plain(words.coverage_sentence(DETAIL_TOOLTIP))
    assert said == "2 of 4 cells have measurements (all families, 2 platforms); most: bert on cpu, 12"
    assert words.families_of(DETAIL_TOOLTIP) == ["bert", "unknown"]
    assert words.platforms_of(CELLS) == ["cpu", "cuda"]


def test_an_empty_cell_is_an_outline_and_never_zero() -> None:
    drawn = charts.coverage(
        CELLS, words.families_of(DETAIL_TOOLTIP), ["cpu", "cuda"], theme="dark", picture=True
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
    assert words.is_live(ran(), noon)
    assert not words.is_live(ran(started_at="2026-11-20T10:00:00Z"), noon)
    assert not words.is_live(ran(outcome="completed"), noon)


def test_failures_lead_to_their_newest() -> None:
    row = {"failures": 4, "platform": "cpu", "stage": "first_run", "error": "E", "models": 2, "message": "", "remedy": "try",
           "evidence": "e9"}  # fmt: skip
    table = {column.head: column for column in words.failing_table([row])}
    assert (table["At"].values, table["Error"].links, table["To try"].values) == (
        ["first run"],
        ["runs?row=e9"],
        ["try"],
    )
    assert "Newest says" not in table


def test_imports_are_one_line_by_their_sources() -> None:
    of = {"kind": "import", "outcome": "completed"}
    newest = [ran(provenance_source=f"timm results file-{at}.csv", **of) for at in range(2)]
    newest.append(ran(provenance_source="MLPerf", **of))
    assert words.imports_words(54, newest) == "54 imports, the newest from timm results; MLPerf"


def test_what_is_stale_leads_to_where_it_is_seen() -> None:
    assert formatting.plain(words.stale_words(0.749)).startswith(
        "25.1 % of configurations have nothing newer than 90 days: [see them](/compat"
    )
    assert words.stale_words(1.0) == words.stale_words(None) == ""


def change(**more: Any) -> dict[str, Any]:
    figure = {"value": 5.0, "low": 4.9, "high": 5.1}
    row = {"title": "tiny · cpu", "column": "latency_p50_ms", "state": "worse", "change": 0.3, "low": 0.25, "high": 0.35,
           "before": figure, "after": figure, "model": "acme/tiny", "hardware": "h", "platform": "cpu", "run_id": "run-9",
           "time": None}  # fmt: skip
    return row | more


def test_what_got_worse_is_drawn_in_the_worse_direction() -> None:
    halved = change(column="throughput_per_s", change=-0.5, low=-0.6, high=-0.2)
    longer, lower = regressions.dots([change(), halved])
    assert (longer["worse_by"], longer["worse_by_low"], longer["worse_by_high"]) == (0.3, 0.25, 0.35)
    assert (lower["worse_by"], round(lower["worse_by_low"], 3), round(lower["worse_by_high"], 3)) == (1.0, 0.25, 1.5)
    assert lower["named"] == "tiny · cpu · throughput"
    drawn = intervals([longer, lower], regressions.WORSE_BY, beside=0.0).to_dict()
    assert drawn["layer"][0]["data"]["values"] == [{"value": 0.0}]
    texts = [formatting.plain(line["text"]) for line in drawn["layer"][1]["data"]["values"]]
    assert texts == ["30 % (25–35)", "100 % (20–150)"] or texts[0] == "30 % (25–35)"


def test_what_got_worse_is_listed_by_the_size_of_the_change_with_its_history_and_run() -> None:
    turn = {"title": "small · cpu", "state": "worse", "before": "passed", "after": "failed", "message": "", "test": "outputs",
            "model": "acme/small", "hardware": "h", "platform": "cpu", "run_id": "run-9", "time": None}  # fmt: skip
    result = {"changes": [change()], "turns": [turn, {**turn, "state": "better"}]}
    columns = {column.head: column for column in regressions.columns(result, None)}
    assert columns["Change"].values == [0.3, None]
    assert [formatting.plain(words) for words in columns["Change"].shown or []] == [
        "▼ 30 % longer (25–35 %)",
        "▼ no longer passes",
    ]
    assert columns["Configuration"].links == [
        "trends?model=acme/tiny&hw=h&platform=cpu", "trends?model=acme/small&hw=h&platform=cpu",
    ]  # fmt: skip
    assert columns["Run"].links == ["runs?run=run-9"] * 2
    assert formatting.plain(regressions.worst(result)) == "tiny · cpu, latency 30 % longer (25–35 %)"


def test_the_overview_is_its_address() -> None:
    asked = Glance(days="30", as_of=7)
    assert words.read_glance(parameters(asked, everything=True)).asked == asked
    assert "must be one of 1, 7, 30" in words.read_glance({"days": ["9"]}).dropped[0]
