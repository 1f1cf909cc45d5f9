"""The words and units in which an answer is first shown: device names, evidence, prices of a unit of work, picks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from domain.answers import Figures, FrontOption, Pick, RankedOption, Recommendation
from domain.catalogues import hardware
from domain.vocabulary import IN_BROWSERS
from presentation import formatting
from presentation.palette import ORIGIN_WORDS

__all__ = [
    "PICKS",
    "PickWords",
    "PriceUnit",
    "device_name",
    "evidence_words",
    "model_name",
    "pick_words",
    "price_doubt",
    "price_unit",
    "short_name",
    "software_names",
    "unit_price",
    "usd_per_unit",
]

PICKS = {"fastest": "Fastest", "cheapest": "Cheapest", "best_measured": "Best measured"}
"""Titles of the picks by name, in the order in which they are shown."""
_PREFIXES = ("NVIDIA ", "AMD ", "Intel ", "Qualcomm ", "GeForce ")
_SEEN = {"measured": "measured", "imported": "imported", "roofline": "estimate (specs only)"}


LEAST_USD = 1e-3
"""The least price that is written for the usual unit."""


def software_names(rows: Iterable[tuple[str | None, str | None, str | None]]) -> list[str | None]:
    """Return the browser or the runtime of rows of (platform, runtime, browser).

    The runtime is None where all rows of the platform have the same one and it is the usual one: torch on `cpu`.
    """
    listed = list(rows)
    runtimes: dict[str | None, set[str | None]] = {}
    for platform, runtime, _ in listed:
        runtimes.setdefault(platform, set()).add(runtime)

    def says(platform: str | None, runtime: str | None) -> bool:
        return len(runtimes[platform]) > 1 or (platform == "cpu" and runtime != "torch")

    return [browser or (runtime if says(platform, runtime) else None) for platform, runtime, browser in listed]


class PriceUnit(NamedTuple):
    """The unit of a price in words, and how many of them a million items are; None where that differs from option to option.

    Prices of `tokens` follow from the tokens a second where those are known.
    """

    words: str
    in_a_million: float | None
    tokens: bool = False


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


def model_name(model_id: str) -> str:
    """Return a model's name without its owner: `whisper-tiny/encoder` of `openai/whisper-tiny/encoder`."""
    return model_id.partition("/")[2] or model_id


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
    said = ORIGIN_WORDS.get(origin or "")
    return f"{words},{said}" if said else words


def price_unit(answer: Recommendation) -> PriceUnit:
    """Return the unit in which such work is sold: the same for all prices of an answer.

    A million tokens of a language model, an hour of audio, a thousand images, a million calls of anything else; a thousand
    hours or a million images where one price would be less than a tenth of a cent.
    """
    call, work = answer.call, answer.workload
    kind = "" if call is None else call.unit
    if kind in ("generation", "request"):
        tokens = work.output_tokens or (call.items.get("output_tokens") if call is not None else None)
        return PriceUnit("M tokens", tokens, tokens=True)
    if kind in ("transcription", "recording") and work.audio_seconds:
        unit, larger = PriceUnit("h of audio", work.audio_seconds * 1e6 / 3600), "1,000 h of audio"
    elif kind == "image" or (work.image_size is not None and work.mode == "inference"):
        unit, larger = PriceUnit("1,000 images", 1e3), "M images"
    else:
        return PriceUnit("M calls", 1.0)
    assert unit.in_a_million is not None
    options: list[Figures | FrontOption] = [
        *answer.ranked,
        *(pick.option for pick in answer.picks),
        *answer.front.options,
    ]
    least = min((usd for row in options if (usd := usd_per_unit(row, unit))), default=1.0)
    return unit if least >= LEAST_USD else PriceUnit(larger, unit.in_a_million / 1e3)


def usd_per_unit(row: Figures | FrontOption, unit: PriceUnit) -> float | None:
    """Return what a unit of the work costs with an option, in US dollars; None where nobody has a price."""
    hour, rate = getattr(row, "usd_per_hour", None), getattr(row, "tokens_per_s", None)
    if unit.tokens and hour is not None and rate:
        return float(hour / rate / 3600 * 1e6)
    if row.usd_per_million is None or not unit.in_a_million:
        return None
    return row.usd_per_million / unit.in_a_million


def unit_price(row: Figures | FrontOption, unit: PriceUnit) -> str:
    """Return what a unit of the work costs with an option: `$0.142 / M calls`."""
    return formatting.price_scale(unit.words).show(usd_per_unit(row, unit))


def price_doubt(row: Figures) -> str:
    """Return what is doubtful about the price of an option, in two words; empty where it is dated and recent."""
    if row.price is None or not row.price.stale:
        return ""
    return f"price of {row.price.date}" if row.price.date else "undated price"


def pick_words(pick: Pick, answer: Recommendation) -> PickWords:
    """Return a pick in words."""
    row = pick.option
    price = unit_price(row, price_unit(answer))
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
    if row.platform in IN_BROWSERS:
        parts.insert(0, f"{row.platform} {row.browser}" if row.browser else row.platform)
    if row.concurrency is not None:
        parts.append(f"{row.concurrency} at a time")
    elif row.batch_size is not None:
        parts.append(f"batch {row.batch_size}")
    if row.variant is not None:
        loss = row.variant.quality
        cost = "not evaluated" if loss is None else f"loss {loss.loss:.3g} ≤{loss.high:.3g} {loss.unit}"
        parts.append(f"{row.variant.recipe}, {cost}")
    return " · ".join(parts)


def _confidence(pick: Pick) -> str:
    if pick.confidence == "toss-up" and pick.next_hardware:
        return f"toss-up with {short_name(pick.next_hardware)}"
    return {"clear": "clear lead", "likely": "likely"}.get(pick.confidence or "", "")
