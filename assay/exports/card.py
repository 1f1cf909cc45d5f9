"""What an export says of itself: of which state of the log it is, under which schema, and what was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from assay import __version__

__all__ = ["LAYOUT", "Card"]

LAYOUT = "2"
"""Of the files that this package writes; 1 was events in Parquet with fewer words about them."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """`position`: the export holds what was true there; `schema_version`: the contract of the views; None where unknown.

    `rows` by noun, and `left_out` by reason, are known when all is written: a card beside a file has them, metadata in a
    file have not.
    """

    what: str
    format: str
    position: int
    schema_version: int | None
    filters: dict[str, Any]
    log_position: int
    rows: dict[str, int] | None = None
    left_out: dict[str, int] | None = None
    notes: dict[str, Any] | None = None
    layout: str = LAYOUT
    assay: str = __version__

    def metadata(self) -> dict[str, str]:
        """Return the card as the key-value metadata of Parquet and Arrow files; `assay.filters` is JSON."""
        document = {**self.filters, "log_position": self.log_position}
        return {
            "assay.export": self.layout,
            "assay.what": self.what,
            "assay.position": str(self.position),
            "assay.schema_version": str(self.schema_version or ""),
            "assay.version": self.assay,
            "assay.filters": msgspec.json.encode(document).decode(),
        }

    def text(self) -> bytes:
        """Return the card as a file of its own."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    @staticmethod
    def place(path: Path) -> Path:
        """Return where the card of a file lies that cannot hold it itself."""
        return path.with_name(path.name + ".card.json")
