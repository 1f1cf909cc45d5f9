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
from dashboard.tables.result_table import Column
from domain.answers.run import MeasuredRow, TriedRow
from domain.measured import Latency
from presentation import formatting

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


def test_a_run_of_a_page_says_that_nobody_has_accepted_it() -> None:
    assert "not accepted" in words.heading(run(origin="page"))
    assert "accepted" not in words.heading(run(origin="imported"))


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


def cells(columns: list[Column]) -> dict[str, list[str]]:
    """The words of each column by its head, as the reader sees them."""
    said = {column.head: column.shown or [str(value) for value in column.values] for column in columns}
    return {head: [formatting.plain(words) for words in shown] for head, shown in said.items()}


def test_a_list_has_a_bar_of_verdicts_and_sorts_by_raw_values() -> None:
    nothing = {"rows_valid": 0, "rows_suspect": 0, "rows_invalid": 0, "rows_failed": 0}
    made = [run(), run(run_id="run 2", rows=0, **nothing)]
    columns = {column.head: column for column in words.listed(made, NOW, None)}
    bars = columns["Verdicts"]
    assert bars.parts is not None and bars.shown is not None and columns["Run"].links is not None
    assert bars.parts[0] == {"valid": 92, "suspect": 7, "invalid": 1, "unjudged": 0}
    assert (bars.values, bars.shown) == ([0.08, None], ["92 ✓ · 7 ⚠ · 1 ✕", "—"])
    assert list(columns["Run"].links) == ["runs?run=run-1", "runs?run=run%202"]
    assert columns["Took"].values == [500, 500]
    assert cells(list(columns.values()))["Took"] == ["8 min 20 s"] * 2
    assert "State" not in columns
    assert columns["Failed"].values == [2, None]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"rows": 0, "rows_valid": 0, "rows_suspect": 0, "rows_invalid": 0, "rows_tested": 6, "tests_passed": 5}, "5/6 tests passed"),
        ({"rows": 0, "rows_valid": 0, "rows_suspect": 0, "rows_invalid": 0, "kernels": 116}, "116 kernels"),
        ({"rows_valid": 0, "rows_suspect": 51, "rows_invalid": 0, "rows_unjudged": 49}, "51 ⚠ · 49 ·"),
        ({"retracted_because": "x"}, "retracted"),
    ],
)  # fmt: skip
def test_the_verdicts_of_a_run_are_written(more: dict[str, Any], told: str) -> None:
    assert cells(words.listed([run(**more)], NOW, None))["Verdicts"] == [told]


def test_an_import_is_of_its_day_and_one_without_a_date_says_when_it_came() -> None:
    imported = run(kind="import", started_at="2022-07-19T00:00:00Z", finished_at="2022-07-19T00:00:00Z")
    undated = run(started_at=None, outcome=None, last_at="2026-11-22T11:00:00Z")
    told = cells(words.listed([imported, undated], NOW, ZoneInfo("America/New_York")))
    assert told["Started, EST"] == ["2022-07-19", "added 2026-11-22"]
    assert cells(words.listed([run()], NOW, ZoneInfo("America/New_York")))["Started, EST"] == ["2026-11-22 06:50"]
    assert told["State"] == ["completed", "never ended"]
    assert "Took" not in told


FULL = {
    "event_id": "e-1", "model_id": "acme/tiny", "hardware_id": "acme-one", "platform": "cpu", "precision": "fp32", "batch_size": 8,
    "latency_p50_ms": 1.2, "latency_p50_ci95_low_ms": 1.19, "latency_p50_ci95_high_ms": 1.21, "latency_n": 61,
    "verdict": "suspect", "verdict_reasons": ["drifting: the second half is +9.1% of the first", "bimodal"],
    "throughput_per_s": 6612.0, "peak_memory_bytes": 500_000_000,
}  # fmt: skip
BARE = {
    "event_id": "e-2", "model_id": "acme/tiny", "hardware_id": "acme-one", "platform": "cpu", "latency_mean_ms": 2.0,
}  # fmt: skip


def test_rows_are_a_table_with_the_doubtful_first_and_their_reasons_whole() -> None:
    valid = {**FULL, "event_id": "e-3", "verdict": "valid", "verdict_reasons": None}
    columns = words.measured(msgspec.convert([valid, BARE, FULL], list[MeasuredRow]))
    told = cells(columns)
    assert told["Verdict"] == ["⚠ suspect", "· no verdict", "✓ valid"]
    assert told["Why"][0] == "drifting: the second half is +9.1% of the first; bimodal"
    assert told["Latency"] == ["1.20 ms (1.19–1.21)", "2.00 ms (mean)", "1.20 ms (1.19–1.21)"]
    assert told["Peak memory, MB"][:2] == ["500", "—"]
    by_head = {column.head: column for column in columns}
    assert by_head["Latency"].values == [1.2, 2.0, 1.2]
    assert by_head["Latency"].low == [1.19, None, 1.19]
    assert by_head["Model"].links == ["runs?row=e-1", "runs?row=e-2", "runs?row=e-3"]
    assert "Hardware" not in told
    assert words.latency(Latency(p99=3.0, p90=2.0)) == "2.00\u202fms (p90)"
    assert words.latency(Latency()) == "—"


@pytest.mark.parametrize(
    ("reasons", "told", "command"),
    [
        (["throttled: the same loop ran at 85% of its speed after the series"],
         "1 row is doubtful. Measure them again on an idle, cool machine:",
         "assay bench acme/tiny --platform cpu --precision fp32 --batch-sizes 8"),
        (["3 samples; 6 are the fewest that bound a median"], "1 row is doubtful. Measure them again for longer:",
         "assay bench acme/tiny --platform cpu --precision fp32 --batch-sizes 8 --budget 8"),
    ],
)  # fmt: skip
def test_a_run_with_doubtful_rows_names_the_command_that_measures_them_again(
    reasons: list[str], told: str, command: str
) -> None:
    row = msgspec.convert({**FULL, "verdict_reasons": reasons}, MeasuredRow)
    mends = words.mending(run(plan={"method": {"budget_s": 2.0}}), [row], [], NOW)
    assert mends == (told, command)


def test_what_mends_a_run_is_what_is_wrong_with_it() -> None:
    row = msgspec.convert(FULL, MeasuredRow)
    assert words.mending(run(), [], [], NOW) is None
    assert words.mending(run(outcome=None), [row], [], NOW) is None, "it is still running"
    left = words.mending(run(outcome=None, last_at="2026-11-22T10:00:00Z"), [row], [], NOW)
    assert left is not None and left.command == "assay spool send"
    failure = msgspec.convert({**BARE, "outcome": "out_of_memory", "stage": "build", "remedy": "Use less."}, TriedRow)
    failed = words.mending(run(), [row], [failure], NOW)
    assert failed == ("2 failed. Use less.", "assay bench acme/tiny --platform cpu --precision fp32")
    refused = words.mending(run(kind="import", failed=5, rows_failed=0, reference="mlperf/v 5.csv@abc"), [row], [], NOW)
    assert refused is not None
    assert refused.command == "assay import auto 'v 5.csv' --rejects refused.ndjson"
    assert words.mending(run(kind="import", rows_failed=0), [row], [], NOW) is None


def test_failures_say_how_far_they_came_and_what_to_try() -> None:
    row = {
        "event_id": "e-1", "model_id": "acme/tiny", "hardware_id": "acme-one", "platform": "cuda", "outcome": "out_of_memory", "stage": "first_run",
        "message": "no room\nat all", "remedy": "Use a smaller batch.",
    }  # fmt: skip
    told = cells(words.failures([msgspec.convert(row, TriedRow)]))
    assert (told["Outcome"], told["Stage"], told["Message"]) == (["out of memory"], ["first run"], ["no room"])
    assert told["What to try"] == ["Use a smaller batch."]


def test_an_environment_shows_what_it_was_before_where_that_changed() -> None:
    libraries = {"torch": "2.13.0", "onnx": "1.0"}
    now = Environment(fingerprint="f-1", driver="2.0", os="Linux", memory_bytes=25_000_000_000, libraries=libraries)
    table = cells(words.environment(now, {"driver": ("1.0", "2.0"), "onnx": (None, "1.0"), "nncf": ("3.0", None)}))
    told = dict(zip(table["What"], zip(table["This run"], table["The run before"], strict=True), strict=True))
    assert told == {
        "Driver": ("2.0", "1.0"), "Operating system": ("Linux", "the same"), "Memory": ("25.0 GB", "the same"),
        "torch": ("2.13.0", "the same"), "onnx": ("1.0", "—"), "nncf": ("—", "3.0"),
    }  # fmt: skip


def test_an_environment_without_a_run_before_says_nothing_of_one() -> None:
    table = cells(words.environment(Environment(fingerprint="f-1", driver="2.0"), None))
    assert table == {"What": ["Driver"], "This run": ["2.0"]}


def test_a_run_that_was_heard_of_lately_is_running() -> None:
    made = run(outcome=None, last_at=(NOW - timedelta(minutes=1)).isoformat())
    assert words.standing(made, NOW) == "is running"
    assert words.standing(made, NOW + timedelta(hours=1)) == "never ended"
