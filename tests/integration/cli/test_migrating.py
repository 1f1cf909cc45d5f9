"""A tree of results is migrated once and for all, its files are put away, and contradictions are voided as new facts."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from assay.cli import run

SAMPLES = [10.25390625, 10.501861572265625, 10.371208190917969]
MEAN = sum(SAMPLES) / 3


def direct(latency=MEAN, rate=1000 / MEAN, model="acme/tiny", moment="2025-03-06T17:45:26.506441"):
    result = {
        "success": True, "batch_size": 1, "avg_latency_ms": latency, "throughput_items_per_second": rate, "device": "cpu",
        "timestamp": moment, "latencies_ms": SAMPLES,
    }  # fmt: skip
    return {"model": model, "hardware": "cpu", "success": True, "batch_results": {"1": result}, "timestamp": moment}


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "old"
    broken = direct(moment="2025-03-07T10:00:00")
    broken["batch_results"]["2"] = {"success": True, "avg_latency_ms": "slow"}
    for name, content in {
        "a.json": direct(),
        "copy/a.json": direct(),
        "b.json": direct(rate=2500.0, moment="2025-03-06T18:00:00"),
        "broken.json": broken,
        "config.json": {"batch_sizes": [1], "benchmark_iterations": 20, "model_families": {}},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
        os.utime(folder / name, (time.time() - 40 * 86_400,) * 2)
    return folder


@pytest.fixture
def typed(service, monkeypatch, capsys, tmp_path):
    """Runs a verb in this process on the running service; returns its answer, and what it said."""
    monkeypatch.setenv("ASSAY_SERVER", service.url)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))

    def type_(*words, code=0):
        ended = run([str(word) for word in words])
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return json.loads(said.out) if "--json" in words else said.out + said.err

    return type_


def test_a_tree_is_migrated_copied_and_cleaned(tree, typed, service, tmp_path):
    dry = typed("migrate", tree, "--dry-run", "--clean-older-than", "30d", "--json", code=1)
    assert dry["would_clean"] == ["old/a.json", "old/b.json", "old/copy/a.json"]
    assert (dry["accepted"], len(list(tree.rglob("*.json")))) == (0, 5)

    told = typed("migrate", tree, "--json", code=1)
    files = {file["path"]: file for file in told["files"]}
    assert [files[name]["why_not"] for name in ("old/a.json", "old/copy/a.json")] == [None, None]
    assert not files["old/broken.json"]["migrated"] and files["old/broken.json"]["refused"][0]["row"] == 2
    assert "configuration" in files["old/config.json"]["why_not"]
    assert told["rejected"] == [] and told["copy"] is None
    assert told["duplicate"] == 2, "the same row, and the same end of a run, in two files"

    os.utime(tree / "b.json")
    copies = tmp_path / "copies"
    again = ["migrate", tree, "--archive", copies, "--clean-older-than", "30d"]
    assert "Add --yes" in typed(*again, code=2)
    assert not copies.exists() and len(list(tree.rglob("*.json"))) == 5
    cleaned = typed(*again, "--yes", "--json", code=1)
    assert cleaned["accepted"] == 0 and cleaned["duplicate"] == told["accepted"] + told["duplicate"]
    assert cleaned["copied"] == ["old/a.json", "old/b.json", "old/copy/a.json"]
    assert (cleaned["cleaned"], cleaned["left"]) == (["old/a.json", "old/copy/a.json"], [])
    assert [str(path) for path in copies.iterdir()] == [cleaned["copy"]]
    assert sorted(path.name for path in tree.rglob("*.json")) == ["b.json", "broken.json", "config.json"]
    with service.client() as client:
        (measured,) = [row for row in client.measurements(model="acme/tiny") if row["reference"] == "old/b.json"]
        done = [event["data"] for event in client.events(types=["assay.operation.performed.v1"])]
    assert (measured["origin"], measured["verdict"]) == ("imported", "suspect")
    (kept,) = [data for data in done if data["action"] == "results.migrated"]
    assert kept["details"] == {"files": 3, "removed": 2, "copy": Path(cleaned["copy"]).name}


def test_contradictions_are_listed_and_voided_as_new_facts(tree, typed, service):
    typed("migrate", tree, code=1)
    assert "no rule is called" in typed("validate", "--rule", "nonsense", code=2)
    assert "Contradictions" in typed("validate", code=1)
    assert "inconsistent-rate" in typed("validate", "--rule", "inconsistent-rate", code=1)
    voided = typed("validate", "--rule", "inconsistent-rate", "--repair", "--yes", "--json")
    (mine,) = [one for one in voided["found"] if one["reference"] == "old/b.json"]
    assert (mine["rule"], mine["verdict"], mine["marked"]) == ("inconsistent-rate", "suspect", "suspect")
    assert mine["event_id"] in voided["voided"]
    with service.client() as client:
        gone = [event["data"] for event in client.events(types=["assay.measurement.retracted.v1"])]
        assert "old/b.json" not in {row["reference"] for row in client.measurements(model="acme/tiny")}
        assert client.event(mine["event_id"])["data"]["metrics"]["throughput_per_s"] == 2500.0
    reason = "inconsistent-rate: throughput × latency = 25.94, and the batch has 1"
    assert {"event_id": mine["event_id"], "reason": reason} in gone
