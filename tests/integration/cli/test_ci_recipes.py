"""The action and the GitLab template: their steps are run for real, with a tiny model, and decide as they say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from domain.events import uuid7
from runner.campaign.plan_file import read_plan
from tests.integration.cli.forge_jobs import (
    ROOT,
    ForgeApi,
    GitHubRunner,
    GitLabRunner,
    JobResult,
    bash,
    clean_environment,
    filled,
    forge_api,
)

PLAN = """\
assay: 1
name: tiny
weights: random
budget_s: 0.3
sweeps:
  - models: [prajjwal1/bert-tiny]
    platforms: [cpu]
    precisions: [fp32]
"""
READY = {"install": "false"}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    path.write_text(PLAN)
    return str(path)


@pytest.fixture(scope="module")
def first(plan: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[GitHubRunner, JobResult]:
    """The first job of the main branch, which measures for real, and its runner."""
    runner = GitHubRunner(tmp_path_factory.mktemp("first"))
    return runner, runner.run("push", {**READY, "plan": plan})


@pytest.fixture(scope="module")
def variant(first: tuple[GitHubRunner, JobResult], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Makes a command that puts what was measured, so many times as slow, in the place of another measurement."""
    events = (first[0].folder / "job1" / "assay-ci" / "default" / "now.ndjson").read_text().splitlines()
    folder = tmp_path_factory.mktemp("variants")

    def make(factor: float, verdict: str = "valid") -> str:
        path = folder / f"{uuid7()}.ndjson"
        with path.open("w") as file:
            for line in events:
                event = json.loads(line) | {"id": uuid7()}
                if event["type"] == "assay.measurement.recorded.v1":
                    p50 = 2.0 * factor
                    event["data"]["metrics"] = {
                        "latency_ms": {"mean": p50, "p50": p50, "n": 60, "ci95": {"p50": [p50 * 0.99, p50 * 1.01]}}
                    }
                    reasons = [] if verdict == "valid" else ["a busy core"]
                    event["data"]["validity"] = {"verdict": verdict, "reasons": reasons}
                file.write(json.dumps(event) + "\n")
        return f'cp "{path}" "${{CANDIDATE:-assay-ci/now.ndjson}}"'

    return make


@pytest.fixture
def api() -> Iterator[ForgeApi]:
    with forge_api() as served:
        yield served


def test_first_job_of_a_branch_measures_and_stores_a_baseline(first: tuple[GitHubRunner, JobResult]) -> None:
    runner, job = first
    assert job.failed is None, job.said
    assert job.outputs["verdict"] == "no-baseline"
    assert [used.partition("@")[0] for used in job.used] == [
        "actions/cache/restore", "actions/cache/save", "actions/upload-artifact",
    ]  # fmt: skip
    (cached,) = (runner.folder / "cache").iterdir()
    (row,) = json.loads(cached.read_text())["side"]["measured"]
    assert "bert-tiny" in row["title"] and row["hardware"] in cached.name and "%main%" in cached.name
    started = json.loads((runner.folder / "job1" / "assay-ci" / "default" / "now.ndjson").read_text().splitlines()[0])
    assert started["data"]["context"] == {"repository": "github.com/acme/models", "branch": "main"}


@pytest.mark.torture
def test_same_model_measured_again_does_not_fail(first: tuple[GitHubRunner, JobResult], plan: str) -> None:
    job = first[0].run("pull_request", {**READY, "plan": plan, "alert": "10"})
    assert job.failed is None, job.said
    assert job.outputs["verdict"] in ("passed", "cannot-tell")


def test_pull_request_passes_then_fails_when_slower_and_its_comment_is_edited(
    variant: Callable[..., str], plan: str, tmp_path: Path, api: ForgeApi
) -> None:
    runner = GitHubRunner(tmp_path, api.url)
    inputs = {**READY, "plan": plan}
    planted = {"id": 1, "user": {"type": "User"}, "author_association": "NONE", "body": "<!-- assay ci: default -->"}
    api.comments.append(dict(planted))

    pushed = runner.run("push", inputs, replace={"Measure": variant(1.0)})
    assert (pushed.failed, api.comments) == (None, [planted])
    equal = runner.run("pull_request", inputs, replace={"Measure": variant(1.0)})
    assert (equal.failed, equal.outputs["verdict"], equal.outputs["regressions"]) == (None, "passed", "0")
    assert "nothing got worse" in api.comments[1]["body"] and "nothing got worse" in equal.summary

    slower = runner.run("pull_request", inputs, replace={"Measure": variant(1.5)})
    assert (slower.failed, slower.outputs["verdict"], slower.outputs["regressions"]) == ("Compare", "worse", "1")
    assert api.comments[0] == planted and len(api.comments) == 2
    assert "something got worse" in api.comments[1]["body"] and "+50.0 %" in api.comments[1]["body"]
    assert "::error title=Assay" in slower.said
    junit = tmp_path / "job3" / slower.outputs["junit"]
    assert ElementTree.parse(junit).getroot().find(".//failure") is not None
    # A pull request leaves the baseline of its base branch as it is.
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_suspect_machine_is_neutral_and_a_fork_gets_the_summary_alone(
    variant: Callable[..., str], plan: str, tmp_path: Path, api: ForgeApi
) -> None:
    runner = GitHubRunner(tmp_path, api.url)
    inputs = {**READY, "plan": plan}
    runner.run("push", inputs, replace={"Measure": variant(1.0)})
    api.read_only = True
    job = runner.run("pull_request", inputs, replace={"Measure": variant(1.5, "suspect")})
    assert (job.failed, job.outputs["verdict"]) == (None, "cannot-tell")
    assert "::warning title=Assay" in job.said and "::notice title=Assay::the comment was not written" in job.said
    assert "cannot tell" in job.summary and api.comments == []


def test_busy_machine_measures_nothing_and_the_job_is_neutral_with_the_reason(
    variant: Callable[..., str], plan: str, tmp_path: Path, api: ForgeApi
) -> None:
    runner = GitHubRunner(tmp_path, api.url)
    inputs = {**READY, "plan": plan}
    runner.run("push", inputs, replace={"Measure": variant(1.0)})
    runner.noise = "unusable"
    busy = runner.run("pull_request", inputs, replace={"Measure": "exit 9"})
    assert (busy.failed, busy.outputs["verdict"], busy.outputs["regressions"]) == (None, "cannot-tell", "0"), busy.said
    assert "other work uses 90%" in busy.summary and "other work uses 90%" in api.comments[0]["body"]
    assert "::warning title=Assay" in busy.said
    pushed = runner.run("push", inputs, replace={"Measure": "exit 9"})
    assert pushed.outputs["verdict"] == "cannot-tell"
    runner.noise = "pass"
    slower = runner.run("pull_request", inputs, replace={"Measure": variant(1.5)})
    # The busy push left the baseline as it was.
    assert slower.outputs["verdict"] == "worse"
    assert len(api.comments) == 1 and "something got worse" in api.comments[0]["body"]


def test_gate_probes_this_machine_and_the_job_goes_by_what_it_finds(
    variant: Callable[..., str], plan: str, tmp_path: Path
) -> None:
    runner = GitHubRunner(tmp_path, noise=None)
    (gate,) = [step for step in runner.action["runs"]["steps"] if step["name"] == "Noise gate"]
    quick = {"Noise gate": f"{gate['run']} --seconds 1 --wait 0", "Measure": variant(1.0)}
    job = runner.run("push", {**READY, "plan": plan, "comment": "false"}, replace=quick)
    verdict = json.loads((tmp_path / "job1" / "assay-ci" / "default" / "noise.json").read_text())["verdict"]
    assert job.outputs["verdict"] == ("cannot-tell" if verdict == "unusable" else "no-baseline"), job.said


def test_job_leaves_sarif_and_a_badge_and_takes_thresholds(
    variant: Callable[..., str], plan: str, tmp_path: Path
) -> None:
    runner = GitHubRunner(tmp_path)
    inputs = {**READY, "plan": plan, "comment": "false"}
    runner.run("push", inputs, replace={"Measure": variant(1.0)})
    slower = runner.run("pull_request", inputs, replace={"Measure": variant(1.5)})
    work = tmp_path / "job2"
    (result,) = json.loads((work / slower.outputs["sarif"]).read_text())["runs"][0]["results"]
    assert (result["level"], result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) == ("error", plan)
    badge = work / slower.outputs["badge"]
    assert json.loads(badge.read_text())["message"] == "1 worse"
    assert ElementTree.parse(badge.with_suffix(".svg")).getroot().tag.endswith("svg")
    rules = tmp_path / "thresholds.yaml"
    rules.write_text("thresholds: [{metric: latency_*, alert: 0.6}]")
    runner.noise = "unusable"
    own = {**inputs, "thresholds": str(rules), "noise-gate": "false"}
    allowed = runner.run("pull_request", own, replace={"Measure": variant(1.5)})
    assert allowed.outputs["verdict"] == "passed"


def test_machine_without_the_platform_is_neutral_and_a_wrong_plan_fails(tmp_path: Path) -> None:
    runner = GitHubRunner(tmp_path / "runner")
    (tmp_path / "absent.yaml").write_text(PLAN.replace("[cpu]", "[qnn]"))
    (tmp_path / "wrong.yaml").write_text(PLAN.replace("sweeps", "sweep"))
    absent = runner.run("pull_request", {**READY, "plan": str(tmp_path / "absent.yaml"), "comment": "false"})
    assert (absent.failed, absent.outputs["regressions"]) == (None, "0"), absent.said
    assert "Nothing was measured" in absent.summary
    wrong = runner.run("pull_request", {**READY, "plan": str(tmp_path / "wrong.yaml")})
    assert wrong.failed == "Measure"


def test_gitlab_job_warns_passes_and_fails_and_edits_its_note(
    variant: Callable[..., str], tmp_path: Path, api: ForgeApi
) -> None:
    runner = GitLabRunner(tmp_path, api.url)
    assert runner.job["allow_failure"]["exit_codes"] == [77]
    assert runner.run(merge_request=False, measure=variant(1.0))[0] == 77
    assert api.comments == []
    assert runner.run(merge_request=True, measure=variant(1.02))[0] == 0
    code, work = runner.run(merge_request=True, measure=variant(1.5))
    assert code == 1
    assert "something got worse" in api.comments[0]["body"] and len(api.comments) == 1
    assert (work / runner.job["artifacts"]["reports"]["junit"]).read_bytes().startswith(b"<?xml")
    runner.noise = "unusable"
    assert runner.run(merge_request=True, measure="exit 9")[0] == 77
    assert "other work uses 90%" in api.comments[0]["body"] and len(api.comments) == 1


@pytest.mark.parametrize(
    ("extras", "version", "package"),
    [
        ("runner", "", "/actions/assay[runner]"),
        ("", "", "/actions/assay"),
        ("runner,nvidia", "0.1.0", "assay-bench[runner,nvidia]==0.1.0"),
    ],
)
def test_package_to_install_is_the_version_named_or_the_checkout_of_the_action(
    extras: str, version: str, package: str, tmp_path: Path
) -> None:
    (step,) = [step for step in GitHubRunner(tmp_path).action["runs"]["steps"] if step["name"] == "Install Assay"]
    values = {"inputs.extras": extras, "inputs.version": version, "github.action_path": "/actions/assay"}
    environment = {name: filled(value, values) for name, value in step["env"].items()}
    said = bash(step["run"].replace("python -m pip", "echo"), tmp_path, {**clean_environment(tmp_path), **environment})
    assert said.stdout.split()[-1] == package


def test_example_workflow_gives_the_action_inputs_that_it_has() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    workflow = yaml.safe_load((ROOT / "docs" / "ci" / "github-actions.yml").read_text())
    (step,) = [step for step in workflow["jobs"]["regressions"]["steps"] if "assay@" in step["uses"]]
    needed = {name for name, each in action["inputs"].items() if each.get("required")}
    assert needed <= step["with"].keys() <= action["inputs"].keys()


def test_example_plan_is_one_that_bench_takes() -> None:
    file = read_plan(ROOT / "docs" / "ci" / "assay-plan.yaml")
    assert len(file.plan().cases) == 4 and file.benchmark and not file.verify
