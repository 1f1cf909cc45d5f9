"""Whose shared rows count before whose: the signers that this installation trusts, as of any position of the log.

Trust is given and taken by operations of the log, so that an answer as of a position rests on the trust of then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from domain.answers.sharing import Trust
from domain.sharing.bundles import signer_of

if TYPE_CHECKING:
    from ingest.projection.tables import Tables

__all__ = ["ADDED", "DISTRUSTED", "RANKS", "TRUSTED", "UNSIGNED", "Signer", "rank", "trusted_signers"]

TRUSTED = "signer.trusted"
DISTRUSTED = "signer.distrusted"
ADDED = "bundle.added"
"""Actions of the operations that say so; their object is the id of a key, or the digest of a bundle."""
RANKS: Mapping[Trust, int] = {"own": 2, "trusted": 1, "unknown": 0}
UNSIGNED = 1
"""The rank of what came in no bundle: somebody here chose to import it."""


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    """A key that is trusted: `own` is that of this installation; `by` is who said so, `position` where in the log."""

    key: str
    level: Trust
    name: str
    by: str
    since: datetime | None
    position: int
    public_key: str | None = None


def trusted_signers(tables: Tables) -> dict[str, Signer]:
    """Return by key whom the tables' state trusts."""
    signers: dict[str, Signer] = {}
    for row in tables.operations(action=[TRUSTED, DISTRUSTED]).to_pylist():
        key = row["object"]
        signers.pop(key, None)
        if row["action"] == TRUSTED:
            details = json.loads(row["details"] or "{}")
            signers[key] = Signer(
                key=key,
                level="own" if details.get("level") == "own" else "trusted",
                name=details.get("name") or key,
                by=row["actor"],
                since=row["recorded_at"],
                position=row["position"],
                public_key=details.get("public_key"),
            )
    return signers


def rank(source: str, signers: Mapping[str, Signer]) -> int:
    """Return the rank of imported rows by their event's source; the higher counts first."""
    signer = signer_of(source)
    if signer is None:
        return UNSIGNED
    known = signers.get(signer)
    return RANKS["unknown" if known is None else known.level]
