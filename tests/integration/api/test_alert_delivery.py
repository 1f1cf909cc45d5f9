"""The outbox and its dispatcher: each message once by its id, whatever is killed, slow, quiet or too much."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest

from api.alerts.dispatcher import Dispatcher
from api.alerts.outbox import LEASE, MOST_ATTEMPTS, Outbox, backoff
from api.alerts.receivers import Outcome
from api.alerts.routes_file import RoutesFile
from assay.cli.serve.alert_routes import routes as alert_routes
from domain.events import decode_event, encode_event
from domain.history.alerts import Alert, StateChange
from domain.history.history import Cause, Change
from domain.history.notices import Message
from domain.history.routes import Route
from ingest.log.event_log import EventLog
from tests.integration.alert_receivers import Hook

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LATER = timedelta(seconds=10)
"""After which nobody waits for further messages any more."""


def alert(model: str = "acme/bert", share: float = 0.15, **more: Any) -> Alert:
    change = Change(
        id="c", alike="a", title="t", model=model, hardware="acme-one", platform="cpu", precision="fp32",
        metric="latency_p50_ms", unit="ms", kind="step", state="worse", before=1.0, after=1.0 + share, change=share,
        low=share - 0.01, high=share + 0.01, first="e1", last="e2", confirmed_by="e3",
    )  # fmt: skip
    values: dict[str, Any] = {
        "id": str(uuid.uuid4()), "title": f"{model} is slower", "direction": "worse", "kind": "performance",
        "state": "new", "changes": [change],
    }  # fmt: skip
    return Alert(**{**values, **more})


def event() -> str:
    return str(uuid.uuid4())


class Recorder:
    """Stands where the network is and answers as it is told; keeps what it was given."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.sent: list[tuple[str, str, Message]] = []

    async def __call__(self, route: Route, identifier: str, message: Message) -> Outcome:
        self.sent.append((route.name, identifier, message))
        return self.outcomes.pop(0) if self.outcomes else Outcome(delivered=True, detail="ok")


class Scene:
    """An outbox on a database with a routes file, and a clock that stands until it is moved."""

    def __init__(self, database: Any, path: Path) -> None:
        self.database = database
        self.path = path
        self.now = NOW
        self.file = RoutesFile(path)
        self.outbox = Outbox(database.url, self.file)
        self.routes({"name": "all"})

    def routes(self, *routes: dict[str, Any], **more: Any) -> None:
        webhook = {"url": "http://127.0.0.1:1/", "secret_env": "ASSAY_TEST_SECRET", "allow_private": True}
        document = {"routes": [{"to": {"webhook": webhook}, **route} for route in routes], **more}
        self.path.write_text(json.dumps(document))

    def enqueue(self, *alerts: Alert, event_id: str | None = None) -> None:
        self.outbox.enqueue([(item, event_id or event()) for item in alerts], self.now)

    def look(self, send: Any, after: timedelta = LATER, times: int = 1) -> None:
        """Move the clock and let a dispatcher look into the outbox."""

        async def run() -> None:
            dispatcher = Dispatcher(self.outbox, send=send, clock=lambda: self.now)
            for _ in range(times):
                self.now += after
                await dispatcher.look()
                await dispatcher.settle()

        asyncio.run(run())

    def states(self) -> dict[str, int]:
        with psycopg.connect(self.database.url) as connection:
            rows = connection.execute("SELECT state, count(*) FROM alert_delivery GROUP BY 1").fetchall()
        return dict(rows)


@pytest.fixture
def scene(database: Any, tmp_path: Path) -> Scene:
    return Scene(database, tmp_path / "alerts.yaml")


def test_an_event_is_one_message_on_each_route_that_takes_it(scene: Scene) -> None:
    scene.routes({"name": "one"}, {"name": "two"}, {"name": "other", "match": {"models": ["*resnet*"]}})
    item, event_id = alert(), event()
    for _ in range(3):
        scene.enqueue(item, event_id=event_id)
    send = Recorder()
    scene.look(send, times=3)
    assert sorted(name for name, _, _ in send.sent) == ["one", "two"]
    assert len({identifier for _, identifier, _ in send.sent}) == 2
    assert {message.type for _, _, message in send.sent} == {"alert.new"}
    assert scene.states() == {"delivered": 2}


def test_the_id_of_a_message_follows_from_event_and_route(scene: Scene) -> None:
    scene.routes({"name": "one"}, {"name": "two"})
    item, event_id = alert(), event()
    sent = []
    for _ in range(2):
        send = Recorder()
        scene.enqueue(item, event_id=event_id)
        scene.look(send)
        sent.append(sorted((name, identifier) for name, identifier, _ in send.sent))
        with psycopg.connect(scene.database.url) as connection:
            connection.execute("DELETE FROM alert_delivery")
    assert sent[0] == sent[1]
    assert sent[0][0][1] != sent[0][1][1]


def test_owners_of_the_file_stand_in_the_message(scene: Scene) -> None:
    owners = [{"name": "nlp", "models": ["*bert*"]}, {"name": "vision", "models": ["*resnet*"]}]
    scene.routes({"name": "nlp", "match": {"owners": ["nlp"]}}, owners=owners)
    scene.enqueue(alert(), alert("acme/resnet"))
    send = Recorder()
    scene.look(send)
    assert [message.data.alerts[0].owners for _, _, message in send.sent] == [["nlp"]]


def test_a_message_whose_sender_was_killed_is_sent_again_with_the_same_id(scene: Scene) -> None:
    scene.enqueue(alert())
    first: list[str] = []

    async def killed() -> None:
        reached = asyncio.Event()

        async def send(route: Route, identifier: str, message: Message) -> Outcome:
            first.append(identifier)
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError

        scene.now += LATER
        dispatcher = Dispatcher(scene.outbox, send=send, clock=lambda: scene.now)
        await dispatcher.look()
        await reached.wait()
        # The receiver has it, and nobody has written that down.
        await dispatcher.close()

    asyncio.run(killed())
    send = Recorder()
    scene.look(send, after=LEASE / 2)
    assert send.sent == []
    scene.look(send, after=LEASE)
    assert [identifier for _, identifier, _ in send.sent] == first
    assert scene.states() == {"delivered": 1}


def test_two_dispatchers_send_each_message_once(scene: Scene) -> None:
    scene.routes({"name": "all", "digest": {"above": 100}})
    scene.enqueue(*(alert(f"acme/m{number}") for number in range(20)))
    send = Recorder()

    async def run() -> None:
        scene.now += LATER
        both = [Dispatcher(scene.outbox, send=send, clock=lambda: scene.now) for _ in range(2)]
        await asyncio.gather(*(dispatcher.look() for dispatcher in both))
        await asyncio.gather(*(dispatcher.settle() for dispatcher in both))

    asyncio.run(run())
    scene.look(send)
    assert len(send.sent) == len({identifier for _, identifier, _ in send.sent}) == 20


def test_what_fails_is_tried_for_a_day_and_keeps_its_id(scene: Scene) -> None:
    scene.enqueue(alert())
    send = Recorder(*[Outcome(delivered=False, detail="HTTP 500")] * 100)
    scene.look(send, after=timedelta(minutes=75), times=MOST_ATTEMPTS + 5)
    assert len(send.sent) == MOST_ATTEMPTS
    assert len({identifier for _, identifier, _ in send.sent}) == 1
    (summary,) = scene.outbox.summary()
    assert (summary.failed, summary.pending, summary.last_error) == (1, 0, "HTTP 500")


def test_waits_grow_to_an_hour_and_last_a_day() -> None:
    waits = [backoff(attempt, lambda low, high: (low + high) / 2) for attempt in range(1, MOST_ATTEMPTS)]
    assert [wait.total_seconds() for wait in waits[:3]] == [5, 15, 45]
    assert waits == sorted(waits)
    assert waits[-1] == timedelta(hours=1)
    assert timedelta(hours=20) < sum(waits, timedelta()) < timedelta(hours=28)
    drawn = {backoff(3) for _ in range(20)}
    assert len(drawn) > 1
    assert all(timedelta(seconds=36) <= wait <= timedelta(seconds=54) for wait in drawn)


def test_a_receiver_that_asks_for_time_gets_it(scene: Scene) -> None:
    scene.enqueue(alert())
    send = Recorder(Outcome(delivered=False, detail="HTTP 429", retry_after_s=600.0))
    scene.look(send)
    scene.look(send, after=timedelta(seconds=590))
    assert len(send.sent) == 1
    scene.look(send, after=timedelta(seconds=20))
    assert len(send.sent) == 2
    assert scene.states() == {"delivered": 1}


def test_a_receiver_that_is_gone_gets_nothing_more_until_the_file_names_another(scene: Scene) -> None:
    scene.routes({"name": "all"}, {"name": "other"})
    scene.enqueue(alert())
    scene.enqueue(alert())
    send = Recorder(*[Outcome(delivered=False, detail="HTTP 410 Gone", gone=True)] * 2)
    scene.look(send)
    assert scene.states() == {"gone": 4}
    scene.enqueue(alert())
    assert scene.states() == {"gone": 4}
    assert [summary.stopped for summary in scene.outbox.summary()] == [True, True]
    elsewhere = {"webhook": {"url": "http://127.0.0.1:2/", "secret_env": "ASSAY_TEST_SECRET"}}
    scene.routes({"name": "all", "to": elsewhere}, {"name": "other"})
    scene.enqueue(alert())
    assert scene.states() == {"gone": 4, "waiting": 1}


def test_ten_thousand_alerts_at_once_are_one_digest(scene: Scene) -> None:
    scene.enqueue(*(alert(f"acme/m{number}", share=number / 10_000) for number in range(10_000)))
    send = Recorder()
    scene.look(send, times=3)
    ((_, _, message),) = send.sent
    assert message.type == "alert.digest"
    assert (len(message.data.alerts), message.data.more) == (100, 9_900)
    assert message.data.alerts[0].changes[0].model == "acme/m9999"
    assert len(msgspec.json.encode(message)) < 100_000
    assert scene.states() == {"digested": 10_000, "delivered": 1}


def test_alerts_that_keep_coming_wait_for_each_other(scene: Scene) -> None:
    send = Recorder()
    scene.routes({"name": "all", "digest": {"above": 2}})
    for _ in range(3):
        scene.enqueue(alert())
        scene.look(send, after=timedelta(seconds=3))
    assert send.sent == []
    scene.look(send)
    assert [message.type for _, _, message in send.sent] == ["alert.digest"]


def test_alerts_that_never_stop_are_sent_after_the_longest_wait(scene: Scene) -> None:
    scene.routes({"name": "all", "digest": {"above": 1}})
    scene.enqueue(alert())
    scene.now += timedelta(seconds=303)
    scene.enqueue(alert())
    send = Recorder()
    scene.look(send, after=timedelta(seconds=1))
    assert send.sent == []
    scene.look(send, after=timedelta(seconds=1))
    assert [message.type for _, _, message in send.sent] == ["alert.digest"]


def test_a_few_alerts_are_a_message_each_unless_the_route_gathers(scene: Scene) -> None:
    scene.routes({"name": "each"}, {"name": "hourly", "digest": {"every": "1h"}})
    scene.enqueue(alert(), alert())
    send = Recorder()
    scene.look(send)
    assert [name for name, _, _ in send.sent] == ["each", "each"]
    scene.enqueue(alert())
    scene.look(send, after=timedelta(hours=1))
    digests = [message for name, _, message in send.sent if name == "hourly"]
    assert [len(message.data.alerts) for message in digests] == [3]


def test_a_digest_that_was_not_delivered_keeps_its_alerts_and_its_id(scene: Scene) -> None:
    scene.routes({"name": "all", "digest": {"above": 0}})
    scene.enqueue(alert(), alert())
    send = Recorder(Outcome(delivered=False, detail="HTTP 500"))
    scene.look(send)
    scene.enqueue(alert())
    scene.look(send, after=timedelta(minutes=1))
    (_, first, message), *others = send.sent
    assert [identifier for _, identifier, _ in others].count(first) == 1
    assert all(len(same.data.alerts) == 2 for _, identifier, same in others if identifier == first)
    assert message.type == "alert.digest"


def test_quiet_hours_hold_messages_and_end_with_one_digest(scene: Scene) -> None:
    quiet = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"}
    scene.routes({"name": "night", "quiet": quiet})
    # The night in which clocks go back: quiet from 20:00 to 06:00 UTC.
    scene.now = datetime(2026, 10, 24, 20, 30, tzinfo=UTC)
    scene.enqueue(alert(), alert())
    send = Recorder()
    scene.look(send, after=timedelta(hours=9))
    assert send.sent == []
    assert [summary.held for summary in scene.outbox.summary()] == [2]
    scene.look(send, after=timedelta(hours=1))
    assert [message.type for _, _, message in send.sent] == ["alert.digest"]


def test_a_retry_waits_for_the_end_of_quiet_hours(scene: Scene) -> None:
    scene.routes({"name": "night", "quiet": {"from": "12:01", "to": "13:00"}})
    scene.enqueue(alert())
    send = Recorder(Outcome(delivered=False, detail="HTTP 500"))
    scene.look(send)
    scene.look(send, after=timedelta(minutes=30))
    assert len(send.sent) == 1
    scene.look(send, after=timedelta(minutes=30))
    assert len(send.sent) == 2


def test_what_nobody_sent_before_quiet_hours_waits_for_their_end(scene: Scene) -> None:
    scene.routes({"name": "night", "quiet": {"from": "12:30", "to": "13:00"}, "digest": {"above": 100}})
    scene.enqueue(*(alert() for _ in range(3)))
    send = Recorder()
    scene.look(send, after=timedelta(minutes=45))
    assert (send.sent, scene.states()) == ([], {"waiting": 3})
    scene.now = NOW + timedelta(minutes=20)
    begun: list[str] = []

    async def slow(route: Route, identifier: str, message: Message) -> Outcome:
        begun.append(identifier)
        scene.now += timedelta(minutes=15)
        return Outcome(delivered=True, detail="ok")

    scene.look(slow, after=timedelta(0))
    assert len(begun) == 1
    assert scene.states() == {"delivered": 1, "pending": 2}


def test_an_alert_that_grows_is_told_once(scene: Scene) -> None:
    scene.routes({"name": "once"}, {"name": "all", "states": ["new", "extended"]})
    item = alert()
    grown = msgspec.structs.replace(item, changes=[*item.changes, *alert("acme/bart").changes])
    scene.enqueue(item)
    scene.enqueue(grown)
    send = Recorder()
    scene.look(send)
    assert [len(message.data.alerts[0].changes) for _, _, message in send.sent] == [2, 2]
    scene.enqueue(grown, item)
    scene.look(send)
    assert len(send.sent) == 2
    larger = msgspec.structs.replace(item, changes=grown.changes + alert("acme/bort").changes)
    scene.enqueue(larger, larger)
    scene.look(send)
    assert [(name, message.type) for name, _, message in send.sent[2:]] == [("all", "alert.extended")]


def test_an_alert_that_comes_again_after_it_was_withdrawn_is_new_again(scene: Scene) -> None:
    scene.routes({"name": "new", "states": ["new"]}, {"name": "both"})
    item = alert()
    taken_back = [StateChange(state="withdrawn", author="assay")]
    send = Recorder()
    for states in ([], taken_back):
        scene.enqueue(msgspec.structs.replace(item, states=states))
        scene.look(send)
        scene.enqueue(msgspec.structs.replace(item, state="withdrawn", states=[*states, *taken_back]))
        scene.look(send)
    types = [(name, message.type.removeprefix("alert.")) for name, _, message in send.sent]
    assert [type_ for name, type_ in types if name == "both"] == ["new", "withdrawn", "new", "withdrawn"]
    assert [type_ for name, type_ in types if name == "new"] == ["new", "new"]
    # It comes and goes a third time before a message is sent.
    scene.routes({"name": "both"})
    scene.enqueue(msgspec.structs.replace(item, states=taken_back * 2))
    scene.enqueue(msgspec.structs.replace(item, state="withdrawn", states=taken_back * 3))
    again = Recorder()
    scene.look(again)
    assert again.sent == []


def test_names_and_figures_of_any_kind_are_kept(scene: Scene) -> None:
    change = msgspec.structs.replace(alert().changes[0], metric="nul\0", change=float("inf"), low=float("nan"))
    cause = Cause(part="torch\0", before=None, after="2.13\n\0")
    scene.enqueue(alert(title="a\0b\ud7ff", changes=[change], cause=cause))
    send = Recorder()
    scene.look(send)
    ((_, _, message),) = send.sent
    assert msgspec.json.decode(msgspec.json.encode(message), type=Message) == message


def test_an_alert_that_is_withdrawn_before_it_was_sent_is_not_told(scene: Scene) -> None:
    item = alert()
    withdrawn = msgspec.structs.replace(item, state="withdrawn")
    scene.enqueue(item)
    scene.enqueue(withdrawn)
    send = Recorder()
    scene.look(send)
    assert send.sent == []
    assert scene.states() == {"dropped": 1}
    scene.enqueue(item)
    scene.look(send)
    scene.enqueue(withdrawn)
    scene.look(send)
    assert [message.type for _, _, message in send.sent] == ["alert.new", "alert.withdrawn"]


def test_a_broken_routes_file_leaves_the_last_one_in_force(scene: Scene) -> None:
    scene.enqueue(alert())
    scene.path.write_text("routes: [{name: all, to: {webhook: {secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZI}}}]")
    scene.enqueue(alert())
    assert scene.states() == {"waiting": 2}
    assert "routes[0].to.webhook.secret" in str(scene.file.error)
    assert "MfKQ9r8G" not in str(scene.file.error)
    scene.path.unlink()
    scene.enqueue(alert())
    assert scene.states() == {"waiting": 2}
    assert scene.file.error is None


def test_without_a_file_nothing_is_kept_and_nothing_is_sent(database: Any, tmp_path: Path) -> None:
    outbox = Outbox("postgresql://nobody@127.0.0.1:1/nothing", RoutesFile(tmp_path / "alerts.yaml"))
    outbox.enqueue([(alert(), event())])

    async def look() -> None:
        await Dispatcher(outbox, send=Recorder()).look()

    asyncio.run(look())


def test_what_ended_long_ago_is_forgotten(scene: Scene) -> None:
    scene.enqueue(alert())
    scene.look(Recorder())
    scene.enqueue(alert())
    scene.outbox.prune(scene.now + timedelta(days=31))
    assert scene.states() == {"waiting": 1}


def test_a_dead_receiver_delays_neither_events_nor_other_routes(
    scene: Scene, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts and never answers: events are appended and the other route is served while it is waited for."""
    monkeypatch.setenv("ASSAY_TEST_SECRET", SECRET)
    events = [decode_event(encode_event(build.measurement())) for _ in range(500)]

    async def run(dead_port: int, live: Hook) -> tuple[int, set[str]]:
        hook = {"secret_env": "ASSAY_TEST_SECRET", "allow_private": True}
        scene.routes(
            {"name": "dead", "to": {"webhook": {"url": f"http://127.0.0.1:{dead_port}/", **hook}}},
            {"name": "live", "to": {"webhook": {"url": live.url, **hook}}},
        )
        scene.enqueue(alert())
        scene.now += LATER
        async with EventLog(scene.database.url) as log:
            dispatcher = Dispatcher(scene.outbox, clock=lambda: scene.now)
            await dispatcher.look()
            while not live.got:
                await asyncio.sleep(0.01)
            answers = await log.append(events)
            sending = {task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("alerts to")}
            await dispatcher.close()
            return len(answers), sending

    with socket.create_server(("127.0.0.1", 0)) as dead, Hook().running() as live:
        appended, sending = asyncio.run(run(dead.getsockname()[1], live))
    assert appended == 500
    assert "alerts to dead" in sending


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook().running() as running:
        yield running


def status(url: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    """Exit code and answer of `assay alerts routes status`."""
    code = alert_routes.main(["status", "--server", url, "--json"], standalone_mode=False)
    answer = json.loads(capsys.readouterr().out)
    assert alert_routes.main(["status", "--server", url], standalone_mode=False) == code
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 100
    return code, answer


def test_a_service_sends_what_is_in_its_outbox_and_says_how_it_stands(
    service_database: Callable[[], Any], tmp_path: Path, hook: Hook, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.integration.conftest import RunningService

    running = RunningService(tmp_path / "home", service_database().url)
    token = "T000-B000-XXXXXXXXXXXXXXXX"
    running.environment = {"ASSAY_TEST_SECRET": SECRET, "ASSAY_TEST_URL": f"{hook.url}/{token}"}
    path = running.home / "alerts.yaml"
    webhook = {"url_env": "ASSAY_TEST_URL", "secret_env": "ASSAY_TEST_SECRET", "allow_private": True}
    path.write_text(json.dumps({"routes": [{"name": "all", "to": {"webhook": webhook}}]}))
    hook.answers = [(500, {"x-echo": token}), (204, {})]
    running.start()
    try:
        Outbox(running.database_url, RoutesFile(path)).enqueue([(alert(), event())], datetime.now(UTC) - LATER)
        (failure,) = running.logged(logger="api.alerts.dispatcher")
        answer = httpx.get(f"{running.url}/v1/alerts/deliveries")
        (state,) = answer.json()["routes"]
        assert (state["route"], state["pending"], state["last_error"]) == (
            "all", 1, "HTTP 500 Internal Server Error",
        )  # fmt: skip
        assert status(running.url, capsys) == (0, answer.json())
        metrics = httpx.get(f"{running.url}/metrics").text
        assert 'assay_alert_messages_total{route="all",state="retried"} 1.0' in metrics
        with psycopg.connect(running.database_url) as connection:
            rows = connection.execute("SELECT row_to_json(d)::text FROM alert_delivery d").fetchall()
    finally:
        assert running.stop() == 0
    assert hook.got[0][1]["webhook-id"] in failure["message"]
    assert json.loads(hook.got[0][2])["type"] == "alert.new"
    for text in (answer.text, metrics, running.log.read_text(), str(rows)):
        assert token not in text
        assert SECRET.removeprefix("whsec_") not in text


def test_a_step_in_what_is_posted_reaches_a_receiver_once_and_so_does_its_withdrawal(
    service_database: Callable[[], Any], tmp_path: Path, hook: Hook, build: Any
) -> None:
    from tests.integration.conftest import RunningService

    running = RunningService(tmp_path / "home", service_database().url)
    running.environment = {"ASSAY_TEST_SECRET": SECRET}
    webhook = {"url": hook.url, "secret_env": "ASSAY_TEST_SECRET", "allow_private": True}
    owners = [{"name": "tiny", "models": ["*/tiny"]}]
    route = {"name": "tiny", "match": {"owners": ["tiny"]}, "to": {"webhook": webhook}, "digest": {"every": "1s"}}
    (running.home / "alerts.yaml").write_text(json.dumps({"owners": owners, "routes": [route]}))
    noise = random.Random(7)
    begin = datetime.now(UTC) - timedelta(days=60)
    events = [
        build.measurement(
            p50=(1.0 if day < 25 else 1.2) * (1 + noise.gauss(0, 0.01)),
            run_id=f"run-{day}",
            time=begin + timedelta(days=day),
        )
        for day in range(40)
    ]
    running.start()
    try:
        with running.client() as client:
            client.post_events(events[:25])
            client.post_events(events[25:])
            messages = arrived(hook, 1)
            client.post_events([build.retraction(event_id=event["id"]) for event in events[25:]])
            messages = arrived(hook, 2)
    finally:
        assert running.stop() == 0
    assert [message.type for message in messages] == ["alert.new", "alert.withdrawn"]
    (first,), (second,) = (message.data.alerts for message in messages)
    assert first.alert == second.alert
    assert first.owners == ["tiny"]
    assert first.changes[0].change == pytest.approx(0.2, abs=0.02)
    assert len({headers["webhook-id"] for _, headers, _ in hook.got}) == 2


def arrived(hook: Hook, number: int) -> list[Message]:
    """Wait for so many messages, and return all that came."""
    until = time.monotonic() + 120
    while len(hook.got) < number and time.monotonic() < until:
        time.sleep(0.05)
    return [msgspec.json.decode(body, type=Message) for _, _, body in hook.got]
