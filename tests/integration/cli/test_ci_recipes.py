"""The recipes of docs/ci: they are YAML, and their commands do what they say, with a tiny model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CI = Path(__file__).resolve().parents[3] / "docs" / "ci"
SMALL = "prajjwal1/bert-tiny --platform cpu --precision fp32 --weights random --budget 0.3"


def recipe(name: str) -> Any:
    return yaml.safe_load((CI / name).read_text())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the recipes' command measures; the other recipe's is replaced by a copy of it."""
    folder = tmp_path_factory.mktemp("measured")
    steps = {
        step["name"]: step["run"]
        for step in recipe("github-actions.yml")["jobs"]["regressions"]["steps"]
        if "run" in step
    }
    shell(folder, steps["Measure"])
    return folder / "now.ndjson"


def shell(folder: Path, script: str, code: int = 0, **more: str) -> str:
    """Run lines as a runner does: bash that ends at the first error, the verbs on its path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment |= {
        "PATH": path,
        "ASSAY_BENCH": SMALL,
        "ASSAY_ALERT": "0.1",
        "ASSAY_HOME": str(folder / "home"),
        **more,
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def faster(folder: Path) -> None:
    """Make the baseline ten times as fast as it was."""
    path = folder / "baseline.json"
    kept = json.loads(path.read_text())
    for row in kept["side"]["measured"]:
        row["event_id"] = "another"
        for figure in row["figures"].values():
            for name in ("value", "low", "high"):
                if name in figure:
                    figure[name] /= 10
            figure.pop("doubts", None)
    for case in kept["side"]["cases"]:
        case["event_id"] = "another"
    path.write_text(json.dumps(kept))


def trusted(path: Path) -> None:
    """Take the doubts out of what was measured: this machine may have been busy."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        if event["type"] == "assay.measurement.recorded.v1":
            event["data"]["validity"] = {"verdict": "valid", "reasons": []}
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


@pytest.mark.torture
def test_github_measures_compares_tells_and_renews(measured: Path) -> None:
    folder = measured.parent
    job = recipe("github-actions.yml")["jobs"]["regressions"]
    steps = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    assert "${{" not in "".join(steps.values())
    trusted(measured)
    shell(folder, steps["Compare"])
    assert not (folder / "regressions.md").exists()
    faster(folder)
    shell(folder, steps["Compare"], code=1)
    assert {path.suffix for path in folder.glob("regressions.*")} == {".json", ".xml", ".md"}
    summary = folder / "summary.md"
    shell(folder, steps["Tell"], GITHUB_STEP_SUMMARY=str(summary), PULL_REQUEST="")
    assert "something got worse" in summary.read_text()
    shell(folder, steps["Renew the baseline"])
    shell(folder, f"assay regressions --baseline baseline.json --candidate {measured.name} --new-ok")


@pytest.mark.torture
def test_gitlab_compares_and_renews_on_the_default_branch_alone(measured: Path, tmp_path: Path) -> None:
    job = recipe("gitlab-ci.yml")["assay regressions"]
    bench, compare = job["script"]
    assert bench.startswith("assay bench $ASSAY_BENCH --out now.ndjson")
    assert job["artifacts"]["reports"]["junit"] == "regressions.xml"
    (tmp_path / "now.ndjson").write_bytes(measured.read_bytes())
    trusted(tmp_path / "now.ndjson")
    branch = {"CI_DEFAULT_BRANCH": "main", "CI_COMMIT_BRANCH": ""}
    shell(tmp_path, compare, **branch)
    faster(tmp_path)
    before = (tmp_path / "baseline.json").read_bytes()
    shell(tmp_path, compare, code=1, **branch)
    assert (tmp_path / "baseline.json").read_bytes() == before
    assert (tmp_path / "regressions.xml").read_bytes().startswith(b"<?xml")
    shell(tmp_path, compare, code=1, **{**branch, "CI_COMMIT_BRANCH": "main"})
    assert (tmp_path / "baseline.json").read_bytes() != before


def test_the_words_that_are_to_be_changed_are_named_alike() -> None:
    github, gitlab = recipe("github-actions.yml"), recipe("gitlab-ci.yml")["assay regressions"]
    assert {name: github["env"][name] for name in github["env"]} == {
        name: value for name, value in gitlab["variables"].items() if name != "ASSAY_HOME"
    }
