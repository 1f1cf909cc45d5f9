"""Trends: their address, lanes and their names, where a line breaks, and changes in words."""

from __future__ import annotations

import altair as alt
import pytest

from dashboard import regressions
from dashboard.address import parameters
from dashboard.screens.trends import words as history
from dashboard.screens.trends.chart import across, span_of, stacked, trend
from dashboard.screens.trends.words import Trend, lanes, read_trend
from presentation.charts import chart_files


def point(day, value=1.0, **more):
    return {
        "time": f"2026-10-{day:02d}T12:00:00Z", "recorded_at": "2026-11-01T00:00:00Z", "position": day, "event_id": f"event-{day}",
        "run_id": f"run-{day}", "origin": "measured", "verdict": "valid", "runtime_version": "2.1", "environment": "e1", "value": value,
        "low": value * 0.99, "high": value * 1.01, "n": 60, "is_mean": False, "changed": [], "step": None, **more,
    }  # fmt: skip


def line(*points, configuration="c1", alike="a" * 32, **more):
    return {
        "configuration": configuration, "alike": alike, "hardware": "acme-one", "platform": "cpu", "precision": "fp32", "batch_size": 1,
        "runtime": "torch", "mode": "inference", "points": list(points), "count": len(points), **more,
    }  # fmt: skip


WORSE = {"state": "worse", "change": 0.4, "low": 0.35, "high": 0.46, "why": None, "from": "event-1"}
DRIVER = {"part": "driver", "before": "550", "after": "560"}


def test_an_address_is_read_back_as_it_was_written():
    asked = Trend(
        model="a/b", metric="ttft_ms", rows=("abc", "def"), hw=("h",), platform=("cpu",), precision=("fp16",), x="order", scale="log", undated=True,
        since="2026-01-02", until="2026-02-03", days=30.0, as_of=4,
    )  # fmt: skip
    read = read_trend(parameters(asked))
    assert (read.asked, read.dropped) == (asked, [])
    refused = read_trend({"since": ["yesterday"], "x": ["space"], "metric": ["mood"]})
    assert len(refused.dropped) == 3
    assert "2026-11-20" in refused.dropped[0]


def test_a_newer_runtime_is_the_same_lane_and_another_stretch():
    newer = line(point(3), point(4), configuration="c2")
    (lane,) = lanes([newer, line(point(1), point(2))])
    assert [one["event_id"] for one in lane.points] == ["event-1", "event-2", "event-3", "event-4"]
    assert [one["segment"] for one in lane.points] == [0, 0, 1, 1]
    assert lane.configurations == ("c2", "c1")
    assert lane.total == 4


def test_a_line_breaks_where_the_environment_or_the_value_changed_and_leaves_out_what_is_doubted():
    (lane,) = lanes([
        line(point(1), point(2, step=WORSE), point(3, verdict="invalid"), point(4), point(5, environment="e2"), point(6, origin="simulated"))
    ])  # fmt: skip
    assert [one["segment"] for one in lane.points] == [0, 1, None, 1, 2, None]


def test_lanes_of_one_name_say_in_what_they_differ():
    found = lanes([line(point(1), point(2), threads=2), line(point(1), alike="b" * 32, configuration="c2", threads=4)])
    assert [lane.name for lane in found] == [
        "acme-one · cpu · fp32 · batch 1 · threads 2", "acme-one · cpu · fp32 · batch 1 · threads 4",
    ]  # fmt: skip
    twins = lanes([line(point(1)), line(point(1), alike="b" * 32, configuration="c2")])
    assert len({lane.name for lane in twins}) == 2


@pytest.mark.parametrize(
    ("step", "metric", "words"),
    [
        (WORSE, "latency_ms", "▼ 40 % longer (35–46 %)"),
        ({**WORSE, "state": "better", "change": -0.2, "low": -0.25, "high": -0.15}, "ttft_ms", "▲ 20 % shorter (15–25 %)"),
        ({**WORSE, "change": -0.2, "low": None}, "throughput_per_s", "▼ 20 % lower"),
        ({**WORSE, "state": "unclear", "low": -0.03}, "peak_memory_bytes", "≈ 40 % more (−3 % to +46 %)"),
    ],
)  # fmt: skip
def test_a_change_says_how_much_of_what_and_for_better_or_worse(step, metric, words):
    assert history.change_words(step, metric).replace("\u202f", " ") == words


def test_what_changed_is_told_once_driver_first():
    changed = [
        {"part": "library numpy", "before": None, "after": "2"}, {"part": "library torch", "before": "1", "after": "2"},
        {"part": "runtime torch", "before": "1", "after": "2"}, DRIVER,
    ]  # fmt: skip
    assert history.parts_words(changed) == "driver 550 → 560 · torch 1 → 2 · numpy — → 2"
    assert history.parts_words(changed, 1) == "driver 550 → 560 · 2 more"


def test_changes_are_listed_newest_first_with_what_came_with_them():
    found = lanes(
        [line(point(1), point(2, 1.4, step=WORSE, changed=[DRIVER]), point(3, 1.4), point(4, 1.4, changed=[DRIVER]))]
    )
    ((_, change),) = history.changes(found)
    assert [one["event_id"] for _, one in history.changes(found, every=True)] == ["event-4", "event-2"]
    columns = {column.head: column for column in history.change_columns(history.changes(found), "latency_ms", None)}
    assert (change["event_id"], columns["Change"].values) == ("event-2", [0.4])
    assert (columns["Before"].shown, columns["With it"].values) == (["1.00\u202fms"], ["driver 550 → 560"])
    assert columns["Configuration"].links == ["runs?run=run-2"]


def test_the_sentence_counts_what_the_table_lists():
    back = {**WORSE, "state": "better", "change": -0.3, "low": -0.35, "high": -0.25}
    moved = lanes(
        [line(point(1), point(2, 1.4, step=WORSE), point(3, 1.0, step=back), point(4, 1.0, changed=[DRIVER]))]
    )
    said = history.sentence(moved, "latency_ms", None).replace("\u202f", " ")
    assert said == (
        "2 changes of 1 configuration: 1 worse, 1 better. Newest: acme-one · cpu · fp32 · batch 1, ▲ 30 % shorter (25–35 %), 3 Oct 2026."
    )
    assert len(history.change_columns(history.changes(moved), "latency_ms", None)[0].values) == 2
    assert "no change beyond 10 %" in history.sentence(lanes([line(point(1), point(2))]), "latency_ms", None)
    assert "nothing to compare" in history.sentence(lanes([line(point(1))]), "latency_ms", None)
    unclear = lanes([line(point(1), point(2, 1.3, step={**WORSE, "state": "unclear", "why": "no interval"}))])
    assert history.sentence(unclear, "latency_ms", None).endswith("1 beyond 10 % is too close to call.")


def test_what_is_doubted_is_left_out_and_counted():
    doubted = [point(2, verdict="invalid"), point(3, origin="simulated")]
    (lane,) = lanes([line(point(1), *doubted, point(4))])
    kept, out = history.left_out(lane, Trend(model="m"))
    assert ([one["event_id"] for one in kept.points], out) == (["event-1", "event-4"], {"invalid": 1, "simulated": 1})
    (of_page,) = lanes([line(point(1), point(2, origin="page"))])
    assert [one["event_id"] for one in history.left_out(of_page, Trend(model="m"))[0].points] == ["event-1"]
    kept, _ = history.left_out(lane, Trend(model="m", invalid=True))
    assert [one["event_id"] for one in kept.points] == ["event-1", "event-2", "event-4"]


def test_versions_stand_in_their_order_where_dates_are_missing():
    undated = [
        line(point(at, time=None, runtime_version=version), configuration=version)
        for at, version in enumerate(("10.1", "8.4", "9"), 1)
    ]
    (lane,) = lanes(undated, "version")
    assert [one["runtime_version"] for one in lane.points] == ["8.4", "9", "10.1"]
    places, words = history.numbered([lane], "version")
    assert (places, words) == ({"event-2": 1, "event-3": 2, "event-1": 3}, ["8.4", "9", "10.1"])
    on = across([lane], "version")
    drawn = trend(lane, "latency_ms", "smaller", span_of([lane], on), on=on).to_dict()
    assert '["8.4", "9", "10.1"][datum.value - 1]' in drawn["encoding"]["x"]["axis"]["labelExpr"]
    assert {one["when"] for one in drawn["layer"][0]["data"]["values"]} == {"not said"}


def test_a_chart_joins_only_points_of_one_stretch():
    later = point(2, 1.4, step=WORSE, changed=[DRIVER], verdict="suspect")
    (lane,) = lanes([line(point(1), later, point(3, verdict="invalid"))])
    drawn = trend(lane, "latency_ms", "smaller", span_of([lane], across([lane], "time")), theme="light").to_dict()
    alt.LayerChart.validate(drawn)
    (drawn,) = drawn["layer"]
    # A ring, a cross and a tick with words; no layer of what is not there.
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == [
        "line", "rule", "point", "point", "point", "rule", "text", "text", "text",
    ]  # fmt: skip
    (plain,) = lanes([line(point(1), point(2))])
    few = trend(plain, "latency_ms", "smaller", span_of([plain], across([plain], "time"))).to_dict()["layer"][0]
    assert [layer["mark"]["type"] for layer in few["layer"]] == ["line", "rule", "point"]
    (joined,) = [layer for layer in drawn["layer"] if layer["mark"]["type"] == "line"]
    assert joined["encoding"]["detail"]["field"] == "segment"
    assert drawn["layer"][0]["encoding"]["y"]["axis"]["title"] == "Latency p50, ms, smaller is better (linear)"
    values = drawn["data"]["values"]
    assert [one["segment"] for one in values] == [0, 1, None]
    assert values[1]["detail"].replace("\u202f", " ") == "1.40 ms (1.39–1.41), 95 % CI"
    assert (values[1]["href"], values[1]["parts"]) == ("/runs?row=event-2", "driver 550 → 560")


def test_by_order_places_are_even_and_shared():
    found = lanes([line(point(1), point(9)), line(point(4), alike="b" * 32, configuration="c2", batch_size=8)])
    assert history.numbered(found, "order") == ({"event-1": 1, "event-4": 2, "event-9": 3}, [])
    assert span_of(found, across(found, "order")) == (0.5, 3.5)


@pytest.mark.parametrize("x", ["time", "order", "version"])
def test_pictures_of_lanes_stand_one_above_the_other(x):
    found = lanes(
        [
            line(point(1), point(2, 1.4, step=WORSE, changed=[DRIVER])),
            line(point(4), alike="b" * 32, configuration="c2", batch_size=8),
        ]
    )
    on = across(found, x)
    panels = [
        (lane.name, trend(lane, "latency_ms", "smaller", span_of(found, on), on=on, picture=True)) for lane in found
    ]
    alt.VConcatChart.validate(stacked(panels, "dark").to_dict())
    drawn = chart_files.svg(
        chart_files.titled(stacked(panels, "dark"), "a/b over time", answer="it did", footer="position 1")
    ).decode()
    assert all(word in drawn for word in ("batch 8", "driver 550", "40", "a/b over time"))


def test_what_got_worse_is_a_sentence_and_lines_with_links():
    change = {
        **WORSE, "title": "a/b on acme-one", "column": "latency_p50_ms", "before": {"value": 1.0}, "after": {"value": 1.4, "low": 1.39, "high": 1.41},
        "model": "a/b", "hardware": "acme-one", "platform": "cpu", "run_id": "run-2", "time": None,
    }  # fmt: skip
    turn = {**change, "state": "worse", "test": None, "before": "passed", "after": "error at run", "message": "no"}
    found = {"compared": 3, "counts": {"worse": 1}, "changes": [change], "turns": [turn, {**turn, "state": "better"}]}
    assert regressions.sentence(found, 7) == (
        "1 value is worse than before the last 7 days, and 1 no longer passes; 3 configurations were tried again."
    )
    columns = {column.head: column for column in regressions.columns(found, None)}
    assert columns["Configuration"].links == ["trends?model=a/b&hw=acme-one&platform=cpu"] * 2
    assert (columns["Change"].values, columns["Before"].values) == ([0.4, None], [1.0, None])
    first, second = regressions.lines(found, None)
    assert first["Over time"] == "/trends?model=a/b&hw=acme-one&platform=cpu"
    assert second["Now"] == "error at run: no"
    assert regressions.sentence({**found, "compared": 0}, 1) == "Nothing was measured again over the last day."
