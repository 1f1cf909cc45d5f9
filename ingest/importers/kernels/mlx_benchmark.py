"""TristanBilot/mlx-benchmark (MIT): single operators in MLX and PyTorch on Apple chips and four NVIDIA GPUs, in fp32.

Columns: `chip, device, mlx, torch, op, dims, backend, ms`. `device` says which variant of the chip it is, `mlx` and `torch` the
versions, which differ from chip to chip. `dims` are the tensors as the benchmark prints them: `dim=64x1024x128 axi=0`; images
lie channels last, weights of a convolution are output × kernel × input. `backend`: mlx_gpu, mlx_gpu_compile (mx.compile), mlx_cpu,
torch_mps, torch_cpu, torch_cuda.

A time is the mean of 9 eager calls after one, five times, and is printed to 0.01 ms: below 0.1 ms it is rounded by 5 % or more,
which makes it doubtful. What printed as 0.00 is not there. PyTorch convolves with TF32 on NVIDIA's GPUs unless told otherwise,
so the arithmetic of those rows is not known.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ingest.importers.document import Document
from ingest.importers.files import File
from ingest.importers.kernels.columns import Columns, Texts, columns_of, names_of
from ingest.importers.kernels.facts import facts
from ingest.importers.kernels.kernel_table import KernelTable, device_named, grouped
from ingest.importers.refusals import Refused

__all__ = ["MlxBenchmark"]

_NEEDED = ("chip", "op", "dims", "backend", "ms")
_BACKENDS = {
    "mlx_gpu": ("mps", "gpu", "mlx"),
    "mlx_gpu_compile": ("mps", "gpu", "mlx"),
    "mlx_cpu": ("cpu", "cpu", "mlx"),
    "torch_mps": ("mps", "gpu", "torch"),
    "torch_cpu": ("cpu", "cpu", "torch"),
    "torch_cuda": ("cuda", "gpu", "torch"),
}
"""Platform, kind of device and runtime by backend."""
_GPUS = {
    "A100": "NVIDIA A100 80GB PCIe",
    "RTX4090": "NVIDIA GeForce RTX 4090",
    "Tesla V100 NVLink": "Tesla V100-SXM2-32GB",
    "Tesla V100 PCIe": "Tesla V100-PCIE-32GB",
}
_HOSTS = {
    "A100": "Intel Xeon Gold 6254",
    "RTX4090": "Intel Core i9-10940X",
    "Tesla V100 NVLink": "Intel Xeon Gold 6148",
    "Tesla V100 PCIe": "Intel Xeon Gold 5120",
}
"""The processors of the machines with NVIDIA GPUs, as `device` names them: torch_cpu ran there."""
_TENSOR = re.compile(r"dim=(\d+(?:x\d+)*)")
_COARSE_MS = 0.1
_NOTE = "Printed to 0.01 ms. Mean of 9 calls after one, five times."
_ROUNDED = "printed to 0.01 ms, which is 5 % of this time or more"
Tensors = Sequence[Sequence[int]]
Read = Callable[[Tensors], Mapping[str, int]]


class MlxBenchmark:
    """mlx-benchmark's operators (CSV or Parquet)."""

    name = "mlx-benchmark"
    title = "mlx-benchmark operators (TristanBilot), as CSV or Parquet"

    def sniff(self, file: File) -> bool:
        """Return whether the columns are its."""
        return names_of(file).issuperset(_NEEDED)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its tables and the end of the run; see Importer."""
        document = Document(
            file,
            self.name,
            source="mlx-benchmark",
            licence="MIT",
            reference="TristanBilot/mlx-benchmark benchmarks/detailed_benchmark.md",
        )
        columns = columns_of(file, _NEEDED, ("device", "mlx", "torch"))
        return document.events(facts(document, columns, _tables(columns)))


def _tables(columns: Columns) -> Iterator[KernelTable]:
    import numpy as np

    keys = {name: columns.texts(name, needed=True) for name in ("chip", "op", "backend")}
    backends = keys["backend"].mapped(lambda name: name if name in _BACKENDS else None)
    columns.refuse(backends.codes < 0, "backend", f"is none of {', '.join(_BACKENDS)}")
    keys |= {"backend": backends, **{name: columns.texts(name) for name in ("device", "mlx", "torch")}}
    shapes = columns.texts("dims", needed=True)
    latency = columns.times("ms")
    for place, name in enumerate(keys["op"].values):
        unreadable = [code for code, dims in enumerate(shapes.values) if _sizes(name, dims) is None]
        wrong = (keys["op"].codes == place) & np.isin(shapes.codes, unreadable)
        columns.refuse(wrong, "dims", f"are not the tensors of {name}")
    for said, places in grouped(columns, keys):
        operator = _OPERATORS.get(said["op"] or "", ("other", _other))[0]
        rows = [_sizes(said["op"] or "", shapes.values[code]) or {} for code in shapes.codes[places].tolist()]
        sizes = {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}
        times = latency[places]
        yield KernelTable(
            about=_about(said, operator),
            columns=columns,
            places=places,
            sizes=sizes,
            latency=times,
            order=["shape"],
            texts={"shape": Texts(shapes.codes[places], shapes.values)},
            doubts={"rounded": (_ROUNDED, times < _COARSE_MS)},
        )


def _about(said: Mapping[str, str | None], operator: str) -> dict[str, Any]:
    backend, chip = said["backend"] or "", said["chip"] or ""
    platform, kind, runtime = _BACKENDS[backend]
    if chip in _GPUS:
        names: tuple[str, ...] = (_GPUS[chip] if kind == "gpu" else _HOSTS[chip],)
    else:
        names = (f"Apple {chip} GPU",) if kind == "gpu" else (f"Apple {chip}",)
    unknown = platform == "cuda" and operator == "convolution"
    types = {"published": "fp32", "weights": "fp32", "activations": "fp32", "arithmetic": None if unknown else "fp32"}
    version = said[runtime]
    return {
        "hardware": device_named(names, kind),
        "execution": {
            "platform": platform,
            "runtime": {"name": runtime} | ({"version": version} if version else {}),
            "precision": "fp32",
            "compiled": backend.endswith("_compile"),
        },
        "operator": operator,
        "name": said["op"],
        "phase": "encoder" if operator == "attention" else None,
        "fixed": {"inputs": 1} if operator == "elementwise" else {},
        "device_name": said["device"] or chip,
        "types": {name: value for name, value in types.items() if value},
        "method": {
            "statistic": "mean",
            "launch": "eager",
            "buffers": "warm",
            "samples": 45,
            "warmups": 1,
            "note": _NOTE,
        },
    }


@functools.lru_cache(maxsize=65536)
def _sizes(name: str, dims: str) -> Mapping[str, int] | None:
    """Return the sizes of an operator from the tensors that `dims` prints; None where they are not its."""
    tensors = [[int(size) for size in tensor.split("x")] for tensor in _TENSOR.findall(dims)]
    if not tensors or any(len(tensor) > 8 or math.prod(tensor) >= 2**53 for tensor in tensors):
        return None
    try:
        return _OPERATORS.get(name, ("other", _other))[1](tensors)
    except (ValueError, IndexError):
        return None


def _linear(tensors: Tensors) -> Mapping[str, int]:
    left, weight = tensors[0], tensors[1]
    if left[-1] != weight[0]:
        raise ValueError
    return {"m": math.prod(left[:-1]), "n": weight[1], "k": left[-1]}


def _product(tensors: Tensors) -> Mapping[str, int]:
    left, right = tensors
    if left[-1] != right[-2]:
        raise ValueError
    batch = math.prod(left[:-2]) if len(right) > 2 else 1
    rows = left[-2] if len(right) > 2 else math.prod(left[:-1])
    return {"batch": batch, "m": rows, "n": right[-1], "k": left[-1]}


def _convolution(tensors: Tensors) -> Mapping[str, int]:
    image, weight = (list(tensor) for tensor in tensors)
    if len(image) == 3:
        image, weight = [image[0], 1, *image[1:]], [weight[0], 1, *weight[1:]]
    batch, height, width, into = image
    out, rows, columns, channels = weight
    if channels != into or rows > height or columns > width:
        raise ValueError
    return {
        "batch": batch,
        "in_channels": into,
        "out_channels": out,
        "height": height,
        "width": width,
        "kernel_height": rows,
        "kernel_width": columns,
    }


def _attention(tensors: Tensors) -> Mapping[str, int]:
    (batch, heads, query, width), (_, kv_heads, keys, _), _ = tensors
    if keys < query:
        raise ValueError
    return {
        "batch": batch,
        "query_tokens": query,
        "cached_tokens": keys - query,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": width,
    }


def _rowwise(tensors: Tensors) -> Mapping[str, int]:
    return {"rows": math.prod(tensors[0][:-1]), "row_size": tensors[0][-1]}


def _other(tensors: Tensors) -> Mapping[str, int]:
    return {"elements": sum(math.prod(tensor) for tensor in tensors)}


_OPERATORS: Mapping[str, tuple[str, Read]] = {
    "Linear": ("gemm", _linear),
    "MatMul": ("bmm", _product),
    "Conv1d": ("convolution", _convolution),
    "Conv2d": ("convolution", _convolution),
    "ScaledDotProductAttention": ("attention", _attention),
    "Softmax": ("softmax", _rowwise),
    "LayerNorm": ("norm", _rowwise),
    **dict.fromkeys(("LeakyReLU", "PReLU", "ReLU", "SeLU", "Sigmoid", "Softplus"), ("elementwise", _rowwise)),
}
"""Operators by name; every other one is `other`, with the elements of its inputs."""
