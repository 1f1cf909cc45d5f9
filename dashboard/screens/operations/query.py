"""Data for operators only, asked with a token of its own and kept for the session of whoever asked.

`ASSAY_OPERATOR_TOKEN` is sent where it is set, else what the other pages send. Nothing of it is kept beyond the session, so
that no viewer is ever shown what an operator asked for.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
import streamlit as st

from assay.client import Client
from dashboard.answers import ready
from dashboard.service import PATIENCE_S, SLOWEST_S, WatchfulClient, checked, client, decoded, probe_again
from domain.answers.links import BrowserDevice, Link
from domain.answers.operations import Day, DeadLetter, Health, ListedToken
from domain.answers.sharing import HeldRow, SharedBundle
from domain.answers.variants import Deliveries
from domain.errors import Forbidden
from domain.sharing.peers import Peer

__all__ = [
    "FRESH_S",
    "LETTERS",
    "browser_devices",
    "browser_links",
    "day",
    "deliveries",
    "event",
    "forget",
    "health",
    "held_rows",
    "letters",
    "peers",
    "server",
    "shared",
    "tokens",
]

FRESH_S = 5
LETTERS = 100
MOST_DELIVERIES = 50
_LETTERS = f"""
SELECT type, reason, count(*) AS events, max(recorded_at)::VARCHAR AS newest, max_by(event_id, position) AS event
FROM dead_letters GROUP BY type, reason ORDER BY max(position) DESC LIMIT {LETTERS}
"""
_kept = st.cache_data(show_spinner=False, ttl=FRESH_S, max_entries=4, scope="session")


@st.cache_resource(show_spinner=False)  # type: ignore[untyped-decorator]
def _operator() -> Client:
    return WatchfulClient(
        server=client().server,
        token=os.environ.get("ASSAY_OPERATOR_TOKEN") or None,
        timeout_s=SLOWEST_S,
        patience_s=PATIENCE_S,
    )


def server() -> str:
    """Return the address of the service."""
    return str(_operator().server)


def health() -> Health:
    """Return how the tables stand to the log; asked every two seconds at most."""
    return decoded(ready(), Health)


@_kept  # type: ignore[untyped-decorator]
def day() -> Day:
    """Return the service's last 24 hours. Raises Forbidden where the token is no admin's."""
    try:
        return decoded(checked(dict(_operator().operations()), "throughput", "lag", "build"), Day)
    except Forbidden as refused:
        raise Forbidden(
            refused.detail,
            field=refused.field,
            remedy="Start the dashboard with ASSAY_OPERATOR_TOKEN, from `assay token create dashboard-operators --scope admin`.",
        ) from refused


@_kept  # type: ignore[untyped-decorator]
def tokens() -> list[ListedToken]:
    """Return all tokens ever made, without secrets."""
    return [decoded(token, ListedToken) for token in _operator().tokens()]


@_kept  # type: ignore[untyped-decorator]
def shared() -> list[SharedBundle]:
    """Return the bundles of shared measurements in the log."""
    bundles: list[SharedBundle] = _operator().shared()
    return bundles


@_kept  # type: ignore[untyped-decorator]
def held_rows() -> list[HeldRow]:
    """Return the shared rows that are held back, the newest first."""
    rows: list[HeldRow] = _operator().quarantined()
    return rows


@_kept  # type: ignore[untyped-decorator]
def peers() -> list[Peer]:
    """Return the peers, in the order in which they were added."""
    peers: list[Peer] = _operator().peers()
    return peers


@_kept  # type: ignore[untyped-decorator]
def deliveries() -> Deliveries:
    """Return served models, and the newest of what they delivered beside their promise."""
    deliveries: Deliveries = _operator().deliveries(limit=MOST_DELIVERIES)
    return deliveries


@_kept  # type: ignore[untyped-decorator]
def browser_devices() -> list[BrowserDevice]:
    """Return the devices whose pages sent results, the newest first."""
    devices: list[BrowserDevice] = _operator().browser_devices()
    return devices


@_kept  # type: ignore[untyped-decorator]
def browser_links() -> list[Link]:
    """Return the links to measure in a browser, the newest first."""
    links: list[Link] = _operator().links()
    return links


@_kept  # type: ignore[untyped-decorator]
def letters(position: int) -> list[DeadLetter]:
    """Return dead letters up to a position by type and reason, those with the newest first; LETTERS at most."""
    answer = _operator().query(_LETTERS, min_position=position)
    heads = [column["name"] for column in answer["columns"]]
    return [decoded(dict(zip(heads, row, strict=True)), DeadLetter) for row in answer["rows"]]


@_kept  # type: ignore[untyped-decorator]
def event(identifier: str) -> str:
    """Return one event as it was sent, as JSON."""
    return msgspec.json.encode(_operator().event(identifier)).decode()


def forget() -> None:
    """Ask the service again, for this reader."""
    kept: tuple[Any, ...] = (day, tokens, shared, held_rows, peers, browser_devices, browser_links, letters, event)
    for item in kept:
        item.clear()
    probe_again()
