from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from dashboard.screens.predictor import words
from presentation import formatting


def score(**changes: Any) -> dict[str, Any]:
    found = {
        "rows": 100, "mape": 0.1, "median_ape": 0.05, "within_10": 0.7, "within_20": 0.9, "kendall_tau": 0.95,
        "coverage_80": 0.81, "coverage_90": 0.9, "width_80": 0.3,
    }  # fmt: skip
    return found | changes


def answer(split: str, shots: int = 0, target: str = "throughput", **changes: Any) -> dict[str, Any]:
    parts = {"by_hardware": {"a": score(mape=0.1), "b": score(mape=0.3)}, "by_family": {}}
    return {"split": split, "shots": shots, "target": target, "overall": score(), **parts, **changes}


def test_evaluations_stand_from_interpolation_to_the_furthest() -> None:
    given = {"hardware-10": answer("hardware", 10), "hardware-5": answer("hardware", 5), "random": answer("random")}
    assert list(words.in_order(given)) == ["random", "hardware-5", "hardware-10"]
    odd = words.in_order({"new": answer("moon"), "time": answer("time")})
    assert list(odd) == ["time", "new"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (answer("hardware", 10), "a device that never trained, 10 measurements a software configuration"),
        (answer("architecture", 10, "tpot"), "on known devices and software, 10 measurements, time per output token"),
        (answer("architecture", mode="training"), "on known devices and software, training"),
        (answer("moon"), "moon"),
    ],
)
def test_a_title_says_what_was_held_out_and_given(given: dict[str, Any], told: str) -> None:
    assert words.title(given).endswith(told)


def test_a_random_split_is_called_interpolation_and_no_interval_not_calibrated() -> None:
    assert words.sentence(answer("random")).startswith("Interpolation only: ")
    bare = answer("hardware", overall=score(coverage_80=None))
    assert words.sentence(bare).endswith("no interval is given: not calibrated")


def test_the_worst_groups_come_first_and_families_of_few_rows_are_left_out() -> None:
    families = {"x": score(mape=0.9, rows=3), "y": score(mape=0.2), "z": score(mape=0.5)}
    given = answer("family", by_family=families)
    assert [row["name"] for row in words.grouped(given, "family", 9)] == ["z", "y"]
    assert [row["name"] for row in words.grouped(given, "hardware", 1)] == ["b"]
    few = answer("family", by_family={"x": score(rows=3)})
    assert [row["name"] for row in words.grouped(few, "family", 9)] == ["x"]


def test_the_mean_over_devices_is_counted_where_it_was_not_told() -> None:
    assert words.macro_devices(answer("family")) == pytest.approx(0.2)
    assert words.macro_devices(answer("family", macro_hardware_mape=0.7)) == 0.7


def test_missing_is_a_dash_and_never_a_zero() -> None:
    columns = words.splits_table({"hardware-0": answer("hardware", overall=score(coverage_80=None, kendall_tau=None))})
    found = {column.head: (column.values[0], (column.shown or ["—"])[0]) for column in columns}
    assert found["80 % holds"] == found["τ"] == (None, "—")
    assert found["Tested on"][0] == "new device"


def test_the_first_line_says_what_to_expect_by_kind_of_device() -> None:
    known = {
        "nvidia-rtx-3090": score(mape=0.10, rows=300), "nvidia-rtx-4090": score(mape=0.20, rows=100),
        "intel-core-i7-12700h": score(mape=0.3, rows=50), "acme-one": score(mape=0.9, rows=900),
    }  # fmt: skip
    unseen = {"nvidia-rtx-3090": score(mape=0.4, rows=10)}
    given = {
        "architecture": answer("architecture"), "training": answer("family", mode="training"),
        "family": answer("family", by_hardware=known), "hardware-0": answer("hardware", by_hardware=unseen),
        "hardware-10": answer("hardware", 10, by_hardware=known),
    }  # fmt: skip
    assert formatting.plain(words.expected(given) or "") == "Expect ±12 % on known GPUs, ±30 % on known CPUs"
    assert formatting.plain(words.expected_elsewhere(given)) == (
        "Mean error on families of models that it never saw (100 measurements). On devices that it never saw: ±40 % on GPUs."
    )
    assert words.expected({"random": answer("random", by_hardware=known)}) is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (answer("hardware", 10), "new device, 10 measured"),
        (answer("architecture", mode="training"), "new architecture, training"),
        (answer("family", target="memory"), "new family, peak memory"),
        (answer("moon"), "moon"),
    ],
)
def test_a_short_title_says_what_was_held_out(given: dict[str, Any], told: str) -> None:
    assert words.short_title(given) == told


def test_a_width_that_nothing_supports_is_not_covered() -> None:
    columns = words.widths_table({"by_level": {"new_hardware": {"0.8": 0.4, "0.9": None}}, "rows": {"new_hardware": 7}})
    assert {column.head: (column.shown or column.values)[0] for column in columns} == {
        "Level": "new hardware", "Rows": 7, "80 % interval": "0.400 × difficulty", "90 % interval": "not covered",
    }  # fmt: skip
    assert words.widths_table({}) == []


def test_the_file_has_every_group_and_an_empty_cell_for_what_is_missing() -> None:
    given = {"hardware-0": answer("hardware", overall=score(coverage_80=None))}
    rows = list(csv.DictReader(io.StringIO(words.csv_file(given, 7, "sha256:ab").decode())))
    assert [(row["by"], row["group"]) for row in rows] == [("all", ""), ("hardware", "a"), ("hardware", "b")]
    assert (rows[0]["coverage_80"], rows[0]["as_of"], rows[2]["mape"]) == ("", "7", "0.3")


def test_history_says_which_predictor_answers() -> None:
    items = [{"digest": "sha256:" + "a" * 64, "in_force": True, "accepted": True, "trained_at_position": 9, "rows": 5}]
    found = {column.head: column.values[0] for column in words.history({"items": items})}
    assert (found["State"], found["Predictor"], found["At event"]) == ("in force", "aaaaaaa", 9)
    assert words.history({}) == []
