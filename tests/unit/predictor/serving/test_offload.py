"""Layers in the host's memory: as few as the device allows, and a step that is the sum of both sides."""

from __future__ import annotations

from typing import Any

import pytest

from domain.catalogues import hardware, language_models
from predictor.llm_serving import offload
from predictor.llm_serving.deployment import Deployment, deployment_of
from predictor.llm_serving.offload import Split
from predictor.llm_serving.physics import Device, device_of

LLAMA = language_models.catalogue()["meta-llama/Llama-3.1-70B"]
CARD = hardware.require("nvidia-rtx-4090")
HOST = offload.host_of(None, None)


@pytest.fixture
def alone(served: Any) -> Any:
    """One request of a 4-bit file on one card, or with changes."""

    def made(**changed: Any) -> Deployment:
        given = {"precision": "q4_k_m", "runtime": "llama.cpp", "concurrency": 1, "count": 1, "parallelism": {}}
        result = deployment_of(served(**{**given, **changed}), LLAMA.heads)
        assert isinstance(result, Deployment)
        return result

    return made


def split(deployment: Deployment, room: float = 22e9, memory: float = 64e9) -> Split | None:
    host = offload.host_of(memory, None)
    return offload.split_of(LLAMA, deployment, room, host, 1, 0.8)


def device(deployment: Deployment) -> Device:
    found = device_of(CARD, "cuda", deployment.storage, 4e-6)
    assert found is not None
    return found


def test_the_less_a_device_holds_the_more_layers_stay_on_the_host(alone: Any) -> None:
    few, many = split(alone(), room=30e9), split(alone(), room=16e9)
    assert few is not None and many is not None
    assert 0 < few.host_layers < many.host_layers < LLAMA.layers
    assert few.layers == LLAMA.layers == 80
    # One layer fewer on the host would not fit.
    whole = few.host_bytes + few.weights_bytes + few.kv_cache_bytes
    assert few.host_bytes == pytest.approx(whole * few.host_layers / 80, rel=1e-6)
    assert few.low < few.peak < few.high


def test_a_host_that_does_not_hold_the_rest_is_no_help(alone: Any) -> None:
    assert split(alone(), memory=8e9) is None
    assert split(alone(), room=1e6) is None


def test_a_token_takes_what_both_sides_take_and_a_slow_host_more(alone: Any) -> None:
    deployment = alone()
    parted = split(deployment)
    assert parted is not None
    fast, slow = (
        offload.times_of(LLAMA, deployment, device(deployment), offload.host_of(None, bandwidth), parted, "llama.cpp")
        for bandwidth in (200e9, 40e9)
    )
    assert slow[1] > 3 * fast[1]
    assert slow[0] == pytest.approx(fast[0])  # Weights are fetched for a prompt.
    # At least the bytes on the host at its bandwidth, and those on the device at that of the device.
    least = parted.host_bytes / 40e9 + parted.weights_bytes / 1008e9
    assert least < slow[1] < 4 * least


def test_an_engine_that_fetches_weights_is_bound_by_the_link(alone: Any) -> None:
    deployment = alone(precision="int4", runtime="transformers")
    parted = split(deployment)
    assert parted is not None
    first, each = offload.times_of(LLAMA, deployment, device(deployment), HOST, parted, "transformers")
    assert each > parted.host_bytes / offload.LINK
    assert first > parted.host_bytes / offload.LINK


def test_a_few_tokens_of_a_prompt_are_computed_on_the_host(alone: Any) -> None:
    short, long = alone(input_tokens=8), alone(input_tokens=offload.FETCHED_FROM)
    parted = split(short)
    assert parted is not None
    times = [offload.times_of(LLAMA, each, device(each), HOST, parted, "llama.cpp")[0] for each in (short, long)]
    assert times[1] > parted.host_bytes / offload.LINK
    assert times[0] > 0


@pytest.mark.parametrize(
    ("name", "platform", "shared"),
    [
        ("nvidia-rtx-4090", "cuda", False),
        ("amd-radeon-rx-7900-xtx", "rocm", False),
        ("apple-m4-max-gpu", "mps", True),
        ("intel-core-i9-13900k", "cpu", True),
    ],
)
def test_a_device_in_the_hosts_own_memory_keeps_nothing_elsewhere(name: str, platform: str, shared: bool) -> None:
    spec = hardware.find(name)
    if spec is None:
        pytest.skip("not in the catalogue")
    assert offload.shares_memory(spec, platform) is shared
