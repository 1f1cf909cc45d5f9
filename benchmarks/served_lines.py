"""Accuracy for language models on consumer devices: a device left out with all its rows, nothing of it measured.

Rows are single requests in published tables (OpenVINO on Core Ultra and on other Intel platforms) and in
`research/engine_rows.csv`: the time of a token and of a prompt. See `benchmarks.accuracy`, which runs these lines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.kernel_lines import KernelLine
from domain.catalogues.engines import Efficiency
from predictor.artifact.conformal import width
from predictor.learning.evaluation import score
from predictor.llm_serving.efficiency import DeviceShares
from research.engine_efficiencies import Point, fitted_engine, own_points, predicted, published_points

__all__ = ["LINES", "consumer", "is_consumer"]

TABLES = ("openvino/llm_core_ultra.csv", "openvino/openvino_benchmarks.csv")
SERVERS = ("a100", "h100", "h200", "gh200", "xeon", "data-center", "server", "instinct", "nvidia-l4", "nvidia-gb200")
"""Parts of the names of devices that people do not have at home or on their desk."""
NOMINALS = (0.8, 0.9)


class _Error(NamedTuple):
    """One row, and log(measured / predicted)."""

    point: Point
    error: float


def is_consumer(device: str) -> bool:
    """Return whether a device is one of a laptop, a desktop or a board."""
    return not any(part in device for part in SERVERS)


def consumer(data: Path) -> dict[str, Any]:
    """Return the errors on each consumer device, from all devices but it."""
    points = [*own_points(), *(point for name in TABLES for point in published_points(data / name))]
    groups: dict[tuple[str, str, str | None], list[Point]] = defaultdict(list)
    for point in points:
        groups[point.engine, point.platform, point.kind if point.platform == "openvino" else None].append(point)
    errors: list[_Error] = []
    for key, members in groups.items():
        for device in sorted({point.device for point in members if is_consumer(point.device)}):
            rest = [point for point in members if point.device != device]
            efficiency = fitted_engine(key, rest)
            if efficiency is not None:
                errors += _errors(efficiency, [point for point in members if point.device == device])
    return _document(errors)


def _errors(efficiency: Efficiency, asked: Sequence[Point]) -> list[_Error]:
    errors: list[_Error] = []
    for phase, shares in (("decode", efficiency.decode_devices), ("prefill", efficiency.prefill_devices)):
        process = DeviceShares.fit(shares, efficiency.platform)
        for point in asked:
            if point.phase == phase and shares:
                seconds = point.at(predicted(process, shares, point), efficiency.launch_s)
                errors.append(_Error(point, math.log(point.seconds / seconds)))
    return errors


def _document(errors: Sequence[_Error]) -> dict[str, Any]:
    """Return the scores. Intervals are as wide as what is off on the other devices, each of which counts once."""
    off = np.array([item.error for item in errors])
    seconds = np.array([item.point.seconds for item in errors])
    devices = np.array([item.point.device for item in errors], dtype=str)
    engines = np.array([f"{item.point.engine} {item.point.phase}" for item in errors], dtype=str)
    blocks = np.char.add(devices, engines)
    widths = {nominal: np.empty(len(off)) for nominal in NOMINALS}
    for device in np.unique(devices):
        here = devices == device
        for nominal in NOMINALS:
            widths[nominal][here] = width(off[~here], nominal, devices[~here].tolist())

    def scored(chosen: NDArray[np.bool_]) -> dict[str, Any]:
        own = {nominal: each[chosen] for nominal, each in widths.items()}
        return score(off[chosen], seconds[chosen], own, "latency", blocks[chosen])

    return {
        "split": "hardware",
        "target": "latency",
        "shots": 0,
        "rows": len(errors),
        "groups": len(set(devices.tolist())),
        "overall": scored(np.ones(len(errors), dtype=bool)),
        "by_hardware": {name: scored(devices == name) for name in np.unique(devices).tolist()},
        "by_family": {name: scored(engines == name) for name in np.unique(engines).tolist()},
        "route": "usual shares of engines",
        "method": "devices most like it",
    }


LINES: dict[str, KernelLine] = {
    "consumer-llm-0": KernelLine(
        title="language models on consumer devices, device left out, no measurement, median",
        bar=0.15,
        reach=0.12,
        run=consumer,
        figure="median_ape",
    ),
}
