"""The folder of a variant: `variant.json` and its forms, written whole or not at all, and checked when it is read."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

from domain.canonical import digest
from domain.errors import AssayError, UnsupportedPrecision, UnsupportedWorkload, UsageError
from domain.variants.lineage import Form, FormKind, Variant, VariantFile

__all__ = [
    "CARD",
    "EXAMPLES",
    "NoRoom",
    "check_variant",
    "describe_form",
    "file_digest",
    "form_taken",
    "keep_examples",
    "kept_examples",
    "no_room",
    "own_precision",
    "quantized_already",
    "read_variant",
    "require_room",
    "staged_variant",
    "variant_at",
    "variant_digest",
    "weights_digest",
    "write_card",
]

CARD, EXAMPLES = "variant.json", "examples.npz"
_KEPT = 8
"""How many examples a variant keeps to be verified with."""
_BUILDING = ".building-"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FULL_WORDS = re.compile(r"no space left|disk quota exceeded|file too large|os error (28|122|27)\b", re.I)
_QUANTIZED = frozenset({"int8", "int4"})
_HASHED: dict[tuple[str, int, int], str] = {}
"""Digests of files that this process has read, by path, size and time of change."""


class NoRoom(AssayError):
    """The disk cannot hold what is to be written."""

    type = "no-room"
    status = 507


def variant_at(name: str | Path) -> Path | None:
    """Return the folder of a variant where the name is that of one, or of its card; None for anything else."""
    path = Path(name).expanduser()
    folder = path.parent if path.name == CARD else path
    return folder if (folder / CARD).is_file() else None


def read_variant(folder: Path) -> Variant:
    """Return the card of a variant's folder; UsageError names a file that is missing or has another size."""
    path = folder / CARD
    try:
        variant = msgspec.json.decode(path.read_bytes(), type=Variant)
    except (OSError, msgspec.DecodeError) as error:
        raise _damaged(f"{path} cannot be read: {error}") from error
    for file in _files(folder, variant):
        place = folder / file.path
        if not place.resolve().is_relative_to(folder.resolve()):
            raise _damaged(f"{path} names {file.path}, which is outside of its folder")
        if not place.is_file():
            raise _damaged(f"{file.path} is missing in {folder}")
        if place.stat().st_size != file.bytes:
            raise _damaged(
                f"{file.path} in {folder} was altered: it has {place.stat().st_size:,} bytes, not {file.bytes:,}"
            )
    return variant


def check_variant(folder: Path) -> Variant:
    """Return the card after reading every file; UsageError names one whose content is not that which was written."""
    variant = read_variant(folder)
    for file in _files(folder, variant):
        if file_digest(folder / file.path) != file.digest:
            raise _damaged(f"{file.path} in {folder} was altered: its digest is not {file.digest}")
    if variant_digest(variant) != variant.digest:
        raise _damaged(f"{folder / CARD} was altered: recipe, parameters and files do not give {variant.digest}")
    return variant


def _files(folder: Path, variant: Variant) -> Iterator[VariantFile]:
    if not variant.forms:
        raise _damaged(f"{folder / CARD} has no form")
    for form in variant.forms:
        yield from form.files
    if variant.examples:
        yield variant.examples


def _damaged(what: str) -> UsageError:
    return UsageError(f"{what}.", field="model", remedy="Make the variant again with assay compress.")


def variant_digest(variant: Variant) -> str:
    """Return the digest over base, recipe, parameters and files."""
    files = sorted([file.path, file.digest] for form in variant.forms for file in form.files)
    # Parameters may hold what canonical JSON rounds; their text as JSON is as good a name.
    parameters = json.dumps(variant.parameters, sort_keys=True)
    return digest({"base": variant.base, "recipe": variant.recipe, "parameters": parameters, "files": files})


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, read once a process as long as it does not change."""
    stat = path.stat()
    key = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    if key not in _HASHED:
        with path.open("rb") as file:
            _HASHED[key] = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    return _HASHED[key]


def weights_digest(location: Path | None) -> tuple[str | None, int | None]:
    """Return the digest and the bytes of the weights in a checkpoint's folder; None where there is no folder."""
    if location is None:
        return None, None
    files = sorted([*location.glob("*.safetensors"), *location.glob("*.bin")])
    named = [[file.name, file_digest(file)] for file in files]
    return digest(named), sum(file.stat().st_size for file in files)


def keep_examples(folder: Path, inputs: Mapping[str, Any]) -> VariantFile:
    """Write a few examples, spread over all of them, into a variant's folder and return their file."""
    import numpy as np

    count = len(next(iter(inputs.values())))
    chosen = np.unique(np.linspace(0, count - 1, min(count, _KEPT)).round().astype(int))
    with (folder / EXAMPLES).open("wb") as file:
        np.savez(file, allow_pickle=False, **{name: np.asarray(array)[chosen] for name, array in inputs.items()})
    return _described(folder, folder / EXAMPLES)


def kept_examples(folder: Path, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a variant's own examples in the batch, shapes and types of these inputs; None where it has none that fit.

    They are repeated where the batch is larger. An input that they lack, such as a mask of ones, stays as it is.
    """
    import numpy as np

    if read_variant(folder).examples is None:
        return None
    with np.load(folder / EXAMPLES, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if name in inputs}
    if not arrays or any(array.shape[1:] != tuple(inputs[name].shape[1:]) for name, array in arrays.items()):
        return None
    result = dict(inputs)
    for name, array in arrays.items():
        rows = np.resize(np.arange(len(array)), len(inputs[name]))
        result[name] = inputs[name].new_tensor(array[rows])
    return result


def describe_form(folder: Path, kind: FormKind, precision: str, quantization: str | None, within: str) -> Form:
    """Return a form with all files of its folder, `within` the variant's; UsageError where there are none."""
    root = folder / within
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    if not paths:
        raise UsageError(f"the recipe wrote no files of the form {kind}.", field="recipe", remedy="Report the recipe.")
    files = tuple(_described(folder, path) for path in paths)
    return Form(kind=kind, precision=precision, quantization=quantization, files=files)


def _described(folder: Path, path: Path) -> VariantFile:
    return VariantFile(path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, digest=file_digest(path))


def write_card(folder: Path, variant: Variant) -> None:
    """Write the card of a variant whose forms lie in the folder."""
    text = msgspec.json.format(msgspec.json.encode(variant), indent=2)
    with (folder / CARD).open("wb") as file:
        file.write(text + b"\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def staged_variant(out: Path) -> Iterator[Path]:
    """Give an empty folder beside the variants in `out`; it is removed at the end, unless it was renamed to its place.

    Folders that an ended process has left are removed too.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        for stale in out.glob(f"{_BUILDING}*"):
            process = stale.name.removeprefix(_BUILDING).partition("-")[0]
            if not process.isdecimal() or not psutil.pid_exists(int(process)):
                shutil.rmtree(stale, ignore_errors=True)
        building = Path(tempfile.mkdtemp(dir=out, prefix=f"{_BUILDING}{os.getpid()}-"))
    except OSError as error:
        raise UsageError(
            f"{out} cannot be written: {error.strerror or error}.", field="out", remedy="Name another folder by --out."
        ) from error
    try:
        yield building
    finally:
        with suppress(OSError):
            shutil.rmtree(building)


def require_room(out: Path, needed: int) -> None:
    """Raise NoRoom where the disk of a folder has fewer bytes free than are needed."""
    free = shutil.disk_usage(next(place for place in (out, *out.absolute().parents) if place.exists())).free
    if needed > free:
        raise _full(out, needed, free)


def no_room(error: BaseException, out: Path, needed: int) -> NoRoom | None:
    """Return what to say of an error where it means that the disk is full; None where it means anything else."""
    full = isinstance(error, OSError) and error.errno in _FULL
    if not full and not _FULL_WORDS.search(str(error)):
        return None
    return _full(out, needed, shutil.disk_usage(out).free)


def _full(out: Path, needed: int, free: int) -> NoRoom:
    return NoRoom(
        f"the disk of {out} cannot hold the variant: it takes about {needed:,} bytes and {free:,} are free.",
        field="out",
        remedy="Make room, raise the quota or the limit of a file's size, or name another folder by --out.",
    )


def own_precision(variant: Variant, kinds: tuple[FormKind, ...]) -> str:
    """Return the precision in which a platform that takes these kinds of forms measures the variant."""
    return next((form.precision for kind in kinds if (form := variant.form_for(kind))), variant.forms[0].precision)


def form_taken(
    variant: Variant, kinds: tuple[FormKind, ...], *, platform: str, precision: str, purpose: str = "inference"
) -> Form:
    """Return the form that a platform takes, its first kind that the variant has.

    Raises UnsupportedWorkload where it has none of them, or only a graph and more than a forward pass is asked for, and
    UnsupportedPrecision where it is measured in another precision. A checkpoint in fp32 takes any precision.
    """
    forms = [form for kind in kinds if (form := variant.form_for(kind))]
    there = ", ".join(f"{form.kind} ({form.precision})" for form in variant.forms)
    if not forms:
        raise UnsupportedWorkload(
            f"{variant.id} has the form {there}, which {platform} cannot take.",
            field="platform",
            remedy=f"Measure it with --platform {_takers(variant)}.",
        )
    if purpose != "inference":
        forms = [form for form in forms if form.kind == "checkpoint"]
        if not forms:
            raise UnsupportedWorkload(
                f"{variant.id} has the form {there}, a graph of one forward pass, and {purpose} needs its checkpoint.",
                field="mode" if purpose == "training" else "output_tokens",
                remedy="Measure one forward pass, or a variant with a checkpoint.",
            )
    form = forms[0]
    if precision != form.precision and not (form.kind == "checkpoint" and form.precision == "fp32"):
        raise UnsupportedPrecision(
            f"{variant.id} is a variant in {form.precision}, and {platform} was to measure it in {precision}.",
            field="precision",
            remedy=f"Leave out --precision, or say {form.precision}; other precisions are those of its base.",
        )
    return form


def _takers(variant: Variant) -> str:
    platforms = {"openvino": "openvino", "onnx": "onnxruntime", "checkpoint": "cpu"}
    return " or ".join(platforms[form.kind] for form in variant.forms)


def quantized_already(form: Form) -> bool:
    """Return whether a form holds quantized numbers, so that nothing has to be quantized where it is loaded."""
    return form.kind != "checkpoint" and form.precision in _QUANTIZED
