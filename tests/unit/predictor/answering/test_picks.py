"""The named picks: each is best on its own merit, sure or a toss-up, and absent where nothing supports it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.answers import Pick, RankedOption
from predictor.answering.objective import cautious
from predictor.answering.option import Option
from predictor.answering.ranking import ordered, picks_of

FAST = Option(
    hardware="fast", platform="cuda", precision="fp16", batch_size=1, basis="predicted", latency_ms=1.0, low_ms=0.9,
    high_ms=1.1, covered=True, throughput_per_s=1000.0, usd_per_hour=36.0,
)  # fmt: skip


def option(hardware: str, **changes: Any) -> Option:
    return msgspec.structs.replace(FAST, hardware=hardware, **changes)


CHEAP = option("cheap", latency_ms=5.0, low_ms=4.5, high_ms=5.5, throughput_per_s=200.0, usd_per_hour=0.36)
SEEN = option(
    "seen", basis="measured", latency_ms=3.0, low_ms=2.9, high_ms=3.1, throughput_per_s=330.0, usd_per_hour=36.0
)
PUBLISHED = option("published", basis="imported", latency_ms=2.0, low_ms=None, high_ms=None, usd_per_hour=None)


def document(item: Option) -> RankedOption:
    return RankedOption(
        rank=0,
        configuration="",
        hardware=item.hardware,
        platform=item.platform,
        precision=item.precision,
        basis=item.basis,
    )


def picks(options: list[Option], objective: str = "latency") -> dict[str, Pick]:
    ranked = ordered(options, objective)
    return {pick.name: pick for pick in picks_of(ranked, next(iter(ranked), None), objective, document)}


def test_each_pick_is_best_by_what_it_is_named_for() -> None:
    chosen = picks([CHEAP, SEEN, PUBLISHED, FAST])
    assert {name: pick.option.hardware for name, pick in chosen.items()} == {
        "fastest": "fast",
        "cheapest": "cheap",
        "best_measured": "seen",
    }
    assert list(chosen) == ["fastest", "cheapest", "best_measured"]
    assert chosen["fastest"].next_hardware == "published"
    assert chosen["cheapest"].probability is not None
    assert chosen["cheapest"].probability > 0.99
    assert chosen["cheapest"].confidence == "clear"


def test_published_figures_are_the_best_measured_where_nobody_measured_here() -> None:
    assert picks([PUBLISHED, FAST])["best_measured"].option.hardware == "published"
    assert "best_measured" not in picks([FAST, CHEAP])
    # It is compared with what else was published: an estimate that is better is no tie.
    slower = option("slower", basis="imported", latency_ms=9.0, low_ms=None, high_ms=None)
    pick = picks([FAST, PUBLISHED, slower])["best_measured"]
    assert (pick.next_hardware, pick.confidence) == ("slower", "clear")


def test_without_prices_nothing_is_cheapest_and_without_options_nothing_is_picked() -> None:
    free = [msgspec.structs.replace(item, usd_per_hour=None) for item in (FAST, SEEN)]
    assert set(picks(free)) == {"fastest", "best_measured"}
    assert picks([]) == {}


def test_the_fastest_follows_the_objective_of_throughput() -> None:
    many = option("many", latency_ms=4.0, low_ms=3.6, high_ms=4.4, batch_size=32, throughput_per_s=8000.0)
    assert picks([FAST, many], "throughput")["fastest"].option.hardware == "many"
    assert picks([FAST, many], "cost")["fastest"].option.hardware == "fast"


@pytest.mark.parametrize(("latency", "word"), [(1.02, "toss-up"), (1.08, "likely"), (2.0, "clear")])
def test_confidence_says_how_likely_the_pick_beats_the_next_device(latency: float, word: str) -> None:
    other = option("other", latency_ms=latency, low_ms=latency * 0.9, high_ms=latency * 1.1)
    pick = picks([FAST, other])["fastest"]
    assert (pick.next_hardware, pick.confidence) == ("other", word)


def test_another_configuration_of_the_same_device_is_no_rival() -> None:
    again = option("fast", batch_size=2, latency_ms=1.01, low_ms=0.95, high_ms=1.1)
    alone = picks([FAST, again])["fastest"]
    assert (alone.next_hardware, alone.probability, alone.confidence) == (None, None, None)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(1, 4), st.booleans()), min_size=1, max_size=12))
def test_the_pick_has_the_best_unfavourable_end_of_those_with_evidence(rows: list[tuple[float, float, bool]]) -> None:
    options = [
        option(f"d{place}", latency_ms=value, low_ms=value / slack, high_ms=value * slack, covered=covered)
        for place, (value, slack, covered) in enumerate(rows)
    ]
    usable = [item for item in options if item.covered] or options
    # Asked for the cost, so that the fastest is looked for among all options.
    chosen = picks(options, "cost")["fastest"].option.hardware
    assert cautious(next(item for item in options if item.hardware == chosen), "latency") == min(
        cautious(item, "latency") for item in usable
    )
