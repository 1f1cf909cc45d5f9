"""Connections: silent ones, many from one address, few file descriptors, clients that leave, and workers replaced."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import psutil
import pytest

from api.settings import Settings
from domain.errors import UsageError

HEAD = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SLOW_QUERY = "SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c WHERE a.range + b.range = c.range"


@contextmanager
def silent(service: Any, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        connect = lambda: socket.create_connection(("127.0.0.1", service.port), timeout=30)  # noqa: E731
        yield [stack.enter_context(connect()) for _ in range(count)]


def closed(connection: socket.socket) -> bool:
    """Wait until the service closes a connection; False where it does not."""
    connection.settimeout(20)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@pytest.fixture
def limited(fresh_service: Callable[..., Any]) -> Any:
    service = fresh_service()
    service.environment |= {"ASSAY_IDLE_TIMEOUT_S": "2", "ASSAY_CONNECTIONS_PER_ADDRESS": "32"}
    return service.start()


def test_silent_connections_are_closed_and_the_service_answers(limited: Any) -> None:
    with silent(limited, 200) as connections:
        assert httpx.get(f"{limited.url}/health/live", timeout=10).status_code == 200
        assert all(closed(connection) for connection in connections)
    with silent(limited, 1) as (half,):
        half.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        assert closed(half)


def test_connections_over_the_limit_of_an_address_are_closed_and_a_request_under_way_is_not(
    fresh_service: Callable[..., Any], build: Any
) -> None:
    service = fresh_service()
    service.environment |= {"ASSAY_IDLE_TIMEOUT_S": "600", "ASSAY_CONNECTIONS_PER_ADDRESS": "32"}
    service.start()
    with (
        httpx.stream("GET", f"{service.url}/v1/events/stream", timeout=20) as events,
        silent(service, 100) as connections,
    ):
        wait_for(lambda: sum(is_open(connection) for connection in connections) <= 32)
        # The stream is the oldest connection and has sent nothing since: it goes on.
        assert httpx.get(f"{service.url}/health/live", timeout=10).status_code == 200
        with service.client() as client:
            position = client.post_events([build.event("assay.test.example.v1", {})])["last_position"]
        for line in events.iter_lines():
            if str(position) in line:
                break
        else:
            pytest.fail("the stream was closed")


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


@pytest.mark.torture
def test_service_answers_with_64_file_descriptors(fresh_service: Callable[..., Any]) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    service = fresh_service()
    service.environment |= {"ASSAY_IDLE_TIMEOUT_S": "2"}
    service.before_start = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    service.start()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    assert psutil.Process(service.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (64, 64)
    with silent(service, 100):
        assert httpx.get(f"{service.url}/health/live", timeout=20).status_code == 200
        assert httpx.get(f"{service.url}/v1/events", timeout=20).json()["events"] == []


def test_query_ends_when_its_client_leaves(limited: Any) -> None:
    with socket.create_connection(("127.0.0.1", limited.port)) as connection:
        body = json.dumps({"timeout_s": 60, "sql": SLOW_QUERY}).encode()
        connection.sendall(
            b"POST /v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        child = wait_for(lambda: query_children(limited))[0]
    wait_for(lambda: not child.is_running())


def query_children(service: Any) -> list[psutil.Process]:
    children = psutil.Process(service.process.pid).children(recursive=True)
    return [child for child in children if child.is_running() and "query" in child.cmdline()]


def wait_for(condition: Callable[[], Any], within_s: float = 20) -> Any:
    until = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return value


def test_no_connection_is_refused_while_workers_are_replaced(fresh_service: Callable[..., Any]) -> None:
    service = fresh_service("--role", "ingest", "--workers", "1").start()
    ending = threading.Event()
    answers: list[int] = []
    failures: list[str] = []
    unanswered: list[str] = []

    def ask() -> None:
        # Two hundred times a second by all four, which leaves the processors to who replaces the workers.
        while not ending.wait(0.02):
            try:
                answers.append(httpx.get(f"{service.url}/health/live", timeout=30).status_code)
            except httpx.RemoteProtocolError as error:
                # Its worker ended after it was connected and before it had asked: a client asks again.
                unanswered.append(str(error))
            except httpx.HTTPError as error:
                failures.append(repr(error))

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    supervisor = psutil.Process(service.process.pid)
    for _ in range(2):
        before = {child.pid for child in workers(supervisor)}
        os.kill(service.process.pid, signal.SIGHUP)
        wait_for(lambda before=before: (now := {child.pid for child in workers(supervisor)}) and not now & before, 60)
    ending.set()
    for thread in asking:
        thread.join()
    assert failures == []
    assert len(answers) > 50
    # At most what four clients had just connected at each of two ends of a worker.
    assert len(unanswered) <= 8
    assert all("without sending a response" in words for words in unanswered)
    assert set(answers) == {200}


def workers(supervisor: psutil.Process) -> list[psutil.Process]:
    started = []
    for child in supervisor.children():
        try:
            if "spawn_main" in " ".join(child.cmdline()):
                started.append(child)
        except psutil.NoSuchProcess:
            continue
    return started


@pytest.mark.parametrize("name", ["ASSAY_IDLE_TIMEOUT_S", "ASSAY_CONNECTIONS_PER_ADDRESS"])
@pytest.mark.parametrize("text", ["0", "-1", "many", "nan"])
def test_limits_that_make_no_sense_are_refused(name: str, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        Settings.from_environment({"ASSAY_HOME": "unused", name: text})
    assert refused.value.field == name


@pytest.mark.torture
def test_two_thousand_silent_connections(fresh_service: Callable[..., Any]) -> None:
    service = fresh_service().start()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with silent(service, 2048):
        assert httpx.get(f"{service.url}/health/live", timeout=20).status_code == 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
