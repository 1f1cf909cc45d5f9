"""The longest context by keys and values, and the longest sequence by how activations grew."""

from __future__ import annotations

import msgspec
import pytest

from domain.catalogues import language_models
from predictor.capacity.lengths import CONFIDENCE, context_bytes, context_needs, longest_context, longest_sequence
from predictor.features.traces import Trace, trace_from_data
from predictor.llm_serving.deployment import storage_of

MISTRAL = next(
    one for one in language_models.catalogue().values() if one.kv_heads and not one.window and not one.experts
)


def traced(length: int | None, peak: float, parameters: float = 1e6) -> Trace:
    row = {
        "name": "aten.mm",
        "class": "mm",
        "count": 1,
        "flops": 1.0,
        "read_elements": 1,
        "write_elements": 1,
        "weight_elements": 1,
    }
    return trace_from_data(
        {
            "model": {"id": "acme/net", "parameters": parameters},
            "workload": {"mode": "inference", "phase": "forward", "sequence_length": length},
            "operators": [row],
            "totals": {"parameters": parameters, "peak_activation_elements": peak},
        }
    )  # fmt: skip


def test_one_token_more_than_the_longest_context_does_not_fit() -> None:
    weights, _ = context_bytes(MISTRAL, storage_of("vllm", "fp16"), 0)
    room = weights + 3e9
    found = longest_context(MISTRAL, storage_of("vllm", "fp16"), room, None)
    assert found.tokens is not None
    fits = [
        context_needs(MISTRAL, storage_of("vllm", "fp16"), found.tokens + more, [1], room).fits[0] for more in (0, 1)
    ]
    assert fits[0] >= CONFIDENCE > fits[1]
    assert "how many positions the model has is not known" in found.why


def test_keys_and_values_have_sixteen_bits_whatever_the_weights_have() -> None:
    assert (
        context_bytes(MISTRAL, storage_of("vllm", "int4"), 100)[1]
        == context_bytes(MISTRAL, storage_of("vllm", "fp16"), 100)[1]
    )
    # Four bits and their scales, and 16 bits of what AWQ and GPTQ leave: the embedding and the output.
    outside = (1 if MISTRAL.tied else 2) * MISTRAL.output_parameters
    narrow = (MISTRAL.parameters - outside) * 4.16 / 8 + outside * 2
    assert context_bytes(MISTRAL, storage_of("vllm", "int4"), 100)[0] == pytest.approx(narrow)
    assert (
        context_bytes(MISTRAL, storage_of("vllm", "fp32"), 100)[1]
        == 2 * context_bytes(MISTRAL, storage_of("vllm", "fp16"), 100)[1]
    )


def test_weights_that_do_not_fit_are_told() -> None:
    found = longest_context(MISTRAL, storage_of("vllm", "fp32"), 1e9, None)
    assert found.tokens is None
    assert "leave no room of 1 GB" in found.why


def test_positions_of_the_model_end_its_context() -> None:
    found = longest_context(MISTRAL, storage_of("vllm", "fp16"), 1e12, 4096)
    assert found.tokens == 4096
    assert "no more positions" in found.why


@pytest.mark.parametrize(("power", "expected"), [(1, 1600), (2, 800)])
def test_growth_between_two_traced_lengths_goes_on(power: int, expected: int) -> None:
    # 16 MB of activations at 400 tokens in fp32 and room for four times as many: so many tokens more, or twice.
    traces = [traced(200, 4e6 / 2**power), traced(400, 4e6)]
    found = longest_sequence(traces, "fp32", 4e6 + 64e6, 1.0, None)
    assert found.tokens == pytest.approx(expected, abs=1)
    assert found.why.startswith("at most: by traces at 200, 400 tokens")


def test_no_farther_than_eight_times_the_longest_trace_is_told() -> None:
    found = longest_sequence([traced(100, 1e6), traced(200, 2e6)], "fp32", 1e12, 1.0, None)
    assert found.tokens == 1600
    assert found.why.startswith("at least")


def test_what_is_measured_to_need_more_leaves_less() -> None:
    traces = [traced(200, 2e6), traced(400, 4e6)]
    plain, twice = (longest_sequence(traces, "fp32", 200e6, scale, None).tokens for scale in (1.0, 2.0))
    assert plain is not None
    assert twice is not None
    assert twice < plain


def test_one_length_or_none_says_why_there_is_no_answer() -> None:
    assert longest_sequence([traced(128, 1e6)], "fp32", 1e9, 1.0, None).why.startswith(
        "it is traced at 128 tokens only"
    )
    assert longest_sequence([traced(None, 1e6)], "fp32", 1e9, 1.0, None).tokens is None
    bare = msgspec.structs.replace(traced(128, 1e6), totals={}, parameters=None)
    assert longest_sequence([bare], "fp32", 1e9, 1.0, None).tokens is None
    small = longest_sequence([traced(128, 1e6), traced(256, 2e6)], "fp32", 1e6, 1.0, None)
    assert (small.tokens, small.why) == (None, "its weights of 0.004 GB leave no room")
