"""`assay regressions`: did something get worse since the baseline, or is it noise?"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.core import ParameterSource

from assay.cli.ask.regression_history import history
from assay.cli.options import as_json, served, thresholds_option
from assay.cli.output import answers, grid, say
from assay.cli.output_files import OutputFile, overwritable
from domain.comparison.regression import ALERT
from domain.errors import UsageError

if TYPE_CHECKING:
    from domain.comparison.regression import Change, Report

__all__ = ["regressions"]

SHOWN = 40


def _is_baseline(path: Path) -> bool:
    from assay.regressions.reading import is_baseline

    return is_baseline(path)


def _is_report(path: Path) -> bool:
    from assay.regressions.writing import is_report

    return is_report(path)


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  assay regressions --candidate now.ndjson --save baseline.json      # the first time
  assay regressions --baseline baseline.json --candidate now.ndjson --output-ci report.xml --output-ci comment.md
  assay regressions --baseline "release 1.4" --alert 0.05 --model bert-base-uncased
  assay regressions history bert-base-uncased --file runs.ndjson""",
)
@click.option(
    "--baseline", metavar="FILE|SNAPSHOT|POSITION|NAME", help="What to compare with; NAME of `assay baseline`."
)
@click.option("--candidate", metavar="FILE|SNAPSHOT|POSITION", help="What is compared; by default what is known now.")
@click.option(
    "--alert",
    type=click.FloatRange(min=0, max=10),
    default=ALERT,
    show_default=True,
    help="A share: 0.1 lets a figure get 10 % worse.",
)
@thresholds_option
@click.option("--metric", "columns", multiple=True, metavar="COLUMN", help="Only this figure; may be repeated.")
@click.option("--model", help="Only this model.")
@click.option("--hardware", help="Only this hardware.")
@click.option("--platform", help="Only this platform.")
@click.option("--precision", help="Only this precision.")
@click.option("--strict", is_flag=True, help="Let suspect figures and those without an interval alarm too.")
@click.option("--new-ok", is_flag=True, help="Exit 0 where baseline and candidate have nothing in common.")
@click.option(
    "--output-ci",
    "outputs",
    multiple=True,
    type=OutputFile(parents=True, replaces=_is_report),
    metavar="FILE",
    help="Write .json, JUnit .xml, .sarif or a Markdown comment .md, also over an earlier one; may be repeated.",
)
@click.option(
    "--save",
    type=OutputFile(parents=True, replaces=_is_baseline),
    help="Keep what is known now as a baseline, also over an earlier one.",
)
@overwritable
@click.option("--format", "form", type=click.Choice(["text", "json", "junit", "markdown", "sarif"]), default="text")
@served
@as_json
@click.pass_context
def regressions(
    context: click.Context,
    baseline: str | None,
    candidate: str | None,
    alert: float,
    thresholds: Path | None,
    columns: tuple[str, ...],
    model: str | None,
    hardware: str | None,
    platform: str | None,
    precision: str | None,
    strict: bool,
    new_ok: bool,
    outputs: tuple[Path, ...],
    save: Path | None,
    form: str,
    force: bool,  # noqa: ARG001 - the types of --output-ci and --save read it
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Compare by configuration, with the intervals of both sides, so that noise does not alarm.

    `assay regressions history` looks at all runs instead: what changed, when, and why. Exit code 1 where something got worse: a figure by more than the threshold with intervals apart, or a test or
    measurement that passed and now fails; and where nothing could be compared. Suspect rows cannot tell: they are named,
    and end with 1 under --strict alone. Files need no service.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return 0
    from assay.cli.connection import connected
    from assay.regressions import read_side, read_thresholds, write_side, written
    from assay.regressions.writing import form_of
    from assay.staging import Staged
    from domain.comparison.comparison_sides import merged
    from domain.comparison.regression import compare
    from domain.comparison.thresholds import NO_THRESHOLDS

    rules = read_thresholds(thresholds) if thresholds else NO_THRESHOLDS
    forms = {path: form_of(path) for path in outputs}
    if baseline is None and save is None:
        raise UsageError(
            "there is nothing to compare with.",
            field="baseline",
            remedy="Name a file, a snapshot or a position; make one with `assay regressions --save FILE`.",
        )
    request = {"model": model, "hardware": hardware, "platform": platform, "precision": precision}
    wanted = {name: value for name, value in request.items() if value is not None}
    with ExitStack() as stack:
        connect = functools.cache(lambda: stack.enter_context(connected(server, token)))
        before = read_side(baseline, connect, wanted, field="baseline") if baseline is not None else None
        after = read_side(candidate, connect, wanted, field="candidate")
    code = 0
    if before is not None:
        report = compare(before, after, alert=alert, columns=columns, strict=strict, thresholds=rules)
        with Staged(force=True) as staged:
            for path, each in forms.items():
                staged.file(path).write_bytes(written(report, each))
        form = "json" if as_json else form
        if form == "text":
            _tell(report)
        else:
            sys.stdout.write(written(report, form).decode())
        code = 1 if report.worse or not (report.compared or new_ok) else 0
    if save is not None:
        write_side(save, merged(before, after) if before is not None else after)
        say(f"{len(after.measured)} measurements and {len(after.cases)} outcomes kept in {save}")
    return code


def _refuse_options(context: click.Context) -> None:
    """Raise UsageError for an option before the name of a subcommand, which would not be heard."""
    for parameter in context.command.params:
        if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{parameter.opts[0]} stands before {context.invoked_subcommand}.",
                field=parameter.opts[0].lstrip("-").replace("-", "_"),
                remedy=f"Give options after it: `assay regressions {context.invoked_subcommand} --help` lists them.",
            )


regressions.add_command(history)


def _tell(report: Report) -> None:
    """Print changed environments, what turned, what is worse and uncertain, and the rest in short."""
    from assay.regressions.writing import headline
    from domain.comparison.thresholds import MEASURING

    console = answers()
    if report.environments:
        rows = [
            [
                environment.hardware,
                environment.part,
                environment.before or "",
                environment.after or "",
                str(environment.configurations),
            ]
            for environment in report.environments
        ]
        console.print(grid("Changed environments", ["hardware", "what", "before", "now", ("n", "right")], rows[:SHOWN]))
    for title, states in (("No longer passes", ("worse",)), ("Came out otherwise", ("better", "other"))):
        turns = [turn for turn in report.turns if turn.state in states]
        if turns:
            rows = [[turn.title, turn.test or MEASURING, turn.before, turn.after, turn.message or ""] for turn in turns]
            console.print(grid(title, ["configuration", "test", "before", "now", "why"], rows[:SHOWN]))
    uncertain = [change for change in report.changes if change.state == "unclear" and not change.suspect]
    _tell_changes("Worse", [change for change in report.changes if change.state == "worse"])
    _tell_changes("Cannot tell", report.undecided)
    _tell_changes("Uncertain", uncertain)
    _tell_changes("Better", [change for change in report.changes if change.state == "better"])
    for title, names in (
        ("New", report.new),
        ("Gone", report.gone),
        ("Of another origin", report.other_origin),
        ("Ignored", report.ignored),
        ("Unmatched thresholds", report.unmatched),
    ):
        if names:
            console.print(grid(f"{title} ({len(names)})", ["configuration"], [[name] for name in names[:SHOWN]]))
    console.print(headline(report), markup=False)


def _tell_changes(title: str, changes: Sequence[Change]) -> None:
    from assay.regressions.writing import between, shown

    if not changes:
        return
    columns: list[Any] = ["configuration", "figure", ("before", "right"), ("now", "right"), ("change (95 %)", "right")]
    rows = [
        [
            change.title,
            change.column,
            *(shown(each, change.unit, bare=True) for each in (change.before, change.after)),
            between(change),
        ]
        for change in changes[:SHOWN]
    ]
    if any(change.why for change in changes):
        columns.append("why")
        rows = [[*row, change.why or ""] for row, change in zip(rows, changes, strict=False)]
    answers().print(grid(f"{title} ({len(changes)})", columns, rows))
