"""The kernels of a prediction: what each class of them takes, of what that consists, and the longest operators."""

from __future__ import annotations

import msgspec
import numpy as np

from domain import answers
from domain.performance.roofline import Limits, roofline
from predictor.features.dataset import Row
from predictor.features.operators_route import asked
from predictor.features.table import Array, Matrix
from predictor.features.traces import Trace
from predictor.general.inputs import inputs_of, passes_of
from predictor.kernels.columns import ATTENTION, CLASSES, MOVING, PRODUCT, Columns
from predictor.kernels.kept import Kernels
from predictor.kernels.physics import seconds_of, shares_of
from predictor.kernels.profile import DeviceProfile
from predictor.kernels.traced import kernels_of, kernels_under

__all__ = ["KINDS", "KernelSum", "kernel_sum"]

KINDS = {PRODUCT: "matrix products", ATTENTION: "attention", MOVING: "moving data"}
"""The classes of kernels in words. Convolutions are matrix products; element-wise work, norms and copies move data."""
LONGEST = 5
"""So many operators are named."""


class KernelSum(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels of one call: each class that has some, the milliseconds that the host's launches add to their sum, the
    longest operators, and the roofline of each class in ms by `KINDS`."""

    classes: tuple[answers.KernelTime, ...]
    host_ms: float
    longest: tuple[answers.OperatorTime, ...]
    roofline_ms: dict[str, float]

    @property
    def total_ms(self) -> float:
        """Kernels and launches together."""
        return sum(kind.ms for kind in self.classes) + self.host_ms


def kernel_sum(
    trace: Trace, row: Row, limits: Limits, kernels: Kernels, profile: DeviceProfile | None = None
) -> KernelSum:
    """Return the kernels of a configuration of a traced model, as the general route adds them up.

    `profile` is what measured kernels of the device reach.
    """
    table = asked(trace, [row], [limits])
    inputs = inputs_of(table, kernels.parameters, [profile])
    run: Trace = table.subjects[0]
    passes = passes_of(run, row)
    traced = kernels_of(run)
    columns = kernels_under(traced, [limits], [row.batch_size or 1], "graph")
    classes: list[answers.KernelTime] = []
    longest: list[answers.OperatorTime] = []
    floors: dict[str, float] = {}
    for place, name in enumerate(CLASSES):
        index = traced.index[name]
        if not len(index):
            continue
        calls = run.count[index] * passes
        each_ms = seconds_of(name, kernels.parameters[name], columns[name]) * calls * 1e3
        total_ms = float(inputs.by_class[0, place]) * 1e3
        # Profiles move all kernels of a class; single operators keep their proportions.
        each_ms *= total_ms / float(each_ms.sum())
        classes.append(
            _class(KINDS[name], calls, total_ms, each_ms, shares_of(name, kernels.parameters[name], columns[name]))
        )
        sizes = _sizes(name, columns[name])
        longest += [
            answers.OperatorTime(
                name=str(run.operators[item]["name"]),
                kind=KINDS[name],
                sizes=sizes[here],
                calls=round(float(calls[here])),
                ms=float(each_ms[here]),
            )
            for here, item in enumerate(index.tolist())
        ]
        own = [trace.operators[item] for item in index.tolist()]
        mode = "inference" if trace.phase == "training" else row.mode
        floors[KINDS[name]] = roofline(own, limits, batch_size=row.batch_size or 1, mode=mode).latency_ms
    longest.sort(key=lambda item: (-item.ms, item.name, item.sizes))
    device_ms = sum(kind.ms for kind in classes)
    return KernelSum(
        classes=tuple(classes),
        host_ms=float(inputs.seconds[0]) * 1e3 - device_ms,
        longest=tuple(longest[:LONGEST]),
        roofline_ms=floors,
    )


def _class(kind: str, calls: Array, total_ms: float, each_ms: Array, shares: Matrix) -> answers.KernelTime:
    launch, arithmetic, traffic = (float(value) for value in each_ms @ shares)
    return answers.KernelTime(
        kind=kind,
        calls=round(float(calls.sum())),
        ms=total_ms,
        arithmetic_ms=arithmetic,
        traffic_ms=traffic,
        launch_ms=launch,
    )


def _sizes(name: str, columns: Columns) -> list[str]:
    """Return the sizes of kernels as people write them, at the batch that is asked."""
    sizes = {key: np.rint(values).astype(np.int64).tolist() for key, values in columns.sizes.items()}
    if name == PRODUCT:
        rows = zip(sizes["batch"], sizes["m"], sizes["n"], sizes["k"], strict=True)
        return [f"{f'{batch} × ' if batch > 1 else ''}({m} × {k}) · ({k} × {n})" for batch, m, n, k in rows]
    if name == ATTENTION:
        heads = zip(sizes["batch"], sizes["heads"], sizes["queries"], sizes["keys"], sizes["width"], strict=True)
        return [
            f"{batch} × {count} heads of {width}, {queries} queries, {keys} keys"
            for batch, count, queries, keys, width in heads
        ]
    return [f"{rows * row:,} elements" for rows, row in zip(sizes["rows"], sizes["row"], strict=True)]
