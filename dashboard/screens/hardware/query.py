"""What the Hardware page asks: a list, one device, its roofline, and what was tried on it."""

from __future__ import annotations

from typing import Any

from dashboard.downloads import table_files
from dashboard.frame import Download
from dashboard.service import KEPT, checked, client, decoded, kept
from domain.answers.device import HardwareCoverage, HardwareEntry, HardwareProfile, Roofline, RooflinePoint
from domain.answers.kernels import DeviceKernels

__all__ = ["compared", "coverage", "kernels", "listed", "listed_files", "points_files", "profile", "roofline"]

DRAWN = list(RooflinePoint.__struct_fields__)
"""What the picture and the tables say of a point."""
MOST_CONFIGURATIONS = 100


@kept(max_entries=KEPT)
def listed(position: int, limit: int, **filters: str | bool | None) -> list[HardwareEntry]:
    """Return at most `limit` hardware at a position, what was measured most first; with `search` the best match first."""
    rows = client().hardware(as_of=position, limit=limit, sort="measurements", **filters)
    return [decoded(row, HardwareEntry) for row in rows]


def listed_files(name: str, position: int, limit: int, **filters: str | bool | None) -> list[Download]:
    """Offer the same list with every member that the service sends, which is asked for when a file is."""
    item = client()
    return table_files(
        name, lambda: item.hardware(as_of=position, limit=limit, sort="measurements", **filters), as_of=position
    )


@kept(max_entries=KEPT)
def profile(name: str, position: int) -> HardwareProfile:
    """Return what is known of a hardware, by any of its names, without the rows of what ran on it."""
    answer = client().one_hardware(name, as_of=position, compatibility=False)
    return decoded(checked(dict(answer), "hardware")["hardware"], HardwareProfile)


@kept(max_entries=KEPT)
def compared(name: str, position: int) -> list[dict[str, Any]]:
    """Return the best configurations on a hardware, the best of each model first; of training where there is nothing else."""
    question = {"metric": "throughput_per_s", "limit": MOST_CONFIGURATIONS, "as_of": position}
    answer = client().compare_models(name, mode="inference", **question)
    if not answer["rows"]:
        answer = client().compare_models(name, **question)
    return list(checked(dict(answer), "rows")["rows"])


@kept(max_entries=KEPT)
def roofline(name: str, position: int, **filters: str | None) -> Roofline:
    """Return a hardware's roofs and the measured points under them, of each point what is drawn."""
    answer = client().roofline(name, as_of=position, members=DRAWN, **filters)
    return decoded(checked(dict(answer), "points", "roofs", "above"), Roofline)


def points_files(name: str, hardware: str, position: int, **filters: str | None) -> list[Download]:
    """Offer the same points with everything that is known of each, which is asked for when a file is."""
    item = client()
    return table_files(name, lambda: item.roofline(hardware, as_of=position, **filters)["points"], as_of=position)


@kept(max_entries=KEPT)
def kernels(
    name: str, position: int, platform: str | None = None, precision: str | None = None, operator: str | None = None
) -> DeviceKernels:
    """Return a hardware's kernels under its roofs and the estimates of the standard ones, of one platform and precision."""
    return client().device_kernels(name, as_of=position, platform=platform, precision=precision, operator=operator)


@kept(max_entries=KEPT)
def coverage(name: str, position: int) -> HardwareCoverage:
    """Return what was tried on a hardware by family, the best of each category, and what stands beside it."""
    answer = checked(dict(client().tried(name, as_of=position)), "items", "best", "siblings")
    return decoded(answer, HardwareCoverage)
