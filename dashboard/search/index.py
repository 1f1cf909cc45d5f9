"""The ranking of the search: what a text may mean among everything that the dashboard can open.

A text that names something exactly stands first, then what begins with it, what has words that begin with it, what
contains it, and last what it may be a misspelling of. Of the same rank, pages stand before models and hardware, and what was measured most stands first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from domain.catalogues.search import MOST_EDITS, edits

__all__ = ["Entry", "Hit", "How", "Index", "Kind"]

Kind = Literal["page", "model", "hardware", "question", "run", "comparison"]
How = Literal["id", "title", "name", "begins", "words", "contains", "typo"]
HOW: tuple[How, ...] = ("id", "title", "name", "begins", "words", "contains", "typo")
_EXACT = frozenset({"id", "title", "name"})
_KINDS: dict[Kind, int] = {"page": 0, "model": 1, "hardware": 1, "question": 2, "run": 3, "comparison": 0}
_LETTERS_AN_EDIT = 3
"""A word of fewer letters than this for each edit would be like any other."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be opened: `id` is unique within its kind, `names` mean it too, `keywords` only find it.

    It is opened on the page `page` with `params`. `measurements` orders entries that a text fits equally well.
    """

    kind: Kind
    id: str
    title: str
    page: str
    params: dict[str, str | list[str]] = {}
    names: tuple[str, ...] = ()
    keywords: str = ""
    measurements: int = 0

    @property
    def key(self) -> str:
        """Return what names the entry among those of every kind."""
        return f"{self.kind}:{self.id}"


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that a text may mean: `how` the text fits it, after how many `edits`."""

    entry: Entry
    how: How
    edits: int = 0


class _Text(msgspec.Struct, frozen=True):
    """The names of an entry as they are compared: each whole in lower case, squeezed to letters and digits, and by words."""

    whole: tuple[str, ...]
    titles: tuple[str, ...]
    squeezed: tuple[str, ...]
    words: str
    joined: str


class Index:
    """Everything that can be opened, prepared for many searches.

    `exact` gives further ids that a text names exactly by the rules of a kind's catalogue, `several` ids among which it does not decide.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        *,
        exact: Callable[[str], Iterable[str]] = lambda _: (),
        several: Callable[[str], Iterable[str]] = lambda _: (),
    ) -> None:
        self.entries: Mapping[str, Entry] = {entry.key: entry for entry in entries}
        self._exact, self._several = exact, several
        self._texts = {key: _prepared(entry) for key, entry in self.entries.items()}
        words: dict[str, int] = {}
        names: dict[str, tuple[int, list[str]]] = {}
        for key, text in self._texts.items():
            words |= {word: _letters(word) for word in text.words.split() if word not in words}
            for name in text.squeezed:
                names.setdefault(name, (_letters(name), []))[1].append(key)
        self._words, self._names = words, names

    def search(self, text: str, most: int | None = 8) -> list[Hit]:
        """Return at most `most` entries that a text may mean, best first; `most` None returns all."""
        wanted = text.strip().casefold()
        squeezed, words = _squeezed(wanted), _words(wanted)
        if not squeezed:
            return []
        named = {f"hardware:{name}" for name in self._exact(text)}
        among = {f"hardware:{name}" for name in self._several(text)}
        hits: dict[str, Hit] = {}
        for key, prepared in self._texts.items():
            how = _fit(wanted, squeezed, words, prepared)
            if key in named and how not in _EXACT:
                how = "name"
            elif key in among and how not in _EXACT:
                how = "begins"
            if how is not None:
                hits[key] = Hit(entry=self.entries[key], how=how)
        if not any(hit.how in _EXACT for hit in hits.values()):
            for key, count in self._misspelt(squeezed, words):
                if key not in hits or (hits[key].how == "typo" and hits[key].edits > count):
                    hits[key] = Hit(entry=self.entries[key], how="typo", edits=count)
        return sorted(hits.values(), key=_order)[:most]

    def _misspelt(self, squeezed: str, words: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield entries whose whole name, or of which a word for each word of the text, is within two edits."""
        for name, count in _near(squeezed, {name: letters for name, (letters, _) in self._names.items()}):
            for key in self._names[name][1]:
                yield key, count
        near = [{word: 0, **dict(_near(word, self._words))} for word in words]
        if all(len(options) == 1 for options in near):
            return
        for key, prepared in self._texts.items():
            counts = [_fewest(options, prepared) for options in near]
            total = sum(count for count in counts if count is not None)
            if None not in counts and 0 < total <= MOST_EDITS:
                yield key, total


def _fewest(options: Mapping[str, int], text: _Text) -> int | None:
    """Return the fewest edits by which one of these spellings is a word of a text, or begins one; None for none."""
    return min(
        (count for word, count in options.items() if f" {word}{' ' if count else ''}" in text.words), default=None
    )


def _order(hit: Hit) -> tuple[int, int, int, int, int, str]:
    entry = hit.entry
    return HOW.index(hit.how), hit.edits, _KINDS[entry.kind], -entry.measurements, len(entry.title), entry.key


def _fit(wanted: str, squeezed: str, words: Sequence[str], text: _Text) -> How | None:
    if wanted == text.whole[0]:
        return "id"
    if squeezed in text.titles:
        return "title"
    if wanted in text.whole or squeezed in text.squeezed:
        return "name"
    if any(name.startswith(squeezed) for name in text.squeezed):
        return "begins"
    if all(f" {word}" in text.words for word in words):
        return "words"
    if squeezed in text.joined or all(word in text.joined for word in words):
        return "contains"
    return None


def _near(wanted: str, among: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the texts within two edits of one, with their number; a text of few letters allows fewer."""
    allowed = min(MOST_EDITS, len(wanted) // _LETTERS_AN_EDIT)
    if not allowed:
        return
    letters, length = _letters(wanted), len(wanted)
    for other, theirs in among.items():
        # An edit changes at most two of the letters that a text has.
        if abs(len(other) - length) <= allowed and (letters ^ theirs).bit_count() <= 2 * allowed:
            count = edits(wanted, other, allowed)
            if count:
                yield other, count


def _prepared(entry: Entry) -> _Text:
    whole = tuple(dict.fromkeys(name.casefold() for name in (entry.id, entry.title, *entry.names) if name))
    bare = [name.partition("/")[2] for name in whole if "/" in name]
    squeezed = tuple(dict.fromkeys(filter(None, map(_squeezed, (*whole, *bare)))))
    found_by = (*whole, entry.keywords.casefold())
    words = dict.fromkeys(word for name in found_by for word in _words(name))
    titles = tuple(map(_squeezed, (entry.title.casefold(), entry.id.casefold())))
    return _Text(whole, titles, squeezed, f" {' '.join(words)} ", " ".join(map(_squeezed, found_by)))


def _squeezed(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())


def _words(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in text).split()


def _letters(text: str) -> int:
    """Return the letters and digits that a text has as bits; all that are not Latin share one."""
    bits = 0
    for letter in text:
        at = _LETTERS.find(letter)
        bits |= 1 << (at if at >= 0 else len(_LETTERS))
    return bits
