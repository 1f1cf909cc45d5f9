"""Where the events of a run go: into a file, or through the spool to the service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.cli.output import say

__all__ = ["OnEvent", "both", "destination"]

OnEvent = Callable[[dict[str, Any]], None]


def both(*listeners: OnEvent) -> OnEvent:
    """Return what tells each of them."""

    def tell(event: dict[str, Any]) -> None:
        for listener in listeners:
            listener(event)

    return tell


@contextmanager
def destination(out: Path | None, resume: bool, server: str | None, token: str | None) -> Iterator[OnEvent]:
    """Give what takes each event: a file, or the spool, which is emptied into the service at the end."""
    if out is not None:
        from runner.eventfile import EventFile

        file = EventFile(out, resume=resume)
        try:
            yield file.write
        finally:
            file.close()
        say(f"events written to {out}; send them with `assay post {out}`")
        return
    from assay.cli.connection import connected
    from assay.cli.sending import empty_spool
    from assay.home import find_home
    from runner.spool import Spool

    home = find_home()
    with Spool(home.spool) as spool:
        try:
            yield lambda event: spool.put([event])
        finally:
            with connected(server, token) as client:
                empty_spool(spool, client)
