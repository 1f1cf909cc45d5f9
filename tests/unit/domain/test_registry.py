"""The registry: states by what was seen, coverage by family and platform, and commands for what was never tried."""

from __future__ import annotations

from typing import Any

import pytest

from domain.catalogues.models import find
from domain.catalogues.registry import (
    MEASURED_ON,
    best_measured,
    coverage,
    gaps,
    missing,
    platforms_of,
    state_of,
    untried,
)
from domain.vocabulary import CATEGORIES, PLATFORMS
from runner.platforms.registry import names, word

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


def test_missing_are_the_precisions_in_which_others_were_tried_on_the_same_platform() -> None:
    own = [row("a", "cpu", FAILED, "fp32"), row("a", "cpu", SKIPPED, "int8")]
    ran = [
        *own, row("b", "cpu", precision="int8"), row("b", "cpu", precision="bf16"), row("b", "cpu", precision=None),
        row("b", "cuda", precision="fp16"), row("c", "cpu", SKIPPED, "fp8"),
    ]  # fmt: skip
    assert missing(own, ran) == [{"platform": "cpu", "precision": one} for one in ("bf16", "int8")]


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
    elsewhere = {**row("microsoft/resnet-50", "cuda"), "hardware": ["theirs"]}
    skipped = row("assay/distilbert-small", "openvino", SKIPPED)
    ran = [row("google-bert/bert-base-uncased", "openvino"), skipped, elsewhere]
    found = gaps(ran, {"one"}, most=1000)
    assert {gap["platform"] for gap in found if gap["at_hand"]} == {"cpu", "openvino"}
    assert [gap["at_hand"] for gap in found] == sorted((gap["at_hand"] for gap in found), reverse=True)
    (embedding,) = [gap for gap in found if (gap["category"], gap["platform"]) == ("embedding", "openvino")]
    assert embedding["never_tried"] == embedding["families"] - 1
    words = embedding["command"].split()
    assert words[:2] == ["assay", "verify"]
    assert words[-2:] == ["--platform", "openvino"]
    assert {find(name).variant for name in words[2:-2]} == {"small"}
    assert "prajjwal1/bert-tiny" not in words, "another model of its family was tried"
    assert {gap["category"] for gap in found} == set(CATEGORIES)
    assert {gap["platform"] for gap in gaps(ran, {"one"}, platforms=["cuda"])} == {"cuda"}
    assert {gap["category"] for gap in gaps(ran, {"one"}, category="vision")} == {"vision"}


def test_there_is_a_command_only_where_something_of_ours_measures() -> None:
    assert set(MEASURED_ON) == {word(name) for name in names()}
    assert gaps([], set(), platforms=["tpu"]) == []
    added = row("acme/tiny", "tpu")
    assert {gap["platform"] for gap in gaps([added], {"one"}, platforms=["tpu"])} == {"tpu"}


def test_small_variants_stand_for_their_family_where_they_were_tried_and_are_no_gap_where_not() -> None:
    models = [model("acme/vit"), model("assay/vit-small")]
    (cell,) = coverage(models, [row("acme/vit")], ["cpu"])
    assert (cell["models"], cell["tried_share"]) == (1, 1.0)
    (cell,) = coverage(models, [row("assay/vit-small")], ["cpu"])
    assert (cell["models"], cell["tried"], cell["never_tried"]) == (2, 1, ["acme/vit"])


def test_the_fastest_is_told_for_the_work_that_was_measured_on_most_hardware() -> None:
    def measured(hardware: str, p50: float, batch: int, length: int = 128, **more: Any) -> dict[str, Any]:
        unset = dict.fromkeys(("scenario", "image_size", "images", "audio_seconds", "frames", "input_tokens"))
        return {
            **unset, "output_tokens": None, "steps": None, "mode": "inference", "sequence_length": length, "hardware_id": hardware,
            "hardware_count": 1, "platform": "cpu", "precision": "fp32", "batch_size": batch, "throughput_per_s": None,
            "tokens_per_s": None, "latency_p50_ms": p50, "latency_mean_ms": None, "origin": "measured",
            "event_id": f"{hardware}-{batch}", "position": 1, **more,
        }  # fmt: skip

    rows = [
        measured("a", 10.0, 1), measured("a", 20.0, 8), measured("b", 1.0, 1), measured("b", 10.0, 8, platform="cuda"),
        measured("c", 0.001, 1, length=8),
        measured("d", 0.0, 1, latency_p50_ms=None, tokens_per_s=9e9),
    ]  # fmt: skip
    best = best_measured(rows)
    assert [(one["hardware"], one["platform"], one["throughput"]) for one in best] == [
        ("b", "cpu", 1000.0), ("b", "cuda", 800.0), ("a", "cpu", 400.0),
    ]  # fmt: skip
    assert best[0]["evidence"] == "b-1"
    assert best[0]["work"] == {"mode": "inference", "sequence_length": 128}
    assert best_measured([]) == []
    (tokens,) = best_measured(rows[-1:])
    assert (tokens["unit"], tokens["throughput"]) == ("tokens/s", 9e9)
