"""Measurements in files: made here by one command, checked, and posted where a service is."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.client import Client
from tests.integration.cli.here import run_here

PLAN = """
assay: 1
weights: random
budget_s: 0.3
sweeps:
  - models: [prajjwal1/bert-tiny]
    platforms: [cpu]
    precisions: [fp32, bf16]
"""


def run(home: Path, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    done = run_here(environment | {"ASSAY_HOME": str(home)}, *map(str, words))
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def answer(home: Path, *words: str | Path, code: int = 0) -> Any:
    return json.loads(run(home, *words, "--json", code=code).stdout)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    path.write_text(PLAN)
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def measured(plan: Path, home: Path) -> Path:
    folder = plan.parent / "data"
    folder.mkdir()
    run(home, "bench", "--plan", plan, "--out", folder)
    (file,) = folder.iterdir()
    return file


def test_the_file_is_named_by_the_hardware_that_measured_and_by_the_month(measured: Path) -> None:
    events = lines(measured)
    begun = events[0]
    hardware = "+".join(each["id"] for each in begun["data"]["hardware"])
    assert measured.name == f"{hardware}-{begun['time'][:7]}.ndjson.gz"
    assert [each["type"] for each in events].count("assay.measurement.recorded.v1") == 2


def test_it_can_be_published_as_it_is(home: Path, measured: Path) -> None:
    told = answer(home, "post", "--check", measured)
    assert told["problems"] == []
    assert told["contents"]["measurements"] == 2
    assert len(told["contents"]["machines"]) == 1


def test_what_cannot_be_published_is_said_with_its_line(home: Path, measured: Path, tmp_path: Path) -> None:
    events = lines(measured)
    del events[-2]["data"]["run_id"]
    events[0]["data"]["environment"]["os"] = "/home/ada/linux"
    spoilt = tmp_path / "spoilt.ndjson"
    spoilt.write_text("".join(json.dumps(each) + "\n" for each in events))
    told = answer(home, "post", "--check", spoilt, code=1)
    assert [(each["line"], each["field"]) for each in told["problems"]] == [
        (1, "data.environment.os"),
        (len(events) - 1, "data.run_id"),
    ]


@pytest.mark.torture
def test_it_is_not_overwritten_and_is_gone_on_with(home: Path, plan: Path, measured: Path) -> None:
    before = lines(measured)
    refused = run(home, "bench", "--plan", plan, "--out", measured.parent, code=2)
    assert "--resume" in refused.stderr
    assert lines(measured) == before
    run(home, "bench", "--plan", plan, "--out", measured.parent, "--resume")
    after = lines(measured)
    assert after[: len(before)] == before
    assert "assay.measurement.recorded.v1" not in {each["type"] for each in after[len(before) :]}


def test_what_the_plan_would_not_hear_is_refused(home: Path, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept.ndjson"
    out.write_text("as it was\n")
    for words, field in (
        (["--low-memory"], "low_memory"),
        (["gpt2"], "MODEL"),
        (["--batch-sizes", "2"], "batch_sizes"),
    ):
        refused = run(home, "bench", *words, "--plan", plan, "--out", out, "--force", code=2)
        assert f"{field}: " in refused.stderr and "--plan" in refused.stderr
    assert out.read_text() == "as it was\n"


def test_posted_twice_it_is_there_once_and_what_is_cut_is_refused(
    home: Path, service: Any, measured: Path, tmp_path: Path
) -> None:
    server = service.url
    count = len(lines(measured))
    first = answer(home, "post", measured, "--server", server)
    second = answer(home, "post", measured, "--server", server)
    assert (first["accepted"], first["duplicate"]) == (count, 0)
    assert (second["accepted"], second["duplicate"]) == (0, count)
    with Client(server) as client:
        kept = client.query("select event_id from measurement")["rows"]
    recorded = {each["id"] for each in lines(measured) if each["type"] == "assay.measurement.recorded.v1"}
    assert len([event_id for (event_id,) in kept if event_id in recorded]) == len(recorded) == 2
    cut = tmp_path / "cut.ndjson"
    cut.write_bytes(gzip.decompress(measured.read_bytes())[:-40])
    assert "line" in run(home, "post", cut, "--server", server, code=2).stderr


def test_a_dry_run_lists_each_case_and_why_one_cannot_run(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "none.ndjson"
    words = ("bench", "prajjwal1/bert-tiny", "--mode", "training", "--batch-sizes", "1,4", "--platform", "cpu,openvino")
    told = answer(home, *words, "--budget", "2", "--weights", "random", "--dry-run", "--out", out, code=1)
    assert [
        (each["case"]["platform"], each["case"]["workload"]["batch_size"], each["why"] is None)
        for each in told["cases"]
    ] == [("cpu", 1, True), ("openvino", 1, False), ("cpu", 4, True), ("openvino", 4, False)]
    assert told["refused"] == 2
    assert told["steady_bound_s"] == 2 * (2 + 1)
    assert all("train" in each["why"] and each["remedy"] for each in told["cases"] if each["why"])
    assert {each["case"]["workload"]["sequence_length"] for each in told["cases"]} == {128}
    assert not out.exists()
