"""The load of a row in words: how requests came, who made them, what a scenario came to by its rules, whose hardware it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from domain.measured import STATED
from presentation import formatting

__all__ = ["STATED_WORDS", "arrivals", "batch_words", "hardware_words", "is_stated", "lines"]

Row = Mapping[str, Any]
STATED_WORDS = "stated by the operator, not seen"
_SCENARIOS = {
    "single_stream": "single stream: one after another",
    "offline": "offline: all there from the start",
    "server": "server: they arrive by themselves",
    "serving": "serving",
}


def is_stated(row: Row) -> bool:
    """Whether the hardware of a row, an event's data or a line is what somebody said, and nobody saw it."""
    seen = row.get("observed") or {}
    return bool(row.get("hardware_stated")) or STATED in (row.get("device"), seen.get("device"))


def hardware_words(row: Row, name: str) -> str:
    """Return a hardware's name; with what it rests on where nobody saw it."""
    return f"{name} (stated)" if is_stated(row) else name


def arrivals(row: Row) -> str | None:
    """Say how requests came: `8 at a time`, `4 requests/s`; None where one call followed another."""
    rate, streams = row.get("arrival_rate_per_s"), row.get("concurrency")
    if rate is not None:
        return f"{rate:.15g} requests/s"
    return f"{streams} at a time" if streams is not None else None


def batch_words(row: Row) -> str:
    """Name the batch and the load: `batch 8`, `batch 1 · 4 requests/s`; what is served without a batch, by its load alone."""
    batch, coming = row.get("batch_size"), arrivals(row)
    existing = [f"batch {batch}"] if batch is not None else [] if coming else ["batch unknown"]
    return " · ".join([*existing, *([coming] if coming else [])])


def lines(data: Row) -> list[tuple[str, str]]:
    """Return what a fact's event says of its load and of whose hardware it was, as names and words."""
    workload, seen = data.get("workload") or {}, data.get("observed") or {}
    details = seen.get("details") or {}
    scenario = workload.get("scenario")
    names = []
    if scenario:
        names.append(("Scenario", _SCENARIOS.get(scenario, str(scenario))))
    if coming := arrivals(workload):
        names.append(("Requests", coming))
    result = details.get("scenario")
    if isinstance(result, Mapping):
        names.append(("By its rules", _result(result)))
    if isinstance(details.get("objective"), Mapping):
        kept = details["objective"].items()
        bounds = ", ".join(f"{name.removesuffix('_ms')} within {formatting.latency(value)}" for name, value in kept)
        names.append(("Objective", bounds))
    if details.get("api"):
        names.append(("Made by", _client(data, details)))
    if is_stated(data):
        names.append(("Hardware", STATED_WORDS))
    return names


def _result(result: Row) -> str:
    reasons = "; ".join(result.get("reasons") or [])
    parts = [f"{result.get('result')}: {reasons}" if reasons else str(result.get("result"))]
    name, value, target = (result.get(key) for key in ("percentile", "percentile_ms", "target_latency_ms"))
    # A bound that was not kept says both figures in its reason.
    if target is not None and name and not any(str(name) in reason for reason in result.get("reasons") or ()):
        parts.append(f"{name} {formatting.latency(value)} against {formatting.latency(target)}")
    elif name and target is None:
        parts.append(f"{name} {formatting.latency(value)}, with no target")
    if result.get("queries") is not None:
        parts.append(f"{formatting.count(result['queries'])} queries in {formatting.si(result.get('duration_s'), 's')}")
    parts.append("as long as MLPerf asks" if result.get("mlperf") else "shorter than MLPerf asks")
    return "; ".join(parts)


def _client(data: Row, details: Row) -> str:
    source = (data.get("provenance") or {}).get("source") or "a load generator that is not named"
    parts = [f"{source}, over {details['api']}"]
    if details.get("requests") is not None:
        failed = details.get("failed_requests")
        parts.append(
            f"{formatting.count(details['requests'])} requests{f', {formatting.count(failed)} failed' if failed else ''}"
        )
    client = details.get("client") or {}
    if client.get("late_ms") is not None:
        parts.append(
            f"late by {formatting.latency(client['late_ms'])}, {formatting.share(client.get('cpu_share'))} of a core"
        )
    return "; ".join(parts)
