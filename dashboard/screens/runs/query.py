"""What the Runs page asks of the service."""

from __future__ import annotations

from typing import Any

from dashboard.service import checked, client, kept

__all__ = ["event", "listed", "live", "one", "outcomes", "rows", "samples"]

LIVE = 10
"""Runs under way that are shown; more at once are counted."""
COLUMNS = (
    "event_id,model_id,hardware_id,platform,precision,mode,batch_size,sequence_length,latency_p50_ms,latency_p50_ci95_low_ms,"
    "latency_p50_ci95_high_ms,latency_mean_ms,latency_p90_ms,latency_p95_ms,latency_p99_ms,latency_n,throughput_per_s,"
    "peak_memory_bytes,verdict,verdict_reasons,origin"
)
TRIED = "event_id,model_id,hardware_id,platform,precision,batch_size,outcome,stage,error,message,remedy"


@kept(max_entries=64)
def listed(request: dict[str, Any], position: int) -> dict[str, Any]:
    """Return one page of runs, newest first, with how many there are and what can be asked for."""
    return checked(dict(client().page("runs", as_of=position, **request)), "items", "total", "choices")


@kept(max_entries=16)
def live(position: int) -> list[dict[str, Any]]:
    """Return the newest runs that have not ended, heard of or not."""
    return [dict(row) for row in client().page("runs", outcome="unfinished", limit=LIVE, as_of=position)["items"]]


@kept(max_entries=64)
def one(run_id: str, position: int) -> dict[str, Any]:
    """Return one run, why its rows are not valid, its environment, and what changed since the run before."""
    return checked(dict(client().run(run_id, as_of=position)), "run", "reasons", "differs")


@kept(max_entries=64)
def rows(run_id: str, cursor: str | None, limit: int, position: int) -> dict[str, Any]:
    """Return one page of a run's measurements, in the order in which they came."""
    request: dict[str, Any] = {"run_id": run_id, "columns": COLUMNS, "as_of": position}
    return checked(dict(client().page("tables/measurements", cursor=cursor, limit=limit, **request)), "items")


@kept(max_entries=64)
def outcomes(view: str, run_id: str, cursor: str | None, limit: int, position: int) -> dict[str, Any]:
    """Return one page of a run's `failures` or `tests`, in the order in which they came."""
    request: dict[str, Any] = {"run_id": run_id, "columns": TRIED, "as_of": position}
    return checked(dict(client().page(f"tables/{view}", cursor=cursor, limit=limit, **request)), "items")


# Events never change, and neither does what is kept of them; only samples expire, which the next start of the page shows.
@kept(max_entries=256)
def event(event_id: str) -> dict[str, Any]:
    """Return one event of the log as it was sent."""
    return dict(client().event(event_id))


@kept(max_entries=64)
def samples(event_id: str) -> dict[str, Any]:
    """Return the samples behind a measurement, thinned for a picture."""
    return checked(dict(client().samples(event_id)), "percentiles", "histogram")
