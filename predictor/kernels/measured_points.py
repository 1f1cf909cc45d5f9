"""Measured kernels of a device in the log as points under its roof, and what was measured of the standard kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from domain.answers.kernels import KernelPoint
from domain.kernels import SIZES
from domain.payloads import KernelTypes
from domain.performance.achieved_roofline import Work, grid, point_of
from domain.performance.kernel_work import direct_work
from domain.performance.roofline import Limits
from domain.performance.standard_kernels import STANDARD_KERNELS, StandardKernel
from ingest.projection import Tables

__all__ = ["Placed", "placed", "sampled", "standard_of", "thinned", "types_of"]

EACH = 800
"""Timings of an operator and a phase that are looked at, chosen at random but always alike; standard kernels besides."""
_ALIKE = {"kv_heads": "heads", "window_size": "0", "cached_tokens": "0", "stride": "1", "padding": "0", "groups": "1"}
"""What an absent size stands for, by its name, as SQL."""
_NAMED = ("elementwise",)
"""Operators that are other work under another name."""
_IN_PHASES = ("attention",)
_TYPES = ("published", "weights", "activations", "arithmetic", "kv_cache")


class Placed(NamedTuple):
    """Points, those with the largest share of their roof first, and how many timings have no place for which reason."""

    points: list[KernelPoint]
    left_out: dict[str, int]


def sampled(tables: Tables, hardware: str, platform: str, precision: str) -> list[dict[str, Any]]:
    """Return rows of the view `kernels` of one such device: at most EACH of an operator and phase, and all of standard kernels."""
    standard = " OR ".join(_condition(kernel) for kernel in STANDARD_KERNELS)
    # A window over all columns of a hundred thousand rows takes seconds; over those that decide it does not.
    statement = f"""
    SELECT * FROM kernels WHERE hardware_id = ? AND platform = ? AND precision = ? AND timing_id IN (
        SELECT timing_id FROM kernels
        WHERE hardware_id = ? AND platform = ? AND precision = ? AND coalesce(hardware_count, 1) = 1
        QUALIFY row_number() OVER (PARTITION BY operator, phase ORDER BY hash(timing_id)) <= {EACH}
            OR (verdict IS DISTINCT FROM 'invalid' AND ({standard}))
    )
    ORDER BY timing_id
    """
    rows: list[dict[str, Any]] = tables.select(
        "kernels kernel_tables", statement, [hardware, platform, precision] * 2
    ).to_pylist()
    return rows


def _condition(kernel: StandardKernel) -> str:
    sizes = SIZES[kernel.operator]
    parts = [f"operator = '{kernel.operator}'"]
    for name in (*sizes.needed, *sizes.optional):
        value = kernel.sizes.get(name)
        if name in _ALIKE:
            parts.append(f"coalesce(nullif({name}, 0), {_ALIKE[name]}) = {_ALIKE[name] if value is None else value}")
        elif value is not None:
            parts.append(f"{name} = {value}")
    if kernel.operator in _NAMED:
        parts.append(f"lower(name) = '{kernel.name}'")
    if kernel.operator in _IN_PHASES:
        parts.append(f"phase = '{kernel.phase}'")
    else:
        parts.append("coalesce(phase, 'forward') = 'forward'")
    return f"({' AND '.join(parts)})"


def standard_of(row: Mapping[str, Any]) -> str | None:
    """Return the id of the standard kernel that a row of `kernels` timed, None for any other."""
    return _STANDARD.get(_key(row["operator"], row["name"], row["phase"], row))


def _key(operator: str, name: str | None, phase: str | None, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    usual = {
        "kv_heads": sizes.get("heads"),
        "window_size": 0,
        "cached_tokens": 0,
        "stride": 1,
        "padding": 0,
        "groups": 1,
    }
    members = SIZES[operator]
    return (
        operator,
        (name or "").lower() if operator in _NAMED else "",
        phase if operator in _IN_PHASES else phase or "forward",
        *(sizes.get(size) or usual.get(size) for size in (*members.needed, *members.optional)),
    )


_STANDARD = {_key(kernel.operator, kernel.name, kernel.phase, kernel.sizes): kernel.id for kernel in STANDARD_KERNELS}


def types_of(row: Mapping[str, Any], precision: str) -> KernelTypes:
    """Return the number types of a row; what it does not say is of the precision."""
    said = {name: row.get(f"type_{name}") for name in _TYPES}
    activations = said["activations"] or precision
    return KernelTypes(
        published=said["published"],
        weights=said["weights"] or activations,
        activations=activations,
        arithmetic=said["arithmetic"] or activations,
        kv_cache=said["kv_cache"],
    )


def placed(rows: Sequence[Mapping[str, Any]], precision: str, limits: Limits | None) -> Placed:
    """Return the points of rows under the limits of their precision."""
    left_out: Counter[str] = Counter()
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        reason = "invalid" if row["verdict"] == "invalid" else None if limits else "peak or bandwidth not known"
        if reason:
            left_out[reason] += 1
        else:
            key = (row["operator"], row["phase"], *(row.get(f"type_{name}") for name in _TYPES))
            groups.setdefault(key, []).append(row)
    points: list[KernelPoint] = []
    for group in groups.values():
        if limits is not None:
            points += _points(group, precision, limits, left_out)
    points.sort(key=lambda point: (-point.share, point.event_id, point.row))
    return Placed(points, dict(left_out.most_common()))


def _points(
    rows: Sequence[Mapping[str, Any]], precision: str, limits: Limits, left_out: Counter[str]
) -> list[KernelPoint]:
    first = rows[0]
    operator, phase = first["operator"], first["phase"]
    members = SIZES[operator]
    sizes = {
        name: np.array([row[name] for row in rows], dtype=np.float64)
        for name in (*members.needed, *members.optional)
        if all(row[name] is not None for row in rows)
    }
    partial = {
        name: np.array([row[name] or 0 for row in rows], dtype=np.float64)
        for name in members.optional
        if name not in sizes and any(row[name] is not None for row in rows)
    }
    work = direct_work(operator, {**sizes, **partial}, types_of(first, precision), phase=phase)
    if work is None:
        left_out[f"{operator}: no count of its work"] += len(rows)
        return []
    flops, moved = (np.broadcast_to(np.asarray(part, dtype=np.float64), len(rows)) for part in work)
    points: list[KernelPoint] = []
    for row, operations, traffic in zip(rows, flops.tolist(), moved.tolist(), strict=True):
        if operations <= 0 or traffic <= 0:
            left_out["no work at these sizes"] += 1
            continue
        point = point_of(Work(operations, traffic), limits, row["latency_ms"])
        points.append(
            KernelPoint(
                operator=operator,
                name=row["name"],
                phase=phase,
                sizes={name: row[name] for name in (*members.needed, *members.optional) if row[name] is not None},
                runtime=row["runtime_name"],
                flops=operations,
                bytes=traffic,
                flop_per_byte=point.intensity,
                latency_ms=row["latency_ms"],
                flops_per_s=point.flops_per_s,
                bytes_per_s=traffic / (row["latency_ms"] / 1e3),
                roof_flops_per_s=point.roof_flops_per_s,
                share=point.share,
                over=point.over,
                basis="measured" if row["origin"] == "measured" else "imported",
                origin=row["origin"],
                verdict=row["verdict"],
                reason=row["reason"],
                event_id=str(row["event_id"]),
                row=row["row"],
            )
        )
    return points


def thinned(points: Sequence[KernelPoint], most: int) -> tuple[KernelPoint, ...]:
    """Return at most about `most` points: of those that would lie on each other the one nearest to its roof, for all of them."""
    groups = grid([(point.flop_per_byte, point.flops_per_s, point.operator) for point in points], most)
    return tuple(msgspec.structs.replace(points[group[0]], stands_for=len(group)) for group in groups)
