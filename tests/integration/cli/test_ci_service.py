"""`assay ci` with a service as the keeper of baselines: pushes post and name a snapshot, requests only compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.cli import run


@pytest.mark.usefixtures("service")
def test_pushes_post_and_name_a_snapshot_and_requests_compare_with_it(
    service: Any, client: Any, build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def job(event: str, number: int, p50: float, code: int = 0) -> str:
        measured = tmp_path / f"{number}.ndjson"
        measured.write_text(json.dumps(build.measurement(p50, model="acme/ci", run_id=f"ci-{number}")) + "\n")
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_RUN_ID", str(number))
        monkeypatch.setenv("GITHUB_REF_NAME", "main" if event == "push" else "7/merge")
        monkeypatch.setenv("GITHUB_BASE_REF", "" if event == "push" else "main")
        words = ["--server", service.url, "--baseline", "service", "--candidate", str(measured)]
        ended = run(["ci", "compare", "--folder", str(tmp_path), *words, "--json"])
        said = capsys.readouterr()
        assert ended == code, said.err
        verdict: str = json.loads(said.out)["verdict"]
        return verdict

    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    assert job("pull_request", 1, 1.0) == "no-baseline"
    assert client.measurements(model="acme/ci") == []
    assert job("push", 2, 1.0) == "no-baseline"
    assert [row["name"] for row in client.snapshots() if row["name"].startswith("ci+")] == ["ci+default+main+2-1"]
    assert job("pull_request", 3, 1.0) == "passed"
    assert job("pull_request", 4, 1.5, code=1) == "worse"
    assert job("push", 5, 1.5, code=1) == "worse"
    assert job("pull_request", 6, 1.5) == "passed"
    assert len(client.measurements(model="acme/ci")) == 2
