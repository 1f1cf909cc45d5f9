"""`assay hardware roofline`, `assay hardware kernels` and `assay model operators` against a real service."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from click.testing import CliRunner

from assay.cli import cli


def run(service: Any, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [*arguments, "--server", service.url], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.stdout


@pytest.fixture
def names(client: Any, build: Any) -> tuple[str, str]:
    """A device with a roof of 1 TFLOP/s and 100 GB/s, and a model of 4 GFLOP that took 8 ms on it."""
    device, model = f"acme-roof-{uuid.uuid4().hex[:6]}", f"acme/roofed-{uuid.uuid4().hex[:6]}"
    figures = {"fp32": 1e12}, 1e11
    spec = {
        "peak_flops": {
            name: {"value": value, "status": "measured", "source": "a test"} for name, value in figures[0].items()
        },
        "memory_bandwidth_bytes_per_s": {"value": figures[1], "status": "measured", "source": "a test"},
    }
    described = {
        "hardware": {"id": device, "kind": "cpu", "count": 1},
        "platforms": [{"platform": "cpu", "available": True, "precisions": ["fp32"]}],
        "spec": spec,
    }
    operator = {
        "name": "aten.addmm", "class": "mm", "count": 4, "flops": 1e9, "read_elements": 1000, "write_elements": 1000,
        "weight_elements": 1000, "inner": 768, "kernel": None, "stride": None, "groups": None,
    }  # fmt: skip
    traced = {
        "model": {"id": model, "category": "embedding", "family": "bert"},
        "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "sequence_length": 128},
        "tracer": {"name": "assay-tracer", "version": 1},
        "operators": [operator],
        "totals": {**{key: 4 * operator[key] for key in ("flops", "read_elements", "write_elements", "weight_elements")},
                   "operators": 4, "parameters": 1000},
    }  # fmt: skip
    events = [
        build.event("assay.hardware.described.v1", described), build.event("assay.model.traced.v1", traced),
        build.measurement(8.0, model=model, hardware=device),
    ]  # fmt: skip
    client.wait_for(client.post_events(events)["last_position"])
    return device, model


def test_a_roofline_says_how_near_each_call_came(service: Any, names: tuple[str, str]) -> None:
    device, model = names
    code, told = run(service, "hardware", "roofline", device)
    assert code == 0
    line = next(line for line in told.splitlines() if model in line)
    assert all(part in line for part in ("cpu", "fp32", "50.0 %", "500 GFLOP/s", "8.00 ms", "measured"))
    code, told = run(service, "hardware", "roofline", device, "--platform", "cuda", "--json")
    assert (code, json.loads(told)["points"]) == (1, [])


def test_operators_have_their_least_time_on_a_device_and_none_without(service: Any, names: tuple[str, str]) -> None:
    device, model = names
    code, told = run(service, "model", "operators", model, "--hardware", device, "--batch-size", "2")
    assert code == 0
    line = next(line for line in told.splitlines() if "aten.addmm" in line)
    assert all(part in line for part in ("mm", "8.00 G", "8.01 ms", "100.0 %", "compute"))
    code, told = run(service, "model", "operators", model, "--json")
    assert (code, json.loads(told)["basis"]) == (0, "traced")


def test_kernels_stand_beside_their_estimates_within_a_hundred_columns(
    service: Any, client: Any, build: Any, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    device, _ = names
    event = build.kernels(hardware=device, m=(1024, 512), latency_ms=(4.0, 0.5))
    event["data"]["fixed"] = {}
    event["data"]["columns"] |= {"n": [1024, 512], "k": [1024, 512]}
    client.wait_for(client.post_events([event])["last_position"])
    arguments = ["hardware", "kernels", device, "--server", service.url]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    told = result.output
    assert result.return_value == 0
    assert "specified 1.00 TFLOP/s, 100 GB/s" in told
    line = next(line for line in told.splitlines() if line.startswith("product-1024"))
    assert all(part in line for part in ("1024×1024×1024", "4.00 ms", "roofline"))
    assert sum(line.startswith(("product-", "rows-", "conv-")) for line in told.splitlines()) == 10
    assert "no interval" in told and "2 measured kernels" in told
    assert max(map(len, told.splitlines())) <= 100
    code, told = run(service, "hardware", "kernels", "rtx4090", "--operator", "norm", "--json")
    document = json.loads(told)
    assert code == 0
    assert (document["hardware"], [item["id"] for item in document["estimates"]]) == (
        "nvidia-rtx-4090", ["norm-768", "norm-4096"],
    )  # fmt: skip
    assert all(item["latency_ms_low"] < item["latency_ms"] for item in document["estimates"])
