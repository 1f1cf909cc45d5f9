"""Rows of comparisons: measurements under the names that ranked answers use, in order, with what they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from api.http.paging import Row
from domain.comparison.slower_precisions import slower_precisions
from domain.configuration import browser_of
from domain.measured import STATED
from domain.metrics import METRICS
from domain.performance.cpu_baseline import baselines, times_faster, work_of
from domain.performance.energy import per_item_j
from domain.vocabulary import platforms_named
from ingest.projection import Tables

if TYPE_CHECKING:
    from api.container import Container

__all__ = [
    "COLUMNS",
    "LOAD",
    "RANKED_BY",
    "SPEEDUP",
    "STAGES",
    "Per",
    "compared_row",
    "counted",
    "differences",
    "of_model",
    "ordered",
    "platforms_of",
    "several",
]

_PARTS = (
    "mode",
    "scenario",
    "batch_size",
    "sequence_length",
    "image_size",
    "runtime",
    "runtime_version",
    "browser",
    "browser_version",
    "compiled",
    "layout",
    "threads",
    "weights",
    "environment",
    "concurrency",
    "arrival_rate_per_s",
    "target_latency_ms",
    "hardware_stated",
)
COLUMNS = (
    "arrival_rate_per_s",
    "batch_size",
    "compiled",
    "concurrency",
    "configuration",
    "device",
    "energy_j",
    "energy_per_item_j",
    "energy_per_token_j",
    "energy_verdict",
    "environment_fingerprint",
    "event_id",
    "fallback_share",
    "hardware_count",
    "hardware_id",
    "hardware_kind",
    "image_size",
    "latency_mean_ci95_high_ms",
    "latency_mean_ci95_low_ms",
    "latency_mean_ms",
    "latency_n",
    "latency_p50_ci95_high_ms",
    "latency_p50_ci95_low_ms",
    "latency_p50_ms",
    "layout",
    "mode",
    "model_id",
    "options",
    "origin",
    "peak_memory_bytes",
    "platform",
    "platform_asked",
    "position",
    "power_w",
    "precision",
    "precision_asked",
    "run_id",
    "runtime_name",
    "runtime_version",
    "scenario",
    "scenario_result",
    "sequence_length",
    "threads",
    "throughput_per_s",
    "time",
    "verdict",
    "weights",
)
"""What `compared_row` reads: reading the other sixty columns would be most of the time."""
_WORK_COLUMNS = (
    "audio_seconds",
    "frames",
    "gradient_checkpointing",
    "images",
    "input_tokens",
    "optimizer",
    "output_tokens",
    "parallelism",
    "steps",
    "streams",
)
"""What `slower_precisions` reads beside `COLUMNS`."""
STAGES = ("forward_ms", "loss_ms", "backward_ms", "optimizer_ms")
"""What a step of training is made of."""
LOAD = ("concurrency", "arrival_rate_per_s")
"""How requests come. Rows of other loads stand side by side, and none is the best of another's."""
Per = Literal["item", "call"]
SPEEDUP = "speedup_over_cpu"
RANKED_BY = (
    "latency_ms",
    "throughput_per_s",
    "peak_memory_bytes",
    "energy_per_item_j",
    "energy_per_token_j",
    "power_w",
)


def compared_row(row: Mapping[str, Any]) -> Row:
    """Return a row of `measurements` under the names that ranked answers use; intervals are 95 % CIs of the samples."""
    median = row["latency_p50_ms"]
    statistic = "p50" if median is not None else "mean"
    latency = median if median is not None else row["latency_mean_ms"]
    low, high = row[f"latency_{statistic}_ci95_low_ms"], row[f"latency_{statistic}_ci95_high_ms"]
    rate = row["throughput_per_s"]
    browser, browser_version = browser_of(row["options"])
    alone = row["concurrency"] is None and row["arrival_rate_per_s"] is None
    if rate is None and latency and row["batch_size"] and alone:
        rate = row["batch_size"] * 1000.0 / latency
    return {
        "configuration": row["configuration"],
        "model": row["model_id"],
        "hardware": row["hardware_id"],
        "hardware_kind": row["hardware_kind"],
        "hardware_count": row["hardware_count"],
        "platform": row["platform"],
        "precision": row["precision"],
        "batch_size": row["batch_size"],
        "basis": "measured" if row["origin"] == "measured" else "imported",
        "origin": row["origin"],
        "latency_ms": latency,
        "latency_ms_low": low,
        "latency_ms_high": high,
        "latency_is_mean": statistic == "mean" and latency is not None,
        "throughput_per_s": rate,
        "peak_memory_bytes": row["peak_memory_bytes"],
        **_energy(row),
        "n": row["latency_n"],
        "verdict": row["verdict"],
        "fallback_share": row["fallback_share"],
        "platform_asked": row["platform_asked"],
        "precision_asked": row["precision_asked"],
        "mode": row["mode"],
        "scenario": row["scenario"],
        **_load(row),
        "device": row["device"],
        "hardware_stated": row["device"] == STATED,
        "sequence_length": row["sequence_length"],
        "image_size": row["image_size"],
        "runtime": row["runtime_name"],
        "runtime_version": row["runtime_version"],
        "browser": browser,
        "browser_version": browser_version,
        "compiled": row["compiled"],
        "layout": row["layout"],
        "threads": row["threads"],
        "weights": row["weights"],
        "environment": row["environment_fingerprint"],
        "time": row["time"],
        "run_id": row["run_id"],
        "evidence": [row["event_id"]],
        "position": row["position"],
    }


def _energy(row: Mapping[str, Any]) -> Row:
    """Return energy and power with their own verdict; where it is invalid there are no figures."""
    names = ("energy_j", "energy_per_token_j", "power_w")
    figures = {name: None if row["energy_verdict"] == "invalid" else row[name] for name in names}
    return {**figures, "energy_per_item_j": per_item_j(row), "energy_verdict": row["energy_verdict"]}


def _load(row: Mapping[str, Any]) -> Row:
    """Return how requests came, and what a scenario was held against and came to."""
    result = msgspec.json.decode(row["scenario_result"]) if row["scenario_result"] else {}
    return {
        "concurrency": row["concurrency"],
        "arrival_rate_per_s": row["arrival_rate_per_s"],
        "target_latency_ms": result.get("target_latency_ms"),
        "scenario_result": result.get("result"),
    }


def ordered(rows: Iterable[Row], cell: Sequence[str], metric: str = "latency_ms", per: Per = "item") -> list[Row]:
    """Return the rows by a metric, of those alike the fastest an item first, and mark the best of each cell under each load.

    Latency is of an item, or of a call where that is asked for. Rows without the metric come last, and none of them is best.
    """
    result = sorted(rows, key=lambda row: (_rank(row, metric, per), _rank(row), row["position"]))
    seen: set[tuple[Any, ...]] = set()
    document = []
    for row in result:
        name = tuple(row[part] for part in (*cell, *LOAD))
        best = name not in seen and _rank(row, metric, per) < float("inf")
        document.append({**row, "best": best})
        if best:
            seen.add(name)
    return document


def _rank(row: Row, metric: str = "latency_ms", per: Per = "item") -> float:
    value: float | None = row[metric]
    if value is None or value <= 0:
        return float("inf")
    if metric == "latency_ms" and per == "item":
        value /= row["batch_size"] or 1
    return -value if metric == SPEEDUP or METRICS[metric].better == "higher" else value


def of_model(
    container: Container, tables: Tables, model: str, mode: str | None
) -> tuple[list[Row], list[Row], list[Row]]:
    """Return a model's best measurements, the fastest an item first, among them the baselines of plain CPU, and slower precisions.

    Each says how often it does the work of its baseline. They are read once for a state of the tables, so that another
    filter costs no reading; nobody may change them.
    """

    def read() -> tuple[list[Row], list[Row], list[Row]]:
        columns = (*COLUMNS, *_WORK_COLUMNS)
        result = tables.best({"model": model, "mode": mode}, columns)
        rows = sorted(map(compared_row, result), key=lambda row: (_rank(row), row["position"]))
        plain = baselines(rows)
        slower = [{**msgspec.structs.asdict(item), "sentence": item.sentence} for item in slower_precisions(result)]
        own = [dict(row) for row in plain.values()]
        for row in rows:
            row[SPEEDUP] = times_faster(row, plain.get(work_of(row)))
        return rows, own, slower

    return container.kept(tables).lists(("compared", model, mode), read)


def counted(rows: Sequence[Row]) -> Row:
    """Return how many rows there are, how many have each metric, and what they are on and at, the most frequent first."""
    return {
        "rows": len(rows),
        "metrics": {metric: sum(row[metric] is not None for row in rows) for metric in (*RANKED_BY, SPEEDUP)},
        **{
            key: [
                {key: value, "rows": count}
                for value, count in Counter(row[key] for row in rows if row[key] is not None).most_common()
            ]
            for key in ("hardware", "batch_size", "sequence_length", "precision", "platform")
        },
    }


def several(text: str | None) -> list[str] | None:
    """Return words between commas; None, which does not filter, where there is none."""
    return list(dict.fromkeys(filter(None, (text or "").split(",")))) or None


def platforms_of(text: str | None) -> list[str] | None:
    """Return the platforms between commas, `web` being all of a browser; None where there is none."""
    return platforms_named(several(text) or ()) or None


def differences(rows: Iterable[Row]) -> dict[str, Any]:
    """Return the parts of the configurations in which the rows agree, and those in which they do not."""
    kept = list(rows)
    same: dict[str, Any] = {}
    differs: dict[str, list[Any]] = {}
    for part in _PARTS:
        column = list(map(itemgetter(part), kept))
        values = sorted(dict(zip(map(repr, column), column, strict=True)).items())
        if len(values) == 1:
            same[part] = values[0][1]
        elif values:
            differs[part] = [value for _, value in values]
    return {"same": same, "differs": differs}
