"""The one client of the dashboard, how its answers are kept, and what an answer has to hold."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar, cast

import httpx
import msgspec
import streamlit as st

from assay.client import Client
from assay.client.transport import patience
from domain.errors import AssayError, ServiceUnavailable

__all__ = [
    "KEPT",
    "PATIENCE_S",
    "PROBED_S",
    "SLOWEST_S",
    "NewerService",
    "SentRows",
    "WatchfulClient",
    "checked",
    "client",
    "decoded",
    "forget",
    "kept",
    "probe_again",
    "probed",
    "same_version",
    "sent_rows",
    "shared",
]

Answer = TypeVar("Answer")
Function = TypeVar("Function", bound=Callable[..., Any])
SLOWEST_S = 20.0
PROBED_S = 5.0
"""A service that has not said by then where it stands is too slow for a page; ASSAY_PATIENCE_S in its place."""
PATIENCE_S = 2.0
"""A page says that the service is away rather than keep its reader waiting for it; no longer than for a slow one."""
KEPT = 256
"""Answers of one kind that are kept; a recommendation is some 50 kB."""


class SentRows(msgspec.Struct, Generic[Answer], frozen=True, kw_only=True):
    """Rows of a list as structs, and each as the service sent it: JSON with every column, for the files of a panel."""

    items: list[Answer]
    sent: list[msgspec.Raw]
    next_cursor: str | None = None


class NewerService(AssayError):
    """The service answered in a form that this dashboard does not know."""

    type = "newer-service"
    status = 502


class WatchfulClient(Client):
    """A client that gives up early on a service that has stopped: while an answer takes long, it asks whether it is there at all."""

    def _send(self, method: str, path: str, *, again: bool = True, **options: Any) -> httpx.Response:
        """Send a request, and raise ServiceUnavailable where the service answers nothing meanwhile."""
        answer = _begun(lambda: super(WatchfulClient, self)._send(method, path, again=again, **options))
        half = _probed_s() / 2
        while True:
            try:
                return answer.result(half)
            except TimeoutError:
                self._require_life(half)

    def _require_life(self, half: float) -> None:
        try:
            # Whether it lives at all: how far its tables are is a question that may wait behind others.
            client(half)._get("/health/live")
        except ServiceUnavailable as stopped:
            raise ServiceUnavailable(
                f"the service at {self.server} has not answered within {2 * half:g} s.",
                field=stopped.field,
                remedy=stopped.remedy,
            ) from stopped


def _begun(ask: Callable[[], httpx.Response]) -> Future[httpx.Response]:
    """Begin to ask in a thread of its own, which ends with its own timeout and keeps no process from ending."""
    answer: Future[httpx.Response] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except Exception as problem:
            answer.set_exception(problem)

    threading.Thread(target=run, name="asked", daemon=True).start()
    return answer


def _one(function: Function) -> Function:
    # Nothing closes what is dropped: another reader may be in the midst of asking it. Its connections end with its last use.
    return cast("Function", st.cache_resource(show_spinner=False)(function))


class Keep(Protocol):
    """A decorator that leaves the type of what it decorates."""

    def __call__(self, function: Function, /) -> Function: ...


def kept(**limits: int) -> Keep:
    """Keep a function's answers by its arguments, the position of the log among them; `max_entries` bounds how many."""

    # The running mark in the corner is enough: a spinner would push the old picture away.
    def keep(function: Function, /) -> Function:
        return cast("Function", st.cache_data(show_spinner=False, **limits)(function))

    return keep


def shared(**limits: int) -> Keep:
    """Keep what a function returns by its arguments, as `kept`, but return the object itself: it must not be changed."""

    def keep(function: Function, /) -> Function:
        return cast("Function", st.cache_resource(show_spinner=False, **limits)(function))

    return keep


@_one
def client(timeout_s: float = SLOWEST_S) -> Client:
    """Return the one client of this process, for the service named when the dashboard was started; one for each patience."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--server", default=os.environ.get("ASSAY_SERVER"))
    server = parser.parse_known_args(sys.argv[1:])[0].server
    kind = WatchfulClient if timeout_s > _probed_s() else Client
    return kind(server=server, timeout_s=timeout_s, patience_s=min(PATIENCE_S, _probed_s()))


def _probed_s() -> float:
    """Return how long a page waits for the position of the service."""
    return min(patience(PROBED_S), SLOWEST_S)


def probed() -> dict[str, Any]:
    """Return the service's health, asked every two seconds at most; what is wrong with it is asked for as seldom.

    Readers wait for one answer together: each by himself would wait for all before him.
    """
    probe = _probe()
    if isinstance(probe, AssayError):
        raise probe.with_traceback(None)
    return dict(probe)


def _shared(function: Function) -> Function:
    return cast("Function", st.cache_resource(show_spinner=False, ttl=2, max_entries=1)(function))


@_shared
def _probe() -> dict[str, Any] | AssayError:
    try:
        return checked(dict(client(_probed_s()).ready()), "position")
    except AssayError as problem:
        return problem


def probe_again() -> None:
    """Ask for the service's health at the next question, however new the one that is kept: after a write it is behind."""
    cast("Any", _probe).clear()


def forget() -> None:
    """Drop what is kept, the connection too: a service that started again may stand at another address."""
    st.cache_data.clear()
    st.cache_resource.clear()


def checked(answer: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return an answer that has these keys. Raises NewerService."""
    missing = [key for key in keys if key not in answer]
    if missing:
        raise NewerService(
            f"The service answered without {', '.join(missing)}: it is of another version than this dashboard.",
            remedy="Install the same version of Assay for both, then reload.",
        )
    return answer


def decoded(answer: Mapping[str, Any], shape: type[Answer]) -> Answer:
    """Return an answer as a struct; members that the struct does not have are left out. Raises NewerService."""
    with same_version():
        return msgspec.json.decode(msgspec.json.encode(answer), type=shape)


@contextmanager
def same_version() -> Iterator[None]:
    """Raise NewerService where the client cannot read an answer."""
    try:
        yield
    except msgspec.ValidationError as error:
        raise NewerService(
            f"The service answered in another form ({error}): it is of another version than this dashboard.",
            remedy="Install the same version of Assay for both, then reload.",
        ) from error


def sent_rows(
    rows: Sequence[Mapping[str, Any]], shape: type[Answer], next_cursor: str | None = None
) -> SentRows[Answer]:
    """Return rows as structs, and as they were sent. Raises NewerService."""
    return SentRows(
        items=[decoded(row, shape) for row in rows],
        sent=[msgspec.Raw(msgspec.json.encode(row)) for row in rows],
        next_cursor=next_cursor,
    )
