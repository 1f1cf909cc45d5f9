"""One of two ranks that compare the gradients of their step with those of one rank on the whole batch.

`python -m tests.integration.runner.rank_gradients INDEX [PORT]`: the first prints its port; both print the largest
difference of any gradient with DDP and with FSDP2.
"""

from __future__ import annotations

import sys

import msgspec
import torch

from domain.configuration import Workload
from runner.measure.training import TorchTraining
from runner.models.build import build
from runner.models.inputs import training_inputs
from runner.models.sources import resolve
from runner.platforms.base import Rank, Settings
from runner.platforms.data_parallel import local_part
from runner.platforms.torch_eager import Cpu
from runner.protocol.nodes import listen, meet

WORKLOAD = Workload(mode="training", batch_size=4, sequence_length=16, optimizer="sgd")


def main(index: int, port: int) -> list[float]:
    torch.set_num_threads(1)
    if not index:
        _store, port = listen(None)
        print(port, flush=True)
    rank = Rank(index=index, size=2, port=port, strategy="ddp")
    meet(rank, "cpu")
    return [difference(rank), difference(msgspec.structs.replace(rank, strategy="fsdp2"))]


def difference(rank: Rank) -> float:
    """Return the largest difference of any gradient after one step on half of the batch."""
    built = build(resolve("assay/gpt2-small", "random"), purpose="training")
    inputs = training_inputs(built, WORKLOAD)
    expected = of_one_rank(built.module, inputs)
    option = {"ddp": "data-parallel=2", "fsdp2": "fsdp=2"}[rank.strategy]
    settings = Settings(precision="fp32", threads=1, purpose="training", dropout=False, options=(option,), rank=rank)
    platform = Cpu()
    platform.load(built.module, settings)
    steps = platform.trainer(platform.place(local_part(inputs, 4, rank)), WORKLOAD, 1e-4)
    steps.forward()
    steps.backward()
    assert steps.gradients_finite() and abs(steps.loss() - float(expected["loss"])) < 1e-5
    worst = 0.0
    for name, parameter in built.module.named_parameters():
        gradient = parameter.grad
        whole = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
        worst = max(worst, float((whole - expected[name]).abs().max()))
    return worst


def of_one_rank(module: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    module.eval()
    steps = TorchTraining(module, inputs, WORKLOAD, 1e-4, synchronize=lambda: None)
    steps.forward()
    steps.backward()
    gradients = {name: each.grad.clone() for name, each in module.named_parameters() if each.grad is not None}
    module.zero_grad(set_to_none=True)
    return {**gradients, "loss": torch.tensor(steps.loss())}


if __name__ == "__main__":
    print(*main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0), flush=True)
