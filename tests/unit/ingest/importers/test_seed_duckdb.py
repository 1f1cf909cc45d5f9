"""The earlier framework's database: facts joined with the names their ids mean, older tables, and files that are none. The samples are ours."""

from __future__ import annotations

import duckdb
import pytest

from ingest.importers.files import File
from ingest.importers.legacy.database import SeedDuckDB
from ingest.importers.refusals import Refused

SCHEMA = """
CREATE TABLE models (model_id INTEGER PRIMARY KEY, model_name VARCHAR, model_family VARCHAR, modality VARCHAR, parameters_million FLOAT);
CREATE TABLE hardware_platforms (hardware_id INTEGER PRIMARY KEY, hardware_type VARCHAR, device_name VARCHAR);
CREATE TABLE performance_results (result_id INTEGER, run_id INTEGER, model_id INTEGER, hardware_id INTEGER, test_case VARCHAR,
    batch_size INTEGER DEFAULT 1, precision VARCHAR, average_latency_ms DOUBLE, throughput_items_per_second DOUBLE, memory_peak_mb DOUBLE,
    iterations INTEGER, is_simulated BOOLEAN, created_at TIMESTAMP);
CREATE TABLE web_platform_results (result_id INTEGER, model_id INTEGER, hardware_id INTEGER, platform VARCHAR, browser VARCHAR,
    browser_version VARCHAR, success BOOLEAN, load_time_ms DOUBLE, inference_time_ms DOUBLE, memory_usage_mb DOUBLE, error_message VARCHAR,
    shader_compilation_time_ms DOUBLE, created_at TIMESTAMP);
CREATE TABLE hardware_compatibility (compatibility_id INTEGER, model_id INTEGER, hardware_id INTEGER, is_compatible BOOLEAN,
    error_message VARCHAR, error_type VARCHAR, suggested_fix VARCHAR, created_at TIMESTAMP);
CREATE TABLE integration_test_results (test_result_id INTEGER, model_id INTEGER, hardware_id INTEGER, test_module VARCHAR, test_name VARCHAR,
    status VARCHAR, error_message VARCHAR, created_at TIMESTAMP);
CREATE TABLE benchmark_performance (id INTEGER, model VARCHAR, hardware VARCHAR, device VARCHAR, batch_size INTEGER, precision VARCHAR,
    throughput DOUBLE, latency_avg DOUBLE, latency_p90 DOUBLE, latency_p95 DOUBLE, latency_p99 DOUBLE, memory_peak DOUBLE, timestamp TIMESTAMP);
CREATE TABLE test_runs (run_id INTEGER);
"""
ROWS = """
INSERT INTO models VALUES (1, 'bert-base-uncased', 'bert', 'text', 110.0), (2, 'acme/own', 'own', 'vision', 5.5);
INSERT INTO hardware_platforms VALUES (1, 'cpu', 'Intel Core i9-12900K'), (2, 'cuda', 'NVIDIA RTX 4090'), (3, 'abacus', NULL);
INSERT INTO performance_results VALUES
    (1, 1, 1, 2, 'embedding', 8, 'fp16', 3.2345678, 2473.28, 1000, 100, false, '2025-03-02 12:00:00'),
    (2, 1, 2, 1, 'vision', 1, NULL, 12.345678, 81.0, 0, 100, true, '2025-03-02 12:00:00'),
    (3, 1, 1, 3, 'embedding', 1, NULL, 1.5, NULL, NULL, NULL, false, NULL),
    (4, 1, 1, 1, 'embedding', 1, NULL, 0, 0, NULL, NULL, false, NULL);
INSERT INTO web_platform_results VALUES (1, 1, NULL, 'webgpu', 'chrome', '121', true, 480.25, 81.25, 250, NULL, 50.5, '2025-03-02 12:00:00'),
    (2, 2, NULL, 'webnn', 'edge', NULL, false, NULL, NULL, NULL, 'RuntimeError: no operator', NULL, NULL);
INSERT INTO hardware_compatibility VALUES (1, 1, 2, true, NULL, NULL, NULL, '2025-03-02 12:00:00'),
    (2, 2, 2, false, 'too big', 'MemoryError', 'use fp16', NULL);
INSERT INTO integration_test_results VALUES (1, 1, 1, 'm', 't', 'pass', NULL, NULL), (2, 1, 1, 'm', 'u', 'maybe', NULL, NULL);
INSERT INTO benchmark_performance VALUES (1, 'gpt2', 'cpu', NULL, 1, 'fp32', 20.5, 48.75, 50.25, 55.5, 60.5, 510, '2025-03-02 12:00:00');
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("duckdb") / "benchmark_db.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(SCHEMA + ROWS)
    return File(path, path.name, given=True)


@pytest.fixture(scope="module")
def read(database):
    items = list(SeedDuckDB().rows(database))
    assert list(SeedDuckDB().rows(database)) == items
    events = [item for item in items if not isinstance(item, Refused)]
    facts = {event["data"]["imported"]["original"]["record"]: event for event in events if ".run." not in event["type"]}
    return facts, [item for item in items if isinstance(item, Refused)]


def test_ids_become_names(read):
    facts, _ = read
    event = facts["performance_results/1"]
    data = event["data"]
    assert event["time"] == "2025-03-02T12:00:00+00:00"
    assert data["model"]["id"] == "google-bert/bert-base-uncased" and data["hardware"]["id"] == "nvidia-rtx-4090"
    assert data["workload"]["batch_size"] == 8 and data["execution"] == {"platform": "cuda", "precision": "fp16"}
    assert data["metrics"]["latency_ms"] == {"mean": 3.2345678, "n": 100}
    assert data["metrics"]["peak_memory_bytes"] == 1000 << 20
    own = facts["performance_results/2"]["data"]
    assert own["model"] == {"id": "acme/own", "category": "vision", "parameters": 5_500_000}
    assert own["provenance"]["origin"] == "simulated" and "peak_memory_bytes" not in own["metrics"]


def test_every_table_gives_its_kind_of_fact(read):
    facts, refused = read
    web, failed = facts["web_platform_results/1"]["data"], facts["web_platform_results/2"]["data"]
    assert web["execution"] == {"platform": "webgpu", "options": {"browser": "chrome 121"}}
    assert web["metrics"]["compile_ms"] == 50.5 and failed["failure"]["error"] == "RuntimeError"
    assert facts["hardware_compatibility/1"]["data"]["outcome"] == "passed"
    not_so = facts["hardware_compatibility/2"]["data"]
    assert (not_so["outcome"], not_so["failure"]["error"], not_so["remedy"]) == (
        "unsupported",
        "MemoryError",
        "use fp16",
    )
    assert facts["integration_test_results/1"]["data"]["checks"] == {"test": "t", "module": "m"}
    flat = facts["benchmark_performance/1"]["data"]
    assert flat["metrics"]["latency_ms"] == {"mean": 48.75, "p90": 50.25, "p95": 55.5, "p99": 60.5}
    assert [(one.row, one.field) for one in refused] == [
        (3, "performance_results.hardware_type"), (4, "performance_results.average_latency_ms"), (10, "integration_test_results.status"),
    ]  # fmt: skip


def test_the_file_stays_as_it_is(database):
    before = database.path.read_bytes()
    list(SeedDuckDB().rows(database))
    assert database.path.read_bytes() == before


def test_only_databases_of_the_framework_are_recognised(database, tmp_path):
    assert SeedDuckDB().sniff(database)
    other = tmp_path / "other.duckdb"
    with duckdb.connect(str(other)) as connection:
        connection.execute("CREATE TABLE sales (id INTEGER)")
    assert not SeedDuckDB().sniff(File(other, other.name))
    text = tmp_path / "text.duckdb"
    text.write_text("not a database")
    assert not SeedDuckDB().sniff(File(text, text.name))


def test_a_damaged_database_is_refused(database, tmp_path):
    broken = tmp_path / "benchmark_db.duckdb"
    broken.write_bytes(database.path.read_bytes()[:5000])
    assert SeedDuckDB().sniff(File(broken, broken.name))
    (refused,) = [item for item in SeedDuckDB().rows(File(broken, broken.name)) if isinstance(item, Refused)]
    assert "cannot be opened" in refused.reason


def test_a_table_with_other_columns_is_refused_and_the_rest_read(tmp_path):
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE models (model_id INTEGER); CREATE TABLE hardware_platforms (hardware_id INTEGER)"
        )
        connection.execute(
            "CREATE TABLE performance_results (result_id INTEGER, model_id INTEGER, hardware_id INTEGER)"
        )
        connection.execute(
            "CREATE TABLE benchmark_performance (id INTEGER, model VARCHAR, hardware VARCHAR, latency_avg DOUBLE)"
        )
        connection.execute("INSERT INTO benchmark_performance VALUES (1, 'gpt2', 'cpu', 48.75)")
    items = list(SeedDuckDB().rows(File(path, path.name)))
    (refused,) = [item for item in items if isinstance(item, Refused)]
    assert refused.field == "performance_results" and "other columns" in refused.reason
    assert len(items) == 4
