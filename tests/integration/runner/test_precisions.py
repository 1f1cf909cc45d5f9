"""Quantized, mixed and compiled execution of real models, and what is observed of each."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from domain.configuration import Workload
from domain.errors import UnsupportedPrecision
from runner.campaign.execution import conversion_of
from runner.measure.output_comparison import TOLERANCES, widened
from runner.measure.reference_outputs import reference_of, sensitivities
from runner.platforms.registry import create
from runner.platforms.torch_precision import quantize
from runner.protocol.parent import run_task
from runner.protocol.tasks import Measure
from tests.integration.runner.workbench import METHOD, case, converted, failed, verified

DECODING = {"input_tokens": 12, "output_tokens": 4}


def test_torch_int8_multiplies_integers_and_says_how() -> None:
    result = verified(case("bert-tiny", precision="int8", sequence_length=16))
    assert failed(result) == []
    assert result["options"] == {"quantization": "torchao.Int8DynamicActivationInt8Weight"}
    assert result["observed"]["precision"] == "int8"
    assert 0.5 < result["observed"]["precision_share"] <= 1.0
    assert max(each["max_absolute"] for each in result["outputs"]) > 1e-6


def test_torch_int4_holds_the_weights_of_a_decoder() -> None:
    result = verified(case("assay/gpt2-small", precision="int4", **DECODING))
    assert failed(result) == []
    assert result["options"]["group_size"] in (32, 64, 128)
    # GPT-2's own transposed layers are among those quantized: they do most of the work.
    assert result["observed"]["precision"] == "int4" and result["observed"]["precision_share"] > 0.9


def test_int8_without_linear_layers_is_refused_and_not_renamed() -> None:
    convolution = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3))
    with pytest.raises(UnsupportedPrecision) as caught:
        quantize(convolution, "int8", "cpu")
    assert "OpenVINO" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    ("precision", "model", "sizes"),
    [
        ("int8", "bert-tiny", {"sequence_length": 16}),
        pytest.param("int4", "assay/gpt2-small", DECODING, marks=pytest.mark.torture),
    ],
)
def test_openvino_quantizes_and_its_graph_says_so(
    precision: str, model: str, sizes: dict[str, int], tmp_path: Path
) -> None:
    of = case(model, "openvino", precision, **sizes)
    result = verified(of, converted(of, tmp_path))
    assert failed(result) == []
    assert result["options"]["quantization"].startswith("nncf.")
    assert result["observed"]["precision"] == precision
    assert result["observed"]["details"]["precision_shares"][precision] > 0.5


def test_a_conversion_is_named_by_what_changes_it() -> None:
    same = [conversion_of(case("bert-tiny", "openvino", precision)) for precision in ("fp32", "bf16")]
    assert same[0] == same[1]
    others = [case("bert-tiny", "openvino", "int8"), case("bert-tiny", "openvino", output_tokens=3)]
    assert all(conversion_of(other) != same[0] for other in others)


@pytest.mark.parametrize(("platform", "package"), [("cpu", "torchao"), ("openvino", "nncf")])
def test_a_missing_package_is_a_described_fact(platform: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = importlib.util.find_spec

    def without(name: str, *rest: str) -> ModuleSpec | None:
        return None if name == package else plain(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    found = create(platform)
    assert not {"int8", "int4"} & set(found.precisions())
    assert f"pip install {package}" in found.refusals()["int8"]
    with pytest.raises(UnsupportedPrecision) as caught:
        found.check("inference", "int8")
    assert f"pip install {package}" in (caught.value.remedy or "")


def test_autocast_is_observed_as_itself() -> None:
    result = verified(case("bert-tiny", precision="amp-bf16", sequence_length=16))
    assert failed(result) == []
    assert result["observed"]["precision"] == "amp-bf16" and result["observed"]["fallback_share"] == 0.0
    assert max(each["max_absolute"] for each in result["outputs"]) > 1e-5


@pytest.mark.torture
def test_a_compiled_model_is_compiled_before_it_is_timed() -> None:
    """In a child of its own, as it is measured: compiling holds threads and caches that stay."""
    of = case("bert-tiny", compiled=True, sequence_length=16)
    ended = run_task(Measure(case=of, method=METHOD), timeout_s=300)
    assert ended.failure is None
    result = ended.result
    assert result["observed"]["details"]["graphs"] >= 1 and result["observed"]["details"]["graph_breaks"] == 0
    assert result["options"] == {"compiler": "inductor"}
    # Compiling takes a hundred calls' time and is in none of them.
    assert result["times"]["compile_ms"] > 100 * result["times"]["first_run_ms"] / 2
    assert max(result["series"]["samples_ms"]) < result["times"]["compile_ms"] / 10


def test_without_a_compiler_compiling_is_a_missing_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CXX", "no-such-compiler")
    ended = run_task(Measure(case=case("bert-tiny", compiled=True, sequence_length=16), method=METHOD), timeout_s=60)
    assert ended.failure is not None
    assert (ended.failure.stage, ended.failure.outcome, ended.failure.error) == (
        "compile",
        "unsupported",
        "PartMissing",
    )
    assert "g++" in (ended.failure.remedy or "")


class Towers(torch.nn.Module):
    """Two embeddings that are orthogonal but for a little, and their similarity."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        turn = torch.linalg.qr(torch.randn(64, 64))[0]
        self.one = torch.nn.Parameter(turn[0] + 0.01 * turn[1])
        self.other = torch.nn.Parameter(turn[1].clone())

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        one, other = self.one * x, self.other * x
        return {"one": one, "other": other, "similarity": (one * other).sum(-1)}


def test_a_similarity_of_orthogonal_vectors_may_move_as_far_as_rounding_moves_it() -> None:
    inputs = {"x": torch.ones(2, 64)}
    module, workload = Towers().eval(), Workload(mode="inference")
    found = sensitivities(module, inputs, workload, reference_of(module, inputs, workload))
    table = TOLERANCES["bf16"]
    for name in ("one", "other"):
        assert found[name].relative < 0.005 and widened(table, "bf16", found[name]) == table
    assert found["similarity"].relative > 5 * found["one"].relative
    assert widened(table, "bf16", found["similarity"]).relative == pytest.approx(
        max(table.relative, min(0.5, 4 * found["similarity"].relative))
    )


@pytest.mark.torture
def test_small_xclip_passes_in_bf16(tmp_path: Path) -> None:
    of = case("assay/xclip-small", "openvino", "bf16")
    assert failed(verified(of, converted(of, tmp_path))) == []


@pytest.mark.parametrize("precision", ["amp-bf16", "amp-fp16"])
def test_code_that_autocast_breaks_is_refused_with_what_to_take_instead(precision: str) -> None:
    of = case("assay/deberta-small", precision=precision, sequence_length=16)
    with pytest.raises(UnsupportedPrecision, match="autocast") as caught:
        verified(of)
    assert caught.value.field == "precision" and "bf16" in (caught.value.remedy or "")
    assert failed(verified(case("assay/deberta-small", precision="bf16", sequence_length=16))) == []


@pytest.mark.torture
def test_importing_what_quantizes_says_nothing() -> None:
    code = "import runner\nfrom transformers import BertModel\nBertModel\nimport torchao.quantization"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout + ended.stderr == ""
