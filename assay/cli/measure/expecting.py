"""`assay verify --record`, `--expect`: what verification finds, kept in a file or compared with one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.markup import escape

from assay.cli.output import answers, say
from assay.cli.output_files import OutputFile
from domain.errors import UsageError

if TYPE_CHECKING:
    from domain.payloads import TestReported
    from runner.campaign.expectations import Difference

__all__ = ["Expecting", "expected_and_recorded", "expecting"]

Expecting = Callable[[Sequence[dict[str, Any]], Path | None], int]
"""Takes the events of a verification and the file that it resumed; returns the exit code of the comparison."""
_FILE = click.Path(dir_okay=False, path_type=Path)


def expected_and_recorded(verb: Any) -> Any:
    """Add `--expect` and `--record`."""
    verb = click.option(
        "--record",
        type=OutputFile(replaces=_holds_expectations),
        metavar="FILE",
        help="Keep what is found as expectations; a file of expectations is made anew.",
    )(verb)
    return click.option(
        "--expect", type=_FILE, metavar="FILE", help="Compare what is found with expectations kept earlier."
    )(verb)


def expecting(record: Path | None, expect: Path | None, *, as_json: bool) -> Expecting:
    """Return what compares and keeps the outcome; a file that cannot be read or written is a UsageError at once."""
    from assay.staging import Staged
    from runner.campaign.expectations import compare_tests, expectations_of, read, write

    expected = read(expect) if expect else None

    def settle(events: Sequence[dict[str, Any]], resumed: Path | None) -> int:
        tests = list(_tests([*_lines(resumed), *events]))
        differences = compare_tests(expected, tests) if expected else []
        if expected:
            for line in _told(differences):
                say(escape(line)) if as_json else answers().print(line, highlight=False, markup=False, soft_wrap=True)
        if record:
            with Staged(force=True) as staged:
                write(staged.file(record), expectations_of(tests))
            say(f"expectations written to {record}; compare with --expect {record}")
        return 1 if any(each.state in ("different", "missing") for each in differences) else 0

    return settle


def _holds_expectations(path: Path) -> bool:
    from runner.campaign.expectations import read

    try:
        read(path)
    except UsageError:
        return False
    return True


def _lines(path: Path | None) -> Iterable[dict[str, Any]]:
    import msgspec

    from runner.spool.event_file import read_lines

    return map(msgspec.json.decode, read_lines(path, whole_only=True)) if path else ()


def _tests(events: Iterable[dict[str, Any]]) -> Iterable[TestReported]:
    import msgspec

    from domain.events import TEST_REPORTED
    from domain.payloads import TestReported

    return (msgspec.convert(event["data"], TestReported) for event in events if event["type"] == TEST_REPORTED)


def _told(differences: Sequence[Difference]) -> Iterable[str]:
    """Yield a line on all cases, and one on each that is not the same with what else was not as it was."""
    counts = Counter(each.state for each in differences)
    yield "Expected against collected: " + ", ".join(
        f"{counts[state]} {state}" for state in ("same", "different", "new", "missing")
    )
    for each in differences:
        if each.state == "same":
            continue
        why = f" What else changed: {'; '.join(each.explained)}." if each.explained else ""
        if each.state == "different" and not each.explained:
            why = " Nothing else that is recorded has changed."
        yield f"{each.state}: {_case(each.asked)}" + (f": {'; '.join(each.found)}." if each.found else "") + why


def _case(request: dict[str, Any]) -> str:
    work = {name: value for name, value in request["workload"].items() if name not in ("mode", "scenario")}
    sizes = ", ".join(f"{name} {value}" for name, value in work.items())
    return f"{request['model']} {request['platform']} {request['precision']} {request['workload']['mode']} ({sizes})"
