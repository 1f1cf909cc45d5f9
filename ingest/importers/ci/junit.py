"""JUnit XML, as pytest (`--junitxml`), Maven Surefire, Gradle, CTest, gtest, jest-junit and most others write it.

`<testsuites>` or `<testsuite>` hold suites (`name`, `timestamp`, `hostname`), `<properties><property name= value=>`, and
`<testcase classname= name= time=>`, which holds nothing where the test passed, or `<failure>`, `<error>` (`type`, `message`, text),
`<skipped>`, its own `<properties>`, and output, which is not taken, as hosts are not. Times are seconds; a timestamp without an
offset is UTC, as the schema says.

The file is read as a stream, with what one case holds in memory. Document type declarations are refused: no test runner
writes one, and entities are how a few lines of XML become gigabytes.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

from ingest.importers.ci.reported_test import ReportedTest, draft_of, seconds_of
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.members import moment
from ingest.importers.reading import BadFile
from ingest.importers.refusals import BadRow, Refused

__all__ = ["JUnit"]

_PIECE = 1 << 18
_TEXT = 20_000
"""So many characters of a failure's text are read; the rest is a traceback nobody reads in a table."""
_DEPTH = 64
_STAGED = re.compile(r'failed on (?P<when>setup|teardown) with "(?P<message>.*?)"?', re.DOTALL)
_OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}
_SEVERITY = ("passed", "skipped", "failed", "error")


class JUnit:
    """Reports of test runners in JUnit's XML."""

    name = "junit"
    title = "JUnit XML (pytest --junitxml, Surefire, Gradle, CTest, jest-junit …)"

    def sniff(self, file: File) -> bool:
        """Return whether the head is XML with a suite of tests."""
        head = file.head().lstrip()
        return head.startswith("<") and ("<testsuite" in head[:4000] or "<testcase" in head[:4000])

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run with its tests; see Importer."""
        document = Document(file, self.name, source="JUnit XML report")
        yield from document.events(_drafts(file, document))


def _drafts(file: File, document: Document) -> Iterator[Draft | Refused]:
    for case in _cases(file):
        try:
            yield draft_of(case.case())
        except BadRow as bad:
            yield document.refused(bad.reason, row=case.row, field=bad.field, content=case.alone())


class _Found:
    """A test case while it is read: its attributes, its properties and what came of it."""

    def __init__(self, attributes: dict[str, str], row: int, suite: _Suite) -> None:
        self.attributes = attributes
        self.row = row
        self.suite = suite
        self.properties: dict[str, str] = {}
        self.results: list[tuple[str, dict[str, str], list[str]]] = []

    def case(self) -> ReportedTest:
        """Return it as a test case; of several results the worst counts: a failure, and an error while tearing down."""
        worst = max(self.results, key=lambda item: _SEVERITY.index(_OUTCOMES[item[0]]), default=None)
        outcome, said, written = (_OUTCOMES[worst[0]], worst[1], "".join(worst[2])) if worst else ("passed", {}, "")
        message = said.get("message", "").strip() or written.strip()
        classname = self.attributes.get("classname", self.suite.name)
        during = "call"
        if match := _STAGED.fullmatch(message):
            during, message = match["when"], match["message"]
        if message == "collection failure":
            during, message = "collect", written.strip() or message
        return ReportedTest(
            name=self.attributes.get("name", ""),
            classname=classname,
            outcome=outcome,
            row=self.row,
            properties={**self.suite.properties, **self.properties},
            during=during,
            kind=said.get("type"),
            message=message,
            seconds=seconds_of(self.attributes, "time"),
            time=_time(self.attributes.get("timestamp")) or self.suite.time,
            suite=self.suite.name or None,
        )

    def alone(self) -> str:
        """Return the smallest report that holds this case alone."""
        suite = ET.Element(
            "testsuite", {"name": self.suite.name} | ({"timestamp": self.suite.time} if self.suite.time else {})
        )
        case = ET.SubElement(suite, "testcase", self.attributes)
        if properties := {**self.suite.properties, **self.properties}:
            listed = ET.SubElement(case, "properties")
            for name, value in properties.items():
                ET.SubElement(listed, "property", {"name": name, "value": value})
        for tag, attributes, written in self.results:
            ET.SubElement(case, tag, attributes).text = "".join(written)
        return ET.tostring(suite, encoding="unicode")


class _Suite:
    """A suite that is open, and what it passes on to the suites in it."""

    def __init__(self, attributes: dict[str, str], outer: _Suite | None) -> None:
        self.name: str = attributes.get("name", "") or (outer.name if outer else "")
        self.time: str | None = _time(attributes.get("timestamp")) or (outer.time if outer else None)
        self.properties: dict[str, str] = dict(outer.properties) if outer else {}


class _Reader:
    """What expat tells, as test cases: `ready` holds those that have ended."""

    def __init__(self) -> None:
        self.ready: list[_Found] = []
        self.seen = 0
        self._suites: list[_Suite] = []
        self._case: _Found | None = None
        self._path: list[str] = []
        self._room = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2].rpartition(":")[2]
        self._path.append(tag)
        if len(self._path) > _DEPTH:
            raise BadFile("is nested too deeply")
        if tag in ("testsuite", "testsuites"):
            self._suites.append(_Suite(attributes, self._suites[-1] if self._suites else None))
        elif tag == "testcase" and self._case is None:
            self.seen += 1
            self._case = _Found(attributes, self.seen, self._suites[-1] if self._suites else _Suite({}, None))
        elif tag == "property" and "name" in attributes:
            holder = self._case or (self._suites[-1] if self._suites else None)
            if holder is not None:
                holder.properties[attributes["name"][:200]] = attributes.get("value", "")[:1000]
        elif tag in _OUTCOMES and self._case is not None:
            self._case.results.append((tag, attributes, []))
            self._room = _TEXT

    def text(self, written: str) -> None:
        if self._case is not None and self._path and self._path[-1] in _OUTCOMES and self._room > 0:
            self._case.results[-1][2].append(written[: self._room])
            self._room -= len(written)

    def end(self, tag: str) -> None:
        tag = tag.rpartition("}")[2].rpartition(":")[2]
        self._path.pop()
        if tag in ("testsuite", "testsuites"):
            self._suites.pop()
        elif tag == "testcase" and self._case is not None and "testcase" not in self._path:
            self.ready.append(self._case)
            self._case = None

    @staticmethod
    def declared(*_: Any) -> None:
        raise BadFile("declares a document type, which no test runner does")


def _cases(file: File) -> Iterator[_Found]:
    """Yield the cases in their order; BadFile at what is no XML."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.declared
    parser.EntityDeclHandler = reader.declared
    with file.path.open("rb") as opened:
        while True:
            piece = opened.read(_PIECE)
            if file.tell is not None:
                file.tell(len(piece))
            try:
                parser.Parse(piece, not piece)
            except expat.ExpatError as error:
                yield from reader.ready
                raise BadFile(f"is not XML: {expat.ErrorString(error.code)}", error.lineno) from None
            except (LookupError, ValueError) as error:
                raise BadFile(f"is not XML: {error}") from None
            yield from reader.ready
            reader.ready.clear()
            if not piece:
                return


def _time(said: str | None) -> str | None:
    try:
        return moment(said, "timestamp")
    except BadRow:
        return None
