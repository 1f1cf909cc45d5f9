"""Rules that compare the rows of a file. Each docstring is what docs/importers.md says of the rule."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ingest.importers.draft import Draft, Finding
from ingest.importers.rules.rows import digits

__all__ = ["constant_across_models", "equal_to_cpu", "identical_rows", "slower_elsewhere"]

MODELS_ALIKE = 3
"""So many different models with one latency to the last digit were not measured …"""
ALIKE_DIGITS = 6
"""… where it has so many digits that tables which round cannot make it by chance …"""
ALIKE_SHARE = 0.5
"""… or where they are so much of all models and of all rows of their kind: rounded latencies of many rows meet by chance."""
PAIRS = 3
"""Configurations that a platform must share with the CPU before their ratio says anything."""
EQUAL = 0.05
"""How near to the CPU's the median latency is: an accelerator is never that near over several sizes at once."""
SLOWER = 3.0
"""Two runs of one configuration on one machine differ by some percent, beside other work by half; not by this factor."""

_JSON = msgspec.json.Encoder(order="deterministic")


def constant_across_models(drafts: Sequence[Draft]) -> Iterator[tuple[Draft, Finding]]:
    """The same latency to the last digit for three different models or more on one platform and hardware."""
    alike: dict[tuple[Any, ...], list[Draft]] = {}
    for draft in drafts:
        if (latency := draft.latency_ms()) is not None:
            kind = (draft.execution.get("platform"), draft.hardware["id"], draft.workload.get("batch_size"))
            alike.setdefault((kind, latency), []).append(draft)
    names: dict[Any, set[str]] = {}
    counts: Counter[Any] = Counter()
    for (kind, _), same in alike.items():
        counts[kind] += len(same)
    for (kind, latency), same in alike.items():
        models = {draft.model["id"] for draft in same} if len(same) >= MODELS_ALIKE else ()
        if len(models) < MODELS_ALIKE:
            continue
        if kind not in names:
            names[kind] = {draft.model["id"] for (other, _), each in alike.items() if other == kind for draft in each}
        common = len(models) >= ALIKE_SHARE * len(names[kind]) and len(same) >= ALIKE_SHARE * counts[kind]
        if digits(latency) >= ALIKE_DIGITS or common:
            reason = f"{latency:.6g} ms for {len(models)} different models"
            yield from ((draft, Finding("constant-across-models", "invalid", reason, simulated=True)) for draft in same)


def equal_to_cpu(drafts: Sequence[Draft]) -> Iterator[tuple[Draft, Finding]]:
    """A platform whose latencies are those of plain CPU over three configurations or more: the work ran on the CPU."""
    platforms = {draft.execution.get("platform") for draft in drafts}
    if "cpu" not in platforms or len(platforms) < 2:
        return
    machines = {draft.hardware["id"] for draft in drafts if draft.execution.get("platform") == "cpu"}
    plain: dict[tuple[str, bytes], float] = {}
    others: dict[tuple[str, Any, str], list[tuple[Draft, tuple[str, bytes]]]] = defaultdict(list)
    for draft in drafts:
        latency = draft.latency_ms()
        if latency is None:
            continue
        execution = {name: value for name, value in draft.execution.items() if name not in ("platform", "runtime")}
        machine = draft.hardware["id"]
        if draft.hardware.get("kind") != "cpu" and len(machines) == 1:
            (machine,) = machines  # A device of its own in the one machine that there is.
        key = machine, _JSON.encode([draft.model["id"], draft.workload, execution])
        if draft.execution.get("platform") == "cpu":
            plain[key] = latency
        else:
            others[draft.model["id"], draft.execution.get("platform"), draft.hardware["id"]].append((draft, key))
    for (_, platform, _), rows in others.items():
        ratios = [(draft.latency_ms() or 0.0) / plain[key] for draft, key in rows if key in plain]
        if len(ratios) < PAIRS:
            continue
        median = statistics.median(ratios)
        if abs(median - 1) <= EQUAL:
            reason = f"{platform} takes {median:.3g} × the CPU's time over {len(ratios)} configurations"
            yield from ((draft, Finding("equal-to-cpu", "suspect", reason)) for draft, _ in rows)


def slower_elsewhere(drafts: Sequence[Draft]) -> Iterator[tuple[Draft, Finding]]:
    """The same configuration took a third of the time, or less, in another row."""
    same: dict[bytes, list[tuple[float, Draft]]] = defaultdict(list)
    for draft in drafts:
        if (latency := draft.latency_ms()) is not None:
            key = _JSON.encode([draft.model["id"], draft.workload, draft.execution, draft.hardware])
            same[key].append((latency, draft))
    for rows in same.values():
        fastest = min(latency for latency, _ in rows) if len(rows) > 1 else 0.0
        for latency, draft in rows:
            if fastest and latency >= SLOWER * fastest:
                reason = f"{latency / fastest:.3g} × the time of the same configuration in another row"
                yield draft, Finding("slower-elsewhere", "suspect", reason)


def identical_rows(drafts: Sequence[Draft]) -> Iterator[tuple[Draft, Finding]]:
    """All figures of a row, digit for digit, stand in a row of another configuration too: one was copied."""
    alike: dict[bytes, list[Draft]] = defaultdict(list)
    for draft in drafts:
        if draft.kind == "measurement":
            alike[_JSON.encode(draft.metrics)].append(draft)
    for same in alike.values():
        if len(same) < 2 or max(map(digits, _figures(same[0].metrics)), default=0) < ALIKE_DIGITS:
            continue
        configurations = {
            _JSON.encode([draft.model["id"], draft.workload, draft.execution, draft.hardware]) for draft in same
        }
        if len(configurations) > 1 and sum(1 for _ in _figures(same[0].metrics)) > 1:
            reason = f"the figures of {len(configurations)} configurations are the same"
            yield from ((draft, Finding("identical-rows", "suspect", reason)) for draft in same)


def _figures(metrics: dict[str, Any]) -> Iterator[float]:
    for value in metrics.values():
        if isinstance(value, dict):
            yield from _figures(value)
        elif isinstance(value, int | float):
            yield float(value)
