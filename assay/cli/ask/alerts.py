"""`assay alerts`: what got worse or better, once for a common cause, and what people say about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rich_click as click
from rich.text import Text

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say, shortened
from assay.cli.serve.alert_routes import routes
from domain.history.alerts import OPEN, STATES, Alert, State
from domain.history.history import Change
from presentation import formatting
from presentation.alert_words import bisect_command, cause_words

__all__ = ["alerts"]

SHOWN = 40
_SHORT = 8
_ID = click.argument("alert", metavar="ID")
_REASON = click.option("--reason", metavar="TEXT", required=True, help="Why, in a sentence; it is kept with the state.")
_AUTHOR = click.option("--author", metavar="NAME", help="Who says so, beside the name of the token.")


@click.group(
    epilog="""\b
Examples:
  assay alerts list                                   # what is open, the worst first
  assay alerts show 5b8f0f6a                          # its changes, evidence and causes
  assay alerts acknowledge 5b8f0f6a
  assay alerts expect 5b8f0f6a --reason "the new driver clocks lower; accepted for release 2"
  assay alerts fix 5b8f0f6a --reason "driver 560.3"
  assay alerts list --state expected --state false --json"""
)
def alerts() -> None:
    """Confirmed changes of figures and tests, one alert for a common cause. ID is an alert's id, or its first letters."""


alerts.add_command(routes)


@alerts.command(
    "list",
    epilog="""\b
Examples:
  assay alerts list --model bert-base-uncased
  assay alerts list --all --hardware nvidia-h200-sxm
  assay alerts list --state fixed --direction better --json""",
)
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only this state; may be repeated.")
@click.option("--all", "everything", is_flag=True, help="Those that have ended too; by default what is open.")
@click.option("--model", help="Only alerts about this model.")
@click.option("--hardware", help="Only alerts about this hardware.")
@click.option("--direction", type=click.Choice(["worse", "better"]), help="Only what got worse, or better.")
@click.option(
    "--limit", type=click.IntRange(min=1, max=1000), default=SHOWN, show_default=True, help="At most so many."
)
@served
@as_json
def list_alerts(
    states: tuple[State, ...],
    everything: bool,
    model: str | None,
    hardware: str | None,
    direction: Any,
    limit: int,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """List alerts, the worst first. Exit code 0, whatever there is."""
    from assay.cli.connection import connected

    chosen = states or (() if everything else OPEN)
    with connected(server, token) as client:
        listed = client.alerts(state=chosen or None, model=model, hardware=hardware, direction=direction, limit=limit)
    if as_json:
        print_json(listed)
        return 0
    if listed.alerts:
        columns: list[str | tuple[str, str]] = [
            ("alert", "fixed"),
            ("state", "fixed"),
            ("change", "right"),
            ("raised", "fixed"),
            "what",
        ]
        answers().print(grid(None, columns, [_row(alert) for alert in listed.alerts]))
    elif listed.counts:
        say("none of the alerts is open" if chosen == OPEN else "no alert is in that state")
    counts = ", ".join(f"{formatting.count(number)} {state}" for state, number in listed.counts.items())
    total = sum(number for state, number in listed.counts.items() if not chosen or state in chosen)
    if total > len(listed.alerts):
        say(f"the first {len(listed.alerts)} of {formatting.count(total)}; --limit shows more")
    say(f"in all: {counts}" if counts else "there are no alerts")
    return 0


@alerts.command("show", epilog="\b\nExamples:\n  assay alerts show 5b8f0f6a\n  assay alerts show 5b8f0f6a --json")
@_ID
@served
@as_json
def show(alert: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Show the changes of an alert, their ranges, candidate causes and evidence, and its states."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        found = client.alert(alert)
    if as_json:
        print_json(found)
        return 0
    console = answers()
    console.print(Text(found.title, style="bold"))
    console.print(Text(f"{found.id}  {found.state}  raised {formatting.when(found.raised_at)}"))
    for change in found.changes[:SHOWN]:
        console.print()
        console.print(Text(change.title))
        console.print(grid(None, ["", "value"], _facts(change)))
    if len(found.changes) > SHOWN:
        say(f"the first {SHOWN} of {formatting.count(len(found.changes))} changes; --json has all")
    if found.states:
        console.print()
        columns: list[str | tuple[str, str]] = [("state", "fixed"), ("when", "fixed"), "author", "reason"]
        rows = [[s.state, formatting.when(s.time), s.author, s.reason or formatting.MISSING] for s in found.states]
        console.print(grid(None, columns, rows))
    command = bisect_command(found)
    if command:
        console.print()
        console.print(Text("Find the commit or version:"))
        console.print(Text(f"  {command}"), soft_wrap=True)
    return 0


def _set_state(
    alert: str,
    state: State,
    reason: str | None,
    author: str | None,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    from assay.cli.connection import connected

    with connected(server, token) as client:
        changed = client.set_alert_state(alert, state, reason, author=author)
    if as_json:
        print_json(changed)
    else:
        say(f"{changed.id[:_SHORT]} is {changed.state}: {changed.title}")
    return 0


@alerts.command(epilog='\b\nExamples:\n  assay alerts acknowledge 5b8f0f6a --author ada --reason "bisecting it"')
@_ID
@click.option("--reason", metavar="TEXT", help="What is done about it.")
@_AUTHOR
@served
@as_json
def acknowledge(
    alert: str, reason: str | None, author: str | None, server: str | None, token: str | None, as_json: bool
) -> int:
    """Say that somebody looks at it."""
    return _set_state(alert, "acknowledged", reason, author, server, token, as_json)


@alerts.command(epilog='\b\nExamples:\n  assay alerts expect 5b8f0f6a --reason "accepted for release 2"')
@_ID
@_REASON
@_AUTHOR
@served
@as_json
def expect(alert: str, reason: str, author: str | None, server: str | None, token: str | None, as_json: bool) -> int:
    """Say that the change was meant: a new level begins, and later points are compared with that."""
    return _set_state(alert, "expected", reason, author, server, token, as_json)


@alerts.command(epilog='\b\nExamples:\n  assay alerts fix 5b8f0f6a --reason "driver 560.3"')
@_ID
@_REASON
@_AUTHOR
@served
@as_json
def fix(alert: str, reason: str, author: str | None, server: str | None, token: str | None, as_json: bool) -> int:
    """Say that its cause was removed."""
    return _set_state(alert, "fixed", reason, author, server, token, as_json)


@alerts.command("false", epilog='\b\nExamples:\n  assay alerts false 5b8f0f6a --reason "the machine ran a backup"')
@_ID
@_REASON
@_AUTHOR
@served
@as_json
def false_alarm(
    alert: str, reason: str, author: str | None, server: str | None, token: str | None, as_json: bool
) -> int:
    """Say that it is no change: it is not raised again for these."""
    return _set_state(alert, "false", reason, author, server, token, as_json)


@alerts.command(epilog='\b\nExamples:\n  assay alerts reopen 5b8f0f6a --reason "it came back"')
@_ID
@click.option("--reason", metavar="TEXT", help="Why.")
@_AUTHOR
@served
@as_json
def reopen(
    alert: str, reason: str | None, author: str | None, server: str | None, token: str | None, as_json: bool
) -> int:
    """Make it new again, whatever was said about it."""
    return _set_state(alert, "new", reason, author, server, token, as_json)


def _row(alert: Alert) -> list[str]:
    return [
        alert.id[:_SHORT],
        alert.state,
        _size(alert.changes[0]),
        formatting.date(alert.raised_at),
        shortened(alert.title, 400),
    ]


def _size(change: Change) -> str:
    if change.kind == "functional":
        return "fails" if change.state == "worse" else "passes"
    return f"{change.change:+.1%}"


def _facts(change: Change) -> list[list[str]]:
    """Return what is known of a change, as rows of a table."""
    size = _size(change)
    if change.low is not None and change.high is not None:
        size += f" (95 %: {change.low:+.1%} to {change.high:+.1%})"
    unit = f" {change.unit}" if change.unit else ""
    values = f"{formatting.significant(change.before)} → {formatting.significant(change.after)}{unit}"
    rows = [
        [change.metric, values if change.kind != "functional" else size],
        ["change", f"{size}, {change.kind}"],
        ["range", f"{_end(change, 0)}  →  {_end(change, 1)}"],
        ["events", f"{change.first} → {change.last}, confirmed by {change.confirmed_by}"],
        ["causes", "\n".join(cause_words(cause) for cause in change.causes)],
        *([["doubted", f"most rows on both sides: {', '.join(change.doubts)}"]] if change.doubts else []),
        ["before", _named(change.evidence_before)],
        ["after", _named(change.evidence_after)],
    ]
    return [[name, value or formatting.MISSING] for name, value in rows]


def _end(change: Change, end: int) -> str:
    moment = (change.first_time, change.last_time)[end]
    parts = (formatting.when(moment) if moment else None, change.versions[end], change.commits[end])
    return ", ".join(part for part in parts if part) or formatting.MISSING


def _named(events: Sequence[str], most: int = 3) -> str:
    more = f"\nand {len(events) - most} more" if len(events) > most else ""
    return "\n".join(events[:most]) + more
