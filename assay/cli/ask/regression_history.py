"""`assay regressions history`: what changed over all runs of each configuration, confirmed or suspect, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich.text import Text

from assay.cli.ask.trending import sparkline
from assay.cli.options import as_json, served
from assay.cli.output import answers, say, write_json
from assay.cli.output_files import OutputFile, overwritable
from domain.errors import UsageError

if TYPE_CHECKING:
    from domain.answers.histories import HistoryReports
    from domain.history.history import Change, History, HistoryReport

__all__ = ["history"]

SHOWN = 40
"""Histories that the terminal shows; the JSON has all."""
POINTS = 72
"""Points of a picture: the newest."""
_COLOURS = {"worse": "red", "better": "green"}


def _is_report(path: Path) -> bool:
    from assay.regressions.writing import is_report

    return is_report(path)


@click.command(
    epilog="""\b
Examples:
  assay regressions history
  assay regressions history bert-base-uncased --hardware nvidia-l4 --branch main
  assay regressions history --file monday.ndjson --file tuesday.ndjson --output-ci history.sarif"""
)
@click.argument("model", required=False)
@click.option("--hardware", metavar="SLUG", help="Only this hardware.")
@click.option("--platform", help="Only this platform.")
@click.option("--precision", help="Only this precision.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only this figure or test; may be repeated.")
@click.option("--branch", metavar="NAME", help="Only runs of this branch and, before its start, of the one it is from.")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="NDJSON",
    help="Events of `assay bench --out` in place of the service; may be repeated.",
)
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Only changes of the N days before the newest one.",
)
@click.option(
    "--output-ci",
    "outputs",
    multiple=True,
    type=OutputFile(parents=True, replaces=_is_report),
    metavar="FILE",
    help="Write .json, JUnit .xml, .sarif or a Markdown comment .md, also over an earlier one; may be repeated.",
)
@overwritable
@served
@as_json
def history(
    model: str | None,
    hardware: str | None,
    platform: str | None,
    precision: str | None,
    metrics: tuple[str, ...],
    branch: str | None,
    files: tuple[Path, ...],
    days: float | None,
    outputs: tuple[Path, ...],
    force: bool,  # noqa: ARG001 - the type of --output-ci reads it
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Find what changed for good over the runs of each configuration, across versions, drivers and machines of a kind.

    Exit code 1 where a change for the worse is confirmed. Suspect points cannot tell: they are listed, and end with 0, as
    improvements do. Runs of pull requests confirm nothing.
    """
    from assay.regressions.history_writing import FORMATS, is_worse, only_recent
    from assay.regressions.writing import form_of
    from assay.staging import Staged

    forms = {path: form_of(path) for path in outputs}
    request = {"model": model, "hardware": hardware, "platform": platform, "precision": precision}
    wanted = {name: value for name, value in request.items() if value is not None}
    points: Mapping[tuple[str, str], History] = {}
    if files:
        reports, points = _of_files(files, wanted, metrics, branch)
    else:
        reports = _of_service(wanted, metrics, branch, server, token)
    if days is not None:
        reports = only_recent(reports, days)
    artifact = files[-1].name if files else "histories"
    with Staged(force=True) as staged:
        for path, form in forms.items():
            staged.file(path).write_bytes(FORMATS[form](reports, artifact))
    if as_json:
        write_json(FORMATS["json"](reports, artifact).decode())
    else:
        _show(reports, points, every=model is not None)
    return 1 if is_worse(reports) else 0


def _of_files(
    files: Sequence[Path], wanted: Mapping[str, str], metrics: Sequence[str], branch: str | None
) -> tuple[HistoryReports, dict[tuple[str, str], History]]:
    """Return what is found in files of events, the histories with a change for the worse first, and the histories."""
    from assay.regressions.history_reading import read_histories
    from domain.answers.histories import HistoryReports
    from domain.history.examination import examine

    histories = read_histories(files, wanted, metrics=metrics, branch=branch)
    if not histories:
        raise _no_history("the files have", wanted, branch)
    reports = sorted(map(examine, histories), key=_severity)
    by_name = {(each.alike, each.metric): each for each in histories}
    return HistoryReports(position=0, histories=len(histories), reports=reports), by_name


def _of_service(
    wanted: Mapping[str, str], metrics: Sequence[str], branch: str | None, server: str | None, token: str | None
) -> HistoryReports:
    from assay.cli.connection import connected

    with connected(server, token) as client:
        reports = client.regression_history(
            model=wanted.get("model"),
            hardware=wanted.get("hardware"),
            platform=wanted.get("platform"),
            precision=wanted.get("precision"),
            metric=metrics or None,
            branch=branch,
            everything="model" in wanted,
        )
    if not reports.histories and (wanted or branch):
        raise _no_history("the service has", wanted, branch)
    return reports


def _no_history(who: str, wanted: Mapping[str, str], branch: str | None) -> UsageError:
    """Return the error that nothing was measured by these names, so that a misspelled one does not pass in a job."""
    asked = {**wanted, **({"branch": branch} if branch else {})}
    named = ", ".join(f"{name} {value}" for name, value in asked.items()) or "measurements"
    return UsageError(
        f"{who} no history of {named}.",
        field=next(iter(asked), "file"),
        remedy="Check the names; without --branch runs of every branch count.",
    )


def _severity(report: HistoryReport) -> tuple[int, str, str]:
    states = {change.state for change in report.changes}
    return (0 if "worse" in states else 1 if states else 2 if report.suspect else 3), report.title, report.metric


def _show(reports: HistoryReports, points: Mapping[tuple[str, str], History], *, every: bool) -> None:
    """Print each history that has something to say, with a picture of its points and levels, and the outcome."""
    from assay.regressions.history_writing import headline, newest_suspect

    console = answers()
    listed = [each for each in reports.reports if every or each.changes or newest_suspect(each)]
    for report in listed[:SHOWN]:
        console.print(f"{report.title}: {report.metric}", style="bold", markup=False, highlight=False)
        drawn = points.get((report.alike, report.metric))
        for line in _picture(report, drawn):
            console.print(f"  {line}", markup=False, highlight=False, no_wrap=True, overflow="crop")
        for change in report.changes:
            console.print(_line(change), highlight=False)
        if event := newest_suspect(report):
            console.print(f"  cannot tell: the newest point is suspect ({event})", markup=False, highlight=False)
        for warning in report.warnings:
            console.print(f"  note: {warning}", markup=False, highlight=False)
        console.print()
    if len(listed) > SHOWN:
        say(f"{len(listed) - SHOWN} more; --json has all")
    console.print(headline(reports), markup=False, highlight=False)


def _picture(report: HistoryReport, history: History | None) -> list[str]:
    """Return the newest points as blocks, the levels below them on the same scale, and what they stand for."""
    levels = [level.value for level in report.levels for _ in range(level.points)][-POINTS:]
    ends = " → ".join(_amount(level.value, report) for level in report.levels[-4:])
    count = f"{report.points} point{'' if report.points == 1 else 's'}"
    if history is None:
        return [f"{sparkline(levels)}  {count}, {ends}"] if levels else [count]
    values = [point.value for point in history.points if not point.doubts][-POINTS:]
    drawn = sparkline([*values, *levels])
    lines = [f"{drawn[: len(values)]}  {count}"]
    if context := len(history.context):
        lines[0] += f", and {context} of pull requests"
    return [*lines, f"{drawn[len(values) :]}  {ends}"] if levels else lines


def _amount(value: float, report: HistoryReport) -> str:
    from assay.regressions.writing import shown
    from domain.figures import Figure

    if report.kind == "functional":
        return f"{value:.0%} pass"
    return shown(Figure(value=value), report.unit, bare=True)


def _line(change: Change) -> Text:
    from assay.regressions.history_writing import cause_of, range_of, size_of, values_of

    before, after = values_of(change)
    parts = [f"{before} → {after}", size_of(change), f"{change.kind}, {range_of(change)}"]
    text = Text("  ") + Text(change.state, style=_COLOURS[change.state])
    text.append(": " + "; ".join(part for part in parts if part))
    if causes := cause_of(change):
        text.append(f"; candidate causes: {causes}")
    return text
