"""What came of a comparison, written: JSON for programs, JUnit for test reports, SARIF for forges, Markdown for a comment."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import quote
from xml.etree import ElementTree

import msgspec

from assay import __version__
from domain.comparison.comparison_sides import NewestOutcome
from domain.comparison.regression import Change, EnvironmentChange, Report, Turn
from domain.comparison.thresholds import MEASURING
from domain.errors import UsageError
from domain.figures import FIGURES, Figure
from presentation import formatting
from presentation.markdown import code, literal

__all__ = ["FORMATS", "SUFFIXES", "between", "headline", "junit", "markdown", "percent", "sarif", "shown", "written"]

MARK = "<!-- assay regressions -->"
"""Begins the comment, so that the next run finds and replaces it."""
_JSON_HEAD = b'{\n "worse": '
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SARIF_HEAD = f'{{\n "$schema": "{SARIF_SCHEMA}",\n "version": "2.1.0",\n "runs": ['.encode()
CANNOT_TELL = "cannot tell"
"""What is said of a figure that would be worse if its rows were not suspect."""
ROWS = 30
NAMED = 5
"""Suspect rows that the outcome names; the JSON has all."""
COMMENT_LETTERS = 60_000
"""GitHub takes 65,536."""
_CONTROLS = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def headline(report: Report) -> str:
    """Return the outcome in a sentence."""
    if not report.compared:
        sentence = (
            f"Nothing was compared: {len(report.new)} new and {len(report.gone)} gone configurations, "
            f"{report.not_anew} not measured anew."
        )
        before, after = report.baseline_hardware, report.candidate_hardware
        if before and after and not set(before) & set(after):
            sentence += f" The baseline is of {', '.join(before)}, and the candidate of {', '.join(after)}."
        return sentence
    counts = {state: _count(report.changes, state) for state in ("worse", "unclear", "better", "same")}
    broken, mended = _count(report.turns, "worse"), _count(report.turns, "better")
    words = [
        *([f"{broken} no longer pass"] if broken else []),
        f"{counts['worse']} figures worse by more than {_threshold(report)}",
        *([f"{counts['unclear']} larger but uncertain"] if counts["unclear"] else []),
        *([f"{counts['better']} better"] if counts["better"] else []),
        *([f"{mended} pass again"] if mended else []),
        f"{counts['same']} the same",
    ]
    sentence = f"{report.compared} configurations compared: {', '.join(words)}."
    if report.undecided and not report.worse:
        events = dict.fromkeys(event for change in report.undecided for event in change.suspect)
        count = f"{len(events)} row{'' if len(events) == 1 else 's'}"
        named = ", ".join(list(events)[:NAMED]) + (" …" if len(events) > NAMED else "")
        sentence += f" Cannot tell whether anything got worse: {count} suspect or without an interval ({named})."
    return sentence


def _threshold(report: Report) -> str:
    """Return the threshold that all figures share, or that they have their own."""
    own = {change.alert for change in report.changes} - {report.alert}
    return "their thresholds" if own else f"{report.alert:.0%}"


def doubt(change: Change) -> str | None:
    """Return why a change is uncertain: beginning with "cannot tell" where suspect rows alone keep it from being worse."""
    return ": ".join(filter(None, (CANNOT_TELL, change.why))) if change.suspect else change.why


def _count(changes: Iterable[Change | Turn], state: str) -> int:
    return sum(item.state == state for item in changes)


def percent(value: float | None) -> str:
    """Write a change with its sign: `+23.0 %`; an em dash where it is not known."""
    if value is None:
        return formatting.MISSING
    return f"{'+' if value > 0 else formatting.MINUS if value < 0 else ''}{abs(value) * 100:.1f} %"


def shown(figure: Figure, unit: str, *, bare: bool = False) -> str:
    """Write a figure in the unit that people read, with its interval unless it is to be `bare`."""
    low, high = (None, None) if bare else (figure.low, figure.high)
    if unit == "ms":
        text = formatting.latency(figure.value, low, high)
    elif unit == "B":
        text = formatting.memory(figure.value, low, high)
    elif unit == "1/s":
        text = formatting.throughput(figure.value, low, high)
    else:
        text = f"{formatting.significant(figure.value)} {unit}"
    return formatting.plain(text)


class Measured(Protocol):
    """A change with its interval."""

    @property
    def change(self) -> float:
        """After over before less one."""

    @property
    def low(self) -> float | None:
        """Its lower end."""

    @property
    def high(self) -> float | None:
        """Its upper end."""


def between(change: Measured) -> str:
    """Write a change with its interval where there is one: `+30.0 % (+28.3 % to +31.7 %)`."""
    if change.low is None or change.high is None:
        return percent(change.change)
    return f"{percent(change.change)} ({percent(change.low)} to {percent(change.high)})"


def _json(report: Report) -> bytes:
    document = {"worse": report.worse, "headline": headline(report), **msgspec.to_builtins(report)}
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def junit(report: Report, failures: Sequence[NewestOutcome] = ()) -> bytes:
    """Return a test suite for what came out otherwise and one for figures: worse is a failure, uncertain is skipped.

    `failures` are configurations that could not be measured, each a failure of its own.
    """
    suites = ElementTree.Element("testsuites", name="assay regressions")
    functional = junit_suite(suites, "assay regressions: tests", _properties(report))
    for turn in report.turns:
        case = junit_case(functional, turn.title, turn.test or MEASURING)
        if turn.state == "worse":
            junit_note(case, "failure", f"{turn.before} before, {turn.after} now", turn.message or "", turn.evidence)
    listed = {turn.configuration for turn in report.turns if turn.state == "worse" and turn.test is None}
    for failure in failures:
        if failure.key not in listed:
            case = junit_case(functional, failure.title, MEASURING)
            said = f"{failure.outcome} at {failure.stage}" if failure.stage else failure.outcome
            junit_note(case, "failure", said, failure.message or "", [failure.event_id])
    speeds = junit_suite(suites, "assay regressions: figures", _properties(report))
    for change in report.changes:
        case = junit_case(speeds, change.title, change.column)
        said = f"{shown(change.before, change.unit)} before, {shown(change.after, change.unit)} now: {between(change)}"
        if change.state == "worse":
            junit_note(case, "failure", said, f"more than {change.alert:.0%} worse", change.evidence)
        elif change.state == "unclear":
            junit_note(case, "skipped", f"{said}; {doubt(change)}", "", change.evidence)
    return junit_document(suites)


def junit_document(suites: ElementTree.Element) -> bytes:
    """Return the document of test suites, with the counts of each."""
    for suite in suites:
        suite.set("tests", str(len(suite.findall("testcase"))))
        for name, tag in (("failures", "failure"), ("skipped", "skipped")):
            suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("errors", "0")
    ElementTree.indent(suites)
    content: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def junit_suite(parent: ElementTree.Element, name: str, values: Iterable[tuple[str, Any]]) -> ElementTree.Element:
    """Add a test suite with properties."""
    suite = ElementTree.SubElement(parent, "testsuite", name=name)
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in values:
        ElementTree.SubElement(properties, "property", name=clean(key), value=clean(str(value)))
    return suite


def _properties(report: Report) -> list[tuple[str, Any]]:
    return [
        ("baseline", report.baseline),
        ("candidate", report.candidate),
        ("alert", f"{report.alert:g}"),
        ("baseline_position", report.baseline_position),
        ("candidate_position", report.candidate_position),
        *(
            (f"environment {environment.hardware} {environment.part}", f"{environment.before} -> {environment.after}")
            for environment in report.environments
        ),
    ]


def junit_case(suite: ElementTree.Element, title: str, name: str) -> ElementTree.Element:
    """Add a test case to a suite."""
    return ElementTree.SubElement(suite, "testcase", classname=clean(title), name=clean(name), time="0")


def junit_note(case: ElementTree.Element, tag: str, message: str, text: str, evidence: Sequence[str]) -> None:
    """Add a failure or a skip to a test case, with the events that it rests on."""
    sub_element = ElementTree.SubElement(case, tag, message=clean(message))
    sub_element.text = clean("\n".join(filter(None, (text, f"events {' and '.join(evidence)}"))))


def clean(text: str) -> str:
    """Return a text without what XML and JSON cannot hold."""
    return _CONTROLS.sub("\ufffd", text)


def markdown(
    report: Report,
    *,
    title: str | None = None,
    summary: str | None = None,
    failures: Sequence[NewestOutcome] = (),
) -> bytes:
    """Return a comment: the outcome, changed environments, what no longer passes, what is slower, and the rest folded.

    `title` and `summary` replace the report's own; `failures` are configurations that could not be measured.
    """
    title = title or ("something got worse" if report.worse else _calm(report))
    lines = [MARK, f"### Assay: {title}", "", summary or headline(report), ""]
    baseline = _told(report.baseline, report.baseline_position)
    candidate = _told(report.candidate, report.candidate_position)
    own = " (others by a threshold of their own)" if any(each.alert != report.alert for each in report.changes) else ""
    lines += [f"Baseline {baseline}, candidate {candidate}, alert at {report.alert:.0%}{own}.", ""]
    lines += markdown_table(
        "Changed environments",
        ("hardware", "what", "before", "now", "configurations"),
        report.environments,
        _of_environment,
    )
    lines += markdown_table(
        "No longer passes", ("configuration", "test", "before", "now", "why"), _in(report.turns, "worse"), _of_turn
    )
    lines += markdown_table("Not measured", ("configuration", "outcome", "stage", "why"), failures, _of_failure)
    columns = ("configuration", "figure", "before", "now", "change (95 % interval)", "why")
    lines += markdown_table("Worse", columns, _in(report.changes, "worse"), _of_change)
    lines += markdown_table("Cannot tell", columns, report.undecided, _of_change)
    uncertain = [change for change in _in(report.changes, "unclear") if not change.suspect]
    lines += markdown_table("Larger than the threshold, but uncertain", columns, uncertain, _of_change)
    lines += markdown_table(
        "Passes again, or fails in another way",
        ("configuration", "test", "before", "now", "why"),
        _in(report.turns, "better", "other"),
        _of_turn,
    )
    lines += markdown_table("Better", columns, _in(report.changes, "better"), _of_change)
    for title, names in (
        ("New", report.new),
        ("Gone", report.gone),
        ("Of another origin, not compared", report.other_origin),
        ("Ignored", report.ignored),
        ("Unmatched thresholds", report.unmatched),
    ):
        lines += markdown_table(title, ("configuration",), names, lambda name: (name,))
    return limited(lines)


def _calm(report: Report) -> str:
    if report.undecided:
        return "cannot tell whether anything got worse"
    return "nothing got worse" if report.compared else "nothing was compared"


def _told(name: str, position: int | None) -> str:
    return code(name) if position is None or name == f"position {position}" else f"{code(name)} (position {position})"


def _in(values: Sequence[Any], *states: str) -> list[Any]:
    return [item for item in values if item.state in states]


def limited(lines: Sequence[str]) -> bytes:
    """Return a comment of these lines, cut where a forge would refuse it."""
    text = "\n".join(lines)
    if len(text) > COMMENT_LETTERS:
        text = text[:COMMENT_LETTERS].rpartition("\n")[0] + "\n\n… cut; the JSON has everything.\n"
    return text.rstrip("\n").encode() + b"\n"


def markdown_table(
    title: str, columns: Sequence[str], rows: Sequence[Any], cells: Callable[[Any], Sequence[str]]
) -> list[str]:
    """Return a table under a heading, of the first rows; nothing where there are none."""
    if not rows:
        return []
    body = ["| " + " | ".join(map(_cell, cells(row))) + " |" for row in rows[:ROWS]]
    more = [f"… and {len(rows) - ROWS} more."] if len(rows) > ROWS else []
    head = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return [f"#### {title} ({len(rows)})", "", *head, *body, *more, ""]


def _cell(text: str) -> str:
    return literal(" ".join(text.split())) or formatting.MISSING


def _of_environment(change: EnvironmentChange) -> tuple[str, ...]:
    return change.hardware, change.part, change.before or "", change.after or "", str(change.configurations)


def _of_turn(turn: Turn) -> tuple[str, ...]:
    return turn.title, turn.test or MEASURING, turn.before, turn.after, turn.message or ""


def _of_failure(case: NewestOutcome) -> tuple[str, ...]:
    return case.title, case.outcome, case.stage or "", (case.message or "").partition("\n")[0]


def _of_change(change: Change) -> tuple[str, ...]:
    return (
        change.title,
        change.column,
        shown(change.before, change.unit),
        shown(change.after, change.unit),
        between(change),
        doubt(change) or "",
    )


class SarifResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result of SARIF: `name` is the metric or test, `alike` names the configuration without versions."""

    rule: str
    name: str
    level: Literal["error", "warning", "note"]
    text: str
    title: str
    alike: str
    evidence: list[str]


_RULES = {
    "figure-worse": "A figure of a configuration is worse than its threshold allows.",
    "test-fails": "A test of a configuration passed and now does not.",
    "not-measured": "A configuration could not be measured.",
}


def sarif(report: Report, failures: Sequence[NewestOutcome] = (), *, artifact: str | None = None) -> bytes:
    """Return a SARIF 2.1.0 log: one result for what is worse (error), cannot be told (warning) or is uncertain (note).

    `artifact` is the file that results point at, since forges show none without: by default the candidate.
    `failures` are configurations that could not be measured. Fingerprints name configuration and metric across runs.
    """
    results = [*_turn_results(report), *_failure_results(report, failures), *_figure_results(report)]
    return sarif_log(results, artifact or report.candidate, {"headline": headline(report), "baseline": report.baseline})


def sarif_log(results: Iterable[SarifResult], artifact: str, properties: Mapping[str, Any]) -> bytes:
    """Return a SARIF 2.1.0 log of one run; its results point at the file `artifact`."""
    rules = [{"id": rule, "shortDescription": {"text": text}} for rule, text in _RULES.items()]
    place = {"artifactLocation": {"uri": quote(artifact)}, "region": {"startLine": 1}}
    document = {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "Assay", "version": __version__, "rules": rules}},
                "automationDetails": {"id": "assay/regressions/"},
                "results": [_sarif_result(result, place) for result in results],
                "columnKind": "unicodeCodePoints",
                "properties": properties,
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _sarif_result(result: SarifResult, place: Mapping[str, Any]) -> dict[str, Any]:
    fingerprint = hashlib.sha256(f"{result.alike}\0{result.rule}\0{result.name}".encode()).hexdigest()
    return {
        "ruleId": result.rule,
        "ruleIndex": list(_RULES).index(result.rule),
        "level": result.level,
        "message": {"text": clean(result.text).strip()},
        "locations": [
            {
                "physicalLocation": place,
                "logicalLocations": [
                    {"fullyQualifiedName": clean(f"{result.title} {result.name}"), "kind": "resource"}
                ],
            }
        ],
        "partialFingerprints": {"configurationMetric/v1": fingerprint},
        "properties": {"metric": result.name, "events": result.evidence},
    }


def _turn_results(report: Report) -> Iterator[SarifResult]:
    for turn in report.turns:
        if turn.state == "worse":
            yield SarifResult(
                rule="test-fails" if turn.test else "not-measured",
                name=turn.test or MEASURING,
                level="error",
                text=f"{turn.title}: {turn.test or MEASURING} was {turn.before} and is {turn.after}. {turn.message or ''}",
                title=turn.title,
                alike=turn.alike or turn.title,
                evidence=turn.evidence,
            )


def _failure_results(report: Report, failures: Sequence[NewestOutcome]) -> Iterator[SarifResult]:
    listed = {turn.configuration for turn in report.turns if turn.state == "worse" and turn.test is None}
    for case in failures:
        if case.key not in listed:
            yield SarifResult(
                rule="not-measured",
                name=MEASURING,
                level="error",
                text=f"{case.title} could not be measured: {case.outcome}. {case.message or ''}",
                title=case.title,
                alike=case.alike,
                evidence=[case.event_id],
            )


def _figure_results(report: Report) -> Iterator[SarifResult]:
    for change in report.changes:
        slower = (change.change > 0) == (FIGURES[change.column].better == "lower")
        if change.state not in ("worse", "unclear") or not slower:
            continue
        sides = f"{shown(change.before, change.unit)} before, {shown(change.after, change.unit)} now"
        why = f"; {doubt(change)}" if change.state == "unclear" else f", more than {change.alert:.0%} worse"
        yield SarifResult(
            rule="figure-worse",
            name=change.column,
            level="error" if change.state == "worse" else "warning" if change.suspect else "note",
            text=f"{change.title}: {change.column} {between(change)} ({sides}){why}.",
            title=change.title,
            alike=change.alike or change.title,
            evidence=change.evidence,
        )


FORMATS: Mapping[str, Callable[[Report], bytes]] = {
    "json": _json,
    "junit": junit,
    "markdown": markdown,
    "sarif": sarif,
}
SUFFIXES = {".json": "json", ".xml": "junit", ".md": "markdown", ".markdown": "markdown", ".sarif": "sarif"}


def is_report(path: Path) -> bool:
    """Return whether `written` made a file, by its beginning."""
    with path.open("rb") as file:
        head = file.read(200)
    return head.startswith((MARK.encode(), _JSON_HEAD, _SARIF_HEAD)) or b'<testsuites name="assay regressions"' in head


def form_of(path: Path) -> str:
    """Return the format that a file's suffix says; UsageError where it says none."""
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise UsageError(
            f"{path.name} says no format.", field="output_ci", remedy=f"Name a file {', '.join(SUFFIXES)}."
        )
    return form


def written(report: Report, form: str) -> bytes:
    """Return the report in a format of `FORMATS`."""
    return FORMATS[form](report)
