"""Peers: other Assay services whose events are pulled into this log, and what may come from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from domain.errors import UsageError
from domain.events import PRICE_PUBLISHED, SAMPLES_RECORDED
from domain.permissions import PERMISSIONS, permission_for

__all__ = [
    "DEFAULT_TYPES",
    "EVERY_SOURCE",
    "PAGE_EVENTS",
    "ExactEvent",
    "NewPeer",
    "PageReceipt",
    "Peer",
    "PeerList",
    "PeerPage",
    "PeerProblem",
    "RefusedEvent",
    "RemovedPeer",
    "Whence",
    "full_type",
    "matches",
    "require_peer",
    "travels",
]

EVERY_SOURCE = "*"
PAGE_EVENTS = 1000
"""The most events of one page."""
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f]+$(?!\n)")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)")]
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def travels(type_: str) -> bool:
    """Return whether events of a type may come from a peer.

    What only an admin or the service itself may append never does (predictors, snapshots, baselines, alerts, operations),
    nor what happens to jobs. Neither do types below `assay.` that this version does not know: a later version may give
    them an effect.
    """
    if type_.startswith("assay.job.") or (type_.startswith("assay.") and type_ not in PERMISSIONS):
        return False
    return permission_for(type_).scope in ("append", "jobs")


DEFAULT_TYPES: tuple[str, ...] = tuple(
    name for name in PERMISSIONS if travels(name) and name not in (SAMPLES_RECORDED, PRICE_PUBLISHED)
)
"""The types that are taken unless others are named: all that may come but raw samples and prices."""


class NewPeer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A peer to add. A source may end with `*`; `relayed` also takes what the peer got from its own peers."""

    name: Name
    url: Text
    sources: Annotated[list[Text], msgspec.Meta(min_length=1, max_length=100)]
    types: Annotated[list[Text], msgspec.Meta(min_length=1, max_length=100)]
    relayed: bool = False
    token_file: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] | None = None


class Peer(NewPeer, frozen=True, kw_only=True):
    """A peer and how far its log was read.

    `position` is a position of the peer's log, whose newest was `last_position` at the last pull. `accepted`, `duplicate`
    and `refused` count events since the peer was added; `refusal` is the reason of the last refused event, and
    `problem` why the last pull ended early.
    """

    id: int
    log: str | None
    epoch: int | None
    position: int
    last_position: int | None
    accepted: int
    duplicate: int
    refused: int
    refusal: str | None
    problem: str | None
    problem_at: datetime | None
    added_at: datetime
    pulled_at: datetime | None

    @property
    def lag(self) -> int | None:
        """How many positions of the peer's log were unread at the last pull; None before the first."""
        return None if self.last_position is None else max(0, self.last_position - self.position)


class PeerList(msgspec.Struct, frozen=True, kw_only=True):
    """All peers, in the order in which they were added."""

    items: list[Peer]


class RemovedPeer(msgspec.Struct, frozen=True, kw_only=True):
    """A peer that was removed, and how many events that it brought stay in the log."""

    name: str
    events: int


class PeerProblem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a pull ended early."""

    detail: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]


class PeerPage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a page of a peer's log covers: all that is taken with `after` < position ≤ `upto`."""

    log: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$(?!\n)")]
    epoch: Position
    after: Position
    upto: Position
    last_position: Position


class ExactEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event exactly as its log holds it; `body` is its text, None where raw samples have expired."""

    position: Position
    digest: Digest
    body: str | None


class RefusedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a page that was left out, and why; the others of the page are taken."""

    position: int
    field: str | None
    detail: str


class PageReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a page. `position` is how far the peer's log is read now, `last_position` is one of this log."""

    accepted: int
    duplicate: int
    expired: int
    refused: list[RefusedEvent]
    position: int
    last_position: int | None


class Whence(msgspec.Struct, frozen=True, kw_only=True):
    """The peer that brought an event, and the event's position in the log of that peer."""

    peer: str
    position: int


def matches(patterns: Sequence[str], source: str) -> bool:
    """Return whether a source is one of these, or begins as one that ends with `*`."""
    return any(source.startswith(pattern[:-1]) if pattern.endswith("*") else source == pattern for pattern in patterns)


def full_type(word: str) -> str:
    """Return the type that a word names: `measurement.recorded` is `assay.measurement.recorded.v1`."""
    return f"assay.{word}.v1" if f"assay.{word}.v1" in PERMISSIONS else word


def require_peer(peer: NewPeer) -> None:
    """Raise UsageError where a peer's address, sources or types cannot be used."""
    try:
        address = urlsplit(peer.url)
        valid = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        address, valid = urlsplit(""), False
    if not valid or address.query or address.fragment:
        raise UsageError(
            f"{peer.url!r} is not the address of a service.", field="url", remedy="Write https://host:port."
        )
    if address.username or address.password:
        raise UsageError(
            "the address holds a user or a password.", field="url", remedy="Put a token into a file: --token-file FILE."
        )
    for pattern in peer.sources:
        if "*" in pattern[:-1]:
            raise UsageError(
                f"{pattern!r} has a * before its end.",
                field="sources",
                remedy="Write a source, or its beginning and *.",
            )
    for type_ in peer.types:
        if not travels(type_):
            raise UsageError(
                f"events of type {type_!r} never come from a peer.",
                field="types",
                remedy=f"Name some of: {', '.join(name for name in PERMISSIONS if travels(name))}.",
            )
