"""Variants and deliveries in words and in the picture: losers, gaps and intervals included."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import altair as alt
import pytest

from domain.answers.variants import Deliveries, Delivery, Endpoint, QualityLoss, VariantRow
from presentation import charts
from presentation.delivery_words import delivery_table, endpoint_table
from presentation.variant_words import NOT_EVALUATED, variants_note, variants_table


def loss(value: float, low: float, high: float, unit: str = "pt", examples: int = 2000) -> QualityLoss:
    return QualityLoss(
        metric="accuracy", unit=unit, loss=value, low=low, high=high, examples=examples, data="digits.npz", method="mcnemar",
        worse=1, better=0, hardware="intel-xeon-2c", platform="openvino", precision="int8", evidence="e",
    )  # fmt: skip


def row(
    recipe: str | None, latency_ms: float | None = 12.0, quality: QualityLoss | None = None, **more: Any
) -> VariantRow:
    values = {"hardware": "intel-xeon-2c", "platform": "openvino", "precision": "int8", "bytes": 88_400_000, **more}
    return VariantRow(model="m", recipe=recipe, latency_ms=latency_ms, quality=quality, evidence=["e"], **values)


ROWS = [
    row(None, 32.0, precision="fp32", is_reference=True, speedup=1.0),
    row("int8-ptq", 12.0, loss(0.1, -0.2, 0.4), speedup=2.67),
    row("slow", 40.0, loss(5.3, 4.2, 6.4), speedup=0.8),
    row("int4-weights", 30.0, speedup=1.07),
    row("own-metric", 20.0, loss(0.01, 0.0, 0.02, unit="nat"), speedup=1.6),
    row("prune-90", None, hardware=None, platform=None, form="checkpoint"),
]


def test_the_table_has_every_variant_the_fastest_first_and_says_what_nobody_measured_or_evaluated() -> None:
    lines = variants_table(ROWS)
    assert [line["Variant"] for line in lines] == [
        "int8-ptq", "own-metric", "int4-weights", "the model itself", "slow", "prune-90",
    ]  # fmt: skip
    by_name = {line["Variant"]: line for line in lines}
    assert by_name["int8-ptq"]["Quality loss"] == "0.1 pt (-0.2 – 0.4)"
    assert by_name["int4-weights"]["Quality loss"] == NOT_EVALUATED
    assert by_name["the model itself"]["Quality loss"].startswith("0")
    assert (by_name["prune-90"]["Hardware"], by_name["prune-90"]["Platform"]) == ("not measured", "checkpoint")


def test_the_note_names_what_became_slower_and_counts_what_is_not_in_the_picture() -> None:
    note = variants_note(ROWS, len(charts.variants_drawn(ROWS)))
    assert "slow" in note and "int8-ptq" not in note and "3 of 6 rows" in note


@pytest.mark.parametrize("size", [False, True])
def test_the_picture_has_a_mark_and_an_interval_for_each_loss_in_points(size: bool) -> None:
    drawn = charts.variants_drawn(ROWS, size=size)
    assert [item.recipe for item in drawn] == [None, "int8-ptq", "slow"]
    spec = charts.variants(ROWS, size=size, theme="light", picture=True).to_dict()
    alt.LayerChart.from_dict({name: value for name, value in spec.items() if name != "$schema"}).to_dict()
    intervals = next(layer for layer in spec["layer"] if "x2" in layer["encoding"])
    values = {value["name"]: value for value in intervals["data"]["values"]}
    assert (values["int8-ptq"]["low"], values["int8-ptq"]["loss"], values["int8-ptq"]["high"]) == (-0.2, 0.1, 0.4)
    assert (values["fp32"]["loss"], values["slow"]["up"]) == (0.0, pytest.approx(88.4 if size else 40.0))
    low, high = intervals["encoding"]["x"]["scale"]["domain"]
    assert low < -0.2 and high > 6.4


def test_no_row_with_a_loss_is_an_empty_picture() -> None:
    assert charts.variants([ROWS[3]], theme=None).to_dict()["height"] > 0


def delivery(verdict: str, delivered: float | None, **more: Any) -> Delivery:
    values: dict[str, Any] = dict.fromkeys(Delivery.__struct_fields__)
    values |= {
        "endpoint": "digits", "server": "s", "model_id": "m", "hardware_id": "intel-xeon-2c", "platform": "openvino",
        "since": datetime(2026, 11, 20, 14, tzinfo=UTC), "until": datetime(2026, 11, 20, 14, 5, tzinfo=UTC), "requests": 1200,
        "failures": 3, "position": 1, "event_id": "e", "promise_latency_ms": 12.0, "promise_low_ms": 11.0,
        "promise_high_ms": 13.0, "promise_percentile": "p50", "verdict": verdict, "delivered_ms": delivered, **more,
    }  # fmt: skip
    return Delivery(**values)


def test_a_promise_stands_beside_what_was_delivered_and_undecided_ones_count_neither_way() -> None:
    items = [delivery("broken", 16.0, reason="too slow"), delivery("kept", 12.4), delivery("undecided", None)]
    lines = delivery_table(items, UTC)
    assert [line["Verdict"].split()[-1] for line in lines] == ["broken", "kept", "undecided"]
    assert lines[0]["Promise"].startswith("p50 12") and lines[0]["Why"] == "too slow"
    assert (lines[0]["Until"], lines[2]["Delivered"]) == ("2026-11-20 14:05", "—")
    standing: dict[str, Any] = dict.fromkeys(Endpoint.__struct_fields__)
    standing |= {"endpoint": "digits", "state": "failed", "reason": "it was killed", "model_id": "m"}
    (line,) = endpoint_table(Deliveries(endpoints=[Endpoint(**standing)], items=items))
    assert (line["State"], line["Promise held"], line["Memory"]) == ("failed: it was killed", "1 of 2", "—")
