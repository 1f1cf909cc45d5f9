"""Links, the devices that opened them and what each was asked, in Postgres; their files by digest in the home."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg.rows import dict_row

from domain.answers.links import Link, LinkedModel, NewLink, Offer
from domain.errors import InvalidInput, LinkEnded, NotFound, PayloadTooLarge, ServiceUnavailable
from ingest.log.postgres import connect

__all__ = ["DRAWN", "FILE_LIMIT_BYTES", "POOL", "ClaimRecord", "LinkFiles", "LinkStore", "TaskRecord", "device_of"]

POOL = 64
"""Inputs of a model, with reference outputs that never leave the server."""
DRAWN = 8
"""Of these each device gets so many."""
GRACE = timedelta(days=7)
"""A device that opened a link may send what it measured for so long after the link has expired: it may be offline."""
FILE_LIMIT_BYTES = 2 * 1024**3

_LINK = """
SELECT l.id, l.offer, l.uses, l.created_by, l.created_at, l.expires_at, l.revoked_at,
    (SELECT count(*) FROM browser_claim AS c WHERE c.link = l.id) AS opened, clock_timestamp() AS now
FROM browser_link AS l
"""
_CLAIM = """
SELECT c.id, c.link, c.device, c.claimed_at, l.offer, l.expires_at, l.revoked_at, clock_timestamp() AS now
FROM browser_claim AS c JOIN browser_link AS l ON l.id = c.link WHERE c.sha256 = %s
"""
_TASK = "SELECT claim, model, drawn, begun_at FROM browser_task WHERE claim = %s AND model = %s"


class ClaimRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A device that opened a link, and what the link offers; `now` is the clock of the database."""

    id: str
    device: str
    claimed_at: datetime
    expires_at: datetime
    offer: Offer
    now: datetime

    def model(self, digest: str) -> LinkedModel:
        """Return the model of a file; NotFound where the link does not offer it."""
        for model in self.offer.models:
            if model.file.digest == digest:
                return model
        raise NotFound("this link does not offer that model.", field="model", remedy="Send the result of its own link.")


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which inputs a device was given for a model, and since when."""

    drawn: list[int]
    begun_at: datetime


class LinkStore:
    """The links in one database; connects for each call, safe from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url

    def create(self, new: NewLink, by: str) -> tuple[str, Link]:
        """Make a link; return its secret, this once, and the link."""
        offer = {name: getattr(new, name) for name in Offer.__struct_fields__}
        secret, name = secrets.token_urlsafe(24), secrets.token_hex(6)
        expires = datetime.now(UTC) + timedelta(seconds=new.expires_s)
        with self._connection() as connection:
            connection.execute(
                "INSERT INTO browser_link (id, sha256, offer, uses, created_by, expires_at) VALUES (%s, %s, %s, %s, %s, %s)",
                [name, _sha256(secret), msgspec.json.encode(offer).decode(), new.uses, by, expires],
            )
            row = connection.execute(f"{_LINK} WHERE l.id = %s", [name]).fetchone()
        assert row is not None
        return secret, _link(row)

    def listed(self) -> list[Link]:
        """Return all links, the newest first."""
        with self._connection() as connection:
            return [_link(row) for row in connection.execute(f"{_LINK} ORDER BY l.created_at DESC, l.id").fetchall()]

    def revoke(self, name: str) -> Link:
        """Revoke a link: nobody opens it any more, and no device of it sends results; NotFound where there is none."""
        with self._connection() as connection:
            connection.execute(
                "UPDATE browser_link SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = %s", [name]
            )
            row = connection.execute(f"{_LINK} WHERE l.id = %s", [name]).fetchone()
        if row is None:
            raise NotFound(f"no link is {name[:100]!r}.", field="id", remedy="`assay browser links` shows them.")
        return _link(row)

    def claim(self, secret: str, device: str) -> tuple[str, ClaimRecord]:
        """Let a device open a link; return the key of all that it does. A device that opens it again counts once."""
        key = secrets.token_urlsafe(24)
        with self._connection() as connection:
            row = connection.execute(f"{_LINK} WHERE l.sha256 = %s FOR UPDATE OF l", [_sha256(secret)]).fetchone()
            if row is None:
                raise NotFound("no link has this token.", field="token", remedy="Open the whole address again.")
            _require_open(row)
            again = connection.execute(
                "UPDATE browser_claim SET sha256 = %s WHERE link = %s AND device = %s RETURNING id",
                [_sha256(key), row["id"], device],
            ).fetchone()
            if again is None:
                # Counted while the link is locked: what was read before the lock may be old.
                opened = connection.execute("SELECT count(*) AS n FROM browser_claim WHERE link = %s", [row["id"]])
                if opened.fetchone()["n"] >= row["uses"]:  # type: ignore[index]
                    raise LinkEnded(
                        f"the link has been opened by {row['uses']} device{'s' if row['uses'] > 1 else ''}, as often as it may.",
                        field="token",
                        remedy="Ask for another link; --uses says how many devices may open one.",
                    )
                connection.execute(
                    "INSERT INTO browser_claim (id, link, device, sha256) VALUES (%s, %s, %s, %s)",
                    [secrets.token_hex(8), row["id"], device, _sha256(key)],
                )
        return key, self.claimed(key)

    def claimed(self, key: str) -> ClaimRecord:
        """Return the device of a key; LinkEnded where its link was revoked or has been over for a week."""
        with self._connection() as connection:
            row = connection.execute(_CLAIM, [_sha256(key)]).fetchone()
        if row is None:
            raise NotFound("no device has this key.", field="key", remedy="Open the link again.")
        if row["revoked_at"] is not None:
            raise LinkEnded("the link was revoked.", field="key", remedy="Ask for another link.")
        if row["now"] > row["expires_at"] + GRACE:
            raise LinkEnded("the link expired a week ago.", field="key", remedy="Ask for another link.")
        return ClaimRecord(
            id=row["id"],
            device=row["device"],
            claimed_at=row["claimed_at"],
            expires_at=row["expires_at"],
            offer=msgspec.json.decode(row["offer"], type=Offer),
            now=row["now"],
        )

    def begin(self, claim: str, model: str, drawn: list[int]) -> TaskRecord:
        """Begin a model on a device and return what it was given first; the draw of a second time does not count."""
        with self._connection() as connection:
            connection.execute(
                "INSERT INTO browser_task (claim, model, drawn) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                [claim, model, drawn],
            )
            row = connection.execute(_TASK, [claim, model]).fetchone()
        assert row is not None
        return TaskRecord(drawn=row["drawn"], begun_at=row["begun_at"])

    def task(self, claim: str, model: str) -> TaskRecord:
        """Return what a device was given for a model; NotFound where it never asked."""
        with self._connection() as connection:
            row = connection.execute(_TASK, [claim, model]).fetchone()
        if row is None:
            raise NotFound(
                "this device was given no inputs of that model.", field="model", remedy="Open the link again."
            )
        return TaskRecord(drawn=row["drawn"], begun_at=row["begun_at"])

    def _connection(self) -> psycopg.Connection[dict[str, Any]]:
        try:
            return connect(self.url, row_factory=dict_row)
        except psycopg.OperationalError as error:
            raise ServiceUnavailable(f"Postgres does not answer: {error}.", remedy="Retry.") from error


def _require_open(row: dict[str, Any]) -> None:
    if row["revoked_at"] is not None:
        raise LinkEnded("the link was revoked.", field="token", remedy="Ask for another link.")
    if row["now"] >= row["expires_at"]:
        raise LinkEnded(
            f"the link expired at {row['expires_at']:%Y-%m-%d %H:%M} UTC.",
            field="token",
            remedy="Ask for another link; --expires says how long one lasts.",
        )


def _link(row: dict[str, Any]) -> Link:
    over = row["now"] >= row["expires_at"]
    used = row["opened"] >= row["uses"]
    return Link(
        id=row["id"],
        state="revoked" if row["revoked_at"] else "expired" if over else "used" if used else "open",
        models=[f"{model['model']['id']} {model['precision']}" for model in json.loads(row["offer"])["models"]],
        uses=row["uses"],
        opened=row["opened"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )


def device_of(secret: str) -> str:
    """Return the name of a device by what its page keeps of itself, which the name does not tell."""
    return f"page-{_sha256(secret)[:8].hex()}"


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class LinkFiles:
    """Files by their digest in a folder: those that anybody may fetch who knows the digest, and pools, which nobody may."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, digest: str, *, private: bool = False) -> Path:
        """Return where a file is, or would be."""
        return self._folder / ("pools" if private else "files") / digest.removeprefix("sha256:")

    async def write(self, digest: str, content: AsyncIterator[bytes], *, private: bool) -> int:
        """Write a file that is not there yet and return its size; InvalidInput where its digest is another."""
        target = self.path(digest, private=private)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        size, found = 0, hashlib.sha256()
        try:
            with beside.open("wb") as handle:
                async for piece in content:
                    size += len(piece)
                    if size > FILE_LIMIT_BYTES:
                        raise PayloadTooLarge("over 2 GiB.", field="$", remedy="Offer a smaller model or precision.")
                    found.update(piece)
                    handle.write(piece)
            if f"sha256:{found.hexdigest()}" != digest:
                raise InvalidInput(
                    f"the content has the digest sha256:{found.hexdigest()}.",
                    field="digest",
                    remedy="Send the file again: it was cut or changed on its way.",
                )
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        return size
