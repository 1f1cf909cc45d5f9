"""Training on ranks: the whole module on each (DDP) or a shard of it (FSDP2), and of each batch this process's part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

from domain.configuration import Workload
from domain.errors import UnsupportedWorkload
from runner.measure.training import TorchTraining
from runner.platforms.base import Rank
from runner.platforms.execution_options import Strategy

__all__ = ["RankTraining", "all_reduce_ms", "local_batch_size", "local_part", "replicate", "require_values", "shard"]

_BUCKET_BYTES = 25 * 2**20
"""DistributedDataParallel's own default: gradients are reduced in buffers of 25 MiB."""


def local_batch_size(workload: Workload, rank: Rank) -> int:
    """Return the items of the global batch that one rank trains on."""
    return (workload.batch_size or 1) // rank.size


def local_part(inputs: Mapping[str, Any], batch: int, rank: Rank) -> dict[str, Any]:
    """Return this rank's part of the inputs of a global batch; what has no batch goes to every rank.

    Raises UnsupportedWorkload for an input whose first dimension holds several rows of each item: which belong together
    is not known.
    """
    size = batch // rank.size
    part = slice(rank.index * size, (rank.index + 1) * size)

    def cut(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cut(key, each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return value[part] if len(value) == batch else value
        if not getattr(value, "ndim", 0):
            return value
        rows = int(value.shape[0])
        if rows > batch and rows % batch == 0:
            raise UnsupportedWorkload(
                f"the input {name} has {rows} rows for {batch} items, and is not split over ranks.",
                field="options",
                remedy="Train it on one rank.",
            )
        return value[part] if rows == batch else value

    return {name: cut(name, value) for name, value in inputs.items()}


def shard(module: Any, rank: Rank, device_type: str) -> None:
    """Keep this rank's shard of the module (FSDP2), in place; all ranks have met, and it is on its device.

    Each block of the module's lists of blocks is a group of its own, and the rest is one more.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor, src=0)
    mesh = dist.init_device_mesh(device_type, (rank.size,))
    lists = [each for each in module.modules() if isinstance(each, torch.nn.ModuleList)]
    # The inner ones first: a group takes what no group inside it has.
    for block in [block for each in reversed(lists) for block in each]:
        if any(True for _ in block.parameters()):
            fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)


def require_values(module: Any) -> None:
    """Raise UnsupportedWorkload for parameters on the meta device, which have no values to share out."""
    for name, parameter in module.named_parameters():
        if parameter.is_meta:
            raise UnsupportedWorkload(
                f"the parameter {name} is on the meta device and has no values.",
                field="options",
                remedy="Take weights that are loaded whole: --weights random or pretrained.",
            )


def replicate(module: Any, inputs: Mapping[str, Any], context: Callable[[], Any], rank: Rank, device_type: str) -> Any:
    """Return what is called in place of the module so that its gradients are the mean over the ranks (DDP).

    One pass without communication shows whether every parameter has a gradient; where one has none, on any rank, DDP
    looks for them in every step, which takes time.
    """
    import torch
    import torch.distributed as dist

    with context():
        loss = getattr(module(**inputs), "loss", None)
    if loss is not None:
        loss.backward()
    trained = [each for each in module.parameters() if each.requires_grad]
    unused = torch.tensor([float(any(each.grad is None for each in trained) or _drops_layers(module))])
    module.zero_grad(set_to_none=True)
    dist.all_reduce(unused)
    devices = None if device_type == "cpu" else [rank.local_index]
    return torch.nn.parallel.DistributedDataParallel(
        module, device_ids=devices, find_unused_parameters=bool(unused.item())
    )


def _drops_layers(module: Any) -> bool:
    """Return whether the module leaves out layers at random, as audio models do in training."""
    return bool(getattr(getattr(module, "config", None), "layerdrop", 0))


class RankTraining(TorchTraining):
    """Steps of one rank on its part of the batch. With `averaging` the loss is the mean over the ranks."""

    def __init__(self, *args: Any, averaging: bool, strategy: Strategy, **how: Any) -> None:
        super().__init__(*args, **how)
        self._averaging = averaging
        self._strategy = strategy
        self._mean: float | None = None

    def forward(self) -> float | None:
        """Compute outputs and loss of this rank's part; return when the loss began."""
        began = super().forward()
        if self._averaging:
            import torch.distributed as dist

            mean = self._loss.detach().float().cpu()
            dist.all_reduce(mean)
            self._mean = float(mean) / dist.get_world_size()
        return began

    def loss(self) -> float:
        """Return the last loss: the mean over the ranks where it is averaged."""
        return super().loss() if self._mean is None else self._mean

    def gradients_finite(self) -> bool:
        """Return whether all gradients that this rank holds are finite."""
        import torch

        grads = [_local(each.grad) for each in self._module.parameters() if each.grad is not None]
        return bool(grads) and all(bool(torch.isfinite(gradient).all()) for gradient in grads)

    def gradient_bytes(self) -> list[int]:
        """Return the bytes of the buffers in which the gradients of the whole module are reduced."""
        sizes = [each.numel() * each.element_size() for each in self._module.parameters() if each.requires_grad]
        whole = sum(sizes)
        bounds = [*range(0, whole, _BUCKET_BYTES), whole]
        return [end - start for start, end in pairwise(bounds)]

    def local_ms(self, steps: int) -> float:
        """Return the median time of forward and backward pass without communication, over so many steps.

        DDP has `no_sync` for it. FSDP2 keeps the gathered parameters and reduces no gradient; this training can make
        no step afterwards.
        """
        times: list[float] = []
        with self._silent():
            for _ in range(steps + 1):
                began = perf_counter()
                self.forward()
                self.backward()
                self._synchronize()
                times.append((perf_counter() - began) * 1e3)
                self._module.zero_grad(set_to_none=True)
        # The first of FSDP2 gathers the parameters.
        return median(times[1:])

    @contextmanager
    def _silent(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self._strategy == "ddp":
                replicated: Any = self._call
                stack.enter_context(replicated.no_sync())
            else:
                self._module.set_requires_gradient_sync(False)
                self._module.set_reshard_after_forward(False)
                self._module.set_reshard_after_backward(False)
            yield


def _local(tensor: Any) -> Any:
    """Return this rank's shard of a sharded tensor, and any other tensor itself."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def all_reduce_ms(sizes: Sequence[int], device: str, rounds: int, synchronize: Callable[[], None]) -> float:
    """Return the median time in which all ranks add up buffers of those bytes, one after the other."""
    import torch
    import torch.distributed as dist

    buffers = [torch.zeros(max(1, size // 4), dtype=torch.float32, device=device) for size in sizes]
    times: list[float] = []
    for _ in range(rounds + 1):
        dist.barrier()
        began = perf_counter()
        for buffer in buffers:
            dist.all_reduce(buffer)
        synchronize()
        times.append((perf_counter() - began) * 1e3)
    return median(times[1:])
