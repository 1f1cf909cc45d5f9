"""What a language model's serving takes at least: a decoding step and a prompt, part by part, in seconds.

Each part of a step takes the longer of its arithmetic at peak and its traffic at full bandwidth. Nothing here is fitted.
"""

from __future__ import annotations

import math

import msgspec

from domain.catalogues.hardware import HardwareSpec
from domain.catalogues.language_models import LanguageModel
from predictor.llm_serving.deployment import Deployment, Storage, Workers

__all__ = [
    "USABLE",
    "Device",
    "Estimate",
    "Holding",
    "Interconnect",
    "PassTimes",
    "device_of",
    "estimate",
    "holding",
    "interconnect_of",
    "places",
    "prompt",
    "step",
]


class Interconnect(msgspec.Struct, frozen=True, kw_only=True):
    """`inside` a group of `devices` that are joined directly, `beyond` it through a network."""

    inside: float
    devices: int
    beyond: float

    def speed(self, devices: int) -> float:
        """Return the bytes/s at which this many devices exchange."""
        return self.inside if devices <= self.devices else self.beyond


_PCIE = Interconnect(inside=25e9, devices=8, beyond=12.5e9)
_KNOWN = {
    "nvidia-a100-sxm-40gb": Interconnect(inside=300e9, devices=8, beyond=25e9),
    "nvidia-a100-sxm-80gb": Interconnect(inside=300e9, devices=8, beyond=25e9),
    "nvidia-h100-sxm": Interconnect(inside=450e9, devices=8, beyond=50e9),
    "nvidia-h200-sxm": Interconnect(inside=450e9, devices=8, beyond=50e9),
    "nvidia-b200-sxm": Interconnect(inside=900e9, devices=8, beyond=100e9),
    "nvidia-b300-sxm": Interconnect(inside=900e9, devices=8, beyond=100e9),
    "nvidia-gb200": Interconnect(inside=900e9, devices=72, beyond=100e9),
    "nvidia-gb300": Interconnect(inside=900e9, devices=72, beyond=100e9),
    "amd-instinct-mi300x": Interconnect(inside=448e9, devices=8, beyond=50e9),
    "amd-instinct-mi250": Interconnect(inside=150e9, devices=4, beyond=25e9),
    "intel-gaudi2": Interconnect(inside=262.5e9, devices=8, beyond=37.5e9),
    "intel-data-center-gpu-max-1550": Interconnect(inside=424e9, devices=8, beyond=25e9),
}


def interconnect_of(hardware: str) -> Interconnect:
    """Return the figures of a device, or those of PCIe where none are known."""
    return _KNOWN.get(hardware, _PCIE)


KERNELS_PER_LAYER = 12
"""Calls of a decoder layer; with captured graphs each costs about its launch."""
HOST_S = 0.02
"""Seconds that a server takes to receive a request, schedule it and send its first token; an order of magnitude."""
USABLE = 0.92
"""Share of a device's memory that engines give to weights and to keys and values together."""
EXCHANGE_S = 8e-6
"""Seconds that one exchange among devices takes apart from its bytes; an order of magnitude."""
_ROUNDS = 12


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One device as this deployment uses it; bytes/s, FLOP/s, seconds a call."""

    bandwidth: float
    dense_flops: float
    expert_flops: float
    attention_flops: float
    memory: float | None
    launch_s: float
    link: Interconnect


class PassTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one pass over all layers, by what takes them; `traffic` and `arithmetic` are the two sides of it."""

    dense: float
    experts: float
    attention: float
    exchange: float
    launches: float
    traffic: float
    arithmetic: float

    @property
    def total(self) -> float:
        """Return the seconds of the pass."""
        return self.dense + self.experts + self.attention + self.exchange + self.launches


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds to the first token, between tokens and of a whole request, and what they were made from.

    `prompt_s` is one request's prompt alone, `step_s` a step of `batch` sequences a copy; `waiting_s` what a request
    waits for others' prompts, `disturbance_s` what each token waits for them; `load` the share of time that prompts take,
    `fill` the sequences of a copy over those that its memory holds (above 1 some wait for a place).
    """

    ttft_s: float
    tpot_s: float
    prompt: PassTimes
    step: PassTimes
    batch: float
    waiting_s: float
    disturbance_s: float
    load: float
    fill: float

    def request_s(self, output_tokens: int) -> float:
        """Return the seconds of a request from its arrival to its last token."""
        return self.ttft_s + self.tpot_s * max(output_tokens - 1, 0)


def device_of(spec: HardwareSpec, platform: str, storage: Storage, launch_s: float) -> Device | None:
    """Return what a device can do, or None where its bandwidth or every peak is unknown.

    A format that the device cannot multiply is widened to 16 bits, as engines do.
    """
    bandwidth = spec.memory_bandwidth_bytes_per_s or spec.sustained_bandwidth_bytes_per_s
    wide = _peak(spec, "fp16", platform) or _peak(spec, "bf16", platform) or _peak(spec, "fp32", platform)
    if bandwidth is None or wide is None:
        return None
    return Device(
        bandwidth=bandwidth.value,
        dense_flops=_peak(spec, storage.dense_precision, platform) or wide,
        expert_flops=_peak(spec, storage.expert_precision, platform) or wide,
        attention_flops=wide,
        memory=None if spec.memory_bytes is None else spec.memory_bytes.value,
        launch_s=launch_s,
        link=interconnect_of(spec.id),
    )


def _peak(spec: HardwareSpec, precision: str, platform: str) -> float | None:
    figure = spec.peak(precision, platform) or spec.peak(precision) or spec.sustained_flops.get(precision)
    return None if figure is None else figure.value


def step(
    model: LanguageModel, workers: Workers, storage: Storage, device: Device, batch: float, context: float
) -> PassTimes:
    """Return one decoding step of `batch` sequences that each look back at `context` tokens."""
    local = max(batch / workers.data, 1.0)
    kept = local * model.kv_read(context) * storage.kv_bytes / _shares(model, workers)
    attended = local * model.attention_flops(context) / workers.tensor
    return _pass(model, workers, storage, device, batch, kept, attended)


def prompt(model: LanguageModel, workers: Workers, storage: Storage, device: Device, tokens: float) -> PassTimes:
    """Return the pass over one prompt of `tokens` tokens, by one of the groups that hold the attention."""
    written = tokens * model.kv_written * storage.kv_bytes / _shares(model, workers)
    attended = tokens * model.prompt_flops(tokens) / workers.tensor
    return _pass(model, workers, storage, device, tokens * workers.data, written, attended)


def _shares(model: LanguageModel, workers: Workers) -> int:
    """Devices that share what is kept of a sequence: one head cannot be split, and compressed keys are repeated."""
    return 1 if model.latent_rank else max(min(workers.tensor, model.kv_heads), 1)


def places(model: LanguageModel, workers: Workers, storage: Storage, device: Device, tokens: float) -> float:
    """Return how many sequences of `tokens` tokens one copy's memory holds; at least 1, without end where unknown."""
    if device.memory is None:
        return math.inf
    held = holding(model, workers, storage, tokens)
    return max((USABLE * device.memory - held.weights_bytes) / held.sequence_bytes, 1.0) * workers.data


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on each device of a copy: its weights, and what is kept of one of its sequences."""

    weights_bytes: float
    sequence_bytes: float


def holding(model: LanguageModel, workers: Workers, storage: Storage, tokens: float) -> Holding:
    """Return what one device holds of the weights and of a sequence of `tokens` tokens."""
    experts = model.expert_layers * model.experts * model.expert_parameters
    weights = _stored(model, storage, model.parameters - experts) / workers.tensor
    weights += experts / workers.devices * storage.expert_bytes
    kept = model.kv_kept(tokens) * storage.kv_bytes / _shares(model, workers)
    return Holding(weights_bytes=weights / workers.pipeline, sequence_bytes=kept / workers.pipeline)


def _stored(model: LanguageModel, storage: Storage, parameters: float) -> float:
    """Return the bytes of all weights but the experts; the embedding and the output may be wider."""
    if storage.outside_bytes is None:
        return parameters * storage.dense_bytes
    outside = model.output_parameters * (1 if model.tied else 2) + model.looked_up_parameters
    return (parameters - outside) * storage.dense_bytes + outside * storage.outside_bytes


def _read(model: LanguageModel, storage: Storage, dense: float, workers: Workers) -> float:
    """Return the bytes of the weights that every pass reads on each device."""
    if storage.outside_bytes is None:
        return dense * storage.dense_bytes
    return dense * storage.dense_bytes + model.output_parameters / workers.tensor * (
        storage.outside_bytes - storage.dense_bytes
    )


def _pass(
    model: LanguageModel,
    workers: Workers,
    storage: Storage,
    device: Device,
    tokens: float,
    kept: float,
    attended: float,
) -> PassTimes:
    """One pass of `tokens` tokens over all layers; `kept` bytes and `attended` FLOPs of attention on each device."""
    devices = workers.devices
    dense = model.dense_parameters / workers.tensor
    touched = 0.0
    if model.experts:
        chance = 1 - model.experts_per_token / model.experts
        touched = (
            model.expert_layers * model.expert_parameters * model.experts * (1 - chance ** max(tokens, 1.0)) / devices
        )
    chosen = model.expert_layers * model.expert_parameters * model.experts_per_token * tokens / devices
    read = _read(model, storage, dense, workers) / device.bandwidth
    multiplied = 2 * dense * tokens / workers.data / device.dense_flops
    fetched = touched * storage.expert_bytes / device.bandwidth
    routed = 2 * chosen / device.expert_flops
    looked, scored = kept / device.bandwidth, attended / device.attention_flops
    return PassTimes(
        dense=max(read, multiplied),
        experts=max(fetched, routed),
        attention=max(looked, scored),
        exchange=_exchange(model, workers, device, tokens),
        launches=model.layers * KERNELS_PER_LAYER * device.launch_s,
        traffic=read + fetched + looked,
        arithmetic=multiplied + routed + scored,
    )


def _exchange(model: LanguageModel, workers: Workers, device: Device, tokens: float) -> float:
    """Two exchanges a layer: sums over the devices that split a layer, or tokens sent to their experts and back."""
    devices = workers.devices
    if devices == 1:
        return 0.0
    share = (devices - 1) / devices
    per_layer = 4 * share * tokens / workers.data * model.hidden_size * 2 / device.link.speed(devices)
    return model.layers * (per_layer + 2 * EXCHANGE_S)


def estimate(model: LanguageModel, deployment: Deployment, device: Device) -> Estimate:
    """Return what requests of these lengths take under this load."""
    context = deployment.input_tokens + deployment.output_tokens / 2
    if not deployment.continuous:
        return _one_batch(model, deployment, device, context)
    if deployment.apart:
        return _apart(model, deployment, device, context)
    return _together(model, deployment, device, context)


def _together(model: LanguageModel, deployment: Deployment, device: Device, context: float) -> Estimate:
    """The same workers fill and decode: each prompt holds up the tokens of the others.

    Sequences for which there is no place wait until others have left.
    """
    batch = deployment.requests / (deployment.decode.count or 1)
    most = deployment.input_tokens + 0.75 * deployment.output_tokens
    fill = batch / places(model, deployment.decode, deployment.storage, device, most)
    held = batch / max(fill, 1.0)
    first = prompt(model, deployment.prefill, deployment.storage, device, deployment.input_tokens)
    alone = first.total / deployment.prefill.data
    each = step(model, deployment.decode, deployment.storage, device, held, context)
    disturbance = max(held - 1, 0.0) * alone / deployment.output_tokens
    tpot = each.total + disturbance
    service = first.total + deployment.output_tokens * tpot
    load = held * alone / service
    waiting = (
        HOST_S + each.total / 2 + load * first.total + 0.05 * held * alone + min(max(fill - 1, 0.0), 2.0) * service
    )
    return Estimate(
        ttft_s=first.total + waiting,
        tpot_s=tpot,
        prompt=first,
        step=each,
        batch=held,
        waiting_s=waiting,
        disturbance_s=disturbance,
        load=load,
        fill=fill,
    )


def _one_batch(model: LanguageModel, deployment: Deployment, device: Device, context: float) -> Estimate:
    """All prompts together, then all sequences step by step."""
    batch = deployment.requests
    first = _prompts(model, deployment, device, deployment.input_tokens * batch)
    each = step(model, deployment.decode, deployment.storage, device, batch, context)
    return Estimate(
        ttft_s=first.total,
        tpot_s=each.total,
        prompt=first,
        step=each,
        batch=batch,
        waiting_s=0.0,
        disturbance_s=0.0,
        load=0.0,
        fill=batch / places(model, deployment.decode, deployment.storage, device, context),
    )


def _prompts(model: LanguageModel, deployment: Deployment, device: Device, tokens: float) -> PassTimes:
    """The prompts of a batch, in as many passes as their chunks need."""
    passes = max(tokens / deployment.chunk, 1.0) if deployment.chunk else 1.0
    item = prompt(model, deployment.prefill, deployment.storage, device, tokens / passes)
    return PassTimes(**{name: passes * value for name, value in msgspec.structs.asdict(item).items()})


def _apart(model: LanguageModel, deployment: Deployment, device: Device, context: float) -> Estimate:
    """Prompts and tokens by workers of their own: whichever is slower holds the requests.

    As many requests leave as arrive, so a round of prompt, wait and tokens takes the longer of what a request needs
    and of what the prompts of all requests take together.
    """
    first = prompt(model, deployment.prefill, deployment.storage, device, deployment.input_tokens)
    all_prompts = deployment.requests / (deployment.prefill.count or 1) * first.total / deployment.prefill.data
    decoding, ttft = deployment.requests, first.total
    served = HOST_S + first.total
    for _ in range(_ROUNDS):
        batch = max(decoding / (deployment.decode.count or 1), 1.0)
        each = step(model, deployment.decode, deployment.storage, device, batch, context)
        tokens_s = deployment.output_tokens * each.total
        ttft = max(served, all_prompts - tokens_s)
        decoding = (decoding + deployment.requests * tokens_s / (tokens_s + ttft)) / 2
    load = min(all_prompts / (ttft + tokens_s), 1.0)
    return Estimate(
        ttft_s=ttft,
        tpot_s=each.total,
        prompt=first,
        step=each,
        batch=batch,
        waiting_s=ttft - first.total,
        disturbance_s=0.0,
        load=load,
        fill=batch / places(model, deployment.decode, deployment.storage, device, context),
    )
