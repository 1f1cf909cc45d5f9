"""`assay verify --record` and `--expect` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.cli import run

VERIFY = ("verify", "bert-tiny", "--platform", "cpu", "--weights", "random", "--threads", "1", "--sequence-length", "8")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))


@pytest.mark.torture
def test_what_is_recorded_is_compared_and_a_difference_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, out = tmp_path / "expected.json", tmp_path / "out.ndjson"
    assert run([*VERIFY, "--record", str(kept), "--out", str(out)]) == 0
    resumed = [*VERIFY, "--expect", str(kept), "--out", str(out), "--resume"]
    assert run(resumed) == 0
    assert "1 same, 0 different, 0 new, 0 missing" in capsys.readouterr().out
    file = json.loads(kept.read_text())
    only = file["expectations"][0]
    only["values"]["last_hidden_state"]["sample"][0] += 9.0
    only["with"]["libraries"]["torch"] = "1.0.0"
    file["expectations"].append({**only, "asked": {**only["asked"], "precision": "bf16"}})
    kept.write_text(json.dumps(file))
    assert run([*resumed, "--json"]) == 1
    said = capsys.readouterr()
    assert isinstance(json.loads(said.out), list)
    told = " ".join(said.err.split())
    assert "0 same, 1 different, 0 new, 1 missing" in told
    assert "torch: 1.0.0 then" in told and "missing: prajjwal1/bert-tiny cpu bf16" in told


@pytest.mark.parametrize(
    ("option", "text", "hint"),
    [("--record", None, "folder that exists"), ("--expect", None, "--record"), ("--expect", "[1]", "--record")],
)
def test_a_file_that_cannot_serve_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, text: str | None, hint: str
) -> None:
    path = tmp_path / "absent" / "kept.json"
    if text is not None:
        path.parent.mkdir()
        path.write_text(text)
    assert run([*VERIFY, option, str(path), "--out", str(tmp_path / "out.ndjson")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"error: {option.lstrip('-')}:" in said and hint in said
    assert not (tmp_path / "out.ndjson").exists()
