"""The server of a page: isolation, the key, tasks in order, what is heard, and how a page that goes is noticed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest

from runner.browser.server import PageFailed, PageGone, PageTimeout, Session


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Session, httpx.Client, str]]:
    with Session(folder) as session:
        key = parse_qs(urlsplit(session.url).query)["key"][0]
        with httpx.Client(base_url=session.url.partition("?")[0], timeout=10) as client:
            yield session, client, key


def page(client: httpx.Client, key: str, *messages: dict[str, Any]) -> threading.Thread:
    """Take one task as a page does and say these messages of it."""

    def work() -> None:
        client.get("task", params={"key": key})
        for message in messages:
            client.post("said", params={"key": key}, content=msgspec.json.encode({"key": key, **message}))

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("path", ["", "page.mjs", "worker.mjs", "ort/a.mjs", "files/m"])
def test_every_file_isolates_the_page(path: str, tmp_path: Path) -> None:
    (tmp_path / "a.mjs").write_text("export {};")
    with opened(tmp_path) as (session, client, key):
        session.offer("m", b"model")
        answer = client.get(path, params={"key": key})
    assert answer.status_code == 200
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-embedder-policy"] == "require-corp"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_modules_and_webassembly_have_the_types_that_browsers_ask_for(tmp_path: Path) -> None:
    (tmp_path / "a.wasm").write_bytes(b"\0asm")
    with opened(tmp_path) as (_, client, _key):
        assert client.get("page.mjs").headers["content-type"] == "text/javascript"
        assert client.get("ort/a.wasm").headers["content-type"] == "application/wasm"
        assert client.get("").headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", ["ort/../secret", "ort/%2e%2e/secret", "ort/none.mjs", "files/none", "secret"])
def test_nothing_else_is_served(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "runtime"
    folder.mkdir()
    (tmp_path / "secret").write_text("no")
    with opened(folder) as (_, client, key):
        assert client.get(path, params={"key": key}).status_code == 404


def test_without_the_key_no_model_no_task_and_no_word(tmp_path: Path) -> None:
    with opened(tmp_path) as (session, client, _):
        session.offer("m", b"model")
        assert client.get("files/m", params={"key": "other"}).status_code == 404
        assert client.get("task", params={"key": "other"}).status_code == 410
        assert client.post("said", content=b'{"kind": "done"}').status_code == 404


def test_what_is_said_of_a_task_is_returned_in_order(tmp_path: Path) -> None:
    with opened(tmp_path) as (session, client, key):
        thread = page(client, key, {"kind": "phase", "stage": "load"}, {"kind": "outputs", "ms": 2}, {"kind": "done"})
        messages = session.ask({"steps": ["load"]}, deadline_s=10, alive=lambda: True)
        thread.join()
    assert messages == [{"kind": "phase", "stage": "load"}, {"kind": "outputs", "ms": 2}]


def test_a_failure_has_its_stage_its_name_and_its_operator(tmp_path: Path) -> None:
    failed = {"kind": "failed", "stage": "compile", "name": "NotSupportedError", "message": "no", "operator": "Einsum"}
    with opened(tmp_path) as (session, client, key):
        thread = page(client, key, failed)
        with pytest.raises(PageFailed) as caught:
            session.ask({}, deadline_s=10, alive=lambda: True)
        thread.join()
    assert (caught.value.stage, caught.value.name, caught.value.operator) == ("compile", "NotSupportedError", "Einsum")
    assert "Einsum" in caught.value.detail


def test_words_with_another_key_in_them_are_dropped(tmp_path: Path) -> None:
    with opened(tmp_path) as (session, client, key):
        forged = msgspec.json.encode({"key": "other", "kind": "samples", "ms": [0.001]})
        assert client.post("said", params={"key": key}, content=forged).status_code == 204
        thread = page(client, key, {"kind": "done"})
        assert session.ask({}, deadline_s=10, alive=lambda: True) == []
        thread.join()


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"kind": NaN}', b"\xff\xfe"])
def test_what_is_no_message_is_refused_and_harms_nothing(body: bytes, tmp_path: Path) -> None:
    with opened(tmp_path) as (session, client, key):
        assert client.post("said", params={"key": key}, content=body).status_code == 400
        thread = page(client, key, {"kind": "done"})
        assert session.ask({}, deadline_s=10, alive=lambda: True) == []
        thread.join()


def test_a_page_whose_connection_closes_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path) as (session, client, key):
        connection = socket.create_connection(("127.0.0.1", client.base_url.port or 0))
        connection.sendall(f"GET /presence?key={key} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert connection.recv(100)
        connection.close()
        with pytest.raises(PageGone):
            session.ask({}, deadline_s=30, alive=lambda: True)


def test_a_browser_that_ended_is_gone_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as (session, _, _key), pytest.raises(PageGone):
        session.ask({}, deadline_s=600, alive=lambda: False)


def test_the_deadline_of_a_task_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as (session, _, _key), pytest.raises(PageTimeout) as caught:
        session.ask({}, deadline_s=0.05, alive=lambda: True)
    assert caught.value.remedy
