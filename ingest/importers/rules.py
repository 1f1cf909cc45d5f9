"""Cleaning as facts: stated rules that recognise rows nobody can have measured as they are told, and mark them.

A row that a rule catches is kept, with the rule's name and what it saw as a reason of its verdict; rows that were made up or
simulated get the origin `simulated`, so that they never train and never answer. That a file calls a row real proves
nothing, and no rule asks. docs/importers.md states every rule with its threshold.

What rules read from `Draft.claims`:

* `flags`: {name: value} of members that say that something was simulated, mocked or fell back;
* `counters`: whether the file has counters of the device (memory, utilisation, power) for this row, None where not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from ingest.importers.draft import Draft, Finding

__all__ = ["ROW_RULES", "TOGETHER_RULES", "judge", "judge_together"]

FASTEST_MS = 0.001
"""Nothing of a model runs in less: a kernel launch alone takes some microseconds."""
CONSISTENT = 0.05
"""Throughput × latency may differ from the batch by this share."""
MODELS_ALIKE = 3
"""So many different models with one latency to the last digit were not measured."""


def simulated_flag(draft: Draft) -> Finding | None:
    """Any member that says simulated, mock, fake or placeholder wins over every label that says real."""
    flags = {name: value for name, value in (draft.claims.get("flags") or {}).items() if value}
    if not flags:
        return None
    said = ", ".join(f"{name} is {value!r}" for name, value in sorted(flags.items())[:4])
    return Finding("simulated-flag", "invalid", f"the file says so itself: {said}", simulated=True)


def impossible_speed(draft: Draft) -> Finding | None:
    """A call that ends within a microsecond."""
    latency = draft.latency_ms()
    if latency is None or latency >= FASTEST_MS:
        return None
    return Finding("impossible-speed", "invalid", f"one call in {latency:.3g} ms", simulated=True)


def inconsistent_rate(draft: Draft) -> Finding | None:
    """Throughput × latency is the batch where one call follows another; where it is not, one of them is wrong."""
    latency, rate = draft.latency_ms(), draft.metrics.get("throughput_per_s")
    batch = draft.workload.get("batch_size")
    alone = draft.workload.get("scenario") in (None, "single_stream", "offline") and draft.execution.get("streams") in (
        None,
        1,
    )
    if not (latency and rate and batch and alone) or draft.hardware.get("count", 1) != 1:
        return None
    told = latency / 1000 * rate
    if abs(told - batch) <= CONSISTENT * batch:
        return None
    return Finding("inconsistent-rate", "suspect", f"throughput × latency = {told:.4g}, and the batch has {batch}")


def constant_across_models(drafts: Sequence[Draft]) -> Iterator[tuple[Draft, Finding]]:
    """The same latency to the last digit for different models on one platform."""
    alike: dict[tuple[object, ...], list[Draft]] = defaultdict(list)
    for draft in drafts:
        if (latency := draft.latency_ms()) is not None:
            alike[
                draft.execution.get("platform"), draft.hardware["id"], draft.workload.get("batch_size"), latency
            ].append(draft)
    for same in alike.values():
        models = {draft.model["id"] for draft in same}
        if len(models) >= MODELS_ALIKE:
            reason = f"{same[0].latency_ms():.6g} ms for {len(models)} different models"
            yield from ((draft, Finding("constant-across-models", "invalid", reason, simulated=True)) for draft in same)


ROW_RULES: dict[str, Callable[[Draft], Finding | None]] = {
    "simulated-flag": simulated_flag,
    "impossible-speed": impossible_speed,
    "inconsistent-rate": inconsistent_rate,
}
TOGETHER_RULES: dict[str, Callable[[Sequence[Draft]], Iterator[tuple[Draft, Finding]]]] = {
    "constant-across-models": constant_across_models,
}


def judge(draft: Draft) -> None:
    """Add what the rules that look at one row find."""
    draft.findings += [finding for rule in ROW_RULES.values() if (finding := rule(draft))]


def judge_together(drafts: Sequence[Draft]) -> None:
    """Add what the rules that compare the rows of a file find."""
    for rule in TOGETHER_RULES.values():
        for draft, finding in list(rule(drafts)):
            draft.findings.append(finding)
