"""Recommendations with variants: which may be proposed, what they cost, and why the others are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from domain.errors import ImpossibleConstraint
from predictor.answering.question import Device, Question
from predictor.capacity.question import FitQuestion
from tests.variants import BASE, HARDWARE, experiment, name_of, quality, variant

Json = dict[str, Any]


@pytest.fixture
def ask(service: Any, told: Callable[..., Any], build: Any) -> Callable[..., Json]:
    """Ask about the whole experiment of tests.variants, of which every configuration is listed unless it is said otherwise."""
    told(*experiment(build))

    def recommend(*, model: str = BASE, **limits: Any) -> Json:
        defaults = {"hardware": [HARDWARE], "top": 100, "per_hardware": False, "batch_sizes": [1]}
        answer: Json = service.answers.recommend(Question(model=model, **{**defaults, **limits}))
        return answer

    return recommend


def recipes(answer: Json) -> set[tuple[str | None, str, str]]:
    return {
        (option["variant"]["recipe"] if "variant" in option else None, option["platform"], option["precision"])
        for option in answer["ranked"]
        if option["basis"] == "measured"
    }


def excluded(answer: Json, recipe: str) -> Json:
    return next(
        row for row in answer["excluded"] if row.get("variant") == name_of(recipe) and row["platform"] == "openvino"
    )


def test_every_option_that_is_a_variant_names_recipe_size_and_its_cost_or_that_nobody_evaluated_it(ask: Any) -> None:
    answer = ask()
    options = {option["variant"]["recipe"]: option["variant"] for option in answer["ranked"] if "variant" in option}
    assert set(options) == {
        "int8-ptq", "int8-qat", "int4-weights", "mixed", "prune-70", "prune-2:4", "distill-half", "onnx-optimised",
    }  # fmt: skip
    pruned = next(o for o in answer["ranked"] if "variant" in o and o["variant"]["recipe"] == "prune-2:4")
    loss = pruned["variant"]["quality"]
    assert (loss["loss"], loss["low"], loss["high"], loss["unit"], loss["examples"]) == (5.3, 4.2, 6.4, "pt", 2000)
    assert pruned["variant"]["model"] == name_of("prune-2:4") and pruned["variant"]["base_bytes"] == 346_293_852
    assert pruned["command"].startswith(f"assay bench {name_of('prune-2:4')} ")
    assert options["int4-weights"]["quality"] is None
    first = answer["ranked"][0]
    assert (first["variant"]["recipe"], first["platform"], first["variant"]["form"]) == (
        "int8-ptq",
        "openvino",
        "openvino",
    )
    assert first["variant"]["bytes"] == 88_400_000


def test_a_variant_is_proposed_only_where_the_upper_end_of_its_loss_is_within_the_limit(ask: Any) -> None:
    answer = ask(max_quality_loss_pt=0.5)
    assert {recipe for recipe, _, _ in recipes(answer)} == {None, "int8-ptq", "int8-qat", "prune-70", "onnx-optimised"}
    assert "5.3 pt (4.2 to 6.4; 2,000 examples) against 0.5" in excluded(answer, "prune-2:4")["detail"]
    # The estimate is within, the interval is not: four times as far from the estimate as 0.3 points, so 2,000 × (0.7/0.3)².
    assert "about 10,900 would be needed" in excluded(answer, "mixed")["detail"]
    assert f"assay compress {BASE} --recipe int4-weights --eval" in excluded(answer, "int4-weights")["detail"]
    met = {row["constraint"]: row for row in answer["ranked"][0]["meets"]}["max_quality_loss_pt"]
    assert (met["limit"], met["value"], met["probability"], met["exact"]) == (0.5, 0.4, 1.0, True)


def test_the_model_itself_in_fp32_costs_nothing_and_in_another_precision_what_was_measured(ask: Any) -> None:
    answer = ask(max_quality_loss_pt=0.0)
    assert recipes(answer) == {
        (None, "openvino", "fp32"), (None, "onnxruntime", "fp32"), (None, "cpu", "fp32"),
        ("onnx-optimised", "openvino", "fp32"), ("onnx-optimised", "onnxruntime", "fp32"),
    }  # fmt: skip
    answer = ask(max_quality_loss_pt=0.2)
    reduced = next(o for o in answer["ranked"] if "variant" not in o and o["precision"] == "bf16")
    assert (reduced["platform"], reduced["quality"]["loss"], reduced["quality"]["high"]) == ("openvino", 0.05, 0.2)


def test_a_precision_that_nobody_evaluated_is_left_out_with_the_command_that_does_it(ask: Any) -> None:
    rows = [row for row in ask(max_quality_loss_pt=0.5)["excluded"] if "--precision" in row["detail"]]
    assert rows and not any("variant" in row for row in rows)
    for row in rows:
        (precision,) = row["precisions"]
        assert f"--precision {precision} --platform {row['platform']} --eval" in row["detail"]


def test_the_size_of_what_is_kept_on_disk_can_be_limited(ask: Any) -> None:
    answer = ask(max_size_mb=100)
    assert {recipe for recipe, _, _ in recipes(answer)} == {"int8-ptq", "int8-qat", "int4-weights"}
    (itself,) = [
        row for row in answer["excluded"]
        if "variant" not in row and row["rule"] == "max_size_mb" and row["platform"] == "cpu"
    ]  # fmt: skip
    assert "346.3 MB against 100" in itself["detail"]
    nothing = ask(max_size_mb=10)
    assert nothing["ranked"] == [] and name_of("int4-weights") in nothing["abstained"]
    assert {(row["constraint"], row["would_do"]) for row in nothing["within_reach"]} == {("max_size_mb", 49.7)}


def test_per_device_the_model_itself_stands_beside_the_variant_that_beats_it(ask: Any) -> None:
    ranked = ask(per_hardware=True)["ranked"]
    assert ["variant" in option for option in ranked[:2]] == [True, False]
    assert ranked[1]["precision"] == "bf16" and ranked[0]["hardware"] == ranked[1]["hardware"] == HARDWARE
    alone = ask(per_hardware=True, objective="latency", max_quality_loss_pt=0.0, platform=["cpu"])["ranked"]
    assert [option.get("variant") for option in alone] == [None]


def test_the_worst_of_several_evaluations_counts_and_an_own_metric_is_no_loss_in_points(
    ask: Any, told: Any, build: Any
) -> None:
    name = name_of("int8-ptq")
    harder = {"name": "harder.npz", "digest": "sha256:" + "8" * 64, "examples": 2000}
    told(quality(build, name, (1.5, 1.0, 2.0), data=harder))
    assert "1.5 pt" in excluded(ask(max_quality_loss_pt=0.5), "int8-ptq")["detail"]
    other = {"metric": "perplexity", "unit": "nat", "direction": "lower"}
    told(quality(build, name_of("int4-weights"), (0.01, 0.0, 0.02), precision="int4", **other))
    assert "nat of perplexity" in excluded(ask(max_quality_loss_pt=0.5), "int4-weights")["detail"]


def test_asked_about_a_variant_itself_the_answer_says_what_it_costs(ask: Any) -> None:
    answer = ask(model=name_of("prune-70"))
    assert {option["variant"]["recipe"] for option in answer["ranked"]} == {"prune-70"}
    assert ask(model=name_of("prune-2:4"), max_quality_loss_pt=0.5)["ranked"] == []


def test_a_device_at_hand_runs_the_model_itself_unless_a_limit_is_of_variants(service: Any, ask: Any) -> None:
    at_hand = {"hardware": "all", "devices": [Device(hardware=HARDWARE, name="cpu")]}
    answer = ask(**at_hand)
    assert not any("variant" in option for option in answer["ranked"])
    assert "variant" not in answer["at_hand"]["order"][0]
    assert ask(**at_hand, max_size_mb=100)["at_hand"]["order"][0]["variant"] == name_of("int8-ptq")


def test_a_retracted_evaluation_costs_the_variant_its_place_and_as_of_gives_it_back(
    ask: Any, service: Any, told: Any, build: Any
) -> None:
    before = service.projection.position
    rows = [o["variant"]["quality"]["evidence"] for o in ask(max_quality_loss_pt=0.5)["ranked"] if "variant" in o]
    told(*(build.retraction(event_id=event) for event in set(rows)))
    assert {recipe for recipe, _, _ in recipes(ask(max_quality_loss_pt=0.5))} == {None}
    assert "int8-ptq" in {recipe for recipe, _, _ in recipes(ask(max_quality_loss_pt=0.5, as_of=before))}


def test_a_variant_that_was_never_measured_is_no_option_and_a_prediction_is_of_the_model_alone(
    service: Any, ask: Any, told: Any, build: Any
) -> None:
    told(variant(build, "prune-90", precision="fp32", forms={"checkpoint": 346.0}))
    assert "prune-90" not in {recipe for recipe, _, _ in recipes(ask())}


@pytest.mark.parametrize("limit", [{"max_quality_loss_pt": -0.1}, {"max_quality_loss_pt": 101}, {"max_size_mb": 0}])
def test_a_limit_that_cannot_be_is_refused_by_its_name(limit: Any) -> None:
    with pytest.raises(ImpossibleConstraint) as refused:
        Question(model=BASE, **limit).checked()
    assert refused.value.field == next(iter(limit))


def test_fit_names_the_variants_whose_measured_memory_fits_where_the_model_itself_does_not(
    ask: Any, service: Any
) -> None:
    del ask
    answer = service.answers.fit(FitQuestion(model=BASE, hardware=[HARDWARE], max_memory_mb=320))
    assert {entry["largest_batch"] for entry in answer["fits"]} == {0}
    fitting = [(row["variant"]["recipe"], row["platform"], row["peak_memory_bytes"]) for row in answer["variants"]]
    assert fitting[0] == ("int4-weights", "openvino", 259_700_000)
    assert {recipe for recipe, _, _ in fitting} == {"int4-weights", "int8-ptq", "int8-qat"}
    assert all(row["peak_memory_bytes"] <= row["room_bytes"] == 320_000_000 for row in answer["variants"])
    assert "variants" not in service.answers.fit(FitQuestion(model=BASE, hardware=[HARDWARE]))
