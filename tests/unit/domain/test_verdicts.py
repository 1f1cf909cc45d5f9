"""Every rule of the verdict table, on literal series."""

import pytest

from domain.payloads import Observed, Requested, Verdict
from domain.verdicts import Circumstances, combine, judge

STEADY = [10.0, 10.1, 9.9, 10.0, 10.05, 9.95] * 10


def test_a_quiet_steady_series_is_valid() -> None:
    validity = judge(STEADY, ["latency_ms", "peak_memory_bytes"], Circumstances(steady=True, other_load=0.01))
    assert (validity.verdict, validity.reasons) == ("valid", [])
    assert set(validity.metrics) == {"latency_ms", "peak_memory_bytes"}


@pytest.mark.parametrize(
    ("samples", "circumstances", "reason"),
    [
        ([10.0] * 5, Circumstances(), "5 samples"),
        ([5.0, 20.0] * 10, Circumstances(), "interval of the median"),
        ([10.0] * 30 + [11.0] * 30, Circumstances(), "drifting: the second half is +10.0 %".replace(" %", "%")),
        ([5.0, 20.0] * 10, Circumstances(stopped_by="budget"), "the budget ended with the 95 % interval"),
        ([50.0, 40.0, 30.0, 20.0, *STEADY], Circumstances(), "the first 4 samples"),
        ([10.0, 10.1, 12.0, 12.1] * 30, Circumstances(), "bimodal: 50% of the samples"),
        ([10.0] * 90 + [100.0] * 10, Circumstances(), "held up: 47%"),
        (STEADY, Circumstances(steady=False), "no steady state"),
        (STEADY, Circumstances(speed_ratio=0.8), "throttled: the same loop ran at 80%"),
        (STEADY, Circumstances(clock_before_hz=3e9, clock_after_hz=2e9), "throttled: the clock fell from 3.00 to 2.00"),
        (STEADY, Circumstances(thermal_events=3), "3 thermal events"),
        (STEADY, Circumstances(quota_share=0.3), "a quota stopped the process for 30%"),
        (STEADY, Circumstances(stops=4), "stopped and continued 4 times"),
        (STEADY, Circumstances(loop_lost_share=0.5), "had no processor for 50%"),
        (STEADY, Circumstances(waiting=0.4), "0.40 of its threads waited"),
        (STEADY, Circumstances(steal_share=0.05), "5.0% of the time to others"),
        (STEADY, Circumstances(timer_resolution_ms=1.0), "too coarse"),
        (STEADY, Circumstances(other_load=0.5), "other work used 50%"),
    ],
)
def test_a_timing_fault_marks_latency_and_not_memory(
    samples: list[float], circumstances: Circumstances, reason: str
) -> None:
    validity = judge(samples, ["latency_ms", "peak_memory_bytes"], circumstances)
    assert validity.verdict == "suspect"
    assert any(reason in said for said in validity.reasons), validity.reasons
    assert validity.metrics["latency_ms"].verdict == "suspect"
    assert validity.metrics["peak_memory_bytes"].verdict == "valid"


@pytest.mark.parametrize(("share", "verdict"), [(0.0, "valid"), (0.1, "valid"), (0.2, "suspect"), (0.6, "invalid")])
def test_fallback_marks_everything(share: float, verdict: str) -> None:
    validity = judge(
        STEADY, ["latency_ms", "peak_memory_bytes"], Circumstances(observed=Observed(fallback_share=share))
    )
    assert validity.verdict == verdict
    assert {each.verdict for each in validity.metrics.values()} == {verdict}


def test_asked_is_not_actual() -> None:
    observed = Observed(platform="cpu", precision="fp32", requested=Requested(platform="cuda", precision="fp16"))
    validity = judge(STEADY, ["latency_ms"], Circumstances(observed=observed))
    assert validity.reasons == [
        "asked for platform cuda, and cpu did the work",
        "asked for precision fp16, and fp32 did the work",
    ]


def test_the_worst_verdict_wins_with_each_reason_once() -> None:
    one = Verdict(verdict="suspect", reasons=["a", "b"])
    other = Verdict(verdict="invalid", reasons=["b", "c"])
    assert combine(one, other) == Verdict(verdict="invalid", reasons=["a", "b", "c"])
    assert combine() == Verdict(verdict="valid", reasons=[])


def test_all_that_a_quiet_machine_reports_is_valid() -> None:
    quiet = Circumstances(
        steady=True,
        stopped_by="interval",
        other_load_before=0.1,
        other_load=0.02,
        waiting=0.01,
        steal_share=0.002,
        quota_share=0.0,
        stops=0,
        speed_ratio=0.97,
        loop_lost_share=0.01,
        clock_before_hz=3.0e9,
        clock_after_hz=2.9e9,
        thermal_events=0,
        swap_before_bytes=10_000_000,
        swap_after_bytes=10_000_000,
        swapped_bytes=0,
        timer_resolution_ms=1e-4,
        observed=Observed(fallback_share=0.0),
    )
    assert judge(STEADY, ["latency_ms", "load_ms", "peak_memory_bytes"], quiet).reasons == []


def test_load_before_the_series_marks_only_what_was_timed_then() -> None:
    validity = judge(STEADY, ["latency_ms", "load_ms", "first_run_ms"], Circumstances(other_load_before=0.5))
    assert {name: verdict.verdict for name, verdict in validity.metrics.items()} == {
        "latency_ms": "valid",
        "load_ms": "suspect",
        "first_run_ms": "suspect",
    }


@pytest.mark.parametrize(
    "circumstances",
    [Circumstances(swapped_bytes=4096), Circumstances(swap_before_bytes=0, swap_after_bytes=50_000_000)],
)
def test_swap_marks_memory_and_times(circumstances: Circumstances) -> None:
    validity = judge(STEADY, ["latency_ms", "peak_memory_bytes", "load_ms"], circumstances)
    assert validity.metrics["peak_memory_bytes"].verdict == validity.metrics["latency_ms"].verdict == "suspect"
    assert validity.metrics["load_ms"].verdict == "valid"


def test_parts_of_a_step_are_judged_like_the_step() -> None:
    validity = judge(STEADY, ["forward_ms", "ttft_ms", "tokens_per_s"], Circumstances(steady=False))
    assert {verdict.verdict for verdict in validity.metrics.values()} == {"suspect"}
