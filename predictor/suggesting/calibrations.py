"""Which devices are worth a calibration first: own ones without a kernel in the log, and what it takes from the error there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from domain.answers import SuggestedCalibration
from ingest.projection import Tables
from predictor.artifact.artifact import Predictor
from predictor.general.kept import General
from predictor.general.method import GENERAL
from predictor.suggesting.questions import Configuration

__all__ = ["CALIBRATION_S", "calibrated", "calibrations", "share_left"]

CALIBRATION_S = 120.0
"""What a calibration of one platform takes at the most."""
KERNELS_LEAVE = 0.67
"""What 20 kernels of a chip leave of the error of its kernels: 14.3 % to 9.6 % (`python -m benchmarks.kernel_lines`, gemm)."""
_NOMINAL = "0.8"
_PAIRS = (("hardware", "architecture"), ("hardware_family", "family"))
_CALIBRATED = "SELECT DISTINCT hardware_id, platform FROM kernel_tables WHERE verdict IS DISTINCT FROM 'invalid'"

Place = tuple[str, str]


def calibrations(
    tables: Tables, configurations: Sequence[Configuration], predictor: Predictor, budget_s: float
) -> list[SuggestedCalibration]:
    """Return the calibrations that fit the budget, the one of most open answers first.

    Only answers of the general route rest on kernels. A device with kernels in the log, measured or imported, needs none.
    """
    general = predictor.card.general
    if general is None:
        return []
    existing = {
        (row["hardware_id"], row["platform"]) for row in tables.select("kernel_tables", _CALIBRATED).to_pylist()
    }
    places: dict[Place, list[Configuration]] = {}
    for item in configurations:
        place = (item.hardware, item.platform)
        if item.own and item.spread is not None and item.method == GENERAL and place not in existing:
            places.setdefault(place, []).append(item)
    order = sorted(places.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    left = share_left(general)
    return [_calibration(place, items, left) for place, items in order[: int(budget_s // CALIBRATION_S)]]


def share_left(general: General) -> float:
    """Return what a calibration leaves of the spread of predictions on a chip that did not train.

    Variances add up: that of a chip that trained stays, and of what a new chip adds to it the kernels leave their share.
    """
    widths = {name: general.reach(name, float(_NOMINAL)) for pair in _PAIRS for name in pair}
    shares = [
        math.sqrt(near**2 + KERNELS_LEAVE**2 * max(far**2 - near**2, 0.0)) / far
        for far, near in ((widths[new], widths[old]) for new, old in _PAIRS)
        if far and near
    ]
    return min(1.0, sum(shares) / len(shares)) if shares else 1.0


def calibrated(
    configurations: Sequence[Configuration], chosen: Sequence[SuggestedCalibration], general: General | None
) -> list[Configuration]:
    """Return the configurations with the spreads that they are expected to have after the calibrations."""
    if general is None or not chosen:
        return list(configurations)
    places, left = {(item.hardware, item.platform) for item in chosen}, share_left(general)
    return [
        msgspec.structs.replace(item, spread=item.spread * left)
        if item.spread is not None and item.method == GENERAL and (item.hardware, item.platform) in places
        else item
        for item in configurations
    ]


def _calibration(place: Place, items: Sequence[Configuration], left: float) -> SuggestedCalibration:
    hardware, platform = place
    spread = math.sqrt(sum((item.spread or 0.0) ** 2 for item in items) / len(items))
    answers = f"{len(items)} open answers rest" if len(items) > 1 else "1 open answer rests"
    return SuggestedCalibration(
        hardware=hardware,
        platform=platform,
        seconds=CALIBRATION_S,
        command=f"assay calibrate --platform {platform}",
        answers=len(items),
        error_before=_error(spread),
        error_after=_error(spread * left),
        why=f"no kernel of this device under {platform} was measured, and {answers} on them: it corrects all of them at once",
    )


def _error(spread: float) -> float:
    return float(f"{math.expm1(spread):.3g}")
