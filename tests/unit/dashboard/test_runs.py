"""Runs in words and rows: what an address asks, how a run stands, and what a list and one run show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from assay.client.row_types import Environment, Run
from dashboard.address import parameters
from dashboard.screens.runs import words
from dashboard.screens.runs.query import RunPage
from dashboard.screens.runs.words import Runs, read_runs
from dashboard.service import SentRows
from domain.answers.run import MeasuredRow, TriedRow
from domain.measured import Latency

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
ROW = "01a2021c-5247-7713-8e24-f7cecbfcdeb2"


def run(**more: Any) -> Run:
    known = {
        "run_id": "run-1", "kind": "bench", "outcome": "completed", "planned": 208, "started_at": "2026-11-22T11:50:00Z",
        "finished_at": "2026-11-22T11:58:20Z", "recorded_at": "2026-11-22T11:50:00Z", "last_at": "2026-11-22T11:59:00Z",
        "source": "assay-runner/0.1", "hardware": [{"id": "acme-one"}], "hardware_ids": ["acme-one"], "devices": 1,
        "rows": 100, "rows_valid": 92, "rows_suspect": 7, "rows_invalid": 1, "rows_unjudged": 0, "rows_failed": 2,
        "rows_tested": 0, "rows_retracted": 0, "models": 3, "platforms": ["cpu"], "retracted_because": None,
        "position": 1, "event_id": ROW,
    }  # fmt: skip
    return msgspec.convert({**known, **more}, Run)


def test_an_address_is_read_and_written_back() -> None:
    asked = Runs(run="run-1", row=ROW, tab="rows", hw="acme-one", outcome="unfinished", as_of=7)
    read = read_runs(parameters(asked))
    assert (read.asked, read.dropped) == (asked, [])


def test_what_is_not_understood_in_an_address_is_named() -> None:
    read = read_runs({"row": ["17"], "tab": ["moon"], "colour": ["red"], "run": ["run-1"]})
    assert read.asked == Runs(run="run-1")
    assert read.dropped == [
        "row=17 was left out: it must be the id of an event",
        "tab=moon was left out: it must be one of row, rows, failures, tests, environment",
        "colour is not a parameter of this page",
    ]


def test_the_service_is_asked_for_what_the_address_says() -> None:
    asked = words.asked_of_list(Runs(hw="acme-one", cursor="abc"), 15)
    assert asked == {
        "kind": None,
        "origin": None,
        "hardware": "acme-one",
        "outcome": None,
        "cursor": "abc",
        "limit": 15,
    }


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "Bench on acme-one completed: 102 of 208 configurations, 2 failed; 92 valid, 7 suspect, 1 invalid"),
        ({"outcome": None, "finished_at": None}, "Bench on acme-one is running: "),
        ({"outcome": None, "last_at": "2026-11-22T11:30:00Z"}, "Bench on acme-one never ended: "),
        ({"retracted_because": "wrong clock", "rows": 0, "rows_retracted": 102, "rows_failed": 0},
         "Bench on acme-one was retracted: 102 of 208 configurations, 102 taken back"),
        ({"kind": "import", "provenance_source": "MLPerf", "planned": None, "rows_failed": 0, "devices": 12},
         "Import of MLPerf completed: 100 rows; 92 valid"),
        ({"kind": "import", "provenance_source": "MLPerf", "reference": "mlperf/v5.csv", "planned": None, "rows_failed": 0},
         "Import of MLPerf, v5.csv completed: 100 rows; 92 valid"),
        ({"kind": "import", "provenance_source": "timm a.csv", "reference": "timm/a.csv@5e7d", "planned": None, "rows_failed": 0},
         "Import of timm a.csv completed: "),
        ({"kind": "verify", "rows": 0, "rows_failed": 0, "rows_tested": 5, "tests_passed": 4, "planned": None},
         "Verify on acme-one completed: 5 rows, 4 of 5 tests passed"),
    ],
)  # fmt: skip
def test_a_run_is_said_in_a_sentence(more: dict[str, Any], told: str) -> None:
    assert words.sentence(run(**more), NOW).startswith(told)


def test_a_list_says_how_many_and_how_the_newest_stands() -> None:
    page = RunPage(runs=SentRows(items=[run()], sent=[]), total=49, first=1, choices={})
    assert (
        words.finding(page, NOW)
        == "49 runs; the newest, bench on acme-one, completed: 102 of 208 configurations, 2 failed"
    )
    assert words.finding(msgspec.structs.replace(page, first=16), NOW) == "Runs 16–16 of 49"


def test_the_picture_has_the_shares_and_the_table_the_figures() -> None:
    made = [run(), run(run_id="run-2", rows=0, rows_valid=0, rows_suspect=0, rows_invalid=0, rows_failed=0)]
    first, second = words.mix(made, NOW, None)
    assert first.counts == {"valid": 92, "suspect": 7, "invalid": 1, "unjudged": 0}
    assert first.text == "92 ✓ · 7 ⚠ · 1 ✕ · 2 failed"
    assert first.label == "22 Nov 2026 11:50 UTC · bench on acme-one"
    assert first.brief == "92.0\u202f% ✓"
    assert (second.text, second.brief) == ("no rows", "no rows")
    tested = run(rows=0, rows_valid=0, rows_suspect=0, rows_invalid=0, rows_failed=0, rows_tested=6, tests_passed=5)
    assert words.mix([tested], NOW, None)[0].brief == words.mix([tested], NOW, None)[0].text == "5/6 tests passed"
    doubted = run(rows_valid=0, rows_suspect=51, rows_invalid=0, rows_unjudged=49)
    assert words.mix([doubted], NOW, None)[0].brief == "51.0\u202f% ⚠"
    assert words.mix([run(retracted_because="x")], NOW, None)[0].text == "retracted"
    table = words.listed(made, NOW, None)
    assert list(table["Valid"]) == [92, 0]
    assert list(table["Took"]) == ["8\u202fmin 20\u202fs"] * 2
    assert list(table["State"]) == ["completed", "completed"]
    imported = run(kind="import", started_at="2022-07-19T00:00:00Z", finished_at="2022-07-19T00:00:00Z")
    told = words.listed([imported, run(started_at=None)], NOW, ZoneInfo("America/New_York"))
    assert list(told["Started"]) == ["19 Jul 2022", "came 22 Nov 2026 06:50 EST"]
    assert list(told["Took"]) == ["—", "—"]


def test_rows_are_a_table_that_says_what_is_missing() -> None:
    full = {
        "event_id": "e-1", "model_id": "acme/tiny", "hardware_id": "acme-one", "platform": "cpu", "precision": "fp32", "batch_size": 8,
        "latency_p50_ms": 1.2, "latency_p50_ci95_low_ms": 1.19, "latency_p50_ci95_high_ms": 1.21, "latency_n": 61,
        "verdict": "suspect", "verdict_reasons": ["bimodal"], "throughput_per_s": 6612.0, "peak_memory_bytes": 500_000_000,
    }  # fmt: skip
    less = {
        "event_id": "e-2",
        "model_id": "acme/tiny",
        "hardware_id": "acme-one",
        "platform": "cpu",
        "latency_mean_ms": 2.0,
    }
    row, bare = msgspec.convert([full, less], list[MeasuredRow])
    table = words.measured([row, bare]).to_dict("records")
    assert table[0]["Latency p50 (95 % CI)"] == "1.20\u202fms (1.19–1.21)"
    assert (table[0]["Verdict"], table[0]["Why"], table[0]["Peak memory MB"]) == ("⚠ suspect", "bimodal", "500")
    assert table[1]["Latency p50 (95 % CI)"] == "2.00\u202fms (mean)"
    assert (table[1]["Verdict"], table[1]["Throughput"], table[1]["Precision"]) == ("· no verdict", "—", "—")
    assert words.latency(Latency(p99=3.0, p90=2.0)) == "2.00\u202fms (p90)"
    assert words.latency(Latency()) == "—"
    assert words.named(row) == "tiny · cpu · fp32 · batch 8"


def test_failures_say_how_far_they_came_and_what_to_try() -> None:
    row = {
        "event_id": "e-1", "model_id": "acme/tiny", "hardware_id": "acme-one", "platform": "cuda", "outcome": "out_of_memory", "stage": "first_run",
        "message": "no room\nat all", "remedy": "Use a smaller batch.",
    }  # fmt: skip
    (told,) = words.failures([msgspec.convert(row, TriedRow)]).to_dict("records")
    assert (told["Outcome"], told["Stage"], told["Message"]) == ("out of memory", "first run", "no room")
    assert told["What to try"] == "Use a smaller batch."


def test_an_environment_shows_what_it_was_before_where_that_changed() -> None:
    libraries = {"torch": "2.13.0", "onnx": "1.0"}
    now = Environment(fingerprint="f-1", driver="2.0", os="Linux", memory_bytes=25_000_000_000, libraries=libraries)
    table = words.environment(now, {"driver": ("1.0", "2.0"), "onnx": (None, "1.0"), "nncf": ("3.0", None)})
    told = {row["What"]: (row["This run"], row["The run before"]) for row in table.to_dict("records")}
    assert told == {
        "Driver": ("2.0", "1.0"), "Operating system": ("Linux", "the same"), "Memory": ("25.0\u202fGB", "the same"),
        "torch": ("2.13.0", "the same"), "onnx": ("1.0", "—"), "nncf": ("—", "3.0"),
    }  # fmt: skip


def test_a_run_that_was_heard_of_lately_is_running() -> None:
    made = run(outcome=None, last_at=(NOW - timedelta(minutes=1)).isoformat())
    assert words.standing(made, NOW) == "is running"
    assert words.standing(made, NOW + timedelta(hours=1)) == "never ended"
