"""Ranked rows as people read them: rank bands, tables and files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import pandas as pd
from pandas.io.formats.style import Styler

from dashboard.screens.recommend.limits import chance
from dashboard.screens.recommend.words import (
    RankedRow,
    energy_doubt,
    figures,
    number,
    price_doubt,
    price_words,
    shown,
    title,
)
from domain.answers import AtHand, Front, Pick, RankedOption, Recommendation
from presentation import formatting
from presentation.charts import COST, ENERGY, LATENCY, METRICS, THROUGHPUT, Metric, Row, name_of
from presentation.palette import badge

__all__ = [
    "answer_sentence",
    "at_hand_words",
    "banded",
    "brief",
    "completed",
    "csv_file",
    "drawn",
    "metric_for",
    "table",
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


def metric_for(objective: str) -> Metric:
    """Return the metric that an objective is drawn by; of a mix, the one with the most weight."""
    weights = [part.partition(":") for part in objective.split(",")]
    heaviest = max(weights, key=lambda item: float(item[2] or 1))[0]
    return METRICS.get(heaviest, LATENCY)


def completed(row: Row) -> dict[str, Any]:
    """Add what follows from an answer's row: intervals, the runtime in one word, asked and actual, what tells it apart.

    Throughput is work over latency and cost is time at a price: their intervals are that of the latency.
    """
    document = dict(row)
    rate, value, low, high = (
        row.get(key) for key in ("throughput_per_s", "latency_ms", "latency_ms_low", "latency_ms_high")
    )
    if rate and value and low and high and row.get(THROUGHPUT.low) is None:
        document |= {THROUGHPUT.low: rate * value / high, THROUGHPUT.high: rate * value / low}
    cost = row.get("usd_per_million")
    if cost and value and low and high:
        document |= {COST.low: cost * low / value, COST.high: cost * high / value}
    document |= {
        "peak_memory_bytes_low": row.get("memory_low_bytes"),
        "peak_memory_bytes_high": row.get("memory_high_bytes"),
    }
    apart = ["compiled" if row.get("compiled") else None, _many(row)]
    if any(apart) and not row.get("distinct"):
        document["distinct"] = " · ".join(part for part in apart if part)
    runtime, version = str(row.get("runtime") or ""), str(row.get("runtime_version") or "")
    if runtime and version and not runtime.endswith(version):
        document["runtime"] = f"{runtime} {version}"
    request = (row.get("platform_asked"), row.get("precision_asked"))
    if request[0] and request != (row.get("platform"), row.get("precision")):
        document["asked"] = f"{request[0]} {request[1]} → {row.get('platform')} {row.get('precision')}"
    return document


def banded(rows: Sequence[RankedRow]) -> list[RankedRow]:
    """Give rows that the service found tied with the first of them one band of ranks: `1–3`."""
    ranks: dict[Any, list[Any]] = {}
    for row in rows:
        ranks.setdefault(row.get("tied_with") or row.get("rank"), []).append(row.get("rank"))
    bands = {first: f"{rank[0]}–{rank[-1]}" if len(rank) > 1 else str(first) for first, rank in ranks.items()}
    return [
        cast("RankedRow", {**completed(row), "rank_band": bands[row.get("tied_with") or row.get("rank")]})
        for row in rows
    ]


def drawn(rows: Sequence[RankedRow], front: Front, picks: Sequence[Pick] = ()) -> list[RankedRow]:
    """Return the rows with the picks, marked as `picked`, and what else nothing beats: neither needs to be among the rows."""
    chosen = {pick.option.configuration: pick.option for pick in picks}
    listed = {row.get("configuration") for row in rows}
    ranks = {row.get("rank") for row in rows}
    others = [completed(msgspec.structs.asdict(option)) for option in front.options if option.rank not in ranks]
    return [
        *(cast("RankedRow", {**row, "picked": row.get("configuration") in chosen}) for row in rows),
        *(
            cast("RankedRow", {**completed(msgspec.to_builtins(option)), "picked": True})
            for name, option in chosen.items()
            if name not in listed
        ),
        *(cast("RankedRow", {**other, "on_front": True}) for other in others),
    ]


def answer_sentence(rows: Sequence[RankedRow], metric: Metric, percentile: str) -> str:
    """Say the answer in one line: the best row, its value with interval, what it rests on."""
    best = rows[0]
    first = shown(best, metric)
    if metric is COST:
        first += " a million items"
    elif metric is LATENCY and not best.get("latency_is_mean"):
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
    return f"Ranks {tied[0]['rank_band']} cannot be told apart: their intervals overlap."


def brief(rows: Sequence[RankedRow]) -> dict[str, list[str]]:
    """Return in words what each row is, its figures with their intervals, and what it rests on; no figure that none has."""
    figured = {metric.title: [_shown(row, metric) for row in rows] for metric in METRICS.values()}
    return {
        "Rank": [str(row.get("rank_band") or row.get("rank") or formatting.MISSING) for row in rows],
        "Configuration": [name_of(row) for row in rows],
        **{head: words for head, words in figured.items() if set(words) != {formatting.MISSING}},
        "n": [_counted(row.get("n")) for row in rows],
        "Basis": [badge(row.get("basis"), row.get("origin")) for row in rows],
    }


def _shown(row: RankedRow, metric: Metric) -> str:
    """Write one metric of a row, and what is doubted about an energy."""
    doubt = energy_doubt(row) if metric is ENERGY else None
    return shown(row, metric) + (f" ({doubt})" if doubt not in (None, "valid") else "")


def _counted(n: int | None) -> str:
    return formatting.MISSING if n is None else formatting.count(n)


def table(rows: Sequence[RankedRow]) -> Styler:
    """Return the ranking as a table that sorts on raw numbers and shows them with three figures."""
    time = formatting.latency_scale([row.get("latency_ms") for row in rows])
    rate = formatting.throughput_scale([row.get("throughput_per_s") for row in rows])
    size = formatting.memory_scale([row.get("peak_memory_bytes") for row in rows])
    heads: dict[str, Callable[[RankedRow], float | None]] = {
        f"Latency {time.unit}": lambda row: time.of(row.get("latency_ms")),
        "First token ms": lambda row: row.get("ttft_ms"),
        "Each token ms": lambda row: row.get("tpot_ms"),
        f"Throughput {rate.unit}": lambda row: rate.of(row.get("throughput_per_s")),
        "Tokens /s": lambda row: row.get("tokens_per_s"),
        f"Memory {size.unit}": lambda row: size.of(row.get("peak_memory_bytes")),
        "$ a million": lambda row: number(row, COST.key),
        "$/h": lambda row: row.get("usd_per_hour"),
        "J an item": lambda row: number(row, ENERGY.key),
        "W drawn": lambda row: row.get("power_w"),
        "vs plain CPU ×": lambda row: row.get("speedup_over_cpu"),
    }
    columns = {head: pd.Series([read(row) for row in rows], dtype="float64") for head, read in heads.items()}
    named = {
        "Rank": [str(row.get("rank_band") or row.get("rank") or formatting.MISSING) for row in rows],
        "Hardware": [title(row) for row in rows],
        "Platform": [_word(row.get("platform")) for row in rows],
        "Precision": [_word(row.get("precision")) for row in rows],
        "Compiled": ["yes" if row.get("compiled") else None for row in rows],
        "Batch": pd.Series([row.get("batch_size") for row in rows], dtype="Int64"),
        "At a time": pd.Series([row.get("concurrency") for row in rows], dtype="Int64"),
    }
    spread = [
        formatting.interval(
            row.get("latency_ms_low"), row.get("latency_ms_high"), time, value=row.get("latency_ms"), unit=False
        )
        for row in rows
    ]
    rests = {
        "Meets all with": [_surely(row) for row in rows],
        "Price of": [price_words(row) for row in rows],
        "Price to check": [price_doubt(row) for row in rows],
        "Basis": [badge(row.get("basis"), row.get("origin")) for row in rows],
        "Energy is": [energy_doubt(row) for row in rows],
        "n": pd.Series([row.get("n") for row in rows], dtype="Int64"),
        "Evidence": pd.Series([_length(row.get("evidence")) for row in rows], dtype="Int64"),
        "Why": [_word(row.get("why")) for row in rows],
        "Why above the next": [_word(row.get("why_above_next")) for row in rows],
    }
    frame = pd.DataFrame({**named, **columns, **rests})
    frame.insert(list(frame).index(f"Latency {time.unit}") + 1, f"Interval {time.unit}", spread)
    kept = {f"Latency {time.unit}", "n", "Evidence"} | ({"Batch"} if frame["At a time"].isna().all() else set())
    empty = [
        head for head in frame if head not in kept and (frame[head].isna() | (frame[head] == formatting.MISSING)).all()
    ]
    frame = frame.drop(columns=empty)
    formats: dict[str, Callable[[float], str]] = {head: formatting.significant for head in columns if head in frame}
    return frame.style.format(
        formats | ({"$/h": formatting.money} if "$/h" in frame else {}), na_rep=formatting.MISSING
    )


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


def _length(value: Any) -> int | None:
    return None if value is None else len(value)


def _word(text: str | None) -> str:
    return text or formatting.MISSING


def _surely(row: RankedRow) -> str | None:
    """The least of the probabilities with which the limits are met; None where no limit was set."""
    limits = row.get("meets") or ()
    known = [limit["probability"] for limit in limits if limit["probability"] is not None]
    return chance(None if len(known) < len(limits) else min(known)) if limits else None


def _met(option: RankedOption) -> str:
    """Each limit with its probability, as `max_latency_ms=0.93`."""
    return " ".join(
        f"{meet.constraint}={'' if meet.probability is None else meet.probability}" for meet in option.meets or ()
    )


def _many(row: Row) -> str | None:
    count = row.get("hardware_count") or 1
    return f"{count} devices" if count > 1 else None
