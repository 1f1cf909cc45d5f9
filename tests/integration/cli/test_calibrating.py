"""`assay calibrate` for real on this machine's processor: events, answers that change, interruptions, files, the bench."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.cli import run
from runner.spool.event_file import read_lines

SHORT = ("tiny", "scores", "softmax-small", "layer-norm-small", "projection", "body")
"""Kernels of less than a millisecond on any processor: another program beside the tests does not decide their times."""
FEWEST = 5
"""With fewer kernels a device has no profile."""
COMMON = ("--platform", "cpu", "--precision", "fp32", "--threads", "1", "--budget", "3")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def events_in(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in read_lines(path, whole_only=True)] if path.exists() else []


def kernels_in(path: Path) -> list[str]:
    """Return the names of the kernels that a file of events holds, in order."""
    events = [event["data"] for event in events_in(path) if event["type"] == "assay.kernel.measured.v1"]
    return [name for data in events for name in data["columns"]["kernel"]]


def calibrated(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    ended = run(["calibrate", *COMMON, *words, "--json"])
    said = capsys.readouterr()
    assert ended == code, said.err
    answer: dict[str, Any] = json.loads(said.out)
    return answer


def test_kernels_reach_the_service_and_change_its_answers(fresh_service, home, capsys):
    service = fresh_service().start()
    answer = calibrated(capsys, "--kernels", ",".join(SHORT), "--server", service.url)
    (device,) = answer["devices"]
    assert (device["platform"], device["runtime"], device["precision"]) == ("cpu", "torch", "fp32")
    assert sorted({kernel["name"] for kernel in device["kernels"]}) == sorted(SHORT)
    assert answer["measured"] == len(SHORT) and not answer["refused"]
    assert device["reached"]["flops_per_s"] > 1e8 and 0 < device["reached"]["floor_us"] < 1e4

    with service.client() as client:
        rows = client.kernels(run_id=answer["run_id"])
        assert {row["kernel"] for row in rows} == set(SHORT)
        assert {(row["hardware"], row["origin"], row["launch"]) for row in rows} == {
            (device["hardware"], "measured", "eager")
        }
        assert client.run(answer["run_id"])["run"]["kind"] == "calibrate"
        (change,) = answer["answers"]
        usable = [row for row in rows if row["verdict"] != "invalid"]
        now = client.predict("bert-base-uncased", hardware=device["hardware"], platform="cpu", precision="fp32")
    assert change["before"]["basis"] == "predicted"
    if len(usable) >= FEWEST:
        assert change["after"]["basis"] == now["basis"] == "calibrated"
        assert change["after"]["latency_ms"] == now["latency_ms"] != change["before"]["latency_ms"]
        assert set(now["evidence"]) == {row["event_id"] for row in usable}
        assert f"{len(usable)} measured kernels" in now["why"]
    else:
        assert now["basis"] == "predicted"
    assert not (home / "calibration.ndjson").exists()


@pytest.mark.torture
def test_a_killed_calibration_goes_on_where_it_was(service, home, capsys):
    journal = home / "calibration.ndjson"
    words = ["--kernels", "tiny,half,bmm,norm,softmax", "--server", service.url]
    command = [sys.executable, "-m", "assay.cli", "calibrate", *COMMON, *words]
    environment = {**os.environ, "ASSAY_HOME": str(home)}
    with service.client() as client:
        position = client.ready()["log_position"]
    started = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not kernels_in(journal):
            assert started.poll() is None, "it ended before it could be killed"
            time.sleep(0.05)
    finally:
        started.kill()
        started.wait()
    before = kernels_in(journal)
    assert 0 < len(before) < 8

    answer = calibrated(capsys, *words)
    assert answer["skipped"] == len(before) and answer["measured"] == 8 - len(before)
    assert len(answer["devices"][0]["kernels"]) == 8
    assert not journal.exists()
    with service.client() as client:
        rows = [row for row in client.kernels(min_position=position + 1, limit=1000) if row["position"] > position]
    # Each kernel once: what the killed process had sent is not sent again.
    assert sorted(row["kernel"] for row in rows) == sorted(kernel["name"] for kernel in answer["devices"][0]["kernels"])
    assert {row["kernel"] for row in rows if row["run_id"] != answer["run_id"]} == set(before)


def test_an_interrupted_file_is_gone_on_with_and_its_table_fits_100_columns(home, tmp_path, capsys):
    out = tmp_path / "here.ndjson"
    first = calibrated(capsys, "--kernels", "norm", "--out", str(out))
    assert first["measured"] == 2
    assert run(["calibrate", *COMMON, "--out", str(out)]) == 2
    assert "--resume" in capsys.readouterr().err

    # What a process leaves that is killed while it writes.
    with out.open("ab") as file:
        file.write(b'{"specversion": "1.0", "type": "assay.kernel.meas')
    resumed = ["--kernels", "norm,tiny,scores", "--out", str(out), "--resume"]
    assert run(["calibrate", *COMMON, *resumed]) == 0
    # Each kernel once: what the file held was not measured again.
    assert sorted(kernels_in(out)) == ["layer-norm-large", "layer-norm-small", "scores", "tiny"]
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    table = "\n".join(lines)
    assert all(name in table for name in ("tiny", "layer-norm-large", "1 × 64 × 64", "FLOP/byte", "Reached in fp32"))
    again = calibrated(capsys, *resumed)
    assert (again["measured"], again["skipped"]) == (0, 4)
    assert len(again["devices"][0]["kernels"]) == 4


def test_what_cannot_be_measured_here_is_named(home, tmp_path, capsys):
    words = ["--platform", "cpu,qnn", "--precision", "fp32,fp8", "--kernels", "tiny", "--budget", "1"]
    assert run(["calibrate", *words, "--out", str(tmp_path / "here.ndjson"), "--json"]) == 0
    said = capsys.readouterr()
    refused = {(each["platform"], each["precision"]) for each in json.loads(said.out)["refused"]}
    assert refused == {("qnn", None), ("cpu", "fp8")}


@pytest.mark.parametrize(
    ("words", "field"),
    [(("--precision", "int4"), "precision"), (("--kernels", "gem"), "kernels"), (("--platform", "cuba"), "platform"),
     (("--resume",), "resume")],
)  # fmt: skip
def test_wrong_usage_names_the_field(home, capsys, words, field):
    assert run(["calibrate", *words]) == 2
    assert f"{field}:" in capsys.readouterr().err


@pytest.mark.torture
def test_a_benchmark_calibrates_its_platforms_first(home, tmp_path, capsys):
    out = tmp_path / "here.ndjson"
    words = ["bench", "prajjwal1/bert-tiny", "--platform", "cpu", "--budget", "0.2", "--calibrate", "--json"]
    assert run([*words, "--out", str(out)]) == 0
    events = json.loads(capsys.readouterr().out)
    types = [
        event["type"].split(".")[1] for event in events if event["type"].split(".")[1] in ("kernel", "measurement")
    ]
    assert types[-1] == "measurement" and types.count("kernel") == 13
    assert [event["id"] for event in events] == [event["id"] for event in events_in(out)]
    measured = [event["data"] for event in events if event["type"] == "assay.measurement.recorded.v1"]
    kernels = [event["data"] for event in events if event["type"] == "assay.kernel.measured.v1"]
    assert {data["hardware"]["id"] for data in kernels} == {data["hardware"]["id"] for data in measured}
    assert {data["execution"]["precision"] for data in kernels} == {"fp32"}
