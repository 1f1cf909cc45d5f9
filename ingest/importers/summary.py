"""Counts of what an import read: events by type and format, what the rules caught, refusals by reason, with examples."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from domain.events import KERNEL_MEASURED
from ingest.importers.refusals import Refused, writable

__all__ = ["Caught", "Summary"]

REASONS = 1000
"""So many reasons are kept apart; a file that is broken in more ways has the rest counted as one."""
UNNAMED = "the importer's own check"
"""Under which rows are counted that an importer doubts by itself, without one of the cleaning rules."""
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d.,:]*")


class Caught(NamedTuple):
    """A row that a rule caught: the file, its row there, and what the rule saw."""

    file: str
    row: int | None
    why: str


class Summary:
    """Counts what goes by. `examples` and `caught_examples` hold the first of each reason and of each rule.

    `taken` counts events by type, `formats` the same for each format, `timings` those of kernels by format, of which an
    event holds many, `names` rows by the model and the hardware they tell of. Reasons that differ only in figures or in
    what they quote count as one.
    """

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.timings: Counter[str] = Counter()
        self.formats: dict[str, Counter[str]] = defaultdict(Counter)
        self.verdicts: Counter[str] = Counter()
        self.origins: Counter[str] = Counter()
        self.caught: Counter[str] = Counter()
        self.caught_examples: dict[str, Caught] = {}
        self.refused: Counter[str] = Counter()
        self.examples: dict[str, Refused] = {}
        self.names: dict[str, Counter[str]] = {"model": Counter(), "hardware": Counter()}

    def watch(self, items: Iterable[dict[str, Any] | Refused]) -> Iterator[dict[str, Any] | Refused]:
        """Pass the items on, counting them; refusals as they can be written."""
        count = self._count
        for item in items:
            if type(item) is dict:
                count(item)
                yield item
            elif isinstance(item, Refused):
                yield self.refuse(item)

    def refuse(self, refused: Refused) -> Refused:
        """Count a refusal, and return it as it can be written."""
        refused = writable(refused)
        reason = _VARYING.sub("…", refused.reason)
        if reason not in self.refused and len(self.refused) >= REASONS:
            reason = "other reasons"
        self.refused[reason] += 1
        self.examples.setdefault(reason, refused)
        return refused

    def _count(self, event: dict[str, Any]) -> None:
        type_, data = event["type"], event["data"]
        self.taken[type_] += 1
        self.formats[event["source"]][type_] += 1
        if type_ == KERNEL_MEASURED:
            self._count_kernels(event["source"], data)
        if "provenance" not in data or "model" not in data:
            return
        self.names["model"][data["model"]["id"]] += 1
        self.names["hardware"][data["hardware"]["id"]] += 1
        self.origins[data["provenance"]["origin"]] += 1
        validity = data.get("validity")
        if validity:
            self.verdicts[validity["verdict"]] += 1
            if validity["verdict"] != "valid":
                self._catch(data, validity.get("reasons", ()))

    def _count_kernels(self, source: str, data: dict[str, Any]) -> None:
        timings = data["timings"]
        self.timings[source] += timings
        self.names["hardware"][data["hardware"]["id"]] += timings
        self.origins[data["provenance"]["origin"]] += timings
        for name, mark in data.get("marks", {}).items():
            self.verdicts[mark["verdict"]] += mark["timings"]
            self.caught[name] += mark["timings"]
            where = data["provenance"].get("reference", "")
            self.caught_examples.setdefault(name, Caught(where, None, mark["reason"]))

    def _catch(self, data: dict[str, Any], reasons: Iterable[str]) -> None:
        imported = data.get("imported") or {}
        for rule in imported.get("rules") or (UNNAMED,):
            self.caught[rule] += 1
            if rule not in self.caught_examples:
                why = next((reason for reason in reasons if reason.startswith(f"{rule}: ")), next(iter(reasons), ""))
                reference = data["provenance"].get("reference", "")
                self.caught_examples[rule] = Caught(reference, imported.get("row"), why.removeprefix(f"{rule}: "))
