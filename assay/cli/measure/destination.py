"""Where the events of a run go: into a file, or through the spool to the service, while the run goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from assay.cli.output import say
from domain.errors import PartMissing

if TYPE_CHECKING:
    from assay.client import Client
    from runner.spool.spool import Spool

__all__ = ["OnEvent", "both", "destination", "optional_destination"]

OnEvent = Callable[[dict[str, Any]], None]
_EVERY_S = 2.0
_SLOWEST_S = 5.0


def both(*listeners: OnEvent) -> OnEvent:
    """Return what tells each of them."""

    def tell(event: dict[str, Any]) -> None:
        for listener in listeners:
            listener(event)

    return tell


@contextmanager
def destination(out: Path | None, resume: bool, server: str | None, token: str | None) -> Iterator[OnEvent]:
    """Give what takes each event: a file, or the spool, which is emptied into the service at the end.

    Events are signed where this machine has a key.
    """
    from assay.home import find_home
    from runner.machine.signing import signer

    home = find_home()
    signed = signer(home.path)
    if out is not None:
        from runner.spool.event_file import EventFile

        file = EventFile(out, resume=resume)
        try:
            yield lambda event: file.write(signed(event))
        finally:
            file.close()
        say(f"events written to {out}; send them with `assay post {out}`")
        return
    from assay.cli.connection import connected
    from assay.cli.measure.sending import empty_spool
    from runner.spool.spool import Spool

    with Spool(home.spool) as spool, ExitStack() as open_until_the_end:
        live = _Live(spool, _there(server, token, open_until_the_end))
        try:
            yield lambda event: live.take(signed(event))
        finally:
            live.end()
            try:
                with connected(server, token) as client:
                    empty_spool(spool, client, before=live.accepted)
            except PartMissing as error:
                # A base installation measures, and another one serves.
                say(escape(f"{spool.waiting()} events wait on this machine's disk. {error}"))


@contextmanager
def optional_destination(out: Path | None, post: bool, server: str | None, token: str | None) -> Iterator[OnEvent]:
    """Give what takes each event: a file, the spool on its way to the service, or nothing."""
    from assay.home import find_home
    from runner.machine.signing import signer

    if out is not None:
        from runner.spool.event_file import EventFile

        signed = signer(find_home().path)
        file = EventFile(out, resume=False)
        try:
            yield lambda event: file.write(signed(event))
        finally:
            file.close()
        say(f"events written to {out}; send them with `assay post {out}`")
    elif post:
        from assay.cli.connection import connected
        from assay.cli.measure.sending import empty_spool
        from runner.spool.spool import Spool

        signed = signer(find_home().path)
        with Spool(find_home().spool) as spool:
            yield lambda event: spool.put([signed(event)])
            with connected(server, token) as client:
                empty_spool(spool, client)
    else:
        yield lambda _: None


def _there(server: str | None, token: str | None, until_then: ExitStack) -> Client | None:
    """Return a client of a service that is there already; one that is made for this run alone needs nothing before its end."""
    from assay.client import Client
    from assay.home import find_home, running

    service = None if server else running(find_home())
    url = server or (service.url if service else None)
    if url is None:
        return None
    return until_then.enter_context(Client(url, token=token, timeout_s=_SLOWEST_S, patience_s=0))


class _Live:
    """Spools each event and, between two cases, sends what is spooled: who looks at the service sees the run go on.

    The first time that the service does not take it, the rest waits for the end of the run: measuring goes before telling.
    """

    def __init__(self, spool: Spool, client: Client | None) -> None:
        self._spool = spool
        self._client = client
        self._next_s = 0.0
        self.accepted = 0

    def take(self, event: dict[str, Any]) -> None:
        """Keep one event, and send it if the last ones were sent two seconds ago or more."""
        self._spool.put([event])
        client = self._client
        if client is None or time.monotonic() < self._next_s:
            return
        report = self._spool.flush(lambda lines: client.post_events(lines, batch=len(lines)))
        self.accepted += report.accepted
        self._next_s = time.monotonic() + _EVERY_S
        if report.error:
            self._client = None

    def end(self) -> None:
        """Let the last sending begin at once, whatever happened on the way."""
        from runner.spool.state import SpoolState

        self._spool.state = SpoolState()
