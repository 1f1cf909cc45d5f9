"""The next best measurements, asked of a real log: what is open, what is worth its seconds, and plans that run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from domain.catalogues.models import in_category
from domain.errors import ProjectionBehind, UnknownHardware, UnknownModel, UsageError
from predictor.answering.question import PredictQuestion, Question
from predictor.suggesting.question import SuggestQuestion
from runner.campaign.plan_file import read_plan

CPU, GPU = "intel-xeon-2c", "nvidia-l4"
MODELS = [model.id for model in in_category("vision")][:8]
"""Of the catalogue, because a plan with a model that the runner cannot build is refused; the traces are made up."""


@pytest.fixture
def traced(build: Any, make_trace: Any) -> Any:
    def made(model: str, seed: int = 3) -> Any:
        return build.event("assay.model.traced.v1", make_trace(model, "net", "vision", seed))

    return made


@pytest.fixture
def described(build: Any) -> Any:
    figure = {"value": 1e11, "status": "measured"}
    data = {
        "hardware": {"id": CPU, "kind": "cpu", "count": 1}, "name": "Xeon, 2 cores", "vendor": "Intel",
        "platforms": [
            {"platform": name, "available": True, "precisions": ["fp32", "bf16"]} for name in ("cpu", "openvino")
        ],
        "spec": {
            "peak_flops": {"fp32": figure, "bf16": figure},
            "memory_bandwidth_bytes_per_s": {"value": 2e10, "status": "measured"},
        },
    }  # fmt: skip
    return build.event("assay.hardware.described.v1", data)


@pytest.fixture
def measured(build: Any) -> Any:
    def made(model: str, p50: float = 50.0, batch: int = 1, platform: str = "cpu", precision: str = "fp32") -> Any:
        event = build.measurement(p50, model=model, hardware=CPU, platform=platform, precision=precision)
        event["data"]["workload"] = {
            "mode": "inference", "scenario": "single_stream", "batch_size": batch, "image_size": 224,
        }  # fmt: skip
        return event

    return made


@pytest.fixture
def own_gpu(build: Any) -> Any:
    data = {
        "hardware": {"id": GPU, "kind": "gpu", "count": 1}, "name": "NVIDIA L4", "vendor": "NVIDIA",
        "platforms": [{"platform": "cuda", "available": True, "precisions": ["fp32", "fp16", "bf16"]}], "spec": {},
    }  # fmt: skip
    return build.event("assay.hardware.described.v1", data)


def suggest(service: Any, budget_s: float = 300.0, **asked: Any) -> dict[str, Any]:
    answer: dict[str, Any] = service.answers.suggest(SuggestQuestion(budget_s=budget_s, **asked))
    assert answer["seconds"] <= budget_s
    steps = [*answer["calibrations"], *answer["runs"]]
    assert answer["seconds"] == pytest.approx(sum(step["seconds"] for step in steps), abs=1.0)
    return answer


def test_without_questions_every_traced_model_is_open_on_own_hardware(
    service: Any, told: Any, traced: Any, described: Any
) -> None:
    told(described, *(traced(model, seed) for seed, model in enumerate(MODELS)))
    answer = suggest(service)
    # Eight models, two platforms, two precisions, two batch sizes.
    assert answer["questions"] == {"source": "traced", "models": 8, "open": 64, "measured": 0}
    ways = [(run["platform"], run["precision"]) for run in answer["runs"]]
    # One way of running is learned after the other: nothing of a second run is as new as the first of another way.
    assert len(set(ways[:4])) == 4
    assert answer["notes"] == []
    assert all(run["why"].startswith("first measurement of ") and run["helps"] > 5 for run in answer["runs"][:4])
    expected = answer["expected"]
    assert 0 < expected["error_after"] < 0.8 * expected["error_before"]
    assert suggest(service) == answer


def test_more_budget_lowers_more_and_too_little_says_what_is_needed(
    service: Any, told: Any, traced: Any, described: Any
) -> None:
    told(described, *(traced(model, seed) for seed, model in enumerate(MODELS)))
    little, more = (suggest(service, budget) for budget in (60.0, 600.0))
    assert more["expected"]["error_after"] < little["expected"]["error_after"]
    assert [run["model"] for run in more["runs"]][: len(little["runs"])] == [run["model"] for run in little["runs"]]
    none = suggest(service, 1.0)
    assert none["runs"] == []
    assert "the shortest takes about" in none["abstained"]
    assert len(suggest(service, 600.0, top=2)["runs"]) == 2


def test_what_is_measured_is_not_suggested_again(
    service: Any, told: Any, traced: Any, described: Any, measured: Any
) -> None:
    told(described, *(traced(model, seed) for seed, model in enumerate(MODELS)))
    asked = {"platform": "cpu", "precision": "fp32", "batch_sizes": [1]}
    before = suggest(service, **asked)
    first = before["runs"][0]["model"]
    told(measured(first))
    after = suggest(service, **asked)
    assert first not in [run["model"] for run in after["runs"]]
    assert after["questions"]["open"] == before["questions"]["open"] - 1
    told(*(measured(model) for model in MODELS))
    done = suggest(service, **asked)
    assert (done["runs"], done["questions"]["open"]) == ([], 0)
    assert done["abstained"].startswith("Nothing is open")


def test_recorded_questions_are_what_is_open(service: Any, told: Any, build: Any, traced: Any, described: Any) -> None:
    told(described, *(traced(model, seed) for seed, model in enumerate(MODELS)))
    question = Question(model=MODELS[3], platform="openvino", batch_sizes=[4])
    answer = service.answers.recommend(question)
    data = {
        "recommendation": answer["id"], "position": answer["position"], "question": answer["question"],
        "answer": answer,
    }  # fmt: skip
    told(build.event("assay.recommendation.issued.v1", data))
    found = suggest(service)
    assert found["questions"]["source"] == "recorded"
    assert {(run["model"], run["platform"], run["batch_size"]) for run in found["runs"]} == {(MODELS[3], "openvino", 4)}
    alone = {"model": MODELS[5], "hardware": CPU, "platform": "cpu", "precision": "bf16", "batch_size": 2}
    predicted = service.answers.predict(PredictQuestion(**alone))
    told(build.event("assay.prediction.issued.v1", {**data, "prediction": "p", "question": alone, "answer": predicted}))
    both = {(run["model"], run["batch_size"]) for run in suggest(service)["runs"]}
    assert both == {(MODELS[3], 4), (MODELS[5], 2)}
    named = suggest(service, models=MODELS[:2])
    assert named["questions"]["source"] == "asked"
    assert {run["model"] for run in named["runs"]} == set(MODELS[:2])


def test_a_model_that_nothing_can_be_predicted_of_is_run_for_its_trace(
    service: Any, told: Any, traced: Any, described: Any, build: Any
) -> None:
    sent = build.event("assay.model.described.v1", {"model": {"id": "acme/untraced"}, "config": {"model_type": "bert"}})
    told(described, traced(MODELS[0]), sent)
    answer = suggest(service, models=[MODELS[0], "acme/untraced"])
    (run,) = [run for run in answer["runs"] if run["model"] == "acme/untraced"]
    assert "operator trace" in run["why"]
    assert run["basis"] == "abstained"


def test_plans_are_what_the_runner_takes_one_a_device(
    service: Any, told: Any, traced: Any, described: Any, tmp_path: Path
) -> None:
    told(described, *(traced(model, seed) for seed, model in enumerate(MODELS)))
    answer = suggest(service, 600.0, hardware=[CPU, "nvidia-l4"])
    assert {device["hardware"]: device["own"] for device in answer["devices"]} == {CPU: True, "nvidia-l4": False}
    for device in answer["devices"]:
        path = tmp_path / f"{device['hardware']}.yaml"
        path.write_text(yaml.safe_dump(device["plan"], sort_keys=False))
        theirs = [run for run in answer["runs"] if run["hardware"] == device["hardware"]]
        sweeps = read_plan(path).sweeps
        cases = [
            (model, sweep.platforms, sweep.precisions, sweep.batch_sizes) for sweep in sweeps for model in sweep.models
        ]
        assert cases == [
            (run["model"], (run["platform"],), (run["precision"],), (run["batch_size"],)) for run in theirs
        ]  # fmt: skip
        assert device["runs"] == len(theirs)


def test_nothing_known_and_nothing_wrong_are_told_apart(service: Any, told: Any, traced: Any) -> None:
    told(traced(MODELS[0]))
    assert suggest(service)["abstained"].startswith("No hardware of yours is known")
    for wrong, error in (
        ({"models": ["bert-base-uncasd"]}, UnknownModel),
        ({"hardware": ["nvidia-l5"]}, UnknownHardware),
        ({"budget_s": 0.0}, UsageError),
        ({"as_of": 99}, ProjectionBehind),
    ):
        with pytest.raises(error):
            service.answers.suggest(SuggestQuestion(**{"budget_s": 60.0, **wrong}))


def test_as_of_a_position_the_answer_is_that_of_then(
    service: Any, told: Any, traced: Any, described: Any, measured: Any
) -> None:
    told(described, *(traced(model, seed) for seed, model in enumerate(MODELS)))
    then = suggest(service)
    told(*(measured(model) for model in MODELS))
    assert suggest(service, as_of=then["position"])["runs"] == then["runs"]
    assert suggest(service)["runs"] != then["runs"]


def test_a_device_of_ones_own_without_kernels_is_calibrated_first(
    service: Any, told: Any, traced: Any, own_gpu: Any, build: Any
) -> None:
    told(own_gpu, *(traced(model, seed) for seed, model in enumerate(MODELS)))
    asked = {"platform": "cuda", "precision": "fp16", "batch_sizes": [1]}
    answer = suggest(service, 600.0, **asked)
    (first,) = answer["calibrations"]
    assert (first["hardware"], first["platform"]) == (GPU, "cuda")
    assert first["command"] == "assay calibrate --platform cuda"
    assert first["answers"] == len(MODELS) == answer["questions"]["open"]
    assert 0.4 * first["error_before"] < first["error_after"] < 0.9 * first["error_before"]
    assert answer["expected"]["error_after"] < answer["expected"]["error_before"]
    assert suggest(service, 600.0, **asked) == answer

    told(build.kernels(hardware=GPU, platform="cuda", precision="fp16"))
    after = suggest(service, 600.0, **asked)
    assert after["calibrations"] == []
    assert after["runs"]


def test_a_calibration_needs_its_two_minutes_and_open_answers_that_rest_on_kernels(
    service: Any, told: Any, traced: Any, own_gpu: Any
) -> None:
    told(own_gpu, *(traced(model, seed) for seed, model in enumerate(MODELS)))
    asked = {"platform": "cuda", "precision": "fp16", "batch_sizes": [1]}
    assert suggest(service, 119.0, **asked)["calibrations"] == []
    alone = suggest(service, 121.0, **asked)
    assert (len(alone["calibrations"]), alone["runs"], alone["abstained"]) == (1, [], None)
    assert suggest(service, 600.0, hardware=["nvidia-a40"], **asked)["calibrations"] == []
