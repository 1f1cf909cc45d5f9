"""What is compared: the models and hardware of an address, and those that are typed with their workload in one line of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dashboard import answers
from dashboard.address import Comparison
from dashboard.service import shared
from domain.catalogues import hardware as hardware_catalogue
from domain.catalogues.search import matches
from domain.vocabulary import MODES, PLATFORMS, PRECISIONS

__all__ = [
    "SIDE_BY_SIDE",
    "Names",
    "Typed",
    "devices_of",
    "models_of",
    "named",
    "names",
    "of_subjects",
    "read",
    "with_typed",
]

SIDE_BY_SIDE = ("hardware", "models")
"""Kinds of comparison that take any models and hardware."""

OFFERED = 5
_BETWEEN = frozenset({"vs", "vs.", "versus", "and", "on", "at", "with", "in", "compare", "against", "×", "x", "/", "&"})
_BATCH, _LENGTH = ("batch", "bs"), ("length", "seq", "sequence")
_GLUED = re.compile(r"^(batch|bs|length|seq)[=:]?(\d+)$")
_MOST_WORDS = 6
"""Words that one name has at most."""


class Names(NamedTuple):
    """The names of models and of hardware in lower case, each with the ids that it names exactly, and all names of each id."""

    exact_models: Mapping[str, Sequence[str]]
    exact_hardware: Mapping[str, Sequence[str]]
    models: Mapping[str, Sequence[str]]
    hardware: Mapping[str, Sequence[str]]


class Typed(NamedTuple):
    """What a text was understood to ask, and each part that names nothing with the ids that it may mean."""

    models: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    platform: tuple[str, ...] = ()
    mode: str | None = None
    batch: int | None = None
    length: int | None = None
    unknown: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    """Of each part: its text, models and hardware that it may mean."""


@shared(max_entries=2)
def names(position: int) -> Names:
    """Return every name of models and hardware at a position."""
    models = {row.id: tuple(row.aliases) for row in answers.models(position)}
    hardware = {row.id: (*row.aliases, *([row.name] if row.name else [])) for row in answers.hardware(position)}
    return named(models, hardware)


def named(models: Mapping[str, Sequence[str]], hardware: Mapping[str, Sequence[str]]) -> Names:
    """Return the names of these models and this hardware, each with its other names."""
    return Names(_exact(models), _exact(hardware), models, hardware)


def _exact(named: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the ids by name; an id stands before an alias, and an alias before an id without its owner."""
    exact: dict[str, list[str]] = {}
    for rank in (_id, _aliases, _without_owner):
        found: dict[str, list[str]] = {}
        for key, others in named.items():
            for name in rank(key, others):
                found.setdefault(name.casefold(), []).append(key)
        for name, keys in found.items():
            exact.setdefault(name, list(dict.fromkeys(keys)))
    return exact


def _id(key: str, _: Sequence[str]) -> Sequence[str]:
    return [key]


def _aliases(_: str, others: Sequence[str]) -> Sequence[str]:
    return others


def _without_owner(key: str, others: Sequence[str]) -> Sequence[str]:
    return [name.partition("/")[2] for name in (key, *others) if "/" in name]


def read(text: str, known: Names) -> Typed:
    """Read a text such as `bert-base, L4 vs A10G, fp16, batch 8`. A part of a name is never taken for a name: it is offered."""
    found: dict[str, list[str]] = {name: [] for name in ("models", "hardware", "precision", "platform", "mode")}
    sizes: dict[str, int] = {}
    unknown: list[str] = []
    for part in re.split(r"[,;\n]", text):
        for kind, value in _parts(part.split(), known):
            if kind == "unknown":
                unknown.append(value)
            elif kind in ("batch", "length"):
                sizes[kind] = int(value)
            else:
                found[kind].append(value)
    said = {name: tuple(dict.fromkeys(values)) for name, values in found.items()}
    return Typed(
        models=said["models"],
        hardware=said["hardware"],
        precision=said["precision"],
        platform=said["platform"],
        mode=said["mode"][-1] if said["mode"] else None,
        batch=sizes.get("batch"),
        length=sizes.get("length"),
        unknown=tuple((part, *_offers(part, known)) for part in unknown),
    )


def _parts(words: Sequence[str], known: Names) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text by their kind: the longest name first, then what says a workload."""
    at, lost = 0, []
    while at < len(words):
        kind, value, taken = _part(words[at:], known)
        if kind == "unknown":
            lost.append(value)
        elif lost:
            yield "unknown", " ".join(lost)
            lost = []
        if kind not in ("unknown", "between"):
            yield kind, value
        at += taken
    if lost:
        yield "unknown", " ".join(lost)


def _part(words: Sequence[str], known: Names) -> tuple[str, str, int]:
    word = words[0].casefold()
    glued = _GLUED.match(word)
    if glued:
        return "batch" if glued[1] in _BATCH else "length", glued[2], 1
    for kind, names in (("batch", _BATCH), ("length", _LENGTH)):
        if word in names and len(words) > 1 and words[1].isascii() and words[1].isdigit() and int(words[1]):
            return kind, words[1], 2
    for kind, options in (("precision", PRECISIONS), ("platform", PLATFORMS), ("mode", MODES)):
        if word in options:
            return kind, word, 1
    for taken in range(min(len(words), _MOST_WORDS), 0, -1):
        named = _named(" ".join(words[:taken]), known)
        if named:
            return *named, taken
    return ("between", word, 1) if word in _BETWEEN else ("unknown", words[0], 1)


def _named(text: str, known: Names) -> tuple[str, str] | None:
    """Return the one model or hardware that a text names exactly; None for none, and for several."""
    wanted = text.casefold()
    for kind, exact in (("models", known.exact_models), ("hardware", known.exact_hardware)):
        if len(exact.get(wanted, ())) == 1:
            return kind, exact[wanted][0]
    spec = hardware_catalogue.find(text)
    return None if spec is None else ("hardware", spec.id)


def _offers(text: str, known: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    models = [match.id for match in matches(text, known.models)][:OFFERED]
    devices = [*hardware_catalogue.choices(text), *(match.id for match in matches(text, known.hardware))]
    return tuple(models), tuple(dict.fromkeys(devices))[:OFFERED]


def models_of(comparison: Comparison) -> list[str]:
    """Return the models that are compared."""
    return [name for name in comparison.model.split(",") if name]


def devices_of(comparison: Comparison) -> list[str]:
    """Return the hardware that is compared by name; none for all."""
    return [name for name in comparison.hw.split(",") if name]


def of_subjects(comparison: Comparison) -> Comparison:
    """Return the comparison with the kind that its subjects make: hardware alone is compared by its models."""
    if comparison.what == "models" and comparison.hw:
        return msgspec.structs.replace(comparison, model="")
    if comparison.what in SIDE_BY_SIDE:
        alone = bool(comparison.hw) and not comparison.model
        return msgspec.structs.replace(comparison, what="models" if alone else "hardware")
    return comparison


def with_typed(comparison: Comparison, typed: Typed) -> Comparison:
    """Return the comparison with the subjects that were typed beside its own, at the workload that was typed."""
    models = dict.fromkeys([*models_of(comparison), *typed.models])
    devices = dict.fromkeys([*devices_of(comparison), *typed.hardware])
    workload = {
        name: value
        for name in ("precision", "platform", "mode", "batch", "length")
        if (value := getattr(typed, name)) not in (None, ())
    }
    what = "hardware" if comparison.what == "models" and models else comparison.what
    added = msgspec.structs.replace(comparison, what=what, model=",".join(models), hw=",".join(devices), **workload)
    return of_subjects(added)
