"""The same API with one transaction for every single event: what the coalescing queue is compared with. Takes its port.

Nothing in the product switches its queue off: this program puts another in its place once the parts are open.
"""

from __future__ import annotations

import os
import sys

from granian import Granian
from granian.constants import Interfaces
from litestar import Litestar

from api.app import create_app as create_service
from domain.events import Decoded
from ingest.log.append import Appended
from ingest.log.coalescer import Coalescer


class OneByOne(Coalescer):
    """Appends each event by itself, as many at a time as the log has connections."""

    async def append(self, event: Decoded) -> Appended:
        """Append one event in a transaction of its own."""
        return (await self._append([event]))[0]


def create_app() -> Litestar:
    """Return the service of role ingest, without a queue for single events."""
    app = create_service()

    async def replace() -> None:
        parts = app.state.parts
        await parts.coalescer.stop()
        parts.coalescer = OneByOne(parts.log.append)

    app.on_startup.append(replace)
    return app


if __name__ == "__main__":
    os.environ["ASSAY_ROLE"] = "ingest"
    Granian(
        "benchmarks.programs.one_by_one:create_app", factory=True, address="127.0.0.1", port=int(sys.argv[1]),
        interface=Interfaces.ASGI, workers=1, log_access=False, websockets=False,
    ).serve()  # fmt: skip
