from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dashboard import differences, launch, ranking
from dashboard.address import Comparison
from dashboard.frame import escape
from dashboard.screens.compare import words as comparison
from dashboard.screens.recommend import table
from dashboard.tables.result_table import Column
from domain.answers import AtHand, Front, FrontOption, LeftOut, RankedOption, Recommendation, Rung, Workload
from presentation import formatting
from presentation.answer_words import PriceUnit
from presentation.charts import COST, LATENCY, THROUGHPUT, Metric, name_of

CALLS = PriceUnit("M calls", 1.0)


def row(
    rank: int | None, value: float | None, low: float | None = None, high: float | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "rank": rank, "hardware": "h", "platform": "cpu", "precision": "fp32", "batch_size": 1, "basis": "measured",
        "latency_ms": value, "latency_ms_low": low, "latency_ms_high": high, "throughput_per_s": None,
        "peak_memory_bytes": None, **more,
    }  # fmt: skip


def test_rows_that_cannot_be_told_apart_share_their_ranks() -> None:
    rows = [row(1, 1.0), row(2, 1.1, tied_with=1), row(3, 1.25, tied_with=None), row(4, 9.0)]
    banded = ranking.banded([ranking.completed(one) for one in rows])
    assert [found["rank_band"] for found in banded] == ["1–2", "1–2", "3", "4"]
    assert "1–2" in (ranking.tie_sentence(banded) or "")
    assert ranking.tie_sentence(banded[2:]) is None


def test_a_band_of_ranks_is_of_intervals_that_overlap() -> None:
    rows = [row(1, 1.0, 0.9, 1.2), row(2, 1.1, 1.0, 1.3, tied_with=1), row(3, 2.0, 1.9, 2.1, tied_with=1)]
    assert [found["rank_band"] for found in ranking.banded(rows)] == ["1–2", "1–2", "3"]
    cheap = [ranking.completed({**one, "unit_usd": cost}) for one, cost in zip(rows, (1.0, 5.0, 9.0), strict=True)]
    price = ranking.price_metric(PriceUnit("/ M calls", 1.0))
    assert [found["rank_band"] for found in ranking.banded(cheap, price)] == ["1", "2", "3"]


def test_throughput_has_the_interval_of_its_latency_turned_round() -> None:
    found = ranking.completed(row(1, 10.0, 8.0, 20.0, throughput_per_s=100.0))
    assert (found["throughput_per_s_low"], found["throughput_per_s_high"]) == (50.0, 125.0)
    assert "throughput_per_s_low" not in ranking.completed(row(1, 10.0, None, None, throughput_per_s=100.0))


def test_cost_has_the_interval_of_its_latency() -> None:
    found = ranking.completed(row(1, 10.0, 8.0, 20.0, unit_usd=3.0))
    assert (found["unit_usd_low"], found["unit_usd_high"]) == pytest.approx((2.4, 6.0))
    assert "unit_usd_low" not in ranking.completed(row(1, 10.0, None, None, unit_usd=3.0))


def test_what_else_tells_a_row_apart_is_part_of_its_name() -> None:
    found = ranking.completed(row(1, 1.0, compiled=True, hardware_count=2))
    assert name_of(found) == "h · cpu · fp32 · batch 1 · compiled · 2 devices"
    assert name_of(ranking.completed(row(1, 1.0, batch_size=None, concurrency=16))) == "h · cpu · fp32 · 16 at a time"


def front_option(rank: int, latency_ms: float) -> FrontOption:
    return FrontOption(
        rank=rank, hardware="h", platform="cpu", precision="fp32", batch_size=1, hardware_count=1, basis="measured",
        latency_ms=latency_ms, latency_ms_low=None, latency_ms_high=None, throughput_per_s=None, usd_per_million=None,
    )  # fmt: skip


def test_the_front_is_drawn_with_what_the_list_leaves_out() -> None:
    front = Front(axes=["latency", "cost"], options=[front_option(1, 1.0), front_option(7, 0.5)])
    found = ranking.drawn([row(1, 1.0, on_front=True), row(2, 2.0, on_front=False)], front, CALLS)
    assert [(one["rank"], one["on_front"]) for one in found] == [(1, True), (2, False), (7, True)]


@pytest.mark.parametrize(
    ("objective", "metric"),
    [("latency", LATENCY), ("cost", COST), ("latency:0.3,cost:0.7", COST), ("latency:1,cost:1", LATENCY)],
)
def test_a_mix_is_drawn_by_what_weighs_most(objective: str, metric: Metric) -> None:
    assert ranking.metric_for(objective) is metric


def test_asked_and_actual_are_said_where_they_differ() -> None:
    asked = {"platform_asked": "cpu", "precision_asked": "fp16"}
    assert ranking.completed(row(1, 1.0, **asked))["asked"] == "cpu fp16 → cpu fp32"
    assert "asked" not in ranking.completed(row(1, 1.0, platform_asked="cpu", precision_asked="fp32"))
    assert ranking.completed(row(1, 1.0, runtime="torch", runtime_version="2.13"))["runtime"] == "torch 2.13"


def test_the_answer_in_words_has_value_interval_basis_and_n() -> None:
    best = row(1, 1.2, 1.19, 1.21, n=61, throughput_per_s=6612.0)
    words = formatting.plain(ranking.answer_sentence([best], LATENCY, "p50"))
    assert words == "h · cpu · fp32 · batch 1: p50 1.20 ms (1.19–1.21), 6,610/s (● measured, n 61)"
    assert formatting.plain(ranking.answer_sentence([best], THROUGHPUT, "p50")).startswith(
        "h · cpu · fp32 · batch 1: 6,610/s, p50 1.20 ms"
    )
    cost = {"unit_usd": 0.0517, "price_unit": "M calls"}
    priced = formatting.plain(ranking.answer_sentence([{**best, **cost}], COST, "p50"))
    assert priced.startswith("h · cpu · fp32 · batch 1: $0.0517 / M calls, p50 1.20 ms")


def cells(columns: list[Column], place: int = 0) -> dict[str, str]:
    return {
        column.head: formatting.plain(str(column.shown[place] if column.shown else column.values[place]))
        for column in columns
    }


def test_a_table_has_a_line_an_option_with_raw_values_and_words() -> None:
    best = row(1, 1.2, 1.19, 1.21, throughput_per_s=10.0, rank_band="1–2", unit_usd=0.05, price_unit="M calls")
    columns = table.options_table([best, row(2, None)], {}, percentile="p50")
    assert cells(columns) == {
        "Device": "h", "p50 latency": "1.20 ms (1.19–1.21)", "$ / M calls": "$0.0500", "Throughput": "10.0/s",
        "Runs as": "cpu · fp32 · batch 1", "Evidence": "measured", "Rank": "1–2",
    }  # fmt: skip
    by_head = {column.head: column for column in columns}
    assert by_head["p50 latency"].values == [1.2, None]
    assert by_head["p50 latency"].low == [1.19, None]
    assert by_head["Device"].links == ["hardware?id=h", "hardware?id=h"]


def test_memory_is_told_against_what_the_device_has() -> None:
    rows = [
        row(1, 1.0, hardware="nvidia-l4", peak_memory_bytes=3.1e9),
        row(2, 1.0, hardware="nvidia-l4", peak_memory_bytes=512e6),
        row(3, 1.0, hardware="nvidia-l4", memory_floor_bytes=5.2e9), row(4, 1.0, peak_memory_bytes=1e9),
    ]  # fmt: skip
    (memory,) = [one for one in table.options_table(rows, {}, percentile="p50") if one.head == "Memory"]
    assert [formatting.plain(words) for words in memory.shown or ()] == [
        "3.10 of 24 GB", "512 MB of 24 GB", "≥ 5.20 of 24 GB", "1.00 GB",
    ]  # fmt: skip
    assert memory.share is not None and memory.share[0] == pytest.approx(3.1e9 / (24 * 2**30))
    assert memory.share[3] is None


def test_an_added_device_has_its_figure_or_the_rule_that_left_it_out() -> None:
    rows = [row(1, 1.0, rank_band="1"), row(1, 9.0, hardware="nvidia-l4", added=True)]
    columns = table.options_table(rows, {"nvidia-t4": "left out: power"}, percentile="p50")
    assert (cells(columns, 1)["Device"], cells(columns, 1)["Rank"]) == ("L4", "—")
    told = cells(columns, 2)
    assert (told["Device"], told["p50 latency"], told["Runs as"]) == ("T4", "—", "left out: power")
    assert {len(column.values) for column in columns} == {3}


def test_every_column_has_doubts_prices_and_what_an_answer_fills() -> None:
    meets = [{"constraint": "max_latency_ms", "limit": 9, "value": 1.2, "probability": 0.93}]
    price = {"provider": "aws", "instance": "g6.xlarge", "region": "us-east-1", "spot": False, "machines": 1,
             "devices_each": 1, "date": None, "stale": True, "age_days": None}  # fmt: skip
    told = cells(
        table.every_column(
            [row(1, 1.2, meets=meets, price=price, usd_per_hour=0.8, compiled=True, energy_per_item_j=0.5, n=1200,
                 energy_verdict="suspect")]
        )
    )  # fmt: skip
    assert told["Meets all with"] == "93.0 %"
    assert told["Price of"] == "$0.80/h · aws g6.xlarge · us-east-1"
    assert told["Price to check"] == "undated price: check it"
    assert (told["Compiled"], told["n"], told["Energy is"]) == ("yes", "1,200", "suspect")
    assert not {"First token", "Why above the next"} & set(told)
    served = cells(table.every_column([row(1, 900.0, batch_size=None, concurrency=16, ttft_ms=40.0, meets=[])]))
    assert (served["Load"], served["First token"]) == ("16 at a time", "40.0 ms")
    assert not {"Meets all with", "Price of"} & set(served)


def test_a_device_at_hand_is_named_with_what_to_fall_back_on() -> None:
    def rung(name: str) -> Rung:
        return Rung(name=name, hardware="h", platform="cpu", precision="fp32", basis="measured", configuration="c")

    left_out = [LeftOut(name="mps", why="too small")]
    found = AtHand(use="cuda:0", order=[rung("cuda:0"), rung("cpu")], left_out=left_out)
    assert ranking.at_hand_words(found) == "Use cuda:0 now; then cpu; mps is left out: too small."
    assert ranking.at_hand_words(None) is None
    assert "None of the devices" in str(ranking.at_hand_words(AtHand(use=None, order=[], left_out=[])))


def answer_of(option: dict[str, Any]) -> Recommendation:
    return Recommendation(
        id="i", model="m", position=7, time=None, predictor="sha256:a", interval=0.8, question={},
        workload=Workload(mode="inference"), considered=1, met=1,
        ranked=[msgspec.convert({"configuration": "c", **option}, RankedOption)], front=Front(axes=[], options=[]),
        at_hand=None, excluded=[], abstained=None, within_reach=[], suggestions=[], notes=[],
    )  # fmt: skip


def test_a_csv_has_every_column_and_leaves_missing_empty() -> None:
    answer = answer_of(row(1, 1.2, evidence=["e1", "e2"]))
    found = next(csv.DictReader(io.StringIO(ranking.csv_file(answer).decode())))
    assert (found["latency_ms"], found["peak_memory_bytes"]) == ("1.2", "")
    assert (found["evidence"], found["as_of"], found["predictor"]) == ("e1 e2", "7", "sha256:a")
    met = [
        {"constraint": name, "limit": 1.0, "value": None, "probability": chance, "exact": False}
        for name, chance in (("max_power_w", 1), ("max_ttft_ms", None))
    ]
    parts = {"weights_bytes": 7, "kv_cache_bytes": None, "activations_bytes": None, "runtime_bytes": None}
    error = {"cosine": 0.99, "max_absolute": None, "outcome": "passed", "evidence": "e"}
    price = {
        "provider": "own", "instance": None, "region": None, "spot": False, "machines": 1, "devices_each": 1,
        "usd_per_hour_each": 1.0, "date": None, "age_days": None, "stale": True, "basis": "stated", "source": None,
        "evidence": None,
    }  # fmt: skip
    answer = answer_of(row(1, 1.2, output_error=error, price=price, memory_parts=parts, meets=met))
    found = next(csv.DictReader(io.StringIO(ranking.csv_file(answer).decode())))
    assert (found["price_provider"], found["price_stale"], found["price_date"]) == ("own", "True", "")
    assert (found["weights_bytes"], found["output_cosine"]) == ("7", "0.99")
    assert found["meets"] == "max_power_w=1.0 max_ttft_ms="


def test_estimates_never_push_evidence_out() -> None:
    estimates = [row(None, 1.0 + i, basis="predicted", hardware=f"h{i}") for i in range(200)]
    found = comparison.chosen([*estimates, row(None, 999.0)], Comparison(basis="all"), LATENCY)
    assert len(found) == comparison.MOST
    assert found[-1]["latency_ms"] == 999.0


def test_an_estimate_has_no_method_to_differ_in() -> None:
    rows = [row(1, 1.0, threads=2), row(2, 2.0, basis="predicted")]
    found = differences.find(rows)
    assert found.same["Threads"] == "2"
    assert [difference.field for difference in found.differs] == ["Basis"]


def test_method_differences_come_first_and_shared_fields_apart() -> None:
    found = differences.find(
        [row(1, 1.0, threads=2, runtime={"name": "torch", "version": "2.13"}), row(2, 2.0, threads=4, runtime=None)]
    )
    assert found.same["Precision"] == "fp32"
    assert [difference.field for difference in found.differs] == ["Runtime", "Threads"]
    assert found.differs[0].values == [("torch 2.13", 1), ("—", 1)]


def test_speed_up_needs_plain_cpu_at_the_same_work() -> None:
    rows = [
        row(1, 1.0, throughput_per_s=100.0),
        row(2, 0.25, throughput_per_s=390.0, platform="openvino"),
        row(3, 1.0, throughput_per_s=900.0, platform="openvino", batch_size=8),
        {**row(4, 1.0, throughput_per_s=300.0, platform="cuda"), "latency_ms": None},
        {**row(5, 1.0, throughput_per_s=None, platform="cuda"), "latency_ms": None},
    ]
    assert [found["speedup_over_cpu"] for found in comparison.against_cpu(rows, rows)] == [1.0, 4.0, None, 3.0, None]
    predicted = [{**rows[0], "basis": "predicted"}, rows[1]]
    assert comparison.against_cpu(predicted, predicted)[1]["speedup_over_cpu"] is None
    unsaid = [{**each, "batch_size": None} for each in rows[:2]]
    assert [found["speedup_over_cpu"] for found in comparison.against_cpu(unsaid, unsaid)] == [None, None]


def test_rows_of_one_name_are_told_apart_by_what_differs() -> None:
    rows = [
        row(1, 1.0, runtime="torch 2.9", compiled=True), row(2, 2.0, runtime="torch 2.4", compiled=True),
        row(3, 3.0, hardware="other", runtime="torch 2.4"),
    ]  # fmt: skip
    assert [found["distinct"] for found in comparison.distinguished(rows)] == ["torch 2.9", "torch 2.4", None]
    same = [row(1, 1.0, run_id="a", threads=2), row(2, 2.0, run_id="b", threads=2), row(3, 3.0, run_id="c", threads=4)]
    assert [found["distinct"] for found in comparison.distinguished(same)] == [
        "threads 2 · run a", "threads 2 · run b", "threads 4",
    ]  # fmt: skip


def test_latency_is_compared_at_one_batch_and_modes_are_not_mixed() -> None:
    rows = [row(1, 1.0), row(2, 90.0, batch_size=64, hardware="wide"), row(3, 3.0, hardware="far")]
    assert "than far" in comparison.sentence(rows, LATENCY)
    found = comparison.chosen([row(1, 1.0, mode="training"), row(2, 2.0, mode="inference")], Comparison(), LATENCY)
    assert [one["mode"] for one in found] == ["inference"]


def test_a_comparison_says_faster_only_where_intervals_are_apart() -> None:
    rows = [row(1, 1.0, 0.9, 1.1), row(2, 1.05, 1.0, 1.2, hardware="near"), row(3, 3.0, 2.9, 3.1, hardware="far")]
    assert "× 3.0 faster than far" in formatting.plain(comparison.sentence(rows, LATENCY))
    assert "too close to call against near" in comparison.sentence(rows[:2], LATENCY)
    wide = [row(1, 1.0, throughput_per_s=300.0), row(2, 1.0, throughput_per_s=100.0, hardware="slow")]
    assert "× 3.0 faster than slow" in formatting.plain(comparison.sentence(wide, THROUGHPUT))


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (Comparison(), 1),
        (Comparison(basis="all"), 2),
        (Comparison(platform=("cuda",)), 1),
        (Comparison(basis="measured"), 1),
        (Comparison(batch=4), 0),
    ],
)
def test_filters_and_missing_metrics(asked: Comparison, left: int) -> None:
    rows = [row(1, 2.0), row(2, 1.0, platform="cuda", basis="predicted"), row(3, None)]
    found = comparison.chosen(rows, asked, LATENCY)
    assert len(found) == left
    assert [found["latency_ms"] for found in found] == sorted(found["latency_ms"] for found in found)


def test_text_from_outside_is_shown_and_never_obeyed() -> None:
    assert escape("a_b <b>[x](y)</b> :red[z]") == r"a\_b \<b\>\[x\]\(y\)\</b\> \:red\[z\]"


def test_the_command_runs_this_script_with_this_python() -> None:
    words = launch.command(8599, "http://127.0.0.1:8000")
    assert words[0] == sys.executable
    assert words[1] == "-P"
    assert Path(words[2]).name == "start.py"
    assert words[3] == "run"
    assert Path(words[4]).name == "server.py"
    assert launch.SCRIPT.is_file()
    assert words[-2:] == ["--server", "http://127.0.0.1:8000"]
    assert words[words.index("--server.port") + 1] == "8599"
    assert "--" not in launch.command(8599)
