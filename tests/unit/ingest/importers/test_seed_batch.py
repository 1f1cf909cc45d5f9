"""The earlier framework's batches: the same facts as their single files, and commands that failed. The samples are ours."""

from __future__ import annotations

from ingest.importers.legacy.batch import SeedBatch
from ingest.importers.legacy.direct import SeedDirect

ONE = {
    "model": "prajjwal1/bert-tiny", "hardware": "cpu", "success": True,
    "batch_results": {"1": {"success": True, "batch_size": 1, "avg_latency_ms": 10.392570495, "throughput_items_per_second": 96.2225,
                            "memory_mb": 512.5, "latencies_ms": [10.392570495], "device": "cpu", "timestamp": "2025-03-06T17:47:59.698387"}},
    "timestamp": "2025-03-06T17:47:59.196649",
}  # fmt: skip
BATCH = {
    "models": ["prajjwal1/bert-tiny", "t5-small"], "hardware": "cpu", "batch_sizes": "1", "timestamp": "2025-03-06T17:47:51.212422",
    "results": {
        "prajjwal1/bert-tiny": {"model": "prajjwal1/bert-tiny", "hardware": "cpu", "command": "python x.py", "success": True, "benchmark_data": ONE},
        "t5-small": {"model": "t5-small", "hardware": "cpu", "success": False, "error": "Command failed with exit code 1",
                     "stderr": "OSError: t5-small is not a local folder\n", "timestamp": "2025-03-06T17:48:00"},
    },
}  # fmt: skip
PROGRESS = {
    "timestamp": "20250306_150303",
    "completed_benchmarks": [],
    "failed_benchmarks": [
        {"model_type": "bert", "hardware_type": "cpu", "timestamp": "2025-03-06T15:03:05.019406",
         "error": "Command '['python', 'x.py', '--model', 'prajjwal1/bert-tiny', '--hardware', 'cpu']' returned non-zero exit status 1."},
        {"model_type": "bert", "hardware_type": None},
        "nonsense",
    ],
    "summary": {"total": 3},
}  # fmt: skip


def test_a_batch_holds_the_facts_of_its_single_files(reads):
    batch = reads(SeedBatch(), BATCH, "batch_benchmarks_cpu.json")
    failed, measured = batch.rows
    (alone,) = reads(SeedDirect(), ONE, "direct_benchmark.json").rows
    assert measured["id"] == alone["id"]
    assert (
        measured["data"]["imported"]["original"]["record"]
        == "results/prajjwal1/bert-tiny/benchmark_data/batch_results/1"
    )
    assert failed["data"]["failure"]["error"] == "OSError" and failed["data"]["model"]["id"] == "google-t5/t5-small"


def test_the_command_names_the_model_in_full(reads):
    found = reads(SeedBatch(), PROGRESS, "benchmark_progress.json")
    (data,) = found.data
    assert data["model"]["id"] == "prajjwal1/bert-tiny" and data["stage"] == "resolve"
    assert [refused.field for refused in found.refused] == [f"failed_benchmarks[{at}]/hardware_type" for at in (1, 2)]


def test_both_shapes_are_recognised_and_a_single_file_is_not(place):
    assert SeedBatch().sniff(place(BATCH, "a.json")) and SeedBatch().sniff(place(PROGRESS, "b.json"))
    assert not SeedBatch().sniff(place(ONE, "c.json"))
