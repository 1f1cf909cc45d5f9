"""In which order a page tries backends, by what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.measure.browser_example import example, in_order


def row(platform, latency, precision="fp32", **over):
    return {
        "platform": platform,
        "precision": precision,
        "hardware": "here",
        "device": "amd rdna-3",
        "latency_ms": latency,
        "latency_ms_low": latency,
        "latency_ms_high": latency,
        "browser": "chromium",
        "browser_version": "153",
        "verdict": "valid",
        "evidence": [f"{platform}-{precision}-{latency}"],
    } | over


def backends(rows, precisions=("fp32",), failed=None, hardware=None):
    rungs, _ = in_order(rows, precisions, failed or {}, hardware)
    return [rung.backend for rung in rungs]


def test_without_measurements_webnn_comes_before_webgpu_before_wasm():
    rungs, hardware = in_order([], ["int8", "fp32"], {})
    assert [(rung.backend, rung.precision, rung.note) for rung in rungs] == [
        ("webnn", "int8", "not measured"),
        ("webgpu", "int8", "not measured"),
        ("wasm", "int8", "not measured"),
    ]
    assert hardware is None


def test_measured_backends_come_by_their_median_and_before_what_was_not_measured():
    rows = [row("wasm", 3.0), row("webgpu", 1.0)]
    assert backends(rows) == ["webgpu", "wasm", "webnn"]


def test_a_backend_takes_its_fastest_precision_of_those_exported_and_valid_rows_come_first():
    rows = [
        row("webnn", 8.3, "int8"),
        row("webnn", 1.75),
        row("webnn", 0.5, "fp16"),
        row("webnn", 0.1, verdict="suspect"),
    ]
    rungs, _ = in_order(rows, ["int8", "fp32"], {})
    assert (rungs[0].precision, rungs[0].evidence.row) == ("fp32", "webnn-fp32-1.75")


@pytest.mark.parametrize(
    "adapter", [{"device": "cpu (google swiftshader)"}, {"device": "stated", "verdict": "suspect"}]
)
def test_a_software_adapter_says_nothing_of_webgpu(adapter):
    rungs, _ = in_order([row("webgpu", 0.1, **adapter), row("wasm", 3.0, device="cpu")], ["fp32"], {})
    assert [rung.backend for rung in rungs] == ["wasm", "webnn", "webgpu"]
    assert rungs[2].evidence is None
    assert "software adapter" in rungs[2].note


def test_times_of_two_machines_are_not_put_in_one_order():
    rows = [row("wasm", 3.0), row("webnn", 4.0), row("webnn", 0.1, hardware="there")]
    assert backends(rows) == ["wasm", "webnn", "webgpu"]
    assert backends(rows, hardware="there") == ["webnn", "webgpu", "wasm"]


def test_wrong_outputs_put_a_backend_last_or_to_another_precision():
    rows = [row("webnn", 0.1), row("webnn", 0.3, "int8"), row("wasm", 3.0)]
    rungs, _ = in_order(rows, ["fp32"], {("webnn", "fp32"): "test-1"})
    assert [rung.backend for rung in rungs] == ["wasm", "webgpu", "webnn"]
    assert "test-1" in rungs[2].note
    rungs, _ = in_order(rows, ["fp32", "int8"], {("webnn", "fp32"): "test-1"})
    assert (rungs[0].backend, rungs[0].precision) == ("webnn", "int8")


@pytest.mark.parametrize("precision", ["int9", "bf16"])
def test_a_precision_that_pages_do_not_have_is_refused_before_anything_is_written(tmp_path: Path, precision: str):
    out = tmp_path / "page"
    result = CliRunner().invoke(example, ["bert-tiny", "--out", str(out), "--precision", precision])
    assert result.exit_code != 0
    assert not out.exists()
    assert result.exception.field == "precision"


def test_a_folder_with_files_is_left_alone(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("mine")
    result = CliRunner().invoke(example, ["bert-tiny", "--out", str(tmp_path)])
    assert result.exception.field == "out"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
