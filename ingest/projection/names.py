"""Canonical ids: aliases that events declared, over those that the packaged catalogues know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from domain.canonical import digest
from domain.catalogues.identity import catalogue_aliases, follow

__all__ = ["Names", "catalogue_digest", "names_of"]

Declaration = tuple[str, str, str]
"""Kind, alias, canonical id."""


class Names:
    """What the ids of one kind stand for, by `domain.catalogues.identity`'s rules."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases

    def resolve(self, name: str) -> str:
        """Return the canonical id; a name that nobody knows stands for itself."""
        return follow(name, self._aliases)


def names_of(declarations: Iterable[Declaration]) -> dict[str, Names]:
    """Return the names of each kind after the declarations, given in the order of the log: the last one wins."""
    aliases = {kind: dict(value) for kind, value in _catalogued().items()}
    for kind, alias, canonical in declarations:
        aliases.setdefault(kind, {})[alias] = canonical
    return {kind: Names(aliase) for kind, aliase in aliases.items()}


@cache
def catalogue_digest() -> str:
    """Return the digest of all names that the catalogues know; tables made with other names are made again."""
    return digest(_catalogued())


@cache
def _catalogued() -> dict[str, dict[str, str]]:
    return catalogue_aliases()
