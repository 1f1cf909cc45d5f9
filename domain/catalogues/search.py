"""Finding a name that was not typed as it is written: without its owner, by an alias, in another case, mistyped.

A mistyped name is only ever offered, never taken for another: `opt-125m` and `opt-350m` are two edits apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

__all__ = ["MOST_EDITS", "Match", "edits", "matches", "meant"]

MOST_EDITS = 2
_LETTERS_AN_EDIT = 3
"""A name of fewer letters than this for each edit would be like anything."""
How = Literal["id", "alias", "owner_omitted", "begins", "contains", "typo"]
_ORDER: tuple[How, ...] = ("id", "alias", "owner_omitted", "begins", "contains", "typo")
_EXACT = frozenset({"id", "alias", "owner_omitted"})


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """An id that a text may mean: `how` it fits, by which `name`, and after how many `edits`."""

    id: str
    how: How
    name: str
    edits: int = 0


def matches(text: str, names: Mapping[str, Iterable[str]]) -> list[Match]:
    """Return what a text may mean, best first; `names` gives the other names of each id.

    An id, an alias and an id without its owner count whatever their case; then names that begin with the text or
    contain it; then those within two edits (a letter more, less, another, or two swapped).
    """
    wanted = text.strip().lower()
    matches = [match for key, others in names.items() if wanted and (match := _match(wanted, key, tuple(others)))]
    return sorted(matches, key=lambda match: (_ORDER.index(match.how), match.edits, len(match.name), match.id))


def meant(text: str, names: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the ids that a text names exactly but for its case and a missing owner: one, several, or none."""
    exact = [match for match in matches(text, names) if match.how in _EXACT]
    return sorted(match.id for match in exact if match.how == exact[0].how)


def edits(value: str, other: str, most: int = MOST_EDITS) -> int | None:
    """Return how many letters to add, drop, change or swap make one text the other; None where it is more than `most`."""
    if abs(len(value) - len(other)) > most:
        return None
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(value, 1):
        here = [row] + [most + 1] * len(other)
        # Further from the diagonal than `most` no path comes back within it.
        for column in range(max(1, row - most), min(len(other), row + most) + 1):
            same = letter == other[column - 1]
            best = min(above[column - 1] + (not same), above[column] + 1, here[column - 1] + 1)
            if row > 1 and column > 1 and letter == other[column - 2] and value[row - 2] == other[column - 1]:
                best = min(best, before[column - 2] + 1)
            here[column] = best
        if min(here) > most:
            return None
        before, above = above, here
    return above[-1] if above[-1] <= most else None


def _match(wanted: str, value: str, others: tuple[str, ...]) -> Match | None:
    full, bare = value.lower(), value.lower().split("/", 1)[-1]
    aliases = {other.lower(): other for other in others}
    if wanted == full:
        return Match(id=value, how="id", name=value)
    if wanted in aliases:
        return Match(id=value, how="alias", name=aliases[wanted])
    if wanted in (bare, *(alias.split("/", 1)[-1] for alias in aliases)):
        return Match(id=value, how="owner_omitted", name=value)
    written = {full: value, bare: value.split("/", 1)[-1], **aliases}
    for how, fits in (("begins", str.startswith), ("contains", str.__contains__)):
        fitting = [written[name] for name in written if fits(name, wanted)]
        if fitting:
            return Match(id=value, how=how, name=min(fitting, key=len))  # type: ignore[arg-type]
    allowed = min(MOST_EDITS, len(wanted) // _LETTERS_AN_EDIT)
    near = [(count, len(name), name) for name in written if (count := edits(wanted, name, allowed)) is not None]
    if not near:
        return None
    count, _, name = min(near)
    return Match(id=value, how="typo", name=written[name], edits=count)
