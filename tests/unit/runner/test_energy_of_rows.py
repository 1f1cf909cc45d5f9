"""From what a child reported of a meter to the metrics and verdicts of a row."""

from __future__ import annotations

from typing import Any

import pytest

from domain.configuration import Workload
from domain.payloads import MeasurementRecorded
from runner.campaign.event_payloads import Machine, measurement_data
from runner.protocol.tasks import Case

SAMPLES = [10.0, 10.1, 10.2] * 20
METER = {
    "meter": "nvml",
    "scope": "the GPU board",
    "readings": 16,
    "seconds": 3.0,
    "longest_gap_s": 0.2,
    "update_s": 0.1,
}


def row(energy: dict[str, Any], observed: dict[str, Any] | None = None) -> MeasurementRecorded:
    workload = Workload(mode="inference", batch_size=4, output_tokens=8)
    result = {
        "model": {"id": "example/one"},
        "runtime": {"name": "torch", "version": "2.13.0"},
        "threads": 1,
        "series": {
            "samples_ms": SAMPLES, "warmup_ms": [], "mean_memory_bytes": None,
            "conditions": {"utilisation": 0.5, "energy": energy},
        },
        "observed": {"device": "cuda:0", "platform": "cuda", "precision": "fp16", "fallback_share": 0.0, **(observed or {})},
        "times": {"load_ms": 1.0, "convert_ms": None, "compile_ms": None, "first_run_ms": None},
        "peak_memory_bytes": 1000,
        "device_memory_bytes": None,
    }  # fmt: skip
    machine = Machine(
        environment={"fingerprint": "0123456789abcdef"},
        hardware=[],
        placement=[
            {"hardware": {"id": "intel-xeon-2c", "kind": "cpu", "count": 1}, "addresses": {}},
            {"hardware": {"id": "nvidia-l4", "kind": "gpu", "count": 8}, "addresses": {"cuda": ["cuda:0", "cuda:1"]}},
        ],
        platforms={},
    )
    case = Case(model="example/one", platform="cuda", precision="fp16", workload=workload)
    return measurement_data(case, result, run_id="run", model={"id": "example/one"}, machine=machine)[0]


def test_energy_is_told_by_call_item_and_token_with_rest_beside_it() -> None:
    found = row({**METER, "counted_j": 300.0, "integrated_j": 303.0, "idle_w": 40.0, "idle_seconds": 1.0})
    metrics = found.metrics
    assert (metrics.energy_j, metrics.power_w) == pytest.approx((5.0, 100.0))
    assert (metrics.energy_per_item_j, metrics.energy_per_token_j) == pytest.approx((1.25, 0.15625))
    assert (metrics.idle_power_w, metrics.energy_above_idle_j) == pytest.approx((40.0, 3.0))
    assert found.validity is not None and found.validity.metrics["energy_j"].verdict == "valid"


def test_an_invalid_energy_is_null_and_its_reason_stays_while_the_row_is_valid() -> None:
    found = row({**METER, "longest_gap_s": 3.5, "counted_j": 300.0})
    assert found.metrics.energy_j is None and found.metrics.power_w is None
    assert found.validity is not None and found.validity.verdict == "valid"
    assert found.validity.metrics["energy_j"].reasons == ["the power meter was not read for 3.5 s"]


def test_a_counter_and_an_integral_that_disagree_make_energy_suspect_and_not_the_row() -> None:
    found = row({**METER, "counted_j": 300.0, "integrated_j": 200.0})
    assert found.metrics.energy_j == pytest.approx(5.0)
    assert found.validity is not None and found.validity.verdict == "valid"
    assert found.validity.metrics["power_w"].verdict == "suspect"


def test_what_could_not_be_read_is_null_with_the_reason() -> None:
    found = row({"unread": "no counter."})
    assert found.metrics.energy_j is None and found.validity is not None and "energy_j" not in found.validity.metrics
    assert found.conditions is not None and found.conditions.energy is not None
    assert found.conditions.energy.unread == "no counter."


def test_a_row_counts_the_devices_that_did_the_work() -> None:
    alone = row({"unread": "no counter."})
    spread = row({"unread": "no counter."}, {"details": {"devices": {"cuda:0": 0.5, "cuda:1": 0.5}}})
    assert (alone.hardware.id, alone.hardware.count, alone.execution.parallelism) == ("nvidia-l4", 1, None)
    assert spread.hardware.count == 2
    assert spread.execution.parallelism is not None and spread.execution.parallelism.pipeline == 2
