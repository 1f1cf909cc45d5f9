"""How a language model is spread over devices, read from what a row says about it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from domain.catalogues.engines import format_of
from predictor.features.dataset import Row

__all__ = ["Deployment", "Storage", "Workers", "deployment_of", "storage_of"]

_ONE_AFTER_THE_OTHER = ("llama.cpp", "llama.cpp-vulkan")
"""Engines that give each device some of the layers, so that one token passes the devices in turn."""
_QUANTISED = {
    "fp8": (8.0, "fp8"),
    "fp8_block": (8.0, "fp8"),
    "nvfp4": (4.5, "fp4"),
    "int4_wo": (4.5, "fp16"),
    "w4a16_mxfp4": (4.25, "fp16"),
    "int8_wo": (8.0, "fp16"),
}
"""Bits of a weight with its share of the scales, and the precision it is multiplied in."""


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """Copies of a model. Attention is split over `tensor` devices and repeated on `data` groups of them, layers over
    `pipeline`; the experts of a mixture are spread over the same devices, `expert` × `expert_tensor`. `count` is None
    where nobody said how many copies there are.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    expert_tensor: int = 1
    count: int | None = 1

    @property
    def devices(self) -> int:
        """Devices of one copy that work on one layer."""
        return self.tensor * self.data


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a weight and of a kept number, and the precisions in which the weights are multiplied.

    `outside_bytes` are those of the embedding and the output where a quantisation leaves them wider.
    """

    dense_bytes: float
    expert_bytes: float
    kv_bytes: float
    dense_precision: str
    expert_precision: str
    outside_bytes: float | None = None


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """One way of serving. `requests` are in work at once: as long as one leaves and another comes where the load is
    `continuous`, all together in one batch where it is not. With `apart`, prompts have workers of their own. Prompts
    are read `chunk` tokens at a time where that is said (llama.cpp's `n_batch`), else whole.
    """

    input_tokens: int
    output_tokens: int
    requests: float
    continuous: bool
    apart: bool
    prefill: Workers
    decode: Workers
    storage: Storage
    chunk: int | None = None


def deployment_of(row: Row, heads: int = 0, *, mixture: bool = False) -> Deployment | str:
    """Return the deployment of a row, or the reason why it says too little.

    A number of devices that does not divide the attention heads cannot split them: each then has a batch of its own.
    Some formats narrow nothing but the experts of a `mixture`.
    """
    if row.options or row.parallelism:
        return _deployment(row, heads, mixture)
    # A question asks of hundreds of devices what differs in a few of these alone.
    return _plain(
        row.input_tokens,
        row.output_tokens,
        row.concurrency,
        row.batch_size,
        row.scenario,
        row.runtime,
        row.precision,
        row.count,
        heads,
        mixture,
    )


@lru_cache(maxsize=4096)
def _plain(
    input_tokens: int | None,
    output_tokens: int | None,
    concurrency: int | None,
    batch_size: int | None,
    scenario: str | None,
    runtime: str,
    precision: str,
    count: int,
    heads: int,
    mixture: bool,
) -> Deployment | str:
    row = Row(
        model="",
        hardware="",
        platform="",
        precision=precision,
        batch_size=batch_size,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        concurrency=concurrency,
        scenario=scenario,
        runtime=runtime,
        count=count,
    )
    return _deployment(row, heads, mixture)


def _deployment(row: Row, heads: int, mixture: bool) -> Deployment | str:
    if not row.input_tokens or not row.output_tokens:
        return "no token counts"
    served = row.concurrency is not None or row.scenario == "serving"
    requests = row.concurrency if served else row.batch_size
    if not requests:
        return "no concurrency" if served else "no batch size"
    apart = "decode" in row.options and "prefill" in row.options
    if apart:
        prefill, decode = (_workers(row.options[name], default=None) for name in ("prefill", "decode"))
    else:
        stated = row.parallelism | {"expert_tensor": row.options.get("expert_tensor_parallel")}
        prefill = decode = _workers(stated, default=1) if row.parallelism else _by_count(row)
    if prefill.count is None or decode.count is None:
        return "workers not stated"
    prefill, decode = (_whole_heads(workers, heads) for workers in (prefill, decode))
    return Deployment(
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        requests=float(requests),
        continuous=served,
        apart=apart,
        prefill=prefill,
        decode=decode,
        storage=_storage(row, mixture),
        chunk=row.options.get("n_batch"),
    )


def _whole_heads(workers: Workers, heads: int) -> Workers:
    if heads % workers.tensor == 0:
        return workers
    return msgspec.structs.replace(workers, tensor=1, data=workers.data * workers.tensor)


def _by_count(row: Row) -> Workers:
    if row.runtime in _ONE_AFTER_THE_OTHER:
        return Workers(pipeline=row.count)
    return Workers(tensor=row.count, expert_tensor=row.count)


def _workers(stated: Mapping[str, Any], *, default: int | None) -> Workers:
    def size(name: str) -> int:
        return int(stated.get(name) or 1)

    tensor, expert, expert_tensor = size("tensor"), size("expert"), size("expert_tensor")
    data = int(stated.get("attention_data") or stated.get("data") or 1)
    said = bool(stated.get("attention_data") or stated.get("data"))
    if said and expert == expert_tensor > 1 and tensor * data == expert * expert_tensor:
        # Tables that multiply the two, although the experts lie on the very devices that attention has.
        tensor, data = (expert, 1) if data == 1 else (1, expert)
        expert_tensor = 1
    elif tensor == data > 1 and expert == tensor * data:
        tensor, expert = 1, data
    elif not said and expert * expert_tensor > tensor:
        data = expert * expert_tensor // tensor
    count = int(stated["workers"]) if stated.get("workers") else default
    return Workers(
        tensor=tensor,
        pipeline=size("pipeline"),
        data=data,
        expert=expert,
        expert_tensor=expert_tensor,
        count=count,
    )


def storage_of(runtime: str, precision: str, *, mixture: bool = False) -> Storage:
    """Return how an engine stores the weights, keys and values of a model in a precision."""
    row = Row(model="", hardware="", platform="", precision=precision, batch_size=None, runtime=runtime)
    return _storage(row, mixture)


def _storage(row: Row, mixture: bool) -> Storage:
    dense_bits, dense = _format(row.options.get("gemm"), row)
    expert_bits, expert = _format(row.options.get("moe") or row.options.get("gemm"), row)
    outside = None
    if not row.options.get("gemm"):
        kept = format_of(row.runtime, row.precision)
        outside = kept.outside_bits
        if mixture and kept.experts_only:
            dense_bits, outside = kept.outside_bits or 16.0, None
        elif kept.experts_only:
            outside = None
    narrow = min(dense_bits, expert_bits) <= 8 and {dense, expert} <= _NARROW
    return Storage(
        dense_bytes=dense_bits / 8,
        expert_bytes=expert_bits / 8,
        kv_bytes=1.0 if narrow else max(dense_bits / 8, 2.0),
        dense_precision=dense,
        expert_precision=expert,
        outside_bytes=None if outside is None else outside / 8,
    )


_NARROW = {"fp8", "fp4"}
"""Where weights are multiplied in these, keys and values are kept in 8 bits."""


def _format(quantisation: Any, row: Row) -> tuple[float, str]:
    if quantisation in _QUANTISED:
        return _QUANTISED[quantisation]
    kept = format_of(row.runtime, row.precision)
    return kept.bits, kept.arithmetic
