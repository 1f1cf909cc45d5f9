"""What the general route reads of a configuration: the sum of its kernels, the software and the kind of device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.performance.roofline import TRAINING_PASSES, Limits
from predictor.features.dataset import Row
from predictor.features.features import FEATURES
from predictor.features.table import Array, Matrix, Table
from predictor.features.traces import Trace
from predictor.kernels.columns import ATTENTION, CLASSES, MOVING, PRODUCT
from predictor.kernels.physics import Parameters, seconds_of
from predictor.kernels.profile import DeviceProfile, Place, under
from predictor.kernels.traced import kernels_of, kernels_under

__all__ = ["GENERAL_FEATURES", "TRACED_RUNTIMES", "GeneralInputs", "inputs_of", "kind_of", "passes_of", "runtime_of"]

RUNTIMES = (
    "torch",
    "torch compiled",
    "tensorrt",
    "openvino",
    "onnxruntime",
    "tensorflow",
    "qairt",
    "tflite",
    "ggml",
    "other",
)
"""Runtimes that are told apart. Names of rows are read by `runtime_of`."""
TRACED_RUNTIMES = {
    "torch": ("cpu", "cuda", "rocm", "mps", "xpu", "hpu"),
    "tensorrt": ("cuda",),
    "onnxruntime": ("cpu", "cuda", "rocm", "qnn"),
    "tensorflow": ("cpu", "cuda"),
    "qairt": ("qnn",),
    "tflite": ("qnn",),
}
"""The runtimes that a question about a traced model may name, with their platforms. A platform that has one runtime alone, as
`openvino`, needs no name for it."""
_NAMES = {
    "onnxrt": "onnxruntime",
    "onnxruntime-qnn": "onnxruntime",
    "whisper.cpp": "ggml",
    "llama.cpp": "ggml",
    "tf_lite": "tflite",
    "itex": "tensorflow",
}
HOST_LAUNCH_S = dict.fromkeys(RUNTIMES, 1e-06) | {"torch": 8e-6, "tensorflow": 8e-6, "other": 5e-6}
"""Seconds that the host takes to launch an operator, by runtime: less where it launches a whole graph."""
KINDS = ("cpu", "gpu", "npu")
MAKERS = ("nvidia", "amd", "apple", "intel", "qualcomm")
KERNEL_FEATURES = ("log_device", "log_host", "product_share", "attention_share", "moving_share", "host_over_device")
DEVICE_FEATURES = ("log_ridge", "log_units", "log_cache", "year")
GENERAL_FEATURES = (
    *FEATURES,
    *KERNEL_FEATURES,
    *DEVICE_FEATURES,
    *(f"runtime.{name}" for name in RUNTIMES),
    *(f"kind.{name}" for name in KINDS),
    *(f"maker.{name}" for name in MAKERS),
)


class GeneralInputs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Features of configurations, (rows, len(GENERAL_FEATURES)), the seconds that their kernels add up to, and their roofline.

    `by_class` are the seconds of the kernels of each of CLASSES, (rows, len(CLASSES)); `seconds` has the host's launches
    beside them. What kernels of a device reach moves the roofline by as much as it moves the sum of kernels.
    """

    values: Matrix
    seconds: Array
    prior: Array
    by_class: Matrix

    def take(self, chosen: NDArray[Any]) -> GeneralInputs:
        """Return the chosen configurations, by indexes or by a mask."""
        return GeneralInputs(**{name: getattr(self, name)[chosen] for name in self.__struct_fields__})


def runtime_of(row: Row) -> str:
    """Return which of RUNTIMES a row ran under."""
    name = (row.runtime or "").lower()
    name = _NAMES.get(name, name)
    if name == "torch":
        return "torch compiled" if row.compiled else "torch"
    return name if name in RUNTIMES else "other"


def inputs_of(
    table: Table,
    parameters: Mapping[str, Parameters],
    profiles: Mapping[Place, DeviceProfile] | None = None,
    launch_s: Mapping[str, float] = HOST_LAUNCH_S,
) -> GeneralInputs:
    """Return the inputs of a traced table; each trace is worked on once.

    `profiles` say what measured kernels of a device under a platform reach; its limits are taken for that. `launch_s` is what
    the host takes to launch an operator, by runtime.
    """
    if profiles:
        usual = inputs_of(table, parameters)
        moved = inputs_of(msgspec.structs.replace(table, limits=_profiled(table, profiles)), parameters)
        return msgspec.structs.replace(moved, prior=table.prior * moved.seconds / usual.seconds)
    seconds = np.zeros((len(table), len(CLASSES)))
    groups: dict[int, list[int]] = {}
    for index, trace in enumerate(table.subjects):
        groups.setdefault(id(trace), []).append(index)
    for members in groups.values():
        seconds[members] = _device_seconds(table, members, parameters)
    device = seconds.sum(axis=1)
    host = np.array([_host_s(trace, row, launch_s) for trace, row in zip(table.subjects, table.rows, strict=True)])
    total = (device**3 + host**3) ** (1 / 3)
    columns = {
        "log_device": np.log(device),
        "log_host": np.log(host),
        "product_share": seconds[:, CLASSES.index(PRODUCT)] / device,
        "attention_share": seconds[:, CLASSES.index(ATTENTION)] / device,
        "moving_share": seconds[:, CLASSES.index(MOVING)] / device,
        "host_over_device": np.log(host / device),
    }
    limits = [limit for limit in table.limits if limit is not None]
    columns["log_ridge"] = np.log([limit.peak_flops / limit.bandwidth_bytes_per_s for limit in limits])
    columns["log_units"] = np.log([limit.units or np.nan for limit in limits])
    columns["log_cache"] = np.log([limit.cache_bytes or np.nan for limit in limits])
    columns["year"] = np.array([float(limit.year or np.nan) for limit in limits])
    runtimes = [runtime_of(row) for row in table.rows]
    for name in RUNTIMES:
        columns[f"runtime.{name}"] = np.array([float(item == name) for item in runtimes])
    for name in KINDS:
        columns[f"kind.{name}"] = np.array([float(kind_of(row) == name) for row in table.rows])
    for name in MAKERS:
        columns[f"maker.{name}"] = np.array([float(limit.maker == name) for limit in limits])
    own = np.column_stack([columns[name] for name in GENERAL_FEATURES[len(FEATURES) :]])
    return GeneralInputs(values=np.hstack([table.values, own]), seconds=total, prior=table.prior, by_class=seconds)


def _profiled(table: Table, profiles: Mapping[Place, DeviceProfile]) -> list[Limits | None]:
    return [
        limit
        if limit is None or (profile := profiles.get((row.hardware, row.platform))) is None
        else under(limit, profile)
        for row, limit in zip(table.rows, table.limits, strict=True)
    ]


def kind_of(row: Row) -> str | None:
    """Return what kind of device did the work of a row; a phone's platform says that its NPU did."""
    return "npu" if row.platform == "qnn" else row.hardware_kind


def _device_seconds(table: Table, members: Sequence[int], parameters: Mapping[str, Parameters]) -> Matrix:
    trace: Trace = table.subjects[members[0]]
    kernels = kernels_of(trace)
    limits = [limit for index in members if (limit := table.limits[index]) is not None]
    made = kernels_under(kernels, limits, [table.rows[index].batch_size or 1 for index in members], "graph")
    passes = np.array([passes_of(trace, table.rows[index]) for index in members])
    seconds = np.zeros((len(members), len(CLASSES)))
    for place, name in enumerate(CLASSES):
        if len(kernels.index[name]):
            each = seconds_of(name, parameters[name], made[name]).reshape(len(members), -1)
            seconds[:, place] = (each * trace.count[kernels.index[name]]).sum(axis=1) * passes
    return seconds


def passes_of(trace: Trace, row: Row) -> float:
    """Return how many forward passes the work of a row is of a trace."""
    return TRAINING_PASSES if row.mode == "training" and trace.phase != "training" else 1.0


def _host_s(trace: Trace, row: Row, launch_s: Mapping[str, float]) -> float:
    return float(trace.count.sum()) * passes_of(trace, row) * launch_s[runtime_of(row)]
