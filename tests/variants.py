"""Events of variants as `assay compress`, `assay bench` and a served model post them: one model, eight variants, two platforms."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from domain.events import (
    DELIVERY_OBSERVED,
    ENDPOINT_CHANGED,
    MEASUREMENT_RECORDED,
    MODEL_DESCRIBED,
    QUALITY_MEASURED,
    RUN_STARTED,
    VARIANT_CREATED,
)
from domain.variants.lineage import variant_id

Event = dict[str, Any]

BASE = "google/vit-base-patch16-224"
HARDWARE = "intel-xeon-platinum-8488c"
RUN = "0198c0de-0000-7000-8000-00000000c0de"
BASE_BYTES = 346_293_852
EXAMPLES = {"name": "digits.npz", "digest": "sha256:" + "7" * 64, "examples": 2000}
_PROVENANCE = {"origin": "measured", "source": "assay-runner 0.1"}
_RUNTIMES = {"openvino": "2026.4.1", "onnxruntime": "1.25.0", "cpu": "2.13.0"}
_PLATFORMS = {"openvino": "openvino", "onnx": "onnxruntime", "checkpoint": "cpu"}


class Made(NamedTuple):
    """A variant: its forms with the MB and the median latency of each, and its loss in points with the interval of 95 %."""

    recipe: str
    precision: str
    forms: dict[str, tuple[float, float]]
    loss: tuple[float, float, float] | None


VARIANTS = (
    Made("int8-ptq", "int8", {"openvino": (88.4, 12.1), "onnx": (87.9, 21.4)}, (0.1, -0.2, 0.4)),
    Made("int8-qat", "int8", {"openvino": (88.4, 12.3), "onnx": (87.9, 21.9)}, (-0.1, -0.4, 0.2)),
    Made("int4-weights", "int4", {"openvino": (49.7, 30.2), "onnx": (50.1, 44.0)}, None),
    Made("mixed", "int8", {"openvino": (131.0, 17.5), "onnx": (129.4, 27.3)}, (0.2, -0.5, 0.9)),
    Made("prune-70", "fp32", {"openvino": (346.1, 32.9), "onnx": (346.2, 41.8)}, (0.0, -0.3, 0.3)),
    Made("prune-2:4", "fp32", {"openvino": (346.1, 33.1), "onnx": (346.2, 41.5)}, (5.3, 4.2, 6.4)),
    Made("distill-half", "fp32", {"openvino": (174.9, 16.8), "onnx": (175.2, 21.0)}, (2.1, 1.3, 2.9)),
    Made("onnx-optimised", "fp32", {"openvino": (346.0, 31.6), "onnx": (346.1, 38.2)}, (0.0, 0.0, 0.0)),
)
_BASE_MS = {
    ("openvino", "fp32"): 32.7,
    ("openvino", "bf16"): 14.9,
    ("onnxruntime", "fp32"): 41.6,
    ("cpu", "fp32"): 47.2,
}


def name_of(recipe: str, base: str = BASE) -> str:
    """Return the id of the variant that a recipe made here."""
    return variant_id(base, recipe, _digest(f"{base} {recipe}"))


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _model(name: str, weights: str = "pretrained") -> dict[str, Any]:
    return {"id": name, "category": "vision", "family": "vit", "weights": weights, "parameters": 86_567_656}


def _execution(platform: str, precision: str) -> dict[str, Any]:
    runtime = "torch" if platform == "cpu" else platform
    return {
        "platform": platform,
        "precision": precision,
        "runtime": {"name": runtime, "version": _RUNTIMES.get(platform, "1")},
    }


def _hardware(name: str) -> dict[str, Any]:
    return {"id": name, "kind": "cpu", "count": 1}


def _event(build: Any, type_: str, data: dict[str, Any]) -> Event:
    event: Event = build.event(type_, data)
    return event


def variant(
    build: Any,
    recipe: str = "int8-ptq",
    base: str = BASE,
    model: str | None = None,
    precision: str = "int8",
    forms: dict[str, float] | None = None,
    **more: Any,
) -> Event:
    """Return the event of a variant; `forms` gives the MB of each."""
    data = {
        "run_id": RUN,
        "model": _model(model or name_of(recipe, base)),
        "base": _model(base),
        "recipe": recipe,
        "forms": [
            {
                "kind": kind,
                "precision": precision,
                "files": [{"path": f"{kind}/model", "bytes": int(size * 1e6), "digest": _digest(kind + recipe)}],
                **({} if precision == "fp32" else {"quantization": "nncf.quantize"}),
            }
            for kind, size in (forms or {"openvino": 88.4}).items()
        ],
        "digest": _digest(f"{base} {recipe}"),
        "base_bytes": BASE_BYTES,
        "parameters": {"preset": "mixed"},
        "tools": {"nncf": "3.4.0"},
        "calibration": EXAMPLES,
        "provenance": _PROVENANCE,
        **more,
    }
    return _event(build, VARIANT_CREATED, data)


def quality(
    build: Any,
    model: str | None = None,
    loss: tuple[float, float, float] = (0.1, -0.2, 0.4),
    platform: str = "openvino",
    precision: str = "int8",
    hardware: str = HARDWARE,
    base: str = BASE,
    **more: Any,
) -> Event:
    """Return the event of an evaluation of 2,000 examples: the loss in points, and its interval."""
    data = {
        "run_id": RUN,
        "model": _model(model or name_of("int8-ptq")),
        "base": _model(base),
        "execution": _execution(platform, precision),
        "hardware": _hardware(hardware),
        "metric": "accuracy",
        "examples": 2000,
        "value": 0.95 - loss[0] / 100,
        "base_value": 0.95,
        "loss": loss[0],
        "interval": list(loss[1:]),
        "method": "mcnemar",
        "worse": 12,
        "better": 10,
        "data": EXAMPLES,
        "provenance": _PROVENANCE,
        **more,
    }
    return _event(build, QUALITY_MEASURED, data)


def measured(
    build: Any,
    model: str,
    platform: str,
    precision: str,
    p50: float,
    memory_mb: float = 400.0,
    hardware: str = HARDWARE,
) -> Event:
    """Return the measurement of a model at batch 1."""
    data = {
        "run_id": RUN,
        "model": _model(model),
        "workload": {"mode": "inference", "scenario": "single_stream", "batch_size": 1, "image_size": 224},
        "execution": {**_execution(platform, precision), "threads": 2},
        "hardware": _hardware(hardware),
        "environment": {"fingerprint": "env-1", "os": "Linux"},
        "observed": {"device": "cpu", "platform": platform, "precision": precision, "fallback_share": 0.0},
        "metrics": {
            "latency_ms": {"mean": p50, "p50": p50, "n": 100, "ci95": {"p50": [p50 * 0.99, p50 * 1.01]}},
            "throughput_per_s": 1000 / p50,
            "peak_memory_bytes": int(memory_mb * 1e6),
        },
        "validity": {"verdict": "valid", "reasons": []},
        "provenance": _PROVENANCE,
    }
    return _event(build, MEASUREMENT_RECORDED, data)


def endpoint(build: Any, change: str = "ready", name: str = "digits", /, **more: Any) -> Event:
    """Return an event about a served model."""
    data = {"endpoint": name, "server": "server-1", "change": change, "model": _model(name_of("int8-ptq")), **more}
    return _event(build, ENDPOINT_CHANGED, data)


PROMISE: dict[str, Any] = {"latency_ms": 12.1, "low": 11.4, "high": 13.0, "coverage": 0.8, "origin": "measured"}
PLACED: dict[str, Any] = {"execution": _execution("openvino", "int8"), "hardware": _hardware(HARDWARE)}


def delivery(
    build: Any, verdict: str = "kept", p50: float = 12.4, hour: int = 14, name: str = "digits", **more: Any
) -> Event:
    """Return what an endpoint delivered in five minutes."""
    data = {
        "endpoint": name,
        "server": "server-1",
        "model": _model(name_of("int8-ptq")),
        "workload": {"mode": "inference", "batch_size": 1, "image_size": 224},
        **PLACED,
        "since": f"2026-11-20T{hour}:00:00+00:00",
        "until": f"2026-11-20T{hour}:05:00+00:00",
        "requests": 1200,
        "failures": 3,
        "verdict": verdict,
        "latency_ms": {"mean": p50, "p50": p50, "p95": p50 * 1.3, "n": 1197},
        "request_ms": {"p50": p50 + 0.6, "p95": p50 * 1.6},
        "throughput_per_s": 4.0,
        "promise": PROMISE,
        **more,
    }
    return _event(build, DELIVERY_OBSERVED, data)


def changes(build: Any) -> list[Event]:
    """Return one of each event, renamed, repeated and retracted: what tables have to survive."""
    wrong, gone = quality(build, base="our-vit", loss=(9.0, 8.0, 10.0)), delivery(build, "broken", 30.0)
    return [
        variant(build, base="our-vit", model="vit+int8", forms={"openvino": 88.4, "onnx": 87.9}),
        variant(build, "prune-70", base="our-vit", run_id="run-2"),
        build.alias("our-vit", BASE),
        quality(build, base="our-vit", model="vit+int8"),
        wrong,
        endpoint(build, "created", promise=PROMISE, **PLACED),
        endpoint(build, "ready", workers=2),
        gone,
        delivery(build, hour=15),
        build.retraction(event_id=wrong["id"]),
        build.retraction(event_id=gone["id"]),
        endpoint(build, "scaled", workers=3),
    ]


def experiment(build: Any) -> list[Event]:
    """Return a whole experiment: the model, its eight variants, their speed on two platforms, and what each costs."""
    events = [
        build.event(RUN_STARTED, {"run_id": RUN, "kind": "bench", "environment": {"fingerprint": "env-1"}}),
        build.event(MODEL_DESCRIBED, {"model": _model(BASE)}),
        *(measured(build, BASE, platform, precision, p50, 900) for (platform, precision), p50 in _BASE_MS.items()),
        quality(build, BASE, (0.05, -0.1, 0.2), precision="bf16"),
    ]
    for made in VARIANTS:
        name = name_of(made.recipe)
        events.append(
            variant(
                build,
                made.recipe,
                precision=made.precision,
                forms={kind: size for kind, (size, _) in made.forms.items()},
            )
        )
        for kind, (size, p50) in made.forms.items():
            platform = _PLATFORMS[kind]
            events.append(measured(build, name, platform, made.precision, p50, 210 + size))
            if made.loss is not None:
                events.append(quality(build, name, made.loss, platform, made.precision))
    return events
