import numpy as np
import pytest

from domain.performance.roofline import Limits, roofline
from predictor.features.features import FEATURES, Software, features_of, version_number
from predictor.features.traces import TraceBook, trace_from_data

LIMITS = Limits(
    peak_flops=1e12, bandwidth_bytes_per_s=1e11, launch_s=1e-6, activation_bytes=2.0, weight_bytes=2.0, cache_bytes=1e6
)
DATA = {
    "model": {"id": "acme/net", "family": "net", "category": "vision", "architecture": "a" * 64, "parameters": 1000},
    "workload": {"mode": "inference", "image_size": 64, "sequence_length": None},
    "operators": [
        {
            "name": "aten.convolution", "class": "depthwise", "count": 2, "flops": 1.8e6, "read_elements": 1e5,
            "write_elements": 1e5, "weight_elements": 90, "inner": 9, "kernel": [3, 3], "stride": [2, 2], "groups": 10,
        },
        {
            "name": "aten.addmm", "class": "mm", "count": 1, "flops": 4e9, "read_elements": 1e4, "write_elements": 1e4,
            "weight_elements": 1e6, "inner": 1000, "kernel": None, "stride": None, "groups": None,
        },
    ],
    "totals": {"parameters": 1000, "peak_activation_elements": 2e5},
}  # fmt: skip
TRACE = trace_from_data(DATA)


def named(software: Software, limits: Limits = LIMITS) -> dict[str, float]:
    return dict(zip(FEATURES, features_of(TRACE, [limits], [software]).values[0], strict=True))


def test_the_prior_is_the_roofline() -> None:
    for batch in (1, 7, 128):
        prior = features_of(TRACE, [LIMITS], [Software(batch_size=batch)]).prior_s[0]
        assert prior * 1e3 == pytest.approx(roofline(DATA["operators"], LIMITS, batch_size=batch).latency_ms)


def test_features_by_hand() -> None:
    found = named(Software(batch_size=2, compiled=True, runtime_version=2.09))
    depthwise = 2 * (2 * 2e5 + 90) * 2 / 1e11 + 2e-6
    mm = 2 * 4e9 / 1e12 + 1e-6
    assert found["log_prior"] == pytest.approx(np.log(depthwise + mm))
    assert found["time_share.depthwise"] == pytest.approx(depthwise / (depthwise + mm))
    assert found["flops_share.mm"] == pytest.approx(4e9 / (4e9 + 3.6e6))
    assert found["count_share.depthwise"] == pytest.approx(2 / 3)
    assert found["inner.mm"] == pytest.approx(np.log(1000))
    assert found["inner.depthwise"] == pytest.approx(np.log(9))
    assert found["kernel.depthwise"] == 3
    assert found["stride.depthwise"] == 2
    assert np.isnan(found["inner.conv"])
    assert found["compute_bound_share"] == pytest.approx(mm / (depthwise + mm))
    assert (found["log_batch"], found["compiled"], found["runtime_version"]) == (1.0, 1.0, 2.09)


def test_a_device_twice_as_fast_in_everything_looks_the_same_but_for_its_totals() -> None:
    twice = Limits(
        peak_flops=2e12,
        bandwidth_bytes_per_s=2e11,
        launch_s=5e-7,
        activation_bytes=2.0,
        weight_bytes=2.0,
        cache_bytes=1e6,
    )
    one, other = named(Software(batch_size=8)), named(Software(batch_size=8), twice)
    absolute = {"log_prior", "log_compute", "log_memory", "log_floored", "under_5us_share", "under_20us_share"}
    for name in set(FEATURES) - absolute:
        assert one[name] == pytest.approx(other[name], nan_ok=True), name
    assert one["log_prior"] - other["log_prior"] == pytest.approx(np.log(2))


def test_many_configurations_give_the_same_rows_as_one_at_a_time() -> None:
    software = [Software(batch_size=size, cpu=size % 2 == 0) for size in (1, 2, 64)]
    together = features_of(TRACE, [LIMITS] * 3, software).values
    for index, one in enumerate(software):
        np.testing.assert_allclose(together[index], features_of(TRACE, [LIMITS], [one]).values[0])


def test_versions_are_ordered_as_releases_are() -> None:
    assert version_number("2.9.1") < version_number("2.13.0") < version_number("3.0")
    assert version_number(None) == 0.0


def test_a_trace_is_found_by_its_size_and_by_no_other() -> None:
    book = TraceBook([TRACE])
    assert book.find("acme/net", image_size=64) is TRACE
    assert book.find("acme/net") is TRACE
    assert book.find("acme/net", image_size=128) is None
    assert book.find("acme/other", image_size=64) is None
