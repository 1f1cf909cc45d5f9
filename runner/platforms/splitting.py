"""A transformers module split over ranks: of each layer that its class has a plan for, this process keeps its part."""

from __future__ import annotations

from typing import Any

from domain.errors import UnsupportedWorkload
from runner.platforms.base import Rank

__all__ = ["split"]


def split(module: Any, rank: Rank, device_type: str) -> None:
    """Keep this rank's part of the module, in place, and wait until every rank has its own.

    All ranks have met. Raises UnsupportedWorkload where transformers has no plan for its class, or the heads cannot be divided.
    """
    import torch.distributed as dist
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    _require_plan(module, rank.size)
    mesh = dist.init_device_mesh(device_type, (rank.size,), mesh_dim_names=("tp",))
    _untie(module)
    plan, _, _ = module._resolve_parallel_plans(DistributedConfig(tp_size=rank.size))
    apply_tensor_parallelism(module, mesh, plan)
    module.tie_weights(recompute_mapping=False)
    dist.barrier()


def _require_plan(module: Any, size: int) -> None:
    from transformers.distributed.tensor_parallel import get_kv_heads_per_rank

    name, plan = type(module).__name__, getattr(module, "tp_plan", None)
    if not plan:
        raise UnsupportedWorkload(
            f"transformers has no plan for splitting the layers of {name}.",
            field="options",
            remedy="Serve it with an engine that splits it, and measure that: assay bench --endpoint.",
        )
    config = module.config.get_text_config()
    heads = config.num_attention_heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    if heads % size or get_kv_heads_per_rank(plan, keys, size) is None:
        raise UnsupportedWorkload(
            f"{heads} attention heads with {keys} of keys and values cannot be divided by {size}.",
            field="options",
            remedy="Take a number of ranks that divides both.",
        )


def _untie(module: Any) -> None:
    """Give each name of a shared weight a parameter of its own: the plan names both, and splits each."""
    import torch

    seen: set[int] = set()
    for name, parameter in list(module.named_parameters(remove_duplicate=False)):
        if id(parameter) in seen:
            owner, _, own = name.rpartition(".")
            module.get_submodule(owner)._parameters[own] = torch.nn.Parameter(
                parameter.detach(), requires_grad=parameter.requires_grad
            )
        seen.add(id(parameter))
