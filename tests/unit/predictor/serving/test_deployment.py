"""How a model is spread, as rows say it."""

import pytest

from predictor.llm_serving.deployment import deployment_of

APART = {
    "serving": "disaggregated",
    "prefill": {"tensor": 4, "workers": 2, "attention_data": 1, "expert": 1, "expert_tensor": 4},
    "decode": {"tensor": 1, "workers": 3, "attention_data": 8, "expert": 8, "expert_tensor": 1},
}


def test_a_served_row_has_its_requests_from_the_concurrency_and_an_offline_one_from_the_batch(served) -> None:
    assert deployment_of(served(batch_size=7)).requests == 32
    offline = deployment_of(served(scenario="offline", concurrency=None, batch_size=7))
    assert (offline.requests, offline.continuous) == (7, False)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"concurrency": None}, "no concurrency"),
        ({"concurrency": None, "scenario": "offline", "batch_size": None}, "no batch size"),
        ({"output_tokens": None}, "no token counts"),
        ({"options": {"prefill": {"tensor": 8}, "decode": {"tensor": 8, "workers": 2}}}, "workers not stated"),
    ],
)
def test_a_row_that_says_too_little_is_told_why(served, changed, reason) -> None:
    assert deployment_of(served(**changed)) == reason


def test_workers_of_prompts_and_of_tokens_are_apart(served) -> None:
    found = deployment_of(served(options=APART))
    assert found.apart
    assert (found.prefill.tensor, found.prefill.count, found.prefill.devices) == (4, 2, 4)
    assert (found.decode.data, found.decode.count, found.decode.devices) == (8, 3, 8)


def test_without_parallelism_devices_split_a_layer_but_llama_cpp_gives_each_some_layers(served) -> None:
    assert deployment_of(served(parallelism={})).decode.tensor == 4
    found = deployment_of(served(parallelism={}, runtime="llama.cpp")).decode
    assert (found.tensor, found.pipeline) == (1, 4)


@pytest.mark.parametrize(
    ("stated", "expert_tensor", "tensor", "data", "devices"),
    [
        ({"tensor": 64, "data": 1, "expert": 8}, 8, 8, 1, 8),
        ({"tensor": 1, "data": 64, "expert": 8}, 8, 1, 8, 8),
        ({"tensor": 4, "data": 4, "expert": 16}, 1, 1, 4, 4),
        ({"tensor": 1, "expert": 1}, 4, 1, 4, 4),
        ({"tensor": 8, "data": 1, "expert": 8}, 1, 8, 1, 8),
    ],
)
def test_sizes_that_count_the_same_devices_twice_are_one_set(
    served, stated, expert_tensor, tensor, data, devices
) -> None:
    found = deployment_of(served(parallelism=stated, options={"expert_tensor_parallel": expert_tensor})).decode
    assert (found.tensor, found.data, found.devices) == (tensor, data, devices)


def test_devices_that_do_not_divide_the_heads_have_a_batch_each(served) -> None:
    row = served(parallelism={"tensor": 72, "data": 1})
    assert deployment_of(row, heads=128).decode.data == 72
    assert deployment_of(row, heads=144).decode.tensor == 72


def test_a_quantised_weight_has_its_bits_and_is_multiplied_in_its_own_precision(served) -> None:
    storage = deployment_of(served(options={"gemm": "fp8", "moe": "int4_wo"})).storage
    assert (storage.dense_bytes, storage.dense_precision) == (1.0, "fp8")
    assert (storage.expert_bytes, storage.expert_precision) == (4.5 / 8, "fp16")
    plain = deployment_of(served(precision="fp32")).storage
    assert (plain.dense_bytes, plain.kv_bytes) == (4.0, 4.0)
