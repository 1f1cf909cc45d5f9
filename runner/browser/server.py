"""A loopback server for one page: its files, a model, tasks one after the other, and what the page says of them.

Every answer isolates the page (COOP, COEP, CORP), so that WebAssembly gets threads and a fine clock. The page sends the
random key of its session with each request; another program on this machine cannot read the model or speak in its place.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

import domain
from domain.errors import AssayError
from runner.machine.scrub import scrub

__all__ = ["PageFailed", "PageGone", "PageTimeout", "Session"]

PAGE_FILES = {"": "index.html"} | {name: name for name in ("index.html", "page.mjs", "worker.mjs", "features.mjs")}
MOST_BYTES = 2**31
"""The largest body that is read: outputs in base64, one message a request."""
_TYPES = {".html": "text/html; charset=utf-8", ".mjs": "text/javascript", ".wasm": "application/wasm"}
_ISOLATING = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_POLL_S = 20.0
_LOOK_S = 0.5


class PageFailed(AssayError):
    """The page could not do a step: it says at which stage, with the browser's own name of the error."""

    type = "browser-page-failed"
    status = 502

    def __init__(self, message: dict[str, Any]) -> None:
        self.stage = str(message.get("stage") or "run")
        self.name = str(message.get("name") or "Error")
        self.operator = message.get("operator")
        last = str(message.get("log") or "")
        where = f" (operator {self.operator})" if self.operator else ""
        said = f" Its log: {last}" if last and last not in str(message.get("message")) else ""
        super().__init__(scrub(f"{self.name}{where}: {message.get('message')}{said}"))


class PageGone(AssayError):
    """The browser ended, or its page crashed, before it had answered."""

    type = "browser-gone"
    status = 502


class PageTimeout(AssayError):
    """The page did not answer within its deadline."""

    type = "browser-timeout"
    status = 504


class Session:
    """A server on a free port for one page; `url` is what a browser opens. Use as a context manager.

    `runtime` is the folder of onnxruntime-web; a page that loads no model needs none.
    """

    def __init__(self, runtime: Path | None) -> None:
        self._key = secrets.token_urlsafe(24)
        self._runtime = runtime
        self._files: dict[str, Path | bytes] = {}
        self._tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._lost = threading.Event()
        self._http = _Server(self)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/?key={self._key}"

    def __enter__(self) -> Session:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Answer nothing more."""
        self._closing.set()
        self._tasks.put(b"")
        self._http.shutdown()
        self._http.server_close()

    def offer(self, name: str, content: Path | bytes) -> str:
        """Offer a file under a name and return its address for the page."""
        self._files[name] = content
        return f"files/{name}?key={self._key}"

    def ask(
        self,
        task: dict[str, Any],
        *,
        deadline_s: float,
        alive: Callable[[], bool],
        on_message: Callable[[dict[str, Any]], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Give the page a task and return all that it says of it; raises PageFailed, PageGone and PageTimeout."""
        self._tasks.put(msgspec.json.encode(task))
        messages: list[dict[str, Any]] = []
        for message in self.messages(deadline_s, alive):
            if on_message:
                on_message(message)
            if message["kind"] == "failed":
                raise PageFailed(message)
            if message["kind"] == "done":
                return messages
            messages.append(message)
        raise PageGone(
            "the browser ended, or its page crashed, before it answered.",
            remedy="Run it again; if it ends again, take a smaller model, or another browser with --browser.",
        )

    def messages(self, deadline_s: float, alive: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        """Yield what the page says until it is no more; raises PageTimeout when the time is over."""
        end = monotonic() + deadline_s
        while True:
            try:
                yield self._said.get(timeout=min(_LOOK_S, max(0.0, end - monotonic())))
            except queue.Empty:
                if self._lost.is_set() or not alive():
                    return
                if monotonic() >= end:
                    raise PageTimeout(
                        f"the page did not answer within {deadline_s:g} s.",
                        remedy="Give it more time with --timeout, or take a smaller model.",
                    ) from None

    def next_task(self) -> bytes:
        """Return the task that is asked for next; nothing where there is none for a while."""
        with suppress(queue.Empty):
            return self._tasks.get(timeout=_POLL_S)
        return b""

    def lose(self) -> None:
        """Note that the page is gone."""
        self._lost.set()

    def hear(self, body: bytes) -> None:
        """Take JSON lines of the page; those without the session's key are dropped. Raises ValueError for no JSON."""
        for line in filter(None, body.splitlines()):
            message = msgspec.json.decode(line, type=dict[str, Any])
            if secrets.compare_digest(str(message.pop("key", "")).encode(), self._key.encode()) and "kind" in message:
                self._said.put(message)

    def content(self, path: str, key: str) -> Path | bytes | None:
        """Return what lies at a path: the page's files and the runtime for all, models and inputs with the key."""
        name = path.removeprefix("/")
        if name in PAGE_FILES:
            return page_file(PAGE_FILES[name])
        if name.startswith("ort/") and self._runtime:
            file = self._runtime / name.removeprefix("ort/")
            return file if file.parent == self._runtime and file.is_file() else None
        if name.startswith("files/") and self.knows(key):
            return self._files.get(name.removeprefix("files/"))
        return None

    def knows(self, key: str) -> bool:
        """Return whether that is this session's key."""
        return secrets.compare_digest(key.encode(), self._key.encode())

    @property
    def closing(self) -> bool:
        """Whether nothing more is answered."""
        return self._closing.is_set()


def page_file(name: str) -> bytes:
    """Return a file of the page as it ships."""
    return resources.files(domain).joinpath("data", "browser", name).read_bytes()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, session: Session) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.session = session

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a page that goes closes its connections, and whoever waits for it is told."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # Else a body that follows its head waits 40 ms for the head's acknowledgement.
    server: _Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        key = parse_qs(parts.query).get("key", [""])[0]
        if parts.path == "/task":
            self._task(key)
            return
        if parts.path == "/presence" and self.server.session.knows(key):
            self._presence()
            return
        content = self.server.session.content(parts.path, key)
        if content is None:
            self._answer(HTTPStatus.NOT_FOUND, b"", "text/plain")
        elif isinstance(content, bytes):
            self._answer(HTTPStatus.OK, content, _type(parts.path))
        else:
            self._send_file(content)

    def do_POST(self) -> None:
        parts, length = urlsplit(self.path), int(self.headers.get("content-length") or 0)
        known = self.server.session.knows(parse_qs(parts.query).get("key", [""])[0])
        if parts.path != "/said" or not known or not 0 < length <= MOST_BYTES:
            self.close_connection = True
            self._answer(HTTPStatus.NOT_FOUND, b"", "text/plain")
            return
        try:
            self.server.session.hear(self.rfile.read(length))
        except (ValueError, msgspec.DecodeError):
            self._answer(HTTPStatus.BAD_REQUEST, b"", "text/plain")
            return
        self._answer(HTTPStatus.NO_CONTENT, b"", None)

    def _task(self, key: str) -> None:
        task = self.server.session.next_task() if self.server.session.knows(key) else b""
        if self.server.session.closing or not self.server.session.knows(key):
            self._answer(HTTPStatus.GONE, b"", "text/plain")
        elif task:
            self._answer(HTTPStatus.OK, task, "application/json")
        else:
            self._answer(HTTPStatus.NO_CONTENT, b"", None)

    def _presence(self) -> None:
        """Wait until the connection closes, which it does with the page."""
        self.close_connection = True
        with suppress(OSError):
            self.send_response(HTTPStatus.OK)
            for name, value in _ISOLATING.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b".")
            self.connection.recv(1)
        self.server.session.lose()

    def _send_file(self, path: Path) -> None:
        with path.open("rb") as file:
            self._head(HTTPStatus.OK, path.stat().st_size, _type(path.name))
            with suppress(ConnectionError):
                while block := file.read(1 << 20):
                    self.wfile.write(block)

    def _answer(self, status: HTTPStatus, body: bytes, kind: str | None) -> None:
        with suppress(ConnectionError):
            self._head(status, len(body), kind)
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, length: int, kind: str | None) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(length))
        for name, value in _ISOLATING.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _type(path: str) -> str:
    if path in ("", "/"):
        return _TYPES[".html"]
    return _TYPES.get(Path(path).suffix, "application/octet-stream")
