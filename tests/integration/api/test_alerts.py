"""Alerts over HTTP and on the command line: the list, one of them, and the states that people give them."""

from __future__ import annotations

import json
import uuid
from types import SimpleNamespace

import httpx
import pytest

from api.background.audit import written
from assay.cli import run
from domain.errors import Forbidden, NotFound, StateConflict, UsageError
from domain.events import encode_event
from tests.alerts import alert_id, change, raised, stated
from tests.conftest import append_decoded


@pytest.fixture
def told(service, client):
    """Appends events as the service writes them, and returns once they are in the tables."""

    def told(*events):
        written_events = [written(encode_event(event)) for event in events]
        last = append_decoded(SimpleNamespace(url=service.database_url), written_events)[-1].position
        client.wait_for(last)
        return last

    return told


@pytest.fixture
def model():
    return f"alert/{uuid.uuid4().hex[:8]}"


def named() -> str:
    return uuid.uuid4().hex


def test_open_alerts_come_first_then_the_worse_then_the_largest(client, told, model):
    fixed, better, small, large, fails = (named() for _ in range(5))
    told(
        raised(fixed, [change(named(), 9.0, model=model)]),
        stated(fixed, "fixed", "ada", reason="done"),
        raised(better, [change(named(), -0.9, model=model)], direction="better"),
        raised(small, [change(named(), 0.2, model=model)]),
        raised(large, [change(named(), -0.5, model=model, metric="throughput_per_s")]),
        raised(fails, [change(named(), -1.0, model=model, kind="functional")], kind="functional"),
    )
    listed = client.alerts(model=model)
    assert [alert.id for alert in listed.alerts] == [alert_id(name) for name in (fails, large, small, better, fixed)]
    assert listed.counts == {"new": 4, "fixed": 1}
    narrow = client.alerts(model=model, state=["new", "fixed"], direction="worse", limit=2)
    assert ([alert.title for alert in narrow.alerts], narrow.counts) == ([fails, large], {"new": 3, "fixed": 1})
    assert client.alerts(model=model, hardware="acme-none").alerts == []


def test_an_alert_is_found_by_the_first_letters_of_its_id(client, told, model):
    name = named()
    told(raised(name, [change(named(), 0.2, model=model)], cause={"part": "driver", "before": "1", "after": "2"}))
    alert = client.alert(alert_id(name))
    assert (alert.title, alert.state, alert.cause.part, alert.changes[0].model) == (name, "new", "driver", model)
    assert client.alert(alert_id(name)[:13]) == alert
    for missing in (str(uuid.uuid4()), "no-such", alert_id(name)[:2]):
        with pytest.raises(NotFound):
            client.alert(missing)


def test_states_are_events_with_author_and_reason_and_can_be_seen_as_of_a_position(client, told, model):
    name = named()
    before = told(raised(name, [change(named(), 0.2, model=model)]))
    identifier = alert_id(name)
    assert client.set_alert_state(identifier, "acknowledged").state == "acknowledged"
    alert = client.set_alert_state(identifier, "expected", "accepted for release 2", author="ada")
    assert [(state.state, state.author, state.reason) for state in alert.states] == [
        ("acknowledged", "local", None), ("expected", "ada", "accepted for release 2"),
    ]  # fmt: skip
    events = list(client.events(types=["assay.alert.changed.v1"], subject=f"alert/{identifier}"))
    assert [event["id"] for event in events] == [state.event_id for state in alert.states]
    assert {(event["attestation"], event["source"]) for event in events} == {("service", "urn:assay:service")}
    assert client.alert(identifier, as_of=before).state == "new"
    assert client.set_alert_state(identifier, "new").state == "new"


def test_a_state_that_makes_no_sense_is_refused_and_leaves_nothing_behind(service, client, told, model):
    name = named()
    position = told(raised(name, [change(named(), 0.2, model=model)]))
    identifier = alert_id(name)
    with pytest.raises(UsageError, match="reason"):
        client.set_alert_state(identifier, "fixed")
    with pytest.raises(StateConflict):
        client.set_alert_state(identifier, "new")
    with pytest.raises(NotFound):
        client.set_alert_state(str(uuid.uuid4()), "acknowledged")
    for body in (
        {"state": "acknowledged\x00"}, {"state": "false", "reason": "a\u0007b"}, {"state": "gone"}, {"reason": "why"},
        {"state": "false", "reason": "why", "more": 1}, {"state": "withdrawn", "reason": "why"},
    ):  # fmt: skip
        answer = httpx.post(f"{service.url}/v1/alerts/{identifier}/state", json=body)
        assert (answer.status_code, answer.json()["status"]) == (422, 422), body
        assert answer.json()["field"]
    assert (client.alert(identifier).states, client.ready()["position"]) == ([], position)
    refused = httpx.get(f"{service.url}/v1/alerts/{identifier}/state")
    assert (refused.status_code, refused.headers["allow"]) == (405, "OPTIONS, POST")


def test_nobody_posts_events_about_alerts(client):
    for event in (raised(named(), [change(named(), 0.2)]), stated(named(), "false", "eve")):
        with pytest.raises(Forbidden, match="service alone"):
            client.post_events([event])


def test_the_list_has_a_tag_and_other_formats(service, told, model):
    told(raised(named(), [change(named(), 0.2, model=model)]))
    answer = httpx.get(f"{service.url}/v1/alerts", params={"model": model})
    again = httpx.get(
        f"{service.url}/v1/alerts", params={"model": model}, headers={"If-None-Match": answer.headers["etag"]}
    )
    assert (answer.status_code, again.status_code) == (200, 304)
    lines = httpx.get(
        f"{service.url}/v1/alerts", params={"model": model}, headers={"Accept": "text/csv"}
    ).text.splitlines()
    assert len(lines) == 2 and "title" in lines[0]


@pytest.fixture
def typed(service, monkeypatch, capsys):
    monkeypatch.setenv("ASSAY_SERVER", service.url)
    monkeypatch.setenv("COLUMNS", "100")

    def typed(*words, code=0):
        capsys.readouterr()
        assert run(["alerts", *words]) == code
        said = capsys.readouterr()
        assert (
            all(len(line) <= 100 for line in said.out.splitlines()) or "assay bisect" in said.out or "--json" in words
        )
        return said.out, said.err

    return typed


def test_the_command_line_lists_shows_and_gives_states(typed, told, model):
    name = named()
    cause = {"part": "library torch", "before": "2.12.0", "after": "2.13.0"}
    moments = {"first_time": "2026-11-19T02:00:00Z", "last_time": "2026-11-20T02:00:00Z"}
    about = change(
        named(), 0.16, model=model, causes=[cause], low=0.14, high=0.18, evidence_after=["e9"], batch_size=8, **moments
    )
    told(raised(name, [about], cause=cause))
    short = alert_id(name)[:8]
    out, err = typed("list", "--model", model)
    assert short in out and "+16.0%" in out and "1 new" in err
    out, _ = typed("show", short)
    for word in ("+14.0% to +18.0%", "library torch 2.12.0 → 2.13.0", "e9", "19 Nov 2026", "e1 → e2, confirmed by e3"):
        assert word in out
    assert (
        f"assay bisect --package torch --overlay --good 2.12.0 --bad 2.13.0 --run 'assay bench {model} --platform cpu"
        in out
    )
    assert json.loads(typed("show", short, "--json")[0])["id"] == alert_id(name)
    assert "acknowledged" in typed("acknowledge", short)[1]
    typed("fix", short, code=2)
    typed("fix", short, "--reason", "pinned torch 2.12", "--author", "ada")
    assert typed("list", "--model", model)[0] == ""
    assert json.loads(typed("list", "--model", model, "--all", "--json")[0])["counts"] == {"fixed": 1}
    assert "pinned torch 2.12" in typed("show", short)[0]
    assert "Open it again" in typed("false", short, "--reason", "noise", code=1)[1]
    typed("reopen", short)
    typed("false", short, "--reason", "noise")
    typed("show", "ffff", code=1)
