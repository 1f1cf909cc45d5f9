"""The words and units in which an answer is first shown: device names, evidence, prices of a unit of work, picks."""

from __future__ import annotations

from typing import NamedTuple

from domain.answers import Call, Figures, Pick, RankedOption, Recommendation, Workload
from domain.catalogues import hardware
from presentation import formatting

__all__ = [
    "PICKS",
    "PickWords",
    "device_name",
    "evidence_words",
    "pick_words",
    "price_doubt",
    "short_name",
    "unit_price",
]

PICKS = {"fastest": "Fastest", "cheapest": "Cheapest", "best_measured": "Best measured"}
"""Titles of the picks by name, in the order in which they are shown."""
_PREFIXES = ("NVIDIA ", "AMD ", "Intel ", "Qualcomm ", "GeForce ")
_SEEN = {"measured": "measured", "imported": "imported", "roofline": "estimate (specs only)"}


class PickWords(NamedTuple):
    """A pick in words: its title, the device, the figure that it is picked for, how it runs, and how sure it is.

    `speed` is its latency, or its throughput where that was asked for.
    """

    title: str
    device: str
    figure: str
    speed: str
    runs: str
    evidence: str
    confidence: str


def device_name(slug: str, count: int | None = None) -> str:
    """Return a device's name as people say it, `NVIDIA L4`, with its number where there are several; else its slug."""
    spec = hardware.find(slug)
    name = slug if spec is None else spec.name
    return f"{count} × {name}" if count and count > 1 else name


def short_name(slug: str, count: int | None = None) -> str:
    """Return a device's name without its maker and brand where its series says it alone: `L4`, `RTX 5090`."""
    spec = hardware.find(slug)
    if spec is None:
        return device_name(slug, count)
    name = spec.name
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return f"{count} × {name}" if count and count > 1 else name


def evidence_words(basis: str | None, origin: str | None = None) -> str:
    """Return what a figure rests on in a word: measured, imported, estimate, or estimate (specs only)."""
    words = _SEEN.get(basis or "", "estimate")
    return f"{words}, SIMULATED" if origin == "simulated" else words


def unit_price(row: Figures, call: Call | None, workload: Workload) -> str:
    """Return what a unit of the work costs, in the unit in which such work is sold.

    A million tokens of a language model, an hour of audio, a thousand images, a million calls of anything else.
    """
    hour = row.usd_per_hour
    if hour is None:
        return formatting.MISSING
    unit = "" if call is None else call.unit
    if unit in ("generation", "request") and row.tokens_per_s:
        return _price(hour / row.tokens_per_s / 3600 * 1e6, "M tokens")
    if unit in ("transcription", "recording") and row.realtime_factor:
        return _price(hour / row.realtime_factor, "h of audio", "1,000 h of audio")
    if row.usd_per_million is None:
        return formatting.MISSING
    if unit == "image" or (workload.image_size is not None and workload.mode == "inference"):
        return _price(row.usd_per_million / 1e3, "1,000 images", "M images")
    return _price(row.usd_per_million, "M calls")


def price_doubt(row: Figures) -> str:
    """Return what is doubtful about the price of an option, in two words; empty where it is dated and recent."""
    if row.price is None or not row.price.stale:
        return ""
    return f"price of {row.price.date}" if row.price.date else "undated price"


def _price(usd: float, unit: str, thousand: str | None = None) -> str:
    """Write a price; `thousand` names a thousand units, which a price of less than a tenth of a cent is written for."""
    if thousand is not None and usd < 1e-3:
        usd, unit = usd * 1e3, thousand
    return f"${formatting.significant(usd)} / {unit}"


def pick_words(pick: Pick, answer: Recommendation) -> PickWords:
    """Return a pick in words."""
    row = pick.option
    price = unit_price(row, answer.call, answer.workload)
    speed = _speed(row, answer)
    return PickWords(
        title=PICKS.get(pick.name, pick.name),
        device=device_name(row.hardware, row.hardware_count),
        figure=price if pick.name == "cheapest" else speed,
        speed=speed,
        runs=_runs(row),
        evidence=evidence_words(row.basis, row.origin),
        confidence=_confidence(pick),
    )


def _speed(row: RankedOption, answer: Recommendation) -> str:
    if answer.question.get("objective") == "throughput":
        return formatting.throughput(row.throughput_per_s)
    return formatting.latency(row.latency_ms, row.latency_ms_low, row.latency_ms_high, mean=bool(row.latency_is_mean))


def _runs(row: RankedOption) -> str:
    precision = None if row.precision in (None, "unknown") else row.precision
    parts = [f"{precision}{' compiled' if row.compiled else ''}"] if precision else []
    if row.concurrency is not None:
        parts.append(f"{row.concurrency} at a time")
    elif row.batch_size is not None:
        parts.append(f"batch {row.batch_size}")
    return " · ".join(parts)


def _confidence(pick: Pick) -> str:
    if pick.confidence == "toss-up" and pick.next_hardware:
        return f"toss-up with {short_name(pick.next_hardware)}"
    return {"clear": "clear lead", "likely": "likely"}.get(pick.confidence or "", "")
