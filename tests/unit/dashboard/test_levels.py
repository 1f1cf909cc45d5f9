"""Levels on Trends: confirmed changes take the place of steps, and what is drawn of levels, ranges and suspect points."""

from __future__ import annotations

import altair as alt
import pytest

from dashboard.screens.trends import levels
from dashboard.screens.trends import words as history
from dashboard.screens.trends.chart import across, span_of, trend
from dashboard.screens.trends.words import lanes
from domain.history.history import Cause, Change, HistoryReport, Level
from tests.unit.dashboard.test_history import WORSE, line, point

ALIKE = "a" * 32
WHERE = {"alike": ALIKE, "title": "a/b", "model": "a/b", "hardware": "acme-one", "platform": "cpu", "precision": "fp32", "unit": "ms"}  # fmt: skip


def change(**members):
    parts = {
        "id": "c1", "metric": "latency_p50_ms", "kind": "step", "state": "worse", "before": 1.0, "after": 1.4, "change": 0.4,
        "low": 0.35, "high": 0.46, "first": "event-4", "last": "event-5", "confirmed_by": "event-8", "level": "event-5",
        "causes": [Cause(part="driver", before="550", after="560")],
    }  # fmt: skip
    return Change(**{**WHERE, **parts, **members})


def report(metric="latency_p50_ms", **members):
    found = {
        "changes": [change()], "suspect": ["event-7"],
        "levels": [
            Level(first="event-1", last="event-4", value=1.0, low=0.9, high=1.1, points=4),
            Level(first="event-5", last="event-8", value=1.4, low=1.3, high=1.5, points=4),
        ],
    }  # fmt: skip
    return HistoryReport(**{**WHERE, "better": "lower", "kind": "performance", "points": 8, "metric": metric, **found, **members})  # fmt: skip


def lane(days=range(1, 9), **steps):
    points = [
        point(day, 1.0 if day < 5 else 1.9 if day == 7 else 1.4, step=steps.get(f"step_{day}"), runtime="torch")
        for day in days
    ]
    return lanes([line(*points)])[0]


def drawn(found, x="time", **options):
    on = across([found], x)
    spec = trend(found, "latency_ms", "smaller", span_of([found], on), on=on, **options).to_dict()
    alt.LayerChart.validate(spec)
    return spec["layer"][0]


def test_a_confirmed_change_takes_the_place_of_all_steps_and_leads_to_its_alert():
    (found,) = levels.examined([lane(step_3=WORSE, step_7=WORSE)], [report()], {"c1": "alert-1"})
    ((_, changed),) = history.changes([found])
    assert changed["event_id"] == "event-5"
    columns = {column.head: column for column in history.change_columns([(found, changed)], "latency_ms", None)}
    assert columns["Alert"].links == ["regressions?state=all&direction=all&alert=alert-1"]
    assert (columns["Before"].values, columns["Now"].values) == ([1.0], [1.4])
    assert columns["With it"].values == ["driver 550 → 560"]
    assert [one["segment"] for one in found.points] == [0] * 4 + [1] * 4
    assert history.sentence([found], "latency_ms", None).startswith("1 change of 1 configuration: 1 worse.")


def test_the_words_of_a_change_lead_to_its_alert_in_the_picture_too():
    (found,) = levels.examined([lane()], [report()], {"c1": "alert-1"})
    spec = drawn(found)
    (words,) = [layer for layer in spec["layer"] if layer["encoding"].get("href", {}).get("field") == "alert"]
    assert words["mark"]["type"] == "text"
    assert [one["alert"] for one in spec["data"]["values"] if one["stepped"]] == [
        "/regressions?state=all&direction=all&alert=alert-1"
    ]


def test_a_history_with_levels_and_no_change_has_none_whatever_its_steps():
    (found,) = levels.examined([lane(step_3=WORSE)], [report(changes=[])], {})
    assert history.changes([found]) == []
    assert history.sentence([found], "latency_ms", None) == "1 configuration: no confirmed change."
    (found,) = levels.examined([lane()], [report(changes=[], suspect=["event-8"])], {})
    assert history.sentence([found], "latency_ms", None).endswith(
        "no confirmed change; the newest point of 1 is suspect."
    )


def test_a_history_without_levels_keeps_its_steps():
    (found,) = levels.examined([lane(step_3=WORSE)], [report(levels=[], changes=[])], {})
    assert [one["event_id"] for _, one in history.changes([found])] == ["event-3"]
    assert found.report is None


@pytest.mark.parametrize("order", [1, -1])
def test_of_median_and_mean_the_one_with_more_points_counts_then_the_median(order):
    p50, mean = report(), report("latency_mean_ms", changes=[])
    (found,) = levels.examined([lane()], [p50, mean][::order], {})
    assert found.report.metric == "latency_p50_ms"
    longer = report("latency_mean_ms", points=9)
    (found,) = levels.examined([lane()], [p50, longer][::order], {})
    assert found.report.metric == "latency_mean_ms"


def rows(spec, kind):
    """The rows of the layers of one mark that have rows of their own."""
    return [layer["data"]["values"] for layer in spec["layer"] if layer["mark"]["type"] == kind and "data" in layer]


@pytest.mark.parametrize(("x", "across_"), [("time", "at"), ("order", "place")])
def test_levels_have_a_line_and_a_band_and_a_change_the_shade_of_its_range(x, across_):
    (found,) = levels.examined([lane()], [report()], {})
    spec = drawn(found, x)
    shade, band = rows(spec, "area")
    (line_,) = rows(spec, "line")
    assert line_ == band
    assert [(one["nth"], one["value"], one["low"], one["high"]) for one in line_] == [
        (0, 1.0, 0.9, 1.1), (0, 1.0, 0.9, 1.1), (1, 1.4, 1.3, 1.5), (1, 1.4, 1.3, 1.5),
    ]  # fmt: skip
    by_event = {one["href"].rpartition("=")[2]: one for one in spec["data"]["values"]}
    assert [one[across_] for one in shade] == [by_event["event-4"][across_], by_event["event-5"][across_]]
    assert [one[across_] for one in line_] == [by_event[f"event-{day}"][across_] for day in (1, 4, 5, 8)]
    low, high = next(
        layer["encoding"]["y"]["scale"]["domain"] for layer in spec["layer"] if layer["mark"]["type"] == "line"
    )
    assert low < 0.9 and high > 1.9


def test_a_suspect_point_has_a_ring_of_its_own_and_says_what_was_expected():
    (found,) = levels.examined([lane()], [report()], {})
    spec = drawn(found)
    assert [one["outside"] for one in spec["data"]["values"]].index(True) == 6
    assert [layer["mark"]["size"] for layer in spec["layer"] if layer["mark"].get("strokeDash") == [3, 2]] == [230]
    said = [one["level"].replace("\u202f", " ") for one in spec["data"]["values"]]
    assert said[0] == "1.0 ms (0.9–1.1), 95 % of new points"
    assert said[6].startswith("suspect, outside of 1.4 ms")


def test_levels_and_ranges_that_begin_before_what_is_shown_are_drawn_from_where_it_begins():
    (found,) = levels.examined([lane(range(3, 9))], [report()], {})
    (line_,) = rows(drawn(found), "line")
    assert len(line_) == 4
    assert line_[0]["at"].startswith("2026-10-03")
    (late,) = levels.examined([lane(range(6, 9))], [report()], {})
    spec = drawn(late)
    (line_,) = rows(spec, "line")
    assert [one["value"] for one in line_] == [1.4, 1.4]
    assert len(rows(spec, "area")) == 1


def test_a_level_of_one_point_is_no_line():
    one = Level(first="event-8", last="event-8", value=1.4, low=1.3, high=1.5, points=1)
    (found,) = levels.examined([lane()], [report(levels=[one], changes=[])], {})
    assert rows(drawn(found), "line") == []
