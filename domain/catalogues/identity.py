"""Identity: what a name stands for, through the packaged catalogues and the aliases that were declared.

A declared alias wins over the catalogue. Chains resolve to their end; a cycle to its smallest name, so that every
member of it resolves to the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from domain.catalogues import hardware, models

__all__ = ["catalogue_aliases", "follow", "resolve_hardware", "resolve_model"]

NO_ALIASES: Mapping[str, str] = {}


def follow(name: str, aliases: Mapping[str, str]) -> str:
    """Return the end of the chain that starts at `name`; of a cycle, its smallest name."""
    seen: list[str] = []
    while name in aliases:
        if name in seen:
            return min(seen[seen.index(name) :])
        seen.append(name)
        name = aliases[name]
    return name


def resolve_model(name: str, declared: Mapping[str, str] = NO_ALIASES) -> str:
    """Return the canonical id of a model; a name that nobody knows stands for itself."""
    return _resolve(name, declared, catalogue_aliases()["model"])


def resolve_hardware(name: str, declared: Mapping[str, str] = NO_ALIASES) -> str:
    """Return the canonical slug of hardware; a name that nobody knows stands for itself."""
    return _resolve(name, declared, catalogue_aliases()["hardware"])


def _resolve(name: str, declared: Mapping[str, str], catalogue: Mapping[str, str]) -> str:
    return follow(name, {**catalogue, **declared})


def catalogue_aliases() -> dict[str, dict[str, str]]:
    """Return alias → canonical id of the packaged catalogues, by kind (`model`, `hardware`)."""
    return {
        "model": {alias: entry.id for entry in models.catalogue() for alias in entry.aliases},
        "hardware": {alias: entry.id for entry in hardware.catalogue().values() for alias in entry.aliases},
    }
