"""Rows that must not move what is said of single calls: served, stated, or beyond what a device's physics allows."""

from __future__ import annotations

from typing import Any

import pytest

from predictor.answering.question import PredictQuestion, Question

L4 = "nvidia-l4"
ASKED = (
    ("bert-base-uncased", L4),
    ("google/vit-base-patch16-224", L4),
    ("resnet50", L4),
    ("prajjwal1/bert-tiny", "nvidia-h100-sxm"),
)


def predicted(service: Any, model: str, hardware: str, **asked: Any) -> dict[str, Any]:
    question = {"model": model, "hardware": hardware, "platform": "cuda", "precision": "fp16", **asked}
    return service.answers.predict(PredictQuestion(**question))


@pytest.fixture
def slow(build: Any) -> Any:
    """A measurement of gpt2 on an L4 that took five seconds."""

    def made(workload: dict[str, Any], device: str | None = None, p50: float = 5000.0, **parts: Any) -> dict[str, Any]:
        subject = {"model": "gpt2", "hardware": L4, "platform": "cuda", "precision": "fp16", **parts}
        event = build.measurement(p50, **subject)
        event["data"]["workload"] = {"mode": "inference", "batch_size": 1, **workload}
        event["data"]["execution"]["runtime"] = {"name": "torch", "version": "2.9.1"}
        if device is not None:
            event["data"]["observed"] = {"device": device}
        return event

    return made


def test_served_and_stated_rows_do_not_move_single_calls(service: Any, told: Any, slow: Any) -> None:
    before = [predicted(service, *question) for question in ASKED]
    tokens = {"input_tokens": 128, "output_tokens": 32}
    told(
        *(slow({"scenario": "serving", "concurrency": count, **tokens}, "stated") for count in (1, 4)),
        slow({"scenario": "serving", "concurrency": 1, **tokens}),
        slow({"scenario": "server", "sequence_length": 128}),
        slow({"scenario": "single_stream", "sequence_length": 128}, "stated"),
        slow({"scenario": "offline", "sequence_length": 128}, "stated"),
    )
    for question, first in zip(ASKED, before, strict=True):
        after = predicted(service, *question)
        assert (after["basis"], after["latency_ms"]) == (first["basis"], first["latency_ms"])
        assert after["evidence"] == []


def test_a_row_that_physics_does_not_allow_calibrates_nothing_and_is_named(service: Any, told: Any, slow: Any) -> None:
    question = ("resnet50", L4)
    before = predicted(service, *question, precision="amp-fp16", batch_size=256)
    rows = [
        slow({"image_size": 224, "batch_size": 256}, model=model, p50=p50, precision="amp-fp16")
        for model, p50 in (("timm/resnet101", 90_000.0), ("timm/resnet34", 0.01))
    ]
    told(*rows)
    after = predicted(service, *question, precision="amp-fp16", batch_size=256)
    assert (after["basis"], after["latency_ms"]) == (before["basis"], before["latency_ms"])
    (note,) = after["notes"]
    assert all(row["id"] in note for row in rows)
    (contradiction,) = service.answers.predictor_info()["contradictions"]
    assert sorted(contradiction["evidence"]) == sorted(row["id"] for row in rows)
    assert min(contradiction["factors"]) < 0.5 < 20 < max(contradiction["factors"])


def test_of_many_devices_with_such_rows_an_answer_says_how_many(service: Any, told: Any, slow: Any) -> None:
    devices = (L4, "nvidia-a10g", "nvidia-l40s")
    told(
        *(
            slow(
                {"image_size": 224, "batch_size": 256},
                model="timm/resnet101",
                p50=90_000.0,
                precision="amp-fp16",
                hardware=name,
            )
            for name in devices
        )
    )
    (note,) = service.answers.recommend(Question(model="resnet50"))["notes"]
    assert note.startswith("3 rows of 3 devices calibrate nothing")
    (note,) = service.answers.recommend(Question(model="resnet50", hardware=[L4]))["notes"]
    assert note.startswith(f"1 row of {L4} on cuda calibrates nothing")
