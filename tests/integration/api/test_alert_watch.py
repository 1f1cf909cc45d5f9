"""The watch over histories: one alert for a change, never twice, and withdrawn where a retraction takes the change away."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from api.alerts.watch import AlertWatch
from api.background.audit import written
from api.container import Container
from api.reads.alerts import alert_list
from api.reads.histories import histories_of, touched_since
from api.settings import Settings
from domain.events import encode_event
from domain.history.alerts import Alert
from tests.alerts import change, raised
from tests.conftest import append_decoded, append_events

BEGIN = datetime.now(UTC) - timedelta(days=200)
OLD = {"fingerprint": "env-1", "os": "Linux", "driver": "550.1", "libraries": {"torch": "2.13.0"}}
NEW = {"fingerprint": "env-2", "os": "Linux", "driver": "560.2", "libraries": {"torch": "2.13.0"}}
Event = dict[str, Any]


class Watched:
    """A log, its tables and a watch over them that looks when it is told to."""

    def __init__(self, home: Path, database: Any, build: Any) -> None:
        self.database = database
        self.build = build
        self.parts = Container(Settings(home=home, database_url=database.url), database)
        self.loop = asyncio.Runner()
        self.heard: list[tuple[Alert, str]] = []
        self.watch = AlertWatch(self.parts, self.heard.extend)
        self.noise = random.Random(7)
        self.day = 0

    def points(self, count: int, ms: float, **parts: Any) -> list[Event]:
        """Return measurements of one configuration around a latency, one a day."""
        days = range(self.day, self.day + count)
        return [
            self.build.measurement(
                p50=ms * (1 + self.noise.gauss(0, 0.01)), run_id=f"run-{day}", time=BEGIN + timedelta(days=day), **parts
            )
            for day in days
        ]

    def post(self, *series: list[Event]) -> int:
        """Append events that happened on the same days, go on to the day after them, and look; return the last position."""
        events = [event for events in series for event in events]
        last = int(append_events(self.database, events)[-1].position) if events else 0
        self.day += max((len(events) for events in series), default=0)
        self.look()
        return last

    def look(self) -> None:
        async def looked() -> None:
            await self.parts.reach(await self.parts.log.last_position())
            while await self.watch.look():
                await self.parts.reach(await self.parts.log.last_position())

        self.loop.run(looked())

    def __enter__(self) -> Watched:
        self.loop.run(self.parts.log.open())
        self.parts.projection.start()
        self.look()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.run(self.watch.close())
        self.loop.run(self.parts.log.close())
        self.loop.close()
        self.parts.projection.stop()

    def alerts(self) -> list[Alert]:
        with self.parts.tables(None) as tables:
            return alert_list(tables).alerts

    def raisings(self) -> int:
        """Return how many events raised or extended an alert."""
        with self.parts.tables(None) as tables:
            return int(tables.count("alert_raised"))


@pytest.fixture
def watched(tmp_path: Path, database: Any, build: Any) -> Iterator[Watched]:
    with Watched(tmp_path, database, build) as opened:
        yield opened


def test_a_step_is_one_alert_that_is_not_raised_again_and_goes_with_the_rows_that_showed_it(watched):
    watched.post(watched.points(20, 1.0))
    assert watched.alerts() == []
    after = watched.points(10, 1.15)
    watched.post(after)
    (alert,) = watched.alerts()
    assert (alert.direction, alert.state, alert.kind, watched.raisings()) == ("worse", "new", "performance", 1)
    (item,) = alert.changes
    assert item.change == pytest.approx(0.15, abs=0.02) and item.low < item.change < item.high
    watched.post(watched.points(20, 1.15))
    assert (watched.raisings(), len(watched.alerts())) == (1, 1)
    gone = [watched.build.retraction(run_id=f"run-{day}") for day in range(20, 50)]
    append_events(watched.database, gone)
    watched.look()
    (alert,) = watched.alerts()
    assert (alert.state, alert.states[-1].author, watched.raisings()) == ("withdrawn", "assay", 1)
    assert "retracted" in alert.states[-1].reason
    undone = [watched.build.retraction(event_id=event["id"]) for event in gone]
    append_events(watched.database, undone)
    watched.look()
    (alert,) = watched.alerts()
    assert (alert.state, watched.raisings()) == ("new", 2)


def test_a_change_that_goes_and_comes_back_is_new_also_where_the_watch_saw_it_in_an_old_log(tmp_path, database, build):
    world = Watched(tmp_path, database, build)
    append_events(database, [*world.points(20, 1.0)])
    world.day = 20
    append_events(database, [*world.points(10, 1.2)])
    world.day = 30
    with world:
        world.post(world.points(1, 1.2))
        assert world.alerts() == []
        gone = [build.retraction(run_id=f"run-{day}") for day in range(20, 31)]
        append_events(database, gone)
        world.look()
        append_events(database, [build.retraction(event_id=event["id"]) for event in gone])
        world.look()
        (alert,) = world.alerts()
        assert (alert.state, world.raisings()) == ("new", 1)


def test_without_the_point_that_confirmed_it_an_alert_is_withdrawn(watched):
    watched.post(watched.points(20, 1.0))
    while not watched.alerts():
        watched.post(watched.points(1, 1.15))
        assert watched.day < 40
    (alert,) = watched.alerts()
    append_events(watched.database, [watched.build.retraction(event_id=alert.changes[0].confirmed_by)])
    watched.look()
    (alert,) = watched.alerts()
    assert (alert.state, [state.state for state in alert.states]) == ("withdrawn", ["withdrawn"])


def test_one_changed_driver_is_one_alert_and_the_rest_of_it_goes_on_without_a_retracted_part(watched):
    sizes = (1, 8, 32)
    watched.post(*(watched.points(20, float(size), batch_size=size, environment=OLD) for size in sizes))
    watched.post(*(watched.points(10, 1.2 * size, batch_size=size, environment=NEW) for size in sizes[:2]))
    (alert,) = watched.alerts()
    assert (len(alert.changes), alert.cause.part, alert.cause.after) == (2, "driver", "560.2")
    late = watched.points(10, 1.2 * 32, batch_size=32, environment=NEW)
    watched.post(late)
    (alert,) = watched.alerts()
    assert ({item.batch_size for item in alert.changes}, len(alert.event_ids)) == ({1, 8, 32}, 2)
    append_events(watched.database, [watched.build.retraction(event_id=event["id"]) for event in late])
    watched.look()
    (alert,) = watched.alerts()
    assert ({item.batch_size for item in alert.changes}, alert.state) == ({1, 8}, "new")


def stated(watched: Watched, alert: Alert, state: str) -> None:
    from domain.events import ALERT_CHANGED, new_event

    data = {"alert": alert.id, "state": state, "author": "ada", "reason": "why"}
    event = new_event(ALERT_CHANGED, data, source="urn:assay:service", subject=f"alert/{alert.id}")
    append_decoded(watched.database, [written(encode_event(event))])
    watched.look()


def test_an_expected_change_begins_a_level_from_which_the_next_one_is_measured(watched):
    watched.post(watched.points(20, 1.0))
    watched.post(watched.points(10, 1.15))
    (first,) = watched.alerts()
    stated(watched, first, "expected")
    watched.post(watched.points(10, 1.15))
    assert watched.raisings() == 1
    with watched.parts.tables(None) as tables:
        (history,) = histories_of(tables, touched_since(tables, 0))
    assert history.restarts == [first.changes[0].level]
    watched.post(watched.points(10, 1.4))
    (second, old) = watched.alerts()
    assert (second.state, old.id, old.state) == ("new", first.id, "expected")
    assert second.changes[0].before == pytest.approx(1.15, rel=0.02)


def test_a_change_that_somebody_spoke_about_is_not_raised_again(watched):
    states = {"acme-one": "acknowledged", "acme-two": "false", "acme-three": "fixed"}

    def on_each(count: int, ms: float) -> list[list[Event]]:
        return [watched.points(count, ms, hardware=hardware) for hardware in states]

    watched.post(*on_each(20, 1.0))
    watched.post(*on_each(10, 1.15))
    for alert in watched.alerts():
        stated(watched, alert, states[alert.changes[0].hardware])
    watched.post(*on_each(10, 1.15))
    assert sorted(alert.state for alert in watched.alerts()) == sorted(states.values())
    assert watched.raisings() == 3


def test_a_test_that_passed_and_fails_is_an_alert(watched):
    model = {"model": "acme/tested"}

    def tests(count: int, outcome: str) -> list[Event]:
        return [watched.build.test(outcome, run_id=f"test-{outcome}-{index}", **model) for index in range(count)]

    watched.post(tests(6, "passed"))
    watched.post(tests(3, "failed"))
    (alert,) = watched.alerts()
    assert (alert.kind, alert.direction, alert.changes[0].metric) == ("functional", "worse", "verify")
    assert "verify fails" in alert.title


def test_an_old_log_raises_nothing_and_what_comes_then_does(tmp_path, database, build):
    old = Watched(tmp_path, database, build)
    append_events(database, [*old.points(20, 1.0), *old.points(20, 1.0, batch_size=8)])
    old.day = 20
    append_events(database, old.points(10, 1.2))
    with old:
        old.post(old.points(5, 1.2))
        assert old.alerts() == []
        old.post(old.points(10, 1.2, batch_size=8))
        (alert,) = old.alerts()
    assert [item.batch_size for item in alert.changes] == [8]


def test_two_nodes_and_a_restart_raise_once(watched, tmp_path, database, build):
    watched.post(watched.points(20, 1.0))
    with psycopg.connect(database.url) as connection:
        before = connection.execute("SELECT position FROM alert_cursor").fetchall()[0][0]
    append_events(database, watched.points(10, 1.15))
    with Watched(tmp_path / "other", database, build) as other:
        watched.look()
        assert (watched.raisings(), len(other.alerts())) == (1, 1)
    with psycopg.connect(database.url) as connection:  # As after a crash between the alert and the cursor.
        connection.execute("UPDATE alert_cursor SET position = %s", [before])
    with Watched(tmp_path / "again", database, build) as again:
        assert again.raisings() == 1


def test_every_event_about_an_alert_is_told_once_with_the_alert_as_it_is(watched):
    watched.post(watched.points(20, 1.0))
    watched.post(watched.points(10, 1.15))
    (alert,) = watched.alerts()
    assert watched.heard == [(alert, alert.event_ids[0])]
    stated(watched, alert, "acknowledged")
    (told, event) = watched.heard[-1]
    assert (len(watched.heard), told.state, event) == (2, "acknowledged", told.states[0].event_id)


def test_what_the_receiver_could_not_take_is_told_again(watched):
    calls = []

    def fails_once(alerts: Any) -> None:
        calls.append(alerts)
        if len(calls) == 1:
            raise OSError("away")

    watched.watch = AlertWatch(watched.parts, fails_once)
    watched.post(watched.points(20, 1.0))
    with pytest.raises(OSError, match="away"):
        watched.post(watched.points(10, 1.15))
    watched.look()
    assert calls[0] == calls[1] and len(calls) == 2 and watched.raisings() == 1


def test_a_pull_request_raises_nothing(watched):
    watched.post(watched.points(20, 1.0))
    context = {"branch": "slow", "pull_request": "7"}
    runs = [
        watched.build.event("assay.run.started.v1", {"run_id": f"run-{day}", "kind": "bench", "context": context})
        for day in range(20, 30)
    ]
    append_events(watched.database, runs)
    watched.post(watched.points(10, 1.3))
    assert watched.alerts() == []


def test_clocks_that_go_backward_raise_nothing(watched):
    watched.post(watched.points(20, 1.0))
    wrong = [
        watched.build.measurement(p50=1.0, time=datetime(1970, 1, 2, tzinfo=UTC) + timedelta(hours=hour))
        for hour in range(10)
    ]
    watched.post(wrong)
    ahead = [
        watched.build.measurement(p50=1.0, time=datetime.now(UTC) + timedelta(days=day)) for day in range(400, 405)
    ]
    watched.post(ahead)
    assert watched.alerts() == []


def test_ten_thousand_alerts_are_listed_by_the_largest(watched):
    events = [
        written(encode_event(raised(f"n{index}", [change(f"c{index}", index / 1e4, alike=f"a{index}")])))
        for index in range(10_000)
    ]
    append_decoded(watched.database, events)
    begun = time.monotonic()
    watched.look()
    with watched.parts.tables(None) as tables:
        listed = alert_list(tables, limit=3)
    assert [alert.title for alert in listed.alerts] == ["n9999", "n9998", "n9997"]
    assert (listed.counts, len(watched.heard)) == ({"new": 10_000}, 10_000)
    assert time.monotonic() - begun < 60


def until(condition: Callable[[], Any], timeout_s: float = 60) -> Any:
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return value


def test_a_service_raises_withdraws_and_ends_cleanly(fresh_service, database, build):
    service = fresh_service().start()
    source = Watched(service.home / "unused", database, build)
    with service.client() as client:
        client.post_events(source.points(20, 1.0))
        source.day = 20
        after = source.points(10, 1.15)
        client.post_events(after)
        (alert,) = until(lambda: client.alerts().alerts)
        assert client.regression_history().reports[0].changes == alert.changes
        client.post_events([build.retraction(event_id=event["id"]) for event in after])
        until(lambda: client.alert(alert.id).state == "withdrawn")
        assert client.regression_history().reports == []
        assert len(list(client.events(types=["assay.alert.raised.v1"]))) == 1
    assert service.stop() == 0
    reader = fresh_service("--role", "query").start()
    assert reader.logged(logger="api.alerts.watch", level="info")
