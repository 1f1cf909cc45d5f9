"""The least that a projection does: fetch by ADBC, and one INSERT … SELECT of the columns of `measurement` a batch.

No configuration keys, no aliases, no checkpoint, no counts, no dead letters: what an import script would write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import duckdb
import pyarrow as pa

from ingest.log.postgres import Database

__all__ = ["COLUMNS", "fetch", "fetched", "folded", "raw"]

_TEXT, _NUMBER, _INTEGER, _FLAG, _JSON = "VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN", "JSON"
COLUMNS: dict[str, tuple[str, str]] = {
    "run_id": ("run_id", _TEXT),
    **{name: (f"model.{name}", _TEXT) for name in ("id", "category", "family", "architecture", "task", "revision", "weights")},
    "parameters": ("model.parameters", _INTEGER),
    "hardware_id": ("hardware.id", _TEXT), "hardware_kind": ("hardware.kind", _TEXT),
    "hardware_count": ("hardware.count", _INTEGER),
    **{name: (f"workload.{name}", _TEXT) for name in ("mode", "scenario", "optimizer")},
    **{
        name: (f"workload.{name}", _INTEGER)
        for name in ("batch_size", "sequence_length", "image_size", "images", "frames", "input_tokens", "output_tokens", "concurrency")
    },
    "audio_seconds": ("workload.audio_seconds", _NUMBER), "arrival_rate_per_s": ("workload.arrival_rate_per_s", _NUMBER),
    "gradient_checkpointing": ("workload.gradient_checkpointing", _FLAG),
    "platform_asked": ("execution.platform", _TEXT), "precision_asked": ("execution.precision", _TEXT),
    "runtime_name": ("execution.runtime.name", _TEXT), "runtime_version": ("execution.runtime.version", _TEXT),
    "compiled": ("execution.compiled", _FLAG), "layout": ("execution.layout", _TEXT),
    "threads": ("execution.threads", _INTEGER), "streams": ("execution.streams", _INTEGER),
    "parallelism": ("execution.parallelism", _JSON), "power_limit_w": ("execution.power_limit_w", _NUMBER),
    "options": ("execution.options", _JSON),
    "device": ("observed.device", _TEXT), "platform": ("observed.platform", _TEXT),
    "precision": ("observed.precision", _TEXT), "fallback_share": ("observed.fallback_share", _NUMBER),
    "device_asked": ("observed.requested.device", _TEXT),
    "environment_fingerprint": ("environment.fingerprint", _TEXT),
    **{
        f"latency_{name}_ms": (f"metrics.latency_ms.{name}", _NUMBER)
        for name in ("mean", "min", "max", "stddev", "p50", "p90", "p95", "p99")
    },
    "latency_n": ("metrics.latency_ms.n", _INTEGER), "latency_ci95": ("metrics.latency_ms.ci95", _JSON),
    **{
        name: (f"metrics.{name}", _NUMBER)
        for name in (
            "throughput_per_s", "tokens_per_s", "ttft_ms", "tpot_ms", "realtime_factor", "load_ms", "convert_ms", "compile_ms",
            "first_run_ms", "preprocess_ms", "postprocess_ms", "forward_ms", "loss_ms", "backward_ms", "optimizer_ms", "energy_j",
            "power_w", "utilisation", "goodput_per_s", "roofline_share",
        )
    },
    **{
        name: (f"metrics.{name}", _INTEGER)
        for name in ("peak_memory_bytes", "mean_memory_bytes", "device_memory_bytes", "kv_cache_bytes")
    },
    "samples_n": ("samples.n", _INTEGER), "stopped_by": ("conditions.stopped_by", _TEXT),
    **{name: (f"conditions.{name}", _NUMBER) for name in ("other_load", "clock_before_hz", "clock_after_hz")},
    "verdict": ("validity.verdict", _TEXT), "verdict_reasons": ("validity.reasons", _JSON),
    "metric_verdicts": ("validity.metrics", _JSON),
    "origin": ("provenance.origin", _TEXT), "provenance_source": ("provenance.source", _TEXT),
    "reference": ("provenance.reference", _TEXT), "licence": ("provenance.licence", _TEXT),
}  # fmt: skip
"""Column to its place in an event's data and its type: those of the product's table that are not computed."""

_SELECT = "SELECT position, id::text AS event_id, type, source, time, recorded_at, body FROM event ORDER BY position"
_HINT = "adbc.postgresql.batch_size_hint_bytes"
_EVENT_BYTES = 1600


def fetch(database: Database, batch_events: int) -> Any:
    """Yield the log as Arrow batches of about so many events."""
    with (
        adbc_driver_postgresql.dbapi.connect(database.adbc_uri, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.adbc_statement.set_options(**{_HINT: str(batch_events * _EVENT_BYTES)})
        cursor.execute(_SELECT)
        yield from (pa.Table.from_batches([batch]) for batch in cursor.fetch_record_batch() if batch.num_rows)


def fetched(database: Database, batch_events: int) -> int:
    """Return the number of events, having fetched all of them."""
    return sum(batch.num_rows for batch in fetch(database, batch_events))


def raw(database: Database, path: Path, batch_events: int) -> int:
    """Fetch and insert the columns of the log as they are, and return how many rows there are."""
    columns = (
        "position BIGINT, event_id VARCHAR, type VARCHAR, source VARCHAR, time TIMESTAMPTZ, recorded_at TIMESTAMPTZ"
    )
    return _inserted(database, path, batch_events, f"{columns}, body VARCHAR", "SELECT * FROM batch")


def folded(database: Database, path: Path, batch_events: int) -> int:
    """Fetch, parse and insert the columns of a measurement, and return how many rows there are."""
    columns = ", ".join(f"{name} {kind}" for name, (_, kind) in COLUMNS.items())
    chosen = ", ".join(f"d.{place}" for place, _ in COLUMNS.values())
    table = "position BIGINT, event_id VARCHAR, source VARCHAR, time TIMESTAMPTZ, recorded_at TIMESTAMPTZ, " + columns
    select = (
        f"SELECT position, event_id, source, time, recorded_at, {chosen} FROM ("
        f"SELECT * EXCLUDE (body), from_json(body, '{{\"data\": {_structure()}}}').data AS d FROM batch)"
    )
    return _inserted(database, path, batch_events, table, select)


def _inserted(database: Database, path: Path, batch_events: int, table: str, select: str) -> int:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE peer ({table})")
        for batch in fetch(database, batch_events):
            connection.register("batch", batch)
            connection.execute(f"INSERT INTO peer {select}")
            connection.unregister("batch")
        ((count,),) = connection.execute("SELECT count(*) FROM peer").fetchall()
    return int(count)


def _structure() -> str:
    """Return the members of `COLUMNS` as the structure that from_json takes."""
    root: dict[str, Any] = {}
    for place, kind in COLUMNS.values():
        *above, last = place.split(".")
        inner = root
        for name in above:
            inner = inner.setdefault(name, {})
        inner[last] = kind

    def text(value: Any) -> str:
        if isinstance(value, str):
            return f'"{value}"'
        return "{" + ", ".join(f'"{name}": {text(inner)}' for name, inner in value.items()) + "}"

    return text(root)
