"""Positions by number or by the name of a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domain.errors import UsageError

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["position_of"]


def position_of(client: Client, named: str) -> int:
    """Return the position that a number says or a snapshot keeps; UsageError beyond the log, NotFound for no snapshot."""
    position = int(named) if named.isdecimal() else int(client.snapshot(named)["position"])
    last = int(client.ready()["log_position"])
    if position > last:
        raise UsageError(
            f"the log ends at position {last}.",
            field="as_of",
            remedy="Name a position that was reached, or a snapshot.",
        )
    return position
