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
        (STEADY, Circumstances(steady=False), "no steady state"),
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
