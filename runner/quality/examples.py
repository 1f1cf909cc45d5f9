"""Examples that a user gives: arrays with the model's input names, texts for its tokenizer, or images for its processor."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from domain.configuration import Workload
from domain.errors import PartMissing, UsageError
from domain.variants.lineage import DataReference
from runner.compression.contract import Examples
from runner.models.sources import ModelSource

__all__ = ["DATA_SUFFIXES", "read_examples", "takes_labels"]

DATA_SUFFIXES = (".npz", ".jsonl", ".csv", ".parquet")
_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".gif"})
_LABELS = ("labels", "label")
_MASKS = ("attention_mask", "token_type_ids")
"""Inputs that may be left out: they are then all ones, or not given at all."""
_MOST_TOKENS = 512
"""Longer texts are cut, as they are where the model has fewer positions."""
_NAMED_CLASSES = 5


class _Data(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder, the flag by which it was given, and the model that it is for."""

    path: Path
    flag: str
    source: ModelSource

    def wrong(self, detail: str, remedy: str) -> UsageError:
        """Return an error about it."""
        return UsageError(f"{self.path.name}: {detail}", field=self.flag, remedy=remedy)


def takes_labels(source: ModelSource) -> bool:
    """Return whether the model puts an input into one of several classes."""
    task = source.task or ""
    return task.endswith("-classification") and task != "token-classification"


def read_examples(
    path: Path | str, source: ModelSource, *, labels: bool | None = None, flag: str = "eval", limit: int | None = None
) -> Examples:
    """Return the examples of a file or folder, as the model takes them.

    `.npz` has one array for each of the model's inputs, and `labels`; `.jsonl`, `.csv` and `.parquet` have a column `text`,
    and `label`; a folder has one folder of images for each class. `labels` says whether they must be there (None: where
    the model is a classifier). `limit` keeps the first so many. Raises UsageError that names file, field and row, PartMissing
    where a package is absent.
    """
    data = _Data(path=Path(path).expanduser(), flag=flag, source=source)
    wanted = takes_labels(source) if labels is None else labels
    if data.path.is_dir():
        examples = _of_images(data, limit)
    elif not data.path.is_file():
        raise UsageError(
            f"there is no file or folder {data.path}.",
            field=flag,
            remedy=f"Give a file ({', '.join(DATA_SUFFIXES)}) or a folder with a folder of images for each class.",
        )
    elif data.path.suffix == ".npz":
        examples = _of_arrays(data, limit)
    elif data.path.suffix in DATA_SUFFIXES:
        examples = _of_texts(data, limit)
    else:
        raise data.wrong("examples cannot be read from such a file.", f"Give one of {', '.join(DATA_SUFFIXES)}.")
    if wanted and examples.targets is None:
        raise data.wrong(
            "it has no labels.",
            "Add an array `labels` with the class of each row."
            if data.path.suffix == ".npz"
            else "Add a column `label`.",
        )
    return examples


def _expected(source: ModelSource) -> dict[str, Any]:
    """Return inputs of one call of the model: their names, types and shapes."""
    from runner.models.inputs import make_inputs

    return {
        name: tensor.numpy() for name, tensor in make_inputs(source, Workload(mode="inference", batch_size=1)).items()
    }


def _of_arrays(data: _Data, limit: int | None) -> Examples:
    arrays = _loaded(data)
    expected = _expected(data.source)
    targets = next((arrays.pop(name) for name in _LABELS if name in arrays), None)
    ids = arrays.pop("ids", None)
    unknown = [name for name in arrays if name not in expected and name not in _MASKS]
    if unknown:
        raise data.wrong(
            f"the model {data.source.id} has no input {unknown[0]!r}.",
            f"Name the arrays as its inputs: {', '.join(expected)}; and `labels`.",
        )
    missing = [name for name in expected if name not in arrays and name not in _MASKS]
    if missing:
        raise data.wrong(
            f"it has no array {missing[0]!r}, which {data.source.id} takes.", f"It has {', '.join(arrays) or 'none'}."
        )
    first = arrays[next(name for name in expected if name in arrays)]
    count = len(first) if first.ndim else 0
    inputs = {name: _checked(data, name, array, expected, count) for name, array in arrays.items() if name in expected}
    if "attention_mask" in expected and "attention_mask" not in inputs:
        import numpy as np

        inputs["attention_mask"] = np.ones_like(inputs["input_ids"])
    digest = _digest(part for name in sorted(inputs) for part in _parts(name, inputs[name]))
    classes = None if targets is None else _classes(data, [*targets.tolist()], count)
    names = [str(each) for each in ids.tolist()] if ids is not None else [str(row) for row in range(count)]
    return _examples(data, inputs, classes, names, digest, limit)


def _loaded(data: _Data) -> dict[str, Any]:
    import zipfile

    import numpy as np

    try:
        with np.load(data.path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except ValueError as error:
        if "pickle" not in str(error).lower():
            raise data.wrong(f"it cannot be read: {error}.", "Write it with numpy.savez.") from error
        raise data.wrong(
            "it holds Python objects (pickles), which can run code when they are opened.",
            "Save plain arrays: numbers or strings, every row of the same shape.",
        ) from error
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise data.wrong(f"it is no .npz file ({error}).", "Write it with numpy.savez.") from error


def _checked(data: _Data, name: str, array: Any, expected: dict[str, Any], count: int) -> Any:
    """Return an array in the type of the input; raises where shape, type or values do not fit."""
    import numpy as np

    like = expected[name]
    if array.ndim != like.ndim:
        raise data.wrong(
            f"the array {name!r} has the shape {list(array.shape)}, and {data.source.id} takes {_shape(like)}.",
            "Give one row for each example, each of that shape.",
        )
    free = like.dtype.kind in "iu" or name == "input_values"
    if len(array) != count or (not free and array.shape[1:] != like.shape[1:]):
        raise data.wrong(
            f"the array {name!r} has the shape {list(array.shape)}, and {[count, *like.shape[1:]]} is needed.",
            "Give one row for each example, each of that shape.",
        )
    if not array.size:
        raise data.wrong("it has not one example.", "Give at least one, better a few hundred (docs/quality.md).")
    if (like.dtype.kind in "iu") != (array.dtype.kind in "iu") or array.dtype.kind not in "iuf":
        wanted = "whole numbers" if like.dtype.kind in "iu" else "floating numbers, as the model's processor gives them"
        raise data.wrong(f"the array {name!r} is of type {array.dtype}, and {wanted} are needed.", f"Save {wanted}.")
    finite = np.isfinite(array.reshape(count, -1)).all(axis=1)
    bad = np.flatnonzero(~finite)
    if bad.size:
        raise data.wrong(
            f"row {int(bad[0])} of {name!r} has NaN or infinite values.", "Leave the row out or repair it."
        )
    if name == "input_ids":
        _require_words(data, array)
    return np.ascontiguousarray(array.astype(like.dtype))


def _require_words(data: _Data, ids: Any) -> None:
    import numpy as np

    from runner.models.build import config_of, text_config

    size = getattr(text_config(config_of(data.source)), "vocab_size", None)
    rows = np.flatnonzero(((ids < 0) | (ids >= (size or math.inf))).any(axis=1))
    if rows.size:
        raise data.wrong(
            f"row {int(rows[0])} of 'input_ids' has a token outside of the {size} that {data.source.id} has.",
            "Tokenize with the model's own tokenizer.",
        )


def _shape(like: Any) -> str:
    return f"[examples, {', '.join(map(str, like.shape[1:]))}]"


def _of_texts(data: _Data, limit: int | None) -> Examples:
    rows = list(_rows(data))
    if not rows:
        raise data.wrong("it has not one example.", "Give at least one, better a few hundred (docs/quality.md).")
    texts = []
    for number, row in enumerate(rows, 1):
        text = row.get("text")
        if not isinstance(text, str) or not text.strip():
            raise data.wrong(f"row {number} has no `text`.", "Give each row a text that is not empty.")
        texts.append(text)
    given = [next((row[name] for name in _LABELS if row.get(name) not in (None, "")), None) for row in rows]
    without = [number for number, label in enumerate(given, 1) if label is None]
    if without and len(without) < len(rows):
        raise data.wrong(f"row {without[0]} has no `label`, and others have.", "Give every row a label, or none.")
    classes = None if without else _classes(data, given, len(rows), numeric=data.path.suffix == ".csv")
    ids = [str(row.get("id") or number) for number, row in enumerate(rows, 1)]
    digest = _digest(json.dumps([text, label], default=str).encode() for text, label in zip(texts, given, strict=True))
    return _examples(data, _tokenized(data, texts), classes, ids, digest, limit)


def _rows(data: _Data) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of texts; raises UsageError where it cannot be read."""
    try:
        if data.path.suffix == ".csv":
            with data.path.open(encoding="utf-8", newline="") as file:
                yield from csv.DictReader(file)
        elif data.path.suffix == ".jsonl":
            for number, line in enumerate(data.path.read_text(encoding="utf-8").splitlines(), 1):
                if line.strip():
                    yield _object(data, line, number)
        else:
            import duckdb

            with duckdb.connect() as connection:
                table = connection.read_parquet(str(data.path))
                names = table.columns
                yield from (dict(zip(names, row, strict=True)) for row in table.fetchall())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise data.wrong(f"it cannot be read ({error}).", "Save it as UTF-8.") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("duckdb", "_duckdb"):
            raise
        raise data.wrong(f"it is no Parquet file ({str(error).splitlines()[0]}).", "Write it again.") from error


def _object(data: _Data, line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise data.wrong(f"line {number} is no JSON: {error}.", "Write one object a line.") from error
    if not isinstance(row, dict):
        raise data.wrong(f"line {number} is no JSON object.", 'Write {"text": "…", "label": …}.')
    return row


def _tokenized(data: _Data, texts: Sequence[str]) -> dict[str, Any]:
    from runner.models.build import config_of
    from runner.models.sizes import positions

    expected = _expected(data.source)
    processor = _processor(data, "text")
    tokenizer = getattr(processor, "tokenizer", processor)
    if "input_ids" not in expected or set(expected) - {"input_ids", *_MASKS} or not callable(tokenizer):
        raise data.wrong(
            f"{data.source.id} takes {', '.join(expected)}, and texts alone do not make them.",
            "Give an .npz file with these arrays.",
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    longest = min(positions(config_of(data.source)) or _MOST_TOKENS, _MOST_TOKENS, tokenizer.model_max_length)
    encoded = tokenizer(list(texts), padding=True, truncation=True, max_length=longest, return_tensors="np")
    inputs = {name: encoded[name].astype("int64") for name in expected if name in encoded}
    _require_words(data, inputs["input_ids"])
    return inputs


def _processor(data: _Data, what: str) -> Any:
    from runner.measure.preprocessing import processor_in

    if importlib.util.find_spec("transformers") is None:
        raise PartMissing(
            "reading texts and images needs transformers.", field=data.flag, remedy="pip install transformers"
        )
    folder = data.source.location
    processor = processor_in(folder) if folder is not None else None
    if processor is None:
        lacks = "tokenizer" if what == "text" else "image processor"
        raise data.wrong(
            f"the model {data.source.id} has no {lacks} on this machine that could read it.",
            f"Give the folder of a checkpoint with its {lacks}, or an .npz file with the model's inputs and `labels`.",
        )
    return processor


def _of_images(data: _Data, limit: int | None) -> Examples:
    files = sorted(path for path in data.path.glob("*/*") if path.suffix.lower() in _IMAGES)
    if not files:
        raise data.wrong(
            "it holds no images in folders.", "Make one folder for each class, with its images (.png, .jpg) in it."
        )
    files = files if limit is None else files[:limit]
    processor = _processor(data, "image")
    image_processor = getattr(processor, "image_processor", processor)
    expected = _expected(data.source)
    if list(expected) != ["pixel_values"]:
        raise data.wrong(
            f"{data.source.id} takes {', '.join(expected)}, and images alone do not make them.",
            "Give an .npz file with these arrays.",
        )
    import numpy as np

    mode = "L" if expected["pixel_values"].shape[1] == 1 else "RGB"
    pixels = np.stack([_pixels(data, path, image_processor, mode) for path in files])
    inputs = {"pixel_values": _checked(data, "pixel_values", pixels, expected, len(files))}
    names = [path.relative_to(data.path).as_posix() for path in files]
    classes = _classes(data, [path.parent.name for path in files], len(files), numeric=True)
    digest = _digest(
        part for name, path in zip(names, files, strict=True) for part in (name.encode(), path.read_bytes())
    )
    return _examples(data, inputs, classes, names, digest, None)


def _pixels(data: _Data, path: Path, processor: Any, mode: str) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return processor(images=image.convert(mode), return_tensors="np")["pixel_values"][0]
    except (OSError, ValueError) as error:
        where = path.relative_to(data.path).as_posix()
        raise data.wrong(f"{where} cannot be read as an image ({error}).", "Repair the file or take it out.") from error


def _classes(data: _Data, labels: Sequence[Any], count: int, *, numeric: bool = False) -> Any:
    """Return the labels as numbers of the model's classes; `numeric` reads numbers that are written as words."""
    import numpy as np

    names = _names_of_classes(data.source)
    by_name = {name: index for index, name in (names or {}).items()}
    if len(labels) != count:
        raise data.wrong(f"it has {len(labels)} labels for {count} examples.", "Give one label for each example.")
    numbers = []
    for row, label in enumerate(labels):
        number = _class_of(label, by_name, numeric=numeric)
        if number is None:
            listed = ", ".join([*by_name][:_NAMED_CLASSES]) + (", …" if len(by_name) > _NAMED_CLASSES else "")
            raise data.wrong(
                f"the label {label!r} of example {row} is no class of {data.source.id}.",
                f"Its classes are {listed}; or give their numbers."
                if by_name
                else "Give the number of the class, from 0.",
            )
        if number < 0 or (names and number >= len(names)):
            raise data.wrong(
                f"the label {number} of example {row} is outside of the {len(names or ())} classes of {data.source.id}.",
                f"Give numbers from 0 to {len(names or ()) - 1}.",
            )
        numbers.append(number)
    return np.array(numbers, dtype=np.int64)


def _class_of(label: Any, by_name: dict[str, int], *, numeric: bool) -> int | None:
    if isinstance(label, str):
        if label in by_name:
            return by_name[label]
        return int(label) if numeric and label.strip().removeprefix("-").isdecimal() else None
    if isinstance(label, bool) or not isinstance(label, int | float):
        return None
    return int(label) if float(label).is_integer() else None


def _names_of_classes(source: ModelSource) -> dict[int, str] | None:
    """Return the names of the model's classes by number; None where its config does not tell."""
    from runner.models.build import config_of

    named = getattr(config_of(source), "id2label", None)
    return {int(index): str(name) for index, name in named.items()} if named else None


def _examples(
    data: _Data, inputs: dict[str, Any], classes: Any, ids: Sequence[str], digest: str, limit: int | None
) -> Examples:
    seen: set[str] = set()
    for row, name in enumerate(ids):
        if name in seen:
            raise data.wrong(f"the id {name!r} of example {row} is not the first of its name.", "Give each its own id.")
        seen.add(name)
    if classes is not None:
        digest = _digest([digest.encode(), classes.tobytes()])
    kept = slice(None) if limit is None else slice(limit)
    reference = DataReference(name=data.path.resolve().name, digest=digest, examples=len(ids[kept]))
    return Examples(
        reference=reference,
        inputs={name: array[kept] for name, array in inputs.items()},
        targets=None if classes is None else classes[kept],
        ids=tuple(ids[kept]),
    )


def _parts(name: str, array: Any) -> Iterator[bytes]:
    yield f"{name} {array.dtype.str} {array.shape}".encode()
    yield array.tobytes()


def _digest(parts: Any) -> str:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(len(part).to_bytes(8, "big"))
        sha.update(part)
    return f"sha256:{sha.hexdigest()}"
