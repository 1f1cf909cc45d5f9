"""The registry: states by what was seen, coverage by family and platform, and commands for what was never tried."""

from __future__ import annotations

from typing import Any

import pytest

from domain.models import find
from domain.registry import coverage, gaps, platforms_of, state_of, untried
from domain.vocabulary import CATEGORIES, PLATFORMS

FACTS = ("built", "ran", "verified", "measured")
VERIFIED = (True, True, True, False)
MEASURED = (True, True, None, True)
WRONG = (True, True, False, True)
BROKEN = (False, False, False, None)
FAILED = (False, False, None, False)
SKIPPED = (None, None, None, None)


def row(model: str, platform: str = "cpu", facts: Any = VERIFIED, precision: str | None = "fp32") -> dict[str, Any]:
    return {
        "model_id": model, "platform": platform, "precision": precision, **dict(zip(FACTS, facts, strict=True)),
        "measurements": 1, "hardware": ["one"], "why_not": None, "evidence": "e",
    }  # fmt: skip


def model(name: str, family: str = "bert", category: str = "embedding") -> dict[str, Any]:
    return {"id": name, "family": family, "category": category}


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (VERIFIED, "verified"), (MEASURED, "measured"), (WRONG, "failed"), (BROKEN, "failed"), (FAILED, "failed"),
        (SKIPPED, "missing"), ((True, True, None, False), "failed"),
    ],
)  # fmt: skip
def test_the_state_is_what_was_seen_last(facts: Any, state: str) -> None:
    assert state_of(row("a", facts=facts)) == state


def test_platforms_come_in_the_vocabularys_order_with_the_best_precision_first() -> None:
    rows = [row("a", "openvino"), row("a", "cpu", FAILED, "bf16"), row("a", "cpu", VERIFIED, "fp32"), row("a", "zz")]
    assert [(one["platform"], one["precision"], one["state"]) for one in platforms_of(rows)] == [
        ("cpu", "fp32", "verified"), ("cpu", "bf16", "failed"), ("openvino", "fp32", "verified"),
        ("zz", "fp32", "verified"),
    ]  # fmt: skip
    assert "cpu" not in untried(rows)
    assert "cuda" in untried([*rows, row("a", "cuda", SKIPPED)])


def test_a_model_counts_once_a_platform_by_its_best_precision() -> None:
    models = [model("a"), model("b"), model("c"), model("v", "vit", "vision")]
    ran = [row("a", "cpu", FAILED, "bf16"), row("a"), row("b", "cpu", FAILED), row("c", "cpu", SKIPPED)]
    cells = {(one["family"], one["platform"]): one for one in coverage(models, ran)}
    bert = cells["bert", "cpu"]
    assert (bert["models"], bert["tried"], bert["tried_share"]) == (3, 2, 0.6667)
    assert (bert["verified"], bert["measured"], bert["failed"], bert["missing"]) == (1, 0, 1, 1)
    assert bert["precisions"] == ["bf16", "fp32"]
    assert bert["never_tried"] == ["c"]
    assert cells["bert", "cuda"]["tried"] == 0
    assert cells["vit", "cpu"]["never_tried"] == ["v"]
    assert {platform for _, platform in cells} == {*PLATFORMS} - {"other"}
    assert {one["platform"] for one in coverage(models, ran, ["cuda"])} == {"cuda"}


def test_gaps_come_first_where_a_machine_is_at_hand_and_their_commands_take_small_models() -> None:
    ran = [row("google-bert/bert-base-uncased", "openvino"), row("assay/distilbert-small", "openvino", SKIPPED)]
    found = gaps(ran, most=1000)
    assert found[0]["platform"] == "openvino"
    assert [gap["at_hand"] for gap in found] == sorted((gap["at_hand"] for gap in found), reverse=True)
    (embedding,) = [gap for gap in found if (gap["category"], gap["platform"]) == ("embedding", "openvino")]
    assert embedding["never_tried"] == embedding["families"] - 1
    words = embedding["command"].split()
    assert words[:2] == ["assay", "verify"]
    assert words[-2:] == ["--platform", "openvino"]
    assert {find(name).variant for name in words[2:-2]} == {"small"}
    assert "prajjwal1/bert-tiny" not in words, "another model of its family was tried"
    assert {gap["category"] for gap in found} == set(CATEGORIES)
    assert {gap["platform"] for gap in gaps(ran, platforms=["cuda"])} == {"cuda"}
    assert {gap["category"] for gap in gaps(ran, category="vision")} == {"vision"}
