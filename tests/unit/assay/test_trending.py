from __future__ import annotations

from assay.cli.ask.trending import sparkline


def test_blocks_rise_from_the_smallest_to_the_largest_value() -> None:
    assert sparkline([1.0, 2.0, 8.0, 1.0]) == "▁▂█▁"


def test_values_that_are_alike_stand_in_the_middle() -> None:
    assert sparkline([3.0, 3.0]) == "▄▄"
