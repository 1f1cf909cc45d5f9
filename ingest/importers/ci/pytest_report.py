"""pytest's own reports: pytest-json-report's JSON (numirias/pytest-json-report) and pytest-reportlog's lines (pytest-dev).

pytest-json-report (`--json-report`, `.report.json`): `created` (Unix time), `environment` (Python, Platform, Packages), `tests`,
each with `nodeid`, `outcome` (passed, failed, error, skipped, xfailed, xpassed), the stages `setup`, `call`, `teardown`
(`duration` in s, `crash.message`, `longrepr`) and `metadata`, and `collectors`, of which those that failed are taken.

pytest-reportlog (`--report-log`): a JSON object a line, distinguished by `$report_type`. A test is up to three TestReport lines
(`when`: setup, call, teardown) with `nodeid`, `outcome`, `longrepr`, `user_properties`, `duration` and, from pytest 8 on, `start` and
`stop`; a CollectReport that failed is a test of its file. Other kinds of lines are passed over, as the format asks.

Classes are named as JUnit XML names them: `tests/test_bert.py::TestBert::test_forward` is `tests.test_bert.TestBert`. Captured output
and absolute paths are not taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ingest.importers.ci.reported_test import ReportedTest, draft_of, seconds_of
from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.members import moment, within, word
from ingest.importers.reading import BadFile, json_document, json_lines, text
from ingest.importers.refusals import BadRow, Refused

__all__ = ["PytestReport"]

_OUTCOMES = {
    "passed": "passed",
    "failed": "failed",
    "error": "error",
    "skipped": "skipped",
    "xfailed": "skipped",
    "xpassed": "passed",
}
_STAGES = ("setup", "call", "teardown")
_OPEN = 10_000
"""So many tests of a log may be under way at once, workers of pytest-xdist included."""
_LOG = re.compile(r'"\$report_type"\s*:')


class PytestReport:
    """pytest-json-report and pytest-reportlog."""

    name = "pytest-report"
    title = "pytest-json-report JSON and pytest-reportlog lines"

    def sniff(self, file: File) -> bool:
        """Return whether the head names the members of either."""
        head = file.head()
        if _LOG.search(head[:4000]):
            return True
        return all(f'"{name}"' in head for name in ("created", "exitcode", "root", "summary"))

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run with its tests; see Importer."""
        if _LOG.search(file.head()[:4000]):
            document = Document(file, self.name, source="pytest-reportlog")
            yield from document.events(_of_log(file, document))
            return
        report = json_document(file)
        if not isinstance(report, dict) or not isinstance(report.get("tests", []), list):
            raise BadFile("is not an object with a list of tests")
        made = environment(
            _packages(report), python=word(report, "environment.Python"), os=word(report, "environment.Platform")
        )
        document = Document(
            file, self.name, source="pytest-json-report", time=_moment(report.get("created")), environment=made
        )
        yield from document.events(_of_report(report, document))


def _of_report(report: dict[str, Any], document: Document) -> Iterator[Draft | Refused]:
    tests = report.get("tests", [])
    broken = [
        item for item in _listed(report.get("collectors")) if isinstance(item, dict) and item.get("outcome") == "failed"
    ]
    for row, test in enumerate([*tests, *broken], start=1):
        try:
            if not isinstance(test, dict):
                raise BadRow("test", "is not an object")
            yield draft_of(_case(test, row) if row <= len(tests) else _collector(test, row))
        except BadRow as bad:
            kept = {name: report[name] for name in ("created", "exitcode", "root") if name in report}
            content = json.dumps({**kept, "summary": {}, "tests": [test]})
            yield document.refused(bad.reason, row=row, field=bad.field, content=content)


def _case(test: dict[str, Any], row: int) -> ReportedTest:
    outcome = text(test, "outcome")
    if outcome not in _OUTCOMES:
        raise BadRow("outcome", f"{outcome!r} is no outcome of a test")
    classname, name = _node(test)
    stages = {stage: test[stage] for stage in _STAGES if isinstance(test.get(stage), dict)}
    failed = next((stage for stage in _STAGES if stages.get(stage, {}).get("outcome") in ("failed", "skipped")), "call")
    document = word(stages.get(failed), "crash.message") or word(stages.get(failed), "longrepr")
    metadata = test.get("metadata")
    durations = [spent for stage in stages.values() if (spent := seconds_of(stage, "duration")) is not None]
    return ReportedTest(
        name=name,
        classname=classname,
        outcome=_OUTCOMES[outcome],
        row=row,
        properties=metadata if isinstance(metadata, dict) else {},
        during=failed,
        message=document,
        seconds=sum(durations) if durations else None,
    )


def _collector(collector: dict[str, Any], row: int) -> ReportedTest:
    classname, name = _node(collector)
    return ReportedTest(
        name=name, classname=classname, outcome="error", row=row, during="collect", message=text(collector, "longrepr")
    )


def _of_log(file: File, document: Document) -> Iterator[Draft | Refused]:
    made: dict[str, Any] | None = None
    under_way: dict[str, tuple[int, list[dict[str, Any]]]] = {}
    for row, line in json_lines(file):
        if isinstance(line, BadFile):
            yield document.refused(line.reason, row=row)
            continue
        kind = line.get("$report_type") if isinstance(line, dict) else None
        if kind == "SessionStart":
            version = text(line, "pytest_version")
            made = environment({"pytest": version}) if version else None
        elif kind == "CollectReport" and line.get("outcome") == "failed":
            yield _judged(row, [{**line, "when": "collect"}], made, document)
        elif kind == "TestReport":
            node = text(line, "nodeid") or ""
            key = f"{node}\0{line.get('worker_id', '')}"
            first, reports = under_way.setdefault(key, (row, []))
            reports.append(line)
            if line.get("when") == "teardown" or len(reports) > 100 or len(under_way) > _OPEN:
                del under_way[key]
                yield _judged(first, reports, made, document)
    for first, reports in under_way.values():
        yield _judged(first, reports, made, document)


def _judged(
    row: int, reports: list[dict[str, Any]], made: dict[str, Any] | None, document: Document
) -> Draft | Refused:
    try:
        return draft_of(_logged(row, reports, made))
    except BadRow as bad:
        return document.refused(
            bad.reason, row=row, field=bad.field, content="\n".join(json.dumps(report) for report in reports)
        )


def _logged(row: int, reports: list[dict[str, Any]], made: dict[str, Any] | None) -> ReportedTest:
    """Return the case that the lines of one test tell. The last stage that failed counts: a test that was run again may pass."""
    classname, name = _node(reports[0])
    last = {text(report, "when") or "call": report for report in reports if report.get("outcome") != "rerun"}
    bad = next((when for when in ("collect", *_STAGES) if last.get(when, {}).get("outcome") == "failed"), None)
    skipped = next((when for when in _STAGES if last.get(when, {}).get("outcome") == "skipped"), None)
    outcome = "passed" if bad is None else "failed" if bad == "call" else "error"
    if bad is None and skipped is not None:
        outcome = "skipped"
    document = last.get(bad or skipped or "call", {})
    message = (
        word(document, "longrepr.reprcrash.message") or text(document, "wasxfail") or _reason(document.get("longrepr"))
    )
    properties = {
        str(pair[0]): pair[1]
        for report in reports
        for pair in _listed(report.get("user_properties"))
        if isinstance(pair, list) and len(pair) == 2
    }
    durations = [spent for item in last.values() if (spent := seconds_of(item, "duration")) is not None]
    return ReportedTest(
        name=name,
        classname=classname,
        outcome=outcome,
        row=row,
        properties=properties,
        during=bad or "call",
        message=message,
        seconds=sum(durations) if durations else None,
        time=next((when for report in reports if (when := _moment(report.get("start"))) is not None), None),
        environment=made,
    )


def _reason(longrepr: Any) -> str | None:
    """Return the reason of a skip, [path, line, reason], or a text."""
    if isinstance(longrepr, list) and len(longrepr) == 3:
        return str(longrepr[2]).removeprefix("Skipped: ")
    return longrepr if isinstance(longrepr, str) else None


def _node(test: dict[str, Any]) -> tuple[str, str]:
    """Return class and name of a node, as JUnit XML names them."""
    node = text(test, "nodeid")
    if node is None:
        raise BadRow("nodeid", "is missing")
    path, bracket, parameters = node.partition("[")
    parts = path.split("::")
    parts[0] = re.sub(r"\.py$", "", parts[0]).replace("/", ".").strip(".")
    if len(parts) == 1:
        return "", parts[0]
    return ".".join(parts[:-1]), parts[-1] + bracket + parameters


def _packages(report: dict[str, Any]) -> dict[str, str]:
    result = within(report, "environment.Packages")
    return {str(name): str(version) for name, version in result.items()} if isinstance(result, dict) else {}


def _moment(said: Any) -> str | None:
    try:
        return moment(said, "created")
    except BadRow:
        return None


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
