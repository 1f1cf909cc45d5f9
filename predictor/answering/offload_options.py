"""Options with layers in the host's memory, and what is said of them where a model does not fit and nobody asked."""

from __future__ import annotations

import math

import msgspec

from domain.catalogues import engines
from domain.catalogues.engines import Engine
from domain.catalogues.hardware import HardwareSpec
from domain.performance.roofline import DEFAULT_LAUNCH_S, LAUNCH_S
from predictor.answering.context import AnswerContext
from predictor.answering.option import Option
from predictor.answering.question import Offload, Question
from predictor.answering.serving_context import Served
from predictor.features.dataset import Row
from predictor.llm_serving import offload
from predictor.llm_serving.deployment import Deployment, deployment_of
from predictor.llm_serving.efficiency import shares_of, usual_device
from predictor.llm_serving.offload import Host, Split
from predictor.llm_serving.physics import device_of
from predictor.memory.needs import usable_bytes

__all__ = ["offload_engine", "offloaded", "would_offload"]

SURE = 0.8
"""The device holds its layers with this probability."""
WIDTHS = {"ttft": math.log(3.0), "tpot": math.log(2.0)}
"""Factors (log) that nothing has checked: an estimate."""


def offload_engine(platform: str, precision: str) -> Engine | None:
    """Return the engine that keeps layers of this precision on the host; None where none does."""
    able = [engines.catalogue()[name] for name in offload.ENGINES]
    return next((engine for engine in able if platform in engine.platforms and engine.format(precision)), None)


def offloaded(question: Question, served: Served, spec: HardwareSpec, row: Row) -> Option | None:
    """Return the option with as few layers on the host as the device allows; None where that cannot be."""
    asked = question.offloading or Offload(memory_bytes=None, bandwidth=None)
    host = offload.host_of(asked.memory_bytes, asked.bandwidth)
    parted = _parted(served, spec, row, host)
    if parted is None:
        return None
    spread, split = parted
    device = device_of(spec, row.platform, spread.storage, LAUNCH_S.get(row.platform, DEFAULT_LAUNCH_S))
    if device is None:
        return None
    shares = shares_of(row, spread.storage, spec)
    device = device if shares is None else usual_device(device, shares)
    first, each = offload.times_of(served.model, spread, device, host, split, row.runtime)
    return _option(row, split, first, each, _told(row, split, host, asked))


def would_offload(question: Question, context: AnswerContext, served: Served, spec: HardwareSpec, row: Row) -> str:
    """Return how many layers would have to stay on the host, and how to ask for that; nothing where it cannot be."""
    if offload.shares_memory(spec, row.platform):
        return ""
    engine = engines.find(question.runtime) if question.runtime else offload_engine(row.platform, row.precision)
    if engine is None or engine.name not in offload.ENGINES or question.offload:
        return ""
    parted = _parted(served, spec, msgspec.structs.replace(row, runtime=engine.name), offload.host_of(None, None))
    if parted is None:
        return ""
    split = parted[1]
    return (
        f"; {engine.name} runs it with {split.host_layers} of {split.layers} layers in the host's memory: "
        f"assay recommend {context.model} --hardware {spec.id} --platform {row.platform} --precision {row.precision} --offload"
    )


def _parted(served: Served, spec: HardwareSpec, row: Row, host: Host) -> tuple[Deployment, Split] | None:
    """The deployment and the layers on the host, where a device of its own memory runs an engine that can."""
    if row.count > 1 or row.runtime not in offload.ENGINES or offload.shares_memory(spec, row.platform):
        return None
    spread = deployment_of(row, served.model.heads, mixture=bool(served.model.experts))
    room = usable_bytes(None if spec.memory_bytes is None else float(spec.memory_bytes.value))
    if isinstance(spread, str) or room is None:
        return None
    split = offload.split_of(served.model, spread, room, host, served.concurrency, SURE)
    return None if split is None else (spread, split)


def _told(row: Row, split: Split, host: Host, asked: Offload) -> str:
    taken = [
        f"{value} taken"
        for value, said in (
            (f"{host.memory / 1e9:.3g} GB", asked.memory_bytes),
            (f"{host.bandwidth / 1e9:.3g} GB/s", asked.bandwidth),
        )
        if said is None
    ]
    how = "fetched for every pass" if row.runtime == "transformers" else "computed there"
    return (
        f"estimate under {row.runtime}: {split.host_layers} of {split.layers} layers ({split.host_bytes / 1e9:.3g} GB) stay in the "
        f"host's memory and are {how}"
        + (f"; of the host {' and '.join(taken)}" if taken else "")
        + "; nothing measured supports it"
    )


def _option(row: Row, split: Split, first_s: float, each_s: float, why: str) -> Option:
    steps, requests = (row.output_tokens or 1) - 1, row.concurrency or 1
    first, each = (
        [seconds * math.exp(sign * WIDTHS[name]) * 1e3 for sign in (0, -1, 1)]
        for name, seconds in (("ttft", first_s), ("tpot", each_s))
    )
    whole = [one + steps * other for one, other in zip(first, each, strict=True)]
    rate = [requests * (row.output_tokens or 1) / item * 1e3 for item in whole]
    return Option(
        hardware=row.hardware,
        platform=row.platform,
        precision=row.precision,
        batch_size=None,
        basis="predicted",
        latency_ms=whole[0],
        low_ms=whole[1],
        high_ms=whole[2],
        covered=False,
        throughput_per_s=requests / whole[0] * 1e3,
        ttft_ms=first[0],
        ttft_low_ms=first[1],
        ttft_high_ms=first[2],
        tpot_ms=each[0],
        tpot_low_ms=each[1],
        tpot_high_ms=each[2],
        tokens_per_s=rate[0],
        tokens_low_per_s=rate[2],
        tokens_high_per_s=rate[1],
        concurrency=requests,
        peak_memory_bytes=split.peak,
        memory_low_bytes=split.low,
        memory_high_bytes=split.high,
        memory_floor_bytes=split.weights_bytes + split.kv_cache_bytes + split.activations_bytes,
        weights_bytes=split.weights_bytes,
        kv_cache_bytes=split.kv_cache_bytes,
        activations_bytes=split.activations_bytes,
        offloaded_layers=split.host_layers,
        host_memory_bytes=split.host_bytes,
        runtime=row.runtime,
        runtime_version=row.runtime_version or None,
        why=why,
        method="serving",
    )
