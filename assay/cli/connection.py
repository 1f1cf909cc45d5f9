"""Which service a verb talks to: the one named, the one that runs on ASSAY_HOME, or one of its own while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from assay.cli.output import say
from assay.client import Client

__all__ = ["connected", "event_source"]


def event_source() -> str:
    """Return the source of the events that a verb itself appends: ASSAY_SOURCE, else `assay-cli`."""
    return os.environ.get("ASSAY_SOURCE") or "assay-cli"


@contextmanager
def connected(server: str | None, token: str | None = None) -> Iterator[Client]:
    """Give a client of the service; one that was started here is stopped again, whatever happens."""
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
    say("[dim]no service runs here; starting one for this question[/dim]")
    with ephemeral(home) as url, Client(url, token=token) as client:
        yield client
