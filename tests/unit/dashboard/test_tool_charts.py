"""The charts of the tools: a day of the service, and a result of anybody's query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from dashboard.screens.query import sql_chart
from dashboard.screens.query.words import Drawing
from presentation.charts import chart_files, day_chart

START = datetime(2026, 11, 22, 0, tzinfo=UTC)
STEPS = [
    {"at": (START + timedelta(minutes=10 * place)).isoformat(), "events": 600 * (place % 3)} for place in range(144)
]


def data(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [value for layer in spec["layer"] for value in layer.get("data", spec.get("data"))["values"]]


def test_throughput_stands_at_the_viewers_clock() -> None:
    spec = day_chart.throughput(STEPS, 600, zone=ZoneInfo("Europe/Berlin")).to_dict()
    values = data(spec)
    assert [value["y"] for value in values[:4]] == [0.0, 1.0, 2.0, 0.0]
    clock = datetime(2026, 11, 22, 1, tzinfo=UTC).timestamp() * 1000
    assert (values[0]["from"], values[0]["to"]) == (clock, clock + 600_000)
    assert spec["layer"][0]["encoding"]["x"]["axis"]["values"][0] % (3 * 3600 * 1000) == 0
    assert "600 events in 10 min from 01:10" in values[1]["detail"]
    assert spec["layer"][0]["encoding"]["x"]["axis"]["title"] == "time of recording, CET"


def test_lag_is_not_joined_over_what_nobody_saw() -> None:
    at = [START + timedelta(minutes=minute) for minute in (0, 1, 2, 30, 31)]
    lags = [0, 5, None, 7, 0]
    minutes = [
        {"at": one.isoformat(), "lag_events": lag, "lag_seconds": 0.0} for one, lag in zip(at, lags, strict=True)
    ]
    values = data(day_chart.lag(minutes, STEPS, 600).to_dict())[:4]
    assert [(value["y"], value["piece"]) for value in values] == [(0, 0), (5, 0), (7, 1), (0, 1)]
    assert day_chart.lag([], STEPS, 600).to_dict()["layer"]


def test_a_bar_is_a_row_and_rows_of_one_name_are_told_apart() -> None:
    rows = [
        {"hw": "a", "platform": "cpu", "n": 3}, {"hw": "a", "platform": "cuda", "n": 2}, {"hw": "b", "platform": "tpu", "n": 1},
        {"hw": "b", "platform": "tpu", "n": 4}, {"hw": None, "platform": "cpu", "n": 5}, {"hw": "c", "platform": "cpu", "n": None},
    ]  # fmt: skip
    what = Drawing("bar", "hw", "n", "platform")
    spec = sql_chart.result(rows, what, horizontal="label").to_dict()
    values = data(spec)
    assert [value["label"] for value in values] == ["a · cpu", "a · cuda", "b · tpu (1)", "b · tpu (2)"]
    assert [value["key"] for value in values] == ["cpu", "cuda", "other", "other"]
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"][0] == 0
    assert "range" not in spec["layer"][0]["encoding"]["color"]["scale"]
    assert sql_chart.result(
        [{"hw": str(n), "n": n} for n in range(99)], what._replace(colour=None), horizontal="label"
    ).to_dict()
    assert len(sql_chart.drawable([{"hw": str(n), "n": n} for n in range(99)], what)) == sql_chart.BARS


def test_platform_colours_are_worn_by_platforms_alone() -> None:
    rows = [{"x": place, "y": place + 1, "mode": f"m{place % 3}"} for place in range(9)]
    spec = sql_chart.result(rows, Drawing("point", "x", "y", "mode"), horizontal="number", theme="light").to_dict()
    tints = spec["layer"][0]["encoding"]["color"]["scale"]["range"]
    assert len(set(tints)) == 3
    many = [{"x": place, "y": place, "mode": f"m{place}"} for place in range(1, 30)]
    plain = sql_chart.result(many, Drawing("line", "x", "y", "mode"), horizontal="number").to_dict()
    assert "value" in plain["layer"][0]["encoding"]["color"]


def test_a_wide_range_is_drawn_on_a_logarithm_that_says_so() -> None:
    rows = [{"x": 1, "y": 0.01}, {"x": 2, "y": 900.0}]
    encoding = sql_chart.result(rows, Drawing("point", "x", "y", None), horizontal="number").to_dict()["layer"][0][
        "encoding"
    ]
    assert encoding["y"]["axis"]["title"] == "y (log)"
    linear = sql_chart.result(rows, Drawing("point", "x", "y", None), horizontal="number", logarithmic=False).to_dict()
    assert linear["layer"][0]["encoding"]["y"]["axis"]["title"] == "y"


def test_pictures_are_made_of_all_three() -> None:
    rows = [{"day": "2026-11-20", "n": 3}, {"day": "2026-11-21", "n": 5}]
    line = sql_chart.result(rows, Drawing("line", "day", "n", None), horizontal="time", theme="light", picture=True)
    for chart in (line, day_chart.throughput(STEPS, 600, picture=True), day_chart.lag([], STEPS, 600, picture=True)):
        assert chart_files.png(chart_files.titled(chart, "A", answer="b", footer="c"))[:4] == b"\x89PNG"
