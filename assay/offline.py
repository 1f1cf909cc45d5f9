"""Answers without a service: the data and the predictor that ship, asked in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx

from assay.client import Client
from domain.errors import ServiceUnavailable

if TYPE_CHECKING:
    from api.shipped import ShippedContainer

__all__ = ["ADDRESS", "shipped_client"]

ADDRESS = "http://shipped"
"""What stands for a service's address; no host of that name is asked."""


class InProcess(httpx.BaseTransport):
    """Answers requests in this process, whichever thread sends them: by the application that a service has."""

    def __init__(self, container: ShippedContainer) -> None:
        self._container = container

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer."""
        from api.shipped import quick_answer

        content = request.read()
        body = None
        if request.method == "POST" and request.url.path == "/v1/events":
            body = self._container.take_traces(content)
        elif request.method == "POST":
            body = quick_answer(self._container, request.url.path, content)
        if body is not None:
            return httpx.Response(200, headers={"Content-Type": "application/json"}, content=body)
        return self.by_the_application(request, content)

    def by_the_application(self, request: httpx.Request, content: bytes) -> httpx.Response:
        """Return what the application answers."""
        import asyncio  # Takes long to load, as the application does, and quick answers need neither.

        async def answered() -> httpx.Response:
            asked = httpx.Request(request.method, request.url, headers=request.headers, content=content)
            response = await self._application.handle_async_request(asked)
            body = await response.aread()
            return httpx.Response(response.status_code, headers=response.headers, content=body)

        return asyncio.run(answered())

    @cached_property
    def _application(self) -> httpx.ASGITransport:
        from api.shipped import create_shipped_app

        return httpx.ASGITransport(cast(Any, create_shipped_app(self._container)))


@contextmanager
def shipped_client(cache: Path | None, **options: Any) -> Iterator[Client]:
    """Give a client of the data that ships. Its tables are unpacked into `cache` once; None takes a folder of its own.

    Raises ServiceUnavailable where there is no place for them.
    """
    from api.shipped import ShippedContainer
    from ingest.evidence.tables import unpacked

    with ExitStack() as stack:
        try:
            if cache is None:
                cache = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-shipped-")))
            path = unpacked(cache)
        except OSError as error:
            raise ServiceUnavailable(
                f"the data that ships could not be unpacked into {cache or 'a temporary folder'}: {error.strerror}.",
                field="ASSAY_HOME",
                remedy="Name a directory with 15 MB of room that you may write to, or a service with --server.",
            ) from error
        container = ShippedContainer(path)
        stack.callback(container.close)
        # What is not there does not come by waiting.
        yield stack.enter_context(Client(ADDRESS, transport=InProcess(container), patience_s=0, **options))
