"""How fast devices are beside each other."""

import math

import pytest

from domain.catalogues import hardware
from predictor.choosing.strength import Speed, facts_of, strengths

ROWS = [
    Speed("resnet", "old", 10.0), Speed("resnet", "new", 40.0),
    Speed("bert", "old", 1.0), Speed("bert", "new", 4.0), Speed("bert", "third", 2.0),
]  # fmt: skip


def test_devices_stand_in_the_order_of_what_other_work_showed() -> None:
    found = strengths(ROWS, {}, ["new", "old", "third"])
    assert found["old"] < found["third"] < found["new"]
    assert found["new"] - found["old"] == pytest.approx(math.log(4), rel=0.4)


def test_how_fast_a_work_is_says_nothing_of_its_devices() -> None:
    slower = [Speed(row.work, row.device, row.per_s / (1000 if row.work == "bert" else 1)) for row in ROWS]
    one, other = strengths(ROWS, {}, ["new", "old"]), strengths(slower, {}, ["new", "old"])
    assert other["new"] - other["old"] == pytest.approx(one["new"] - one["old"], rel=1e-3)


def test_a_device_that_nobody_measured_is_placed_by_its_facts_and_one_without_either_is_not() -> None:
    facts = {"old": (1.0, 1.0), "new": (2.5, 2.5), "third": (1.7, 1.7), "unseen": (4.0, 4.0)}
    found = strengths(ROWS, facts, ["unseen", "new", "nothing"])
    assert found["unseen"] > found["new"]
    assert math.isnan(found["nothing"])


def test_facts_are_the_highest_peak_and_the_bandwidth() -> None:
    known = facts_of(hardware.find("nvidia-h100-sxm"))
    assert known is not None
    assert known[0] > math.log(1e15)
    assert facts_of(None) is None
