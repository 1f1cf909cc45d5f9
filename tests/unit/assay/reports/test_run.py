from __future__ import annotations

from typing import Any

import pytest

from presentation.reports.run import change_of


@pytest.mark.parametrize(
    ("after", "before", "change"),
    [(5.0, 10.0, "faster"), (10.0, 5.0, "slower"), (10.0, 10.1, "alike")],
)
def test_a_change_is_one_only_where_the_intervals_do_not_meet(
    row: Any, after: float, before: float, change: str
) -> None:
    assert change_of(row(after), row(before))["change"] == change


def test_without_an_interval_a_change_is_unclear_and_keeps_its_ratio(row: Any) -> None:
    bare = row(5.0, latency_p50_ci95_low_ms=None, latency_p50_ci95_high_ms=None)
    assert change_of(bare, row(10.0)) == {"change": "unclear", "factor": 2.0, "factor_low": None, "factor_high": None}


def test_what_nobody_knew_is_new_and_what_cannot_be_trusted_is_not_compared(row: Any) -> None:
    assert change_of(row(), None)["change"] == "new"
    assert change_of(row(origin="simulated"), row())["change"] == "not compared"
    assert change_of(row(verdict="invalid"), row())["change"] == "not compared"
