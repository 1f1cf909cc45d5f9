"""One row of a run in words: its stages, its percentiles, its metrics with their verdicts, and what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pandas as pd
from msgspec.structs import asdict

from dashboard.screens.runs.words import latency, verdict
from domain.answers.run import Fact
from domain.conditions import Conditions
from domain.measured import STATED, Latency, Observed, Requested
from domain.metrics import METRICS
from domain.samples import Picture
from presentation import formatting, loads
from presentation.answer_words import model_name

__all__ = ["DIFFERS", "StageTime", "asked", "metrics", "named", "percentiles", "sentence", "series", "stages", "steady"]

STAGES = {"load_ms": "load", "convert_ms": "convert", "compile_ms": "compile", "first_run_ms": "first run"}
STOPPED = {
    "interval": "the interval of the median was narrow enough",
    "iterations": "the calls asked for were made",
    "budget": "the time for it was spent",
    "samples": "one event holds no more samples",
}
DIFFERS = "≠ no"
WRITTEN: dict[str, Callable[[float], str]] = {
    "ms": formatting.latency,
    "1/s": formatting.throughput,
    "B": formatting.memory,
    "share": formatting.share,
}
NAMES = {"tokens_per_s": "tokens a second", "ttft_ms": "time to first token", "tpot_ms": "time per token"}
_UNITS = ("_per_s", "_ms", "_bytes", "_j", "_w")


class StageTime(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of a row in ms from the beginning of the row, and its time in words; one that is not known has no times."""

    stage: str
    start: float | None
    end: float | None
    took: str


def named(fact: Fact) -> str:
    """Name what a fact is of: model, platform, precision, batch, hardware."""
    device = {"device": fact.observed.device if fact.observed else None}
    return " · ".join(
        [
            model_name(fact.model.id),
            fact.execution.platform,
            fact.execution.precision or "precision unknown",
            loads.batch_words(asdict(fact.workload)),
            loads.hardware_words(device, fact.hardware.id),
        ]
    )


def sentence(fact: Fact) -> str:
    """Say what a fact found: a median with its interval and what it is worth, or how far a try came."""
    if fact.outcome is not None:
        return f"{named(fact)}: {fact.outcome.replace('_', ' ')} at {str(fact.stage).replace('_', ' ')}"
    times = _times(fact)
    word = verdict(fact.validity.verdict if fact.validity else None)
    value = latency(times)
    if value == formatting.MISSING:
        value = formatting.throughput(_figure(fact, "throughput_per_s"))
    return f"{named(fact)}: {value}, {formatting.samples(times.n)}, {word}"


def _times(fact: Fact) -> Latency:
    sent = (fact.metrics or {}).get("latency_ms")
    return msgspec.json.decode(sent, type=Latency | None) or Latency() if sent else Latency()


def _figure(fact: Fact, name: str) -> float | None:
    sent = (fact.metrics or {}).get(name)
    return msgspec.json.decode(sent, type=float | None) if sent else None


def stages(fact: Fact, drawn: Picture | None) -> list[StageTime]:
    """Return the stages of a row in their order, each with when it began and ended in ms; one that is not known has neither.

    Warm-up and steady calls are the sum of their samples: what lay between two calls is in no stage.
    """
    times = {name: _figure(fact, key) for key, name in STAGES.items()}
    times["warm-up"] = drawn.warmup_ms if drawn and drawn.warmup_n else None
    times["steady"] = drawn.steady_ms if drawn else None
    scale = formatting.latency_scale([sum(took or 0.0 for took in times.values())])
    at, stages = 0.0, []
    for name, took in times.items():
        if took is None:
            stages.append(StageTime(stage=name, start=None, end=None, took=f"{formatting.MISSING} not recorded"))
        else:
            stages.append(StageTime(stage=name, start=at, end=at + took, took=scale.show(took)))
        at += took or 0.0
    return stages


def percentiles(drawn: Picture) -> str:
    """Write each percentile with its interval, or what it lacks: `p95 — (needs 90, has 61)`."""
    parts = []
    for name, percentile in drawn.percentiles.items():
        if percentile.ms is None:
            parts.append(formatting.percentile(name, None, percentile.has, percentile.needs))
        else:
            parts.append(f"{name} {formatting.latency(percentile.ms, percentile.low, percentile.high)}")
    return " · ".join(parts)


def steady(drawn: Picture, fact: Fact) -> str:
    """Say where the steady state began, how it was found, and why the series ended."""
    conditions = fact.conditions or Conditions()
    began = f"steady from call {formatting.count(drawn.steady_from)}"
    if not drawn.warmup_n:
        began = "no warm-up was kept"
    elif conditions.steady is False:
        began += ", not by the test: the time for warm-up was spent"
    elif conditions.steady:
        began += " by the test"
    parts = [began, f"{formatting.count(drawn.n)} steady calls"]
    if reason := STOPPED.get(conditions.stopped_by or ""):
        parts.append(f"ended because {reason}")
    if beyond := drawn.beyond:
        calls = "1 call lies" if beyond.count == 1 else f"{formatting.count(beyond.count)} calls lie"
        parts.append(f"{calls} beyond the histogram, up to {formatting.latency(beyond.largest)}")
    if not drawn.intact:
        parts.append("⚠ these samples do not give the digest that the measurement names")
    return " · ".join(parts)


def series(drawn: Picture) -> pd.DataFrame:
    """Return the samples as rows of a file: each call, or each stretch of calls where the service thinned them."""
    begin = drawn.steady_from
    if drawn.points is not None:
        calls = range(1, len(drawn.points) + 1)
        phases = ["warm-up" if at < begin else "steady" for at in calls]
        return pd.DataFrame({"call": calls, "phase": phases, "ms": drawn.points})
    bands = drawn.bands or []
    return pd.DataFrame(
        {
            "phase": ["warm-up" if band.last < begin else "steady" for band in bands],
            "first_call": [band.first for band in bands],
            "last_call": [band.last for band in bands],
            "low_ms": [band.low for band in bands],
            "median_ms": [band.middle for band in bands],
            "high_ms": [band.high for band in bands],
        }
    )


def metrics(fact: Fact) -> pd.DataFrame:
    """Return every metric of a row with its unit, its verdict and the reasons for it."""
    judged = fact.validity.metrics if fact.validity else {}
    rows = []
    for key, sent in (fact.metrics or {}).items():
        item = judged.get(key)
        about = METRICS.get(key)
        for name, written in _values(key, sent):
            rows.append(
                {
                    "Metric": name,
                    "Value": written,
                    "Verdict": verdict(item.verdict if item else None),
                    "Why": "; ".join(item.reasons if item else []) or formatting.MISSING,
                    "What it is": about.meaning if about else "",
                }
            )
    table = pd.DataFrame(rows)
    # A column in which nothing is said is left away.
    return table.drop(columns="Why") if rows and (table["Why"] == formatting.MISSING).all() else table


def _values(key: str, sent: msgspec.Raw) -> list[tuple[str, str]]:
    if key == "latency_ms":
        times = msgspec.json.decode(sent, type=Latency)
        bounds = times.ci95 or {}
        kinds = {
            "p50": times.p50,
            "p90": times.p90,
            "p95": times.p95,
            "p99": times.p99,
            "mean": times.mean,
            "min": times.min,
            "max": times.max,
            "stddev": times.stddev,
        }
        return [
            (f"latency {name}", formatting.latency(value, *bounds.get(name, (None, None))))
            for name, value in kinds.items()
            if value is not None
        ]
    return [(_plain(key), _written(key, msgspec.json.decode(sent)))]


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


def asked(fact: Fact) -> pd.DataFrame:
    """Return what was asked for beside what did the work; a share of the work that was done elsewhere is said."""
    seen = fact.observed or Observed()
    wanted = seen.requested or Requested()
    pairs = {
        "device": (wanted.device, seen.device),
        "platform": (wanted.platform, seen.platform),
        "precision": (wanted.precision, seen.precision),
    }
    rows = [
        {
            "What": name,
            "Asked": request or formatting.MISSING,
            "Actual": _actual(actual),
            "Same": _same(request, actual),
        }
        for name, (request, actual) in pairs.items()
    ]
    shares = {"done elsewhere": seen.fallback_share, "in that precision": seen.precision_share}
    rows += [
        {
            "What": f"share of the work {words}",
            "Asked": formatting.MISSING,
            "Actual": formatting.share(share),
            "Same": formatting.MISSING,
        }
        for words, share in shares.items()
        if share is not None
    ]
    return pd.DataFrame(rows)


def _actual(seen: str | None) -> str:
    return loads.STATED_WORDS if seen == STATED else seen or formatting.MISSING


def _same(wanted: str | None, seen: str | None) -> str:
    if wanted is None or seen is None or seen == STATED:
        return formatting.MISSING
    return "✓ yes" if wanted == seen else DIFFERS
