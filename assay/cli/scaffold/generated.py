"""The text of a test file: the lines between two marks are made from the log, all others are the user's."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.cli.scaffold.recorded import KnownFailure
from assay.testing import Case, Expected, Output
from domain.errors import UsageError

__all__ = ["LINES", "Planned", "diff", "file_name", "fitting", "new_text", "refreshed"]

LINES = 60
"""The most lines of a file."""
_WIDTH = 88
_BEGIN, _END = "# assay begins here", "# assay ends here"
_HEAD = '''"""{model} as the log of Assay has it: what ran, what it gave and how fast.

Written by `assay scaffold test`. `--refresh` renews the lines between the marks.
"""

import pytest
from assay import testing

'''
_TESTS = """

@pytest.mark.parametrize("expected", EXPECTED, ids=str)
def test_device(expected: testing.Expected) -> None:
    testing.check_device(expected)


@pytest.mark.parametrize("expected", EXPECTED, ids=str)
def test_outputs(expected: testing.Expected) -> None:
    testing.check_outputs(expected)


@pytest.mark.parametrize("expected", EXPECTED, ids=str)
def test_time(expected: testing.Expected) -> None:
    testing.check_time(expected)
"""
_KNOWN = """

@pytest.mark.parametrize("case", KNOWN_FAILURES, ids=str)
def test_known_failure(case: testing.Case) -> None:
    testing.check_runs(case)
"""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds: expectations and known failures, and what was left out because a file has 60 lines."""

    model: str
    expected: list[Expected]
    failures: list[tuple[Case, KnownFailure]] = []
    left_out: list[str] = []


def file_name(model: str) -> str:
    """Return the name of a model's test file: `test_bert_tiny.py`."""
    short = Path(model).name if model.startswith((".", "/", "~")) else model.rpartition("/")[2]
    return f"test_{re.sub(r'[^a-z0-9]+', '_', short.lower()).strip('_') or 'model'}.py"


def fitting(model: str, expected: Sequence[Expected], failures: Sequence[tuple[Case, KnownFailure]]) -> Planned:
    """Return the first of them for which a file has room; the others are named in `left_out`.

    Of several outputs a case keeps the first and the last, or the last alone where that makes room for more cases.
    """
    whole = _fitting(model, expected, failures)
    if not whole.left_out:
        return whole
    short = [msgspec.structs.replace(each, gave=dict(list(each.gave.items())[-1:])) for each in expected]
    return _fitting(model, short, failures)


def _fitting(model: str, expected: Sequence[Expected], failures: Sequence[tuple[Case, KnownFailure]]) -> Planned:
    planned = Planned(model=model, expected=[])
    # The first case of each platform, then what is known to fail, then further cases.
    first = len({each.case.platform for each in expected})
    entries: list[Expected | tuple[Case, KnownFailure]] = [*expected[:first], *failures, *expected[first:]]
    for entry in entries:
        if isinstance(entry, Expected):
            name, larger = str(entry), msgspec.structs.replace(planned, expected=[*planned.expected, entry])
        else:
            name = f"{entry[0]} (known to fail)"
            larger = msgspec.structs.replace(planned, failures=[*planned.failures, entry])
        fits = new_text(larger).count("\n") <= LINES
        planned = larger if fits else msgspec.structs.replace(planned, left_out=[*planned.left_out, name])
    return planned


def new_text(planned: Planned) -> str:
    """Return a whole new file."""
    tests = _TESTS if planned.expected else ""
    known = _KNOWN if planned.failures else ""
    name = planned.model.replace("\\", "\\\\").replace('"', '\\"')
    return _HEAD.format(model=name) + _block(planned) + tests + known


def refreshed(text: str, planned: Planned, path: Path) -> str:
    """Return the text of a file with its generated lines renewed; UsageError where it has no marks."""
    lines = text.splitlines(keepends=True)
    marks = [place for place, line in enumerate(lines) if line.rstrip() in (_BEGIN, _END)]
    if [lines[place].rstrip() for place in marks] != [_BEGIN, _END]:
        raise UsageError(
            f"{path} has no lines between `{_BEGIN}` and `{_END}`, once and in this order.",
            field="refresh",
            remedy="Bring the two marks back, or move the file away and let it be written anew.",
        )
    renewed = "".join([*lines[: marks[0]], _block(planned), *lines[marks[1] + 1 :]])
    # The first failures of a model need the test that runs them.
    return renewed if not planned.failures or "KNOWN_FAILURES, ids" in renewed else renewed.rstrip("\n") + "\n" + _KNOWN


def diff(path: Path, before: str, after: str) -> str:
    """Return the unified diff of a file, empty where nothing changes."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"{path} (now)", f"{path} (refreshed)"
    )
    return "".join(lines)


def _block(planned: Planned) -> str:
    lines = [_BEGIN, f"MODEL = {_literal(planned.model)}"]
    lines += ["EXPECTED: list[testing.Expected] = []"] if not planned.expected else ["EXPECTED = ["]
    for expected in planned.expected:
        lines += _expected(expected)
    lines += ["]"] if planned.expected else []
    if planned.failures:
        lines += ["KNOWN_FAILURES = ["]
        for case, failure in planned.failures:
            reason = failure.reason.splitlines()[0].replace('"', "'")
            short = reason if len(reason) <= 60 else f"{reason[:59].rstrip()}…"
            marks = _call(
                "pytest.mark.xfail", [f"reason={_literal(short)}", "strict=True"], 8, before="marks=", after=","
            )
            lines += ["    pytest.param(", f"        # {failure.event_id}", *_case(case, 8), *marks, "    ),"]
        lines += ["]"]
    return "\n".join([*lines, _END, ""])


def _expected(expected: Expected) -> list[str]:
    lines = ["    testing.Expected(", *_case(expected.case, 8)]
    if expected.ran:
        lines += _call("testing.Ran", _arguments(expected.ran, positional=2), 8, before="ran=", after=",")
    if expected.gave:
        lines += _outputs(expected.gave)
    if expected.took:
        lines += _call("testing.Time", _arguments(expected.took, positional=1), 8, before="took=", after=",")
    lines += [
        f"        {name}={_literal(value)},"
        for name, value in (("tested", expected.tested), ("measured", expected.measured))
        if value
    ]
    return [*lines, "    ),"]


def _outputs(gave: dict[str, Output | list[Any]]) -> list[str]:
    pairs = [f"{_literal(name)}: {_output(output)}" for name, output in gave.items()]
    line = f"        gave={{{', '.join(pairs)}}},"
    if len(line) <= _WIDTH:
        return [line]
    lines = ["        gave={"]
    for name, output in gave.items():
        whole = f"            {_literal(name)}: {_output(output)},"
        if isinstance(output, Output) and len(whole) > _WIDTH:
            arguments = [_literal(output.norm), _literal(output.values)]
            lines += _call("testing.Output", arguments, 12, f"{_literal(name)}: ", ",")
        else:
            lines.append(whole)
    return [*lines, "        },"]


def _output(output: Output | list[Any]) -> str:
    if isinstance(output, Output):
        return f"testing.Output({_literal(output.norm)}, {_literal(output.values)})"
    return _literal(output)


def _case(case: Case, indent: int) -> list[str]:
    arguments = ["MODEL", *_arguments(case, positional=3)[1:]]
    return _call("testing.Case", arguments, indent, after=",")


def _arguments(struct: msgspec.Struct, *, positional: int) -> list[str]:
    """Return the arguments that make a struct: the first by place, the others by name where they are not the default."""
    arguments: list[str] = []
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if len(arguments) < positional:
            arguments.append(_literal(value))
        elif field.required or value != field.default:
            arguments.append(f"{field.name}={_literal(value)}")
    return arguments


def _literal(value: Any) -> str:
    """Return a value as the formatters of Python write it: strings between double quotes."""
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_literal, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def _call(name: str, arguments: Sequence[str], indent: int, before: str = "", after: str = "") -> list[str]:
    """Return a call as ruff formats it: on one line, its arguments on one of their own, or each on one of its own."""
    spaces = " " * indent
    line = f"{spaces}{before}{name}({', '.join(arguments)}){after}"
    if len(line) <= _WIDTH:
        return [line]
    inner = f"{spaces}    {', '.join(arguments)}"
    if len(inner) <= _WIDTH:
        return [f"{spaces}{before}{name}(", inner, f"{spaces}){after}"]
    return [f"{spaces}{before}{name}(", *(f"{spaces}    {argument}," for argument in arguments), f"{spaces}){after}"]
