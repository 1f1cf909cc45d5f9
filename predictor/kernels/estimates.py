"""Estimates of the standard kernels on a device, with intervals from devices left out or from kernels of the device itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import NormalDist, fmean
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.catalogues import hardware
from domain.catalogues.hardware import HardwareSpec
from domain.kernels import SIZES
from domain.performance.roofline import Limits
from domain.performance.standard_kernels import STANDARD_KERNELS, StandardKernel
from domain.vocabulary import arithmetic_precision
from predictor.features.table import Array
from predictor.kernels.columns import CLASSES, MOVING, PRODUCT, Columns, device_columns
from predictor.kernels.correction import Corrected
from predictor.kernels.fitting import FittedClass
from predictor.kernels.kept import Kernels, chip_of
from predictor.kernels.profile import DeviceProfile, profiles_of, under
from predictor.kernels.rows import KernelRows, class_of, kernel_rows_of_view
from predictor.learning.training import Trees

__all__ = ["INTERVAL", "Estimates", "KernelTime", "corrected_by", "estimates_of", "left_out_width", "on_limits"]

INTERVAL = 0.8
SHOTS = 300
"""Kernels of a device that correct a class at the most."""
FEWEST = 5
"""Fewer own kernels of a class do not correct it."""
ARITHMETIC = StandardKernel(id="arithmetic", operator="gemm", sizes={"m": 8192, "n": 8192, "k": 8192})
"""What says how much arithmetic a device reaches, by its own kernels."""
TRAFFIC = {
    MOVING: StandardKernel(
        id="traffic", operator="elementwise", name="add", sizes={"rows": 16384, "row_size": 16384, "inputs": 2}
    ),
    PRODUCT: StandardKernel(id="traffic", operator="gemm", sizes={"m": 1, "n": 16384, "k": 16384}),
}
"""What says how much bandwidth it reaches, by the class that was timed; what only moves memory says it best."""
FEWEST_CHIPS = 4
"""Errors on fewer chips say nothing of an 80 % interval for the next one."""
LAUNCH = "graph"
"""How kernels are taken to be launched where none of the device says it, as the sum of a model's kernels takes it; a class
that was never timed so is taken as it was."""


class KernelTime(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated seconds of a standard kernel; `low` and `high` are None where nothing supports an interval."""

    kernel: StandardKernel
    launch: str
    seconds: float
    low: float | None
    high: float | None
    basis: str


class Estimates(msgspec.Struct, frozen=True, kw_only=True):
    """Estimates of the standard kernels, the profile of the device's own kernels, and what the intervals rest on.

    `limiting` are estimates of ARITHMETIC and TRAFFIC by the device's own kernels, where there are enough.
    """

    times: tuple[KernelTime, ...]
    limiting: tuple[KernelTime, ...]
    profile: DeviceProfile | None
    notes: tuple[str, ...]


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """The device, platform and precision that kernels are estimated for."""

    spec: HardwareSpec
    platform: str
    precision: str
    limits: Limits


def estimates_of(
    rows: Sequence[Mapping[str, Any]],
    spec: HardwareSpec,
    limits: Limits,
    platform: str,
    precision: str,
    kernels: Kernels,
    trees: Mapping[str, Trees],
) -> Estimates:
    """Return estimates of the standard kernels; `rows` of the view `kernels` are the device's own, of this platform and precision."""
    place = _Place(spec=spec, platform=platform, precision=precision, limits=limits)
    own = {
        name: _distinct(part)
        for name, part in kernel_rows_of_view(rows, lambda _: spec).items()
        if name in kernels.parameters
    }
    arithmetic = arithmetic_precision(precision)
    profile = profiles_of({arithmetic: own}, kernels.parameters).get(arithmetic)
    times: dict[str, KernelTime] = {}
    limiting: dict[str, KernelTime] = {}
    notes: dict[str, list[str]] = {}
    for name in CLASSES:
        if name not in kernels.parameters:
            continue
        part = own.get(name)
        fitted = FittedClass.kept(name, kernels.parameters[name], trees)
        if part is None or len(part) < FEWEST or profile is None:
            launch = _learned_launch(fitted.parameters.floors_us)
            made, note = _from_others(fitted, _columns(STANDARD_KERNELS, name, place, launch), place, kernels)
        else:
            launch = str(part.columns.regime[0]).split()[0]
            model = _OwnKernels(fitted, part, place, profile)
            made, note = model.times(_columns(STANDARD_KERNELS, name, place, launch)), model.note
            ends = [ARITHMETIC, TRAFFIC[PRODUCT]] if name == PRODUCT else [TRAFFIC[name]] if name in TRAFFIC else []
            limiting |= {item.kernel.id: item for item in model.times(_columns(ends, name, place, launch))}
        times |= {item.kernel.id: msgspec.structs.replace(item, launch=launch) for item in made}
        notes.setdefault(note, []).append(name)
    return Estimates(
        times=tuple(times[kernel.id] for kernel in STANDARD_KERNELS if kernel.id in times),
        limiting=tuple(limiting.values()),
        profile=profile,
        notes=tuple(f"{', '.join(names)}: {note}" for note, names in notes.items()),
    )


def _learned_launch(floors_us: Mapping[str, float]) -> str:
    """Return how kernels of a class are taken to be launched: LAUNCH, or what the class was timed with."""
    return LAUNCH if LAUNCH in floors_us else max(floors_us, key=floors_us.__getitem__)


def _columns(
    kernels: Sequence[StandardKernel], class_name: str, place: _Place, launch: str
) -> list[tuple[StandardKernel, Columns]]:
    """Return those kernels that are of a class, each with its columns on the device."""
    return [
        (kernel, rows[class_name].columns)
        for kernel in kernels
        if class_of(kernel.operator) == class_name
        and (rows := kernel_rows_of_view([_row(kernel, place, launch)], lambda _: place.spec))
    ]


def _row(kernel: StandardKernel, place: _Place, launch: str) -> dict[str, Any]:
    types = ("published", "weights", "activations", "arithmetic", "kv_cache")
    sizes = SIZES[kernel.operator]
    return {
        "hardware_id": place.spec.id,
        "platform": place.platform,
        "runtime_name": None,
        "precision": place.precision,
        "operator": kernel.operator,
        "name": kernel.name,
        "phase": kernel.phase,
        "launch": launch,
        "verdict": None,
        "latency_ms": 1.0,
        **{f"type_{name}": None for name in types},
        **{name: kernel.sizes.get(name) for name in (*sizes.needed, *sizes.optional)},
    }


def _distinct(rows: KernelRows) -> KernelRows:
    """Return kernels of the regime that most have, those of the same sizes as one of their median time."""
    regimes, counts = np.unique(rows.columns.regime, return_counts=True)
    rows = rows.take(rows.columns.regime == regimes[np.argmax(counts)])
    _, first, group = np.unique(_stacked(rows.columns), axis=0, return_index=True, return_inverse=True)
    times = np.array([np.median(rows.seconds[group.ravel() == index]) for index in range(len(first))])
    return msgspec.structs.replace(rows.take(first), seconds=times)


def _stacked(columns: Columns) -> Array:
    return np.column_stack([columns.sizes[name] for name in sorted(columns.sizes)])


def _from_others(
    fitted: FittedClass, standard: Sequence[tuple[StandardKernel, Columns]], place: _Place, kernels: Kernels
) -> tuple[list[KernelTime], str]:
    """Estimate by what kernels of other devices teach, with the errors on devices that were left out."""
    chips = _alike(kernels, fitted.name, place)
    width = left_out_width(chips.values()) if len(chips) >= FEWEST_CHIPS else None
    basis = "roofline" if width is None else "predicted"
    times = [_time(kernel, float(fitted.seconds(columns)[0]), width, basis) for kernel, columns in standard]
    if width is None:
        kind = f"{place.spec.kind or 'such'} chips under {place.platform}"
        return times, f"no interval, because fewer than {FEWEST_CHIPS} {kind} were left out of training."
    return (
        times,
        f"80 % interval ÷× {math.exp(width):.2f}, from {len(chips)} chips left out of training.",
    )


def _alike(kernels: Kernels, name: str, place: _Place) -> dict[str, list[Mapping[str, float]]]:
    """Return the errors on devices left out of a class, of the same kind and under the same platform, by chip."""
    platforms = {(device, software.split()[0]) for device, software in kernels.places}
    chips: dict[str, list[Mapping[str, float]]] = {}
    for device, scores in kernels.scores.get(name, {}).items():
        spec = hardware.find(device)
        if (device, place.platform) in platforms and spec is not None and spec.kind == place.spec.kind:
            chips.setdefault(chip_of(device), []).append(scores)
    return chips


def left_out_width(chips: Collection[Sequence[Mapping[str, float]]], share: float = INTERVAL) -> float:
    """Return the half-width, in log units, that holds a share of the kernels of a chip like those left out.

    Each chip counts once, whatever its devices. Errors of a device are taken to be log-normal with the median and the mean that
    the card keeps, and the share is that of one more chip, so that few chips give a wider interval.
    """
    errors = [[_spread(scores) for scores in devices] for devices in chips]
    share = min(share * (len(errors) + 1) / len(errors), 0.99)
    normal = NormalDist()

    def held(log_width: float) -> float:
        each = [fmean(normal.cdf((log_width - middle) / spread) for middle, spread in devices) for devices in errors]
        return fmean(each)

    low, high = math.log(1e-3), math.log(10.0)
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if held(middle) < share else (low, middle)
    return math.exp(high)


def _spread(scores: Mapping[str, float]) -> tuple[float, float]:
    """Return the median and the spread of the log of a device's absolute log errors."""
    # The card's errors are relative to the measurement: a bias above 0 means that estimates are too short, by less than all of it.
    side, most = (-1.0, 0.95) if scores["bias"] > 0 else (1.0, math.inf)
    middle, mean = (abs(math.log1p(side * min(max(scores[name], 1e-3), most))) for name in ("median_ape", "mape"))
    return math.log(middle), math.sqrt(2.0 * math.log(max(mean / middle, 1.05)))


class _OwnKernels:
    """A class of kernels as the device's own correct it."""

    def __init__(self, fitted: FittedClass, own: KernelRows, place: _Place, profile: DeviceProfile) -> None:
        standard = [
            _match(_stacked(own.columns), columns)
            for _, columns in _columns(STANDARD_KERNELS, fitted.name, place, str(own.columns.regime[0]).split()[0])
        ]
        shots = own.take(_chosen(len(own), [index for index in standard if index is not None]))
        self._corrected, self._limits = corrected_by(fitted, shots, place.limits, profile)
        self._stacked = _stacked(shots.columns)
        self._reach = self._corrected.reach(INTERVAL)
        self._blind = self._corrected.left_out()
        widening = self._reach / NormalDist().inv_cdf((1.0 + INTERVAL) / 2)
        more = f" (× {widening:.1f})" if widening > 1.05 else ""
        held = f"80 % intervals are as wide as these kernels need when each is left out{more}"
        self.note = f"corrected by {len(shots)} kernels of this device; {held}."

    def times(self, kernels: Sequence[tuple[StandardKernel, Columns]]) -> list[KernelTime]:
        """Return estimates; one that was measured itself is what the others say of it."""
        times: list[KernelTime] = []
        for kernel, columns in kernels:
            index = _match(self._stacked, columns)
            if index is None:
                here = on_limits(columns, self._limits)
                seconds, spread = self._corrected.seconds(here)[0], self._corrected.spread(here)[0]
            else:
                seconds, spread = (values[index] for values in self._blind)
            width = self._reach * float(spread)
            times.append(_time(kernel, float(seconds), width, "calibrated"))
        return times


def corrected_by(
    fitted: FittedClass, shots: KernelRows, limits: Limits, profile: DeviceProfile
) -> tuple[Corrected, Limits]:
    """Return a class as a device's own kernels correct it, from its figures or from its profile, and the limits that it takes.

    Whichever says each kernel better when it is left out: figures mostly do where devices of the kind taught, the profile elsewhere.
    """
    floors = dict.fromkeys(fitted.parameters.floors_us, profile.floor_us)
    profiled = msgspec.structs.replace(fitted, parameters=msgspec.structs.replace(fitted.parameters, floors_us=floors))
    options = [
        (Corrected(option, on_limits(shots.columns, its), shots.seconds), its)
        for option, its in ((fitted, limits), (profiled, under(limits, profile)))
    ]
    return min(options, key=lambda option: float(np.abs(np.log(option[0].left_out()[0] / shots.seconds)).mean()))


def on_limits(columns: Columns, limits: Limits) -> Columns:
    """Return the same kernels on a device of these limits."""
    return msgspec.structs.replace(columns, device=device_columns([limits] * len(columns)))


def _match(stacked: Array, columns: Columns) -> int | None:
    same = np.flatnonzero(np.all(stacked == _stacked(columns), axis=1))
    return int(same[0]) if len(same) else None


def _chosen(count: int, first: Sequence[int]) -> NDArray[np.intp]:
    """Return at most SHOTS indexes, these first and others at random but always alike, in order."""
    if count <= SHOTS:
        return np.arange(count)
    others = np.setdiff1d(np.random.default_rng(0).permutation(count)[:SHOTS], first, assume_unique=False)
    return np.sort(np.concatenate([np.array(sorted(set(first)), dtype=np.intp), others[: SHOTS - len(set(first))]]))


def _time(kernel: StandardKernel, seconds: float, width: float | None, basis: str) -> KernelTime:
    return KernelTime(
        kernel=kernel,
        launch="",
        seconds=seconds,
        low=None if width is None else seconds * math.exp(-width),
        high=None if width is None else seconds * math.exp(width),
        basis=basis,
    )
