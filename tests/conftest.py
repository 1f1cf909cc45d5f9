"""Fixtures for every test: a real Postgres, one server a session and one fresh database a test."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import pytest

os.environ["ASSAY_SHIPPED_DATA"] = "no"
"""Logs of tests begin empty; those of tests/integration/api/test_shipped_data.py do not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--postgres",
        default=os.environ.get("ASSAY_TEST_POSTGRES", "auto"),
        help="auto | embedded | testcontainers | postgresql://… of a server where databases may be made",
    )


FIRST = ("integration", "torture", "properties", "windows")
"""Folders whose files take longest, in this order; those of all others follow."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while modules are imported, and look no more at what they hold: it lasts as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Let the interpreter free at its end what was frozen; DuckDB's bindings report what stays as leaks."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: what is started last alone decides when the other workers have nothing to do."""
    items.sort(key=lambda item: next((at for at, name in enumerate(FIRST) if name in item.path.parts), len(FIRST)))


def _docker_answers() -> bool:
    if importlib.util.find_spec("testcontainers") is None:
        return False
    asked = subprocess.run(["docker", "version"], capture_output=True, check=False) if shutil.which("docker") else None
    return asked is not None and asked.returncode == 0


def _container_url() -> tuple[Any, str]:
    from testcontainers.postgres import PostgresContainer

    container = PostgresContainer("postgres:18", driver=None)
    container.start()
    return container, container.get_connection_url()


def _memory_folder() -> str | None:
    """Return a folder in memory with a gigabyte to spare: making and dropping databases waits for the disk each time."""
    folder = "/dev/shm"
    if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 1 << 30:
        return folder
    return None


def _bound(server: Any) -> None:
    """Keep a server that lies in memory small: its log of writes would take two gigabytes for every worker."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        for setting in ("max_wal_size = '160MB'", "min_wal_size = '32MB'", "autovacuum = off"):
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The server that tests make their databases on; an `ingest.log.postgres.Database`."""
    from ingest.log.postgres import Database, open_database

    choice = request.config.getoption("--postgres")
    if choice == "auto":
        choice = "testcontainers" if _docker_answers() else "embedded"
    if choice == "testcontainers":
        container, url = _container_url()
        yield Database(url)
        container.stop()
    elif choice == "embedded":
        named = os.environ.pop("ASSAY_DATABASE_URL", None)
        # Not below pytest's own folder: another session of the same user takes its rights away from the server.
        with (
            tempfile.TemporaryDirectory(prefix="assay-", dir=_memory_folder()) as folder,
            open_database(folder) as server,
        ):
            _bound(server)
            yield server
        if named is not None:
            os.environ["ASSAY_DATABASE_URL"] = named
    else:
        yield Database(choice)


@pytest.fixture(scope="session")
def database_template(postgres_server: Any) -> Iterator[str]:
    """Name of a database with the schema and nothing in it, to copy from: a tenth of the time of migrating."""
    from ingest.log.migrate import upgrade

    name = f"template_{uuid.uuid4().hex}"
    upgrade(postgres_server.create(name).url)
    yield name
    postgres_server.drop(name)


@pytest.fixture
def database(postgres_server: Any, database_template: str) -> Iterator[Any]:
    """A fresh database with the log's schema, an `ingest.log.postgres.Database`."""
    name = f"test_{uuid.uuid4().hex}"
    yield postgres_server.create(name, template=database_template)
    postgres_server.drop(name)


class Build:
    """Events with sensible data; keyword arguments replace or add parts of it."""

    SOURCE = "urn:assay:runner:test"

    @staticmethod
    def event(type_: str, data: dict[str, Any], **envelope: Any) -> dict[str, Any]:
        from domain.events import new_event

        return new_event(type_, data, **{"source": Build.SOURCE, **envelope})

    @staticmethod
    def subject(
        model: str = "acme/tiny",
        hardware: str = "acme-one",
        platform: str = "cpu",
        precision: str = "fp32",
        batch_size: int = 1,
        run_id: str = "run-1",
        **more: Any,
    ) -> dict[str, Any]:
        return {
            "run_id": run_id,
            "model": {"id": model, "category": "embedding", "family": "bert", "parameters": 1000},
            "workload": {
                "mode": "inference", "scenario": "single_stream", "batch_size": batch_size, "sequence_length": 128,
            },
            "execution": {
                "platform": platform, "runtime": {"name": "torch", "version": "2.13.0"}, "precision": precision,
            },
            "hardware": {"id": hardware, "kind": "cpu", "count": 1},
            "environment": {"fingerprint": "env-1", "os": "Linux", "libraries": {"torch": "2.13.0"}},
            "observed": {"device": platform, "platform": platform, "precision": precision, "fallback_share": 0.0},
            "provenance": {"origin": "measured", "source": "assay-runner 0.1"},
            **more,
        }  # fmt: skip

    @staticmethod
    def measurement(p50: float = 1.5, **parts: Any) -> dict[str, Any]:
        envelope = {key: parts.pop(key) for key in ("id", "time", "source") if key in parts}
        data = {
            "metrics": {"latency_ms": {"mean": p50, "p50": p50, "n": 60, "ci95": {"p50": [p50 * 0.99, p50 * 1.01]}}},
            "validity": {"verdict": "valid", "reasons": []},
            **Build.subject(**parts),
        }
        return Build.event("assay.measurement.recorded.v1", data, **envelope)

    @staticmethod
    def kernels(m: Any = (16, 32, 64), latency_ms: Any = (0.1, 0.15, 0.2), **parts: Any) -> dict[str, Any]:
        """Timings of matrix products of these rows, 64 columns and 128 summed over."""
        products = {
            "operator": "gemm", "timings": len(latency_ms), "columns": {"m": list(m), "latency_ms": list(latency_ms)},
            "fixed": {"n": 64, "k": 128},
        }  # fmt: skip
        data = {**products, **Build.subject(**parts)}
        del data["model"], data["workload"]
        return Build.event("assay.kernel.measured.v1", data)

    @staticmethod
    def test(outcome: str = "passed", **parts: Any) -> dict[str, Any]:
        data = {"outcome": outcome, "stage": "verify", **Build.subject(**parts)}
        if outcome != "passed":
            data["failure"] = {"error": "Mismatch", "message": "cosine 0.2"}
        return Build.event("assay.test.reported.v1", data)

    @staticmethod
    def failure(outcome: str = "unsupported", stage: str = "compile", **parts: Any) -> dict[str, Any]:
        failure = {"error": "NotImplementedError", "message": "no such operator"}
        data = {"outcome": outcome, "stage": stage, "failure": failure, "remedy": "Use fp32.", **Build.subject(**parts)}
        return Build.event("assay.measurement.failed.v1", data)

    @staticmethod
    def alias(alias: str, canonical: str, kind: str = "model") -> dict[str, Any]:
        return Build.event("assay.alias.declared.v1", {"kind": kind, "alias": alias, "canonical": canonical})

    @staticmethod
    def retraction(event_id: str | None = None, run_id: str | None = None) -> dict[str, Any]:
        target = {"event_id": event_id} if event_id else {"run_id": run_id}
        return Build.event("assay.measurement.retracted.v1", {"reason": "wrong clock", **target})


@pytest.fixture
def recorded_spans() -> Iterator[Callable[[], dict[str, Any]]]:
    """Returns the finished spans of this process by name; a tracer is in use during the test."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from domain import spans

    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans.use(provider.get_tracer("test"))
    yield lambda: {span.name: span for span in exporter.get_finished_spans()}
    spans.use(None)
    provider.shutdown()


@pytest.fixture(scope="session")
def build() -> type[Build]:
    """Makes events; see Build."""
    return Build


def append_events(database: Any, events: Iterable[dict[str, Any]]) -> list[Any]:
    """Check, append in one batch, and return what became of each."""
    from domain.events import decode_event, encode_event

    return append_decoded(database, [decode_event(encode_event(event)) for event in events])


def append_decoded(database: Any, events: Sequence[Any]) -> list[Any]:
    """Append events as they are, in one batch, and return what became of each."""
    from ingest.log.event_log import EventLog

    async def run() -> list[Any]:
        async with EventLog(database.url) as log:
            return await log.append(events)

    # In a thread: a browser that is driven has a loop in this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, run()).result()


@pytest.fixture
def append(database: Any) -> Callable[[Iterable[dict[str, Any]]], list[Any]]:
    """Appends events to the test's database; returns what became of each."""
    return lambda events: append_events(database, events)


def append_raw(database: Any, body: str, type_: str = "assay.measurement.recorded.v1", source: str = "urn:raw") -> int:
    """Append past the gate, as an older version might have, and return the position."""
    from domain.events import Decoded

    raw = body.encode()
    event = Decoded(
        id=str(uuid.uuid4()), type=type_, source=source, subject=None, time=None, digest=sha256(raw).digest(), raw=raw,
        data=None,
    )  # fmt: skip
    (answer,) = append_decoded(database, [event])
    position: int = answer.position
    return position


def rechain(connection: Any) -> None:
    """Compute the chain of all rows again, as an administrator can who rewrites the log; in the caller's transaction."""
    from ingest.log.chain import COPY_ROWS, genesis, link, rows
    from ingest.log.verify import identity

    previous = genesis(identity(connection)[0])
    links = []
    with connection.cursor() as cursor, cursor.copy(COPY_ROWS.format(where="")) as copy:
        for row in rows(copy):
            previous = link(previous, row.chained)
            links.append((previous, row.position))
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE event SET chain = %s WHERE position = %s", links)


def contents(connection: Any, kind: str) -> dict[str, list[str]]:
    """Return every row of every table or view of a projection as text, in the order in which DuckDB reads them."""
    names = connection.execute(
        "SELECT table_name FROM information_schema.tables "
        "WHERE table_schema = 'main' AND table_catalog = current_database() AND table_type = ? ORDER BY ALL",
        [kind],
    ).fetchall()
    return {
        name: [row for (row,) in connection.execute(f'SELECT to_json(t)::VARCHAR FROM "{name}" AS t').fetchall()]
        for (name,) in names
    }


def _definitions(connection: Any) -> list[Any]:
    rows: list[Any] = connection.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
    return sorted(rows)


def _without_epoch(rows: list[str]) -> list[dict[str, Any]]:
    # The same events may be in several epochs of a log: a restored backup begins another.
    return [{name: value for name, value in json.loads(row).items() if name != "epoch"} for row in rows]


def compare_projections(one: Any, other: Any) -> None:
    """Fail with the first table or view that differs. Takes DuckDB connections or Projections.

    Equal definitions over the same rows in the same order give the same views; those are read where an order differs.
    """
    first, second = (side.cursor() if hasattr(side, "catch_up") else side for side in (one, other))
    tables, others = contents(first, "BASE TABLE"), contents(second, "BASE TABLE")
    assert "measurement" in tables
    compare_rows(tables, others)
    if tables != others or _definitions(first) != _definitions(second):
        compare_rows(contents(first, "VIEW"), contents(second, "VIEW"))


def compare_rows(first: dict[str, list[str]], second: dict[str, list[str]]) -> None:
    """Fail with the first table whose rows differ, in whatever order."""
    assert first.keys() == second.keys()
    for name, rows in first.items():
        if name == "projection":
            assert _without_epoch(rows) == _without_epoch(second[name]), f"{name} differs"
        else:
            assert sorted(rows) == sorted(second[name]), f"{name} differs"


@pytest.fixture(scope="session")
def assert_same_projection() -> Callable[[Any, Any], None]:
    """Compares two projections table by table and view by view."""
    return compare_projections
