"""Placement as one measures it: streams of OpenVINO, and optimizers that keep less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from domain.configuration import Workload
from domain.errors import PartMissing, UnsupportedWorkload, UsageError
from runner.measure.prepared_case import INPUTS, read_arrays
from runner.measure.training import TorchTraining, make_optimizer
from runner.platforms.base import Converted, Settings
from runner.platforms.openvino import OpenVino
from tests.integration.runner.workbench import case, converted, failed, verified


def test_streams_of_openvino_give_what_one_gives_in_its_order(tmp_path: Path) -> None:
    split = case("bert-tiny", "openvino", batch_size=4, sequence_length=8, options=("streams=2",))
    folder = converted(split, tmp_path)
    result = verified(split, folder)
    assert not failed(result) and result["options"]["streams"] == 2
    with pytest.raises(UsageError) as uneven:
        loaded(folder, "streams=3").compile()
    assert uneven.value.field == "options" and "multiple of 3" in (uneven.value.remedy or "")
    platform = loaded(folder, "streams=4")
    platform.compile()
    requests = platform.place(read_arrays(tmp_path / INPUTS))
    assert [request.get_input_tensor(0).shape[0] for request in requests] == [1] * 4
    with pytest.raises(UnsupportedWorkload):
        loaded(folder, "streams=2", purpose="generation")


def loaded(folder: str, *options: str, **settings: Any) -> OpenVino:
    platform = OpenVino()
    platform.load(Converted(folder=Path(folder)), Settings(precision="fp32", threads=1, options=options, **settings))
    return platform


def test_an_optimizer_in_8_bits_keeps_its_moments_in_8_bits_and_moves_the_weights() -> None:
    import torch

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = torch.nn.Linear(64, 128)

        def forward(self, x: Any) -> Any:
            from types import SimpleNamespace

            return SimpleNamespace(loss=self.wide(x).square().mean())

    module = Line()
    before = module.wide.weight.detach().clone()
    workload = Workload(mode="training", optimizer="adamw-8bit")
    steps = TorchTraining(module, {"x": torch.ones(2, 64)}, workload, 1e-2, synchronize=lambda: None)
    # Its step is compiled, which takes longer than this test may; what it computes is the same.
    with torch.compiler.set_stance("force_eager"):
        steps.forward()
        steps.backward()
        steps.update()
    moments = steps._optimizer.state[module.wide.weight]
    assert moments["exp_avg"].codes.dtype == moments["exp_avg_sq"].codes.dtype == torch.uint8
    assert (module.wide.weight - before).abs().max().item() == pytest.approx(1e-2, rel=0.05)


def test_an_optimizer_in_8_bits_without_a_compiler_is_a_missing_part(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch._inductor import config

    monkeypatch.setattr(config.cpp, "cxx", ("no-such-compiler",))
    with pytest.raises(PartMissing) as missing:
        make_optimizer("adamw-8bit", [torch.nn.Parameter(torch.ones(4))], 1e-3)
    assert missing.value.field == "optimizer" and "g++" in (missing.value.remedy or "")
