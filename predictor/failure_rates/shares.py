"""Shares of how configurations ended, from the general to the particular: each level is shrunk to the one above it.

A share of a model on a platform that was tried twice is mostly that of its family there, and that mostly the
category's; with more tries it becomes its own. Counts of a level weigh against `strength` tries of the level above.
What others reported and what was measured here are separate from the platform on, and meet again in the model. A platform
takes after platforms of its kind alone: what runs on a processor says nothing of an accelerator.

On 412 cases with models left out their log loss was 0.31, of the base rate 0.70 (`python -m research.other_targets outcomes
data/*.ndjson.gz FOLDER` with the earlier framework's result files).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from domain.answers import Chances
from predictor.failure_rates.cases import ENDS, TriedConfiguration

__all__ = ["STRENGTH", "Shares"]

STRENGTH = 4.0
_LIKE = {
    **dict.fromkeys(("cuda", "rocm", "xpu", "mps", "hpu"), "accelerators"),
    **dict.fromkeys(("wasm", "webgpu", "webnn"), "browsers"),
}
"""Platforms that fail alike; any other is a kind of its own."""
BEFORE = {"runs": 0.7, "unsupported": 0.1, "out_of_memory": 0.1, "fails": 0.1}
"""Expected of anything before anything was tried; a judgement that a handful of tries outweighs."""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """Tries by level and key, and how they ended."""

    counts: dict[str, dict[str, list[int]]]
    evidence: dict[str, list[str]]
    strength: float = STRENGTH

    @classmethod
    def fitted(cls, cases: Sequence[TriedConfiguration], strength: float = STRENGTH) -> Shares:
        """Count cases; the same cases in another order give the same shares."""
        counters: dict[str, dict[str, Counter[int]]] = {}
        evidence: dict[str, list[str]] = {}
        for case in cases:
            if case.end is None:
                continue
            for level, key in (("all", ""), *_path(case)):
                counters.setdefault(level, {}).setdefault(key, Counter())[ENDS.index(case.end)] += 1
                if case.evidence:
                    evidence.setdefault(f"{level} {key}", []).append(case.evidence)
        counts = {
            level: {key: [count[index] for index in range(len(ENDS))] for key, count in sorted(keys.items())}
            for level, keys in counters.items()
        }
        return cls(counts=counts, evidence={key: ids[-5:] for key, ids in evidence.items()}, strength=strength)

    def document(self) -> dict[str, Any]:
        """Return its public description: how all tries ended, and those of each platform."""
        everything = self.counts.get("all", {}).get("", [0] * len(ENDS))
        return {
            "tries": dict(zip(ENDS, everything, strict=True)),
            "platforms": {
                name: dict(zip(ENDS, count, strict=True)) for name, count in self.counts.get("platform", {}).items()
            },
        }

    def tried(self, case: TriedConfiguration) -> bool:
        """Whether the configuration was tried on this very device."""
        return _path(case)[-1][1] in self.counts.get("hardware", {})

    def chances(self, case: TriedConfiguration) -> Chances:
        """Return the chances of a configuration."""
        shares = [BEFORE[end] for end in ENDS]
        level, key, tries = "", "", 0
        for name, place in _path(case):
            here = self.counts.get(name, {}).get(place)
            if here is None:
                continue
            level, key, tries = name, place, sum(here)
            # Four numbers at a time are faster by themselves than as an array.
            shares = [
                (count + self.strength * share) / (tries + self.strength)
                for count, share in zip(here, shares, strict=True)
            ]
        return chances_of(shares, level, tries, tuple(self.evidence.get(f"{level} {key}", ())))


def chances_of(shares: Iterable[float], level: str, tries: int, evidence: tuple[str, ...] = ()) -> Chances:
    """Return shares in the order of `ENDS` as chances."""
    named: dict[str, Any] = dict(zip(ENDS, (float(share) for share in shares), strict=True))
    return Chances(**named, level=level, tries=tries, evidence=evidence)


def _path(case: TriedConfiguration) -> list[tuple[str, str]]:
    """The levels of a case from the general to the particular; one that lacks what a level needs leaves it out."""
    where = f"{case.platform} {case.origin}"
    precision = case.precision or "-"
    like = _LIKE.get(case.platform, case.platform)
    path = [
        ("like platforms", like),
        ("platform", case.platform),
        ("platform by origin", where),
        ("precision", f"{where} {precision}"),
    ]
    if case.category:
        path.append(("category", f"{case.category} {where}"))
    if case.family:
        path.append(("family", f"{case.family} {where}"))
    path += [
        ("model on like platforms", f"{case.model} {like}"),
        ("model", f"{case.model} {case.platform}"),
        ("configuration", f"{case.model} {case.platform} {precision}"),
    ]
    if case.hardware:
        path.append(("hardware", f"{case.model} {case.platform} {precision} {case.hardware}"))
    return path
