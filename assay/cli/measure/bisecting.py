"""`assay bisect`: which commit, or which version of a package, made it slower."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import rich_click as click
from rich.text import Text

from assay.cli.options import as_json
from assay.cli.output import answers, grid, notes, print_json, say, shortened
from domain.errors import UsageError
from domain.history.bisection import BisectionLimits
from presentation import formatting

if TYPE_CHECKING:
    from assay.bisect.commits import Commits
    from assay.bisect.measuring import Measure
    from assay.bisect.packages import Packages
    from assay.bisect.session import BisectionReport, BisectionSession, Progress

__all__ = ["bisect"]

DEFAULT_COLUMN = "latency_p50_ms"
_PICTURE = 34
_SIDES = {"good": "green", "bad": "red", "undecided": "yellow", "skipped": "dim"}


@click.command(
    epilog="""\b
Examples:
  assay bisect --good v1.2 --bad HEAD --run 'python bench.py'     # its wall time
  assay bisect --good v1.2 --bad HEAD --build make --run ./bench --number 'p50 ([\\d.]+) ms'
  assay bisect --good v1.2 --bad HEAD --run './measure.sh {out}' --metric ttft_ms
  assay bisect --good v1.2 --bad HEAD --run 'pytest -q tests/test_accuracy.py' --check
  assay bisect --package onnxruntime --good 1.20.1 --bad 1.32.0 --run 'python bench.py'
  assay bisect --package numpy --good 2.3.0 --bad 2.0.0 --run ./bench --number last --timeout 60"""
)
@click.option("--good", required=True, metavar="A", help="A commit or version that is good.")
@click.option("--bad", required=True, metavar="B", help="A commit or version that is bad.")
@click.option("--run", "command", required=True, metavar="CMD", help="Line of the shell that is measured.")
@click.option(
    "--repository",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A checkout of the git repository; by default this folder.",
)
@click.option("--package", metavar="NAME", help="Bisect the versions of a Python package in place of commits.")
@click.option(
    "--build", metavar="CMD", help="Line of the shell that runs once before; where it fails, the version is skipped."
)
@click.option(
    "--first-parent/--all-parents",
    default=True,
    show_default=True,
    help="Take a merge as one commit, or look at the commits that it merged.",
)
@click.option(
    "--with",
    "requirements",
    multiple=True,
    metavar="REQUIREMENT",
    help="Install this beside the package; may be repeated.",
)
@click.option("--overlay", is_flag=True, help="Install the package alone, over the packages of this environment.")
@click.option("--pip-arguments", default="", metavar="WORDS", help="Given to pip, such as '--index-url URL'.")
@click.option(
    "--metric", metavar="COLUMN", help=f"Figure of the events that CMD writes to {{out}}; by default {DEFAULT_COLUMN}."
)
@click.option(
    "--number", metavar="REGEX|last", help="Take the last number on stdout that this finds, or the last of all."
)
@click.option("--check", is_flag=True, help="The exit code decides: 0 is good, 125 skips, any other is bad.")
@click.option(
    "--better", type=click.Choice(["lower", "higher"]), help="Which way is better; known of metrics and times."
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Runs of each version at least; by default 3, with --check 1.",
)
@click.option(
    "--most-runs",
    type=click.IntRange(4, 1000),
    metavar="N",
    default=25,
    show_default=True,
    help="Runs of each version at most.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Seconds that a build or a run may take.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Where figures and logs are kept; by default in .git, or for a package in ASSAY_HOME.",
)
@click.option("--restart", is_flag=True, help="Forget what an earlier search measured.")
@as_json
def bisect(
    good: str,
    bad: str,
    command: str,
    repository: Path | None,
    package: str | None,
    build: str | None,
    first_parent: bool,
    requirements: tuple[str, ...],
    overlay: bool,
    pip_arguments: str,
    metric: str | None,
    number: str | None,
    check: bool,
    better: Literal["lower", "higher"] | None,
    repeats: int | None,
    most_runs: int,
    timeout_s: float | None,
    state: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Find the first bad commit, or version of a package, although every run differs.

    Both ends are repeated until their intervals part; then versions half-way between them are, until it is certain on which
    side each lies. What cannot be built or measured is skipped. The answer is the first bad version with the change from
    the one before it. The same command goes on after an interruption.

    Exit code 0 where one version was found, 1 where a range is left or no difference can be seen.
    """
    from assay.bisect.session import BisectionSession, Question

    limits = BisectionLimits(repeats=repeats or (1 if check else 3), most=max(most_runs, repeats or 0), exact=check)
    measure = _measure(command, metric, number, check, better)
    if package is None:
        _refuse({"with": requirements, "overlay": overlay, "pip_arguments": pip_arguments}, "--package")
        folder = state or _git_state(repository)
        versions: Commits | Packages = _commits(repository, good, bad, folder, first_parent, build, timeout_s)
    else:
        _refuse({"repository": repository, "first_parent": not first_parent}, "commits")
        folder = state or _package_state(package)
        versions = _packages(
            package, good, bad, command, folder, requirements, pip_arguments, overlay, build, timeout_s
        )
    question = Question(
        command=command,
        good=versions.versions[0].name,
        bad=versions.versions[-1].name,
        measure=measure,
        limits=limits,
        package=package,
        build=build,
        requirements=list(requirements),
        pip_arguments=pip_arguments,
        overlay=overlay,
        first_parent=first_parent,
    )
    for note in versions.notes:
        say(note)
    session = BisectionSession(question, versions, folder.absolute(), timeout_s=timeout_s, restart=restart)
    report = _search(session)
    if as_json:
        print_json(report)
    else:
        _tell(report, session)
    return 0 if report.outcome == "found" else 1


def _measure(
    command: str, metric: str | None, number: str | None, check: bool, better: Literal["lower", "higher"] | None
) -> Measure:
    """Return what of a run is compared; UsageError for options that contradict each other."""
    from assay.bisect.measuring import OUT, Measure, compiled
    from domain.figures import FIGURES

    events = OUT in command
    chosen = [name for name, given in (("--check", check), ("--number", number), (OUT, events)) if given]
    if len(chosen) > 1:
        raise UsageError(
            f"{' and '.join(chosen)} are different things to compare.", field="run", remedy="Choose one of them."
        )
    if metric is not None and not events:
        raise UsageError(
            "--run does not say where the command writes its events.",
            field="metric",
            remedy=f"Write {OUT} in it: 'assay bench MODEL --out {OUT}'.",
        )
    if check:
        if better is not None:
            raise UsageError("an exit code has no direction.", field="better", remedy="Leave it out with --check.")
        return Measure(kind="check")
    if number is not None:
        compiled(number)
        return Measure(kind="number", number=number, better=better or "lower")
    if not events:
        return Measure(kind="time", better=better or "lower")
    column = metric or DEFAULT_COLUMN
    known = FIGURES.get(column)
    if known is None:
        import difflib

        near = difflib.get_close_matches(column, FIGURES, n=3, cutoff=0.4)
        raise UsageError(
            f"no figure is called {column!r}.",
            field="metric",
            remedy=f"Nearest: {', '.join(near or list(FIGURES)[:3])}.",
        )
    if better is None and known.better == "neither":
        raise UsageError(f"neither way of {column} is better in itself.", field="better", remedy="Say lower or higher.")
    return Measure(kind="events", column=column, better=better or ("higher" if known.better == "higher" else "lower"))


def _refuse(options: dict[str, Any], belongs: str) -> None:
    """Raise UsageError for an option that says nothing about what is bisected."""
    for name, value in options.items():
        if value:
            raise UsageError(
                f"this option belongs to bisecting {belongs}."
                if belongs == "commits"
                else f"this option needs {belongs}.",
                field=name,
                remedy="Leave it out.",
            )


def _git_state(repository: Path | None) -> Path:
    from assay.bisect.commits import git_folder

    return git_folder(repository or Path.cwd()) / "assay-bisect"


def _package_state(package: str) -> Path:
    from assay.home import find_home

    return find_home().path / "bisect" / package


def _commits(
    repository: Path | None,
    good: str,
    bad: str,
    folder: Path,
    first_parent: bool,
    build: str | None,
    timeout_s: float | None,
) -> Commits:
    from assay.bisect.commits import Commits

    return Commits(
        repository or Path.cwd(),
        good,
        bad,
        folder=folder.absolute(),
        first_parent=first_parent,
        build=build,
        timeout_s=timeout_s,
    )


def _packages(
    package: str,
    good: str,
    bad: str,
    command: str,
    folder: Path,
    requirements: tuple[str, ...],
    arguments: str,
    overlay: bool,
    build: str | None,
    timeout_s: float | None,
) -> Packages:
    from assay.bisect.packages import Packages

    return Packages(
        package,
        good,
        bad,
        command=command,
        folder=folder.absolute() / "environments",
        requirements=requirements,
        arguments=arguments,
        overlay=overlay,
        build=build,
        timeout_s=timeout_s,
    )


def _search(session: BisectionSession) -> BisectionReport:
    names = session.versions.versions
    what = "versions" if session.question.package else "commits"

    def started(resumed: int) -> None:
        ends = f"{names[0].short} (good) … {names[-1].short} (bad)"
        say(f"{len(names)} {what}, {ends}{f'; {resumed} runs are known already' if resumed else ''}")

    try:
        with _shown() as show:
            return session.run(show, started)
    except KeyboardInterrupt:
        say(f"interrupted; what was measured is in {session.folder}, and the same command goes on from there.")
        raise click.Abort from None


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """Give what shows progress: a live line in a terminal, and a line for each version of which the side is certain."""
    from rich.markup import escape

    console = notes()
    with console.status("") as status:

        def show(progress: Progress) -> None:
            low, high = progress.low.short, progress.high.short
            left = f"{progress.candidates} left, {low} … {high}; about {progress.left} runs to go"
            if progress.settled is None:
                status.update(escape(f"measuring {progress.version.short}: {left}"))
                return
            reason = f": {progress.reason.splitlines()[0]}" if progress.reason else ""
            console.print(
                f"{progress.version.short} {progress.settled.side}{reason}; {left}", markup=False, soft_wrap=True
            )

        yield show


def _figure(report: BisectionReport, value: float | None, low: float | None, high: float | None) -> str:
    """Write a figure with its interval in its unit."""
    if report.measure == "time":
        value, low, high = (None if each is None else each * 1e3 for each in (value, low, high))
    if report.unit in ("s", "ms") and value is not None and value > 0:
        return formatting.plain(formatting.latency(value, low, high))
    return formatting.plain(formatting.Scale(report.unit, 1.0).show(value, low, high)).replace("  ", " ").strip()


def _change(report: BisectionReport) -> str:
    """Write the change with its interval: as per cent, or as a difference where figures are not above 0."""
    change, low, high = (_size(report, each) for each in (report.change, report.low, report.high))
    return f"{change} (95 %: {low} to {high})"


def _size(report: BisectionReport, change: float | None) -> str:
    return _percent(change) if report.relative else f"{formatting.significant(change)} {report.unit}".rstrip()


def _has_other_causes(report: BisectionReport) -> bool:
    """Whether the first bad version makes only a part of the whole difference, with certainty."""
    if report.whole is None or report.low is None or report.high is None:
        return False
    return max(abs(report.low), abs(report.high)) < 0.8 * abs(report.whole)


def _percent(change: float | None) -> str:
    return f"{100 * (change or 0.0):+.1f} %"


def _tell(report: BisectionReport, session: BisectionSession) -> None:
    """Print a row a measured version with a picture of its interval, and the answer."""
    console = answers()
    console.print(grid(None, _columns(report), _rows(report)))
    short = {version.name: version.short for version in session.versions.versions}
    for line in _answer(report, short, session):
        console.print(line, markup=False)
    noun = "versions" if session.question.package else "commits"
    skipped = f", {report.skipped} skipped" if report.skipped else ""
    console.print(
        f"{report.measured} of {report.candidates} {noun} measured{skipped}, {report.runs} runs, {_duration(report.seconds)}",
        markup=False,
    )


def _answer(report: BisectionReport, short: dict[str, str], session: BisectionSession) -> Iterator[str]:
    """Yield the lines of the answer, the most important first."""
    good, bad = ((version.name, version) for version in (report.versions[0], report.versions[-1]))
    noun = "version" if session.question.package else "commit"
    sides = " vs ".join(_figure(report, each.value, each.low, each.high) for _, each in (good, bad))
    if report.outcome == "no-difference":
        seen = "both do the same" if report.measure == "check" else sides
        yield f"No difference between good and bad can be seen: {seen}. Nothing is bisected."
        return
    if report.outcome == "inverted":
        yield f"The bad one is better than the good one{'' if report.measure == 'check' else f': {sides}'}."
        yield "Swap --good and --bad, or say the other direction with --better."
        return
    before = short[report.before] if report.before else ""
    if report.first_bad is not None:
        title = f"  {shortened(report.title, 70)}" if report.title else ""
        likely = "Not confirmed, but likely the first bad" if report.outcome == "unconfirmed" else "First bad"
        yield f"{likely} {noun}: {short[report.first_bad]}{title}"
    else:
        yield f"First bad {noun}: one of {', '.join(short[name] for name in report.suspects)}; those between were skipped."
    if report.change is not None:
        yield f"{report.measure} against {before} before it: {_change(report)}"
    if report.outcome == "found" and _has_other_causes(report):
        yield f"Good and bad differ by {_size(report, report.whole)} in all: other {noun}s make the rest."
    if report.outcome == "unconfirmed":
        yield "Their intervals do not part: several commits may share the change, or the machine is too noisy."
    if report.merge and report.first_bad:
        name = short[report.first_bad]
        yield f"It is a merge; look at what it merged with --good {name}^1 --bad {name} --all-parents --restart."


def _columns(report: BisectionReport) -> list[str | tuple[str, str]]:
    columns: list[str | tuple[str, str]] = [("version", "fixed"), ("side", "fixed"), ("runs", "right")]
    if report.measure != "check":
        columns += [(f"{report.measure} (95 %)", "right"), (_axis(report), "fixed")]
    return [*columns, "why"] if _reasons(report) else columns


def _reasons(report: BisectionReport) -> bool:
    return any(version.reason for version in report.versions)


def _rows(report: BisectionReport) -> list[list[str | Text]]:
    rows: list[list[str | Text]] = []
    for version in report.versions:
        name = version.name[:12] if len(version.name) >= 40 else version.name
        row: list[str | Text] = [
            name + (" ◄" if version.name == report.first_bad else ""),
            Text(version.side, style=_SIDES[version.side]),
            str(len(version.values)),
        ]
        if report.measure != "check":
            row += [
                _figure(report, version.value, version.low, version.high),
                _bar(report, version.value, version.low, version.high),
            ]
        if _reasons(report):
            row.append((version.reason or "").partition("\n")[0].rstrip(":"))
        rows.append(row)
    return rows


def _range(report: BisectionReport) -> tuple[float, float]:
    known = [each for version in report.versions for each in (version.low, version.high) if each is not None]
    return (min(known), max(known)) if known else (0.0, 0.0)


def _width(report: BisectionReport) -> int:
    return _PICTURE // 2 if _reasons(report) else _PICTURE


def _axis(report: BisectionReport) -> str:
    """Write the ends of the picture's axis."""
    low, high = (_figure(report, each, None, None) for each in _range(report))
    return f"{low}{high:>{max(1, _width(report) - len(low))}}"


def _bar(report: BisectionReport, value: float | None, low: float | None, high: float | None) -> str:
    """Draw an interval with its median between the least and the largest of all."""
    first, last = _range(report)
    if value is None or low is None or high is None or last - first <= 1e-6 * abs(last):
        return ""
    scale = (_width(report) - 1) / (last - first)
    start, middle, end = (round((each - first) * scale) for each in (low, value, high))
    line = [" "] * start + ["─"] * (end - start + 1)
    if end - start > 1:
        line[start], line[end] = "├", "┤"
    line[middle] = "●"
    return "".join(line)


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
