"""Which service a verb talks to: the one named, the one that runs on ASSAY_HOME, or one of its own while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from assay.cli.output import say
from domain.errors import PartMissing, UsageError
from domain.operating_system import require_service_support

if TYPE_CHECKING:
    from assay.client import Client
    from assay.home import Home

__all__ = ["connected", "event_source", "reading"]


def event_source() -> str:
    """Return the source of the events that a verb itself appends: ASSAY_SOURCE, else `assay-cli`."""
    return os.environ.get("ASSAY_SOURCE") or "assay-cli"


@contextmanager
def connected(server: str | None, token: str | None = None) -> Iterator[Client]:
    """Give a client of the service; one that was started here is stopped again, whatever happens."""
    from assay.client import Client
    from assay.home import find_home, running
    from assay.service import ephemeral

    if server:
        with Client(server, token=token) as client:
            yield client
        return
    home = find_home()
    result = running(home)
    if result:
        with Client(result.url, token=token) as client:
            yield client
        return
    require_service_support()
    if find_spec("granian") is None:
        raise PartMissing(
            "no service runs here, and this installation has no parts of one.",
            field="server",
            remedy="Name one with --server or ASSAY_SERVER, or pip install 'assay-bench[service]'.",
        )
    say("[dim]no service runs here; starting one for this question[/dim]")
    with ephemeral(home) as url, Client(url, token=token) as client:
        yield client


@contextmanager
def reading(server: str | None, token: str | None = None) -> Iterator[Client]:
    """Give a client for questions that change nothing.

    Where no service runs and nothing was kept here yet, what ships answers in this process.
    """
    from assay.home import find_home, running
    from assay.offline import shipped_client

    home: Home | None = None
    if not server:
        try:
            home = find_home()
        except UsageError:
            home = None
    service = None if server or home is None else running(home)
    if server or service is not None or (home is not None and _keeps_a_log(home)):
        with connected(server or (None if service is None else service.url), token) as client:
            yield client
        return
    with shipped_client(home.cache if home is not None else None) as client:
        say(
            "[dim]no service runs here: this answers from what ships with Assay, and knows nothing of this machine[/dim]"
        )
        yield client


def _keeps_a_log(home: Home) -> bool:
    """Whether a service that is started here would know more than what ships."""
    if find_spec("psycopg") is None:
        return False
    return bool(os.environ.get("ASSAY_DATABASE_URL")) or (home.path / "postgres").exists()
