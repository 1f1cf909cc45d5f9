"""Result tables as a script's test sees them: what is sent to the browser."""

from __future__ import annotations

import json
from typing import Any


def columns(test: Any, key: str) -> dict[str, dict[str, Any]]:
    """Return the columns of the table with this key, by their heads."""
    (sent,) = [item.proto for item in test.get("bidi_component") if item.proto.id.endswith(f"-{key}")]
    return {column["head"]: column for column in json.loads(sent.json)["columns"]}


def values(test: Any, key: str) -> dict[str, list[Any]]:
    """Return the raw values of the table with this key, by the heads of its columns."""
    return {head: column["values"] for head, column in columns(test, key).items()}
