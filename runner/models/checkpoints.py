"""Loading a checkpoint into its class, and refusing one that is not that of its config."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from domain.errors import UsageError
from runner.models.quiet import quiet

__all__ = ["check_shapes", "load_checkpoint"]

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_NAMED = 5
"""Tensors that an error names before it counts the rest."""
_OPTIONAL = ("pooler",)
"""Parts of a base model that checkpoints of its heads leave out."""


def load_checkpoint(
    cls: Any, folder: Path, config: Any, dtype: Any, *, trust_remote_code: bool, allow_pickle: bool
) -> tuple[Any, tuple[str, ...]]:
    """Return the module with the folder's weights in `dtype`, loaded shard by shard, and notes for its reader.

    Heads may differ: one that the checkpoint lacks gets random values, one that the class lacks is left out, and the
    notes say so. Raises UsageError that names the tensors where anything else is missing, left over or of another
    shape, and where the files cannot be read.
    """
    from safetensors import SafetensorError

    try:
        with quiet():
            module, info = cls.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=trust_remote_code,
                use_safetensors=None if allow_pickle else True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise _unreadable(folder, error) from error
    return module, _judged(module, info, folder)


def _judged(module: Any, info: dict[str, Any], folder: Path) -> tuple[str, ...]:
    missing, unexpected = set(info["missing_keys"]), set(info["unexpected_keys"])
    wrong = []
    if shapes := sorted(name for name, *_ in info["mismatched_keys"]):
        wrong.append(f"of another shape: {_listed(shapes)}")
    if lost := sorted(name for name in missing if _in_body(module, name)):
        wrong.append(f"missing: {_listed(lost)}")
    if extra := sorted(name for name in unexpected if _in_body(module, name)):
        wrong.append(f"left over: {_listed(extra)}")
    if wrong:
        raise _mismatch(folder, wrong)
    notes = []
    if missing:
        notes.append(f"Not in the checkpoint, and so with random values: {_listed(sorted(missing))}.")
    if unexpected:
        notes.append(f"In the checkpoint, and not in this class: {_listed(sorted(unexpected))}.")
    return tuple(notes)


def _mismatch(folder: Path, wrong: list[str]) -> UsageError:
    return UsageError(
        f"the checkpoint in {folder} does not match its config; {'; '.join(wrong)}.",
        field="model",
        remedy="Put the config.json beside it that it was saved with, or measure with --weights random.",
    )


def _unreadable(folder: Path, error: Exception) -> UsageError:
    return UsageError(
        f"the checkpoint in {folder} cannot be loaded: {str(error).splitlines()[0]}",
        field="model",
        remedy="Fetch it again, or measure with --weights random.",
    )


def _in_body(module: Any, name: str) -> bool:
    """Return whether a tensor of this name belongs to the part that every class of the family has."""
    prefix = module.base_model_prefix
    body = getattr(module, prefix, module) if prefix else module
    if body is not module and not name.startswith(f"{prefix}."):
        return False
    name = name.removeprefix(f"{prefix}.")
    parts = {child for child, _ in body.named_children()} | {own for own, _ in body.named_parameters(recurse=False)}
    first = name.split(".", 1)[0]
    # Older releases saved masks and position tables, which are computed today.
    saved_buffer = name.rsplit(".", 1)[-1] in ("position_ids", "inv_freq", "masked_bias", "relative_position_index")
    return first in parts and first not in _OPTIONAL and not saved_buffer


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def check_shapes(module: Any, folder: Path) -> None:
    """Compare the names and shapes in the folder's safetensors headers with a module on the meta device; reads no weight.

    Raises UsageError for a tensor of another shape, and for a layer that only one of the two has. Names that no layer
    of the other side has may be older spellings, and are left to `load_checkpoint`.
    """
    stored = _headers(folder)
    prefix = f"{module.base_model_prefix}." if getattr(module, "base_model_prefix", "") else ""
    there = {name.removeprefix(prefix): shape for name, shape in stored.items()}
    wanted = {name.removeprefix(prefix): list(tensor.shape) for name, tensor in module.state_dict().items()}
    both = there.keys() & wanted.keys()
    # Of one tensor with several names a checkpoint holds one.
    names = Counter(id(parameter) for _, parameter in module.named_parameters(remove_duplicate=False))
    own = {
        name.removeprefix(prefix) for name, p in module.named_parameters(remove_duplicate=False) if names[id(p)] == 1
    }
    layered = {_NUMBER.sub("#", name) for name in both if _NUMBER.search(name)}
    wrong = {
        "of another shape": [name for name in both if there[name] != wanted[name]],
        "missing": [name for name in own - both if _NUMBER.sub("#", name) in layered],
        "left over": [name for name in there.keys() - both if _NUMBER.sub("#", name) in layered],
    }
    texts = [f"{what}: {_listed(sorted(names))}" for what, names in wrong.items() if names]
    if texts:
        raise _mismatch(folder, texts)


def _headers(folder: Path) -> dict[str, list[int]]:
    from safetensors import SafetensorError, safe_open

    values: dict[str, list[int]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                values |= {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise _unreadable(folder, error) from error
    return values
