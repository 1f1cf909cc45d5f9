"""How well the service keeps up, in sentences and rows: what the operations page says of a day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Literal, NamedTuple

import msgspec
import pandas as pd

from dashboard.address import Params, Read, text, understood
from domain.answers.links import BrowserDevice, Link
from domain.answers.operations import Archived, Day, DeadLetter, Health, ListedToken, Minute, Step
from domain.answers.sharing import HeldRow, SharedBundle
from domain.sharing.peers import Peer
from presentation import formatting

__all__ = [
    "Operations",
    "Standing",
    "archive_table",
    "behind",
    "bundle_table",
    "device_table",
    "held_table",
    "letter_table",
    "link_table",
    "peer_table",
    "per_second",
    "read_operations",
    "set_aside",
    "setting_table",
    "standing",
    "token_table",
    "took",
    "used_words",
]


WORKS = "✓ works"
LATE_S = 10.0
"""Events that wait longer are worth a word."""


class Standing(NamedTuple):
    """How the service stands: whether all is well, it is busy, or something is wrong; in words, and what to do."""

    state: Literal["well", "busy", "wrong"]
    words: str
    remedy: str


class Operations(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows beside the state of now: one event that could not be projected, by its id."""

    event: str = ""


def read_operations(params: Params) -> Read:
    """Read the page's parameters."""
    return understood(Operations, params, {"event": text})


def standing(health: Health) -> Standing:
    """Return whether the tables keep up with the log, in a sentence, and what to do where they do not."""
    if health.error:
        return Standing("wrong", f"The tables stand still: {health.error}", "`assay doctor` says what to mend.")
    if health.building:
        return Standing("busy", f"The tables are made anew: {health.building}", "Pages show the old ones until then.")
    behind = health.lag_events
    if behind is None:
        return Standing(
            "wrong", "Postgres does not answer, so nothing new is taken.", "`assay doctor` says what to mend."
        )
    late = health.lag_seconds or 0.0
    if behind and late > LATE_S:
        events = "1 event waits" if behind == 1 else f"{formatting.count(behind)} events wait"
        return Standing("busy", f"{events} to be read, the oldest for {formatting.significant(late)} s.", "")
    if dead := health.dead_letters:
        events = "1 event" if dead == 1 else f"{formatting.count(dead)} events"
        return Standing("wrong", f"{events} could not be read. All others are in the tables.", "They are listed below.")
    return Standing("well", "All is well: every event is in the tables.", "")


def took(steps: Sequence[Step], step_s: int) -> str:
    """Say how much came into the log."""
    total = sum(step.events for step in steps)
    hourly = per_second(steps, step_s, 3600 // step_s)
    rate = f", {formatting.significant(hourly)} a second in the last hour" if hourly else ""
    return f"The log took {formatting.count(total)} event{'' if total == 1 else 's'} in the last 24 hours{rate}."


def behind(minutes: Sequence[Minute], began: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """Say how far the tables were behind at the worst, and since when that is known: a day at the most."""
    worst = max((minute.lag_events for minute in minutes if minute.lag_events is not None), default=None)
    seen = "No minute was looked at yet" if worst is None else f"At most {formatting.count(worst)} events behind"
    if now - began >= timedelta(days=1):
        return f"{seen} in the last 24 hours."
    return f"{seen} since the service began on {formatting.date(began, zone)}."


def per_second(steps: Sequence[Step], step_s: int, last: int) -> float | None:
    """Return the mean over the last whole steps; the one that is still running does not count."""
    whole = steps[:-1][-last:]
    return sum(step.events for step in whole) / (len(whole) * step_s) if whole else None


def token_table(
    tokens: Sequence[ListedToken], uses: Mapping[str, datetime], now: datetime, zone: tzinfo | None = None
) -> pd.DataFrame:
    """Return the tokens as a table, those that work first, then the newest; a use before this process began is not known."""
    newest = sorted(tokens, key=lambda token: token.created_at, reverse=True)
    ordered = sorted(newest, key=lambda token: _state(token, now) != WORKS)
    return pd.DataFrame(
        {
            "State": [_state(token, now) for token in ordered],
            "Name": [token.name for token in ordered],
            "Begins with": [f"{token.prefix}…" for token in ordered],
            "Scopes": [", ".join(token.scopes) for token in ordered],
            "Appends as": [token.source or "any source" for token in ordered],
            "Last used": [formatting.age(uses[token.id], now) if token.id in uses else None for token in ordered],
            "Expires": [formatting.date(token.expires_at, zone) if token.expires_at else "never" for token in ordered],
            "Made": [formatting.date(token.created_at, zone) for token in ordered],
        }
    )


def used_words(day: Day, zone: tzinfo | None = None) -> str:
    """Say who saw the uses of tokens, and since when: in a service of several processes not all of them."""
    words = f"Last used: at the process that answers this page, which began {formatting.date(day.build.began, zone)}; — was not used "
    words += "there since. "
    if day.settings.role != "all":
        words += "What the ingest workers let in is not seen here. "
    return words + "Secrets are kept nowhere."


def _state(token: ListedToken, now: datetime) -> str:
    if token.revoked_at:
        return "✕ revoked"
    if token.expires_at and token.expires_at <= now:
        return "✕ expired"
    return WORKS


def letter_table(letters: Sequence[DeadLetter], zone: tzinfo | None = None) -> pd.DataFrame:
    """Return what could not be read by type and reason as a table; `Event` is the newest of each."""
    return pd.DataFrame(
        {
            "Type": [letter.type for letter in letters],
            "Events": [letter.events for letter in letters],
            "Reason": [letter.reason for letter in letters],
            "Newest": [formatting.date(letter.newest, zone) for letter in letters],
            "Event": [letter.event for letter in letters],
        }
    )


def set_aside(value: int, letters: Sequence[DeadLetter]) -> str:
    """Say how many events are not in the tables, and how many of them are listed."""
    listed = sum(letter.events for letter in letters)
    verb = "event is" if value == 1 else "events are"
    rest = "" if listed == value else f" Here are {formatting.count(listed)} of them."
    return f"{formatting.count(value)} {verb} in the log and not in the tables.{rest}"


def archive_table(segments: Sequence[Archived], zone: tzinfo | None = None) -> pd.DataFrame:
    """Return the archive's segments as a table, newest first."""
    newest = segments[::-1]
    return pd.DataFrame(
        {
            "Positions": [
                f"{formatting.count(segment.first_position)}–{formatting.count(segment.last_position)}"
                for segment in newest
            ],
            "Events": [segment.events for segment in newest],
            "Size": [formatting.memory(segment.bytes) for segment in newest],
            "File": [segment.facts for segment in newest],
            "Written": [formatting.date(segment.created_at, zone) for segment in newest],
            "Bodies": ["in the files alone" if segment.trimmed_at else "in the database too" for segment in newest],
        }
    )


def setting_table(day: Day, server: str, zone: tzinfo | None = None) -> pd.DataFrame:
    """Return build and settings as pairs of name and value, each in its unit."""
    build, settings = day.build, day.settings
    every = settings.retrain_every_s
    lines = {
        "Service": server,
        "Version": f"{build.version}, schema {build.schema}, Python {build.python}, {build.system}",
        "Running since": formatting.date(build.began, zone),
        "Role": settings.role,
        "Binds to": settings.host,
        "Postgres": "embedded" if settings.embedded_postgres else "a server of its own",
        "Requests at most": _limit(settings.requests_per_s),
        "Events at most": _limit(settings.events_per_s),
        "A body has to arrive within": f"{settings.body_deadline_s:g} s",
        "Trains by itself": f"every {every / 3600:g} h, and when it drifts" if every else "no, only when asked",
        "Log level": settings.log_level,
    }
    return pd.DataFrame(list(lines.items()), columns=["Setting", "Value"])


def _limit(per_s: float | None) -> str:
    return "no limit" if per_s is None else f"{per_s:,g}/s of each token"


def bundle_table(bundles: Sequence[SharedBundle], zone: tzinfo | None = None) -> pd.DataFrame:
    """Return the bundles of shared measurements as a table, the newest first."""
    newest = list(reversed(bundles))
    return pd.DataFrame(
        {
            "Signer": [bundle.name or bundle.signer for bundle in newest],
            "Trust": [bundle.trust for bundle in newest],
            "Rows": [bundle.measurements for bundle in newest],
            "Held back": [bundle.held for bundle in newest],
            "Devices": [", ".join(bundle.devices) for bundle in newest],
            "Licence": [bundle.licence for bundle in newest],
            "Added": [formatting.date(bundle.added_at, zone) for bundle in newest],
            "State": [bundle.state for bundle in newest],
            "Bundle": [bundle.bundle.removeprefix("sha256:")[:12] for bundle in newest],
        }
    )


def peer_table(peers: Sequence[Peer], zone: tzinfo | None = None) -> pd.DataFrame:
    """Return the peers as a table: how far each is read, and what is wrong."""
    return pd.DataFrame(
        {
            "Peer": [peer.name for peer in peers],
            "Address": [peer.url for peer in peers],
            "Sources": [", ".join(peer.sources) for peer in peers],
            "Position": [peer.position for peer in peers],
            "Lag": [peer.lag for peer in peers],
            "Last pull": [formatting.date(peer.pulled_at, zone) if peer.pulled_at else "never" for peer in peers],
            "Taken": [peer.accepted for peer in peers],
            "Refused": [peer.refused for peer in peers],
            "Problem": [peer.problem or peer.refusal or "" for peer in peers],
        }
    )


def link_table(links: Sequence[Link], zone: tzinfo | None = None) -> pd.DataFrame:
    """Return the links to measure in a browser as a table."""
    return pd.DataFrame(
        {
            "Link": [link.id for link in links],
            "Models": [", ".join(link.models) for link in links],
            "Opened": [f"{link.opened} of {link.uses}" for link in links],
            "Until": [formatting.date(link.expires_at, zone) for link in links],
            "Made by": [link.created_by for link in links],
            "State": [link.state for link in links],
        }
    )


def device_table(devices: Sequence[BrowserDevice], zone: tzinfo | None = None) -> pd.DataFrame:
    """Return the devices whose pages sent results as a table; what they are is as their people stated."""
    return pd.DataFrame(
        {
            "Device": [device.device for device in devices],
            "As stated": [", ".join(device.hardware) for device in devices],
            "On": [", ".join(device.platforms) for device in devices],
            "Models": [", ".join(device.models) for device in devices],
            "Rows": [device.measurements for device in devices],
            "Did not run": [device.failures for device in devices],
            "Newest": [formatting.date(device.newest, zone) for device in devices],
            "State": [f"accepted by {device.by}" if device.accepted else "shown only" for device in devices],
        }
    )


def held_table(rows: Sequence[HeldRow]) -> pd.DataFrame:
    """Return the shared rows that are held back as a table, with why."""
    return pd.DataFrame(
        {
            "Model": [row.model for row in rows],
            "Hardware": [row.hardware for row in rows],
            "Platform": [row.platform for row in rows],
            "Latency ms": [row.latency_ms for row in rows],
            "Why": [row.reason for row in rows],
            "Signer": [row.signer for row in rows],
            "Event": [row.event_id for row in rows],
        }
    )
