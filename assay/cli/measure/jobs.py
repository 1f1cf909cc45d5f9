"""`assay jobs`: plans as jobs for the machines that run `assay worker`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import rich_click as click
from rich.markup import escape
from rich.text import Text

from assay.cli.measure.job_export import export
from assay.cli.measure.submitting import SHOWN, job_requests, needs_option, tell_submitted
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say, shortened
from domain.errors import NotFound, StateConflict, UsageError
from domain.jobs.jobs import ENDED, JOB_STATES, Job, JobState, ScheduleRequest, Submission
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from domain.jobs.jobs import Schedule
    from domain.jobs.needs import Needs

__all__ = ["jobs", "moment"]

WATCH_S = 2.0
_AFTER = re.compile(r"\+(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
_PAGE = 1000


@click.group(
    epilog="""\b
Examples:
  assay jobs submit plan.yaml --wait
  assay jobs submit plan.yaml --needs cuda,memory=16GB,label=lab --priority 10
  assay jobs submit nightly.yaml --every "0 2 * * *"
  assay jobs list --state failed
  assay jobs show 01a2021c-1db8-7580-86cd-1099f3c397d2""",
)
def jobs() -> None:
    """Plans as jobs for the machines that run `assay worker`: each job goes to one that can do it."""


def moment(text: str, now: datetime) -> datetime:
    """Return the time that `2026-12-01T08:00`, `22:00` or `+1h30m` names; `22:00` is the next one.

    Times without a zone are in that of `now`. Raises UsageError (field `at`) for anything else, and for a time that is past.
    """
    text = text.strip()
    after, clock = _AFTER.fullmatch(text), _CLOCK.fullmatch(text)
    try:
        if after and any(after.groups()):
            days, hours, minutes, seconds = (int(part or 0) for part in after.groups())
            return now + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if clock:
            today = datetime.combine(now.date(), time_of_day(int(clock[1]), int(clock[2])), now.tzinfo)
            return today if today > now else today + timedelta(days=1)
        named = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is no time.", field="at", remedy="Write 2026-12-01T08:00, 22:00 or +1h30m."
        ) from error
    named = named if named.tzinfo else named.replace(tzinfo=now.tzinfo)
    if named <= now:
        raise UsageError(
            f"{formatting.when(named, now.tzinfo)} is past.",
            field="at",
            remedy="Name a time to come, or leave out --at.",
        )
    return named


@jobs.command(
    epilog="""\b
Examples:
  assay jobs submit plan.yaml
  assay jobs submit plan.yaml --needs memory=16GB,label=rack-7 --wait
  assay jobs submit plan.yaml --at 22:00 --priority -5
  assay jobs submit nightly.yaml --every "0 2 * * *" --name nightly"""
)
@click.argument("plan", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PLAN")
@needs_option
@click.option(
    "--priority",
    type=click.IntRange(-1000, 1000),
    default=0,
    show_default=True,
    metavar="N",
    help="Higher ones are started first.",
)
@click.option("--at", metavar="TIME", help="Not before: 2026-12-01T08:00, 22:00 or +2h.")
@click.option("--every", "cron", metavar="CRON", help="Submit it again and again: five fields of cron, in UTC.")
@click.option("--name", metavar="NAME", help="Name of the submission or the schedule; that of the plan by default.")
@click.option("--again", is_flag=True, help="Queue jobs that wait already once more.")
@click.option("--force", is_flag=True, help="Queue jobs too that no worker which has reported can do.")
@click.option("--wait", is_flag=True, help="Wait until all have ended; exit code 1 where one did not succeed.")
@served
@as_json
def submit(
    plan: Path,
    needs: Needs,
    priority: int,
    at: str | None,
    cron: str | None,
    name: str | None,
    again: bool,
    force: bool,
    wait: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Queue each case of a plan as a job of its own.

    A job needs the platform of its case, as much memory as `assay fit` expects it to take, and what --needs adds. What a
    machine has is what was proved on it, never what it is called.
    """
    from assay.cli.connection import connected
    from runner.campaign.plan_file import read_plan

    if cron and (at or wait):
        raise UsageError(
            "goes with neither --at nor --wait.", field="every", remedy="Leave it out, or submit the plan once as well."
        )
    earliest = moment(at, datetime.now().astimezone()) if at else None
    plan_file = read_plan(plan)
    title = name or plan_file.name or plan.stem
    with connected(server, token) as client:
        requests, remarks = job_requests(client, plan_file, needs)
        for remark in remarks:
            say(f"[dim]{escape(remark)}[/dim]")
        submission = Submission(jobs=requests, name=title, priority=priority, at=earliest, again=again, force=force)
        if cron:
            schedule = client.add_schedule(ScheduleRequest(name=title, cron=cron, submission=submission))
            print_json(schedule) if as_json else _tell_schedule(schedule)
            return 0
        submitted = client.submit_jobs(submission)
        if not as_json:
            tell_submitted(submitted, requests)
        counts = watch_jobs(client, submitted.submission, submitted.jobs) if wait else {}
    if as_json:
        print_json({**msgspec.to_builtins(submitted), **({"counts": counts} if wait else {})})
    return int(any(counts.get(state) for state in ENDED if state != "succeeded"))


def watch_jobs(client: Client, submission: str, identifiers: Iterable[str] | None = None) -> dict[str, int]:
    """Show how far jobs are until all have ended, and return how many ended how.

    `identifiers` are the jobs of the submission and those that waited already; without them the submission counts alone.
    """
    from assay.cli.measure.run_output import progress_bar
    from assay.cli.output import notes

    wanted = None if identifiers is None else set(identifiers)
    reported: set[str] = set()
    console = notes()
    with progress_bar(console) as move:
        while True:
            every = _all_jobs(client, submission, wanted)
            counts: dict[str, int] = {}
            for job in every:
                counts[job.state] = counts.get(job.state, 0) + 1
            ended = [job for job in every if job.state in ENDED]
            for job in ended:
                if job.id not in reported:
                    reported.add(job.id)
                    console.print(_ended(job), highlight=False, markup=False)
            running = next((job.title for job in every if job.state == "running"), "waiting")
            move(total=len(every), completed=len(ended), description=running, left=None)
            if len(ended) == len(every):
                return counts
            time.sleep(WATCH_S)


def _ended(job: Job) -> str:
    where = f" on {job.worker}" if job.worker else ""
    return f"{job.state}{where}: {job.title}{f': {job.reason}' if job.reason else ''}"


def _all_jobs(client: Client, submission: str, identifiers: set[str] | None = None) -> list[Job]:
    """Return the jobs of a submission, the oldest first, and of those ids that belong to others."""
    found: list[Job] = []
    cursor: str | None = None
    while True:
        page = client.jobs(submission=submission, limit=_PAGE, cursor=cursor)
        found += page.jobs
        cursor = page.next
        if cursor is None:
            break
    missing = (identifiers or set()) - {job.id for job in found}
    return [*reversed(found), *(client.job(identifier) for identifier in sorted(missing))]


@jobs.command(epilog="\b\nExamples:\n  assay jobs watch 01a2021c-1db8-7580-86cd-1099f3c397d2")
@click.argument("submission", metavar="SUBMISSION")
@served
@as_json
def watch(submission: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Show how far a submission is until all its jobs have ended; exit code 1 where one did not succeed."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        _require_jobs(client, submission)
        counts = watch_jobs(client, submission)
    if as_json:
        print_json({"submission": submission, "counts": counts})
    else:
        say(_counted(counts))
    return int(any(counts.get(state) for state in ENDED if state != "succeeded"))


def _require_jobs(client: Client, submission: str) -> None:
    if not client.jobs(submission=submission, limit=1).jobs:
        raise NotFound(
            f"no submission has the id {submission}.", field="submission", remedy="`assay jobs list` names them."
        )


def _counted(counts: Mapping[str, int]) -> str:
    parts = [f"{formatting.count(counts[state])} {state}" for state in JOB_STATES if counts.get(state)]
    return ", ".join(parts) or "no jobs"


@jobs.command(
    "list", epilog="\b\nExamples:\n  assay jobs list\n  assay jobs list --state failed --state cancelled --json"
)
@click.option("--state", "states", type=click.Choice(JOB_STATES), multiple=True, help="Only these; may be repeated.")
@click.option("--submission", metavar="ID", help="Only jobs of one submission.")
@click.option("--limit", type=click.IntRange(1, _PAGE), default=SHOWN, show_default=True, help="The newest so many.")
@served
@as_json
def list_jobs(
    states: tuple[JobState, ...],
    submission: str | None,
    limit: int,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """List jobs, the newest first, and the workers that have reported."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        listed = client.jobs(state=states or None, submission=submission, limit=limit)
        queue = None if as_json else client.queue()
    if queue is None:
        print_json(listed)
        return 0
    if listed.jobs:
        columns: list[str | tuple[str, str]] = [("state", "fixed"), "job", ("worker", "fixed"), ("id", "fixed")]
        rows = [[_state(job), job.title, shortened(job.worker or "—", 16), job.id] for job in listed.jobs]
        answers().print(grid(None, columns, rows))
    elif states and any(listed.counts.values()):
        say("no job is in that state")
    counted = _counted(listed.counts)
    say(
        f"in all: {counted}" if any(listed.counts.values()) else "no job was submitted; `assay jobs submit PLAN` begins"
    )
    alive = [worker.description.name for worker in queue.workers if worker.alive]
    say(
        f"workers: {escape(', '.join(alive))}"
        if alive
        else "no worker is connected; `assay worker` starts one on a machine"
    )
    return 0


def _state(job: Job) -> str:
    if job.cancelling:
        return "ending"
    return "unmet" if job.state == "waiting" and job.unmet else job.state


@jobs.command(epilog="\b\nExamples:\n  assay jobs show 01a2021c-1db8-7580-86cd-1099f3c397d2 --json")
@click.argument("job", metavar="ID")
@served
@as_json
def show(job: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Show one job: its needs and who meets them, its attempts, and the runs that came of it."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        result = client.job(job)
    if as_json:
        print_json(result)
        return 0
    console = answers()
    console.print(Text(result.title, style="bold"))
    console.print(grid(None, ["", "value"], _facts(result)))
    if result.plan:
        console.print()
        console.print(Text(msgspec.yaml.encode(result.plan).decode().rstrip()), soft_wrap=True)
    for run in result.run_ids:
        console.print()
        console.print(Text(f"assay runs show {run}"), soft_wrap=True)
    return 0


def _facts(job: Job) -> list[list[str]]:
    state = f"{job.state}, and is being cancelled" if job.cancelling else job.state
    attempts = f"{job.attempt} of {job.attempts}" if job.attempt else f"none of {job.attempts}"
    rows: list[tuple[str, str | None]] = [
        ("id", job.id),
        ("submission", job.submission),
        ("state", state),
        ("why", job.reason),
        ("unmet", job.unmet),
        ("needs", str(job.needs) or "nothing"),
        ("priority", str(job.priority) if job.priority else None),
        ("attempts", attempts),
        ("worker", f"{job.worker}{f' ({job.hardware})' if job.hardware else ''}" if job.worker else None),
        ("submitted", formatting.when(job.submitted_at)),
        ("not before", formatting.when(job.at) if job.at else None),
        ("started", formatting.when(job.started_at) if job.started_at else None),
        ("ended", formatting.when(job.ended_at) if job.ended_at else None),
    ]
    return [[name, value] for name, value in rows if value]


@jobs.command(epilog="\b\nExamples:\n  assay jobs cancel 01a2021c-1db8-7580-86cd-1099f3c397d2")
@click.argument("identifier", metavar="ID|SUBMISSION")
@served
@as_json
def cancel(identifier: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Cancel a job, or all jobs of a submission that have not ended. One that runs is stopped within ten seconds."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        changed = _cancelled(client, identifier)
    if as_json:
        print_json(changed)
        return 0
    for job in changed:
        state = "is being stopped" if job.state == "running" else "is cancelled"
        say(f"{escape(job.title)} {state}")
    if not changed:
        say("all of its jobs have ended")
    return 0 if changed else 1


def _cancelled(client: Client, identifier: str) -> list[Job]:
    try:
        return [client.cancel_job(identifier)]
    except NotFound:
        every = _all_jobs(client, identifier)
        if not every:
            raise NotFound(
                f"no job and no submission has the id {identifier}.", field="id", remedy="`assay jobs list` names them."
            ) from None
    changed = []
    for job in every:
        if job.state not in ENDED:
            try:
                changed.append(client.cancel_job(job.id))
            except StateConflict:
                # It has ended meanwhile.
                continue
    return changed


@jobs.command(epilog="\b\nExamples:\n  assay jobs retry 01a2021c-1db8-7580-86cd-1099f3c397d2")
@click.argument("job", metavar="ID")
@served
@as_json
def retry(job: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Queue a failed or cancelled job again, with as many attempts as before."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        changed = client.retry_job(job)
    if as_json:
        print_json(changed)
    else:
        say(f"{escape(changed.title)} waits again")
    return 0


@jobs.group(
    invoke_without_command=True, epilog="\b\nExamples:\n  assay jobs schedules\n  assay jobs schedules remove nightly"
)
@served
@as_json
@click.pass_context
def schedules(context: click.Context, server: str | None, token: str | None, as_json: bool) -> int:
    """List schedules: plans that are submitted again and again. `assay jobs submit --every` adds one."""
    from assay.cli.connection import connected

    if context.invoked_subcommand:
        return 0
    with connected(server, token) as client:
        every = client.schedules()
    if as_json:
        print_json(every)
        return 0
    if not every:
        say('there are no schedules; `assay jobs submit PLAN --every "0 2 * * *"` adds one')
        return 0
    columns: list[str | tuple[str, str]] = ["schedule", ("cron", "fixed"), ("jobs", "right"), ("next", "fixed")]
    columns.append(("newest submission", "fixed"))
    rows = [
        [item.name, item.cron, str(item.jobs), formatting.when(item.next_at), item.last_submission or "—"]
        for item in every
    ]
    answers().print(grid(None, columns, rows))
    return 0


@schedules.command(epilog="\b\nExamples:\n  assay jobs schedules remove nightly")
@click.argument("name", metavar="NAME")
@served
@as_json
def remove(name: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Remove a schedule; jobs that it submitted stay."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        removed = client.remove_schedule(name)
    print_json(removed) if as_json else say(f"schedule {escape(removed.name)} is removed")
    return 0


def _tell_schedule(schedule: Schedule) -> None:
    say(
        f"schedule {escape(schedule.name)}: {formatting.count(schedule.jobs)} jobs at {escape(schedule.cron)} (UTC), "
        f"next {formatting.when(schedule.next_at)}"
    )


jobs.add_command(export)
