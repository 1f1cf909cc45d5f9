"""Limits in words: those in force, how surely a row meets them, why the others and an added device do not, and what would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec
import pandas as pd

from dashboard import answers, ranking
from dashboard.screens.recommend.question import LIMITS, Question, request
from dashboard.screens.recommend.words import RankedRow
from dashboard.service import decoded
from domain.answers import ExcludedConfigurations, Reach, Recommendation
from presentation import formatting
from presentation.answer_words import device_name, price_unit, short_name
from presentation.charts import name_of
from presentation.palette import badge

__all__ = ["Added", "Relaxed", "added", "chance", "chips", "counted", "excluded_table", "met", "relaxed", "without"]

_CHIPS = {
    "max_ms": "latency ≤ {:g} ms",
    "max_ttft": "first token ≤ {:g} ms",
    "max_tpot": "each token ≤ {:g} ms",
    "min_per_s": "≥ {:g} items/s",
    "min_tokens": "≥ {:g} tokens/s",
    "max_gb": "memory ≤ {:g} GB",
    "max_w": "power ≤ {:g} W",
    "max_usd": "price ≤ ${:g}/h",
    "max_loss": "quality loss ≤ {:g} pt",
    "max_mb": "files ≤ {:g} MB",
    "confidence": "sure to {:g}",
    "hw": "hardware: {}",
    "vendor": "vendor: {}",
    "count": "devices: {}",
    "platform": "platform: {}",
    "precision": "precision: {}",
    "compiled": "{} only",
    "batch": "batch: {}",
    "seq": "sequence {}",
    "image": "image {} px",
    "images": "{} images",
    "device": "at hand: {}",
    "audio": "{:g} s of audio",
    "frames": "{} frames",
    "input": "{} tokens in",
    "output": "{} tokens out",
    "steps": "{} steps",
    "call": "one call: a {} pass",
    "concurrency": "{} requests at a time",
    "region": "region: {}",
    "provider": "provider: {}",
    "spot": "spot prices too",
    "per_hw": "all configurations",
    "mode": "{}",
    "as_of": "as of event {}",
}
"""What narrows or changes an answer, by member; objective, percentile and picture have controls of their own."""

_AMOUNTS: dict[str, Callable[[float | None], str]] = {
    "max_latency_ms": formatting.latency,
    "max_ttft_ms": formatting.latency,
    "max_tpot_ms": formatting.latency,
    "min_throughput_per_s": formatting.throughput,
    "min_tokens_per_s": formatting.throughput,
    "max_memory_mb": lambda mb: formatting.memory(None if mb is None else mb * 1e6),
    "max_power_w": lambda watts: (
        formatting.MISSING if watts is None else f"{formatting.significant(watts)}{formatting.SPACE}W"
    ),
    "max_usd_per_hour": formatting.money,
    "max_quality_loss_pt": lambda points: formatting.MISSING if points is None else f"{points:.3g} pt",
    "max_size_mb": lambda mb: formatting.memory(None if mb is None else mb * 1e6),
}
_RULES = {
    "max_latency_ms": "latency",
    "max_ttft_ms": "time to the first token",
    "max_tpot_ms": "time for each token",
    "min_throughput_per_s": "items a second",
    "min_tokens_per_s": "tokens a second",
    "max_memory_mb": "memory",
    "max_power_w": "power",
    "max_usd_per_hour": "price of an hour",
    "max_quality_loss_pt": "quality loss",
    "max_size_mb": "size of files",
}
_EXACT = ("max_power_w", "max_usd_per_hour", "max_quality_loss_pt", "max_size_mb")
"""Figures of a list or a data sheet: they meet a limit or they do not."""


class Relaxed(NamedTuple):
    """What would have to be given up for something to meet all limits, in words, and the question that then asks."""

    words: str
    question: Question


def chips(question: Question) -> dict[str, str]:
    """Return what is set, as words to show, with what each stands for: a member, or `add:` and a device."""
    defaults = Question()
    active = {
        words.format(_joined(getattr(question, name))): name
        for name, words in _CHIPS.items()
        if getattr(question, name) != getattr(defaults, name)
    }
    return active | {f"+ {short_name(slug)}": f"add:{slug}" for slug in question.add}


def without(question: Question, chosen: Sequence[str]) -> Question:
    """Return the question without what these chips stand for: members are as they are by default."""
    defaults = Question()
    left = tuple(slug for slug in question.add if f"add:{slug}" not in chosen)
    members = {name: getattr(defaults, name) for name in chosen if not name.startswith("add:")}
    return msgspec.structs.replace(question, add=left, **members)


def chance(probability: float | None) -> str:
    """Write a probability: never as certain or impossible, and in words where nobody knows."""
    if probability is None:
        return "nobody knows how likely"
    if probability > 0.999:
        return f"> 99.9{formatting.SPACE}%"
    if probability < 0.001:
        return f"< 0.1{formatting.SPACE}%"
    return formatting.share(probability)


def met(row: RankedRow) -> list[str]:
    """Say for each limit that was set how likely the row meets it; of a price or a data sheet, the figure itself."""
    texts = []
    for meet in row.get("meets") or ():
        field = meet["constraint"]
        amount = _amount(field, meet["value"]) if field in _EXACT else chance(meet["probability"])
        texts.append(f"{_limit(field, meet['limit'])}: {amount}")
    return texts


def relaxed(question: Question, entries: Sequence[Reach]) -> list[Relaxed]:
    """Return what would do: each entry alone, or all together where they are what one configuration misses."""
    matching_entries = [entry for entry in entries if entry.constraint in LIMITS]
    if len(matching_entries) > 1 and len({_named(entry) for entry in matching_entries}) == 1:
        return [_relaxed(question, matching_entries)]
    return [_relaxed(question, [entry]) for entry in matching_entries]


def _relaxed(question: Question, entries: Sequence[Reach]) -> Relaxed:
    changes, words = {}, []
    for entry in entries:
        field = entry.constraint
        changes[LIMITS[field]] = entry.would_do / 1000 if field == "max_memory_mb" else entry.would_do
        words.append(f"{_limit(field, entry.would_do)} instead of {_bare(field, entry.limit)}")
    text = f"{' and '.join(words)}: {_named(entries[0])} ({badge(entries[0].basis)})"
    return Relaxed(text, msgspec.structs.replace(question, **changes))


def _named(entry: Reach) -> str:
    return name_of(msgspec.structs.asdict(entry))


def _rules_against(slug: str, excluded: Sequence[ExcludedConfigurations]) -> dict[str, str]:
    """Return the rules that left a device out, each with what it says of the closest configuration."""
    return {_rule(row.rule): row.detail or "" for row in excluded if row.hardware == slug}


class Added(NamedTuple):
    """Options of the added devices; for each device that has none the rules that left it out, and a sentence on them."""

    rows: list[RankedRow]
    reasons: dict[str, str]
    sentences: list[str]


def added(question: Question, answer: Recommendation, rows: Sequence[RankedRow], position: int) -> Added:
    """Ask the same of the added devices that are not listed in the answer already."""
    listed = {row.get("hardware") for row in rows}
    wanted = tuple(slug for slug in question.add if slug not in listed)
    if not wanted:
        return Added([], {}, [])
    alone = msgspec.structs.replace(question, hw=wanted, device=(), vendor=(), per_hw=True)
    other = decoded(answers.recommend(request(alone), position), Recommendation)
    unit = price_unit(answer)
    # What nothing beats among the added ones alone is not on the line of the answer.
    options = [
        cast("RankedRow", {**ranking.priced(option, unit), "added": True, "on_front": False}) for option in other.ranked
    ]
    found = {row["hardware"] for row in options}
    rules = {slug: _rules_against(slug, other.excluded) for slug in wanted if slug not in found}
    reasons = {slug: f"left out: {', '.join(said) or 'nothing is known'}" for slug, said in rules.items()}
    return Added([row for row in options if row["hardware"] not in listed], reasons, list(_sentences(rules)))


def _sentences(rules: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for slug, said in rules.items():
        why = "; ".join(f"{rule}: {detail}" if detail else rule for rule, detail in said.items())
        yield f"{device_name(slug)} is left out: {why or 'nothing is known of this model on it'}."


def counted(excluded: Sequence[ExcludedConfigurations]) -> pd.DataFrame:
    """Return how many devices each rule left out on a platform, most first, with one of them as an example."""
    by_rule: dict[str, list[ExcludedConfigurations]] = {}
    for row in excluded:
        by_rule.setdefault(row.rule, []).append(row)
    ordered = sorted(by_rule.items(), key=lambda item: -len(item[1]))
    return pd.DataFrame(
        {
            "Rule": [_rule(rule) for rule, _ in ordered],
            "Left out": [len(rows) for _, rows in ordered],
            "For example": [_example(rows[0]) for _, rows in ordered],
        }
    )


def excluded_table(excluded: Sequence[ExcludedConfigurations]) -> pd.DataFrame:
    """Return what was left out and under which rule, as words."""
    return pd.DataFrame(
        {
            "Hardware": [_word(row.hardware) for row in excluded],
            "Platform": [_word(row.platform) for row in excluded],
            "Rule": [_rule(row.rule) for row in excluded],
            "Detail": [_detail(row) for row in excluded],
            "Precision": [_listed(row.precisions) for row in excluded],
            "Batch": [_listed(row.batch_sizes) for row in excluded],
            "Evidence": [_listed(row.evidence) for row in excluded],
        }
    )


def _example(row: ExcludedConfigurations) -> str:
    where = " · ".join(name for name in (row.hardware, row.platform) if name)
    return f"{where}: {_word(row.detail)}"


def _detail(row: ExcludedConfigurations) -> str:
    return f"{row.variant}: {row.detail}" if row.variant else _word(row.detail)


def _rule(rule: str) -> str:
    """A rule is the limit that was missed, or words already."""
    return _RULES.get(rule, rule)


def _limit(field: str, limit: float) -> str:
    return _CHIPS[LIMITS[field]].format(limit / 1000 if field == "max_memory_mb" else limit)


def _bare(field: str, limit: float) -> str:
    return _limit(field, limit).rpartition("≤ ")[2].rpartition("≥ ")[2]


def _amount(field: str, value: float | None) -> str:
    return _AMOUNTS[field](value)


def _word(text: str | None) -> str:
    return text or formatting.MISSING


def _listed(values: Sequence[Any] | None) -> str:
    return ", ".join(str(item) for item in values) if values else formatting.MISSING


def _joined(value: Any) -> Any:
    return ", ".join(str(item) for item in value) if isinstance(value, tuple) else value
