from __future__ import annotations

from typing import Any

import altair as alt
import pytest

from domain.comparison.parity import fields
from presentation import charts, palette
from presentation.charts import chart_files

LINES = [
    {"name": "family", "calibration": [{"nominal": 0.8, "covered": 0.846}, {"nominal": 0.9, "covered": 0.88}]},
    {"name": "hardware-0", "calibration": [{"nominal": 0.8, "covered": None}]},
]


def marks(chart: Any, kind: str) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    alt.LayerChart.validate(spec)
    layers = [one for layer in spec["layer"] for one in layer.get("layer", [layer])]
    return [layer for layer in layers if layer["mark"]["type"] == kind]


def values(chart: Any) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    found = spec.get("data") or next(layer["data"] for layer in spec["layer"] if "data" in layer)
    return found["values"]


def group(name: str, mape: float, rows: int = 100, median: float | None = 0.05) -> dict[str, Any]:
    return {"name": name, "mape": mape, "median_ape": median, "rows": rows}


def test_a_field_of_a_parity_chart_counts_its_rows() -> None:
    found = fields([(1.0, 1.1), (1.2, 1.0), (0.5, 4.0)])
    chart = charts.parity(found, "s")
    assert sum(field["rows"] for field in values(chart)) == 3
    far = next(field for field in values(chart) if field["y"] > 2)
    assert (far["x"] <= 0.5 < far["x2"], far["y"] <= 4.0 < far["y2"]) == (True, True)


def test_the_axes_of_parity_are_the_same_so_that_the_diagonal_is_one() -> None:
    rect = marks(charts.parity(fields([(0.001, 0.02), (3.0, 2.0)]), "s"), "rect")[0]["encoding"]
    assert rect["x"]["scale"]["domain"] == rect["y"]["scale"]["domain"]
    assert rect["x"]["scale"]["type"] == rect["y"]["scale"]["type"] == "log"
    assert rect["x"]["axis"]["title"] == "measured, s (log)"


def test_parity_of_nothing_is_an_empty_chart() -> None:
    assert values(charts.parity([], "s")) == []


def test_intervals_show_what_they_promised_and_what_they_held() -> None:
    chart = charts.calibration(LINES)
    assert [(row["nominal"], round(row["covered"], 1)) for row in values(chart)] == [(80, 84.6), (90, 88.0)]
    assert marks(chart, "tick")[0]["encoding"]["x"]["field"] == "nominal"
    assert marks(chart, "point")[0]["encoding"]["x"]["field"] == "covered"


def test_a_split_without_intervals_says_that_it_is_not_calibrated() -> None:
    told = marks(charts.calibration(LINES), "text")[0]["data"]["values"]
    assert told == [{"order": 1, "detail": "not calibrated: no interval is given"}]


def test_errors_keep_their_order_and_count_their_rows() -> None:
    chart = charts.errors([group("mixnet", 0.4), group("vit", 0.1, rows=9)])
    assert [(row["name"], row["mape"], row["counted"]) for row in values(chart)] == [
        ("mixnet", 40.0, "n 100"),
        ("vit", 10.0, "n 9"),
    ]
    assert [row["ink"] for row in values(chart)] == [1.0, 0.4]


@pytest.mark.parametrize(("largest", "kind"), [(0.4, None), (4.0, "log")])
def test_errors_that_range_far_are_on_a_log_axis_that_says_so(largest: float, kind: str | None) -> None:
    point = marks(charts.errors([group("a", largest), group("b", 0.06)]), "point")[0]["encoding"]["x"]
    assert point["scale"].get("type") == kind
    assert ("(log)" in point["axis"]["title"]) is (kind == "log")


def test_a_median_that_is_not_known_has_no_tick() -> None:
    chart = charts.errors([group("a", 0.4, median=None)])
    assert values(chart)[0]["median"] is None
    assert marks(chart, "tick")[0]["transform"] == [{"filter": "isValid(datum.median)"}]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_stand_alone_in_both_themes(theme: Any) -> None:
    ground = palette.INKS[theme].ground
    drawn = (
        charts.parity(fields([(1.0, 1.1), (2.0, 3.0)]), "s", theme=theme, picture=True),
        charts.calibration(LINES, theme=theme, picture=True),
        charts.errors([group("a", 0.4)], theme=theme, picture=True),
    )
    for chart in drawn:
        assert chart.to_dict()["background"] == ground
        assert chart_files.svg(chart).startswith(b"<svg")
