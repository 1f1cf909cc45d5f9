"""An empty log begins with the evidence that ships; `assay data` takes sources out and brings them back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from assay.cli import run
from ingest import evidence
from tests.integration.conftest import ROOT, RunningService

BERT = "bert-base-uncased"


@pytest.fixture(scope="module")
def shipped(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service whose first start had an empty log."""
    running = RunningService(tmp_path_factory.mktemp("shipped"), service_database().url)
    running.environment |= {"ASSAY_SHIPPED_DATA": "yes"}
    yield running.start()
    running.stop()


@pytest.fixture
def typed(shipped: RunningService, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a verb in this process with --json and returns what it says."""

    def type_(*words: str) -> Any:
        capsys.readouterr()
        assert run([*words, "--server", shipped.url, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return type_


def test_the_first_answer_of_a_fresh_installation_rests_on_published_figures(shipped: RunningService) -> None:
    with shipped.client() as client:
        assert client.ready()["position"] == evidence.count()
        ranked = client.recommend(BERT)["ranked"]
    # Estimates may stand among the published figures, never before them all, where measurement bounds how slow they are.
    assert ranked[0]["basis"] == "imported"
    assert sum(row["basis"] == "imported" for row in ranked[:5]) >= 3
    assert all(row["basis"] == "imported" or row["latency_ms_high"] < 1.0 for row in ranked[:5])
    assert len({row["hardware"] for row in ranked}) == len(ranked) == 10
    assert ranked[0]["evidence"]


def test_imported_devices_are_nobody_s_own(shipped: RunningService) -> None:
    with shipped.client() as client:
        assert client.recommend(BERT, hardware="own")["ranked"] == []


def test_a_start_on_a_log_with_events_adds_nothing(shipped: RunningService) -> None:
    shipped.stop()
    shipped.start()
    with shipped.client() as client:
        assert client.ready()["log_position"] == evidence.count()


def test_a_source_is_removed_and_added_again(shipped: RunningService, typed: Callable[..., Any]) -> None:
    states = {source["name"]: source["state"] for source in typed("data", "list")}
    assert set(states.values()) == {"added"}
    assert typed("data", "remove", "tensorrt-bert", "--reason", "trying")["runs"] == 1
    states = {source["name"]: source["state"] for source in typed("data", "list")}
    assert {name for name, state in states.items() if state == "removed"} == {"tensorrt-bert"}
    with shipped.client() as client:
        assert not any("TensorRT" in row["why"] for row in client.recommend(BERT, top=100)["ranked"])
    again = typed("data", "add", "tensorrt-bert")
    assert (again["added"], again["restored"]) == (0, 1)
    with shipped.client() as client:
        assert "TensorRT" in client.recommend(BERT)["ranked"][0]["why"]
    assert run(["data", "add", "nothing-of-this-name", "--server", shipped.url]) == 2


@pytest.mark.torture
def test_a_training_learns_from_what_the_log_adds_to_it(shipped: RunningService) -> None:
    with shipped.client() as client:
        trained = client.train(force=True)
    assert trained["card"]["data"]["log"]["rows"] == 0


def test_a_first_start_that_is_killed_is_continued_also_where_a_token_was_made_before_it(
    service_database: Callable[[], Any], tmp_path: Path
) -> None:
    running = RunningService(tmp_path / "home", service_database().url)
    running.environment |= {"ASSAY_SHIPPED_DATA": "yes"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    environment |= {
        "ASSAY_HOME": str(running.home), "ASSAY_DATABASE_URL": running.database_url, "ASSAY_SHIPPED_DATA": "yes",
    }  # fmt: skip
    assay = [sys.executable, "-m", "assay.cli"]
    made = subprocess.run(
        [*assay, "token", "create", "first", "--scope", "admin"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
    )
    command = [*assay, "serve", "--port", str(running.port)]
    with running.log.open("ab") as log, psycopg.connect(running.database_url, autocommit=True) as connection:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        until = time.monotonic() + 60
        while (count := _events(connection)) == 0 and time.monotonic() < until:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert count > 0
        held = _events(connection)
        assert held < evidence.count()
        running.start_with(made.stdout.decode().strip())
        try:
            assert _events(connection) == evidence.count()
        finally:
            running.stop()


def _events(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT count(*) FROM event WHERE type <> 'assay.operation.performed.v1'").fetchone()
    return 0 if row is None else int(row[0])
