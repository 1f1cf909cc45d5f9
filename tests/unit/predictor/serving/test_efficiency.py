"""What engines usually reach, where nothing of theirs trained."""

from __future__ import annotations

from typing import Any

import pytest

from domain.catalogues import engines, hardware, language_models
from predictor.llm_serving.deployment import Deployment, deployment_of
from predictor.llm_serving.efficiency import share_on, shares_of, usual_device, widely_known
from predictor.llm_serving.physics import device_of

LLAMA = language_models.catalogue()["meta-llama/Llama-3.1-8B"]
CARD = hardware.require("nvidia-rtx-4090")


def deployment(row: Any, *, mixture: bool = False) -> Deployment:
    found = deployment_of(row, LLAMA.heads, mixture=mixture)
    assert isinstance(found, Deployment)
    return found


def test_a_device_is_used_by_the_share_of_the_bits_of_its_weights(served: Any) -> None:
    known = engines.efficiency_of("llama.cpp", "cuda")
    assert known is not None
    for precision, band in (("fp16", "wide"), ("q4_k_m", "narrow"), ("q8_0", "narrow")):
        row = served(precision=precision, runtime="llama.cpp", hardware=CARD.id, count=1)
        storage = deployment(row).storage
        shares = shares_of(row, storage, CARD)
        assert shares is not None
        assert shares.decode.width == known.decode[band].width
        assert shares.decode.value == share_on(
            known.decode_devices, CARD, "cuda", engines.band_of(8 * storage.expert_bytes)
        )
        full = device_of(CARD, "cuda", storage, 4e-6)
        assert full is not None
        used = usual_device(full, shares)
        assert used.bandwidth == pytest.approx(full.bandwidth * shares.decode.value)
        assert used.dense_flops == pytest.approx(full.dense_flops * shares.prefill.value)
        assert used.launch_s == known.launch_s
        assert shares.width("ttft") == shares.prefill.width
        assert shares.width("tpot") == shares.decode.width


def test_an_engine_that_nobody_published_has_no_usual_share(served: Any) -> None:
    row = served(runtime="acme-server", hardware=CARD.id, count=1)
    assert shares_of(row, deployment(row).storage, CARD) is None
    assert not widely_known(row)


def test_an_engine_of_many_devices_is_widely_known(served: Any) -> None:
    assert widely_known(served(precision="q4_k_m", runtime="llama.cpp", hardware=CARD.id, hardware_kind="gpu"))
    assert not widely_known(served(precision="q4_k_m", runtime="llama.cpp", platform="xpu"))


def test_formats_keep_other_bits_for_experts_and_for_what_is_outside_the_layers(served: Any) -> None:
    row = served(precision="mxfp4", runtime="vllm", count=1)
    plain, mixture = deployment(row).storage, deployment(row, mixture=True).storage
    assert 8 * mixture.expert_bytes == pytest.approx(4.25)
    assert 8 * mixture.dense_bytes == 16
    assert 8 * plain.dense_bytes == pytest.approx(4.25)
    quantised = deployment(served(precision="int4", runtime="openvino", platform="openvino", count=1)).storage
    assert quantised.outside_bytes == 1
    assert 8 * quantised.dense_bytes == pytest.approx(4.16)
    assert deployment(served(precision="fp16", runtime="vllm", count=1)).storage.outside_bytes is None
