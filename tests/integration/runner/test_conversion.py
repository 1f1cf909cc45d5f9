"""Models that OpenVINO once computed wrongly or not at all: their graphs give what torch gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from domain.configuration import Workload
from runner.models.build import build
from runner.models.inputs import make_inputs
from runner.models.sources import resolve
from runner.platforms.openvino_recording import settled
from tests.integration.runner.workbench import case, converted, failed, verified


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("assay/qwen3-vl-small", marks=pytest.mark.torture),
        pytest.param("assay/qwen-vl-small", marks=pytest.mark.torture),
        pytest.param("assay/unet-small", marks=pytest.mark.torture),
    ],
)
def test_the_graph_gives_what_torch_gives(name: str, tmp_path: Path) -> None:
    of = case(name, "openvino")
    result = verified(of, converted(of, tmp_path))
    assert failed(result) == [] and result["missing"] == []
    assert result["outputs"] and result["deterministic"]
    assert result["observed"]["precision"] == "fp32"


def test_positions_of_pictures_are_those_that_the_model_works_out_itself() -> None:
    built = build(resolve("assay/qwen3-vl-small", "random"))
    inputs = make_inputs(built, Workload(mode="inference", batch_size=2))
    free, fixed = settled(built.module, inputs)
    assert free.keys() == inputs.keys() and fixed["position_ids"].shape == (3, *inputs["input_ids"].shape)
    with torch.inference_mode():
        own, given = built.module(**inputs).logits, built.module(**free, **fixed).logits
        moved = built.module(**free, position_ids=fixed["position_ids"].flip(0)).logits
    assert torch.equal(own, given) and not torch.allclose(own, moved)


@pytest.mark.torture
@pytest.mark.parametrize(
    ("name", "sizes"), [("assay/qwen3-vl-small", {"input_tokens": 12}), ("assay/musicgen-small", {})]
)
def test_generation_chooses_the_tokens_of_torch(name: str, sizes: dict[str, int], tmp_path: Path) -> None:
    of = case(name, "openvino", output_tokens=5, **sizes)
    result = verified(of, converted(of, tmp_path))
    assert failed(result) == []
    # MusicGen writes a token for each of its codebooks.
    assert result["tokens"]["share"] == 1.0
    assert result["tokens"]["compared"] == 2 * 5 * (4 if "musicgen" in name else 1)


def test_a_denoiser_runs_on_the_processor_through_torch() -> None:
    result = verified(case("assay/unet-small", precision="bf16"))
    assert failed(result) == []
    assert result["observed"]["precision"] == "bf16"
    assert [each["name"] for each in result["outputs"]] == ["sample"]
