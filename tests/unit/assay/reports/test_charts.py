from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from presentation.palette import PLATFORM_COLOURS
from presentation.reports import charts, likeness, matrix, pairs, sections


def values(spec: Any) -> Iterator[dict[str, Any]]:
    if isinstance(spec, dict):
        yield from (spec["values"] if isinstance(spec.get("values"), list) else ())
        for inner in spec.values():
            yield from values(inner)
    elif isinstance(spec, list):
        for inner in spec:
            yield from values(inner)


def test_ratios_have_their_interval_a_rule_at_one_and_a_log_axis(row: Any) -> None:
    found = likeness.over_cpu([row(10.0), row(4.0, platform="openvino")])
    spec = charts.draw(pairs.factor_chart(found, "speedup", "Speed-up", "How often")).to_dict()
    drawn = next(one for one in values(spec) if isinstance(one, dict) and one.get("label"))
    assert drawn["value"] == 2.5
    assert drawn["low"] < 2.5 < drawn["high"]
    assert {"value": 1.0} in list(values(spec))
    assert spec["layer"][1]["encoding"]["x"]["scale"]["type"] == "log"


def test_scaling_draws_one_line_a_series(row: Any) -> None:
    rows = [
        row(10.0),
        row(20.0, batch_size=4),
        row(5.0, platform="openvino"),
        row(8.0, platform="openvino", batch_size=4),
    ]
    chart = pairs.scaling_chart(likeness.scaling(rows), "scaling", "Scaling")
    spec = charts.draw(chart).to_dict()
    points = [one for one in values(spec["layer"][0]) if isinstance(one, dict) and "batch" in one]
    assert {(one["platform"], one["batch"]) for one in points} == {
        ("cpu", 1),
        ("cpu", 4),
        ("openvino", 1),
        ("openvino", 4),
    }
    assert "Largest gain: openvino" in chart.sentence


def test_memory_over_the_batch_is_drawn_where_it_was_measured_at_two_sizes(row: Any) -> None:
    rows = [
        row(10.0, peak_memory_bytes=400_000_000),
        row(20.0, batch_size=4, peak_memory_bytes=1_600_000_000),
        row(5.0, platform="openvino", peak_memory_bytes=None),
        row(8.0, platform="openvino", batch_size=4, peak_memory_bytes=9_000_000_000),
    ]
    chart = pairs.memory_chart(likeness.scaling(rows), "memory", "Memory")
    assert chart is not None and "1.60" in chart.sentence and "batch 4" in chart.sentence
    points = [
        one for one in values(charts.draw(chart).to_dict()["layer"][0]) if isinstance(one, dict) and "batch" in one
    ]
    assert {(one["platform"], one["batch"], one["value"]) for one in points} == {("cpu", 1, 0.4), ("cpu", 4, 1.6)}
    assert pairs.memory_chart(likeness.scaling(rows[2:]), "memory", "Memory") is None


def test_a_training_step_shows_its_phases(row: Any) -> None:
    step = row(30.0, mode="training", forward_ms=4.5, loss_ms=0.2, backward_ms=5.2, optimizer_ms=19.0)
    table = pairs.phases_table([row(), step])
    assert table is not None and len(table.rows) == 1
    shown = [word.replace("\u202f", " ") for word in table.words(step)]
    assert {"30.0 ms", "4.50 ms", "0.200 ms", "5.20 ms", "19.0 ms"} <= set(shown)
    assert pairs.phases_table([row()]) is None


def test_a_trend_leaves_out_what_is_simulated_or_invalid() -> None:
    point = {
        "time": "2026-11-20T14:05:00+00:00",
        "recorded_at": "",
        "value": 2.0,
        "origin": "measured",
        "verdict": "valid",
    }
    later = point | {"time": "2026-11-21T14:05:00+00:00", "value": 1.5}
    line = {"hardware": "acme-one", "platform": "cpu", "precision": "fp32", "batch_size": 1,
            "points": [point, later, later | {"origin": "simulated"}, later | {"verdict": "invalid"}]}  # fmt: skip
    answer = {"model": "acme/tiny", "metric": "latency_ms", "better": "smaller"}
    chart = sections.trend_chart(answer, [line])
    assert [row["value"] for row in chart.rows] == [2.0, 1.5]
    spec = charts.draw(chart, theme="dark").to_dict()
    assert "smaller is better" in str(spec)
    assert PLATFORM_COLOURS["dark"][0] in str(spec)


def test_the_matrix_says_its_states_in_words_and_glyphs() -> None:
    rows = [
        {"model": "tiny", "platform": "cpu", "state": "right"}, {"model": "tiny", "platform": "xpu", "state": "failed"},
    ]  # fmt: skip
    chart = pairs.Chart("matrix", "Matrix", "", "matrix", rows)
    spec = charts.draw(chart).to_dict()
    assert {one["glyph"] for one in values(spec) if isinstance(one, dict) and "glyph" in one} == {"√", "×"}
    assert matrix.STATES["right"][1] in str(spec)
    assert spec["layer"][0]["encoding"]["x"]["sort"] == ["cpu", "xpu"]


@pytest.mark.parametrize("width", [charts.WIDE, charts.NARROW])
def test_pictures_are_as_wide_as_asked_and_hostile_names_stay_text(row: Any, width: int) -> None:
    rows = [row(model_id="acme/<script>alert(1)</script>"), row(5.0, model_id="acme/b", platform="openvino")]
    made = charts.svg(pairs.latency_chart(rows, "a", "A", by_model=True), width=width)
    assert f'width="{width + 16}' in made[:400] or f"{width}" in made[:400]
    assert "<script" not in made


def test_a_picture_that_stands_alone_has_its_title_and_where_it_is_from(row: Any) -> None:
    chart = pairs.latency_chart([row()], "a", "Latencies of a model")
    assert "Latencies of a model" in charts.svg(chart, footer="position 7")
    assert "position 7" in charts.svg(chart, footer="position 7")
    assert "position 7" not in charts.svg(chart)
    assert charts.png(chart, footer="position 7").startswith(b"\x89PNG")


def test_a_doubtful_line_says_so_and_an_unknown_precision_is_called_unknown(row: Any) -> None:
    chart = pairs.latency_chart([row(verdict="suspect", precision=None)], "a", "A")
    assert "precision unknown" in chart.sentence and "None" not in chart.sentence
    drawn = charts.svg(chart)
    assert "suspect" in drawn
    assert "suspect" not in charts.svg(pairs.latency_chart([row(verdict="valid")], "a", "A"))
