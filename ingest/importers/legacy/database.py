"""The earlier framework's DuckDB file (`benchmark_db.duckdb`, create_benchmark_schema.py), opened for reading alone.

Dimensions `models` (`model_name`, `parameters_million`, `modality`) and `hardware_platforms` (`hardware_type`, `device_name`); facts that refer to them:

* `performance_results`: `average_latency_ms`, `throughput_items_per_second`, `memory_peak_mb` (2^20 bytes), `batch_size`, `precision`, `test_case`, `iterations`;
* `web_platform_results`: `platform`, `browser`, `inference_time_ms`, `load_time_ms`, `memory_usage_mb`, `shader_compilation_time_ms`, `success`, `error_message`;
* `hardware_compatibility`: `is_compatible`, `error_message`, `error_type`, `suggested_fix`, as tests;
* `integration_test_results` that name a model: `status` pass, fail, error, skip, as tests;
* `benchmark_performance`, an older table without dimensions: `model`, `hardware`, `device`, `latency_avg` in ms and its percentiles, `throughput`, `memory_peak` in MB.

Columns that a later version of the schema added (`is_simulated`, `simulation_reason`) are read where they are; tables that are missing or
empty are passed over. Batch size 1 is the schema's default and is taken as said. Views and `*_batch_results` say nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import hardware_of, precision_of
from ingest.importers.legacy.vocabulary import NOWHERE, error_of, flags_of, model_named, moment, platform_of
from ingest.importers.reading import BadFile, number, text, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["SeedDuckDB"]

NAME = "seed-duckdb"
PORTION = 10_000
_MAGIC = b"DUCK"
_OUTCOMES = {
    "pass": "passed",
    "passed": "passed",
    "fail": "failed",
    "failed": "failed",
    "error": "error",
    "skip": "skipped",
    "skipped": "skipped",
}
_DIMENSIONS = """
SELECT fact.*, model.model_name, model.model_family, model.modality, model.parameters_million,
    hardware.hardware_type, hardware.device_name
FROM {table} AS fact
LEFT JOIN models AS model ON fact.model_id = model.model_id
LEFT JOIN hardware_platforms AS hardware ON fact.hardware_id = hardware.hardware_id
ORDER BY fact.{key}
"""
"""One table of facts with the names that its ids mean."""
_FLAT = "SELECT * FROM benchmark_performance ORDER BY id"


class SeedDuckDB:
    """The earlier framework's database (DuckDB)."""

    name = NAME
    title = "earlier framework: benchmark_db.duckdb, its performance, web, compatibility and test tables"

    def sniff(self, file: File) -> bool:
        """Return whether the file is a DuckDB file that names one of the framework's tables."""
        with file.path.open("rb") as opened:
            if opened.read(12)[8:12] != _MAGIC:
                return False
        try:
            return bool(_tables(file) & _READ.keys())
        except BadFile:
            return file.base.startswith("benchmark_db")

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run and the rows of all tables; see Importer."""
        document = Document(file, NAME, source="earlier framework, benchmark database")
        yield from document.events(_rows(document, file))


def _opened(file: File) -> Any:
    import duckdb

    try:
        return duckdb.connect(str(file.path), read_only=True, config={"enable_external_access": "false"})
    except duckdb.Error as error:
        raise BadFile(f"cannot be opened by DuckDB {duckdb.__version__}: {str(error).splitlines()[0]}") from None


def _tables(file: File) -> set[str]:
    with _opened(file) as connection:
        rows = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
    return {name for (name,) in rows}


def _rows(document: Document, file: File) -> Iterator[Draft | Refused]:
    import duckdb

    present = _tables(file)
    row = 0
    with _opened(file) as connection:
        for table, (key, read) in _READ.items():
            dimensions = {"models", "hardware_platforms"} <= present or key == "id"
            if table not in present or not dimensions:
                continue
            try:
                cursor = connection.execute(_FLAT if key == "id" else _DIMENSIONS.format(table=table, key=key))
            except duckdb.Error as error:
                yield document.refused(f"has other columns than the schema: {str(error).splitlines()[0]}", field=table)
                continue
            columns = [column[0] for column in cursor.description]
            while portion := cursor.fetchmany(PORTION):
                for values in portion:
                    row += 1
                    record = dict(zip(columns, values, strict=True))
                    try:
                        draft = read(record)
                    except BadRow as bad:
                        yield document.refused(bad.reason, row=row, field=f"{table}.{bad.field}")
                        continue
                    draft.row, draft.original["record"] = row, f"{table}/{record.get(key)}"
                    yield draft


def _draft(record: dict[str, Any], word: Any, **more: Any) -> Draft:
    platform = platform_of(word)
    if platform is None:
        raise BadRow("hardware_type", f"{word!r} is not a platform")
    device = text(record, "device_name") or text(record, "device")
    model = model_named(record.get("model_name") or record.get("model"), modality=record.get("modality"))
    millions = number(record, "parameters_million")
    if millions and "parameters" not in model:
        model["parameters"] = round(millions * 1e6)
    flags = flags_of({name: value for name, value in record.items() if value is not None})
    if (why := text(record, "simulation_reason")) is not None:
        flags["simulation_reason"] = f"simulated: {why}"
    return Draft(
        model=model,
        workload={"mode": "inference"},
        execution={"platform": platform},
        hardware=hardware_of(device, kind=NOWHERE.hardware(platform)["kind"]) if device else NOWHERE.hardware(platform),
        time=_time(record.get("created_at") or record.get("timestamp")),
        claims={"flags": flags} if flags else {},
        **more,
    )


def _time(value: Any) -> str | None:
    return moment(value.isoformat() if isinstance(value, datetime) else value)


def _measured(draft: Draft, record: dict[str, Any], fields: dict[str, str], memory: str) -> Draft:
    """Fill in the latency by the names of its columns, the throughput and the memory."""
    latency = {name: number(record, field) for name, field in fields.items()}
    rate = number(record, "throughput_items_per_second") or number(record, "throughput")
    used = number(record, memory, unit="mib")
    if not any(latency.values()) and rate is None:
        raise BadRow(next(iter(fields.values())), "is missing")
    draft.workload |= {"scenario": "single_stream"}
    draft.metrics = {
        "latency_ms": {name: value for name, value in latency.items() if value} or None,
        "throughput_per_s": rate,
        "peak_memory_bytes": round(used) if used else None,
    }
    draft.original[memory] = record.get(memory)
    return draft


def _performance(record: dict[str, Any]) -> Draft:
    draft = _draft(record, record.get("hardware_type"), key=text(record, "test_case"))
    draft.workload["batch_size"] = whole(record, "batch_size")
    draft.execution["precision"] = precision_of(text(record, "precision"))
    draft = _measured(draft, record, {"mean": "average_latency_ms"}, "memory_peak_mb")
    if draft.metrics["latency_ms"] and (n := whole(record, "iterations")):
        draft.metrics["latency_ms"]["n"] = n
    return draft


def _flat(record: dict[str, Any]) -> Draft:
    draft = _draft(record, record.get("hardware"))
    draft.workload["batch_size"] = whole(record, "batch_size")
    draft.execution["precision"] = precision_of(text(record, "precision"))
    fields = {"mean": "latency_avg", "p90": "latency_p90", "p95": "latency_p95", "p99": "latency_p99"}
    return _measured(draft, record, fields, "memory_peak")


def _web(record: dict[str, Any]) -> Draft:
    draft = _draft(record, record.get("platform") or record.get("hardware_type"))
    browser = " ".join(filter(None, (text(record, "browser"), text(record, "browser_version"))))
    if browser:
        draft.execution["options"] = {"browser": browser}
    if record.get("success") is False:
        return _failed(draft, text(record, "error_message") or "no reason is given", "unsupported")
    draft = _measured(draft, record, {"mean": "inference_time_ms"}, "memory_usage_mb")
    draft.metrics["load_ms"] = number(record, "load_time_ms")
    draft.metrics["compile_ms"] = number(record, "shader_compilation_time_ms")
    return draft


def _failed(draft: Draft, said: str, outcome: str) -> Draft:
    draft.kind = "failure" if draft.kind == "measurement" else draft.kind
    draft.outcome = outcome
    draft.error, draft.message = error_of(said)
    return draft


def _compatible(record: dict[str, Any]) -> Draft:
    draft = _draft(
        record, record.get("hardware_type"), kind="test", test="compatibility", stage="load", outcome="passed"
    )
    draft.remedy = text(record, "suggested_fix")
    if record.get("is_compatible") is True:
        return draft
    said = text(record, "error_message") or "is not compatible"
    kind = text(record, "error_type")
    return _failed(draft, f"{kind}: {said}" if kind else said, "unsupported")


def _tested(record: dict[str, Any]) -> Draft:
    draft = _draft(record, record.get("hardware_type"), kind="test", test="integration", stage="run")
    outcome = _OUTCOMES.get((text(record, "status") or "").lower())
    if outcome is None:
        raise BadRow("status", "is not pass, fail, error or skip")
    draft.outcome, draft.key = outcome, [text(record, "test_module"), text(record, "test_name")]
    draft.checks = {"test": text(record, "test_name"), "module": text(record, "test_module")}
    if outcome in ("failed", "error"):
        return _failed(draft, text(record, "error_message") or "no reason is given", outcome)
    return draft


_READ: dict[str, tuple[str, Callable[[dict[str, Any]], Draft]]] = {
    "performance_results": ("result_id", _performance),
    "web_platform_results": ("result_id", _web),
    "hardware_compatibility": ("compatibility_id", _compatible),
    "integration_test_results": ("test_result_id", _tested),
    "benchmark_performance": ("id", _flat),
}
"""The tables that are read, the column that orders each, and the function that reads a row."""
