"""What makes a served row suspect, on exchanges whose times are written down."""

from __future__ import annotations

from typing import Literal

import pytest

from runner.endpoint.bench import judged, token_doubts
from runner.endpoint.exchange import Exchange
from runner.endpoint.faults import EndpointFault
from runner.endpoint.figures import gaps_ms, metrics_of, percentiles
from runner.endpoint.load import Course, late_ms

METRICS = ("latency_ms", "tokens_per_s", "ttft_ms", "tpot_ms")


def exchange(latency_ms: float = 100.0, *, tokens: int = 9, said: int | None = 9, text: str | None = None) -> Exchange:
    """Return an answer whose first token came after 20 ms and whose others came evenly until its end."""
    made = Exchange(1_000_000, allowed=64, keep_text=text is not None)
    gap = (latency_ms - 20) / max(tokens - 1, 1)
    made.tokens = [1_000_000 + int((20 + gap * index) * 1e6) for index in range(tokens)]
    made.ended = 1_000_000 + int(latency_ms * 1e6)
    made.output_tokens = said
    if text is not None:
        made.text = [text]
    return made


def course(exchanges: list[Exchange], **how: object) -> Course:
    told = {
        "warmup_ms": [], "faults": [], "elapsed_s": 10.0, "stopped_by": "interval", "late_ms": 0.1,
        "dispatch_late_ms": None, "cpu_share": 0.1, **how,
    }  # fmt: skip
    return Course(exchanges=exchanges, **told)  # type: ignore[arg-type]


def reasons(made: Course, due: Literal["arrival", "start"] | None = None) -> str:
    return " | ".join(judged(made, METRICS, 64, None, due=due).reasons)


def test_a_good_course_is_valid_and_its_figures_follow_from_its_times() -> None:
    made = course([exchange() for _ in range(10)])
    assert judged(made, METRICS, 64, None, due=None).verdict == "valid"
    metrics = metrics_of(made, 4, 1, None)
    assert metrics.ttft_ms == pytest.approx(20.0)
    assert metrics.tpot_ms == pytest.approx(10.0)
    assert metrics.throughput_per_s == pytest.approx(40.0)
    assert metrics.tokens_per_s == pytest.approx(360.0)
    assert metrics_of(made, None, 1, None).throughput_per_s == pytest.approx(1.0)
    assert gaps_ms(made.exchanges[0]) == pytest.approx([10.0] * 8)
    assert percentiles(made.exchanges)["itl_ms"]["n"] == 80


def test_fewer_tokens_said_than_seen_and_more_than_allowed_are_doubted() -> None:
    assert "5 tokens an answer, and 9 events" in " ".join(token_doubts([exchange(said=5)], 64, None))
    assert "more tokens than the 64" in " ".join(token_doubts([exchange(said=65)], 64, None))
    assert not list(token_doubts([exchange()], 64, None))


def test_a_tokenizer_decides_where_events_hold_several_tokens() -> None:
    made = [exchange(tokens=3, said=9, text="a b c d e f g h i")]
    assert list(token_doubts(made, 64, None))
    assert not list(token_doubts(made, 64, lambda text: len(text.split())))
    assert "by the tokenizer its text has 3" in " ".join(token_doubts(made, 64, lambda _: 3))


def test_an_impossible_count_is_not_reckoned_with() -> None:
    assert exchange(said=65).counted == 9
    assert exchange(said=18).counted == 18
    assert exchange(said=None).counted == 9


def test_failed_requests_are_counted_by_what_failed() -> None:
    fault = EndpointFault("ServerError", "it answers 500.", "Look.")
    assert "2 of 12 requests failed (ServerError)" in reasons(course([exchange()] * 10, faults=[fault, fault]))


def test_a_client_that_is_late_or_busy_says_so() -> None:
    assert "looked 2.0 ms late" in reasons(course([exchange()] * 10, late_ms=2.0))
    assert "late" not in reasons(course([exchange()] * 10, late_ms=2.0, stamped=True))
    assert "looked 6.0 ms late" in reasons(course([exchange()] * 10, late_ms=6.0, stamped=True))
    assert "sent 3.0 ms late" in reasons(course([exchange()] * 10, dispatch_late_ms=3.0), due="arrival")
    assert "used 95% of a core" in reasons(course([exchange()] * 10, cpu_share=0.95))


def test_what_is_late_beside_long_times_does_not_matter() -> None:
    assert "late" not in reasons(course([exchange(1000.0)] * 10, late_ms=2.0))


def test_a_queue_that_grows_is_told_and_spread_is_not_in_an_open_loop() -> None:
    growing = [exchange(100.0 + 10 * index) for index in range(60)]
    assert "the queue grows" in reasons(course(growing), due="arrival")
    two_levels = [exchange(100.0 if index % 2 else 120.0) for index in range(60)]
    assert "bimodal" in reasons(course(two_levels))
    assert not reasons(course(two_levels), "arrival")
    assert not reasons(course(growing), "start")


def test_lateness_is_that_of_the_worst_hundredth_of_the_time() -> None:
    assert late_ms([], 1.0) == 0.0
    assert late_ms([30_000_000], 1.0) == pytest.approx(20.0)
    assert late_ms([1_000_000] * 5, 1.0) == 0.0
    assert late_ms([1_000_000] * 500, 1.0) == pytest.approx(0.98)
    assert late_ms([40_000_000, *[5_000_000] * 10], 1.0) == pytest.approx(30.0)
