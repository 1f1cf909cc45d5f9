"""Kernels through children: a kernel that ends one does not take the others with it, and converted ones say what ran."""

from __future__ import annotations

from typing import Any

import pytest

from runner.calibration.kernels import kernels_for, scale_of
from runner.calibration.plan import make_calibration
from runner.calibration.run import CalibrationReport, run_calibration


def calibrated(*platforms: str, **plan: Any) -> tuple[CalibrationReport, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    report = run_calibration(make_calibration(platforms, threads=1, budget_s=2.0, **plan), events.append)
    return report, [event["data"] for event in events if event["type"] == "assay.kernel.measured.v1"]


def test_a_kernel_that_ends_the_child_is_named_and_the_others_are_measured(plugin, monkeypatch):
    fatal = next(kernel for kernel in kernels_for(scale_of("cpu")) if kernel.name == "softmax-small")
    monkeypatch.setenv("EXAMPLE_FATAL", str(fatal.sizes["rows"] * fatal.sizes["row_size"]))
    names = ("tiny", "softmax-small", "layer-norm-small")
    report, tables = calibrated("fragile", precisions=["fp32"], kernels=names)
    assert report.measured == 2 and report.exit_code == 1
    (refused,) = report.refused
    assert (refused.kernel, refused.why.error, refused.why.stage) == ("softmax-small", "SIGKILL", "run")
    assert [data["columns"]["kernel"] for data in tables] == [["tiny"], ["layer-norm-small"]]
    assert {data["observed"]["platform"] for data in tables} == {"fragile"}


@pytest.mark.parametrize(("platform", "runtime"), [("openvino", "openvino"), ("onnxruntime", "onnxruntime")])
@pytest.mark.torture
def test_converted_kernels_say_what_ran(platform, runtime):
    pytest.importorskip(runtime)
    report, tables = calibrated(
        platform, precisions=["fp32", "int8"], kernels=["tiny", "layer-norm-small", "depthwise"]
    )
    assert report.measured == 4 and not report.refused
    kinds = [(data.get("name"), data["execution"]["precision"], data["types"]["weights"]) for data in tables]
    assert kinds == [
        (None, "fp32", "fp32"), ("depthwise", "fp32", "fp32"), ("layer_norm", "fp32", "fp32"), (None, "int8", "int8"),
    ]  # fmt: skip
    for data in tables:
        assert data["execution"]["runtime"]["name"] == runtime
        assert data["observed"]["fallback_share"] == 0
        assert data["columns"]["latency_ms"][0] > 0
        if platform == "openvino":
            assert data["execution"]["options"]["inference_precision_hint"] == "f32"
    assert tables[-1]["method"]["includes"] == ["quantize"] and not tables[0]["method"].get("includes")
