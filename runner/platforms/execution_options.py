"""Options of an execution beyond its precision, as asked for: `cuda-graphs`, `streams=4`, `device-map`, `fsdp=2`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import msgspec

from domain.errors import UsageError

__all__ = ["OPTIONS", "RANK_OPTIONS", "ExecutionOptions", "Strategy", "batch_parts", "read_options"]

Strategy = Literal["tensor", "ddp", "fsdp2"]

OPTIONS = {
    "cuda-graphs": "one call is captured once and replayed (inference, fixed shapes)",
    "streams": "the batch is split over so many streams that run at once: streams=4",
    "device-map": "layers are spread over all devices of the platform, as accelerate does it",
    "browser": "a web platform's browser: browser=chromium, firefox, webkit, or the path of a program",
    "headed": "a web platform's browser shows its window",
    "tensor-parallel": "each layer is split over so many ranks, one device each, as transformers does it: tensor-parallel=2",
    "data-parallel": "training: so many ranks with the whole model and a part of the batch each (DDP): data-parallel=2",
    "fsdp": "training: so many ranks with a shard of the model and a part of the batch each (FSDP2): fsdp=2",
}
RANK_OPTIONS: dict[str, Strategy] = {"tensor-parallel": "tensor", "data-parallel": "ddp", "fsdp": "fsdp2"}
"""Options that take several processes, and how each divides the work between them."""
_COUNTED = {"streams": (1, "streams=4"), **{name: (2, f"{name}=2") for name in RANK_OPTIONS}}
"""The least number of each option that has one, and how it is written."""
_FLAGS = {"cuda-graphs": "graphs", "device-map": "device_map", "headed": "headed"}


class ExecutionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that were asked for, read."""

    graphs: bool = False
    streams: int = 1
    device_map: bool = False
    strategy: Strategy | None = None
    ranks: int = 1
    browser: str | None = None
    headed: bool = False


def read_options(words: Sequence[str], *, platform: str, names: Collection[str]) -> ExecutionOptions:
    """Return the options; raises UsageError for one that the platform has not, with those that it has."""
    row: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in names:
            has = f"It has {', '.join(sorted(names))}." if names else "It has none."
            raise UsageError(f"{platform} has no option {name!r}.", field="options", remedy=has)
        if name in RANK_OPTIONS:
            row |= {"strategy": RANK_OPTIONS[name], "ranks": _count(word, name, value)}
        elif name in _COUNTED:
            row[name] = _count(word, name, value)
        elif name == "browser":
            row[name] = value or _nameless()
        else:
            row[_FLAGS[name]] = True
    if "ranks" in row and len(words) > 1:
        name = next(name for name, strategy in RANK_OPTIONS.items() if strategy == row["strategy"])
        raise UsageError(f"{name} goes with no other option.", field="options", remedy="Ask for one of them.")
    if row.get("graphs") and (row.get("streams", 1) > 1 or row.get("device_map")):
        raise UsageError(
            "cuda-graphs captures one stream of one device.", field="options", remedy="Ask for one of them."
        )
    return ExecutionOptions(**row)


def _nameless() -> str:
    raise UsageError("the option browser names none.", field="options", remedy="Write browser=firefox.")


def _count(word: str, name: str, value: str) -> int:
    least, example = _COUNTED[name]
    if not value.isdigit() or int(value) < least:
        raise UsageError(f"{word!r} needs a number, at least {least}.", field="options", remedy=f"Write {example}.")
    return int(value)


def batch_parts(inputs: dict[str, Any], parts: int) -> list[dict[str, Any]]:
    """Return the inputs cut into equal parts along their first dimension; what has no batch goes to every part.

    The batch is the first dimension of the first tensor. Raises UsageError where it cannot be cut evenly.
    """
    tensors = [value for value in inputs.values() if getattr(value, "ndim", 0)]
    batch = int(tensors[0].shape[0]) if tensors else 1
    if batch % parts:
        raise UsageError(
            f"a batch of {batch} cannot be split over {parts} streams.",
            field="options",
            remedy=f"Take a batch that is a multiple of {parts}.",
        )
    size = batch // parts

    def cut(value: Any, index: int) -> Any:
        batched = getattr(value, "ndim", 0) and value.shape[0] == batch
        return value[index * size : (index + 1) * size] if batched else value

    return [{name: cut(value, index) for name, value in inputs.items()} for index in range(parts)]
