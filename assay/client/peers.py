"""Peers: the routes of this service about them, and the reader of another service's log, which trusts nothing of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from assay.client.frames import Tabular
from assay.client.transport import FIRST_WAIT_S, LONGEST_WAIT_S, TRY_AGAIN, authorities, checked, decoded
from domain.errors import (
    AssayError,
    PeerRefused,
    ProjectionBehind,
    ServiceUnavailable,
    Unauthenticated,
    VersionConflict,
)
from domain.hosts import is_loopback
from domain.sharing.peers import (
    PAGE_EVENTS,
    NewPeer,
    PageReceipt,
    Peer,
    PeerList,
    PeerPage,
    PeerProblem,
    RemovedPeer,
)

__all__ = ["FetchedPage", "PeerReader", "Peers", "Pulled", "pull"]

PAGE_LIMIT_BYTES = 12 * 2**20
"""Of the answer of a peer: the service cuts a page at 4 MiB of events, whose text at most doubles in a line."""
LINE_LIMIT_BYTES = 2**20
ANSWER_S = 30.0
"""A peer that sends nothing for so long counts as away."""
PAGE_S = 300.0
"""The longest that one page may take."""
TABLES_S = 3600.0
"""How long a page waits for the tables, which a retraction of a run or an alias is judged by."""
WINDOW = 20_000
"""Positions that one request covers at first; more where none of their events is wanted."""
NDJSON = "application/x-ndjson"


class Peers(Tabular):
    """The routes of peers."""

    def add_peer(self, peer: NewPeer) -> Peer:
        """Add a peer, to be read from its first position on; NameTaken where another has its name."""
        return msgspec.convert(self._post("/v1/peers", msgspec.to_builtins(peer), again=False), Peer)

    def peers(self) -> list[Peer]:
        """Return the peers, in the order in which they were added."""
        return msgspec.convert(self._get("/v1/peers"), PeerList).items

    def peer(self, name: str) -> Peer:
        """Return one peer; NotFound without one of this name."""
        return msgspec.convert(self._get(_path(name)), Peer)

    def remove_peer(self, name: str) -> RemovedPeer:
        """Remove a peer; what it brought stays in the log."""
        response = self._send("DELETE", _path(name))
        return msgspec.convert(checked(response, decoded(response)), RemovedPeer)

    def take_peer_page(self, name: str, page: PeerPage, lines: bytes) -> PageReceipt:
        """Append a page of a peer's log; PeerRefused where it cannot be true, VersionConflict after another pull."""
        content = msgspec.json.encode(page) + b"\n" + lines
        response = self._send(
            "POST", f"{_path(name)}/pages", content=content, headers={"Content-Type": NDJSON}, timeout=120
        )
        return msgspec.convert(checked(response, decoded(response)), PageReceipt)

    def report_peer_problem(self, name: str, detail: str) -> Peer:
        """Keep why a pull ended early, until one succeeds."""
        problem = PeerProblem(detail=detail[:2000])
        return msgspec.convert(self._post(f"{_path(name)}/problems", msgspec.to_builtins(problem)), Peer)


def _path(name: str) -> str:
    return f"/v1/peers/{quote(name, safe='')}"


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a peer's log as it was sent: what it covers, and its lines."""

    page: PeerPage
    lines: bytes


class _LastLine(msgspec.Struct):
    position: int


class PeerReader:
    """Reads the log of a peer page by page; a context manager. It never holds more than one page of bounded size.

    Everything that is not an answer of an honest service is PeerRefused: redirects, other media types, compression, lines
    and pages without end. ServiceUnavailable where the peer does not answer for `patience_s`.
    """

    def __init__(self, peer: NewPeer, token: str | None, *, patience_s: float) -> None:
        self._peer = peer
        self._patience_s = patience_s
        self._window = WINDOW
        headers = {"Accept": NDJSON, "Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.Client(
            base_url=peer.url.rstrip("/"),
            headers=headers,
            timeout=ANSWER_S,
            follow_redirects=False,
            # A proxy of the environment is for other hosts than this machine.
            trust_env=not is_loopback(urlsplit(peer.url).hostname or ""),
            verify=authorities(peer.url),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def read(self, after: int, *, limit: int = PAGE_EVENTS) -> FetchedPage:
        """Return the page after a position of the peer's log; tried again while the peer is away."""
        until = time.monotonic() + self._patience_s
        bound = FIRST_WAIT_S
        while True:
            try:
                page = self._page(after, limit)
            except ServiceUnavailable as error:
                wait = error.retry_after_s or random.uniform(0, bound)
                if time.monotonic() + wait > until:
                    raise
                time.sleep(wait)
                bound = min(2 * bound, LONGEST_WAIT_S)
            else:
                self._window = WINDOW if page.lines else 2 * self._window
                return page

    def _page(self, after: int, limit: int) -> FetchedPage:
        upto = min(after + self._window, 2**63 - 1)
        query: dict[str, str | int | list[str]] = {
            "after": after,
            "upto": upto,
            "limit": limit,
            "type": self._peer.types,
            "sources": self._peer.sources,
            "relayed": str(self._peer.relayed).lower(),
            "exact": "true",
        }
        try:
            with self._http.stream("GET", "/v1/events", params=query) as response:
                self._require_answer(response)
                lines = self._lines(response)
                return _covered(response, lines, after, upto)
        except httpx.HTTPError as error:
            raise ServiceUnavailable(
                f"the peer {self._peer.name} at {self._peer.url} does not answer ({type(error).__name__}).",
                field="url",
                remedy="Check that it runs and can be reached from here; a pull goes on where this one ended.",
            ) from error

    def _require_answer(self, response: httpx.Response) -> None:
        """Raise what is wrong with the head of an answer."""
        status = response.status_code
        if status in TRY_AGAIN or status >= 500:
            raise ServiceUnavailable(
                f"the peer {self._peer.name} answers {status}.", field="url", remedy="Try again later."
            )
        if status in (401, 403):
            raise Unauthenticated(
                f"the peer {self._peer.name} lets nobody read without a token of scope read.",
                field="token_file",
                remedy="Ask its operator for one, and name the file that holds it: --token-file FILE.",
            )
        if response.is_redirect:
            where = response.headers.get("location", "")[:200]
            raise _refused(
                f"the peer sends on to {where!r}", "url", "Add that address as the peer if it is the right one."
            )
        media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if status != 200 or media != NDJSON or "assay-log" not in response.headers:
            raise _refused(
                f"the peer answers {status} as {media[:80] or 'nothing'}, not the lines of a log",
                "url",
                "Check the address; the peer must be an Assay service that knows peers.",
            )
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise _refused("the peer sends compressed lines that nobody asked for", "Content-Encoding")

    def _lines(self, response: httpx.Response) -> bytes:
        """Return the lines of an answer, which is cut off at the limits of a line, a page, and the time for one."""
        until = time.monotonic() + PAGE_S
        pieces: list[bytes] = []
        size = line = 0
        for piece in response.iter_raw():
            size += len(piece)
            end = piece.rfind(b"\n")
            line = line + len(piece) if end < 0 else len(piece) - end - 1
            if line > LINE_LIMIT_BYTES:
                raise _refused(f"the peer sends a line of more than {LINE_LIMIT_BYTES:,} bytes", "page")
            if size > PAGE_LIMIT_BYTES:
                raise _refused(f"the peer sends a page of more than {PAGE_LIMIT_BYTES:,} bytes", "page")
            if time.monotonic() > until:
                raise _refused(f"the peer takes more than {PAGE_S:.0f} s for a page", "page")
            pieces.append(piece)
        if line:
            raise _refused("the peer ends a page in the middle of a line", "page")
        return b"".join(pieces)


def _covered(response: httpx.Response, lines: bytes, after: int, upto: int) -> FetchedPage:
    """Return the lines with what they cover: up to the last of them where there are more, else all that was asked for."""
    last = _number(response, "assay-last-position")
    covered = min(upto, last)
    if "link" in response.headers:
        try:
            covered = msgspec.json.decode(lines[lines.rfind(b"\n", 0, -1) + 1 :], type=_LastLine).position
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _refused("the peer says that there is more after a page without events", "Link") from error
    page = {
        "log": response.headers["assay-log"],
        "epoch": _number(response, "assay-epoch"),
        "after": after,
        # A log that ends before `after` went back; the service says so with what to do.
        "upto": covered,
        "last_position": last,
    }
    try:
        return FetchedPage(page=msgspec.convert(page, PeerPage), lines=lines)
    except msgspec.ValidationError as error:
        raise _refused(f"the peer tells of its log what cannot be ({error})", "Assay-Log") from error


def _number(response: httpx.Response, name: str) -> int:
    text = response.headers.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise _refused(f"the peer has {text[:40]!r} for {name}", name)
    return int(text)


def _refused(what: str, field: str, remedy: str | None = None) -> PeerRefused:
    return PeerRefused(
        f"{what}; nothing of this page was kept.",
        field=field,
        remedy=remedy or "Ask whoever runs the peer; `assay peer remove` ends it, and what came before stays.",
    )


class Pulled(msgspec.Struct, kw_only=True):
    """What one pull brought. `reasons` counts the refused events by field and reason; `problem` is why it ended early."""

    peer: str
    accepted: int = 0
    duplicate: int = 0
    expired: int = 0
    refused: int = 0
    reasons: dict[str, int] = {}
    position: int = 0
    last_position: int | None = None
    problem: str | None = None

    def add(self, receipt: PageReceipt) -> None:
        """Add what became of a page."""
        self.accepted += receipt.accepted
        self.duplicate += receipt.duplicate
        self.expired += receipt.expired
        self.refused += len(receipt.refused)
        self.position = receipt.position
        for event in receipt.refused:
            reason = f"{event.field or '$'}: {event.detail}"
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if receipt.last_position is not None:
            self.last_position = max(self.last_position or 0, receipt.last_position)


def pull(
    client: Peers,
    name: str,
    token: str | None,
    *,
    patience_s: float,
    pulled: Pulled | None = None,
    on_page: Callable[[int, int], None] | None = None,
) -> Pulled:
    """Bring what a peer has now: page by page, the next one being read while one is appended.

    It counts into `pulled`, and calls `on_page(done, whole)` after each page with positions of the peer's log. What ends
    it early is kept at the peer and raised; all pages before it stay.
    """
    peer = client.peer(name)
    pulled = pulled or Pulled(peer=name)
    pulled.position = peer.position
    try:
        with PeerReader(peer, token, patience_s=patience_s) as reader, ThreadPoolExecutor(1) as ahead:
            goal: int | None = None
            reading = ahead.submit(reader.read, peer.position)
            while goal is None or pulled.position < goal:
                fetched = reading.result()
                goal = fetched.page.last_position if goal is None else goal
                if fetched.page.after < fetched.page.upto < goal:
                    reading = ahead.submit(reader.read, fetched.page.upto)
                try:
                    pulled.add(_taken(client, name, fetched))
                except VersionConflict:
                    # Another pull was quicker, or the answer to this page was lost after it was taken.
                    pulled.position = client.peer(name).position
                    reading = ahead.submit(reader.read, pulled.position)
                if on_page is not None:
                    on_page(pulled.position, goal)
    except AssayError as error:
        _report(client, name, error)
        raise
    return pulled


def _taken(client: Peers, name: str, fetched: FetchedPage) -> PageReceipt:
    """Return what became of a page; an event that is judged by the tables waits until they have what came before it."""
    until = time.monotonic() + TABLES_S
    while True:
        try:
            return client.take_peer_page(name, fetched.page, fetched.lines)
        except ProjectionBehind:
            if time.monotonic() > until:
                raise
            time.sleep(1)


def _report(client: Peers, name: str, error: AssayError) -> None:
    try:
        client.report_peer_problem(name, str(error))
    except AssayError:
        return
