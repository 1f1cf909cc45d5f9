"""The routes file of this installation: where it is, and the routes in force."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from domain.errors import UsageError
from domain.history.routes import Routes, decode_routes

__all__ = ["VARIABLE", "RoutesFile", "routes_path"]

VARIABLE = "ASSAY_ALERTS"
_LOG = logging.getLogger(__name__)


def routes_path(home: Path) -> Path:
    """Return where the routes file is: ASSAY_ALERTS, else alerts.yaml in the home."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else home / "alerts.yaml"


class RoutesFile:
    """The routes file, read again when it changes. While it cannot be used, the last one that could be holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: str | None = None
        self._routes = Routes()
        self._seen: tuple[int, int] | None = None

    def current(self) -> Routes:
        """Return the routes in force; none where there is no file."""
        try:
            status = self.path.stat()
            seen = (status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                self._seen = seen
                self._routes = decode_routes(self.path.read_text(encoding="utf-8"), self.path.name)
                self.error = None
        except FileNotFoundError:
            self._routes, self._seen, self.error = Routes(), None, None
        except (UsageError, OSError, UnicodeDecodeError) as error:
            detail = str(error) if isinstance(error, UsageError) else f"{self.path.name} cannot be read"
            if detail != self.error:
                _LOG.error("the routes of alerts are not taken over: %s", detail)
            self.error = detail
        return self._routes
