"""One published MLPerf Inference result as a draft, whichever table holds it.

What a result is follows from its scenario and benchmark: Offline and Server a rate, SingleStream the 90th percentile of the
latency, MultiStream the 99th of a query with 8 samples; with power measured also the mean power of the whole system
(Offline, Server) or the energy of a query (SingleStream, MultiStream).

A result that was inferred from another scenario's run, that missed its constraints or in which the checker counted errors is
a figure that nobody measured as it stands there: it is taken, and marked suspect.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ingest.importers.document import environment
from ingest.importers.draft import Draft, Finding
from ingest.importers.identity import precision_of
from ingest.importers.mlperf.vocabulary import (
    System,
    benchmark_of,
    counts_tokens,
    runtime_named,
    scenario_of,
    version_of,
)
from ingest.importers.refusals import BadRow

__all__ = ["Result", "draft_of", "environment_of", "marked"]

_ENERGY = {"millijoules": 1e-3, "joules": 1.0, "microjoules": 1e-6, "uj/inf.": 1e-6}
_POWER = {"watts": 1.0, "milliwatts": 1e-3}
_LATENCY = {"latency (ms)": 1.0, "latency (s)": 1e3, "latency (us)": 1e-3, "latency (ns)": 1e-6}
_RATES = frozenset(("samples/s", "queries/s", "tokens/s", "inf./sec."))
_REASONS = {
    "inferred-result": "it was inferred from another scenario's run, as the rules allow",
    "checker-errors": "the submission checker found errors in it",
    "constraints-missed": "the run missed a constraint of its scenario",
}


class Result(NamedTuple):
    """A row: `value` in `unit`, `power` in `power_unit`, and `said`, what is kept of it as it stood.

    `rules` is the benchmark whose rules hold where another model was run (open division).

    `field` is what the file calls the value. `key` tells apart the results of different submissions.
    """

    benchmark: str
    scenario: str
    field: str
    value: float | None
    unit: str | None
    system: System
    version: str | None = None
    rules: str | None = None
    power: float | None = None
    power_unit: str | None = None
    precision: str | None = None
    inferred: bool = False
    errors: bool = False
    said: Mapping[str, Any] = MappingProxyType({})
    key: Any = None
    row: int | None = None


def draft_of(result: Result) -> Draft:
    """Return the draft of a result; BadRow where it has no figure, or a scenario or unit that MLPerf has not."""
    benchmark, scenario = benchmark_of(result.benchmark), scenario_of(result.scenario)
    version = version_of(result.version)
    hardware, platform = result.system.device()
    metrics, original = _metrics(
        result,
        scenario.word,
        counts_tokens(benchmark_of(result.rules or result.benchmark).base, scenario.name, version),
    )
    if not metrics:
        raise BadRow(result.field, "there is neither a result nor its power")
    options = dict(benchmark.options)
    if scenario.name == "interactive":
        options["constraint"] = "interactive"
    if system_named := result.system.accelerator:
        original["accelerator"] = system_named
    precision = precision_of(result.precision) if result.precision and "," not in result.precision else None
    draft = Draft(
        model=benchmark.model,
        workload={"mode": "inference", "scenario": scenario.word, "batch_size": scenario.batch_size},
        execution={
            "platform": platform,
            "runtime": runtime_named(result.system.software),
            "precision": precision,
            "options": options or None,
        },
        hardware=hardware,
        metrics=metrics,
        environment=environment_of(result.system),
        row=result.row,
        original={**original, **{name: value for name, value in result.said.items() if value not in (None, "")}},
        key=result.key,
    )
    return marked(draft, **{"inferred-result": result.inferred, "checker-errors": result.errors})


def marked(draft: Draft, **exists: bool) -> Draft:
    """Return the draft with a finding for each of the rules that hold: those that only MLPerf's own words can tell."""
    draft.findings += [Finding(rule, "suspect", _REASONS[rule]) for rule, holds in exists.items() if holds]
    return draft


@lru_cache(maxsize=4096)
def environment_of(system: System) -> dict[str, Any] | None:
    """Return operating system, host processor and software of a system; not to be changed."""
    return environment(system.libraries(), os=system.os, cpu=system.processor)


def _metrics(result: Result, scenario: str, tokens: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    unit = (result.unit or "").strip().lower()
    metrics: dict[str, Any] = {}
    original: dict[str, Any] = {}
    if result.value is not None:
        if unit in _LATENCY:
            statistic = "p90" if "multi" not in result.scenario.lower() else "p99"
            metrics["latency_ms"] = {statistic: result.value * _LATENCY[unit]}
        elif unit in _RATES:
            metrics["tokens_per_s" if tokens or unit == "tokens/s" else "throughput_per_s"] = result.value
        else:
            raise BadRow(result.field, f"is in {result.unit!r}, which is no unit of MLPerf Inference")
        original[f"{result.field} ({result.unit})"] = result.value
    power_unit = (result.power_unit or result.unit or "").strip().lower()
    if result.power is not None:
        if power_unit in _POWER:
            metrics["power_w"] = result.power * _POWER[power_unit]
        elif power_unit in _ENERGY:
            metrics["energy_j"] = result.power * _ENERGY[power_unit]
        else:
            power_unit = "watts" if scenario in ("offline", "server") else "millijoules"
            name, factor = ("power_w", 1.0) if power_unit == "watts" else ("energy_j", 1e-3)
            metrics[name] = result.power * factor
        original[f"power ({power_unit})"] = result.power
    return metrics, original
