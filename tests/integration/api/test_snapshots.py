"""Named snapshots: a name stands for a position wherever a position is asked for, and is never moved unasked."""

from __future__ import annotations

import json
import uuid

import httpx
import pytest

from assay.cli import run
from domain.errors import NameTaken, NotFound, UnknownSnapshot, UsageError


def named() -> str:
    return f"release {uuid.uuid4().hex[:12]}"


@pytest.fixture
def known(client, build):
    """A name, its position, and a model of which one row came before it and one after."""
    name, model = named(), f"acme/{uuid.uuid4().hex}"
    position = client.post_events([build.measurement(p50=3.0, model=model)])["last_position"]
    client.create_snapshot(name, position, "before the change")
    last = client.post_events([build.measurement(p50=4.0, model=model, run_id="run-2")])["last_position"]
    client.wait_for(last)
    return name, position, model


def test_a_name_is_given_listed_shown_and_taken_away(client, build):
    name = named()
    client.post_events([build.measurement()])
    made = client.create_snapshot(name, note="what it is for")
    assert made["position"] == made["event_position"] - 1
    assert client.snapshot(name) == made
    (listed,) = [one for one in client.snapshots() if one["name"] == name]
    assert {key: listed[key] for key in made} == made
    assert client.create_snapshot(name, made["position"])["event_id"] == made["event_id"]
    with pytest.raises(NameTaken):
        client.create_snapshot(name, 0)
    with pytest.raises(NameTaken):
        client.create_snapshot(name)
    assert client.delete_snapshot(name)["position"] == made["position"]
    with pytest.raises(NotFound):
        client.snapshot(name)
    with pytest.raises(NotFound):
        client.delete_snapshot(name)
    again = client.create_snapshot(name, 0)
    assert (again["position"], client.snapshot(name)["position"]) == (0, 0)
    told = [event["data"] for event in client.events(types=["assay.snapshot.named.v1"], subject=f"snapshot/{name}")]
    assert [(one["position"], one.get("withdrawn", False)) for one in told] == [
        (made["position"], False), (made["position"], True), (0, False),
    ]  # fmt: skip
    done = [
        action
        for (action,) in client.query(f"SELECT action FROM operations WHERE object = '{name}' ORDER BY position")[
            "rows"
        ]
    ]
    assert done == ["snapshot.named", "snapshot.withdrawn", "snapshot.named"]


def test_it_stands_for_its_position_wherever_one_is_asked_for(service, client, known):
    name, position, model = known
    assert len(client.measurements(model=model)) == 2
    assert [row["latency_p50_ms"] for row in client.measurements(model=model, as_of=name)] == [3.0]
    by_name, by_number = (client.summary(as_of=one) for one in (name, position))
    assert by_name == by_number and by_name["position"] == position
    assert client.predictor(as_of=name)["position"] == position
    lines = client.trends(model, as_of=name)["lines"]
    assert [point["value"] for line in lines for point in line["points"]] == [3.0]
    asked = {"model": model, "hardware": "acme-one", "batch_sizes": [1]}
    assert client.recommend(**asked, as_of=name) == client.recommend(**asked, as_of=position)
    assert client.recommend(**asked, as_of=str(position))["position"] == position
    sql = f"SELECT latency_p50_ms FROM measurements WHERE model_id = '{model}'"
    then = client.query(sql, as_of=name)
    assert (then["rows"], then["position"]) == ([[3.0]], position)
    assert len(client.query(sql)["rows"]) == 2


@pytest.mark.parametrize("as_of", ["release 0.0", "-1", "1.5", "", " ", "ü", "99999999999999999999"])
def test_what_is_no_position_and_no_name_is_refused_by_field(service, as_of):
    answer = httpx.get(f"{service.url}/v1/measurements", params={"as_of": as_of})
    assert (answer.status_code, answer.json()["field"]) == (422, "as_of"), answer.text
    answer = httpx.post(f"{service.url}/v1/query", json={"sql": "SELECT 1", "as_of": as_of}, timeout=30)
    assert (answer.status_code, answer.json()["field"]) == (422, "as_of"), answer.text


def test_an_unknown_name_gets_the_nearest(client, known):
    name, _, _ = known
    with pytest.raises(UnknownSnapshot) as refused:
        client.summary(as_of=name + "x")
    assert name in str(refused.value)


@pytest.mark.parametrize("name", ["12", "", "a/b", "a\nb", " a", "x" * 101, "1.4", "ends with a space "])
def test_names_that_could_be_taken_for_something_else_are_refused(service, name):
    answer = httpx.post(f"{service.url}/v1/snapshots", json={"name": name, "position": 0})
    assert (answer.status_code, answer.json()["field"]) == (422, "name"), answer.text


def test_a_position_that_the_log_has_not_reached_is_refused(client):
    with pytest.raises(UsageError, match="the log ends at") as refused:
        client.create_snapshot(named(), 10**9)
    assert refused.value.field == "position"


def test_the_verbs(service, capsys, known):
    def typed(*words: str, code: int = 0) -> tuple[str, str]:
        assert run([*words, "--server", service.url]) == code
        said = capsys.readouterr()
        return said.out, said.err

    name, position, model = known
    other = named()
    made = json.loads(typed("snapshot", "create", other, "--position", "0", "--note", "nothing yet", "--json")[0])
    assert (made["name"], made["position"]) == (other, 0)
    listed = typed("snapshot", "list")[0]
    assert name in listed and "before the change" in listed
    shown = json.loads(typed("snapshot", "show", name, "--json")[0])
    assert (shown["position"], shown["known"]["position"]) == (position, position)
    assert "snapshot create" not in typed("snapshot", "show", other)[1]
    assert other in typed("snapshot", "delete", other)[1]
    assert "nearest" not in typed("snapshot", "show", other, code=1)[0]
    sql = f"SELECT count(*) AS n FROM measurements WHERE model_id = '{model}'"
    assert json.loads(typed("query", sql, "--as-of", name, "--format", "json")[0]) == [{"n": 1}]
    assert json.loads(typed("query", sql, "--as-of", str(position), "--format", "json")[0]) == [{"n": 1}]
    assert json.loads(typed("query", sql, "--format", "json")[0]) == [{"n": 2}]
    assert "neither a position" in typed("query", sql, "--as-of", "-3", code=2)[1]
