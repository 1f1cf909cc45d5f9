"""Examples against the model that is to see them: names, ranks, types, lengths and labels, checked before any work."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from domain.configuration import Workload
from domain.errors import UsageError
from runner.compression.contract import Work
from runner.models.build import Built, text_config
from runner.models.inputs import make_inputs
from runner.platforms.outputs import flatten

__all__ = ["Tensors", "example_inputs", "tensors_of"]

FIELD = "calibrate"
_OPTIONAL = frozenset({"attention_mask", "token_type_ids", "bbox", "decoder_input_ids", "is_longer"})
_LEAST = 2


class Tensors(NamedTuple):
    """Checked examples as tensors: inputs by name, labels where there are some."""

    inputs: dict[str, Any]
    targets: Any

    @property
    def size(self) -> int:
        """How many examples there are."""
        return len(next(iter(self.inputs.values())))

    def rows(self, chosen: Any) -> dict[str, Any]:
        """Return the inputs of the examples with these indices."""
        return {name: tensor[chosen] for name, tensor in self.inputs.items()}

    def one_by_one(self, count: int, seed: int) -> Iterator[dict[str, Any]]:
        """Yield at most `count` examples of a seeded choice, each a batch of one."""
        for index in self.choice(count, seed):
            yield self.rows(slice(index, index + 1))

    def choice(self, count: int, seed: int) -> list[int]:
        """Return the indices of a seeded choice of at most `count` examples."""
        order = torch.randperm(self.size, generator=torch.Generator().manual_seed(seed))
        return sorted(order[:count].tolist())


def example_inputs(work: Work, tensors: Tensors | None = None) -> dict[str, Any]:
    """Return two examples to record a graph with: the user's own where there are some, else seeded ones of the model's usual sizes."""
    if tensors is None and work.examples is not None:
        tensors = tensors_of(work, _LEAST)
    if tensors is not None:
        return tensors.rows(slice(0, 2))
    return make_inputs(work.built, Workload(mode="inference", batch_size=2))


def tensors_of(work: Work, least: int) -> Tensors:
    """Return the work's examples as tensors, checked against its module; raises UsageError that says what to mend."""
    recipe, examples = work.recipe, work.examples
    if examples is None:
        raise UsageError(
            f"{recipe.name} needs examples of the model's inputs.",
            field=FIELD,
            remedy="Give a file of them: --calibrate DATA.",
        )
    usual = make_inputs(work.built, Workload(mode="inference", batch_size=_LEAST))
    arrays = {name: np.asarray(array) for name, array in examples.inputs.items()}
    _check_names(work.built, set(arrays), set(usual))
    count = _counted(arrays)
    if count < max(least, _LEAST):
        raise UsageError(
            f"{recipe.name} needs {max(least, _LEAST)} examples or more, and these are {count}.",
            field=FIELD,
            remedy="Give more examples.",
        )
    inputs = {name: _tensor(name, array, usual.get(name)) for name, array in arrays.items()}
    _check_tokens(work.built, inputs)
    kept = {name: tensor for name, tensor in inputs.items() if name in usual or bool(tensor.any())}
    tensors = Tensors(kept, None)
    logits = _try(work.built, tensors, usual)
    if examples.targets is None and recipe.needs == "training":
        raise UsageError(
            f"{recipe.name} trains on labels, and the examples have none.",
            field=f"{FIELD}.labels",
            remedy="Add an array of labels, or take a recipe that trains on the model's own outputs (distill-half).",
        )
    if examples.targets is None:
        return tensors
    return Tensors(kept, _labels(np.asarray(examples.targets), count, logits))


def _check_names(built: Built, names: set[str], usual: set[str]) -> None:
    accepted = set(inspect.signature(built.module.forward).parameters)
    if unknown := names - accepted - usual:
        raise UsageError(
            f"the examples hold {_listed(unknown)}, which {built.id} does not take.",
            field=f"{FIELD}.{min(unknown)}",
            remedy=f"Name the arrays as its inputs are named: {_listed(usual)}.",
        )
    if missing := usual - names - _OPTIONAL:
        raise UsageError(
            f"the examples lack {_listed(missing)}, which {built.id} needs.",
            field=f"{FIELD}.{min(missing)}",
            remedy=f"Add it; the model's inputs are {_listed(usual)}.",
        )


def _counted(arrays: dict[str, Any]) -> int:
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        sizes = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise UsageError(
            f"the inputs are of different numbers of examples: {sizes}.",
            field=FIELD,
            remedy="Give each input the same first dimension, one row an example.",
        )
    return next(iter(counts.values()))


def _tensor(name: str, array: Any, usual: Any) -> Any:
    kinds = {"f": "floating", "i": "whole", "u": "whole", "b": "whole"}
    wanted = None if usual is None else ("floating" if usual.is_floating_point() else "whole")
    kind = kinds.get(array.dtype.kind)
    if kind is None or (wanted and kind != wanted):
        raise UsageError(
            f"{name} holds values of type {array.dtype}, and the model takes {wanted or 'floating or whole'} numbers.",
            field=f"{FIELD}.{name}",
            remedy="Store token ids as int64, and pixels and sound as float32 after preprocessing.",
        )
    if usual is not None and array.ndim != usual.ndim:
        raise UsageError(
            f"{name} has {array.ndim} dimensions, and the model takes {usual.ndim}, such as {tuple(usual.shape)}.",
            field=f"{FIELD}.{name}",
            remedy="Put the example first, then what the model's processor gives for one.",
        )
    if kind == "floating" and not np.isfinite(array).all():
        raise UsageError(
            f"{name} holds values that are not finite.", field=f"{FIELD}.{name}", remedy="Remove those examples."
        )
    boolean = usual is not None and usual.dtype == torch.bool
    target = np.float32 if kind == "floating" else np.bool_ if boolean else np.int64
    return torch.from_numpy(np.ascontiguousarray(array, dtype=target))


def _check_tokens(built: Built, inputs: dict[str, Any]) -> None:
    tokens = inputs.get("input_ids")
    if tokens is None:
        return
    size = getattr(text_config(built.config), "vocab_size", None)
    low, high = int(tokens.min()), int(tokens.max())
    if size is not None and not (low >= 0 and high < size):
        raise UsageError(
            f"token ids go from {low} to {high}, and the model has {size} tokens.",
            field=f"{FIELD}.input_ids",
            remedy="Make them with the tokenizer of this very model.",
        )


def _try(built: Built, tensors: Tensors, usual: dict[str, Any]) -> Any:
    """Run two examples and return their logits (None where the model has none): the module knows best what it takes."""
    try:
        with torch.no_grad():
            outputs = dict(flatten(built.module(**tensors.rows(slice(0, _LEAST)))))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.inputs.items())
        wanted = ", ".join(f"{name} {tuple(tensor.shape)[1:]}" for name, tensor in usual.items())
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(
            f"{built.id} cannot take these examples ({shapes}): {reason}",
            field=FIELD,
            remedy=f"Give each example as the model's processor does; its usual shapes are {wanted}.",
        ) from error
    return outputs.get("logits")


def _labels(array: Any, count: int, logits: Any) -> Any:
    field = f"{FIELD}.labels"
    if not array.ndim or len(array) != count:
        raise UsageError(
            f"there are {len(array) if array.ndim else 0} labels for {count} examples.",
            field=field,
            remedy="Give one label an example.",
        )
    if array.dtype.kind in "iub":
        array = array.astype(np.int64)
        if logits is not None and (array.max() >= logits.shape[-1] or array[array != -100].min(initial=0) < 0):
            raise UsageError(
                f"labels go from {array.min()} to {array.max()}, and the model tells {logits.shape[-1]} classes apart.",
                field=field,
                remedy="Number them as the model's config does (id2label), or fine-tune the model on them first.",
            )
    elif array.dtype.kind == "f":
        array = array.astype(np.float32)
    else:
        raise UsageError(f"labels are of type {array.dtype}.", field=field, remedy="Store them as whole numbers.")
    return torch.from_numpy(np.ascontiguousarray(array))


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
