"""One ranked option in words: its figures, what it costs and where, what its memory holds, how right its outputs are."""

from __future__ import annotations

from html import escape as html
from typing import Any, TypedDict, cast

import msgspec

from domain.answers import OptionVariant, QualityLoss
from presentation import formatting
from presentation.charts import METRICS, Metric
from presentation.palette import VERDICT_GLYPHS, badge
from presentation.variant_words import variant_sentence

__all__ = [
    "RankedRow",
    "basis_words",
    "energy_doubt",
    "error_words",
    "figures",
    "interval_words",
    "memory_bar",
    "memory_words",
    "number",
    "power_words",
    "price_doubt",
    "price_words",
    "shown",
    "title",
    "variant_brief",
    "variant_words",
]


class RankedRow(TypedDict, total=False):
    """An option of an answer as it is drawn: the members of `domain.answers.RankedOption`, and what follows from them.

    `rank_band` is the rank, or the ranks that it shares; `distinct` what tells it from a row of the same name, and `software` the runtime or browser of it; `asked` what
    was asked for where something else ran; `unit_usd` what a unit of the work costs, and `price_unit` that unit;
    `picked` a named pick, `added` a device that the reader put beside the answer. Times in ms, memory in bytes, energy in J, power in W, prices in US dollars.
    """

    rank: int
    rank_band: str
    tied_with: int | None
    on_front: bool
    hardware: str
    hardware_count: int
    platform: str
    platform_asked: str | None
    precision: str
    precision_asked: str | None
    asked: str
    distinct: str
    compiled: bool
    runtime: str | None
    runtime_version: str | None
    software: str | None
    browser: str | None
    browser_version: str | None
    batch_size: int | None
    steps: int | None
    concurrency: int | None
    latency_ms: float | None
    latency_ms_low: float | None
    latency_ms_high: float | None
    latency_is_mean: bool
    interval_covered: bool
    ttft_ms: float | None
    ttft_ms_low: float | None
    ttft_ms_high: float | None
    tpot_ms: float | None
    tpot_ms_low: float | None
    tpot_ms_high: float | None
    tokens_per_s: float | None
    realtime_factor: float | None
    throughput_per_s: float | None
    throughput_per_s_low: float | None
    throughput_per_s_high: float | None
    peak_memory_bytes: float | None
    peak_memory_bytes_low: float | None
    peak_memory_bytes_high: float | None
    memory_low_bytes: float | None
    memory_high_bytes: float | None
    memory_floor_bytes: float | None
    memory_parts: dict[str, float | None] | None
    energy_per_item_j: float | None
    energy_basis: str | None
    energy_verdict: str | None
    power_w: float | None
    rated_power_w: float | None
    usd_per_hour: float | None
    usd_per_million: float | None
    unit_usd: float | None
    unit_usd_low: float | None
    unit_usd_high: float | None
    price_unit: str
    speedup_over_cpu: float | None
    price: RankedPrice | None
    meets: list[RankedLimit]
    output_error: RankedError | None
    variant: dict[str, Any] | None
    quality: dict[str, Any] | None
    explanation: RankedExplanation | None
    basis: str
    origin: str | None
    n: int | None
    runs: int | None
    evidence: list[str]
    why: str
    why_above_next: str | None
    command: str
    picked: bool
    added: bool


class RankedPrice(TypedDict):
    """The machines that an hour's price is of, as `domain.answers.HourPrice` has them."""

    provider: str
    instance: str | None
    region: str | None
    spot: bool
    machines: int
    devices_each: int
    date: str | None
    age_days: int | None
    stale: bool


class RankedLimit(TypedDict):
    """A limit, the figure that it bounds, and the probability that it is met, as `domain.answers.Met` has them."""

    constraint: str
    limit: float
    value: float | None
    probability: float | None


class RankedError(TypedDict):
    """How far verified outputs were from those of fp32 on the CPU, as `domain.answers.OutputError` has it."""

    cosine: float | None
    max_absolute: float | None
    outcome: str


class RankedExplanation(TypedDict):
    """A sentence on what bounds a latency."""

    told: str


def number(row: RankedRow, key: str) -> float | None:
    """Return a row's figure under the key of a metric; None where it is not known."""
    value: float | None = cast("dict[str, Any]", row).get(key)
    return value


_PARTS = (
    ("weights_bytes", "weights"),
    ("kv_cache_bytes", "keys and values"),
    ("activations_bytes", "activations"),
    ("runtime_bytes", "runtime"),
)
_SHADES = (0.85, 0.55, 0.32, 0.16)
"""Of the ink of the text, so that the bar is right in both themes and no part wears a platform's colour."""


def title(row: RankedRow) -> str:
    """Return the device, and how many of it."""
    count = row.get("hardware_count") or 1
    return f"{count} × {row.get('hardware')}" if count > 1 else str(row.get("hardware"))


def shown(row: RankedRow, metric: Metric) -> str:
    """Write one metric of a row with its interval; a cost as the price of a unit of the work."""
    if metric is METRICS["cost"]:
        usd, least, most = (number(row, f"unit_usd{end}") for end in ("", "_low", "_high"))
        return formatting.price_scale(row.get("price_unit") or "").show(usd, least, most)
    value, low, high = (number(row, key) for key in (metric.key, metric.low, metric.high))
    show = metric.scale([value]).show(value, low, high)
    return (
        f"{show} (mean)" if value is not None and metric is METRICS["latency"] and row.get("latency_is_mean") else show
    )


def interval_words(row: RankedRow, metric: Metric, share: float | None) -> str:
    """Write the interval of a metric and of which kind it is; `share` is how much a prediction's is meant to hold."""
    ends = shown(row, metric).partition(" (")[2].removesuffix(" (mean)").rstrip(")")
    if not ends or ends == "mean":
        return "no interval is known"
    estimated = metric is METRICS["energy"] and row.get("energy_basis") == "predicted"
    if row.get("basis") == "measured" and not estimated:
        return f"{ends}, 95{formatting.SPACE}% CI"
    kind = f"{formatting.share(share).replace('.0', '')} interval" if share else "interval"
    return f"{ends}, {kind}{', not covered by measurement' if row.get('interval_covered') is False else ''}"


def figures(row: RankedRow, beside: Metric, percentile: str) -> list[str]:
    """Return what is known of a row besides one metric, each with its name; what nobody knows is not among them."""
    texts = []
    for name, metric in METRICS.items():
        if metric is not beside and name != "memory" and shown(row, metric) != formatting.MISSING:
            doubt = energy_doubt(row) if name == "energy" else None
            texts.append(
                _named(name, shown(row, metric), percentile) + (f" ({doubt})" if doubt not in (None, "valid") else "")
            )
    for key, words in (("ttft_ms", "first token {}"), ("tpot_ms", "then {} a token")):
        if (value := number(row, key)) is not None:
            texts.append(words.format(formatting.latency(value, number(row, f"{key}_low"), number(row, f"{key}_high"))))
    if (real_time := row.get("realtime_factor")) is not None:
        texts.append(f"{formatting.factor(real_time)} real time")
    elif row.get("tokens_per_s") is not None:
        texts.append(f"{formatting.throughput(row['tokens_per_s']).removesuffix('/s')} tokens/s")
    if row.get("steps") and (rate := row.get("throughput_per_s")) is not None:
        texts.append(f"{formatting.significant(rate * 60)} images/min")
    return texts


def price_words(row: RankedRow) -> str | None:
    """Say what an hour costs: of which machine, where, as of when that is known. None without a price."""
    price = row.get("price")
    if not price:
        return None
    machines = f"{price['machines']} × " if price["machines"] > 1 else ""
    holds = f" ({price['devices_each']} devices)" if price["devices_each"] > 1 else ""
    name = f"{price['provider']} {price['instance'] or ''}".rstrip()
    parts = [f"{formatting.money(row.get('usd_per_hour'))}/h", f"{machines}{name}{holds}"]
    parts += [price["region"]] if price["region"] else []
    parts += ["spot"] if price["spot"] else []
    return " · ".join([*parts, f"as of {price['date']}"] if price["date"] else parts)


def price_doubt(row: RankedRow) -> str | None:
    """Say why a price has to be checked; None where it is recent, or where there is none."""
    price = row.get("price")
    if not price or not price["stale"]:
        return None
    age = price["age_days"]
    return "undated price: check it" if age is None else f"stale price, {age} days old: check it"


def energy_doubt(row: RankedRow) -> str | None:
    """Say what an energy rests on where that is not a valid measurement: its own verdict, or that it is predicted."""
    if number(row, METRICS["energy"].key) is None and row.get("power_w") is None:
        return None
    if row.get("energy_basis") == "predicted":
        return "predicted"
    return str(row["energy_verdict"]) if row.get("energy_verdict") else None


def power_words(row: RankedRow) -> str | None:
    """Say what the devices drew, with its verdict, and what they are rated for; None where neither is known."""
    drawn, rated = row.get("power_w"), row.get("rated_power_w")
    parts = []
    if drawn is not None:
        verdict = row.get("energy_verdict")
        parts.append(
            f"{formatting.si(drawn, 'W')} drawn ({VERDICT_GLYPHS.get(verdict, VERDICT_GLYPHS[None])} {verdict or 'no verdict'})"
        )
    if rated is not None:
        parts.append(f"rated {formatting.si(rated, 'W')}")
    return f"Power {', '.join(parts)}" if parts else None


def basis_words(row: RankedRow) -> str:
    """Say what a row rests on, its basis once."""
    basis, why = badge(row.get("basis"), row.get("origin")), str(row.get("why") or "")
    name = str(row.get("basis"))
    if why.startswith(name) and row.get("origin") != "simulated":
        return basis.replace(name, why, 1)
    return f"{basis}: {why}" if why else basis


def memory_words(row: RankedRow) -> str:
    """Say the peak, or the least that is known to be needed, and what it is made of."""
    parts = [f"{words} {formatting.memory(size)}" for words, size in _parts(row)]
    made = f": {', '.join(parts)}" if parts else ""
    peak = row.get("peak_memory_bytes")
    if peak is not None:
        return f"Memory {formatting.memory(peak, row.get('memory_low_bytes'), row.get('memory_high_bytes'))}{made}"
    if row.get("memory_floor_bytes") is not None:
        return f"Memory at least {formatting.memory(row['memory_floor_bytes'])}{made}; the peak is not known"
    return "Memory not known"


def memory_bar(row: RankedRow) -> str | None:
    """Return the parts of the memory as a bar in HTML, named for those who do not see it; None for fewer than two."""
    parts = _parts(row)
    if len(parts) < 2:
        return None
    names = [words for _, words in _PARTS]
    total = sum(size for _, size in parts)
    pieces = "".join(
        f'<span style="flex:{size / total:.4f} 1 0;min-width:2px;background:currentColor;'
        f'opacity:{_SHADES[names.index(words)]}"></span>'
        for words, size in parts
    )
    return (
        f'<div role="img" aria-label="{html(memory_words(row))}" '
        f'style="display:flex;gap:1px;height:8px;border-radius:3px;overflow:hidden">{pieces}</div>'
    )


def error_words(row: RankedRow) -> str:
    """Say how far outputs were from fp32 on the CPU in this platform and precision, or that nobody verified them."""
    error = row.get("output_error")
    if not error:
        return "Outputs not verified in this platform and precision"
    parts = [
        f"{words} {formatting.significant(value, digits)}"
        for value, words, digits in ((error["cosine"], "cosine", 5), (error["max_absolute"], "largest error", 2))
        if value is not None
    ]
    return f"Outputs against fp32 on the CPU: {', '.join(parts)} ({error['outcome']})"


def variant_words(row: RankedRow) -> str | None:
    """Say which variant a row is, its size and its loss of quality, or what the precision of the model itself costs."""
    variant, quality = row.get("variant"), row.get("quality")
    if variant:
        return variant_sentence(msgspec.convert(variant, OptionVariant))
    return None if not quality else f"This precision loses {msgspec.convert(quality, QualityLoss).text()}"


def variant_brief(row: RankedRow) -> str | None:
    """Return the recipe of a variant with its loss and the upper end of that; None for the model itself."""
    variant = row.get("variant")
    if not isinstance(variant, dict):
        return None
    loss = variant.get("quality")
    cost = "not evaluated" if not loss else f"loss {loss['loss']:.3g} ≤{loss['high']:.3g} {loss['unit']}"
    return f"{variant['recipe']}, {cost}"


def _parts(row: RankedRow) -> list[tuple[str, float]]:
    memory_parts = row.get("memory_parts") or {}
    return [(words, size) for key, words in _PARTS if (size := memory_parts.get(key))]


def _named(name: str, text: str, percentile: str) -> str:
    return {
        "latency": f"{percentile} {text}",
        "throughput": text,
        "cost": text,
        "energy": f"{text} an item",
    }[name]
