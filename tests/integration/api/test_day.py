"""The last 24 hours of a service, as those who keep it see them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from api.http.tokens import TokenStore
from assay.cli import run
from assay.client import Client
from domain.errors import Forbidden
from ingest.archive.archive import Archive, archive_folder


@pytest.fixture(scope="module")
def kept(service_database: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service with tokens; its client is the admin."""
    from tests.integration.conftest import RunningService

    database = service_database()
    secret, _ = TokenStore(database.url).create("root", ["admin"])
    running = RunningService(tmp_path_factory.mktemp("kept"), database.url).start_with(secret)
    yield running
    running.stop()


def test_throughput_counts_what_the_log_took(kept: Any, build: Any) -> None:
    with kept.client() as admin:
        before = admin.operations()
        answer = admin.post_events([build.measurement(model="acme/day") for _ in range(12)])
        admin.wait_for(answer["last_position"])
        told = admin.operations()
    steps = told["throughput"]
    assert sum(step["events"] for step in steps) - sum(step["events"] for step in before["throughput"]) == 12
    assert sum(step["events"] for step in steps) == told["position"] == answer["last_position"]
    times = [datetime.fromisoformat(step["at"]) for step in steps]
    assert {later - earlier for earlier, later in pairwise(times)} == {timedelta(seconds=600)}
    assert len(steps) * told["step_s"] == 24 * 3600
    now = datetime.fromisoformat(told["now"])
    assert times[-1] <= now < times[-1] + timedelta(seconds=600)


def test_lag_is_told_since_the_process_began_and_not_before(kept: Any) -> None:
    with kept.client() as admin:
        told = admin.operations()
    began = datetime.fromisoformat(told["build"]["began"])
    assert abs(datetime.now(UTC) - began) < timedelta(minutes=5)
    assert told["lag"]
    for minute in told["lag"]:
        assert datetime.fromisoformat(minute["at"]) >= began - timedelta(minutes=1)
        assert minute["lag_events"] >= 0


def test_uses_of_tokens_are_told_without_secrets(kept: Any) -> None:
    with kept.client() as admin:
        used, unused = (admin.create_token(name, ["read"]) for name in ("day-used", "day-unused"))
        with Client(kept.url, token=used["secret"]) as reader:
            reader.summary()
            with pytest.raises(Forbidden):
                reader.operations()
        told = admin.operations()
    assert used["token"]["id"] in told["token_uses"]
    assert unused["token"]["id"] not in told["token_uses"]
    assert used["secret"] not in str(told)


def test_archive_build_and_settings(kept: Any) -> None:
    with kept.client() as admin:
        assert admin.operations()["archive"] == []
        made = Archive(archive_folder(kept.home), kept.database_url).write()
        told = admin.operations()
        schema = admin.schema()["schema"]
    (segment,) = told["archive"]
    assert (segment["first_position"], segment["events"]) == (1, made[0].events)
    assert segment["bytes"] == made[0].size_bytes
    assert (told["build"]["version"], told["build"]["schema"]) == ("0.1.0", schema)
    assert (told["settings"]["role"], told["settings"]["requests_per_s"]) == ("all", 500.0)
    assert "postgres" not in str(told["settings"]["host"])


def test_a_day_is_told_in_a_terminal(kept: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with kept.client() as admin:
        taken = sum(step["events"] for step in admin.operations()["throughput"])
    assert run(["status", "--day", "--server", kept.url, "--token", kept.token]) == 0
    told = capsys.readouterr()
    lines = [
        line.split() for line in told.out.splitlines() if line.rstrip().endswith(tuple("0123456789—")) and "UTC" in line
    ]
    assert sum(int(line[5].replace(",", "")) for line in lines) == taken
    assert lines[0][6] == "—"
    assert lines[-1][6] != "—"
    assert all(len(line.rstrip()) <= 100 for line in told.out.splitlines())
