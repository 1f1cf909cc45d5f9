from __future__ import annotations

from typing import Any

import pytest

from domain.performance.roofline import Limits, roofline
from domain.performance.time_breakdown import breakdown

LIMITS = Limits(peak_flops=1e12, bandwidth_bytes_per_s=1e11, launch_s=1e-6, activation_bytes=2.0, weight_bytes=2.0)


def row(name: str, kind: str, **figures: float) -> dict[str, Any]:
    empty = {"count": 1, "flops": 0.0, "read_elements": 0, "write_elements": 0, "weight_elements": 0}
    return {"name": name, "class": kind, **empty, **figures}


ROWS = [
    row("aten.addmm", "mm", count=2, flops=2e9, read_elements=1e6, write_elements=1e6, weight_elements=1e6),
    row("aten.addmm", "mm", count=1, flops=1e9, read_elements=1e6, write_elements=1e6, weight_elements=1e6),
    row("aten.gelu", "elementwise", count=3, read_elements=1e6, write_elements=1e6),
    row("aten.copy", "copy", count=50, read_elements=10, write_elements=10),
]


def test_calls_of_one_operator_are_one_part_and_all_parts_are_the_floor() -> None:
    parts = breakdown(ROWS, LIMITS, batch_size=4)
    assert [(part.name, part.calls) for part in parts] == [("aten.addmm", 3), ("aten.gelu", 3), ("aten.copy", 50)]
    floor = roofline(ROWS, LIMITS, batch_size=4)
    assert sum(part.ms or 0 for part in parts) == pytest.approx(floor.latency_ms)
    assert sum(part.share or 0 for part in parts) == pytest.approx(1.0)
    assert parts[0].ms == pytest.approx(floor.by_class_ms["mm"])
    assert [part.bound for part in parts] == ["compute", "memory", "launch"]
    assert parts[0].flops_share == 1.0


def test_training_from_a_forward_pass_counts_it_three_times() -> None:
    once, thrice = (breakdown(ROWS, LIMITS, batch_size=1, passes=passes) for passes in (1.0, 3.0))
    assert [part.ms for part in thrice] == pytest.approx([3 * (part.ms or 0) for part in once])


def test_what_is_beyond_the_longest_is_one_part() -> None:
    parts = breakdown(ROWS, LIMITS, batch_size=4, most=1)
    assert [(part.name, part.operators, part.calls) for part in parts] == [("aten.addmm", 1, 3), ("rest", 2, 53)]
    assert sum(part.share or 0 for part in parts) == pytest.approx(1.0)


def test_without_a_device_nothing_is_timed_and_the_work_is_told() -> None:
    parts = breakdown(ROWS, None, batch_size=1)
    assert all((part.ms, part.share, part.bound) == (None, None, None) for part in parts)
    assert sum(part.bytes_share or 0 for part in parts) == pytest.approx(1.0)
    assert parts[0].bytes == pytest.approx((3 * 2e6 + 3 * 1e6) * 4)
