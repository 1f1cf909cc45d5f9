"""The operators of whole models, timed one by one, by sitar-lab/NeuSight (MIT): fp32 transformers in PyTorch on eight GPUs.

Columns: `device, model, mode` (`inf`, `train`)`, sequence, batch, op, input_shapes, output_shape, dtype, count, op_ms, fw_ms,
bw_ms, acc_ms`. `count` says how often the operator occurs in one call of the model, `fw_ms`, `bw_ms` and `acc_ms` are its forward
pass, its backward pass and the accumulation of its gradients; each that is not 0 becomes a timing of its own phase. `op_ms` is
their sum and is not taken. Shapes are those of the tensors; matrix sizes are read from them.

A time is the mean of the fastest 5 of 25 eager calls on the same buffers, launch included, in fp32 without TF32. On the A100-PCIE
they sum to 0.94 to 1.54 of the whole model's time, which `neusight-labels` holds.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ingest.importers.document import Document
from ingest.importers.files import File
from ingest.importers.identity import precision_of
from ingest.importers.kernels.columns import Columns, Texts, columns_of, names_of
from ingest.importers.kernels.facts import facts
from ingest.importers.kernels.kernel_table import KernelTable, device_named, grouped, platform_of
from ingest.importers.kernels.neusight_operators import FASTEST_FIVE
from ingest.importers.refusals import Refused

__all__ = ["NeuSightModelOperators"]

_KEYS = ("device", "op", "dtype")
_NEEDED = (*_KEYS, "model", "mode", "sequence", "batch", "input_shapes", "output_shape", "count", "fw_ms")
_PHASES = {"fw_ms": "forward", "bw_ms": "backward", "acc_ms": "accumulation"}
_MODES = {"inf": "inference", "train": "training"}
_OPERATORS = {
    **dict.fromkeys(("Linear", "addmm"), "gemm"),
    **dict.fromkeys(("bmm", "matmul"), "bmm"),
    "softmax": "softmax",
    "LayerNorm": "norm",
    **dict.fromkeys(
        (
            "add",
            "sub",
            "mul",
            "truediv",
            "pow",
            "tanh",
            "Tanh",
            "ReLU",
            "gelu",
            "where",
            "masked_fill",
            "masked_fill_",
            "lt",
            "max",
        ),
        "elementwise",
    ),
}
"""Every other operator is `other`, with the elements of its output."""
_ORDER = {"gemm": ("n", "k", "m"), "bmm": ("n", "k", "m", "batch"), "other": ("elements",)}
_NOTE = "fp32 without TF32. `calls` is how often the operator occurs in one call of the model."
Shape = tuple[int, ...]


class NeuSightModelOperators:
    """NeuSight's operators of whole models (CSV or Parquet)."""

    name = "neusight-model-operators"
    title = "NeuSight operators of whole models (sitar-lab), as Parquet or CSV"

    def sniff(self, file: File) -> bool:
        """Return whether the columns are its."""
        return names_of(file).issuperset(_NEEDED)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its tables and the end of the run; see Importer."""
        document = Document(
            file,
            self.name,
            source="NeuSight operators of whole models",
            licence="MIT",
            reference="sitar-lab/NeuSight scripts/asplos/label",
        )
        columns = columns_of(file, _NEEDED, ("bw_ms", "acc_ms"))
        return document.events(facts(document, columns, _tables(columns)))


def _tables(columns: Columns) -> Iterator[KernelTable]:
    import numpy as np

    keys = {name: columns.texts(name, needed=True) for name in _KEYS}
    models = columns.texts("model", needed=True).mapped(lambda name: f"neusight/{name}")
    modes = columns.texts("mode", needed=True, literal=True).mapped(_MODES.get)
    columns.refuse(modes.codes < 0, "mode", "is neither inf nor train")
    counts = {
        "calls": columns.whole("count", least=1),
        "model_batch": columns.whole("batch", least=1),
        "model_sequence": columns.whole("sequence", least=1),
    }
    shapes = _shapes(columns, keys["op"])
    times = {name: columns.times(name, needed=name == "fw_ms") for name in _PHASES}
    for said, places in grouped(columns, keys):
        operator = _OPERATORS.get(said["op"] or "", "other")
        sizes = _sizes(operator, said["op"] or "", shapes, places)
        for name, phase in _PHASES.items():
            timed = np.flatnonzero(~np.isnan(times[name][places]))
            if len(timed):
                chosen = places[timed]
                yield KernelTable(
                    about=_about(said, operator, phase),
                    columns=columns,
                    places=chosen,
                    sizes={key: values[timed] for key, values in sizes.items()}
                    | {key: values[chosen] for key, values in counts.items()},
                    latency=times[name][chosen],
                    order=["part_of", "mode", "model_batch", "shape", *_ORDER.get(operator, ("row_size", "rows"))],
                    texts={
                        "part_of": Texts(models.codes[chosen], models.values),
                        "mode": Texts(modes.codes[chosen], modes.values),
                        "shape": Texts(shapes.codes[chosen], shapes.values),
                    },
                )


def _shapes(columns: Columns, operators: Texts) -> Texts:
    """Return the shapes of inputs and output of each row as one text, `[[8,512],[512,64]]->[8,64]`; refuse what is none."""
    import numpy as np

    inputs, outputs = columns.texts("input_shapes", needed=True), columns.texts("output_shape", needed=True)
    pairs = inputs.codes.astype(np.int64) * (len(outputs.values) + 1) + outputs.codes
    distinct, codes = np.unique(pairs, return_inverse=True)
    values = []
    for pair in distinct.tolist():
        first, second = divmod(pair, len(outputs.values) + 1)
        usable = 0 <= first < len(inputs.values) and 0 <= second < len(outputs.values)
        values.append((_written(inputs.values[first], outputs.values[second]) if usable else None) or "")
    result = Texts(codes.astype(np.int32), values).mapped(lambda value: value or None)
    columns.refuse(result.codes < 0, "input_shapes", "is no list of shapes, or output_shape is no shape")
    for place, name in enumerate(operators.values):
        operator = _OPERATORS.get(name, "other")
        unreadable = [code for code, value in enumerate(result.values) if _matrix(operator, name, value) is None]
        wrong = (operators.codes == place) & np.isin(result.codes, unreadable)
        columns.refuse(wrong, "input_shapes", f"are not those of {name}")
    return result


def _written(inputs: str, output: str) -> str | None:
    try:
        shapes = json.loads(inputs)
        result = json.loads(f"[{output.strip('()[] ').rstrip(',')}]")
    except (ValueError, RecursionError):
        return None
    if not isinstance(shapes, list) or not all(_is_shape(shape) for shape in (*shapes, result)):
        return None
    return f"{json.dumps(shapes, separators=(',', ':'))}->{json.dumps(result, separators=(',', ':'))}"


def _is_shape(value: Any) -> bool:
    sized = isinstance(value, list) and all(type(size) is int and 0 <= size < 2**31 for size in value)
    return sized and math.prod(value) < 2**53


def _sizes(operator: str, name: str, shapes: Texts, places: Any) -> dict[str, Any]:
    import numpy as np

    read = [_matrix(operator, name, value) for value in shapes.values]
    names = next((list(sizes) for sizes in (read[code] for code in shapes.codes[places]) if sizes), [])
    rows = [read[code] or {} for code in shapes.codes[places].tolist()]
    return {size: np.array([row.get(size, -1) for row in rows], np.int64) for size in names}


@functools.lru_cache(maxsize=65536)
def _matrix(operator: str, name: str, shape: str) -> Mapping[str, int] | None:
    """Return the sizes of an operator from the shapes of its tensors; None where they are not those of one."""
    if not shape:
        return None
    before, _, after = shape.partition("->")
    inputs: list[Sequence[int]] = json.loads(before)
    output: Sequence[int] = json.loads(after)
    if operator == "other":
        return {"elements": math.prod(output)}
    if not inputs or not output:
        return None
    if operator in ("gemm", "bmm"):
        return _product(operator, inputs[1] if name == "addmm" and len(inputs) > 1 else inputs[0], inputs, output)
    return {"rows": math.prod(output[:-1]), "row_size": output[-1]}


def _product(
    operator: str, left: Sequence[int], inputs: Sequence[Sequence[int]], output: Sequence[int]
) -> Mapping[str, int] | None:
    if operator == "gemm":
        if not left or math.prod(left[:-1]) != math.prod(output[:-1]):
            return None
        return {"m": math.prod(output[:-1]), "n": output[-1], "k": left[-1]}
    if len(inputs) < 2 or len(left) < 2 or len(inputs[1]) < 2 or len(output) < 2 or left[-1] != inputs[1][-2]:
        return None
    return {"batch": math.prod(output[:-2]), "m": output[-2], "n": output[-1], "k": left[-1]}


def _about(said: Mapping[str, str | None], operator: str, phase: str) -> dict[str, Any]:
    device = device_named(((said["device"] or "").replace("_", " "),), "gpu")
    precision = precision_of(said["dtype"])
    return {
        "hardware": device,
        "execution": {
            "platform": platform_of(device),
            "runtime": {"name": "torch"},
            "precision": precision,
            "compiled": False,
        },
        "operator": operator,
        "name": said["op"],
        "phase": phase,
        "device_name": said["device"],
        "types": {"published": precision, "activations": precision, "arithmetic": precision},
        "method": {**FASTEST_FIVE, "note": _NOTE},
    }
