"""The bytes of answers: 200 questions to a small log, each answer compared with the digest in tests/golden/answers.

The bytes depend on the shipped predictor, the catalogues and the price list; after an intended change of one of them
write the file anew: ASSAY_WRITE_GOLDEN=1 pytest tests/integration/predictor/test_answer_bytes.py
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from domain.canonical import canonical
from domain.errors import AssayError
from ingest.projection import Tables
from predictor.answering.question import PredictQuestion, Question
from predictor.capacity.question import FitQuestion
from predictor.fleet.question import FleetQuestion, Load, Own
from predictor.suggesting.question import SuggestQuestion

GOLDEN = Path(__file__).parents[2] / "golden" / "answers" / "digests.json"
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
CPU, SMALL, LARGE = "intel-xeon-2c", "nvidia-l4", "nvidia-rtx-4090"
IMAGES, TEXT, UNTRACED = "acme/net", "acme/text", "acme/untraced"
SERVED = "meta-llama/Llama-3.1-8B"
SERVING: dict[str, Any] = {"input_tokens": 1024, "output_tokens": 256, "concurrency": 16}


@pytest.fixture
def log(build: Any, make_trace: Any, told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two traced models and one without a trace, measured, failed and imported on three devices, with prices."""
    monkeypatch.setattr(Tables, "recorded_at", lambda *_: NOW)

    def measurement(
        model: str, hardware: str, platform: str, precision: str, batch: int, p50: float, **more: Any
    ) -> Any:
        event = build.measurement(p50, model=model, hardware=hardware, platform=platform, precision=precision)
        event["data"]["workload"] = {"mode": "inference", "scenario": "single_stream", "batch_size": batch}
        event["data"]["workload"] |= {"sequence_length": 128} if model == TEXT else {"image_size": 224}
        event["data"]["metrics"] |= more
        return event

    def price(hardware: str, usd: float, **more: Any) -> Any:
        data = {"hardware": {"id": hardware, "kind": "gpu", "count": 1}, "provider": "tester", "usd_per_hour": usd}
        return build.event("assay.price.published.v1", {**data, "date": "2026-10-01", **more})

    figure = {"value": 1e11, "status": "measured"}
    described = {
        "hardware": {"id": CPU, "kind": "cpu", "count": 1},
        "name": "Xeon, 2 cores",
        "vendor": "Intel",
        "platforms": [
            {"platform": name, "available": True, "precisions": ["fp32", "bf16"]} for name in ("cpu", "openvino")
        ],
        "spec": {
            "peak_flops": {"fp32": figure, "bf16": figure},
            "memory_bandwidth_bytes_per_s": {"value": 2e10, "status": "measured"},
        },
    }
    imported = measurement(IMAGES, SMALL, "cuda", "fp32", 16, 31.0)
    imported["data"]["provenance"] = {"origin": "imported", "source": "a paper"}
    imported["data"]["metrics"]["latency_ms"] = {"mean": 31.0}
    served = measurement(SERVED, "nvidia-h100-sxm", "cuda", "bf16", 1, 1.0)
    served["data"]["workload"] |= {"scenario": "serving", "concurrency": 16, "input_tokens": 1024, "output_tokens": 256}
    served["data"]["workload"].pop("image_size")
    served["data"]["metrics"] = {"ttft_ms": 90.0, "tpot_ms": 11.5}
    failed = build.failure("out_of_memory", "run", model=IMAGES, hardware=SMALL, platform="cuda", precision="fp32")
    failed["data"]["workload"] = {"mode": "inference", "scenario": "single_stream", "batch_size": 64, "image_size": 224}
    unsupported = build.failure(
        "unsupported", "compile", model=TEXT, hardware=CPU, platform="openvino", precision="bf16"
    )
    events = [
        build.event("assay.hardware.described.v1", described),
        build.event("assay.model.traced.v1", make_trace(IMAGES, "net", "vision", 3)),
        build.event("assay.model.traced.v1", make_trace(TEXT, "text", "embedding", 5, sequence_length=128)),
        build.event("assay.model.traced.v1", make_trace(TEXT, "text", "embedding", 5, sequence_length=256)),
        measurement(IMAGES, CPU, "cpu", "fp32", 1, 48.0, peak_memory_bytes=900_000_000),
        measurement(IMAGES, CPU, "cpu", "fp32", 8, 301.5, energy_j=12.5, power_w=41.0),
        measurement(IMAGES, CPU, "openvino", "fp32", 1, 22.0),
        measurement(IMAGES, SMALL, "cuda", "fp16", 8, 9.25, peak_memory_bytes=1_400_000_000, energy_j=0.6),
        measurement(IMAGES, SMALL, "cuda", "fp16", 8, 9.5, peak_memory_bytes=1_400_000_000),
        measurement(IMAGES, LARGE, "cuda", "fp16", 8, 3.0, device_memory_bytes=2_000_000_000),
        measurement(TEXT, CPU, "cpu", "fp32", 1, 15.0),
        measurement(TEXT, SMALL, "cuda", "fp16", 8, 4.0),
        measurement(UNTRACED, SMALL, "cuda", "fp16", 8, 5.0),
        imported,
        served,
        failed,
        unsupported,
        price(SMALL, 1.0),
        price(LARGE, 2.0),
        price(LARGE, 0.9, spot=True, instance="spot-1", region="eu"),
    ]
    for number, event in enumerate(events, 1):
        event["id"] = str(uuid.UUID(int=(0x7 << 76) | (0x8 << 60) | number))
        event["time"] = "2026-03-01T00:00:00Z"
    told(*events)


def questions() -> Iterator[Any]:
    """Yield the questions; what they are stands in the golden file beside each digest."""
    yield from recommendations()
    yield from predictions()
    yield from fits()
    yield from fleets()
    for budget_s in (1.0, 60.0, 600.0):
        for models in ([], [IMAGES], [IMAGES, TEXT], [UNTRACED]):
            yield SuggestQuestion(budget_s=budget_s, models=models)
    yield SuggestQuestion(budget_s=300.0, models=[TEXT], hardware=[SMALL], platform="cuda", batch_sizes=[1, 4], top=3)


def recommendations() -> Iterator[Question]:
    objectives: list[Any] = ["latency", "throughput", "cost", "energy", "memory", {"latency": 1.0, "cost": 2.0}]
    for model in (IMAGES, TEXT, UNTRACED):
        for hardware in ("all", "own", [SMALL, LARGE], [CPU, "nvidia-h100-sxm"]):
            for objective in objectives:
                yield Question(model=model, hardware=hardware, objective=objective, top=5)
    limits: list[dict[str, Any]] = [
        {"max_latency_ms": 20.0},
        {"max_latency_ms": 20.0, "confidence": 0.95},
        {"max_latency_ms": 1e-4},
        {"max_latency_ms": 1e-3, "max_memory_mb": 1.0},
        {"min_throughput_per_s": 500.0, "max_usd_per_hour": 1.5},
        {"max_memory_mb": 1500.0, "max_power_w": 100.0},
        {"percentile": "p95"},
        {"percentile": "p99", "max_latency_ms": 50.0},
        {"count": 2, "spot": True},
        {"providers": ["tester"], "per_hardware": True},
        {"regions": ["eu"], "spot": True, "objective": "cost"},
        {"platform": "openvino", "precision": "bf16"},
        {"vendors": "intel", "batch_sizes": [1, 3, 8]},
        {"compiled": True},
        {"compiled": "usual", "top": 40},
        {"mode": "training"},
        {"hardware": ["nvidia-no-such"]},
        {"hardware": ["aws:g5.xlarge"]},
        {"as_of": 5},
        {
            "devices": [
                {"name": "a", "hardware": SMALL, "free_memory_mb": 1000.0},
                {"hardware": CPU},
                {"hardware": LARGE},
            ]
        },
        {"devices": [{"hardware": CPU, "platforms": ["cpu"]}], "precision": "fp32"},
    ]
    for model in (IMAGES, TEXT):
        for limit in limits:
            yield msgspec.convert({"model": model, "top": 6, **limit}, Question)
    for limit in ({}, {"max_ttft_ms": 100.0}, {"max_tpot_ms": 1e-3}, {"min_tokens_per_s": 100.0, "objective": "cost"}):
        yield msgspec.convert({"model": SERVED, "top": 5, **SERVING, **limit}, Question)


def predictions() -> Iterator[PredictQuestion]:
    for model in (IMAGES, TEXT, UNTRACED):
        for hardware, platform in ((CPU, "cpu"), (CPU, "openvino"), (SMALL, "cuda"), (LARGE, "cuda")):
            for precision, batch in (("fp32", 1), ("fp16", 8), ("bf16", 16)):
                yield PredictQuestion(
                    model=model, hardware=hardware, platform=platform, precision=precision, batch_size=batch
                )
    for hardware in ("nvidia-h100-sxm", LARGE):
        yield PredictQuestion(model=SERVED, hardware=hardware, platform="cuda", precision="bf16", **SERVING)
    yield PredictQuestion(
        model=IMAGES, hardware=SMALL, platform="cuda", precision="fp16", batch_size=8, mode="training"
    )


def fits() -> Iterator[FitQuestion]:
    for model in (IMAGES, TEXT, SERVED, UNTRACED):
        for limit in ({}, {"max_memory_mb": 1000.0}, {"max_memory_mb": 1.0}, {"platform": "cuda", "precision": "fp16"}):
            for where in ([SMALL, LARGE], "own"):
                yield msgspec.convert({"model": model, "hardware": where, **limit}, FitQuestion)
    yield FitQuestion(model=IMAGES, mode="training", hardware=[SMALL])
    yield FitQuestion(model=TEXT, sequence_length=256, hardware=[SMALL])


def fleets() -> Iterator[FleetQuestion]:
    loads = [
        Load(model=IMAGES, items_per_s=60.0, precision="fp16", name="images"),
        Load(model=TEXT, items_per_s=90.0, batch_sizes=[8], precision="fp16"),
        Load(model=IMAGES, items_per_s=1e6, batch_sizes=[8], max_latency_ms=1e-3),
        Load(model=TEXT, tokens_per_s=5000.0, batch_sizes=[8], precision="fp16"),
    ]
    for chosen in (loads[:1], loads[:2], loads[1:3], loads[3:]):
        yield FleetQuestion(loads=chosen, hardware=[SMALL, LARGE], providers=["tester"])
        yield FleetQuestion(loads=chosen, hardware="own", own={SMALL: Own(count=2, usd_per_hour=0.1), CPU: 1})
    yield FleetQuestion(loads=loads[:2], hardware=[SMALL], providers=["tester"], max_machines=1, utilisation=0.01)
    yield FleetQuestion(loads=loads[:1], hardware=[SMALL, "google-tpu-v4"], providers=["tester"], spot=True)


def answered(service: Any, question: Any) -> bytes:
    """Return the canonical JSON of an answer, or what was refused and why."""
    verbs: dict[type, Callable[[Any], Any]] = {
        Question: service.answers.recommend,
        PredictQuestion: service.answers.predict,
        FitQuestion: service.answers.fit,
        FleetQuestion: service.answers.fleet,
        SuggestQuestion: service.answers.suggest,
    }
    try:
        return canonical(msgspec.to_builtins(verbs[type(question)](question)))
    except AssayError as error:
        return f"{type(error).__name__} {error.field}: {error}".encode()


@pytest.mark.usefixtures("log")
def test_answers_have_the_bytes_of_the_golden_file(service: Any) -> None:
    digests = {}
    for question in questions():
        document = {name: value for name, value in msgspec.structs.asdict(question).items() if value not in (None, [])}
        key = f"{type(question).__name__} {json.dumps(msgspec.to_builtins(document), sort_keys=True)}"
        digests[key] = sha256(answered(service, question)).hexdigest()
    assert len(digests) >= 190
    if os.environ.get("ASSAY_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(json.dumps(digests, indent=1) + "\n")
    golden = json.loads(GOLDEN.read_text())
    differing = [key for key in golden.keys() | digests.keys() if golden.get(key) != digests.get(key)]
    assert not differing, f"{len(differing)} answers have other bytes, for example {sorted(differing)[:5]}"
