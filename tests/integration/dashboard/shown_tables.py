"""Result tables as a script's test sees them: what is sent to the browser."""

from __future__ import annotations

import json
from typing import Any


def columns(test: Any, named: str) -> dict[str, dict[str, Any]]:
    """Return the columns of the table with this key, or of that which these words name, by their heads."""
    sent = [(item.proto.id, json.loads(item.proto.json)) for item in test.get("bidi_component")]
    found = [data for key, data in sent if key.endswith(f"-{named}") or data.get("words") == named]
    return {column["head"]: column for column in found[0]["columns"]}


def values(test: Any, named: str) -> dict[str, list[Any]]:
    """Return the raw values of the table with this key or name, by the heads of its columns."""
    return {head: column["values"] for head, column in columns(test, named).items()}
