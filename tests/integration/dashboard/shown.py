"""What the tables of a page hold, for tests that run a page without a browser."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.tables import result_table

__all__ = ["Tables"]


class Tables:
    """The tables that pages showed last, by key; each column by its head."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.shown: dict[str, list[dict[str, Any]]] = {}
        patch.setattr(result_table, "_component", self._keep)

    def _keep(self, *, key: str, data: dict[str, Any], **_: Any) -> None:
        self.shown[key] = data["columns"]

    def column(self, key: str, head: str, part: str = "values") -> list[Any]:
        """Return a column's raw values, or its words (`shown`) or addresses (`links`)."""
        (found,) = (column for column in self.shown[key] if column["head"] == head)
        return list(found[part])

    def heads(self, key: str) -> list[str]:
        return [column["head"] for column in self.shown[key]]
