"""A step and a prompt take what their bytes, FLOPs and exchanges take."""

import pytest

from domain.catalogues import hardware, language_models
from domain.catalogues.hardware import HardwareSpec
from predictor.llm_serving.deployment import Deployment, deployment_of
from predictor.llm_serving.physics import Device, device_of, estimate, places, prompt, step

LLAMA = language_models.catalogue()["meta-llama/Llama-3.1-70B"]
DEEPSEEK = language_models.catalogue()["deepseek-ai/DeepSeek-V3"]


def device(deployment: Deployment, name: str = "nvidia-h200-sxm") -> Device:
    found = device_of(hardware.require(name), "cuda", deployment.storage, 4e-6)
    assert found is not None
    return found


def test_a_small_batch_reads_every_weight_once(served) -> None:
    one = deployment_of(served(concurrency=1, parallelism={"tensor": 1}))
    made = step(LLAMA, one.decode, one.storage, device(one), 1, 1)
    assert made.dense == pytest.approx(LLAMA.dense_parameters / 4.8e12)
    assert (made.experts, made.exchange) == (0.0, 0.0)


def test_splitting_a_layer_halves_its_traffic_and_adds_exchanges(served) -> None:
    one, two = (deployment_of(served(parallelism={"tensor": count})) for count in (1, 2))
    alone, split = (step(LLAMA, each.decode, each.storage, device(each), 8, 1000) for each in (one, two))
    assert split.dense == pytest.approx(alone.dense / 2)
    assert split.attention == pytest.approx(alone.attention / 2)
    assert split.exchange > alone.exchange == 0


def test_more_tokens_touch_more_experts_until_all_are_read(served) -> None:
    given = deployment_of(served(model=DEEPSEEK.id))
    few, many, more = (
        step(DEEPSEEK, given.decode, given.storage, device(given), batch, 1).experts for batch in (1, 64, 512)
    )
    assert few == pytest.approx(many * (8 / 256) / (1 - (1 - 8 / 256) ** 64))
    assert more == pytest.approx(many / (1 - (1 - 8 / 256) ** 64), rel=0.01)


def test_a_long_prompt_is_bound_by_arithmetic(served) -> None:
    given = deployment_of(served())
    made = prompt(LLAMA, given.prefill, given.storage, device(given), 8192)
    assert made.dense == pytest.approx(2 * LLAMA.dense_parameters * 8192 / 4 / 1978e12)
    assert made.arithmetic > made.traffic


def test_a_load_that_memory_does_not_hold_waits_and_decodes_in_the_batch_that_fits(served) -> None:
    fitting, crowded = (
        deployment_of(served(concurrency=count, output_tokens=8192, parallelism={"tensor": 1})) for count in (16, 128)
    )
    room = places(LLAMA, fitting.decode, fitting.storage, device(fitting), 1024 + 0.75 * 8192)
    assert 16 < room < 128
    held, waiting = (estimate(LLAMA, each, device(each)) for each in (fitting, crowded))
    assert held.fill < 1 < waiting.fill
    assert waiting.batch == pytest.approx(room)
    assert waiting.ttft_s > 50 * held.ttft_s


@pytest.mark.parametrize("apart", [False, True])
def test_more_requests_at_once_never_make_a_token_faster(served, apart) -> None:
    workers = {"tensor": 4, "workers": 1}
    options = {"prefill": workers, "decode": workers} if apart else {}
    times = [
        estimate(LLAMA, given, device(given))
        for load in (1, 4, 16, 64)
        for given in [deployment_of(served(concurrency=load, options=options))]
    ]
    assert [one.tpot_s for one in times] == sorted(one.tpot_s for one in times)
    assert [one.ttft_s for one in times] == sorted(one.ttft_s for one in times)


def test_prompts_in_chunks_read_the_weights_as_often(served) -> None:
    whole, chunked = (
        deployment_of(served(scenario="offline", concurrency=None, batch_size=1, options=options))
        for options in ({}, {"n_batch": 16})
    )
    fast, slow = (estimate(LLAMA, each, device(each)).prompt.dense for each in (whole, chunked))
    assert slow == pytest.approx(1024 / 16 * LLAMA.dense_parameters / 4 / 4.8e12)
    assert slow > 5 * fast


def test_a_format_that_the_device_cannot_multiply_is_widened_and_no_figures_give_no_device(served) -> None:
    narrow = deployment_of(served(precision="fp4", options={"gemm": "nvfp4", "moe": "nvfp4"}))
    assert device(narrow).dense_flops == 989e12
    assert device(narrow, "nvidia-b200-sxm").dense_flops == 9000e12
    assert device_of(HardwareSpec(id="nothing-known", name="Nothing known"), "cuda", narrow.storage, 4e-6) is None
