"""Variants, what they cost in quality, and served models in the tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ingest.projection.projector import Projection
from tests import variants
from tests.variants import BASE, HARDWARE, delivery, endpoint, name_of, quality, variant


@pytest.fixture
def projection(tmp_path: Path, database: Any) -> Iterator[Projection]:
    with Projection(tmp_path, database) as opened:
        yield opened


def view(projection: Projection, name: str, at: int | None = None, **filters: Any) -> list[dict[str, Any]]:
    projection.catch_up()
    with projection.tables(at) as tables:
        assert tables.dead_letters().num_rows == 0
        rows: list[dict[str, Any]] = tables.view(name, filters).to_pylist()
        return rows


def test_a_variant_has_a_row_for_each_form_with_its_own_and_the_total_size(
    projection: Any, append: Any, build: Any
) -> None:
    append([variant(build, forms={"openvino": 88.4, "onnx": 87.9})])
    rows = view(projection, "variants")
    assert [(row["form"], row["bytes"], row["total_bytes"]) for row in rows] == [
        ("onnx", 87_900_000, 176_300_000), ("openvino", 88_400_000, 176_300_000),
    ]  # fmt: skip
    (row, _) = rows
    assert (row["model_id"], row["base_id"], row["recipe"]) == (name_of("int8-ptq"), BASE, "int8-ptq")
    assert (row["precision"], row["quantization"], row["base_bytes"]) == ("int8", "nncf.quantize", 346_293_852)
    assert (row["calibration_name"], row["calibration_examples"], row["run_id"]) == ("digits.npz", 2000, variants.RUN)
    assert (row["parameters"], row["tools"]) == ('{"preset":"mixed"}', '{"nncf":"3.4.0"}')


def test_a_variant_that_was_made_again_counts_once_and_is_a_model_before_it_is_measured(
    projection: Any, append: Any, build: Any
) -> None:
    append([variant(build, forms={"openvino": 90.0, "onnx": 91.0}), variant(build, forms={"openvino": 88.4})])
    assert [row["bytes"] for row in view(projection, "variants")] == [88_400_000]
    (model,) = view(projection, "models")
    assert (model["model_id"], model["family"], model["measurements"]) == (name_of("int8-ptq"), "vit", 0)


def test_the_newest_quality_of_the_same_execution_and_data_counts(projection: Any, append: Any, build: Any) -> None:
    other = {"name": "other.npz", "digest": "sha256:" + "8" * 64, "examples": 50}
    answers = append(
        [
            quality(build, loss=(0.5, 0.1, 0.9)),
            quality(build, loss=(0.1, -0.2, 0.4)),
            quality(build, loss=(0.3, 0.0, 0.6), platform="onnxruntime"),
            quality(build, loss=(2.0, -4.0, 8.0), data=other, distance={"cosine": 0.98}),
        ]
    )
    rows = view(projection, "quality")
    assert [(row["platform"], row["data_name"], row["loss"]) for row in rows] == [
        ("openvino", "digits.npz", 0.1), ("onnxruntime", "digits.npz", 0.3), ("openvino", "other.npz", 2.0),
    ]  # fmt: skip
    assert (rows[0]["loss_low"], rows[0]["loss_high"], rows[0]["worse"], rows[0]["unit"]) == (-0.2, 0.4, 12, "pt")
    assert (rows[2]["distance_cosine"], rows[2]["data_examples"]) == (0.98, 50)
    assert [row["loss"] for row in view(projection, "quality", answers[0].position)] == [0.5]


@pytest.mark.parametrize("whole", [False, True], ids=["event", "run"])
def test_retracted_variants_and_qualities_leave_the_views_until_it_is_undone(
    projection: Any, append: Any, build: Any, whole: Any
) -> None:
    events = [variant(build), quality(build)]
    before = append(events)[-1].position
    void = [build.retraction(run_id=variants.RUN)] if whole else [build.retraction(event_id=e["id"]) for e in events]
    append([*void, quality(build, platform="onnxruntime")])
    assert view(projection, "variants") == []
    assert [row["platform"] for row in view(projection, "quality")] == ([] if whole else ["onnxruntime"])
    assert len(view(projection, "variants", before)) == len(view(projection, "quality", before)) == 1
    append([build.retraction(event_id=retraction["id"]) for retraction in void])
    assert len(view(projection, "variants")) == 1
    assert len(view(projection, "quality")) == 2


def test_an_alias_of_the_base_renames_variants_and_qualities_backwards_only_from_then_on(
    projection: Any, append: Any, build: Any
) -> None:
    answers = append([variant(build, base="our-vit", model="small"), quality(build, "small", base="our-vit")])
    append([build.alias("our-vit", BASE), build.alias("small", "tiny")])
    for name in ("variants", "quality"):
        (row,) = view(projection, name)
        assert (row["model_id"], row["model_id_posted"], row["base_id"], row["base_id_posted"]) == (
            "tiny", "small", BASE, "our-vit",
        )  # fmt: skip
        (then,) = view(projection, name, answers[-1].position)
        assert (then["model_id"], then["base_id"]) == ("small", "our-vit")


def test_an_endpoint_is_what_its_newest_event_says_and_keeps_what_was_said_before(
    projection: Any, append: Any, build: Any
) -> None:
    positions = [
        append([event])[0].position
        for event in (
            endpoint(build, "created", promise=variants.PROMISE, **variants.PLACED),
            endpoint(build, "ready", workers=2, memory_bytes=310_000_000),
            endpoint(build, "scaled", workers=4),
            endpoint(build, "failed", reason="the process was killed."),
            endpoint(build, "failed-over", reason="onnxruntime took over.", execution={"platform": "onnxruntime"}),
            endpoint(build, "removed"),
            endpoint(build, "ready", "other"),
        )
    ]
    states = [
        next(row["state"] for row in view(projection, "endpoints", at) if row["endpoint"] == "digits")
        for at in positions[:6]
    ]
    assert states == ["creating", "ready", "ready", "failed", "ready", "removed"]
    digits, other = view(projection, "endpoints")
    assert (digits["platform"], digits["hardware_id"], digits["workers"]) == ("onnxruntime", HARDWARE, 4)
    assert (digits["memory_bytes"], digits["reason"], digits["changes"]) == (310_000_000, None, 6)
    assert (digits["promise_latency_ms"], digits["promise_percentile"], digits["promise_coverage"]) == (
        12.1,
        "p50",
        0.8,
    )
    assert (other["state"], other["promise_latency_ms"], other["promise_percentile"]) == ("ready", None, None)


def test_a_delivery_stands_beside_its_promise(projection: Any, append: Any, build: Any) -> None:
    promise = {**variants.PROMISE, "percentile": "p95"}
    append(
        [
            delivery(build),
            delivery(build, "broken", 20.0, 15, promise=promise),
            delivery(build, "undecided", promise=None),
        ]
    )
    rows = view(projection, "deliveries")
    assert [(row["verdict"], row["delivered_ms"], row["promise_high_ms"]) for row in rows] == [
        ("kept", 12.4, 13.0), ("broken", 26.0, 13.0), ("undecided", None, None),
    ]  # fmt: skip
    assert rows[0]["since"] == datetime(2026, 11, 20, 14, tzinfo=UTC)
    assert (rows[0]["requests"], rows[0]["failures"], rows[0]["request_p50_ms"]) == (1200, 3, 13.0)
