"""What an endpoint's row says, against a server whose timing is known."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from runner.endpoint.driver import Driver
from runner.endpoint.figures import Objective
from runner.endpoint.link import StampedLoop
from runner.endpoint.prompts import Prompts
from runner.endpoint.protocols import language_call
from runner.endpoint.stamps import HERE
from runner.endpoint.target import target_of
from runner.measure.scenarios import Rule
from tests.integration.endpoint.conftest import FIRST_MS, GAP_MS, Bench, Echo

BUSY = 3.0
"""Times as long as it should be: what a busy machine may make of a time that is short."""


def test_times_are_those_of_the_server(bench: Bench) -> None:
    row = bench(concurrency=(2,), iterations=12).row
    metrics = row["metrics"]
    assert FIRST_MS <= metrics["ttft_ms"] < BUSY * FIRST_MS
    assert metrics["tpot_ms"] == pytest.approx(GAP_MS, rel=0.4)
    assert FIRST_MS + 5 * GAP_MS <= metrics["latency_ms"]["p50"] < BUSY * (FIRST_MS + 5 * GAP_MS)
    assert metrics["throughput_per_s"] == pytest.approx(2e3 / metrics["latency_ms"]["mean"], rel=1e-6)
    assert metrics["tokens_per_s"] == pytest.approx(6 * metrics["throughput_per_s"], rel=1e-6)


def test_each_token_is_stamped_when_it_was_there(echo: Echo) -> None:
    """The text of a token is the moment at which it was sent, by the same clock."""

    async def ask() -> list[float]:
        target = target_of(echo.url, "openai", "echo")
        call = language_call(target, 40, streams=True)
        async with Driver(target, call, Prompts(8, 0), 10.0, keep_text=True) as driver:
            exchange = await driver.once()
        assert exchange.text is not None
        return [(seen - int(sent)) / 1e6 for seen, sent in zip(exchange.tokens, exchange.text, strict=True)]

    with asyncio.Runner(loop_factory=StampedLoop) as runner:
        delays = runner.run(ask())
    assert min(delays) > -1.0
    assert sorted(delays)[len(delays) // 2] < BUSY * 2.0


@pytest.mark.skipif(not HERE, reason="the kernel stamps what it receives on Linux alone")
def test_a_client_that_looks_late_sees_when_it_was_there(echo: Echo) -> None:
    async def ask() -> float | None:
        target = target_of(echo.url, "openai", "echo")
        call = language_call(target, 1, streams=True)
        async with Driver(target, call, Prompts(8, 0), 10.0, keep_text=False) as driver:
            await driver.once()
            asking = asyncio.create_task(driver.once())
            await asyncio.sleep(0)
            time.sleep(0.8)
            return (await asking).ttft_ms

    with asyncio.Runner(loop_factory=StampedLoop) as runner:
        ttft_ms = runner.run(ask())
    assert ttft_ms is not None
    assert FIRST_MS <= ttft_ms < 400


def test_nothing_of_the_machine_is_claimed_to_be_seen(bench: Bench) -> None:
    ran = bench(concurrency=(1,), iterations=6)
    row = ran.row
    assert row["hardware"] == {"id": "acme-h9", "kind": "gpu", "count": 1}
    assert row["observed"]["device"] == "stated"
    assert row["observed"]["requested"] == {"device": "stated", "platform": "cuda", "precision": "fp16"}
    assert "platform" not in row["observed"]
    assert "environment" not in row
    assert not ran.of("hardware.described")
    assert row["workload"]["scenario"] == "serving"
    assert row["workload"]["concurrency"] == 1
    assert row["workload"]["batch_size"] == 1


def test_a_prompt_has_as_many_tokens_as_the_server_counts(bench: Bench) -> None:
    row = bench(input_tokens=(50,), iterations=6).row
    assert row["workload"]["input_tokens"] == 50
    assert row["observed"]["details"]["prompts"] == "as the server counts them"


def test_gaps_between_tokens_are_kept_and_summed_up(bench: Bench) -> None:
    ran = bench(iterations=10)
    (samples,) = ran.of("samples.recorded")
    assert len(samples["parts"]["ttft_ms"]) == len(samples["values"]) == ran.row["samples"]["n"]
    assert len(samples["parts"]["token_ms"]) == 5 * len(samples["values"])
    itl = ran.row["observed"]["details"]["percentiles"]["itl_ms"]
    assert itl["n"] == 5 * len(samples["values"])
    assert itl["p50"] == pytest.approx(GAP_MS, rel=0.4)


@pytest.mark.parametrize(
    ("model", "reason", "metrics"),
    [
        ("lying", "more tokens than the 6", {"tokens_per_s", "tpot_ms"}),
        ("mute", "does not say how many tokens", {"tokens_per_s", "tpot_ms"}),
        ("once", "come at once", {"ttft_ms"}),
    ],
)
def test_what_cannot_be_believed_is_suspect(bench: Bench, model: str, reason: str, metrics: set[str]) -> None:
    row = bench(model, iterations=8, output_tokens=(8 if model == "once" else 6,)).row
    assert row["validity"]["verdict"] == "suspect"
    marked = {
        name for name, own in row["validity"]["metrics"].items() if any(reason in why for why in own.get("reasons", ()))
    }
    assert metrics <= marked
    assert "latency_ms" not in marked


def test_a_claim_that_cannot_be_true_does_not_halve_the_time_of_a_token(bench: Bench) -> None:
    assert bench("lying").row["metrics"]["tpot_ms"] == pytest.approx(GAP_MS, rel=0.4)


def test_members_that_a_server_refuses_are_left_out(bench: Bench) -> None:
    details = bench("picky").row["observed"]["details"]
    assert details["ignores_end"] is False


def test_goodput_counts_the_requests_that_met_their_objective(bench: Bench) -> None:
    metrics = bench(objective=Objective(ttft_ms=1000.0)).row["metrics"]
    assert metrics["goodput_per_s"] == pytest.approx(metrics["throughput_per_s"])
    assert bench(objective=Objective(ttft_ms=1.0)).row["metrics"]["goodput_per_s"] == 0


def test_arrivals_that_nobody_waits_for_come_at_their_rate(bench: Bench) -> None:
    row = bench(rates=(50.0,), iterations=60).row
    assert row["workload"]["arrival_rate_per_s"] == 50
    assert "concurrency" not in row["workload"]
    assert row["metrics"]["throughput_per_s"] == pytest.approx(50, rel=0.35)


def test_the_server_scenario_is_valid_or_not_by_its_rule(bench: Bench) -> None:
    def result(**how: Any) -> dict[str, Any]:
        rule = Rule(scenario="server", target_qps=400.0, **how)
        row = bench(scenario="server", rates=(400.0,), iterations=460, output_tokens=(1,), rule=rule).row
        assert row["conditions"]["due"] == "arrival"
        return dict(row["observed"]["details"]["scenario"])

    kept = result(target_latency_ms=10_000.0, min_queries=100)
    assert kept["result"] == "valid"
    assert kept["mlperf"] is False
    missed = result(target_latency_ms=5.0)
    assert missed["result"] == "invalid"
    assert "above 5 ms" in missed["reasons"][0]


def test_offline_has_all_queries_from_the_start(bench: Bench) -> None:
    row = bench(scenario="offline", concurrency=(4,), iterations=12, output_tokens=(2,)).row
    assert row["conditions"]["due"] == "start"
    values = sorted(row["metrics"]["latency_ms"][name] for name in ("min", "max"))
    assert values[1] > 2.5 * values[0]
    assert row["metrics"]["throughput_per_s"] == pytest.approx(12 / values[1] * 1e3, rel=0.05)


def test_a_sweep_goes_on_where_it_was_interrupted(bench: Bench) -> None:
    first = bench(concurrency=(1, 2), iterations=4)
    done = {row["observed"]["details"]["case"] for row in first.of("measurement.recorded")}
    assert len(done) == 2
    again = bench(concurrency=(1, 2, 3), iterations=4, done=done)
    assert again.report.skipped == 2
    assert again.row["workload"]["concurrency"] == 3


def test_tgi_is_read_as_it_streams(bench: Bench) -> None:
    row = bench(api="tgi", input_tokens=(20,)).row
    assert row["workload"]["input_tokens"] == 20
    assert row["workload"]["output_tokens"] == 6
    assert row["metrics"]["tpot_ms"] == pytest.approx(GAP_MS, rel=0.4)


def test_tensors_are_made_as_the_server_describes_them(bench: Bench) -> None:
    row = bench(api="ovms", output_tokens=(), batch_sizes=(4,)).row
    assert row["workload"]["batch_size"] == 4
    assert "ttft_ms" not in row["metrics"]
    rate = row["metrics"]["throughput_per_s"]
    assert rate == pytest.approx(4e3 / row["metrics"]["latency_ms"]["mean"], rel=1e-6)


def test_any_request_of_ones_own_can_be_timed(bench: Bench) -> None:
    row = bench("echo", api="http", body=b'{"inputs": [{"shape": [1]}]}').row
    assert FIRST_MS <= row["metrics"]["latency_ms"]["p50"] < BUSY * FIRST_MS


def test_two_hundred_streams_are_driven_at_once(bench: Bench) -> None:
    row = bench(concurrency=(200,), iterations=400, output_tokens=(4,)).row
    assert row["metrics"]["latency_ms"]["n"] >= 400
    assert row["observed"]["details"]["failed_requests"] == 0
