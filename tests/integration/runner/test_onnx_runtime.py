"""ONNX Runtime runs models as torch does, says where each part ran, and never takes the processor unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.errors import PlatformUnavailable, UnsupportedPrecision
from runner.measure.prepared_case import available
from runner.platforms.base import Converted, Settings
from runner.platforms.onnx_runtime import OnnxRuntime, OnnxRuntimeCuda
from tests.integration.runner.workbench import case, converted, failed, measured, verified


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return converted(case("bert-tiny", "onnxruntime"), tmp_path_factory.mktemp("fp32"))


def test_a_row_says_the_processor_did_the_work_and_which_provider(folder: str) -> None:
    result = measured(case("bert-tiny", "onnxruntime"), folder)
    seen = result["observed"]
    assert (seen["platform"], seen["device"], seen["precision"]) == ("cpu", "cpu", "fp32")
    assert seen["fallback_share"] == 0.0
    assert set(seen["details"]["nodes"]) == {"CPUExecutionProvider"} and sum(seen["details"]["nodes"].values()) > 20
    assert len(result["series"]["samples_ms"]) == 5
    assert result["times"]["compile_ms"] > 0


@pytest.mark.torture
def test_int8_multiplies_in_eight_bits_and_names_its_method(tmp_path: Path) -> None:
    of = case("bert-tiny", "onnxruntime", "int8")
    result = verified(of, converted(of, tmp_path))
    assert failed(result) == []
    assert result["observed"]["precision"] == "int8"
    # Attention's own products have no weights, and stay in fp32.
    assert 0.5 < result["observed"]["precision_share"] < 1.0
    assert result["options"]["quantization"] == "onnxruntime.quantize_dynamic"


def test_a_precision_that_it_cannot_compute_in_is_refused() -> None:
    with pytest.raises(UnsupportedPrecision, match="bf16"):
        available(case("bert-tiny", "onnxruntime", "bf16"))


def test_cuda_that_is_not_here_is_never_replaced_by_the_processor(folder: str) -> None:
    probe = OnnxRuntimeCuda().probe()
    assert not probe.available and "CUDAExecutionProvider" in (probe.reason or "")

    class Elsewhere(OnnxRuntime):
        provider = "CUDAExecutionProvider"

    platform = Elsewhere()
    platform.load(Converted(folder=Path(folder)), Settings(precision="fp32", threads=1))
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"), pytest.raises(PlatformUnavailable, match="took CPU"):
        platform.compile()
