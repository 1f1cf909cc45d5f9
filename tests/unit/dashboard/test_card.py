from __future__ import annotations

import re
from typing import Any

import pytest

from dashboard.screens.recommend import words as card
from presentation import formatting
from presentation.charts import COST, LATENCY, METRICS, THROUGHPUT

PRICE = {
    "provider": "aws", "instance": "g6.xlarge", "region": "us-east-1", "spot": False, "machines": 1, "devices_each": 1,
    "date": "2026-01-19", "stale": False, "age_days": 3,
}  # fmt: skip


def row(**changes: Any) -> dict[str, Any]:
    found = {"hardware": "h", "basis": "predicted", "latency_ms": 1.2, "latency_ms_low": 1.1, "latency_ms_high": 1.3}
    return found | changes


@pytest.mark.parametrize(
    ("changes", "words", "doubt"),
    [
        ({}, "$0.80/h · aws g6.xlarge · us-east-1 · as of 2026-01-19", None),
        ({"stale": True, "age_days": 120}, "us-east-1 · as of 2026-01-19", "stale price, 120 days old: check it"),
        (
            {"stale": True, "age_days": None, "date": None},
            "$0.80/h · aws g6.xlarge · us-east-1",
            "undated price: check it",
        ),
        ({"machines": 2, "devices_each": 4, "spot": True}, "2 × aws g6.xlarge (4 devices) · us-east-1 · spot", None),
    ],
)
def test_a_price_says_of_which_machine_where_and_how_old(
    changes: dict[str, Any], words: str, doubt: str | None
) -> None:
    found = row(usd_per_hour=0.8, price=PRICE | changes)
    assert words in (card.price_words(found) or "")
    assert card.price_doubt(found) == doubt


def test_without_a_price_nothing_is_said_of_it() -> None:
    assert card.price_words(row(price=None)) is None
    assert card.price_doubt(row(price=None)) is None


def test_memory_is_told_with_what_it_is_made_of() -> None:
    parts = {"weights_bytes": 300e6, "kv_cache_bytes": None, "activations_bytes": 100e6, "runtime_bytes": 0}
    words = formatting.plain(card.memory_words(row(peak_memory_bytes=400e6, memory_parts=parts)))
    assert words == "Memory 400 MB: weights 300 MB, activations 100 MB"
    least = formatting.plain(card.memory_words(row(memory_floor_bytes=400e6, memory_parts=parts)))
    assert least == "Memory at least 400 MB: weights 300 MB, activations 100 MB; the peak is not known"
    assert card.memory_words(row()) == "Memory not known"


def test_the_bar_of_memory_has_the_shares_of_its_parts_and_a_name() -> None:
    parts = {"weights_bytes": 300e6, "activations_bytes": 100e6, "runtime_bytes": None}
    bar = card.memory_bar(row(memory_floor_bytes=400e6, memory_parts=parts)) or ""
    assert re.findall(r"flex:([\d.]+)", bar) == ["0.7500", "0.2500"]
    assert 'aria-label="Memory at least' in bar
    assert card.memory_bar(row(memory_parts={"weights_bytes": 1.0})) is None


def test_outputs_that_nobody_verified_are_not_said_to_be_right() -> None:
    assert card.error_words(row(output_error=None)).startswith("Outputs not verified")
    error = {"cosine": 0.99987, "max_absolute": 0.0123, "outcome": "passed", "evidence": "e"}
    assert card.error_words(row(output_error=error)).endswith("cosine 0.99987, largest error 0.012 (passed)")


def test_an_interval_says_of_which_kind_it_is() -> None:
    told = [
        card.interval_words(row(**changes), LATENCY, 0.8)
        for changes in (
            {"interval_covered": True}, {"interval_covered": False}, {"basis": "measured"}, {"latency_ms_low": None},
        )
    ]  # fmt: skip
    assert [formatting.plain(one) for one in told] == [
        "1.1–1.3, 80 % interval",
        "1.1–1.3, 80 % interval, not covered by measurement",
        "1.1–1.3, 95 % CI",
        "no interval is known",
    ]


def test_figures_are_those_that_are_known_each_with_its_name() -> None:
    found = row(
        throughput_per_s=800.0,
        unit_usd=0.05,
        price_unit="M calls",
        energy_per_item_j=0.2,
        energy_verdict="suspect",
        ttft_ms=40.0,
        tpot_ms=9.0,
        tokens_per_s=930.0,
    )
    told = [formatting.plain(one) for one in card.figures(found, THROUGHPUT, "p95")]
    assert told == [
        "p95 1.2 ms (1.1–1.3)", "$0.0500 / M calls", "0.200 J an item (suspect)", "first token 40.0 ms", "then 9.00 ms a token",
        "930 tokens/s",
    ]  # fmt: skip
    assert card.shown(found, COST) == "$0.0500 / M calls"
    assert card.shown(row(latency_is_mean=True), LATENCY).endswith("(mean)")


def test_a_basis_is_said_once_and_simulated_always() -> None:
    assert card.basis_words(row(why="predicted: from its family")) == "▷ predicted: from its family"
    assert card.basis_words(row(why="from its family")) == "▷ predicted: from its family"
    assert "SIMULATED" in card.basis_words(row(why="predicted", origin="simulated"))
    assert card.title(row(hardware_count=4)) == "4 × h"


def test_energy_says_what_it_rests_on_and_power_its_own_verdict() -> None:
    ends = {"energy_per_item_j": 0.2, "energy_per_item_j_low": 0.1, "energy_per_item_j_high": 0.4}
    guessed = row(basis="measured", energy_basis="predicted", rated_power_w=72.0, **ends)
    assert card.energy_doubt(guessed) == "predicted"
    assert "80 % interval" in formatting.plain(card.interval_words(guessed, METRICS["energy"], 0.8))
    drawn = row(verdict="valid", energy_verdict="suspect", power_w=69.7, rated_power_w=72.0)
    assert formatting.plain(str(card.power_words(drawn))) == "Power 69.7 W drawn (⚠ suspect), rated 72.0 W"
    assert card.energy_doubt(row()) is None
    assert card.power_words(row()) is None
