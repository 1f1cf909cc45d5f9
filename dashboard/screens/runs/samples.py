"""One row of a run in words: its stages, its percentiles, its metrics with their verdicts, and what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from dashboard.screens.runs.words import latency, verdict
from domain.measured import STATED
from domain.metrics import METRICS
from presentation import formatting, loads

__all__ = ["asked", "metrics", "named", "percentiles", "sentence", "series", "stages", "steady"]

STAGES = {"load_ms": "load", "convert_ms": "convert", "compile_ms": "compile", "first_run_ms": "first run"}
STOPPED = {
    "interval": "the interval of the median was narrow enough",
    "iterations": "the calls asked for were made",
    "budget": "the time for it was spent",
    "samples": "one event holds no more samples",
}
Data = Mapping[str, Any]
WRITTEN: dict[str, Callable[[float], str]] = {
    "ms": formatting.latency,
    "1/s": formatting.throughput,
    "B": formatting.memory,
    "share": formatting.share,
}
NAMES = {"tokens_per_s": "tokens a second", "ttft_ms": "time to first token", "tpot_ms": "time per token"}
_UNITS = ("_per_s", "_ms", "_bytes", "_j", "_w")


def named(data: Data) -> str:
    """Name what a fact is of: model, platform, precision, batch, hardware."""
    execution, workload = data["execution"], data["workload"]
    return " · ".join(
        [
            str(data["model"]["id"]).rpartition("/")[2],
            str(execution["platform"]),
            str(execution.get("precision") or "precision unknown"),
            loads.batch_words(workload),
            loads.hardware_words(data, str(data["hardware"]["id"])),
        ]
    )


def sentence(data: Data) -> str:
    """Say what a fact found: a median with its interval and what it is worth, or how far a try came."""
    if "outcome" in data:
        return f"{named(data)}: {str(data['outcome']).replace('_', ' ')} at {str(data['stage']).replace('_', ' ')}"
    latency_ms = data["metrics"].get("latency_ms") or {}
    word = verdict((data.get("validity") or {}).get("verdict"))
    low, high = (latency_ms.get("ci95") or {}).get("p50") or (None, None)
    columns = {f"latency_{name}_ms": latency_ms.get(name) for name in ("p50", "mean", "p90", "p95", "p99")}
    value = latency({**columns, "latency_p50_ci95_low_ms": low, "latency_p50_ci95_high_ms": high})
    if value == formatting.MISSING:
        value = formatting.throughput(data["metrics"].get("throughput_per_s"))
    return f"{named(data)}: {value}, {formatting.samples(latency_ms.get('n'))}, {word}"


def stages(data: Data, drawn: Data | None) -> list[dict[str, Any]]:
    """Return the stages of a row in their order, each with when it began and ended in ms; one that is not known has neither.

    Warm-up and steady calls are the sum of their samples: what lay between two calls is in no stage.
    """
    metrics = {name: data["metrics"].get(key) for key, name in STAGES.items()}
    metrics["warm-up"] = drawn["warmup_ms"] if drawn and drawn["warmup_n"] else None
    metrics["steady"] = drawn["steady_ms"] if drawn else None
    scale = formatting.latency_scale([sum(took or 0.0 for took in metrics.values())])
    at, stages = 0.0, []
    for name, took in metrics.items():
        existing = took is not None
        stages.append(
            {
                "stage": name,
                "start": at if existing else None,
                "end": at + took if took is not None else None,
                "took": scale.show(took) if existing else f"{formatting.MISSING} not recorded",
            }
        )
        at += took or 0.0
    return stages


def percentiles(drawn: Data) -> str:
    """Write each percentile with its interval, or what it lacks: `p95 — (needs 90, has 61)`."""
    parts = []
    for name, percentile in drawn["percentiles"].items():
        if percentile["ms"] is None:
            parts.append(formatting.percentile(name, None, percentile["has"], percentile["needs"]))
        else:
            parts.append(f"{name} {formatting.latency(percentile['ms'], percentile['low'], percentile['high'])}")
    return " · ".join(parts)


def steady(drawn: Data, data: Data) -> str:
    """Say where the steady state began, how it was found, and why the series ended."""
    conditions = data.get("conditions") or {}
    began = f"steady from call {formatting.count(drawn['steady_from'])}"
    if not drawn["warmup_n"]:
        began = "no warm-up was kept"
    elif conditions.get("steady") is False:
        began += ", not by the test: the time for warm-up was spent"
    elif conditions.get("steady"):
        began += " by the test"
    parts = [began, f"{formatting.count(drawn['n'])} steady calls"]
    if reason := STOPPED.get(str(conditions.get("stopped_by"))):
        parts.append(f"ended because {reason}")
    if beyond := drawn["beyond"]:
        calls = "1 call lies" if beyond["count"] == 1 else f"{formatting.count(beyond['count'])} calls lie"
        parts.append(f"{calls} beyond the histogram, up to {formatting.latency(beyond['largest'])}")
    if not drawn["intact"]:
        parts.append("⚠ these samples do not give the digest that the measurement names")
    return " · ".join(parts)


def series(drawn: Data) -> list[dict[str, Any]]:
    """Return the samples as rows of a file: each call, or each stretch of calls where the service thinned them."""
    begin = drawn["steady_from"]
    if drawn["points"] is not None:
        return [
            {"call": at, "phase": "warm-up" if at < begin else "steady", "ms": value}
            for at, value in enumerate(drawn["points"], 1)
        ]
    phased = [{"phase": "warm-up" if band["last"] < begin else "steady", **band} for band in drawn["bands"]]
    keys = {"low": "low_ms", "middle": "median_ms", "high": "high_ms", "first": "first_call", "last": "last_call"}
    return [{keys.get(name, name): value for name, value in item.items()} for item in phased]


def metrics(data: Data) -> pd.DataFrame:
    """Return every metric of a row with its unit, its verdict and the reasons for it."""
    judged = (data.get("validity") or {}).get("metrics") or {}
    rows = []
    for key, value in data["metrics"].items():
        item = judged.get(key) or {}
        about = METRICS.get(key)
        for name, written in _values(key, value):
            rows.append(
                {
                    "Metric": name,
                    "Value": written,
                    "Verdict": verdict(item.get("verdict")),
                    "Why": "; ".join(item.get("reasons") or []) or formatting.MISSING,
                    "What it is": about.meaning if about else "",
                }
            )
    table = pd.DataFrame(rows)
    # A column in which nothing is said is left away.
    return table.drop(columns="Why") if rows and (table["Why"] == formatting.MISSING).all() else table


def _values(key: str, value: Any) -> list[tuple[str, str]]:
    if key == "latency_ms":
        bounds = value.get("ci95") or {}
        kinds = ("p50", "p90", "p95", "p99", "mean", "min", "max", "stddev")
        existing = [
            (name, value[name], bounds.get(name) or (None, None)) for name in kinds if value.get(name) is not None
        ]
        return [(f"latency {name}", formatting.latency(of, *ends)) for name, of, ends in existing]
    return [(_plain(key), _written(key, value))]


def _plain(key: str) -> str:
    ending = next((unit for unit in _UNITS if key.endswith(unit)), "")
    return NAMES.get(key) or key.removesuffix(ending).replace("_", " ")


def _written(key: str, value: Any) -> str:
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return formatting.MISSING if value is None else str(value)
    unit = METRICS[key].unit if key in METRICS else ""
    if shown := WRITTEN.get(unit):
        return shown(float(value))
    return f"{formatting.significant(value)}\u202f{unit}" if unit else formatting.significant(value)


def asked(data: Data) -> pd.DataFrame:
    """Return what was asked for beside what did the work; a share of the work that was done elsewhere is said."""
    seen = data.get("observed") or {}
    wanted: Data = seen.get("requested") or {}
    rows = [
        {
            "What": name,
            "Asked": str(wanted.get(name) or formatting.MISSING),
            "Actual": _actual(seen.get(name)),
            "Same": _same(wanted.get(name), seen.get(name)),
        }
        for name in ("device", "platform", "precision")
    ]
    shares = {"fallback_share": "done elsewhere", "precision_share": "in that precision"}
    rows += [
        {
            "What": f"share of the work {words}",
            "Asked": formatting.MISSING,
            "Actual": formatting.share(seen[name]),
            "Same": formatting.MISSING,
        }
        for name, words in shares.items()
        if seen.get(name) is not None
    ]
    return pd.DataFrame(rows)


def _actual(seen: Any) -> str:
    return loads.STATED_WORDS if seen == STATED else str(seen or formatting.MISSING)


def _same(wanted: Any, seen: Any) -> str:
    if wanted is None or seen is None or seen == STATED:
        return formatting.MISSING
    return "✓ yes" if wanted == seen else "≠ no"
