"""One run of the command: in its own process group, under a time limit, with its output in files, and the figure of it."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NoReturn

import msgspec

from assay.bisect.versions import Prepared
from domain.errors import UsageError
from domain.figures import FIGURES

__all__ = ["OUT", "SKIP", "Measure", "Unmeasurable", "compiled", "execute", "measured", "tail"]

SKIP = 125
"""The exit code by which a command says that its version cannot be judged, as with `git bisect run`."""
OUT = "{out}"
LAST = "last"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TAIL_LINES = 12
_TAIL_BYTES = 4000


class Measure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of a run is compared: its wall time, a figure of its events, a number that it prints, or its exit code.

    `column`: of the events; `number`: a regular expression, or `last` for the last number on stdout.
    """

    kind: Literal["time", "events", "number", "check"] = "time"
    column: str | None = None
    number: str | None = None
    better: Literal["lower", "higher"] = "lower"

    @property
    def unit(self) -> str:
        """The unit of the figure, empty where it is not known."""
        if self.kind == "time":
            return "s"
        return FIGURES[self.column].unit if self.column else ""


class Unmeasurable(Exception):
    """A run that gave no figure; the message says why, with the last lines of what it printed."""


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    seconds: float
    timed_out: bool


def execute(
    command: str | Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    output: Path,
    errors: Path | None = None,
    timeout_s: float | None = None,
) -> _Run:
    """Run a command, or a line of the shell, and end all that it started; its output is added to the files."""
    from runner.protocol.parent import end_tree

    with output.open("ab") as out, (errors or output).open("ab") as err:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            shell=isinstance(command, str),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        timed_out = threading.Event()

        def expire() -> None:
            timed_out.set()
            end_tree(process)

        timer = threading.Timer(timeout_s, expire) if timeout_s is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            # Waiting with a time limit would look at the process every 50 ms, and round its time to that.
            code = process.wait()
            seconds = time.perf_counter() - started
        finally:
            if timer is not None:
                timer.cancel()
            end_tree(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
    return _Run(code=code, seconds=seconds, timed_out=timed_out.is_set())


def measured(command: str, measure: Measure, prepared: Prepared, log: Path, *, timeout_s: float | None = None) -> float:
    """Run the command once and return its figure; Unmeasurable where there is none. `log` is a path without suffix."""
    output, errors, events = (log.with_name(f"{log.name}.{suffix}") for suffix in ("out", "err", "ndjson"))
    quoted = f'"{events}"' if sys.platform == "win32" else shlex.quote(str(events))
    run = execute(
        command.replace(OUT, quoted),
        folder=prepared.folder,
        environment=prepared.environment,
        output=output,
        errors=errors,
        timeout_s=timeout_s,
    )
    why = f"took more than {timeout_s:g} s" if run.timed_out else _why(run.code)
    if run.code == SKIP and not run.timed_out:
        raise Unmeasurable(f"the command ended with {SKIP}, which means skip")
    if measure.kind == "check":
        return float(run.timed_out or run.code != 0)
    if run.timed_out or run.code != 0:
        raise Unmeasurable(f"the command {why}{tail(errors, output)}")
    if measure.kind == "time":
        return run.seconds
    return _event_figure(events, measure) if measure.kind == "events" else _number(output, measure)


def _why(code: int) -> str:
    if code == 127:
        return "ended with 127: the shell did not find it"
    return f"was ended by signal {-code}" if code < 0 else f"ended with {code}"


def tail(*logs: Path) -> str:
    """Return the last lines of the first log that has any, indented below a colon; nothing where none has."""
    for log in logs:
        text = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip() if log.is_file() else ""
        if text:
            return ":\n" + "\n".join(f"  {line}" for line in text.splitlines()[-_TAIL_LINES:])
    return ""


def compiled(number: str) -> re.Pattern[str]:
    """Return the expression that finds a number on stdout; UsageError where it is none, or has several groups."""
    try:
        pattern = re.compile(f"({_NUMBER})" if number == LAST else number, re.MULTILINE)
    except re.error as error:
        raise UsageError(
            f"{number!r} is not a regular expression: {error}.",
            field="number",
            remedy=r"Write one with one group, such as 'p50 ([\d.]+) ms', or `last`.",
        ) from error
    if pattern.groups > 1:
        raise UsageError(
            f"{number!r} has {pattern.groups} groups.",
            field="number",
            remedy="Put one pair of parentheses around the number; (?:…) groups without counting.",
        )
    return pattern


def _number(output: Path, measure: Measure) -> float:
    """Return the last number on stdout that the expression finds."""
    text = output.read_text(encoding="utf-8", errors="replace")
    matches = compiled(measure.number or LAST).findall(text)
    if not matches:
        printed = "nothing" if not text.strip() else f"no such number{tail(output)}"
        raise Unmeasurable(f"--number finds nothing: the command printed {printed}")
    try:
        value = float(matches[-1])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Unmeasurable(f"{matches[-1]!r}, which --number finds, is not a finite number")
    return value


def _event_figure(path: Path, measure: Measure) -> float:
    """Return the figure of the one configuration that the events are of."""
    from assay.regressions import read_side

    def no_service() -> NoReturn:
        raise AssertionError("a file needs no service")

    if not path.is_file():
        raise Unmeasurable(f"the command wrote no events to {OUT}")
    try:
        side = read_side(str(path), no_service, {}, field="run")
    except UsageError as error:
        raise Unmeasurable(error.detail) from error
    if len(side.measured) != 1:
        failures = [case.message for case in side.cases if case.message]
        why = f": {failures[0]}" if failures and not side.measured else ""
        raise Unmeasurable(f"the events hold {len(side.measured)} configurations instead of one{why}")
    figures = side.measured[0].figures
    if measure.column not in figures:
        raise Unmeasurable(f"the events have no {measure.column}; they have {', '.join(figures)}")
    return figures[measure.column].value
