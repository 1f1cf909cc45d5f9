"""Made-up measurements to try capacity with: any number of them, on the models and hardware of the catalogues.

Figures are those of a plain roofline with noise, so that tables, pictures and queries look as they would; nobody measured
them, and each says so: origin `simulated`, and a source that names the seed. Equal arguments give equal bytes. A model that does not
fit a device's memory is a failure there. Every line passes `domain.events.decode_event`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from domain.catalogues import hardware, models
from domain.errors import PartMissing
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, RUN_FINISHED, RUN_STARTED
from domain.vocabulary import PRECISION_BITS

if TYPE_CHECKING:
    import numpy as np

__all__ = ["SOURCE", "events", "identifiers", "lines_of"]

SOURCE = "urn:assay:bench-data"
RUN = 1000
"""Measurements of one run."""
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_STEP_MS = 250
_BATCHES = (1, 1, 2, 4, 8, 16, 32, 64)
_TRAINING = 0.1
"""The share of training steps: three times the work of a call, and four times the memory of the weights."""
_REACHED = (0.25, 0.65)
"""Which shares of the peaks are reached."""
_OVERHEAD_MS = (0.02, 0.6)
_RUNTIMES = {
    "cuda": ("torch", "2.13.0"),
    "openvino": ("openvino", "2026.4.1"),
    "qnn": ("onnxruntime", "1.24.0"),
    "tpu": ("jax", "0.8.1"),
    "wasm": ("onnxruntime-web", "1.24.0"),
    "webgpu": ("onnxruntime-web", "1.24.0"),
    "webnn": ("onnxruntime-web", "1.24.0"),
}
_TORCH = ("torch", "2.13.0")


class _Work(NamedTuple):
    """A model and one item of its work: FLOPs of a call at batch 1, parameters, and what an item writes, in elements."""

    model: dict[str, Any]
    sizes: dict[str, Any]
    flops: float
    parameters: float
    activations: float


class _Place(NamedTuple):
    """A device in one precision on one platform; rates in FLOP/s and B/s, None where its memory is not known."""

    hardware: dict[str, Any]
    execution: dict[str, Any]
    environment: dict[str, Any]
    observed: dict[str, Any]
    flops_per_s: float
    bytes_per_s: float
    memory_bytes: float | None
    element_bytes: float


def lines_of(rows: int) -> int:
    """Return how many events `rows` measurements come in: a run of 1,000 begins and ends with one each."""
    return rows + 2 * -(-rows // RUN)


def events(rows: int, seed: int, *, works: int | None = None, devices: int | None = None) -> Iterator[bytes]:
    """Yield `rows` measurements and failures in runs, one event a line without its end; PartMissing without numpy.

    Of so many models and devices, or of the catalogues'; models above the catalogue's number are its own under numbered names.
    """
    try:
        import numpy as np
    except ImportError as error:
        raise PartMissing(
            "numpy is not installed.", field="rows", remedy="Install assay-bench[service] or numpy."
        ) from error
    for first in range(0, rows, RUN):
        random = np.random.default_rng((seed, first))
        yield from _run(min(RUN, rows - first), first, seed, random, _works(works), _places(devices))


def identifiers(size: int, begin_ms: int, step_ms: int, random: np.random.Generator) -> list[str]:
    """Return UUIDs of version 7: the time in ms since 1970, `step_ms` apart, then chance."""
    parts = random.integers(0, 2**48, (3, size)).tolist()
    return [
        f"{(begin_ms + step_ms * row) >> 16:08x}-{(begin_ms + step_ms * row) & 0xFFFF:04x}-7{a & 0xFFF:03x}-"
        f"{0x8000 | b & 0x3FFF:04x}-{c:012x}"
        for row, (a, b, c) in enumerate(zip(*parts, strict=True))
    ]


def _run(
    size: int, first: int, seed: int, random: np.random.Generator, works: tuple[_Work, ...], places: tuple[_Place, ...]
) -> Iterator[bytes]:
    begin = _BEGIN + timedelta(milliseconds=_STEP_MS * first)
    ids = identifiers(size + 3, int(begin.timestamp() * 1000), _STEP_MS, random)
    run_id = ids[-1]
    provenance = {
        "origin": "simulated",
        "source": f"assay bench-data, seed {seed}: made up to try capacity, measured by nobody",
    }
    chosen = random.integers(0, len(works), size).tolist()
    there = random.integers(0, len(places), size).tolist()
    batches = random.integers(0, len(_BATCHES), size).tolist()
    training = (random.random(size) < _TRAINING).tolist()
    reached = random.uniform(*_REACHED, size).tolist()
    overhead = random.uniform(*_OVERHEAD_MS, size).tolist()
    noise = abs(random.normal(0, 0.05, (size, 4))).tolist()
    counts = random.integers(44, 200, size).tolist()

    def event(row: int, type_: str, data: dict[str, Any]) -> bytes:
        return msgspec.json.encode(
            {
                "specversion": "1.0",
                "id": ids[row],
                "source": SOURCE,
                "type": type_,
                "subject": run_id,
                "time": (begin + timedelta(milliseconds=_STEP_MS * row)).isoformat(),
                "datacontenttype": "application/json",
                "data": {"run_id": run_id, **data},
            }
        )

    plan = {"verb": "bench-data", "seed": seed, "first_row": first}
    yield event(0, RUN_STARTED, {"kind": "bench-data", "planned": size, "plan": plan, "provenance": provenance})
    failed = 0
    for row in range(size):
        work, place, batch = works[chosen[row]], places[there[row]], _BATCHES[batches[row]]
        passes = 3.0 if training[row] else 1.0
        mode = "training" if training[row] else "inference"
        data: dict[str, Any] = {
            "model": work.model,
            "workload": {"mode": mode, "scenario": "single_stream", "batch_size": batch, **work.sizes},
            "execution": place.execution,
            "hardware": place.hardware,
            "environment": place.environment,
            "provenance": provenance,
        }
        weights = work.parameters * place.element_bytes * (4 if training[row] else 1)
        memory = weights + batch * work.activations * place.element_bytes * passes + 3e8
        if place.memory_bytes is not None and memory > place.memory_bytes:
            failed += 1
            message = f"{memory / 1e9:.1f} GB are needed and the device has {place.memory_bytes / 1e9:.1f} GB"
            yield event(
                row + 1,
                MEASUREMENT_FAILED,
                {
                    **data,
                    "outcome": "out_of_memory",
                    "stage": "first_run",
                    "failure": {"error": "OutOfMemory", "message": message},
                },
            )
            continue
        bound = max(batch * work.flops * passes / place.flops_per_s, weights / place.bytes_per_s) / reached[row] * 1000
        metrics = _metrics(bound + overhead[row], batch, memory, weights / 2e9 * 1000, counts[row], noise[row])
        yield event(
            row + 1,
            MEASUREMENT_RECORDED,
            {
                **data,
                "observed": place.observed,
                "metrics": metrics,
                "validity": {"verdict": "valid"},
            },
        )
    yield event(size + 1, RUN_FINISHED, {"outcome": "completed", "measured": size - failed, "failed": failed})


def _metrics(middle_ms: float, batch: int, memory: float, load_ms: float, n: int, noise: list[float]) -> dict[str, Any]:
    a, b, c, d = noise
    p50 = round(middle_ms, 6)
    return {
        "latency_ms": {
            "mean": round(p50 * (1 + a / 10), 6),
            "min": round(p50 * (1 - min(b, 0.5)), 6),
            "p50": p50,
            "p90": round(p50 * (1 + c), 6),
            "max": round(p50 * (1 + c + d), 6),
            "stddev": round(p50 * c / 2, 6),
            "n": n,
            "ci95": {"p50": [round(p50 * (1 - a / 5), 6), round(p50 * (1 + a / 5), 6)]},
        },
        "throughput_per_s": round(1000 * batch / middle_ms, 6),
        "load_ms": round(load_ms + 40 * (1 + a), 3),
        "first_run_ms": round(p50 * (3 + 10 * b), 6),
        "peak_memory_bytes": int(memory * (1 + d)) // 4096 * 4096,
    }


@cache
def _works(count: int | None) -> tuple[_Work, ...]:
    existing = _catalogued()
    wanted = len(existing) if count is None else count
    rounds = -(-wanted // len(existing))
    again = (
        work._replace(model={**work.model, "id": f"{work.model['id']}-made-up-{turn}"})
        for turn in range(2, rounds + 1)
        for work in existing
    )
    return (*existing, *again)[:wanted]


@cache
def _catalogued() -> tuple[_Work, ...]:
    works = []
    for model in models.catalogue():
        defaults = models.default_workload(model.category)
        own = msgspec.to_builtins(model.workload)
        sizes = {name: value for name, value in {**msgspec.to_builtins(defaults), **own}.items() if value is not None}
        tokens = sizes.get("sequence_length", 0) + 50 * sizes.get("audio_seconds", 0)
        tokens += (sizes.get("image_size", 0) / 16) ** 2 * sizes.get("images", 1) * sizes.get("frames", 1)
        parameters = float(model.size or 20_000_000)
        document: dict[str, Any] = {
            "id": model.id,
            "category": model.category,
            "family": model.family,
            "task": model.task,
            "weights": "random",
        }
        if model.parameters:
            document["parameters"] = model.parameters
        width = max(64.0, (parameters / 100) ** 0.5)
        works.append(_Work(document, sizes, 2 * parameters * max(tokens, 1), parameters, max(tokens, 1) * width * 8))
    return tuple(works)


@cache
def _places(devices: int | None) -> tuple[_Place, ...]:
    """Return the places of evenly many of the catalogue's devices, which stand by vendor and kind."""
    places = []
    catalogue = list(hardware.catalogue().values())
    count = len(catalogue) if devices is None else min(devices, len(catalogue))
    for spec in (catalogue[number * len(catalogue) // count] for number in range(count)):
        for platform, precisions in spec.platforms.items():
            name, version = _RUNTIMES.get(platform, _TORCH)
            libraries = {name: version}
            text = f"{spec.id} {platform}"
            for precision in precisions:
                peak = spec.peak(precision, platform)
                bandwidth = spec.memory_bandwidth_bytes_per_s
                places.append(
                    _Place(
                        hardware={"id": spec.id, "kind": spec.kind or "other", "count": 1},
                        execution={
                            "platform": platform,
                            "runtime": {"name": name, "version": version},
                            "precision": precision,
                            "compiled": False,
                        },
                        environment={
                            "fingerprint": hashlib.sha256(text.encode()).hexdigest()[:16],
                            "os": "made up",
                            "libraries": libraries,
                        },
                        observed={
                            "device": f"{platform}:0",
                            "platform": platform,
                            "precision": precision,
                            "fallback_share": 0.0,
                        },
                        flops_per_s=peak.value if peak else 1e12,
                        bytes_per_s=bandwidth.value if bandwidth else 1e11,
                        memory_bytes=spec.memory_bytes.value if spec.memory_bytes else None,
                        element_bytes=PRECISION_BITS.get(precision, 32) / 8,
                    )
                )
    return tuple(places)
