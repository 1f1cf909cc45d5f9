"""`assay scaffold test` from a service: rows are chosen there, and their events are read by id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.cli import run

MODEL = "acme/scaffolded"
VALUES = {"logits": {"shape": [1, 2], "norm": 1.0, "largest": 0.75, "sample": [0.75, -0.5]}}


def test_files_come_from_the_log_and_known_failures_from_the_matrix(
    service: Any,
    client: Any,
    build: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    checks = {"kind": "inference", "values": VALUES}
    events = [
        build.test(model=MODEL, checks=checks),
        build.measurement(2.0, model=MODEL),
        build.test("failed", model=MODEL, platform="openvino", observed={"platform": "openvino", "device": "CPU"}),
        # Of another machine and without anything to repeat: it is skipped, and the other models are not.
        build.test("failed", model="acme/nowhere-to-be-found"),
    ]
    position = client.post_events(events)["last_position"]
    client.measurements(min_position=position)
    for flags, state in ((["--all"], "skipped"), (["--from-matrix", "--out", "matrix"], "written")):
        status = run(["scaffold", "test", *flags, "--server", service.url, "--json"])
        output = capsys.readouterr()
        assert status in (0, 1), output.err
        entries = {entry["model"]: entry for entry in json.loads(output.out)}
        assert entries["acme/nowhere-to-be-found"]["state"] == state
        assert (entries[MODEL]["state"], entries[MODEL]["cases"]) == ("written", 1)
    text = Path("tests/models/test_scaffolded.py").read_text()
    assert events[0]["id"] in text and events[1]["id"] in text and events[2]["id"] not in text
    assert "testing.Output(1.0, [0.75, -0.5])" in text
    matrix = Path("matrix/test_scaffolded.py").read_text()
    assert events[2]["id"] in matrix and "strict=True" in matrix and "Mismatch" in matrix
