"""A comparison as a job of continuous integration sees it: which baseline, which verdict, and where the forge reads it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from assay.regressions.writing import headline
from domain.comparison.comparison_sides import NewestOutcome, Side, merged
from domain.comparison.regression import Report
from domain.comparison.thresholds import MEASURING, NO_THRESHOLDS, Thresholds
from domain.conditions import Noise
from domain.errors import UsageError
from domain.figures import Figure

if TYPE_CHECKING:
    from assay.client import Client

__all__ = [
    "Errors",
    "Job",
    "Outcome",
    "Verdict",
    "annotation",
    "decide",
    "failures_in",
    "job_of",
    "machine_kind",
    "renewed",
]

Errors = Literal["new", "any", "none"]
"""Which configurations that could not be measured fail the job: those that could before, all of them, or none."""
Outcome = Literal["passed", "worse", "cannot-tell", "no-baseline"]
_NOT_IN_A_KEY = re.compile(r"[^A-Za-z0-9._-]+")
_BRANCH_LETTERS = 48
_TITLES: Mapping[Outcome, str] = {
    "passed": "nothing got worse",
    "worse": "something got worse",
    "cannot-tell": "cannot tell whether anything got worse",
    "no-baseline": "no baseline yet",
}
_COMMANDS: Mapping[Outcome, str] = {
    "passed": "notice",
    "worse": "error",
    "cannot-tell": "warning",
    "no-baseline": "notice",
}


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job: the branch that it compares with, whether it renews the baseline of that branch, and a name of its own."""

    forge: Literal["github", "gitlab", "other"]
    branch: str
    renews: bool
    run: str

    def key(self, name: str, machine: str) -> str:
        """Return the beginning of the cache keys of this branch on this kind of machine."""
        return f"assay/{_word(name)}/{_word(self.branch)}/{_word(machine)}/"

    def snapshot(self, name: str) -> str:
        """Return the beginning of the names of this branch's snapshots in a service."""
        return f"ci+{_word(name)[:20]}+{_word(self.branch)[:_BRANCH_LETTERS]}+"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a job concludes. Only `worse` fails it; `cannot-tell` and `no-baseline` are neutral."""

    verdict: Outcome
    regressions: int
    headline: str
    report: str
    junit: str
    sarif: str
    badge: str

    @property
    def neutral(self) -> bool:
        """Whether the job neither passed nor failed."""
        return self.verdict in ("cannot-tell", "no-baseline")


def _word(text: str) -> str:
    return _NOT_IN_A_KEY.sub("_", text)


def job_of(environment: Mapping[str, str], branch: str | None = None) -> Job:
    """Read the job from the variables of GitHub Actions or GitLab CI; `branch` compares with another than the base branch.

    A pull request or merge request compares with its base branch; any other job compares with its own branch and renews
    that baseline. Elsewhere `branch` must be given, and the baseline is renewed.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        base, own = environment.get("GITHUB_BASE_REF", ""), environment.get("GITHUB_REF_NAME", "")
        run = f"{environment.get('GITHUB_RUN_ID', '0')}-{environment.get('GITHUB_RUN_ATTEMPT', '1')}"
        return _job("github", base, own, branch, run)
    if environment.get("GITLAB_CI") == "true":
        base = environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "")
        return _job("gitlab", base, environment.get("CI_COMMIT_BRANCH", ""), branch, environment.get("CI_JOB_ID", "0"))
    if branch is None:
        raise UsageError(
            "no branch is known outside GitHub Actions and GitLab CI.", field="branch", remedy="Give --branch NAME."
        )
    return Job(forge="other", branch=branch, renews=True, run=str(int(time.time())))


def _job(forge: Literal["github", "gitlab"], base: str, own: str, branch: str | None, run: str) -> Job:
    chosen = branch or base or own
    if not chosen:
        raise UsageError("the job names no branch.", field="branch", remedy="Give --branch NAME.")
    return Job(forge=forge, branch=chosen, renews=not base and own == chosen, run=run)


def machine_kind() -> str:
    """Return the slug of this machine: its processor and the NVIDIA devices that the driver sees."""
    from domain.catalogues.hardware import find
    from domain.catalogues.slugs import slug
    from runner.machine.detect import own_hardware
    from runner.machine.probes import nvidia_smi

    names = [device.name for device in nvidia_smi()]
    devices = [spec.id if (spec := find(name)) else slug(name) for name in names]
    counted = [f"{device}-x{devices.count(device)}" for device in dict.fromkeys(devices)]
    return "+".join([own_hardware().id, *counted])


def failures_in(side: Side, thresholds: Thresholds = NO_THRESHOLDS) -> list[NewestOutcome]:
    """Return the configurations of a side that could not be measured, without those that a threshold ignores."""
    failures = [case for case in side.cases if case.test is None and case.outcome not in ("passed", "skipped")]
    rules = [(case, thresholds.rule_for(case, MEASURING)) for case in failures]
    return [case for case, rule in rules if rule is None or not rule.ignore]


def read_noise(path: Path) -> Noise:
    """Return the score in a file of `assay noise --json`; UsageError where it is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Noise)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", field="score", remedy="Name a file.") from error
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"{path} is no score: {error}.", field="score", remedy="Write it with `assay noise --json`."
        ) from error


def refusal(noise: Noise | None) -> str | None:
    """Return why a machine cannot measure now, or None where it can: a noisy one can, its rows say what they are worth."""
    if noise is None or noise.verdict != "unusable":
        return None
    return f"This machine could not measure: {'; '.join(noise.reasons)}. Nothing was measured."


def decide(
    report: Report, failures: Sequence[NewestOutcome], errors: Errors, *, has_baseline: bool
) -> tuple[Report, Outcome, int]:
    """Return the report as `errors` reads it, the verdict, and how many figures, tests and configurations got worse."""
    if errors == "none":
        turns = [
            msgspec.structs.replace(turn, state="other") if turn.test is None and turn.state == "worse" else turn
            for turn in report.turns
        ]
        report = msgspec.structs.replace(report, turns=turns)
    states: list[str] = [turn.state for turn in report.turns] + [change.state for change in report.changes]
    regressions = states.count("worse")
    if errors == "any":
        counted = {turn.configuration for turn in report.turns if turn.state == "worse" and turn.test is None}
        regressions += sum(case.key not in counted for case in failures)
    if regressions:
        return report, "worse", regressions
    if not has_baseline:
        return report, "no-baseline", 0
    return report, "cannot-tell" if report.undecided or not report.compared else "passed", 0


def title_of(verdict: Outcome) -> str:
    """Return the verdict as the heading of a comment."""
    return _TITLES[verdict]


def summary_of(report: Report, verdict: Outcome, failures: Sequence[NewestOutcome], errors: Errors, job: Job) -> str:
    """Return the verdict in a sentence or two."""
    sentence = headline(report)
    if verdict == "no-baseline":
        maker = "this job makes it" if job.renews else "a job of the branch itself makes it"
        sentence = f"Branch {job.branch} has no baseline for this kind of machine yet; {maker}."
    if failures:
        counts = {"any": "fails the job", "none": "does not fail the job", "new": "fails the job where it could before"}
        sentence += f" {len(failures)} could not be measured, which {counts[errors]}."
    return sentence


def renewed(before: Side | None, after: Side) -> Side:
    """Return the next baseline: what is known after the job, without suspect rows where there is a trusted one."""
    if before is None:
        return after
    trusted = {row.key for row in before.measured if not _doubted(row.figures.values())}
    rows = [row for row in after.measured if row.key not in trusted or not _doubted(row.figures.values())]
    return merged(before, msgspec.structs.replace(after, measured=rows))


def _doubted(figures: Iterable[Figure]) -> bool:
    return any(figure.doubts for figure in figures)


def newest_snapshot(client: Client, prefix: str) -> tuple[str, int] | None:
    """Return the name and position of the branch's newest snapshot in a service, or None where there is none."""
    own = re.compile(re.escape(prefix) + r"[0-9]+(-[0-9]+)?")
    rows = [(str(row["name"]), int(row["position"])) for row in client.snapshots() if own.fullmatch(str(row["name"]))]
    return max(rows, key=lambda row: row[1], default=None)


def annotation(verdict: Verdict) -> str:
    """Return the line that GitHub shows beside the job."""
    return annotation_of(_COMMANDS[verdict.verdict], title_of(verdict.verdict), verdict.headline)


def annotation_of(command: str, title: str, text: str) -> str:
    """Return a workflow command of GitHub: notice, warning or error with a title."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{command} title=Assay, {title}::{text}"


def write_outputs(path: Path, values: Mapping[str, str]) -> None:
    """Append outputs to the file that GITHUB_OUTPUT names; a value is one line."""
    lines = "".join(f"{name}={' '.join(value.splitlines())}\n" for name, value in values.items())
    with path.open("a", encoding="utf-8") as file:
        file.write(lines)
