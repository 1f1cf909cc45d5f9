"""Where the FLOPs of a call were done: by device and type, seen operator by operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

__all__ = ["WorkRecorder"]

_CPU_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
_INTEGER_PRODUCTS = {
    "aten._int_mm": "int8",
    "aten._weight_int8pack_mm": "int8",
    "aten._weight_int4pack_mm": "int4",
    "aten._weight_int4pack_mm_for_cpu": "int4",
}
"""Products with quantized weights, by what their weights are stored as; torch counts no FLOPs for them."""


class WorkRecorder(TorchDispatchMode):  # type: ignore[misc]
    """While active, sums FLOPs by (device, type) in `work`; operators without a known formula are not counted.

    `moved` are operators (`aten.name`) that the runtime does on the processor, whatever device their tensors name.
    """

    def __init__(self, moved: Collection[str] = ()) -> None:
        super().__init__()
        self._moved = moved
        self.work: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and count it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        packet = getattr(func, "_overloadpacket", func)
        kind = _INTEGER_PRODUCTS.get(str(packet))
        if kind is not None:
            self.work[(str(result.device), kind)] += 2 * result.numel() * args[0].shape[-1]
            return result
        flops = _flops(packet, args, kwargs, result)
        if flops:
            tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            first = next((tensor for tensor in tensors if tensor.is_floating_point()), None)
            if first is not None:
                where = "cpu" if str(packet) in self._moved else str(first.device)
                self.work[(where, str(first.dtype).removeprefix("torch."))] += flops
        return result


def _flops(packet: Any, args: Any, kwargs: Any, result: Any) -> int:
    formula = flop_registry.get(packet)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=result))
    if str(packet).endswith(_CPU_ATTENTION):
        query, key, value = (tensor.shape for tensor in args[:3])
        return int(2 * query[0] * query[1] * query[2] * key[2] * (query[3] + value[3]))
    if str(packet).endswith(_CPU_ATTENTION + "_backward"):
        # Five products against two: query, key, value and the scores again, each as large as one of those.
        query, key, value = (tensor.shape for tensor in args[1:4])
        return int(query[0] * query[1] * query[2] * key[2] * (6 * query[3] + 4 * value[3]))
    return 0
