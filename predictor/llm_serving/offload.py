"""Layers of a language model that stay in the host's memory: how many must, and what a token and a prompt then take.

llama.cpp computes such layers on the host where few tokens pass, and fetches their weights for a prompt; transformers
(accelerate) fetches them for every pass. Nothing here is fitted: it is an estimate, and called one.
"""

from __future__ import annotations

import math

import msgspec

from domain.catalogues.engines import efficiency_of
from domain.catalogues.hardware import HardwareSpec
from domain.catalogues.language_models import LanguageModel
from predictor.llm_serving.deployment import Deployment
from predictor.llm_serving.needs import activations_bytes, language_model_needs
from predictor.llm_serving.physics import HOST_S, Device, holding, prompt, step

__all__ = [
    "ENGINES",
    "USUAL_BANDWIDTH",
    "USUAL_MEMORY",
    "Host",
    "Split",
    "host_of",
    "shares_memory",
    "split_of",
    "times_of",
]

ENGINES = ("llama.cpp", "llama.cpp-vulkan", "transformers")
USUAL_MEMORY = 64e9
"""Bytes of a host's memory where nobody says them."""
USUAL_BANDWIDTH = 89.6e9
"""Bytes/s at which a host reads its memory where nobody says them: two channels of DDR5-5600."""
LINK = 25e9
"""Bytes/s between host and device: PCIe 4.0 with 16 lanes, as copies reach it."""
CROSSING_S = 3e-5
"""Seconds that one hand-over between device and host takes apart from its bytes; an order of magnitude."""
HOST_FLOPS = 0.74e12
"""What a host computes a second on 4-bit weights: 55 tokens/s of a 6.7B prompt on a Core i9-13900K (llama.cpp issue 34)."""
FETCHED_FROM = 32
"""Tokens of a pass from which llama.cpp fetches weights instead of computing on the host (its pull request 6083)."""
BATCH = 512
"""Tokens that llama.cpp takes of a prompt at a time (`n_ubatch`)."""
_UNIFIED = ("nvidia-gb10", "nvidia-jetson-", "amd-radeon-8060s")


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of the host: its bytes, and the bytes/s at which it is read."""

    memory: float
    bandwidth: float


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Layers on the host, of all; what is held on the device and on the host, in bytes."""

    host_layers: int
    layers: int
    weights_bytes: float
    kv_cache_bytes: float
    activations_bytes: float
    peak: float
    low: float
    high: float
    host_bytes: float

    @property
    def share(self) -> float:
        """The share of the layers that stays on the host."""
        return self.host_layers / self.layers


def host_of(memory: float | None, bandwidth: float | None) -> Host:
    """Return the host as it is said to be, with what is usual in the gaps."""
    return Host(memory=memory or USUAL_MEMORY, bandwidth=bandwidth or USUAL_BANDWIDTH)


def shares_memory(spec: HardwareSpec, platform: str) -> bool:
    """Whether a device works in the host's own memory, so that there is no other to keep layers in."""
    return platform in ("cpu", "mps") or spec.kind == "cpu" or spec.memory_bytes is None or spec.id.startswith(_UNIFIED)


def split_of(
    model: LanguageModel, deployment: Deployment, room: float, host: Host, requests: int, sure: float
) -> Split | None:
    """Return the fewest layers on the host with which the device holds the others; None where the host does not hold them."""
    tokens = deployment.input_tokens + deployment.output_tokens
    held = holding(model, deployment.decode, deployment.storage, tokens)
    kept = requests * held.sequence_bytes
    activations = activations_bytes(model, deployment.input_tokens * requests, deployment.prefill.tensor)
    for host_layers in range(1, model.layers + 1):
        share = 1 - host_layers / model.layers
        needs = language_model_needs(held.weights_bytes * share, [kept * share], activations, room)
        if needs.fits[0] >= sure:
            break
    else:
        return None
    host_bytes = (held.weights_bytes + kept) * (1 - share)
    if host_bytes > host.memory:
        return None
    return Split(
        host_layers=host_layers,
        layers=model.layers,
        weights_bytes=held.weights_bytes * share,
        kv_cache_bytes=kept * share,
        activations_bytes=activations,
        peak=float(needs.expected[0]),
        low=float(needs.low[0]),
        high=float(needs.high[0]),
        host_bytes=host_bytes,
    )


def times_of(
    model: LanguageModel, deployment: Deployment, device: Device, host: Host, split: Split, engine: str
) -> tuple[float, float]:
    """Return the seconds to the first token and between tokens."""
    context = deployment.input_tokens + deployment.output_tokens / 2
    batch = max(deployment.requests, 1.0)
    on_device = step(model, deployment.decode, deployment.storage, device, batch, context).total
    first = prompt(model, deployment.prefill, deployment.storage, device, deployment.input_tokens).total
    fetch = split.host_bytes / LINK
    if engine == "transformers":
        return HOST_S + first + fetch, on_device + fetch
    passes = math.ceil(deployment.input_tokens / BATCH)
    on_host = step(model, deployment.decode, deployment.storage, _as_device(host, device), batch, context).total
    each = on_device * (1 - split.share) + on_host * split.share + 2 * CROSSING_S
    if deployment.input_tokens < FETCHED_FROM:
        first = first * (1 - split.share) + on_host * split.share * deployment.input_tokens
    else:
        first += passes * fetch
    return HOST_S + first, each


def _as_device(host: Host, device: Device) -> Device:
    """The host as it computes: llama.cpp's usual share of its bandwidth."""
    known = efficiency_of("llama.cpp", "cpu")
    share = 1.0 if known is None else known.decode["narrow"].value
    launch_s = 0.0 if known is None else known.launch_s
    return msgspec.structs.replace(
        device,
        bandwidth=host.bandwidth * share,
        dense_flops=HOST_FLOPS,
        expert_flops=HOST_FLOPS,
        attention_flops=HOST_FLOPS,
        memory=host.memory,
        launch_s=launch_s,
    )
