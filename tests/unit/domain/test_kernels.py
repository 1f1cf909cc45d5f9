"""Timings of kernels: what an event of them may hold, and the least work behind a timing."""

from __future__ import annotations

import numpy as np
import pytest

from domain.errors import InvalidEvent
from domain.events import decode_event, encode_event
from domain.kernels import NUMBER_TYPES, SIZES, expanded
from domain.payloads import KernelRuns, KernelTypes
from domain.performance.kernel_work import kernel_work

FP32 = KernelTypes(activations="fp32", arithmetic="fp32")


def decoded(build, **data):
    event = build.kernels()
    event["data"] |= data
    return decode_event(encode_event(event))


def test_a_table_of_timings_passes_with_lists_runs_and_fixed_values(build):
    columns = {"m": {"values": [16, 32], "runs": [2, 1]}, "latency_ms": [0.1, 0.2, 1e-5], "samples_n": [60, None, 3]}
    event = decoded(build, columns=columns)
    assert event.warnings == ()
    assert expanded(event.data.columns["m"]) == [16, 16, 32]
    assert event.data.fixed == {"n": 64, "k": 128}


def test_columns_that_the_operator_does_not_have_are_named_as_warnings(build):
    columns = {"m": [1, 2, 3], "latency_ms": [1, 2, 3], "height": [1, 2, 3]}
    assert decoded(build, columns=columns, fixed={"n": 1, "k": 1, "mood": "good"}).warnings == (
        "data.columns.height",
        "data.fixed.mood",
    )


LATENCY = {"latency_ms": [0.1, 0.2, 0.3]}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"columns": {"m": [1, 2, 3]}}, "columns.latency_ms"),
        ({"columns": {"m": [1, 2, 3], "latency_ms": {"values": [1.5], "runs": [3]}}}, "columns.latency_ms"),
        ({"columns": {"m": [1, 2, 3]}, "fixed": {"n": 1, "k": 1, "latency_ms": 1.5}}, "columns.latency_ms"),
        ({"columns": LATENCY}, "columns.m"),
        ({"columns": {"m": [1, 2], **LATENCY}}, "columns.m"),
        ({"columns": {"m": {"values": [1, 2], "runs": [3]}, **LATENCY}}, "columns.m"),
        ({"columns": {"m": {"values": [1], "runs": [9007199254740991]}, **LATENCY}}, "columns.m"),
        ({"columns": {"m": [1, 2, None], **LATENCY}}, "columns.m"),
        ({"columns": {"m": [1, 2, 2.5], **LATENCY}}, "columns.m"),
        ({"columns": {"m": [1, 2, -3], **LATENCY}}, "columns.m"),
        ({"columns": {"m": [1, 2, "3"], **LATENCY}}, "columns.m"),
        ({"columns": {"m": [1, 2, 3], "latency_ms": [0.1, 0, 0.3]}}, "columns.latency_ms"),
        ({"columns": {"m": [1, 2, 3], "latency_ms": [0.1, None, 0.3]}}, "columns.latency_ms"),
        ({"columns": {"m": [1, 2, 3], "n": [1, 2, 3], **LATENCY}}, "fixed.n"),
        ({"fixed": {"n": 64, "k": 1.5}}, "fixed.k"),
        ({"fixed": {"n": 64, "k": 128, "kernel": 7}}, "fixed.kernel"),
        ({"columns": {"m": [1, 2, 3], "mark": [None, "odd", None], **LATENCY}}, "marks.odd"),
        ({"marks": {"odd": {"verdict": "suspect", "reason": "why", "timings": 1}}}, "marks.odd"),
        ({"operator": "gemv"}, "operator"),
        ({"timings": 65537}, "timings"),
        ({"observed": None}, "observed"),
    ],
)
def test_tables_that_contradict_themselves_are_refused_by_the_column(build, data, field):
    with pytest.raises(InvalidEvent) as refused:
        decoded(build, **data)
    assert refused.value.field == f"data.{field}"


def test_simulated_and_imported_timings_need_no_observation(build):
    event = decoded(build, observed=None, provenance={"origin": "imported"})
    assert event.data.provenance.origin == "imported"


def test_a_column_as_runs_has_as_many_values_as_its_runs_say():
    assert expanded(KernelRuns(values=["a", None], runs=[2, 1])) == ["a", "a", None]


def test_work_of_a_matrix_product_counts_each_matrix_once():
    work = kernel_work("gemm", {"m": 2, "n": 3, "k": 4}, FP32)
    assert (work.flops, work.bytes) == (48, 4 * (8 + 12 + 6))
    narrow = kernel_work("gemm", {"m": 2, "n": 3, "k": 4}, NUMBER_TYPES["nvfp4"])
    assert narrow.bytes == 0.5 * (8 + 12) + 2 * 6
    weights_only = kernel_work("gemm", {"m": 2, "n": 3, "k": 4}, NUMBER_TYPES["int4_wo"])
    assert weights_only.bytes == 2 * 8 + 0.5 * 12 + 2 * 6
    assert kernel_work("bmm", {"batch": 5, "m": 2, "n": 3, "k": 4}, FP32).flops == 5 * 48


def attention(phase, **sizes):
    return kernel_work("attention", {"batch": 1, "heads": 1, "head_dim": 1, **sizes}, FP32, phase=phase)


def test_attention_sees_what_its_mask_lets_it_see():
    # Four operations a pair of tokens and column of a head: multiply and add, twice.
    assert attention("context", query_tokens=4).flops == 4 * (1 + 2 + 3 + 4)
    assert attention("encoder", query_tokens=4).flops == 4 * 16
    assert attention("context", query_tokens=4, cached_tokens=10).flops == 4 * (11 + 12 + 13 + 14)
    assert attention("context", query_tokens=4, window_size=2).flops == 4 * (1 + 2 + 2 + 2)
    assert attention("generation", query_tokens=1, cached_tokens=99).flops == 4 * 100
    assert attention("generation", query_tokens=1, cached_tokens=99, window_size=8).flops == 4 * 8
    # A query and a result, and a key and a value for each token that is seen.
    assert attention("generation", query_tokens=1, cached_tokens=99).bytes == 4 * (2 + 2 * 100)
    grouped = kernel_work(
        "attention",
        {"batch": 1, "heads": 8, "kv_heads": 2, "head_dim": 1, "query_tokens": 1, "cached_tokens": 99},
        KernelTypes(activations="bf16", kv_cache="fp8"),
    )
    assert grouped.bytes == 2 * 2 * 8 + 1 * 2 * 2 * 100


def test_a_convolution_may_be_transformed_but_not_done_away_with():
    sizes = {
        "batch": 1,
        "in_channels": 2,
        "out_channels": 4,
        "height": 8,
        "width": 8,
        "kernel_height": 3,
        "kernel_width": 3,
    }
    # 6 × 6 results, and one multiplication a result and pair of channels however the filter is applied.
    assert kernel_work("convolution", sizes, FP32).flops == 2 * 36 * 2 * 4
    assert kernel_work("convolution", {**sizes, "padding": 1, "stride": 2}, FP32).flops == 2 * 16 * 2 * 4
    assert kernel_work("convolution", {**sizes, "groups": 2}, FP32).flops == 2 * 36 * 2 * 4 / 2


def test_experts_that_are_spread_may_have_no_weights_to_read():
    sizes = {"tokens": 4, "hidden_size": 8, "inner_size": 16, "experts": 8, "top_k": 2}
    alone = kernel_work("moe", sizes, FP32)
    assert alone.flops == 2 * 2 * 8 * 16 * 4 * 2
    assert alone.bytes == 4 * (2 * 2 * 8 * 16) + 4 * 4 * 8
    spread = kernel_work("moe", {**sizes, "expert_parallel": 4}, FP32)
    assert (spread.flops, spread.bytes) == (alone.flops / 4, 4 * 8)


def test_row_wise_work_is_traffic():
    assert kernel_work("softmax", {"rows": 3, "row_size": 5}, FP32).bytes == 2 * 4 * 15
    assert kernel_work("elementwise", {"rows": 3, "row_size": 5, "inputs": 2}, FP32).bytes == 3 * 4 * 15
    assert kernel_work("elementwise", {"rows": 3, "row_size": 5}, KernelTypes(activations="bool")).bytes == 15
    assert kernel_work("elementwise", {"rows": 3, "row_size": 5}, FP32, phase="backward") is None
    assert kernel_work("gemm", {"m": 2, "n": 3, "k": 4}, FP32, phase="accumulation") is None
    assert kernel_work("collective", {"ranks": 2, "elements": 8}) is None


@pytest.mark.parametrize("operator", [name for name in SIZES if name not in ("other", "collective")])
def test_arrays_of_sizes_give_what_each_gives_alone(operator):
    needed, optional = SIZES[operator]
    rng = np.random.default_rng(7)
    sizes = {name: rng.integers(1, 64, 20).astype(float) for name in (*needed, *optional)}
    together = kernel_work(operator, sizes, FP32)
    for row in range(20):
        alone = kernel_work(operator, {name: float(values[row]) for name, values in sizes.items()}, FP32)
        assert (together.flops[row], together.bytes[row]) == pytest.approx((float(alone.flops), float(alone.bytes)))
