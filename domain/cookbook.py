"""Ten questions that people ask, as commands: the cookbook that docs, dashboard and tests share.

They live in `data/recipes.json`, and are asked of an installation that holds the measurements of `data/`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

import domain

__all__ = ["Recipe", "recipes"]


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One question: who asks it and why, the command, how to read the answer, and the exit code that it has."""

    name: str
    title: str
    asked: str
    command: str
    reading: str
    exit: int = 0


@cache
def recipes() -> tuple[Recipe, ...]:
    """Return the recipes in their order; read once."""
    content = files(domain).joinpath("data", "recipes.json").read_bytes()
    return tuple(msgspec.json.decode(content, type=list[Recipe]))
