"""A metric over time: one line a configuration, and what changed from one point to the next."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import httpx
import pytest


def named() -> str:
    return f"trend/{uuid.uuid4().hex[:8]}"


def posted(client, *events) -> int:
    answer = client.post_events(events)
    assert answer["rejected"] == []
    return answer["last_position"]


def day(number: int) -> datetime:
    return datetime(2026, 10, number, 12, tzinfo=UTC)


def test_points_have_intervals_and_steps_by_the_rules_of_regressions(client, build):
    model = named()
    values = (1.0, 1.02, 1.5, 1.49)
    events = [build.measurement(p50=value, model=model, time=day(n)) for n, value in enumerate(values, 1)]
    (line,) = client.trends(model, min_position=posted(client, *events))["lines"]
    first, second, third, fourth = line["points"]
    assert (first["low"], first["high"], first["n"]) == (pytest.approx(0.99), pytest.approx(1.01), 60)
    assert (first["step"], second["step"], fourth["step"]) == (None, None, None)
    assert (third["step"]["state"], third["step"]["from"]) == ("worse", second["event_id"])
    assert third["step"]["change"] == pytest.approx(1.5 / 1.02 - 1)
    assert third["step"]["low"] < third["step"]["change"] < third["step"]["high"]
    assert line["count"] == 4


def test_what_changed_in_the_environment_stands_at_the_first_point_after_it(client, build):
    model = named()
    updated = {"fingerprint": "env-trend-2", "os": "Linux", "driver": "580.1", "libraries": {"torch": "2.14.0"}}
    events = [
        build.measurement(model=model, time=day(1)),
        build.measurement(model=model, time=day(2), environment=updated),
        build.measurement(model=model, time=day(3), environment=updated),
    ]
    (line,) = client.trends(model, min_position=posted(client, *events))["lines"]
    assert [[one["part"] for one in point["changed"]] for point in line["points"]] == [
        [], ["driver", "library torch"], [],
    ]  # fmt: skip
    assert line["points"][1]["changed"][0] == {"part": "driver", "before": None, "after": "580.1"}


def test_a_newer_runtime_is_another_line_that_goes_on_from_the_one_before(client, build):
    model = named()
    newer = build.measurement(p50=3.0, model=model, time=day(2))
    newer["data"]["execution"]["runtime"]["version"] = "2.99.0"
    position = posted(client, build.measurement(p50=1.0, model=model, time=day(1)), newer)
    old, new = client.trends(model, min_position=position)["lines"]
    assert old["configuration"] != new["configuration"]
    assert old["alike"] == new["alike"]
    (point,) = new["points"]
    assert point["step"]["state"] == "worse"
    assert point["changed"] == [{"part": "runtime torch", "before": "2.13.0", "after": "2.99.0"}]


def test_simulated_and_invalid_points_are_shown_and_compared_with_nothing(client, build):
    model = named()
    wrong = build.measurement(p50=9.0, model=model, time=day(2))
    wrong["data"]["validity"] = {"verdict": "invalid", "reasons": ["fell back"]}
    events = [build.measurement(p50=1.0, model=model, time=day(1)), wrong]
    events.append(build.measurement(p50=1.0, model=model, time=day(3)))
    (line,) = client.trends(model, min_position=posted(client, *events))["lines"]
    assert [point["verdict"] for point in line["points"]] == ["valid", "invalid", "valid"]
    assert [point["step"] for point in line["points"]] == [None, None, None]


def test_a_suspect_point_is_unclear_and_hides_no_step(client, build):
    model = named()
    events = [build.measurement(p50=value, model=model, time=day(n)) for n, value in enumerate((1.0, 1.5, 1.5, 1.5), 1)]
    events[1]["data"]["validity"] = {"verdict": "suspect", "reasons": ["other load"]}
    (line,) = client.trends(model, min_position=posted(client, *events))["lines"]
    assert [point["step"] and point["step"]["state"] for point in line["points"]] == [None, "unclear", "worse", None]
    assert line["points"][2]["step"]["from"] == line["points"][0]["event_id"]


def test_lines_are_chosen_cut_by_time_and_thinned_to_the_newest(client, build):
    model = named()
    events = [build.measurement(p50=n, model=model, time=day(n)) for n in (1, 2, 3)]
    events.append(build.measurement(model=model, platform="openvino", time=day(1)))
    position = posted(client, *events)
    every = client.trends(model, min_position=position)["lines"]
    assert [len(line["points"]) for line in every] == [3, 1]
    assert [one["points"] for one in client.trends(model, limit=0)["lines"]] == [[] for _ in every]
    (one,) = client.trends(model, configuration=[every[0]["configuration"]], limit=2)["lines"]
    assert ([point["value"] for point in one["points"]], one["count"]) == ([2.0, 3.0], 3)
    (line, empty) = client.trends(model, since=day(2).isoformat(), until=day(3).isoformat())["lines"]
    assert ([point["value"] for point in line["points"]], empty["points"]) == ([2.0], [])
    # What stood before the window still says how its first point came about.
    assert line["points"][0]["step"]["state"] == "worse"


def test_the_histories_with_the_most_points_are_named_with_all_their_lines(client, build):
    model = named()
    newer = build.measurement(model=model, time=day(2))
    newer["data"]["execution"]["runtime"]["version"] = "2.99.0"
    often = [build.measurement(model=model, platform="openvino", time=day(n)) for n in (3, 4, 5)]
    events = [
        build.measurement(model=model, time=day(1)),
        newer,
        *often,
        build.measurement(model=model, batch_size=9, time=day(6)),
    ]
    position = posted(client, *events)
    every = client.trends(model, min_position=position)["lines"]
    found = client.trends(model, top=2, limit=0)
    assert found["histories"] == 3
    # As if all had been read: same lines in the same order, without their points.
    told = [{**line, "points": []} for line in every if line["batch_size"] != 9]
    assert found["lines"] == told
    assert [line["count"] for line in told] == [1, 1, 3]
    (best,) = client.trends(model, top=1, limit=2)["lines"]
    assert (best["platform"], best["count"], len(best["points"])) == ("openvino", 3, 2)
    since = client.trends(model, limit=0, since=day(4).isoformat(), until=day(6).isoformat())
    assert [line["count"] for line in since["lines"]] == [0, 0, 2, 0]


def test_one_question_names_what_there_is_and_gives_the_points_of_a_few(client, build):
    model = named()
    often = [build.measurement(p50=n, model=model, batch_size=2, time=day(n)) for n in (1, 2, 3)]
    twice = [build.measurement(model=model, batch_size=4, time=day(n)) for n in (4, 5)]
    newer = build.measurement(p50=9.0, model=model, batch_size=2, time=day(6))
    newer["data"]["execution"]["runtime"]["version"] = "2.99.0"
    position = posted(client, *often, *twice, newer, build.measurement(model=model, batch_size=9, time=day(7)))
    first, four, second, single = every = client.trends(model, min_position=position)["lines"]
    bare = [{**line, "points": []} for line in every]
    found = client.trends(model, top=9, points_top=1)
    # Both lines of the one history, and what stands between them as if all had been read.
    assert found["with_points"] == [first["alike"]] == [second["alike"]]
    assert found["lines"] == [first, bare[1], second, bare[3]]
    assert found["lines"][2]["points"][0]["changed"] == [
        {"part": "runtime torch", "before": "2.13.0", "after": "2.99.0"}
    ]
    # One of a single point is not drawn by itself, but where it is asked for, beyond `top` too.
    assert client.trends(model, points_top=3)["with_points"] == [first["alike"], four["alike"]]
    chosen = client.trends(model, top=1, points_top=1, points_of=[single["alike"][:12], "none"])
    assert (chosen["with_points"], chosen["lines"]) == ([single["alike"]], [bare[0], bare[2], single])
    within = client.trends(model, top=9, points_top=1, since=day(4).isoformat(), until=day(6).isoformat())
    assert (within["with_points"], [line["count"] for line in within["lines"]]) == ([four["alike"]], [0, 2, 0, 0])


def test_the_metrics_that_some_row_has_are_named(client, build):
    model = named()
    gone = build.measurement(model=model, run_id=f"gone-{model}", metrics={"energy_j": 2.0})
    position = posted(client, build.measurement(model=model), gone)
    told = client.trends(model, top=1, limit=0, min_position=position)["metrics"]
    assert told == ["latency_ms", "latency_p50_ms", "latency_mean_ms", "energy_j"]
    after = posted(client, build.retraction(run_id=f"gone-{model}"))
    now, then = (client.trends(model, top=1, limit=0, as_of=at, min_position=after) for at in (after, position))
    assert "energy_j" not in now["metrics"]
    assert "energy_j" in then["metrics"]


def test_histories_are_found_by_the_beginning_of_their_name_and_by_several_values(client, build):
    model = named()
    platforms = ("cpu", "openvino", "cuda")
    events = [build.measurement(model=model, platform=name, time=day(n)) for n, name in enumerate(platforms, 1)]
    position = posted(client, *events)
    first, *_ = client.trends(model, min_position=position)["lines"]
    (one,) = client.trends(model, alike=[first["alike"][:12]])["lines"]
    assert one == first
    several = client.trends(model, platform=["openvino", "cuda"], limit=0)
    assert [line["platform"] for line in several["lines"]] == ["openvino", "cuda"]
    assert client.trends(model, metric="energy_j", limit=0)["lines"] == []


def test_a_chosen_line_goes_on_from_one_that_is_not(client, build):
    model = named()
    newer = build.measurement(p50=3.0, model=model, time=day(2))
    newer["data"]["execution"]["runtime"]["version"] = "2.99.0"
    position = posted(client, build.measurement(p50=1.0, model=model, time=day(1)), newer)
    _, new = client.trends(model, min_position=position)["lines"]
    assert new["points"][0]["step"]["state"] == "worse"
    assert client.trends(model, configuration=[new["configuration"]])["lines"] == [new]


def test_names_are_those_of_an_earlier_position(client, build):
    model = named()
    before = posted(client, build.measurement(model=model, time=day(1)))
    after = posted(client, *(build.measurement(model=model, batch_size=9, time=day(n)) for n in (2, 3)))
    then, now = (client.trends(model, limit=0, as_of=at, min_position=after) for at in (before, after))
    assert [line["count"] for line in then["lines"]] == [1]
    assert [line["count"] for line in now["lines"]] == [1, 2]


def test_a_moment_that_is_none_is_refused_by_name(service):
    refused = httpx.get(f"{service.url}/v1/trends", params={"model": "bert-base-uncased", "since": "yesterday"})
    assert (refused.status_code, refused.json()["field"]) == (422, "since")


def test_rows_without_a_date_are_left_out_or_stand_in_the_order_of_versions(client, build):
    model = named()
    # The newest version was imported first: in the order in which they came it is a downgrade that nobody saw.
    events = []
    for version, value in (("2.10.1", 1.0), ("2.4.0", 2.0), ("2.9.2", 1.5)):
        event = build.measurement(p50=value, model=model)
        event.pop("time", None)
        event["data"]["execution"]["runtime"]["version"] = version
        events.append(event)
    events.append(build.measurement(p50=1.0, model=model, time=day(1)))
    position = posted(client, *events)
    came = client.trends(model, min_position=position, top=10)
    assert sum(line["count"] for line in came["lines"]) == 4
    assert any((point["step"] or {}).get("state") == "worse" for line in came["lines"] for point in line["points"])
    dated = client.trends(model, undated=False, top=10)
    points = [point for line in dated["lines"] for point in line["points"]]
    assert [(point["time"] is not None, point["step"]) for point in points] == [(True, None)]
    assert (sum(line["count"] for line in dated["lines"]), sum(dated["undated"].values())) == (1, 3)
    ordered = client.trends(model, along="version")["lines"]
    states = {
        point["runtime_version"]: (point["step"] or {}).get("state") for line in ordered for point in line["points"] if point["time"] is None
    }  # fmt: skip
    assert "worse" not in states.values()
    assert (states["2.9.2"], states["2.10.1"]) == ("better", "better")
