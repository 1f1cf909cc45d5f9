"""`assay ci`: what a job of continuous integration does with measurements: find its baseline, decide, and say so."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click

from assay.cli.options import as_json, served, thresholds_option
from assay.cli.output import answers, notes, print_json, say
from domain.comparison.comparison_sides import Side
from domain.comparison.regression import ALERT
from domain.errors import AssayError, InvalidInput, NotFound, ServiceUnavailable

if TYPE_CHECKING:
    from assay.client import Client
    from assay.regressions.ci import Job, Verdict
    from domain.comparison.comparison_sides import NewestOutcome
    from domain.comparison.regression import Report
    from domain.conditions import Noise

__all__ = ["ci"]

SERVICE = "service"
"""The value of --baseline that names the service instead of a file."""
_REPORTS = ("json", "xml", "md", "sarif")
_BADGES = ("badge.json", "badge.svg")
_NOISE = "noise.json"
"""In the folder of a job, what `assay ci gate` found; `assay ci compare` reads it."""
_NAME = click.option("--name", default="default", show_default=True, help="Of this job, where several jobs measure.")
_BRANCH = click.option("--branch", metavar="NAME", help="Compare with this branch; by default the base branch.")


@click.group(
    epilog="""\b
Examples:
  assay ci prepare --folder out
  assay ci gate --folder out
  assay bench --plan plan.yaml --out out/now.ndjson
  assay ci compare --folder out --baseline baseline.json
  assay ci comment out/regressions.md"""
)
def ci() -> None:
    """Compare a job's measurements with its branch's baseline, on GitHub Actions and GitLab CI.

    The action (action.yml) and the GitLab template run these verbs; docs/regressions.md has both.
    """


@ci.command(epilog="Example: assay ci prepare --folder out --json")
@_NAME
@_BRANCH
@click.option("--machine", metavar="KIND", help="What baselines of this machine go by; by default its hardware.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default="assay-ci", show_default=True)
@as_json
def prepare(name: str, branch: str | None, machine: str | None, folder: Path, as_json: bool) -> int:
    """Make the folder of a job and print where its files lie and under which cache key its baseline is kept.

    What an earlier job left in the folder is removed, its baseline excepted.
    On GitHub the same names are outputs of the step: folder, candidate, baseline, key, restore and renews.
    """
    from assay.regressions.ci import job_of, machine_kind, write_outputs

    job = job_of(os.environ, branch)
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in ("now.ndjson", _NOISE, *_BADGES, *(f"regressions.{suffix}" for suffix in _REPORTS)):
        (folder / leftover).unlink(missing_ok=True)
    prefix = job.key(name, machine or machine_kind())
    values = {
        "folder": folder.as_posix(),
        "candidate": (folder / "now.ndjson").as_posix(),
        "baseline": (folder / "baseline.json").as_posix(),
        "key": prefix + job.run,
        "restore": prefix,
        "renews": str(job.renews).lower(),
    }
    if output := os.environ.get("GITHUB_OUTPUT"):
        write_outputs(Path(output), values)
    if as_json:
        print_json(values)
    else:
        say("\n".join(f"{key}: {value}" for key, value in values.items()))
    return 0


@ci.command(
    epilog="""\b
Examples:
  assay ci gate --folder out --wait 120
  if assay ci gate --neutral-exit 77; then assay bench --plan plan.yaml --out assay-ci/now.ndjson; fi
  assay noise --json > noise.json; assay ci gate --folder out --score noise.json"""
)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default="assay-ci", show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=600),
    default=3.0,
    show_default=True,
    metavar="S",
    help="Of one probe.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0, max=3600),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Probe an unusable machine again for so long.",
)
@click.option(
    "--score",
    "score_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Judge what `assay noise --json` wrote, as on the host of a container, and probe nothing.",
)
@click.option(
    "--neutral-exit",
    type=click.IntRange(0, 125),
    default=0,
    show_default=True,
    metavar="CODE",
    help="Exit code where the machine cannot measure.",
)
@as_json
def gate(folder: Path, seconds: float, wait_s: float, score_file: Path | None, neutral_exit: int, as_json: bool) -> int:
    """Decide whether this machine can measure now; where it cannot, `assay ci compare` is neutral and says why.

    A noisy machine can measure: its rows say what they are worth. The score is noise.json of the folder.
    On GitHub `measures` (true or false) and `reason` are outputs of the step.
    """
    from assay.regressions.ci import annotation_of, read_noise, refusal, write_outputs

    noise = read_noise(score_file) if score_file else _probe(seconds, wait_s)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _NOISE).write_bytes(msgspec.json.encode(noise) + b"\n")
    reason = refusal(noise)
    if output := os.environ.get("GITHUB_OUTPUT"):
        write_outputs(Path(output), {"measures": str(reason is None).lower(), "reason": reason or ""})
    if reason and os.environ.get("GITHUB_ACTIONS") == "true":
        click.echo(annotation_of("warning", "this machine cannot measure", reason), err=True)
    if as_json:
        print_json({"measures": reason is None, "reason": reason, "noise": noise})
    else:
        answers().print(reason or f"this machine can measure: noise {noise.verdict}", markup=False)
        for sentence in noise.remedies if reason else noise.reasons:
            say(sentence)
    return neutral_exit if reason else 0


def _probe(seconds: float, wait_s: float) -> Noise:
    """Return the first score that is usable, or the last one before the time to wait is over."""
    from runner.measure.noise import noise as listen

    until = time.monotonic() + wait_s
    with notes().status("listening"):
        while True:
            score = listen(seconds)
            if score.verdict != "unusable" or time.monotonic() + seconds > until:
                return score


@ci.command(
    epilog="""\b
Examples:
  assay ci compare --baseline baseline.json --candidate now.ndjson --branch main
  assay ci compare --baseline service --server https://assay.example.org --errors any"""
)
@_NAME
@_BRANCH
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default="assay-ci", show_default=True)
@click.option(
    "--candidate",
    type=click.Path(dir_okay=False, path_type=Path),
    help="What `assay bench --out` wrote; by default now.ndjson of the folder.",
)
@click.option(
    "--baseline",
    metavar="FILE|service",
    help="A file that the jobs of the branch renew, by default baseline.json of the folder; or the service.",
)
@click.option(
    "--alert",
    type=click.FloatRange(min=0, max=10),
    default=ALERT,
    show_default=True,
    help="A share: 0.1 lets a figure get 10 % worse.",
)
@thresholds_option
@click.option("--strict", is_flag=True, help="Let suspect figures and those without an interval alarm too.")
@click.option(
    "--plan",
    metavar="FILE",
    help="The plan that was measured: results of SARIF point at it. By default they point at the candidate.",
)
@click.option(
    "--errors",
    type=click.Choice(["new", "any", "none"]),
    default="new",
    show_default=True,
    help="Configurations that could not be measured fail the job: those that could before, any, or none.",
)
@click.option(
    "--renew/--no-renew", default=None, help="Renew the baseline; by default where the job runs on the branch itself."
)
@click.option(
    "--neutral-exit",
    type=click.IntRange(0, 125),
    default=0,
    show_default=True,
    metavar="CODE",
    help="Exit code where it cannot be told, or there is no baseline.",
)
@served
@as_json
def compare(
    name: str,
    branch: str | None,
    folder: Path,
    candidate: Path | None,
    baseline: str | None,
    alert: float,
    thresholds: Path | None,
    strict: bool,
    plan: str | None,
    errors: Any,
    renew: bool | None,
    neutral_exit: int,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Compare what was measured with the baseline of the branch, write the reports, and renew the baseline.

    Exit code 1 where something got worse, by the rules of `assay regressions`. Suspect rows, a machine that measured
    nothing, a baseline that cannot be read and one that does not exist yet are neutral. The folder gets
    regressions.json, .xml (JUnit), .sarif and .md, and a badge as badge.json (shields.io) and badge.svg; on GitHub the
    job's summary and the step's outputs are written as well.
    """
    from assay.cli.connection import connected
    from assay.regressions import read_thresholds
    from assay.regressions.ci import decide, failures_in, job_of, summary_of
    from domain.comparison.regression import compare as compared
    from domain.comparison.thresholds import NO_THRESHOLDS

    rules = read_thresholds(thresholds) if thresholds else NO_THRESHOLDS
    job = job_of(os.environ, branch)
    folder.mkdir(parents=True, exist_ok=True)
    measured = candidate or folder / "now.ndjson"
    kept = baseline or str(folder / "baseline.json")
    with ExitStack() as stack:
        connect = functools.cache(lambda: stack.enter_context(connected(server, token)))
        after, before, why = _sides(folder, measured, kept, job, name, connect)
        report = compared(before or Side(name=job.branch), after, alert=alert, strict=strict, thresholds=rules)
        failures = failures_in(after, rules)
        report, outcome, regressions = decide(report, failures, errors, has_baseline=before is not None or bool(why))
        job = msgspec.structs.replace(job, renews=job.renews if renew is None else renew)
        summary = why or ""
        if before is not None or after.measured or after.cases:
            summary = f"{summary} {summary_of(report, outcome, failures, errors, job)}".lstrip()
        listed = failures if errors == "any" else ()
        verdict = _written(folder, report, outcome, regressions, summary, failures, listed, plan or measured.as_posix())
        if job.renews and after.measured:
            _renew(kept, job, name, measured, before, after, connect)
    _tell(verdict, as_json=as_json)
    if verdict.verdict == "worse":
        return 1
    return neutral_exit if verdict.neutral else 0


def _sides(
    folder: Path, measured: Path, kept: str, job: Job, name: str, connect: Callable[[], Client]
) -> tuple[Side, Side | None, str | None]:
    """Return candidate and baseline, and why they cannot be compared: the machine could not measure, or did not."""
    from assay.regressions.ci import read_noise, refusal

    score = folder / _NOISE
    if why := refusal(read_noise(score) if score.is_file() else None):
        return Side(name=measured.name), None, why
    after = _candidate(measured)
    before, why = _before(kept, job, name, connect)
    if not (after.measured or after.cases):
        why = why or "Nothing was measured: see the output of the step that measures."
    return after, before, why


def _candidate(path: Path) -> Side:
    """Return what was measured: nothing where the machine could not measure."""
    from assay.regressions import read_side

    if not path.is_file() or not path.stat().st_size:
        return Side(name=path.name)
    return read_side(str(path), _no_service, {}, field="candidate")


def _no_service() -> Client:
    raise NotFound("the candidate is a file.", field="candidate")


def _before(kept: str, job: Job, name: str, connect: Callable[[], Client]) -> tuple[Side | None, str | None]:
    """Return the baseline, or None and why it cannot be read; None and no reason where there is none yet."""
    from assay.regressions import read_side
    from assay.regressions.ci import newest_snapshot

    if kept != SERVICE:
        if not Path(kept).is_file():
            return None, None
        try:
            return read_side(kept, _no_service, {}, field="baseline"), None
        except InvalidInput as error:
            return None, f"The baseline cannot be read: {error}"
    try:
        client = connect()
        snapshot = newest_snapshot(client, job.snapshot(name))
        if snapshot is None:
            return None, None
        side = read_side(str(snapshot[1]), lambda: client, {}, field="baseline")
    except InvalidInput:
        raise
    except AssayError as error:
        return None, f"The baseline cannot be read: {error}"
    return Side(
        name=snapshot[0],
        position=side.position,
        measured=side.measured,
        cases=side.cases,
        environments=side.environments,
    ), None


def _written(
    folder: Path,
    report: Report,
    outcome: Any,
    regressions: int,
    summary: str,
    failures: Sequence[NewestOutcome],
    failing: Sequence[NewestOutcome],
    artifact: str,
) -> Verdict:
    """Write the reports into the folder and return the verdict; `failing` are failures of JUnit and SARIF on their own."""
    from assay.regressions import junit, markdown, sarif, written
    from assay.regressions.badge import badge_json, badge_of, badge_svg
    from assay.regressions.ci import Verdict, title_of
    from assay.staging import Staged

    badge = badge_of(outcome, regressions)

    files = {suffix: folder / f"regressions.{suffix}" for suffix in _REPORTS}
    with Staged(force=True) as staged:
        staged.file(files["json"]).write_bytes(written(report, "json"))
        staged.file(files["xml"]).write_bytes(junit(report, failing))
        text = markdown(report, title=title_of(outcome), summary=summary, failures=failures)
        staged.file(files["md"]).write_bytes(text)
        staged.file(files["sarif"]).write_bytes(sarif(report, failing, artifact=artifact))
        for badge_file, content in zip(_BADGES, (badge_json(badge), badge_svg(badge, outcome)), strict=True):
            staged.file(folder / badge_file).write_bytes(content)
    return Verdict(
        verdict=outcome,
        regressions=regressions,
        headline=summary,
        report=files["md"].as_posix(),
        junit=files["xml"].as_posix(),
        sarif=files["sarif"].as_posix(),
        badge=(folder / _BADGES[0]).as_posix(),
    )


def _renew(
    kept: str,
    job: Job,
    name: str,
    measured: Path,
    before: Side | None,
    after: Side,
    connect: Callable[[], Client],
) -> None:
    """Keep what is known now as the branch's baseline: in the file, or as events and a snapshot of the service."""
    from assay.regressions import write_side
    from assay.regressions.ci import renewed

    if kept != SERVICE:
        write_side(Path(kept), renewed(before, after))
        say(f"{len(after.measured)} measurements are in the baseline {kept}")
        return
    from runner.spool.post import post_files

    client = connect()
    sent = post_files([measured], lambda lines: client.post_events(lines, batch=len(lines)))
    if sent.refused or sent.last_position is None:
        first = sent.refused[0].detail if sent.refused else "it took no event."
        raise ServiceUnavailable(
            f"the service refused {sent.refused_lines} lines: {first}",
            field="candidate",
            remedy="`assay post` names each of them; the baseline stays what it was.",
        )
    client.wait_for(sent.last_position)
    made = client.create_snapshot(job.snapshot(name) + job.run, sent.last_position, note=f"baseline of {job.branch}")
    say(f"{sent.accepted} events posted; the baseline is the snapshot {made['name']}")


def _tell(verdict: Verdict, *, as_json: bool) -> None:
    """Print the verdict, and write it where GitHub reads it."""
    from assay.regressions.ci import annotation, title_of, write_outputs

    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(Path(verdict.report).read_text(encoding="utf-8") + "\n")
    if path := os.environ.get("GITHUB_OUTPUT"):
        values = {
            "verdict": verdict.verdict,
            "regressions": str(verdict.regressions),
            "report": verdict.report,
            "junit": verdict.junit,
            "sarif": verdict.sarif,
            "badge": verdict.badge,
        }
        write_outputs(Path(path), values)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        click.echo(annotation(verdict), err=True)
    if as_json:
        print_json(verdict)
        return
    answers().print(f"{title_of(verdict.verdict)}: {verdict.headline}", markup=False)


@ci.command(epilog="Example: assay ci comment assay-ci/regressions.md --name cuda")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_NAME
@as_json
def comment(file: Path, name: str, as_json: bool) -> int:
    """Write a report as a comment of the pull request or merge request, or edit the one that is there.

    GitHub: GITHUB_TOKEN with pull-requests: write. GitLab: ASSAY_GITLAB_TOKEN, a project access token with the scope api.
    A job that may not comment, as those of forks, says so and ends with 0.
    """
    from assay.regressions.comment import CannotComment, forge_of, write_comment

    try:
        state: str = write_comment(forge_of(os.environ), name, file.read_text(encoding="utf-8"))
    except (CannotComment, NotFound, ServiceUnavailable) as error:
        state = "not-written"
        _not_written(error, os.environ)
    if as_json:
        print_json({"comment": state})
    else:
        click.echo(f"comment {state}")
    return 0


def _not_written(error: AssayError, environment: Mapping[str, str]) -> None:
    said = f"the comment was not written: {error}"
    if environment.get("GITHUB_ACTIONS") == "true" and not isinstance(error, NotFound):
        click.echo(f"::notice title=Assay::{said}", err=True)
    else:
        click.echo(said, err=True)
