"""What bounds a line: repeats of a source, thinned groups, a look-up in a table, and groups that carry the error."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from assay.accuracy.bounds import Bound, Curve, Floor, Reference, Step, bounds_in, concentration
from assay.accuracy.results import of_benchmarks
from benchmarks import accuracy
from domain.errors import UsageError
from predictor.features.dataset import Row
from research.bounds import floor_of, interpolation_error, references


def test_the_floor_is_the_error_of_knowing_the_median_of_each_repeated_configuration() -> None:
    figures = [("a", 1.0), ("a", 1.21), ("a", 1.1), ("b", 5.0), ("c", 2.0), ("c", 2.0)]
    floor = floor_of("own", figures)
    assert floor is not None
    # Only `a` has figures that differ; its median is 1.1.
    assert (floor.rows, floor.configurations) == (3, 1)
    assert floor.mape == pytest.approx((0.1 + 0.0 + 1 - 1.1 / 1.21) / 3, abs=1e-6)
    assert floor.median_ape == pytest.approx(1 - 1.1 / 1.21, abs=1e-6)
    rates = floor_of("own", figures, inverse=True)
    assert rates is not None and rates.mape == pytest.approx((1 - 1 / 1.1 + 0.0 + 0.1) / 3, abs=1e-6)
    assert floor_of("own", [("a", 1.0), ("a", 1.0), ("b", 2.0)]) is None


def test_a_look_up_is_exact_on_a_power_law_and_off_where_the_table_jumps() -> None:
    m = np.array([1.0, 2.0, 4.0, 8.0] * 2)
    n = np.repeat([16.0, 32.0], 4)
    law = n * m**0.7
    order = np.random.default_rng(0).permutation(8)
    assert interpolation_error([n[order]], m[order], law[order]) == pytest.approx(np.zeros(4), abs=1e-9)
    jumping = law.copy()
    jumping[1] *= 2
    errors = interpolation_error([n], m, jumping)
    # The point that jumps is predicted at half its time; its neighbour is predicted from it, a root of two too slow.
    assert sorted(errors.round(6)) == pytest.approx([0.0, 0.0, 2**0.5 - 1, 0.5], abs=1e-6)


@pytest.mark.parametrize("split", ["family", "hardware"])
def test_a_reference_tells_freaks_and_levels_apart(split: str) -> None:
    def row(model: str, hardware: str) -> Row:
        return Row(model=model, hardware=hardware, platform="cuda", precision="fp16", batch_size=1)

    rows = [row("a", "one"), row("a", "one"), row("b", "one"), row("b", "two")]
    errors = np.array([0.2, 0.3, -0.1, 1.0])
    table: Any = SimpleNamespace(rows=rows)
    held: Any = SimpleNamespace(index=np.arange(4), errors=errors)
    line = accuracy.Line(title="", data="", split=split, bars={"all": 0.1} if split == "family" else {"one": 0.1})
    far, *level = references(table, held, line) if split == "family" else (None, *references(table, held, line))
    if split == "family":
        assert far is not None and "1 of 4 rows" in far.what
        assert far.error == pytest.approx(np.abs(np.expm1(errors[:3])).mean(), abs=1e-6)
        left = np.array([-0.05, 0.05, -0.55, 0.55])  # The level of each model is taken off.
    else:
        left = np.array([0.0, 0.1, -0.3])  # That of the only software configuration of device one.
    (known,) = level
    assert known.error == pytest.approx(np.abs(np.expm1(left)).mean(), abs=1e-6)


def parts(**errors: tuple[float, int]) -> dict[str, dict[str, float]]:
    return {name: {"mape": mape, "rows": rows} for name, (mape, rows) in errors.items()}


def test_the_two_groups_without_which_the_error_is_lowest_are_named() -> None:
    families = parts(a=(0.1, 80), b=(1.0, 10), c=(0.5, 10), d=(0.3, 1), e=(0.1, 80))
    devices = parts(x=(0.17, 90), y=(0.15, 91))
    worst = concentration({"by_family": families, "by_hardware": devices})
    assert worst is not None
    assert (worst.of, worst.names) == ("families", ("b", "c"))
    assert worst.error_share == pytest.approx(15 / 31.3)
    assert worst.rows_share == pytest.approx(20 / 181)
    assert worst.rest == pytest.approx(16.3 / 161)
    assert concentration({"by_hardware": devices}) is None


def result(folder: Path, **members: object) -> None:
    score = {"mape": 0.1, "rows": 10, "coverage_80": 0.86, "coverage_90": 0.9}
    line = {"title": "a line", "bars": {"all": 0.1}, "reach": {"all": 0.08}}
    document = {"overall": score, "by_hardware": {}, "line": line, **members}
    (folder / "line.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("coverage", "off", "covered"),
    [((0.80, 0.90), 0.0, True), ((0.84, 0.88), 0.04, True), ((0.86, 0.90), 0.06, False), ((0.79, 0.80), -0.1, False)],
)
def test_coverage_is_met_within_four_points_at_both_levels(
    tmp_path: Path, coverage: tuple[float, float], off: float, covered: bool
) -> None:
    score = {"mape": 0.1, "rows": 10, "coverage_80": coverage[0], "coverage_90": coverage[1]}
    result(tmp_path, overall=score)
    (bar,) = of_benchmarks(tmp_path)[0].bars
    assert bar.off_coverage == pytest.approx(off)
    assert bar.covered is covered
    assert bar.met and not bar.reached and bar.reach == 0.08


def test_a_line_without_intervals_covers_nothing(tmp_path: Path) -> None:
    result(tmp_path, overall={"mape": 0.07, "rows": 10, "coverage_80": None, "coverage_90": None})
    (bar,) = of_benchmarks(tmp_path)[0].bars
    assert bar.off_coverage is None and not bar.covered and bar.reached


def test_bounds_are_read_by_line_and_a_file_that_holds_none_is_named(tmp_path: Path) -> None:
    bound = Bound(
        floor=Floor(source="own", rows=4, configurations=2, mape=0.01, median_ape=0.0, ninety=0.03),
        curve=Curve(of="families", steps=[Step(groups=10, error=0.3), Step(groups=20, error=0.2)]),
        references=[Reference(what="Else", error=0.05)],
    )
    (tmp_path / "line.json").write_bytes(msgspec.json.encode(bound))
    assert bounds_in(tmp_path) == {"line": bound}
    assert bounds_in(tmp_path / "nothing") == {}
    (tmp_path / "odd.json").write_text('{"curve": 3}')
    with pytest.raises(UsageError, match=r"odd\.json holds no bound"):
        bounds_in(tmp_path)
