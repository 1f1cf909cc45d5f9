"""What may be called covered, what a measurement does to an interval, and when nothing is recommended."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from predictor.answering.question import PredictQuestion, Question
from predictor.features.devices import PUBLISHED_DESCRIPTIONS, PUBLISHED_RUNS

DATA = Path(__file__).parents[3] / "data"
RESNET, BERT, EPYC = "timm/resnet50", "bert-base-uncased", "amd-epyc-7763"
TINY = "prajjwal1/bert-tiny"


def predicted(service: Any, hardware: str, **asked: Any) -> dict[str, Any]:
    question = {"model": RESNET, "hardware": hardware, "platform": "cuda", "precision": "amp-fp16", **asked}
    return service.answers.predict(PredictQuestion(**question))


# NVIDIA/DeepLearningExamples, ResNet-50 v1.5 in PyTorch with autocast, ms.
@pytest.mark.parametrize(("hardware", "batch_size", "latency_ms"), [("nvidia-t4", 1, 12.96), ("nvidia-v100-sxm2-16gb", 4, 13.41)])  # fmt: skip
def test_a_batch_near_which_the_trees_did_not_train_is_predicted_from_kernels(
    service: Any, hardware: str, batch_size: int, latency_ms: float
) -> None:
    answer = predicted(service, hardware, batch_size=batch_size)
    assert answer["method"] == "general" and answer["interval_covered"] is True
    assert answer["latency_ms_low"] < latency_ms < answer["latency_ms_high"]
    # The row is of 2020: today's software on today's host takes less.
    assert 0.3 < answer["latency_ms"] / latency_ms < 1.0


def test_what_trained_widely_near_the_question_is_covered(service: Any) -> None:
    trained = [predicted(service, "nvidia-rtx-4090", batch_size=size) for size in (1, 8, 256, 1024)]
    assert [answer["method"] for answer in trained] == ["general", "general", "trees", "trees"]
    assert [answer["interval_covered"] for answer in trained] == [True] * 4
    assert predicted(service, "nvidia-rtx-4080", batch_size=1024)["method"] == "trees"
    # The trees never saw a Volta; kernels and published rows of one did.
    assert predicted(service, "nvidia-v100-sxm2-16gb", batch_size=1024)["method"] == "general"


@pytest.mark.parametrize(("precision", "covered"), [("fp8", True), ("bf16", True), ("int4", False)])
def test_served_precisions_of_one_model_alone_are_not_covered(service: Any, precision: str, covered: bool) -> None:
    sizes = {"input_tokens": 1024, "output_tokens": 256, "concurrency": 16}
    question = {"model": "meta-llama/Llama-3.1-8B", "precision": precision, **sizes}
    assert predicted(service, "nvidia-h100-sxm", **question)["interval_covered"] is covered


def test_a_measurement_never_widens_an_interval(service: Any, told: Any, build: Any) -> None:
    asked = [
        {"model": RESNET, "hardware": "nvidia-l4", "platform": "cuda", "precision": "amp-fp16", "batch_size": size}
        for size in (1, 256)
    ] + [{"model": BERT, "hardware": EPYC, "platform": "cpu", "precision": "fp32", "batch_size": 1}]
    before = [predicted(service, **question) for question in asked]
    shots = []
    for question, answer in zip(asked, before, strict=True):
        other = "distilbert-base-uncased" if question["model"] == BERT else "timm/resnet101"
        sizes = {"sequence_length": 128} if question["model"] == BERT else {"image_size": 224}
        shot = build.measurement(
            answer["latency_ms"] * 2, model=other, hardware=question["hardware"], platform=question["platform"],
            precision=question["precision"],
        )  # fmt: skip
        shot["data"]["workload"] = {"mode": "inference", "batch_size": question["batch_size"], **sizes}
        shot["data"]["execution"]["runtime"] = {"name": "torch", "version": "2.9.1"}
        shots.append(shot)
    told(*shots)
    for question, first in zip(asked, before, strict=True):
        after = predicted(service, **question)
        assert after["basis"] == "calibrated"
        widths = [answer["latency_ms_high"] / answer["latency_ms_low"] for answer in (first, after)]
        assert widths[1] <= widths[0] * (1 + 1e-5)


def test_one_that_ties_with_an_unchecked_first_is_enough_in_any_company(service: Any, told: Any, build: Any) -> None:
    # No row near such a batch trained, so that no measurement supports an interval.
    question = {
        "model": TINY,
        "platform": "cuda",
        "precision": "fp16",
        "objective": "throughput",
        "batch_sizes": [32768],
    }
    everything = service.answers.recommend(Question(**question, top=1000))
    first = everything["ranked"][0]["hardware"]
    tied = next(row["hardware"] for row in everything["ranked"] if row["hardware"] != first and row["tied_with"])
    last = [
        row["hardware"] for row in everything["ranked"] if row["latency_ms"] > 5 * everything["ranked"][0]["latency_ms"]
    ]
    worse = list(dict.fromkeys(last))[:5]
    assert len(worse) == 5
    for company in ([first, tied], [first, tied, *worse]):
        asked = {**question, "hardware": company}
        answer = service.answers.recommend(Question(**asked))
        assert answer["ranked"][0]["hardware"] == first
        assert answer["abstained"]
    assert service.answers.recommend(Question(**{**asked, "hardware": [first, *worse]}))["abstained"] is None
    took = everything["ranked"][0]["latency_ms"]
    shot = build.measurement(took, model=TINY, hardware=first, platform="cuda", precision="fp16")
    shot["data"]["workload"] = {"mode": "inference", "batch_size": 32768, "sequence_length": 128}
    told(shot)
    assert service.answers.recommend(Question(**asked))["abstained"] is None


def published() -> list[dict[str, Any]]:
    events = []
    for path in sorted(DATA.glob("*.ndjson.gz")):
        with gzip.open(path, "rt") as lines:
            events += [json.loads(line) for line in lines]
    return events


def test_a_machine_of_the_published_files_is_nobodys_own(service: Any, told: Any, build: Any) -> None:
    events = published()
    assert {event["id"] for event in events if event["type"] == "assay.hardware.described.v1"} == {
        *PUBLISHED_DESCRIPTIONS
    }
    assert {event["data"]["run_id"] for event in events if event["type"] == "assay.run.started.v1"} == {*PUBLISHED_RUNS}
    told(*events)
    asked = Question(model=BERT, hardware="own")
    answer = service.answers.recommend(asked)
    assert (answer["ranked"], answer["excluded"]) == ([], [])
    described = next(event for event in events if event["type"] == "assay.hardware.described.v1")
    told(build.event("assay.hardware.described.v1", described["data"]))
    assert {row["hardware"] for row in service.answers.recommend(asked)["ranked"]} == {
        described["data"]["hardware"]["id"]
    }
