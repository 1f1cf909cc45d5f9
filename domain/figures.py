"""Figures of a measurement's row: its columns, their units, which way is better, and how certain each one is.

A row is a mapping with the columns of the view `measurements` (docs/tables.md); what is absent is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from domain.configuration import browser_of, decoded_options
from domain.metrics import METRICS

__all__ = ["FIGURES", "Figure", "FigureColumn", "described", "doubts_of", "figure_of", "interval_of", "row_of"]

STATISTICS = ("p50", "mean", "p90", "p95", "p99", "min", "max")
LEAST_SAMPLES = 6
STANDARD_ERRORS = 2.6
"""Student's 97.5 % quantile for six values; fewer for more, so that the interval is rather too wide than too narrow."""
_ONE_RUN_NUMBER = ("peak_memory_bytes", "mean_memory_bytes", "device_memory_bytes", "kv_cache_bytes")
_OF_THE_CALLS = (
    "throughput_per_s",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "realtime_factor",
    "forward_ms",
    "loss_ms",
    "backward_ms",
    "optimizer_ms",
)


class FigureColumn(NamedTuple):
    """One column: the metric that it belongs to, its unit and better direction, and the columns of its 95 % interval.

    `steady`: one number a run that hardly varies, so that it has no interval and needs none. `series`: it comes from the
    same calls as the latency, whose relative interval is its own where it has none.
    """

    column: str
    metric: str
    unit: str
    better: Literal["lower", "higher", "neither"]
    interval: tuple[str, str] | None = None
    steady: bool = False
    series: bool = False


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value with its 95 % interval where there is one, why it is doubted, and the values of the runs up to it.

    `runs`: of the same configuration in the same environment, oldest first, this one last.
    """

    value: float
    low: float | None = None
    high: float | None = None
    doubts: list[str] = []
    runs: list[float] = []


def _columns() -> dict[str, FigureColumn]:
    figure_columns: dict[str, FigureColumn] = {}
    for name, metric in METRICS.items():
        if name == "latency_ms":
            for statistic in STATISTICS:
                own = (f"latency_{statistic}_ci95_low_ms", f"latency_{statistic}_ci95_high_ms")
                column = f"latency_{statistic}_ms"
                figure_columns[column] = FigureColumn(
                    column, name, metric.unit, metric.better, own if statistic in ("p50", "mean") else None
                )
        else:
            figure_columns[name] = FigureColumn(
                name, name, metric.unit, metric.better, steady=name in _ONE_RUN_NUMBER, series=name in _OF_THE_CALLS
            )
    return figure_columns


FIGURES: dict[str, FigureColumn] = _columns()
"""By column of the view `measurements`, all that can be compared."""


def figure_of(row: Mapping[str, Any], column: str) -> Figure | None:
    """Return the figure in a column, or None where the row has none."""
    value = row.get(column)
    if value is None:
        return None
    low, high = interval_of(row, column) or (None, None)
    return Figure(value=float(value), low=low, high=high, doubts=doubts_of(row, FIGURES[column].metric))


def interval_of(row: Mapping[str, Any], column: str) -> tuple[float, float] | None:
    """Return the 95 % interval of a column, its own or that of the calls it comes from; None where nothing is known.

    A mean without one has that of its standard deviation where there were six samples or more.
    """
    shape, value = FIGURES[column], row.get(column)
    if not value:
        return None
    if shape.interval is not None:
        low, high = (row.get(name) for name in shape.interval)
        if low is not None and high is not None:
            return float(low), float(high)
        return _of_deviation(row) if column == "latency_mean_ms" else None
    if not shape.series:
        return None
    for latency in ("latency_p50_ms", "latency_mean_ms"):
        interval = interval_of(row, latency)
        if interval is not None:
            below, above = interval[0] / row[latency], interval[1] / row[latency]
            if shape.better == "lower":
                low, high = value * below, value * above
            elif below > 0:  # A rate is low where the time is long.
                low, high = value / above, value / below
            else:
                return None
            return (low, high) if high < math.inf else None
    return None


def _of_deviation(row: Mapping[str, Any]) -> tuple[float, float] | None:
    mean, deviation, n = (row.get(name) for name in ("latency_mean_ms", "latency_stddev_ms", "latency_n"))
    if mean is None or deviation is None or n is None or n < LEAST_SAMPLES:
        return None
    half = STANDARD_ERRORS * float(deviation) / math.sqrt(n)
    return (float(mean) - half, float(mean) + half) if half < mean else None


def doubts_of(row: Mapping[str, Any], metric: str) -> list[str]:
    """Return why the metric is suspect or invalid: its own reasons, those of the row where metrics were not judged."""
    judged = _json(row.get("metric_verdicts")) or {}
    verdict = judged.get(metric) if judged else {"verdict": row.get("verdict"), "reasons": row.get("verdict_reasons")}
    if not isinstance(verdict, dict) or verdict.get("verdict") not in ("suspect", "invalid"):
        return []
    reasons = _json(verdict.get("reasons")) or []
    return [str(reason) for reason in reasons] or [str(verdict["verdict"])]


def _json(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, str | bytes) and value else value


def described(row: Mapping[str, Any]) -> str:
    """Return a row's configuration in words, without its hardware's and runtime's details that the key tells apart."""
    work = [
        f"{word} {row[name]:.15g}"
        for name, word in (
            ("batch_size", "batch"),
            ("sequence_length", "sequence"),
            ("image_size", "image"),
            ("images", "images"),
            ("audio_seconds", "audio s"),
            ("frames", "frames"),
            ("input_tokens", "input"),
            ("output_tokens", "output"),
            ("steps", "steps"),
            ("concurrency", "concurrency"),
            ("arrival_rate_per_s", "arrivals/s"),
        )
        if row.get(name) is not None
    ]
    count = int(row.get("hardware_count") or 1)
    hardware = f"{count}x {row['hardware_id']}" if count > 1 else str(row["hardware_id"])
    browser = browser_of(row.get("options") or decoded_options(row.get("execution")).get("options"))[0]
    how = [str(row["platform"]), *filter(None, (row.get("precision"), row.get("runtime_name")))]
    how += [f"in {browser}"] if browser else []
    how += ["compiled"] if row.get("compiled") else []
    how += [f"{row['threads']:.15g} threads"] if row.get("threads") is not None else []
    return " ".join([str(row["model_id"]), str(row["mode"]), *work, "on", hardware, *how])


def row_of(data: Any) -> dict[str, Any]:
    """Return the figures and judgements of a `MeasurementRecorded` as the view's columns."""
    metrics = msgspec.to_builtins(data.metrics)
    latency = metrics.pop("latency_ms", {})
    intervals = latency.pop("ci95", None) or {}
    row: dict[str, Any] = {**metrics, "latency_n": latency.pop("n", None)}
    row |= {f"latency_{name}_ms": value for name, value in latency.items()}
    for name in ("p50", "mean"):
        low, high = intervals.get(name) or (None, None)
        row |= {f"latency_{name}_ci95_low_ms": low, f"latency_{name}_ci95_high_ms": high}
    if data.validity is not None:
        row |= {
            "verdict": data.validity.verdict,
            "verdict_reasons": list(data.validity.reasons),
            "metric_verdicts": msgspec.to_builtins(data.validity.metrics),
        }
    return row
