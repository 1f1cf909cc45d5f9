"""Ranked rows as people read them: rank bands, tables and files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from assay import numbers
from dashboard.charts import LATENCY, METRICS, THROUGHPUT, Metric, Row, name_of
from dashboard.palette import badge

__all__ = [
    "answer_sentence",
    "banded",
    "completed",
    "csv_file",
    "excluded_table",
    "json_file",
    "metric_for",
    "table",
    "tie_sentence",
]

COLUMNS = (
    "rank", "hardware", "platform", "precision", "batch_size", "sequence_length", "latency_ms", "latency_ms_low",
    "latency_ms_high", "latency_is_mean", "throughput_per_s", "peak_memory_bytes", "usd_per_hour",
    "speedup_over_cpu", "n", "verdict", "basis", "origin", "configuration", "why",
)  # fmt: skip


def metric_for(objective: str) -> Metric:
    """Return the metric that an objective is ranked and drawn by; cost and energy are drawn by latency."""
    return METRICS.get(objective, LATENCY)


def completed(row: Row) -> dict[str, Any]:
    """Add what follows from an answer's row: the throughput's interval, the runtime in one word, asked and actual.

    Throughput is work over latency, so that its interval is that of the latency turned round.
    """
    found = dict(row)
    rate, value, low, high = (
        row.get(key) for key in ("throughput_per_s", "latency_ms", "latency_ms_low", "latency_ms_high")
    )
    if rate and value and low and high and row.get(THROUGHPUT.low) is None:
        found |= {THROUGHPUT.low: rate * value / high, THROUGHPUT.high: rate * value / low}
    runtime, version = str(row.get("runtime") or ""), str(row.get("runtime_version") or "")
    if runtime and version and not runtime.endswith(version):
        found["runtime"] = f"{runtime} {version}"
    asked = (row.get("platform_asked"), row.get("precision_asked"))
    if asked[0] and asked != (row.get("platform"), row.get("precision")):
        found["asked"] = f"{asked[0]} {asked[1]} → {row.get('platform')} {row.get('precision')}"
    return found


def banded(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Give rows that the service found tied with the first of them one band of ranks: `1–3`."""
    ranks: dict[Any, list[Any]] = {}
    for row in rows:
        ranks.setdefault(row.get("tied_with") or row.get("rank"), []).append(row.get("rank"))
    bands = {first: f"{found[0]}–{found[-1]}" if len(found) > 1 else str(first) for first, found in ranks.items()}
    return [{**completed(row), "rank_band": bands[row.get("tied_with") or row.get("rank")]} for row in rows]


def answer_sentence(rows: Sequence[Row], metric: Metric, percentile: str) -> str:
    """Say the answer in one line: the best row, its value with interval, what it rests on."""
    best = rows[0]
    mean = bool(best.get("latency_is_mean"))
    value = numbers.latency(best.get("latency_ms"), best.get("latency_ms_low"), best.get("latency_ms_high"), mean=mean)
    parts = [f"{percentile} {value}" if not mean else value, numbers.throughput(best.get("throughput_per_s"))]
    if best.get("peak_memory_bytes") is not None:
        parts.append(numbers.memory(best["peak_memory_bytes"]))
    elif best.get("memory_floor_bytes") is not None:
        parts.append(f"at least {numbers.memory(best['memory_floor_bytes'])}")
    if metric is THROUGHPUT:
        ends = (best.get(THROUGHPUT.low), best.get(THROUGHPUT.high))
        parts[0], parts[1] = numbers.throughput(best.get("throughput_per_s"), *ends), parts[0]
    told = badge(best.get("basis"), best.get("origin"))
    if best.get("n") is not None:
        told += f", {numbers.samples(best['n'], best.get('runs'))}"
    return f"{name_of(best)}: {', '.join(parts)} ({told})"


def tie_sentence(rows: Sequence[Row]) -> str | None:
    """Say which of the first cannot be told apart; None when the first stands alone."""
    tied = [row for row in rows if row.get("rank_band") == rows[0].get("rank_band")]
    if len(tied) < 2:
        return None
    return f"Ranks {tied[0]['rank_band']} cannot be told apart: their intervals overlap."


def table(rows: Sequence[Row]) -> Styler:
    """Return the ranking as a table that sorts on raw numbers and shows them with three figures."""
    time = numbers.latency_scale([row.get("latency_ms") for row in rows])
    rate = numbers.throughput_scale([row.get("throughput_per_s") for row in rows])
    size = numbers.memory_scale([row.get("peak_memory_bytes") for row in rows])
    heads: dict[str, Callable[[Row], float | None]] = {
        f"Latency {time.unit}": lambda row: time.of(row.get("latency_ms")),
        f"Throughput {rate.unit}": lambda row: rate.of(row.get("throughput_per_s")),
        f"Memory {size.unit}": lambda row: size.of(row.get("peak_memory_bytes")),
        "vs plain CPU ×": lambda row: row.get("speedup_over_cpu"),
        "$/h": lambda row: row.get("usd_per_hour"),
    }
    figures = {head: pd.Series([read(row) for row in rows], dtype="float64") for head, read in heads.items()}
    named = {
        "Rank": [str(row.get("rank_band") or row.get("rank") or numbers.MISSING) for row in rows],
        "Hardware": [_word(row, "hardware") for row in rows],
        "Platform": [_word(row, "platform") for row in rows],
        "Precision": [_word(row, "precision") for row in rows],
        "Batch": pd.Series([row.get("batch_size") for row in rows], dtype="Int64"),
    }
    spread = [
        numbers.interval(
            row.get("latency_ms_low"), row.get("latency_ms_high"), time, value=row.get("latency_ms"), unit=False
        )
        for row in rows
    ]
    rests = {
        "Basis": [badge(row.get("basis"), row.get("origin")) for row in rows],
        "n": pd.Series([row.get("n") for row in rows], dtype="Int64"),
        "Evidence": pd.Series([_length(row.get("evidence")) for row in rows], dtype="Int64"),
        "Why": [_word(row, "why") for row in rows],
    }
    empty = [head for head, values in figures.items() if values.isna().all() and not head.startswith("Latency")]
    frame = pd.DataFrame({**named, **figures, **rests}).drop(columns=empty)
    frame.insert(6, f"Interval {time.unit}", spread)
    shown: dict[str, Callable[[float], str]] = {head: numbers.significant for head in figures if head not in empty}
    return frame.style.format(shown | ({"$/h": numbers.money} if "$/h" in shown else {}), na_rep=numbers.MISSING)


def excluded_table(excluded: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return what was left out and under which rule, as words."""
    return pd.DataFrame(
        {
            "Hardware": [_word(row, "hardware") for row in excluded],
            "Platform": [_word(row, "platform") for row in excluded],
            "Rule": [_word(row, "rule") for row in excluded],
            "Detail": [_word(row, "detail") for row in excluded],
            "Precision": [_joined(row.get("precisions")) for row in excluded],
            "Batch": [_joined(row.get("batch_sizes")) for row in excluded],
            "Evidence": [_joined(row.get("evidence")) for row in excluded],
        }
    )


def csv_file(answer: Mapping[str, Any]) -> bytes:
    """Write every ranked row with its basis, origin, evidence and position; missing is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["model", *COLUMNS, "evidence", "as_of", "predictor"])
    for row in answer["ranked"]:
        values = ["" if row.get(column) is None else row[column] for column in COLUMNS]
        evidence = " ".join(str(event) for event in row.get("evidence") or ())
        writer.writerow([answer.get("model"), *values, evidence, answer.get("position"), answer.get("predictor")])
    return out.getvalue().encode()


def json_file(answer: Mapping[str, Any]) -> bytes:
    """Write the answer as the API gave it."""
    return json.dumps(answer, indent=2, ensure_ascii=False).encode()


def _length(value: Any) -> int | None:
    return None if value is None else len(value)


def _word(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return numbers.MISSING if value is None or value == "" else str(value)


def _joined(value: Any) -> str:
    if not value:
        return numbers.MISSING
    return ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else str(value)
