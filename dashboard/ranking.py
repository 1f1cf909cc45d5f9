"""Ranked rows as people read them: rank bands, prices, sentences and files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from dashboard.screens.recommend.words import RankedRow, figures, number, shown
from domain.answers import AtHand, Front, FrontOption, Pick, RankedOption, Recommendation
from presentation import formatting
from presentation.answer_words import PriceUnit, software_names, usd_per_unit
from presentation.charts import COST, LATENCY, METRICS, THROUGHPUT, Metric, Row, name_of
from presentation.palette import badge

__all__ = [
    "answer_sentence",
    "at_hand_words",
    "banded",
    "completed",
    "csv_file",
    "drawn",
    "metric_for",
    "price_metric",
    "priced",
    "rows_of",
    "tie_sentence",
]

COLUMNS = (
    "rank",
    "tied_with",
    "on_front",
    "hardware",
    "hardware_count",
    "platform",
    "precision",
    "runtime",
    "browser",
    "browser_version",
    "compiled",
    "batch_size",
    "sequence_length",
    "image_size",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "latency_ms",
    "latency_ms_low",
    "latency_ms_high",
    "latency_is_mean",
    "interval_covered",
    "ttft_ms",
    "ttft_ms_low",
    "ttft_ms_high",
    "tpot_ms",
    "tpot_ms_low",
    "tpot_ms_high",
    "tokens_per_s",
    "realtime_factor",
    "throughput_per_s",
    "peak_memory_bytes",
    "memory_low_bytes",
    "memory_high_bytes",
    "memory_floor_bytes",
    "energy_j",
    "energy_j_low",
    "energy_j_high",
    "energy_per_item_j",
    "energy_per_item_j_low",
    "energy_per_item_j_high",
    "energy_basis",
    "energy_verdict",
    "power_w",
    "rated_power_w",
    "usd_per_hour",
    "usd_per_million",
    "speedup_over_cpu",
    "n",
    "verdict",
    "basis",
    "origin",
    "configuration",
    "why",
    "why_above_next",
    "bottleneck",
    "command",
)
PRICE_COLUMNS = ("provider", "instance", "region", "spot", "machines", "date", "stale", "source")
PART_COLUMNS = ("weights_bytes", "kv_cache_bytes", "activations_bytes", "runtime_bytes")
ERROR_COLUMNS = ("cosine", "max_absolute", "outcome")


def price_metric(unit: PriceUnit) -> Metric:
    """Return the price of a unit of the work as a chart draws it."""
    keys = ("unit_usd", "unit_usd_low", "unit_usd_high")
    return Metric(*keys, "Price", lambda _: formatting.price_scale(unit.words), COST.better)


def metric_for(objective: str) -> Metric:
    """Return the metric that an objective is drawn by; of a mix, the one with the most weight."""
    weights = [part.partition(":") for part in objective.split(",")]
    heaviest = max(weights, key=lambda item: float(item[2] or 1))[0]
    return METRICS.get(heaviest, LATENCY)


def completed(row: Row) -> dict[str, Any]:
    """Add what follows from an answer's row: intervals, the runtime in one word, asked and actual, what tells it apart.

    Throughput is work over latency and a price is paid for its time: their intervals are that of the latency.
    """
    document = dict(row)
    rate, value, low, high = (
        row.get(key) for key in ("throughput_per_s", "latency_ms", "latency_ms_low", "latency_ms_high")
    )
    if rate and value and low and high and row.get(THROUGHPUT.low) is None:
        document |= {THROUGHPUT.low: rate * value / high, THROUGHPUT.high: rate * value / low}
    cost = row.get("unit_usd")
    if cost and value and low and high:
        document |= {"unit_usd_low": cost * low / value, "unit_usd_high": cost * high / value}
    document |= {
        "peak_memory_bytes_low": row.get("memory_low_bytes"),
        "peak_memory_bytes_high": row.get("memory_high_bytes"),
    }
    apart = ["compiled" if row.get("compiled") else None, _many(row), _recipe(row)]
    if any(apart) and not row.get("distinct"):
        document["distinct"] = " · ".join(part for part in apart if part)
    runtime, version = str(row.get("runtime") or ""), str(row.get("runtime_version") or "")
    if runtime and version and not runtime.endswith(version):
        document["runtime"] = f"{runtime} {version}"
    if row.get("browser"):
        major = str(row.get("browser_version") or "").partition(".")[0]
        document["runtime"] = f"{document.get('runtime') or 'not said'} in {row['browser']} {major}".rstrip()
    request = (row.get("platform_asked"), row.get("precision_asked"))
    if request[0] and request != (row.get("platform"), row.get("precision")):
        document["asked"] = f"{request[0]} {request[1]} → {row.get('platform')} {row.get('precision')}"
    return document


def rows_of(answer: Recommendation, unit: PriceUnit, metric: Metric = LATENCY) -> list[RankedRow]:
    """Return the ranked options as they are drawn, with the price of a unit of the work and their bands of ranks."""
    names = software_names((option.platform, option.runtime, option.browser) for option in answer.ranked)
    rows = [_told_apart(priced(option, unit), name) for option, name in zip(answer.ranked, names, strict=True)]
    return banded(rows, price_metric(unit) if metric is COST else metric)


def _told_apart(row: RankedRow, software: str | None) -> RankedRow:
    words = " · ".join(filter(None, [software, row.get("distinct")]))
    return cast("RankedRow", {**row, "software": software, "distinct": words} if words else row)


def priced(option: RankedOption | FrontOption, unit: PriceUnit) -> RankedRow:
    """Return an option as it is drawn, with the price of a unit of the work."""
    row = msgspec.to_builtins(option) | {"unit_usd": usd_per_unit(option, unit), "price_unit": unit.words}
    return cast("RankedRow", completed(row))


def banded(rows: Sequence[RankedRow], metric: Metric = LATENCY) -> list[RankedRow]:
    """Give rows that the service found tied one band of ranks, `1–3`, as far as their intervals of a metric overlap the first's."""
    groups: dict[Any, list[RankedRow]] = {}
    for row in rows:
        group = groups.setdefault(row.get("tied_with") or row.get("rank"), [])
        if not group or _overlap(group[0], row, metric):
            group.append(row)
        else:
            groups[row.get("rank")] = [row]
    bands = {
        row.get("rank"): f"{group[0].get('rank')}–{group[-1].get('rank')}" if len(group) > 1 else str(row.get("rank"))
        for group in groups.values()
        for row in group
    }
    return [cast("RankedRow", {**row, "rank_band": bands[row.get("rank")]}) for row in rows]


def _overlap(first: RankedRow, other: RankedRow, metric: Metric) -> bool:
    """Say whether the intervals of two rows meet, or one of them has none: then the service's word stands."""
    lows, highs = ([number(row, key) for row in (first, other)] for key in (metric.low, metric.high))
    if None in lows or None in highs:
        return True
    return max(filter(None, lows)) <= min(filter(None, highs))


def drawn(rows: Sequence[RankedRow], front: Front, unit: PriceUnit, picks: Sequence[Pick] = ()) -> list[RankedRow]:
    """Return the rows with the picks, marked as `picked`, and what else nothing beats: neither needs to be among the rows."""
    chosen = {pick.option.configuration: pick.option for pick in picks}
    listed = {row.get("configuration") for row in rows}
    ranks = {row.get("rank") for row in rows}
    others = [priced(option, unit) for option in front.options if option.rank not in ranks]
    return [
        *(cast("RankedRow", {**row, "picked": row.get("configuration") in chosen}) for row in rows),
        *(
            cast("RankedRow", {**priced(option, unit), "picked": True})
            for name, option in chosen.items()
            if name not in listed
        ),
        *(cast("RankedRow", {**other, "on_front": True}) for other in others),
    ]


def answer_sentence(rows: Sequence[RankedRow], metric: Metric, percentile: str) -> str:
    """Say the answer in one line: the best row, its value with interval, what it rests on."""
    best = rows[0]
    first = shown(best, metric)
    if metric is LATENCY and not best.get("latency_is_mean"):
        first = f"{percentile} {first}"
    parts = [first, *(figure for figure in figures(best, metric, percentile) if figure)]
    if metric is not METRICS["memory"] and best.get("peak_memory_bytes") is not None:
        parts.append(formatting.memory(best["peak_memory_bytes"]))
    elif best.get("peak_memory_bytes") is None and best.get("memory_floor_bytes") is not None:
        parts.append(f"at least {formatting.memory(best['memory_floor_bytes'])}")
    document = badge(best.get("basis"), best.get("origin"))
    if best.get("n") is not None:
        document += f", {formatting.samples(best['n'], best.get('runs'))}"
    return f"{name_of(best)}: {', '.join(parts)} ({document})"


def at_hand_words(at_hand: AtHand | None) -> str | None:
    """Say which device at hand to use, then the order to fall back in, and what is left out; None where none was named."""
    if at_hand is None:
        return None
    text = f"Use {at_hand.use} now" if at_hand.use else "None of the devices at hand is recommended"
    rest = [rung.name for rung in at_hand.order if rung.name != at_hand.use]
    parts = [text, *([f"then {', then '.join(rest)}"] if rest else [])]
    parts += [f"{item.name} is left out: {item.why}" for item in at_hand.left_out]
    return "; ".join(parts) + "."


def tie_sentence(rows: Sequence[RankedRow]) -> str | None:
    """Say which of the first are tied; None when the first stands alone."""
    tied = [row for row in rows if row.get("rank_band") == rows[0].get("rank_band")]
    if len(tied) < 2:
        return None
    return f"Ranks {tied[0]['rank_band']} are too close to call."


def csv_file(answer: Recommendation) -> bytes:
    """Write every ranked row with its basis, origin, evidence and position; missing is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    beside = (
        [f"price_{name}" for name in PRICE_COLUMNS] + [*PART_COLUMNS] + [f"output_{name}" for name in ERROR_COLUMNS]
    )
    writer.writerow(["model", *COLUMNS, *beside, "meets", "evidence", "as_of", "predictor"])
    for option in answer.ranked:
        nested = [
            (option.price, PRICE_COLUMNS),
            (option.memory_parts, PART_COLUMNS),
            (option.output_error, ERROR_COLUMNS),
        ]
        values = [getattr(option, column) for column in COLUMNS]
        values += [getattr(part, column, None) for part, columns in nested for column in columns]
        values.append(_met(option))
        cells = ["" if value is None else value for value in values]
        writer.writerow([answer.model, *cells, " ".join(option.evidence or ()), answer.position, answer.predictor])
    return out.getvalue().encode()


def _met(option: RankedOption) -> str:
    """Each limit with its probability, as `max_latency_ms=0.93`."""
    return " ".join(
        f"{meet.constraint}={'' if meet.probability is None else meet.probability}" for meet in option.meets or ()
    )


def _recipe(row: Row) -> str | None:
    """The recipe of a variant, by what its entry says, or by its id: `base+int8-ptq.3f2a9c01`."""
    variant = row.get("variant")
    if isinstance(variant, str):
        return variant.rpartition("+")[2].rpartition(".")[0]
    return None if variant is None else str(variant["recipe"])


def _many(row: Row) -> str | None:
    count = row.get("hardware_count") or 1
    return f"{count} devices" if count > 1 else None
