"""What the time of a call goes into, operator by operator: on a device's roofline, or by work alone where no device is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Literal

import msgspec

from domain.performance.roofline import Limits

__all__ = ["OperatorTime", "breakdown"]

Bound = Literal["compute", "memory", "launch"]
_NEUTRAL_BYTES = 4.0
"""Of an element where no precision is asked for: fp32."""


class OperatorTime(msgspec.Struct, frozen=True, kw_only=True):
    """All calls of one operator in one call of the model.

    `flops` and `bytes` are those of all `calls`. `ms` is their floor on the device and `share` its part of the whole; where no
    device is known both of these and `bound` are None. `operators` counts the distinct ones that the part holds.
    """

    name: str
    kind: str
    calls: float
    flops: float
    bytes: float
    ms: float | None
    share: float | None
    flops_share: float | None
    bytes_share: float | None
    bound: Bound | None
    operators: int = 1


class _Sum:
    def __init__(self) -> None:
        self.calls = self.flops = self.bytes = 0.0
        self.names: set[tuple[str, str]] = set()
        self.seconds: dict[Bound, float] = {"compute": 0.0, "memory": 0.0, "launch": 0.0}

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())


def breakdown(
    operators: Iterable[Mapping[str, Any]],
    limits: Limits | None,
    *,
    batch_size: int,
    passes: float = 1.0,
    most: int = 10,
) -> list[OperatorTime]:
    """Return the operators of one call by name, the longest first; those beyond `most` are one last part, `rest`.

    `operators` are rows of `assay.model.traced.v1`. Without limits they come by their bytes, which most of them wait for.
    """
    sums: dict[tuple[str, str], _Sum] = {}
    for row in operators:
        name = (str(row["name"]), str(row["class"]))
        total = sums.setdefault(name, _Sum())
        total.names.add(name)
        _add(total, row, limits, batch_size, passes)
    ordered = sorted(sums.items(), key=lambda item: (-item[1].total_s, -item[1].bytes, item[0]))
    kept, beyond = ordered[:most], ordered[most:]
    if beyond:
        kept.append((("rest", "rest"), _joined(value for _, value in beyond)))
    whole = _joined(sums.values())
    return [_part(name, value, whole, is_known=limits is not None) for name, value in kept]


def _add(item: _Sum, row: Mapping[str, Any], limits: Limits | None, batch_size: int, passes: float) -> None:
    calls = float(row["count"]) * passes
    flops = float(row["flops"]) * batch_size
    elements = float(row["read_elements"] + row["write_elements"]) * batch_size
    activation, weight = (limits.activation_bytes, limits.weight_bytes) if limits else (_NEUTRAL_BYTES, _NEUTRAL_BYTES)
    traffic = elements * activation + float(row["weight_elements"]) * weight
    item.calls += calls
    item.flops += calls * flops
    item.bytes += calls * traffic
    if limits is None:
        return
    arithmetic_s, traffic_s = flops / limits.peak_flops, traffic / limits.bandwidth_bytes_per_s
    bound: Bound = "compute" if arithmetic_s > traffic_s else "memory"
    item.seconds[bound] += calls * max(arithmetic_s, traffic_s)
    item.seconds["launch"] += calls * limits.launch_s


def _joined(parts: Iterable[_Sum]) -> _Sum:
    whole = _Sum()
    for part in parts:
        whole.calls += part.calls
        whole.flops += part.flops
        whole.bytes += part.bytes
        whole.names |= part.names
        for bound, seconds in part.seconds.items():
            whole.seconds[bound] += seconds
    return whole


def _part(name: tuple[str, str], item: _Sum, whole: _Sum, *, is_known: bool) -> OperatorTime:
    return OperatorTime(
        name=name[0],
        kind=name[1],
        calls=item.calls,
        flops=item.flops,
        bytes=item.bytes,
        ms=item.total_s * 1e3 if is_known else None,
        share=_share(item.total_s, whole.total_s) if is_known else None,
        flops_share=_share(item.flops, whole.flops),
        bytes_share=_share(item.bytes, whole.bytes),
        bound=max(item.seconds.items(), key=itemgetter(1))[0] if is_known else None,
        operators=len(item.names),
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
