"""Operator traces as arrays."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.features.traces import trace_from_data

NUMBER = st.none() | st.integers(0, 2**70) | st.floats(0, 1e12)
SIDE = NUMBER | st.lists(st.integers(0, 9), max_size=3)
OPERATOR = st.fixed_dictionaries(
    {"class": st.sampled_from(["gemm", "conv", "nothing that is a class"]), "count": st.integers(0, 3)},
    optional={
        **dict.fromkeys(("flops", "read_elements", "write_elements", "weight_elements", "inner", "groups"), NUMBER),
        "kernel": SIDE,
        "stride": SIDE,
    },
)


def longest(value: Any) -> float:
    """Return a size as it is defined: the longest of several, 0 where there is none."""
    if isinstance(value, list):
        return float(max(value, default=0))
    return float(value or 0)


@settings(deadline=None)
@given(st.lists(OPERATOR, max_size=6))
def test_arrays_hold_each_operator_that_is_called(operators):
    trace = trace_from_data({"model": {"id": "acme/net"}, "workload": {}, "operators": operators})
    called = [row for row in operators if row["count"]]
    assert list(trace.operators) == called

    def column(name: str) -> np.ndarray:
        return np.array([longest(row.get(name)) for row in called], dtype=np.float64)

    np.testing.assert_array_equal(trace.activations, column("read_elements") + column("write_elements"))
    for name, field in {
        "count": trace.count, "flops": trace.flops, "weight_elements": trace.weights, "write_elements": trace.written,
        "inner": trace.inner, "kernel": trace.kernel, "stride": trace.stride, "groups": trace.groups,
    }.items():  # fmt: skip
        np.testing.assert_array_equal(field, column(name))
