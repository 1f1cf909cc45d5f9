"""`assay post`, `assay retract`: facts on their way into the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json, say
from domain.errors import Forbidden, NotFound, ServiceUnavailable, UsageError
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from runner.campaign.publication import Contents
    from runner.spool.post import Refusal
    from runner.spool.spool import Spool

__all__ = ["described", "empty_spool", "post", "retract"]


@click.command(
    epilog="""\b
Examples:
  assay post elsewhere.ndjson
  assay post data/*.ndjson.gz
  assay post --check data/*.ndjson.gz"""
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Send nothing; say what the files hold, and why one cannot be published.")
@served
@as_json
def post(files: tuple[Path, ...], check: bool, server: str | None, token: str | None, as_json: bool) -> int:
    """Send events that a runner wrote to files, compressed with gzip or not; what the log has stays as it is."""
    if check:
        return _check(files, as_json=as_json)
    from assay.cli.connection import connected
    from runner.spool.post import post_files

    with connected(server, token) as client, _counting(None) as advance:

        def send(lines: Sequence[bytes]) -> dict[str, Any]:
            answer = client.post_events(lines, batch=len(lines))
            advance(len(lines))
            return answer

        report = post_files(list(files), send)
        if report.last_position is not None:
            client.wait_for(report.last_position)
    if as_json:
        print_json(report)
        return report.exit_code
    say(
        f"{formatting.count(report.accepted)} new, {formatting.count(report.duplicate)} already there, {formatting.count(report.refused_lines)} refused"
    )
    _tell_refused("Refused", report.refused)
    return report.exit_code


def _check(files: Sequence[Path], *, as_json: bool) -> int:
    import msgspec

    from runner.campaign.publication import contents_of, problems_in

    problems = problems_in(files)
    contents = None if problems else contents_of(files)
    if as_json:
        print_json({"contents": msgspec.to_builtins(contents), "problems": msgspec.to_builtins(problems)})
    elif contents:
        say(f"{described(contents)}; nothing is in the way of publishing it")
    else:
        say(f"{formatting.count(len(problems))} lines or members cannot be published")
        _tell_refused("Problems", problems)
    return 1 if problems else 0


def described(contents: Contents) -> str:
    """Return what files of events hold, in a sentence."""
    verdicts = ", ".join(f"{formatting.count(n)} {verdict}" for verdict, n in sorted(contents.verdicts.items()))
    others = [(contents.failures, "failures"), (contents.tests, "tests")]
    rest = "".join(f", {formatting.count(n)} {word}" for n, word in others if n)
    machines = "machine" if len(contents.machines) == 1 else "machines"
    return (
        f"{formatting.count(contents.measurements)} measurements ({verdicts or 'none'}){rest} of "
        f"{len(contents.machines)} {machines}: {', '.join(contents.machines) or 'none'}"
    )


def _tell_refused(title: str, refused: Sequence[Refusal]) -> None:
    if refused:
        rows = [[item.file, str(item.line), item.field or "", item.detail] for item in refused[:20]]
        answers().print(grid(title, ["file", ("line", "right"), "field", "why"], rows))


def empty_spool(spool: Spool, client: Client, *, before: int = 0) -> None:
    """Send what the spool holds and wait until the tables show it; say how many, those sent `before` too, and what was refused."""
    report = spool.flush(lambda lines: client.post_events(lines, batch=len(lines)))
    if report.error and report.waiting:
        raise ServiceUnavailable(
            f"{report.waiting} events wait in the spool: {report.error}",
            remedy="They are safe; the next run sends them too.",
        )
    client.wait_for(client.ready()["log_position"])
    say(
        f"{formatting.count(before + report.accepted)} events posted"
        + (f", {report.refused} refused" if report.refused else "")
    )


@click.command(
    epilog="Examples: assay retract --run 0198c0de-… --reason 'the laptop was on battery'\n\n"
    "assay retract --undo --run 0198c0de-… --reason 'it was not: the log of the charger says so'"
)
@click.option("--event", "event_id", metavar="ID", help="The measurement, failure or test to void.")
@click.option("--run", "run_id", metavar="ID", help="A whole run to void.")
@click.option("--reason", required=True, help="Why; it stays in the log.")
@click.option("--undo", is_flag=True, help="Undo the retraction of this event or run: it counts again from there on.")
@served
@as_json
def retract(
    event_id: str | None,
    run_id: str | None,
    reason: str,
    undo: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Void a measurement or a whole run: it leaves answers and training, and stays in the log with the reason.

    --undo takes the retraction back with an event of its own; an answer as of a position between the two stays what it was.
    """
    from assay.cli.connection import connected, event_source
    from domain.events import MEASUREMENT_RETRACTED, decode_event, encode_event, new_event
    from domain.payloads import MeasurementRetracted

    def retraction(event_id: str | None, run_id: str | None) -> dict[str, Any]:
        data = MeasurementRetracted(event_id=event_id, run_id=run_id, reason=reason)
        event = new_event(MEASUREMENT_RETRACTED, data, source=event_source(), time=datetime.now(UTC))
        decode_event(encode_event(event))
        return event

    event = retraction(event_id, run_id)
    with connected(server, token) as client:
        _require_existing(client, event_id, run_id)
        events = [retraction(held, None) for held in _retractions_of(client, event_id, run_id)] if undo else [event]
        answer = client.post_events(events)
        client.wait_for(answer["last_position"])
    if as_json:
        print_json(answer)
    else:
        say(f"{'counts again from' if undo else 'retracted at'} position {answer['last_position']}: {reason}")
    return 0


def _retractions_of(client: Client, event_id: str | None, run_id: str | None) -> list[str]:
    """Return the ids of the retractions that name this event or run and were not undone; raise UsageError without any."""
    from domain.events import MEASUREMENT_RETRACTED

    every = list(client.events(types=(MEASUREMENT_RETRACTED,)))
    named = {event["data"].get("event_id") for event in every}

    def in_force(event_id: str | None, run_id: str | None) -> list[str]:
        target = (event_id, run_id)
        return [
            event["id"]
            for event in every
            if (event["data"].get("event_id"), event["data"].get("run_id")) == target and event["id"] not in named
        ]

    found = in_force(event_id, run_id)
    if not found:
        run = client.event(event_id)["data"].get("run_id") if event_id else None
        raise UsageError(
            f"{'event ' + event_id if event_id else f'run {run_id}'} is not retracted.",
            field="event" if event_id else "run",
            remedy=f"Its run {run} is: `assay retract --undo --run {run}`."
            if run and in_force(None, run)
            else "`assay runs show RUN` lists what was taken back, and why.",
        )
    return found


def _require_existing(client: Client, event_id: str | None, run_id: str | None) -> None:
    """Raise NotFound or UsageError where the log has no such measurement or run; a token that may not read cannot ask."""
    from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, TEST_REPORTED

    try:
        if event_id is not None:
            kind = client.event(event_id)["type"]
            if kind not in (MEASUREMENT_FAILED, MEASUREMENT_RECORDED, TEST_REPORTED):
                raise UsageError(
                    f"event {event_id} is no measurement, failure or test but {kind}.",
                    field="event",
                    remedy="Name a measurement: `assay runs show RUN` lists those of a run.",
                )
        elif run_id is not None:
            client.run(run_id)
    except NotFound as missing:
        raise NotFound(
            f"the log has no {'event ' + event_id if event_id else f'run {run_id}'}.",
            field="event" if event_id else "run",
            remedy="`assay runs list` names runs, `assay runs show RUN` their events.",
        ) from missing
    except Forbidden:
        return


class _counting:  # noqa: N801 - used as a context manager, like a function
    """A running count on stderr while something is sent."""

    def __init__(self, total: int | None) -> None:
        console = notes()
        columns = (TextColumn("events"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._bar.add_task("events", total=total)

    def __enter__(self) -> Any:
        self._bar.start()
        return lambda n: self._bar.advance(self._task, n)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
