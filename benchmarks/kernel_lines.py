"""Accuracy of the kernel model: single kernels on a chip that was left out, and models as the sum of their kernels.

Kernels are read from published tables by their importers. See `benchmarks.accuracy`, which runs these lines.
"""

from __future__ import annotations

import csv
import functools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from domain.catalogues import hardware
from domain.kernels import LATENCY, expanded
from domain.payloads import KernelMeasured
from domain.performance.roofline import Limits, limits_of
from predictor.artifact.conformal import width
from predictor.device_transfer.method import ReferenceMethod
from predictor.device_transfer.pieces import tabulate
from predictor.features.dataset import Row
from predictor.kernels.__main__ import events_of
from predictor.kernels.columns import MOVING, MOVING_KINDS, PRODUCT, Columns, device_columns
from predictor.kernels.correction import Corrected
from predictor.kernels.fitting import ALL, HALF, FittedClass, fit_class
from predictor.kernels.kept import chip_of
from predictor.kernels.rows import KernelRows, kernel_rows
from predictor.learning.evaluation import evaluate

__all__ = ["LINES", "KernelLine", "run"]

Array = NDArray[np.float64]
SEEDS = 3
"""Shots are drawn so often, and errors averaged."""
ASKED = 1500
"""Kernels of a software that are asked for after shots; predicting all of them would take an hour."""
NOMINALS = (0.8, 0.9)
"""Shares of rows that intervals should hold."""
TABLE = 600
"""Kernels of a device's own table that correct it, of each class."""


class KernelLine(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation; `run` takes the folder of published data and gives errors by group."""

    title: str
    bar: float
    reach: float
    run: Callable[[Path], dict[str, Any]]
    figure: str = "mape"


class _Errors(NamedTuple):
    """Log errors with the device of each and the half-widths of its intervals, where there are some."""

    errors: Array
    hardware: NDArray[np.str_]
    widths: dict[float, Array]


def run(line: KernelLine, data: Path) -> dict[str, Any]:
    """Return the evaluation of a line."""
    return line.run(data)


@functools.cache
def _rows(data: Path) -> dict[str, KernelRows]:
    files = [data / "kernels" / name for name in ("gemm.parquet", "neusight_ops.parquet")]
    return kernel_rows(events_of(files), hardware.find)


@functools.cache
def _left_out(data: Path, name: str, chip: str, key: str) -> FittedClass:
    """Return what the kernels of all other chips teach; of the trees only those of a key are fitted."""
    rows = _rows(data)[name]
    kept = np.array([chip_of(device) != chip for device in rows.hardware.tolist()], dtype=bool)
    return fit_class(name, rows.columns.take(kept), rows.seconds[kept], (key,))


def _gemm(shots: int, data: Path) -> dict[str, Any]:
    """bf16 products of LLM engines: each chip left out with its siblings, `shots` kernels of each software given."""
    rows = _rows(data)[PRODUCT]
    rows = rows.take(np.array([software.endswith(" bfloat16") for software in rows.software.tolist()], dtype=bool))
    parts: list[_Errors] = []
    for device in np.unique(rows.hardware):
        fitted = _left_out(data, PRODUCT, chip_of(str(device)), HALF)
        its = rows.take(rows.hardware == device)
        parts += [_of_device(fitted, its, shots, seed) for seed in range(SEEDS if shots else 1)]
    return _scores(parts)


def _of_device(fitted: FittedClass, rows: KernelRows, shots: int, seed: int) -> _Errors:
    """Correct by some kernels of every software of the device, and predict others."""
    orders = [
        np.random.default_rng(seed).permutation(np.flatnonzero(rows.software == software))
        for software in np.unique(rows.software)
    ]
    asked = rows.take(np.concatenate([order[shots : shots + ASKED] for order in orders]))
    if not shots:
        errors = np.log(asked.seconds / fitted.seconds(asked.columns))
        return _Errors(errors, asked.hardware, {})
    given = rows.take(np.concatenate([order[:shots] for order in orders]))
    corrected = Corrected(fitted, given.columns, given.seconds, given.software)
    errors = np.log(asked.seconds / corrected.seconds(asked.columns, asked.software))
    widths = {nominal: corrected.half_width(asked.columns, nominal, asked.software) for nominal in NOMINALS}
    return _Errors(errors, asked.hardware, widths)


def _labels(known: bool, data: Path) -> dict[str, Any]:
    """NeuSight's models in eager inference as sums of their operators: with the device's kernels, or its chip left out."""
    parts: list[_Errors] = []
    for (device, *_), (measured_s, operators) in _models(data).items():
        # No kernels of the MI250 are published; it is two dies of the MI210's kind, of which one was used.
        own = "amd-instinct-mi210" if device == "amd-instinct-mi250" else device
        predicted = sum(_class_seconds(data, name, own, operators, known) for name in (PRODUCT, MOVING))
        parts.append(_Errors(np.array([math.log(measured_s / predicted)]), np.array([device]), {}))
    return _scores([_with_widths(parts)])


def _with_widths(parts: Sequence[_Errors]) -> _Errors:
    """Join models and give each the interval that the models of all other devices teach."""
    errors, devices = (
        np.concatenate(values) for values in zip(*((part.errors, part.hardware) for part in parts), strict=True)
    )
    widths = {nominal: np.zeros(len(errors)) for nominal in NOMINALS}
    for device in np.unique(devices):
        others = devices != device
        for nominal in NOMINALS:
            widths[nominal][~others] = width(errors[others], nominal)
    return _Errors(errors, devices, widths)


def _class_seconds(data: Path, name: str, device: str, operators: Sequence[_Operator], known: bool) -> float:
    its = [operator for operator in operators if operator.name == name]
    spec = hardware.find(device)
    limits = None if spec is None else limits_of(spec, "fp32", "rocm" if spec.vendor == "amd" else "cuda")
    if not its or limits is None:
        return 0.0
    columns = _columns(its, limits)
    model = _with_table(data, name, device) if known else _left_out(data, name, chip_of(device), ALL)
    return float((model.seconds(columns) * np.array([operator.calls for operator in its])).sum())


@functools.cache
def _with_table(data: Path, name: str, device: str) -> Corrected:
    """What all kernels teach, corrected by some of the device's own table."""
    rows = _rows(data)[name]
    own = rows.take(np.array([item == device for item in rows.hardware.tolist()], dtype=bool))
    chosen = np.sort(np.random.default_rng(0).permutation(len(own))[:TABLE])
    return Corrected(_fitted(data, name), own.columns.take(chosen), own.seconds[chosen])


@functools.cache
def _fitted(data: Path, name: str) -> FittedClass:
    rows = _rows(data)[name]
    return fit_class(name, rows.columns, rows.seconds, (ALL,))


class _Operator(NamedTuple):
    """An operator of a model: its class, its sizes, and how often it is called."""

    name: str
    sizes: dict[str, float]
    calls: int


_MOVES = {
    **dict.fromkeys(("add", "truediv", "mul", "sub", "div", "where", "max", "masked_fill", "masked_fill_", "ReLU", "relu"), "elementwise"),
    **dict.fromkeys(("pow", "tanh", "Tanh", "gelu"), "costly elementwise"),
    "contiguous": "copy",
    "softmax": "softmax",
    "LayerNorm": "norm",
}  # fmt: skip


@functools.cache
def _models(data: Path) -> dict[tuple[str, str, int, int], tuple[float, list[_Operator]]]:
    """Return the measured seconds and the operators of each device, model, batch and sequence of eager inference."""
    names = {"A100PCIE40GB": "nvidia-a100-pcie-40gb", "AMDInstinctMI250": "amd-instinct-mi250"}
    operators: dict[tuple[str, str, int, int], list[_Operator]] = defaultdict(list)
    for row in pq.read_table(data / "models" / "neusight_label_ops.parquet").to_pylist():
        operator = _operator(row) if row["mode"] == "inf" else None
        if operator is not None:
            operators[_device(row["device"], names), row["model"], row["batch"], row["sequence"]].append(operator)
    found: dict[tuple[str, str, int, int], tuple[float, list[_Operator]]] = {}
    with (data / "models" / "neusight_labels.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            key = (_device(row["device"], names), row["model"], int(row["batch"]), int(row["sequence"]))
            if (row["variant"], row["mode"]) == ("eager", "inf") and key in operators:
                found[key] = (float(row["e2e_ms"]) / 1e3, operators[key])
    return found


def _device(name: str, names: dict[str, str]) -> str:
    said = name.replace("_", " ")
    spec = hardware.find(said) or hardware.find(
        names.get(said.replace(" ", "").replace("NVIDIA", "").replace("-", ""), "")
    )
    return said if spec is None else spec.id


def _operator(row: dict[str, Any]) -> _Operator | None:
    inputs, output = json.loads(row["input_shapes"]), _shape(row["output_shape"])
    name, calls, elements = row["op"], row["count"], math.prod(output)
    if name in ("Linear", "addmm", "matmul", "bmm"):
        left = inputs[1] if name == "addmm" else inputs[0]
        batched = name in ("matmul", "bmm")
        batch = math.prod(left[:-2]) if batched else 1
        rows = left[-2] if batched else math.prod(left[:-1])
        sizes = {"batch": batch, "m": rows, "n": output[-1], "k": left[-1]}
        return _Operator(PRODUCT, {key: float(value) for key, value in sizes.items()}, calls)
    if name not in _MOVES or not elements:
        return None  # A view, which moves nothing.
    read = sum(math.prod(shape) for shape in inputs if shape)
    kind = float(MOVING_KINDS.index(_MOVES[name]))
    moved = output[-1] * (1 + max(1.0, min(3.0, read / elements)))
    return _Operator(
        MOVING, {"rows": elements / output[-1], "row": float(output[-1]), "moved": moved, "kind": kind}, calls
    )


def _shape(text: str) -> list[int]:
    return [int(part) for part in text.strip("()").split(",") if part.strip()]


def _columns(operators: Sequence[_Operator], limits: Limits) -> Columns:
    sizes = {key: np.array([operator.sizes[key] for operator in operators]) for key in operators[0].sizes}
    fours = np.full(len(operators), 4.0)
    if operators[0].name == PRODUCT:
        sizes |= {"area": np.ones(len(operators)), "left_bytes": fours, "right_bytes": fours, "out_bytes": fours}
    else:
        sizes["bytes"] = fours
    return Columns(
        sizes=sizes, device=device_columns([limits] * len(operators)), regime=np.full(len(operators), "eager")
    )


def _apple(shots: int, data: Path) -> dict[str, Any]:
    """Operators of mlx-benchmark: each Apple chip left out, `shots` operators of each backend given, by reference."""
    rows: list[Row] = []
    for event in events_of([data / "models" / "mlx_ops.csv"]):
        payload = msgspec.convert(event, KernelMeasured)
        if not payload.hardware.id.startswith("apple"):
            continue
        columns = {name: expanded(values) for name, values in payload.columns.items() if name != "mark"}
        times = columns.pop(LATENCY)
        sizes = zip(*columns.values(), strict=True) if columns else [()] * payload.timings
        rows += [
            Row(
                model=f"{payload.name} {sorted(payload.fixed.items())} {size}",
                # Variants of a chip, which differ in their cores, are devices apart here.
                hardware=payload.device_name or payload.hardware.id,
                platform=payload.execution.platform,
                runtime=payload.execution.runtime.name if payload.execution.runtime is not None else "",
                compiled=bool(payload.execution.compiled),
                precision="fp32",
                batch_size=1,
                latency_ms=float(time or 0.0),
                family=payload.name,
            )
            for size, time in zip(sizes, times, strict=True)
        ]
    table = tabulate(rows, hardware.find, "latency")
    return evaluate(table, ReferenceMethod(), "hardware", "latency", shots=shots)


def _scores(parts: Sequence[_Errors]) -> dict[str, Any]:
    errors = np.concatenate([part.errors for part in parts])
    devices = np.concatenate([part.hardware for part in parts])
    widths = {
        nominal: np.concatenate([part.widths[nominal] for part in parts]) for nominal in NOMINALS if parts[0].widths
    }

    def score(here: NDArray[np.bool_]) -> dict[str, Any]:
        relative = np.abs(np.expm1(-errors[here]))
        answer: dict[str, Any] = {
            "rows": int(here.sum()),
            "mape": round(float(relative.mean()), 6),
            "median_ape": round(float(np.median(relative)), 6),
            "within_10": round(float((relative <= 0.1).mean()), 6),
            "within_20": round(float((relative <= 0.2).mean()), 6),
        }
        for nominal in NOMINALS:
            held = np.abs(errors[here]) <= widths[nominal][here] if widths else None
            answer[f"coverage_{round(nominal * 100)}"] = None if held is None else round(float(held.mean()), 6)
        return answer

    by_hardware = {str(name): score(devices == name) for name in np.unique(devices)}
    return {
        "split": "hardware",
        "target": "latency",
        "rows": len(errors),
        "overall": score(np.ones(len(errors), dtype=bool)),
        "by_hardware": by_hardware,
        "macro_hardware_mape": round(float(np.mean([value["mape"] for value in by_hardware.values()])), 6),
    }


LINES: dict[str, KernelLine] = {
    "gemm-0": KernelLine(
        title="bf16 products, chip left out with its siblings, no measurement", bar=0.14, reach=0.12, run=functools.partial(_gemm, 0)
    ),
    "gemm-20": KernelLine(
        title="bf16 products, chip left out with its siblings, 20 kernels of each software", bar=0.08, reach=0.04, run=functools.partial(_gemm, 20)
    ),
    "neusight-known": KernelLine(
        title="NeuSight models in eager inference, sum of kernels, the device's kernels known", bar=0.06, reach=0.04, run=functools.partial(_labels, True)
    ),
    "neusight-left-out": KernelLine(
        title="NeuSight models in eager inference, sum of kernels, chip left out", bar=0.10, reach=0.08, run=functools.partial(_labels, False)
    ),
    "apple-operators-10": KernelLine(
        title="operators on an Apple chip left out, 10 of each backend given (median)", bar=0.10, reach=0.07,
        run=functools.partial(_apple, 10), figure="median_ape",
    ),
}  # fmt: skip
