"""The members of a `config.json`, read by their names in any family, and noted as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec

import domain
from domain.errors import UsageError

__all__ = ["CONVENTIONS", "FIELD", "Members"]

FIELD = "config"
LARGEST = 10**10
MOST_LAYERS = 4096
_NEVER_NONE = ("heads", "hidden_size", "vocabulary")


class Conventions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How `transformers` writes decoders, from `data/decoder_configs.json`.

    `names` are the members by our name of a size. The rest are families: `tied` whose output is the embedding where the
    config does not say; `two_matrices` whose feed-forward layers have no gate; `four_times` where they are four times as wide
    as the model unless said; `positions` that learn a table of positions, and how many more it has than the config says;
    `windowed` all of whose layers look back `sliding_window` tokens; `patterns` of which every so many-th layer looks back at
    everything. `members_not_read` and `families_not_read` tell of layers that this reading does not know: RWKV,
    Nemotron-NAS, Griffin, Zamba, RetNet, DeepSeek-V4.
    """

    what: str
    names: dict[str, list[str]]
    text_parts: list[str]
    tied: frozenset[str]
    two_matrices: frozenset[str]
    four_times: frozenset[str]
    positions: dict[str, int]
    windowed: frozenset[str]
    patterns: dict[str, int]
    other_known: frozenset[str]
    members_not_read: list[str]
    families_not_read: frozenset[str]
    linear_words: list[str]
    full_words: list[str]
    window_words: list[str]

    @property
    def known(self) -> frozenset[str]:
        """The families whose configs are read as they are meant."""
        return self.other_known | self.tied | self.two_matrices | self.windowed | frozenset(self.patterns)


CONVENTIONS = msgspec.json.decode(files(domain).joinpath("data/decoder_configs.json").read_bytes(), type=Conventions)


class Members:
    """A config whose members are noted as they are read."""

    def __init__(self, config: Mapping[str, Any], path: str = FIELD) -> None:
        self.config, self.path = config, path
        self.read: dict[str, Any] = {}

    def get(self, *names: str, default: Any = None) -> Any:
        """Return the first of these members that says something."""
        for name in names:
            value = self.config.get(name)
            if value is not None:
                self.read[name] = value
                return value
        return default

    def size(self, *names: str, default: int | None = None) -> int:
        """Return a whole number of 0 or more. Raises UsageError where no member has it and there is no default."""
        value = self.get(*names)
        if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
            value = round(sum(value) / len(value))
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST:
            wrong = "is missing" if value is None else f"is {str(value)[:40]} and no size"
            raise UsageError(
                f"{' or '.join(names)} {wrong}.",
                field=f"{self.path}.{names[0]}",
                remedy="Take the config.json that was published with the weights; it says layers, heads, widths and vocabulary.",
            )
        return value

    def named(self, what: str, default: int | None = None) -> int:
        """Return a size by our name of it."""
        value = self.size(*CONVENTIONS.names[what], default=default)
        if (what == "layers" and not 0 < value <= MOST_LAYERS) or (what in _NEVER_NONE and not value):
            name = CONVENTIONS.names[what][0]
            raise UsageError(
                f"{value} is no number of {what}.", field=f"{self.path}.{name}", remedy="Give the published one."
            )
        return value

    def part(self, name: str) -> Members:
        """Return a nested object as a config of its own; empty where there is none."""
        nested = self.config.get(name)
        inner = Members(nested if isinstance(nested, dict) else {}, f"{self.path}.{name}")
        if inner.config:
            self.read[name] = inner.read
        return inner
