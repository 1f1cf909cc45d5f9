"""One operator of a trace and the list of them, as `assay.model.traced.v1` holds it, whatever traced it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from domain.canonical import digest

__all__ = ["Operator", "architecture_digest", "rows_of", "sums_of"]


class Operator(NamedTuple):
    """One kind of operator call; identical calls are counted, not repeated.

    `flops` is twice the multiply-accumulates of one call of a convolution, a matrix product or attention and 0
    elsewhere; the `*_elements` are the elements one call moves at batch 1, those that do not grow with the batch
    (weights and what is derived from them alone) apart as `weight_elements`. `inner` is the length summed over,
    `kernel` and `stride` the longest side of each.
    """

    name: str
    op_class: str
    flops: float
    read_elements: int
    write_elements: int
    weight_elements: int
    inner: int | None = None
    kernel: int | None = None
    stride: int | None = None
    groups: int | None = None

    def as_row(self, count: int) -> dict[str, Any]:
        """The row of `assay.model.traced.v1` for `count` such calls."""
        return {
            "name": self.name,
            "class": self.op_class,
            "count": count,
            "flops": self.flops,
            "read_elements": self.read_elements,
            "write_elements": self.write_elements,
            "weight_elements": self.weight_elements,
            "inner": self.inner,
            "kernel": self.kernel,
            "stride": self.stride,
            "groups": self.groups,
        }


def rows_of(counts: Mapping[Operator, int]) -> list[dict[str, Any]]:
    """Return a row for each operator, in the mapping's order."""
    return [operator.as_row(count) for operator, count in counts.items()]


def sums_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the totals that follow from the rows: FLOPs, elements and the number of calls."""
    keys = ("flops", "read_elements", "write_elements", "weight_elements")
    totals: dict[str, Any] = {key: sum(row[key] * row["count"] for row in rows) for key in keys}
    return {**totals, "operators": sum(row["count"] for row in rows)}


def architecture_digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the 64 hex digits that name an architecture: SHA-256 of its operator list at the default workload."""
    return digest(rows).removeprefix("sha256:")
