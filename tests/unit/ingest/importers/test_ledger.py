"""A ledger knows of every file what was taken of it, what was refused, and what it is where it has no results."""

from __future__ import annotations

import json

from ingest.importers import import_paths
from ingest.importers.ledger import Ledger, sha256_of

RESULT = {
    "model_name": "acme/tiny", "platform": "webgpu", "status": "success", "browser_opened": False, "is_simulation": True,
    "metrics": {"inference_time_ms": 81.25, "load_time_ms": 480.5},
}  # fmt: skip
DIRECT = {
    "model": "acme/tiny", "hardware": "cpu",
    "batch_results": {"1": {"success": True, "batch_size": 1, "avg_latency_ms": 10.3456789}, "2": {"success": True, "avg_latency_ms": "slow"}},
}  # fmt: skip


def tree(tmp_path):
    folder = tmp_path / "old"
    for name, content in {
        "a/result.json": RESULT,
        "b/direct.json": DIRECT,
        "c/config.json": {"batch_sizes": [1], "benchmark_iterations": 20, "model_families": {}},
        "d/notes.txt": "nothing",
    }.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(json.dumps(content) if isinstance(content, dict) else content)
    (folder / "e.json").symlink_to(folder / "a" / "result.json")
    return folder


def test_every_file_has_an_entry_that_says_what_became_of_it(tmp_path):
    folder = tree(tmp_path)
    ledger = Ledger(folder)
    events = list(ledger.follow(import_paths("auto", [folder], watcher=ledger)))
    entries = {entry.name: entry for entry in ledger.entries}
    assert list(entries) == [
        "old/a/result.json",
        "old/b/direct.json",
        "old/c/config.json",
        "old/d/notes.txt",
        "old/e.json",
    ]
    web, direct, config, notes, link = entries.values()
    assert (web.format, web.facts, web.simulated, web.migrated, web.why_not) == ("seed-web", 1, 1, True, None)
    assert web.sha256 == sha256_of(folder / "a" / "result.json") and web.path == folder / "a" / "result.json"
    assert (direct.facts, len(direct.refused), direct.migrated) == (1, 1, False)
    assert direct.why_not == "is not a number"
    assert (config.format, config.migrated) == ("seed-other", False) and "configuration" in str(config.why_not)
    assert (notes.format, notes.why_not) == (None, "nobody recognises it")
    assert link.path is None, "what a link leads to is not ours to put away"
    assert sum(entry.taken.total() for entry in entries.values()) == len(events)


def test_an_event_that_the_service_refused_is_its_files(tmp_path):
    folder = tree(tmp_path)
    ledger = Ledger(folder)
    events = list(ledger.follow(import_paths("auto", [folder], watcher=ledger)))
    at = next(index for index, event in enumerate(events) if event["source"].endswith("seed-direct"))
    ledger.reject(at)
    assert [entry.rejected for entry in ledger.entries] == [0, 1, 0, 0, 0]
    ledger.reject(0)
    assert not ledger.entries[0].migrated
    assert ledger.entries[0].why_not == "1 events were refused by the service"


def test_what_cannot_be_unpacked_has_an_entry_of_its_own(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "broken.zip").write_bytes(b"PK not really")
    ledger = Ledger(tmp_path / "old")
    assert list(ledger.follow(import_paths("auto", [tmp_path / "old"], watcher=ledger))) == []
    (entry,) = ledger.entries
    assert entry.path is None and not entry.migrated and entry.refused
