"""What the general route reads of a configuration: the sum of its kernels, the software and the kind of device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.performance.roofline import TRAINING_PASSES
from predictor.features.dataset import Row
from predictor.features.features import FEATURES
from predictor.features.table import Array, Matrix, Table
from predictor.features.traces import Trace
from predictor.kernels.columns import ATTENTION, CLASSES, MOVING, PRODUCT, Columns
from predictor.kernels.physics import Parameters, seconds_of, shares_of
from predictor.kernels.profile import DeviceProfile, under
from predictor.kernels.traced import kernels_of, kernels_under

__all__ = [
    "GENERAL_FEATURES",
    "TRACED_RUNTIMES",
    "GeneralInputs",
    "Parts",
    "inputs_of",
    "kind_of",
    "parts_of",
    "passes_of",
    "runtime_of",
]

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
_TINY = 1e-30
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
    beside them. What kernels of a device reach moves the roofline by as many times as it moves the sum of kernels.
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
    return _runtime(row.runtime or "", row.compiled)


@lru_cache(maxsize=1024)
def _runtime(name: str, compiled: bool) -> str:
    name = name.lower()
    name = _NAMES.get(name, name)
    if name == "torch":
        return "torch compiled" if compiled else "torch"
    return name if name in RUNTIMES else "other"


def inputs_of(
    table: Table,
    parameters: Mapping[str, Parameters],
    profiles: Sequence[DeviceProfile | None] = (),
    launch_s: Mapping[str, float] = HOST_LAUNCH_S,
) -> GeneralInputs:
    """Return the inputs of a traced table; each trace is worked on once.

    `profiles` are what measured kernels of each row's device reach. Features and times are those at the peak of the profile; its
    bandwidth moves the times alone, because devices of one bandwidth trained together and trees jump where a figure of a device
    changes a little (`python -m research.general_parts --kernels FILES`). `launch_s` is what the host takes to launch an operator,
    by runtime.
    """
    if any(profile is not None for profile in profiles):
        usual = inputs_of(table, parameters, (), launch_s)
        moved = inputs_of(_limited(table, profiles, peak_alone=True), parameters, (), launch_s)
        by_class = _by_class(_limited(table, profiles), parameters)
        seconds = _overlapped(by_class.sum(axis=1), _hosts_s(table, launch_s))
        return GeneralInputs(
            values=moved.values,
            seconds=seconds,
            prior=np.asarray(table.prior * seconds / usual.seconds, dtype=np.float64),
            by_class=by_class,
        )
    seconds = _by_class(table, parameters)
    device, host = seconds.sum(axis=1), _hosts_s(table, launch_s)
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
    groups = (
        ("runtime", RUNTIMES, [runtime_of(row) for row in table.rows]),
        ("kind", KINDS, [kind_of(row) or "" for row in table.rows]),
        ("maker", MAKERS, [limit.maker or "" for limit in limits]),
    )
    for group, names, values in groups:
        of_row = np.array(values, dtype=str)
        columns |= {f"{group}.{name}": (of_row == name).astype(np.float64) for name in names}
    own = np.column_stack([columns[name] for name in GENERAL_FEATURES[len(FEATURES) :]])
    return GeneralInputs(
        values=np.hstack([table.values, own]), seconds=_overlapped(device, host), prior=table.prior, by_class=seconds
    )


def _overlapped(device: Array, host: Array) -> Array:
    """Return the seconds of work that a device does while its host launches it: the longer of both, blended."""
    return np.asarray((device**3 + host**3) ** (1 / 3), dtype=np.float64)


def _by_class(table: Table, parameters: Mapping[str, Parameters]) -> Matrix:
    """Return the seconds of the kernels of each row by class; each trace is worked on once."""
    seconds = np.zeros((len(table), len(CLASSES)))
    for members in _by_trace(table):
        seconds[members] = _device_seconds(table, members, parameters)
    return seconds


def _by_trace(table: Table) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for index, trace in enumerate(table.subjects):
        groups.setdefault(id(trace), []).append(index)
    return list(groups.values())


def _limited(table: Table, profiles: Sequence[DeviceProfile | None], *, peak_alone: bool = False) -> Table:
    limits = [
        limit
        if limit is None or profile is None
        else under(limit, profile)
        if not peak_alone
        else msgspec.structs.replace(limit, peak_flops=limit.peak_flops * profile.compute)
        for limit, profile in zip(table.limits, profiles, strict=True)
    ]
    return msgspec.structs.replace(table, limits=limits)


class Parts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the seconds of configurations are made of: arithmetic, traffic, the floors of kernels, and launches by the host."""

    arithmetic: Array
    traffic: Array
    floors: Array
    host: Array

    def seconds(self, peak: Array | float = 1.0, bandwidth: Array | float = 1.0, launch: Array | float = 1.0) -> Array:
        """Return the seconds at these shares of the peak and of the bandwidth, where a launch takes `launch` times as long."""
        device = self.arithmetic / peak + self.traffic / bandwidth + self.floors * launch
        return _overlapped(np.asarray(device, dtype=np.float64), np.asarray(self.host * launch, dtype=np.float64))


def parts_of(
    table: Table,
    parameters: Mapping[str, Parameters],
    profiles: Sequence[DeviceProfile | None] = (),
    launch_s: Mapping[str, float] = HOST_LAUNCH_S,
) -> Parts:
    """Return what the seconds of `inputs_of` are made of; where arithmetic and traffic overlap each has its share of both."""
    if any(profile is not None for profile in profiles):
        table = _limited(table, profiles)
    made = np.zeros((len(table), 3))
    for members in _by_trace(table):
        made[members] = _device_parts(table, members, parameters)
    arithmetic, traffic, floors = made.T
    return Parts(arithmetic=arithmetic, traffic=traffic, floors=floors, host=_hosts_s(table, launch_s))


def kind_of(row: Row) -> str | None:
    """Return what kind of device did the work of a row; a phone's platform says that its NPU did."""
    return "npu" if row.platform == "qnn" else row.hardware_kind


def _device_seconds(table: Table, members: Sequence[int], parameters: Mapping[str, Parameters]) -> Matrix:
    seconds = np.zeros((len(members), len(CLASSES)))
    for place, (name, columns, calls) in enumerate(_kernels(table, members)):
        if len(columns):
            seconds[:, place] = _summed(seconds_of(name, parameters[name], columns), calls)
    return seconds


def _device_parts(table: Table, members: Sequence[int], parameters: Mapping[str, Parameters]) -> Matrix:
    """Return the seconds of arithmetic, traffic and floors of each row."""
    parts = np.zeros((len(members), 3))
    for name, columns, calls in _kernels(table, members):
        if not len(columns):
            continue
        total = seconds_of(name, parameters[name], columns)
        floor, compute, traffic = shares_of(name, parameters[name], columns).T
        blend = parameters[name].values.get("blend", 1.0)
        together = (compute**blend + traffic**blend) ** (1 / blend)
        least = floor / (floor + together)
        of_compute = compute**blend / np.maximum(compute**blend + traffic**blend, _TINY)
        for place, share in enumerate(((1 - least) * of_compute, (1 - least) * (1 - of_compute), least)):
            parts[:, place] += _summed(total * share, calls)
    return parts


def _kernels(table: Table, members: Sequence[int]) -> Iterator[tuple[str, Columns, Matrix]]:
    """Yield each class with the kernels of these rows of one trace, row after row, and how often each row calls each."""
    trace: Trace = table.subjects[members[0]]
    kernels = kernels_of(trace)
    limits = [limit for index in members if (limit := table.limits[index]) is not None]
    made = kernels_under(kernels, limits, [table.rows[index].batch_size or 1 for index in members], "graph")
    passes = np.array([passes_of(trace, table.rows[index]) for index in members])
    for name in CLASSES:
        yield name, made[name], passes[:, None] * trace.count[kernels.index[name]]


def _summed(seconds: Array, calls: Matrix) -> Array:
    return np.asarray((seconds.reshape(calls.shape) * calls).sum(axis=1), dtype=np.float64)


def passes_of(trace: Trace, row: Row) -> float:
    """Return how many forward passes the work of a row is of a trace."""
    return TRAINING_PASSES if row.mode == "training" and trace.phase != "training" else 1.0


def _hosts_s(table: Table, launch_s: Mapping[str, float]) -> Array:
    calls = {id(trace): float(trace.count.sum()) for trace in {id(trace): trace for trace in table.subjects}.values()}
    pairs = zip(table.subjects, table.rows, strict=True)
    return np.array([calls[id(trace)] * passes_of(trace, row) * launch_s[runtime_of(row)] for trace, row in pairs])
