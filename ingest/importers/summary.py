"""Counts of what an import read: events by type, what the rules caught, refusals by reason, with an example of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ingest.importers.refusals import Refused

__all__ = ["Summary"]


class Summary:
    """Counts what goes by. `examples` and `caught_examples` hold the first of each reason and of each rule."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.origins: Counter[str] = Counter()
        self.caught: Counter[str] = Counter()
        self.caught_examples: dict[str, tuple[str, int | None, str]] = {}
        self.refused: Counter[str] = Counter()
        self.examples: dict[str, Refused] = {}
        self.names: dict[str, Counter[str]] = {"model": Counter(), "hardware": Counter()}

    def watch(self, items: Iterable[dict[str, Any] | Refused]) -> Iterator[dict[str, Any] | Refused]:
        """Pass the items on, counting them."""
        for item in items:
            if isinstance(item, Refused):
                self.refused[item.reason] += 1
                self.examples.setdefault(item.reason, item)
            else:
                self._count(item["type"], item["data"])
            yield item

    def _count(self, type_: str, data: dict[str, Any]) -> None:
        self.taken[type_] += 1
        if "model" not in data:
            return
        self.names["model"][data["model"]["id"]] += 1
        self.names["hardware"][data["hardware"]["id"]] += 1
        self.origins[data["provenance"]["origin"]] += 1
        validity = data.get("validity") or {}
        if validity:
            self.verdicts[validity["verdict"]] += 1
        imported = data.get("imported") or {}
        for rule in imported.get("rules", ()):
            self.caught[rule] += 1
            if rule not in self.caught_examples:
                reasons = [reason for reason in validity.get("reasons", ()) if reason.startswith(f"{rule}:")]
                why = reasons[0].partition(": ")[2] if reasons else ""
                self.caught_examples[rule] = (data["provenance"].get("reference", ""), imported.get("row"), why)
