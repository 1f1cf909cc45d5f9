"""Asks what a page will ask as soon as its address arrives: the service answers while the browser still starts.

Answers of a screen that has an `ahead` are kept as every other (`dashboard.answers`), so that the page finds them, or waits for
the rest of the time. What fails here is asked again and told by the page.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from urllib.parse import parse_qs

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.menu import MENU
from domain.errors import AssayError

__all__ = ["Ahead", "middleware"]

AT_ONCE = 4
"""Addresses that are asked ahead at a time; the pages of others ask by themselves."""
_PAGES = frozenset(entry.name for entries in MENU.values() for entry in entries)


def middleware(environment: Mapping[str, str]) -> list[Middleware]:
    """Return what stands before the pages: nothing where people sign in, for an address alone must not make the service work."""
    return [] if environment.get("ASSAY_SIGN_IN") else [Middleware(Ahead)]


class Ahead:
    """ASGI middleware that lets every request through as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ahead")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; where it is for a page with parameters, ask the service meanwhile."""
        if scope["type"] == "http" and scope["method"] == "GET" and scope["query_string"]:
            page = str(scope["path"]).strip("/")
            if page in _PAGES and self._free.acquire(blocking=False):
                self._pool.submit(self._ask, page, parse_qs(scope["query_string"].decode("latin-1")))
        await self._app(scope, receive, send)

    def _ask(self, page: str, params: Mapping[str, Sequence[str]]) -> None:
        try:
            ahead = getattr(import_module(f"dashboard.pages.{page}.view"), "ahead", None)
            if ahead is not None:
                with suppress(AssayError):
                    ahead(params)
        except Exception:
            logging.getLogger("assay.dashboard").exception("What %s asks could not be asked ahead", page)
        finally:
            self._free.release()
