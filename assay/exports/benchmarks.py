"""Measurements as other tools' benchmark files: Bencher Metric Format and github-action-benchmark.

Both name a benchmark by one string. Ours is the configuration in words, for people, and its key in brackets, which makes
it the only one of that name: `acme/tiny inference batch 8 on acme-one cpu fp32 torch [0123…]`.

Bencher Metric Format (bencher.dev): an object of benchmarks, each an object of measures, each with `value` and where it is
known `lower_value` and `upper_value`. Measures are called as our columns, which say their unit; Bencher's own `latency` is
in nanoseconds and is not used. github-action-benchmark (benchmark-action/github-action-benchmark): a list of `name`,
`unit`, `value`, `range` and `extra`, in a file whose entries are all better when smaller, or all when bigger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from domain.errors import UsageError
from domain.figures import FIGURES, described, figure_of

__all__ = ["BMF_COLUMNS", "benchmark_name", "bmf", "github_action", "tool"]

Row = Mapping[str, Any]
BMF_COLUMNS = (
    "latency_p50_ms", "latency_mean_ms", "throughput_per_s", "tokens_per_s", "ttft_ms", "tpot_ms", "peak_memory_bytes",
    "device_memory_bytes", "energy_j",
)  # fmt: skip
"""The measures of a benchmark where none are asked for."""
LONGEST_NAME = 1024


def benchmark_name(row: Row) -> str:
    """Return the name of a row's benchmark: words, and the key of the configuration in brackets; 1,024 letters at most."""
    key = f" [{row['configuration']}]"
    return described(row)[: LONGEST_NAME - len(key)] + key


def bmf(rows: Iterable[Row], columns: Sequence[str] = ()) -> dict[str, dict[str, dict[str, float]]]:
    """Return the document of Bencher; a benchmark that has none of the figures is left out."""
    _require_figures(columns)
    matches: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        measures: dict[str, dict[str, float]] = {}
        for column in columns or BMF_COLUMNS:
            figure = figure_of(row, column)
            if figure is None:
                continue
            measures[column] = {"value": figure.value}
            if figure.low is not None and figure.high is not None:
                measures[column] |= {"lower_value": figure.low, "upper_value": figure.high}
        if measures:
            matches[benchmark_name(row)] = measures
    return matches


def github_action(rows: Iterable[Row], columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the list of github-action-benchmark; a name ends in its figure's column, the median latency's alone does not."""
    chosen = columns or ("latency_p50_ms",)
    tool(chosen)
    entries = []
    for row in rows:
        for column in chosen:
            figure = figure_of(row, column)
            if figure is None:
                continue
            name = benchmark_name(row) + ("" if tuple(chosen) == ("latency_p50_ms",) else f" {column}")
            entry = {"name": name, "unit": FIGURES[column].unit, "value": figure.value}
            if figure.low is not None and figure.high is not None:
                entry["range"] = f"± {(figure.high - figure.low) / 2:.3g}"
            entry["extra"] = "\n".join((
                f"origin: {row.get('origin')}", f"verdict: {row.get('verdict') or 'not judged'}",
                f"event: {row.get('event_id')}",
            ))  # fmt: skip
            entries.append(entry)
    return entries


def tool(columns: Sequence[str]) -> str:
    """Return what the action's `tool` must be; UsageError where the figures are not all better in one direction."""
    _require_figures(columns)
    ways = {FIGURES[column].better for column in columns or ("latency_p50_ms",)}
    if len(ways) > 1 or "neither" in ways:
        raise UsageError(
            "one file holds figures that are all better when smaller, or all when bigger.",
            field="metric",
            remedy="Write two files.",
        )
    return "customSmallerIsBetter" if ways == {"lower"} else "customBiggerIsBetter"


def _require_figures(columns: Sequence[str]) -> None:
    for column in columns:
        if column not in FIGURES:
            raise UsageError(f"{column!r} is no figure.", field="metric", remedy=f"One of {', '.join(FIGURES)}.")
