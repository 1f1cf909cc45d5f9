"""What was found in histories, written: JSON for programs, JUnit and SARIF for CI, Markdown for a comment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from xml.etree import ElementTree

import msgspec

from assay.regressions.writing import (
    CANNOT_TELL,
    MARK,
    SarifResult,
    between,
    junit_case,
    junit_document,
    junit_note,
    junit_suite,
    limited,
    markdown_table,
    sarif_log,
    shown,
)
from domain.answers.histories import HistoryReports
from domain.figures import Figure
from domain.history.history import Change, HistoryReport
from domain.history.history_rows import POINTS_NEEDED
from presentation import formatting

__all__ = [
    "FORMATS",
    "cause_of",
    "headline",
    "is_worse",
    "newest_suspect",
    "only_recent",
    "range_of",
    "size_of",
    "values_of",
]


def only_recent(reports: HistoryReports, days: float) -> HistoryReports:
    """Return the reports without changes that ended more than so many days before the newest change or point known."""
    times = [change.last_time for report in reports.reports for change in report.changes if change.last_time]
    if not times:
        return reports
    oldest = max(times) - timedelta(days=days)
    kept = [
        msgspec.structs.replace(
            report, changes=[each for each in report.changes if each.last_time is None or each.last_time >= oldest]
        )
        for report in reports.reports
    ]
    return msgspec.structs.replace(reports, reports=kept)


def is_worse(reports: HistoryReports) -> bool:
    """Return whether a change for the worse is confirmed."""
    return any(change.state == "worse" for report in reports.reports for change in report.changes)


def newest_suspect(report: HistoryReport) -> str | None:
    """Return the event of the newest point where it is suspect: no later point says whether it is a change."""
    newest = report.suspect[-1] if report.suspect else None
    return newest if report.levels and newest == report.levels[-1].last else None


def headline(reports: HistoryReports) -> str:
    """Return the outcome in a sentence or two, with how many points short histories lack."""
    changes = [change for report in reports.reports for change in report.changes]
    counts = [sum(change.state == state for change in changes) for state in ("worse", "better")]
    suspect = sum(newest_suspect(report) is not None for report in reports.reports)
    plural = "y" if reports.histories == 1 else "ies"
    sentence = f"{reports.histories} histor{plural}: {counts[0]} confirmed worse, {counts[1]} confirmed better."
    if suspect:
        sentence += f" Cannot tell of {suspect}: the newest point is suspect, and later ones have to confirm it."
    short = [report.points for report in reports.reports if report.points < POINTS_NEEDED]
    if short:
        sentence += (
            f" {len(short)} with fewer than {POINTS_NEEDED} points: nothing can be confirmed there; the longest has "
            f"{max(short)}, {POINTS_NEEDED - max(short)} more are needed."
        )
    return sentence


def values_of(change: Change) -> tuple[str, str]:
    """Return what a figure was and is in the unit that people read, or that a test passed and fails."""
    if change.kind == "functional":
        words = ("passed", "fails")
        return words if change.state == "worse" else (words[1], "passes")
    before, after = (shown(Figure(value=value), change.unit, bare=True) for value in (change.before, change.after))
    return before, after


def size_of(change: Change) -> str:
    """Return how large a change is, with its interval; what a test did needs no size."""
    return "" if change.kind == "functional" else between(change)


def range_of(change: Change) -> str:
    """Return in which range it happened: times, else events, and the commits or versions where they differ."""
    ends = [formatting.when(time) if time else None for time in (change.first_time, change.last_time)]
    first, last = (end or event for end, event in zip(ends, (change.first, change.last), strict=True))
    parts = [f"{first} – {last}"]
    for name, pair in (("commits", change.commits), ("versions", change.versions)):
        old, new = (value and (formatting.digest(value) if name == "commits" else value) for value in pair)
        if old != new:
            parts.append(f"{old or formatting.MISSING} → {new or formatting.MISSING}")
    return "; ".join(parts)


def cause_of(change: Change) -> str:
    """Return the candidate causes that are not the version or commit of the range, at most three."""
    causes = [cause for cause in change.causes if cause.part not in ("commit", "runtime")]
    words = [
        f"{cause.part} {cause.before or formatting.MISSING} → {cause.after or formatting.MISSING}"
        for cause in causes[:3]
    ]
    return ", ".join(words) + (f" and {len(causes) - 3} more" if len(causes) > 3 else "")


def _json(reports: HistoryReports, artifact: str) -> bytes:  # noqa: ARG001 - the form of every writer
    document = {"worse": is_worse(reports), "headline": headline(reports), **msgspec.to_builtins(reports)}
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _junit(reports: HistoryReports, artifact: str) -> bytes:  # noqa: ARG001
    """Return a test suite with one case a history: worse is a failure, a suspect newest point is skipped."""
    suites = ElementTree.Element("testsuites", name="assay regressions")
    values = (("histories", reports.histories), ("position", reports.position))
    suite = junit_suite(suites, "assay regressions: histories", values)
    for report in reports.reports:
        case = junit_case(suite, report.title, report.metric)
        worse = [change for change in report.changes if change.state == "worse"]
        for change in worse:
            junit_note(case, "failure", _sentence(change), cause_of(change), [change.first, change.last])
        if not worse and (event := newest_suspect(report)):
            junit_note(case, "skipped", f"{CANNOT_TELL}: the newest point is suspect", "", [event])
    return junit_document(suites)


def _sentence(change: Change) -> str:
    before, after = values_of(change)
    parts = (f"{change.kind} from {before} to {after}", size_of(change), range_of(change))
    return ", ".join(part for part in parts if part)


def _sarif(reports: HistoryReports, artifact: str) -> bytes:
    return sarif_log(_results(reports), artifact, {"headline": headline(reports)})


def _results(reports: HistoryReports) -> Iterator[SarifResult]:
    for report in reports.reports:
        rule = "test-fails" if report.kind == "functional" else "figure-worse"
        place = {"rule": rule, "name": report.metric, "title": report.title, "alike": report.alike}
        for change in report.changes:
            if change.state == "worse":
                causes = f" Candidate causes: {cause_of(change)}." if cause_of(change) else ""
                text = f"{report.title}: {report.metric}, {_sentence(change)}.{causes}"
                yield SarifResult(**place, level="error", text=text, evidence=[change.first, change.last])
        if event := newest_suspect(report):
            text = f"{report.title}: {report.metric}, {CANNOT_TELL}: the newest point is suspect."
            yield SarifResult(**place, level="warning", text=text, evidence=[event])


def _markdown(reports: HistoryReports, artifact: str) -> bytes:  # noqa: ARG001
    suspect = [report for report in reports.reports if newest_suspect(report)]
    title = "confirmed changes for the worse" if is_worse(reports) else "no confirmed change for the worse"
    lines = [MARK, f"### Assay: {title}", "", headline(reports), ""]
    columns = ("configuration", "figure", "before", "now", "change (95 % interval)", "range", "candidate causes")
    for state, heading in (("worse", "Worse"), ("better", "Better")):
        rows = [change for report in reports.reports for change in report.changes if change.state == state]
        lines += markdown_table(heading, columns, rows, _cells)
    lines += markdown_table(
        "Cannot tell",
        ("configuration", "figure", "suspect point"),
        suspect,
        lambda report: (report.title, report.metric, report.suspect[-1]),
    )
    return limited(lines)


def _cells(change: Change) -> Sequence[str]:
    return (change.title, change.metric, *values_of(change), size_of(change), range_of(change), cause_of(change))


FORMATS: Mapping[str, Callable[[HistoryReports, str], bytes]] = {
    "json": _json,
    "junit": _junit,
    "markdown": _markdown,
    "sarif": _sarif,
}
