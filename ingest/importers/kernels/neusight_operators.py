"""Single PyTorch operators of sitar-lab/NeuSight (MIT): fp32 on ten GPUs from a P4 to an H100 and an MI210.

Two spellings are taken, as CSV or Parquet. As the repository has them under `scripts/asplos/data/dataset`: `OPName, Latency`
(ms), `Device, Torch Version` (`p2.1.0`), `Kernel Name`, and by operator `B, M, N, K` (linear, bmm), `B, H` (b rows of h) or
`B, Input_Channel, Output_Channel, Kernel_Szie, Input_Size, Stride, Padding` (conv). There **N is summed over and K is the width
of the result**. And put together: `op, device, torch_version, set, b, m, n, k, h, in_channels …, latency_ms, kernel_name`,
where n is the width of the result and k is summed over, as everywhere else.

A time is the mean of the fastest 5 of 25 eager calls on the same buffers, launch included: small operators stop at 12 to 40 µs,
and what fits the cache lies there. fp32 is fp32: TF32 was off. The P4 ran large matrices at 1.1 TFLOP/s in the training set and
at 4.3 in the test set, which is doubtful.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingest.importers.document import Document
from ingest.importers.files import File
from ingest.importers.identity import precision_of
from ingest.importers.kernels.columns import Columns, Texts, columns_of, names_of
from ingest.importers.kernels.facts import facts
from ingest.importers.kernels.kernel_table import KernelTable, device_named, grouped, platform_of
from ingest.importers.refusals import Refused

__all__ = ["FASTEST_FIVE", "NeuSightOperators"]

FASTEST_FIVE = {"statistic": "mean-of-fastest-5-of-25", "launch": "eager", "buffers": "warm", "samples": 5}
"""What a time of NeuSight contains."""
_MATRICES, _CONVOLUTION, _ROWS = ("b", "m", "n", "k"), ("b", "in_channels", "out_channels"), ("b", "h")
_OPERATORS = {
    "linear": "gemm",
    "bmm": "bmm",
    "conv": "convolution",
    "ln": "norm",
    "softmax": "softmax",
    **dict.fromkeys(
        ("add", "addu", "sub", "mul", "mulu", "div", "divu", "pow", "powu", "tanh", "relu", "gelu"), "elementwise"
    ),
}
_BINARY = frozenset(("add", "sub", "mul", "div", "pow"))
_NAMES = {
    "OPName": "op",
    "Latency": "latency_ms",
    "Device": "device",
    "Torch Version": "torch_version",
    "Kernel Name": "kernel_name",
    "B": "b",
    "M": "m",
    "N": "k",
    "K": "n",
    "H": "h",
    "Input_Channel": "in_channels",
    "Output_Channel": "out_channels",
    "Kernel_Szie": "kernel_size",
    "Kernel_Size": "kernel_size",
    "Input_Size": "input_size",
    "Stride": "stride",
    "Padding": "padding",
}
_NEEDED = ("op", "device", "b", "latency_ms")
_ITS_OWN = ({"OPName", "Kernel Name"}, {"kernel_name", "set"})
"""Columns that no other table has, in either spelling."""
_SIZES = ("m", "n", "k", "h", "in_channels", "out_channels", "kernel_size", "input_size", "stride", "padding")
_LARGE_FLOPS = 1e9
"""A matrix product of so many operations is large: it takes the slow P4 a millisecond."""
_NOTE = "fp32 without TF32."
_TWO_SPEEDS = "The source ran large matrices on the P4 at 1.1 TFLOP/s in its training set and at 4.3 in its test set."


class NeuSightOperators:
    """NeuSight's operators (CSV or Parquet)."""

    name = "neusight-operators"
    title = "NeuSight operators (sitar-lab): data/dataset/*.csv, or flattened as Parquet or CSV"

    def sniff(self, file: File) -> bool:
        """Return whether the columns are those of its tables."""
        names = names_of(file)
        ours = {_NAMES.get(name, name) for name in names}
        shaped = any(ours.issuperset(sizes) for sizes in (_MATRICES, _CONVOLUTION, _ROWS))
        return shaped and ours.issuperset(_NEEDED) and any(names >= own for own in _ITS_OWN)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its tables and the end of the run; see Importer."""
        document = Document(
            file,
            self.name,
            source="NeuSight operators",
            licence="MIT",
            reference="sitar-lab/NeuSight scripts/asplos/data/dataset",
        )
        columns = columns_of(file, _NEEDED, ("torch_version", "set", "kernel_name", *_SIZES), _NAMES)
        return document.events(facts(document, columns, _tables(columns, trained="/train/" in f"/{file.name}")))


def _tables(columns: Columns, *, trained: bool) -> Iterator[KernelTable]:
    named = columns.texts("op", needed=True)
    operators = named.mapped(lambda name: name if name in _OPERATORS else None)
    columns.refuse(operators.codes < 0, "op", f"is none of {', '.join(_OPERATORS)}")
    keys = {"op": operators, "device": columns.texts("device", needed=True), "set": columns.texts("set")}
    keys["torch_version"] = columns.texts("torch_version")
    kernels = columns.texts("kernel_name")
    latency = columns.times("latency_ms")
    numbers = {name: columns.whole(name, needed=name == "b", least=int(name != "padding")) for name in ("b", *_SIZES)}
    for place, name in enumerate(operators.values):
        rows = operators.codes == place
        for size in _needed(name):
            columns.refuse(rows & (numbers[size] < 0), size, f"is missing, and {name} needs it")
    for said, places in grouped(columns, keys):
        sizes = {name: values[places] for name, values in numbers.items()}
        yield _table(
            columns, said, places, sizes, latency[places], Texts(kernels.codes[places], kernels.values), trained
        )


def _needed(name: str) -> tuple[str, ...]:
    if name in ("linear", "bmm"):
        return ("m", "n", "k")
    return (
        ("in_channels", "out_channels", "kernel_size", "input_size", "stride", "padding") if name == "conv" else ("h",)
    )


def _table(
    columns: Columns,
    said: dict[str, str | None],
    places: Any,
    numbers: dict[str, Any],
    latency: Any,
    kernels: Texts,
    trained: bool,
) -> KernelTable:
    import numpy as np

    name = said["op"] or ""
    operator = _OPERATORS[name]
    device = device_named((said["device"],), "gpu")
    split = said["set"] or ("train" if trained else None)
    runtime = {"name": "torch"} | (
        {"version": said["torch_version"].removeprefix("p")} if said["torch_version"] else {}
    )
    fixed: dict[str, Any] = {"split": split} if split else {}
    if operator == "elementwise":
        fixed["inputs"] = 2 if name in _BINARY else 1
    two_speeds = device["id"] == "nvidia-p4" and operator in ("gemm", "bmm")
    about = {
        "hardware": device,
        "execution": {
            "platform": platform_of(device),
            "runtime": runtime,
            "precision": precision_of("fp32"),
            "compiled": False,
        },
        "operator": operator,
        "name": name,
        "device_name": said["device"],
        "types": {"published": "fp32", "weights": "fp32", "activations": "fp32", "arithmetic": "fp32"},
        "fixed": fixed,
        "method": {**FASTEST_FIVE, "note": f"{_NOTE} {_TWO_SPEEDS}" if two_speeds else _NOTE},
    }
    sizes = _sizes(operator, numbers)
    doubtful = np.zeros(len(latency), bool)
    if two_speeds and split == "train":
        doubtful = 2.0 * sizes.get("batch", 1.0) * sizes["m"] * sizes["n"] * sizes["k"] >= _LARGE_FLOPS
    return KernelTable(
        about=about,
        columns=columns,
        places=places,
        sizes=sizes,
        latency=latency,
        order=["kernel", *_ORDER[operator]],
        texts={"kernel": kernels},
        doubts={"two-speeds": (_TWO_SPEEDS, doubtful)},
    )


_ORDER = {
    "gemm": ("n", "k", "m"),
    "bmm": ("n", "k", "m", "batch"),
    "convolution": ("kernel_height", "stride", "padding", "in_channels", "out_channels", "height", "batch"),
    **dict.fromkeys(("norm", "softmax", "elementwise"), ("row_size", "rows")),
}


def _sizes(operator: str, numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes by our names; a linear layer works on all rows of its batch as one matrix."""
    if operator == "gemm":
        return {"m": numbers["b"] * numbers["m"], "n": numbers["n"], "k": numbers["k"]}
    if operator == "bmm":
        return {"batch": numbers["b"], "m": numbers["m"], "n": numbers["n"], "k": numbers["k"]}
    if operator == "convolution":
        return {
            "batch": numbers["b"],
            "in_channels": numbers["in_channels"],
            "out_channels": numbers["out_channels"],
            "height": numbers["input_size"],
            "width": numbers["input_size"],
            "kernel_height": numbers["kernel_size"],
            "kernel_width": numbers["kernel_size"],
            "stride": numbers["stride"],
            "padding": numbers["padding"],
        }
    return {"rows": numbers["b"], "row_size": numbers["h"]}
