"""The table that MLCommons' results page exports for one version of MLPerf Inference: systems down, benchmarks across.

Five lines of headings: `Benchmark / Model MLC / Scenario / Units`, the suite, the benchmark (over its columns), the scenario, and a
line that begins with `Public ID`: names of the system's columns, and over each result its unit. A system takes several lines,
each for one measure, named in the column before the results: `Avg. Result at System Name`, `# of Nodes`, `# of Accelerators` …;
the system's own columns are filled in the first of them. Tableau writes it as UTF-16 with tabs, the page as UTF-8 with commas;
the order of columns and measures differs by version. Numbers have commas for thousands.

The units over the columns are wrong for some language models (`Samples/s` over tokens); see `mlperf_words.counts_tokens`. The
version is that of the public id: `5.1-0001`. Accelerators and processors are counted per node.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import NamedTuple

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.mlperf.results import Result, draft_of
from ingest.importers.mlperf.vocabulary import System
from ingest.importers.reading import BadFile, csv_text, text, text_lines
from ingest.importers.refusals import BadRow, Refused

__all__ = ["drafts", "sniff"]

_RESULT = "avg. result"
_HEADINGS = 40
"""The heading is looked for in so many lines."""
_BLOCK = 64
"""A system of more lines than this is no system."""
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")


class _Heading(NamedTuple):
    """The lines of the heading, the system's columns by name, the measure's column, and benchmark, scenario, unit by column."""

    lines: list[list[str]]
    columns: dict[str, list[int]]
    measure: int
    results: dict[int, tuple[str, str, str]]

    def said(self, first: list[str], *names: str) -> str | None:
        """Return the first field that is filled in the columns of these names."""
        places = [place for name in names for place in self.columns.get(name, ())]
        return next(
            (result for place in places if place < len(first) and (result := text({"": first[place]}, ""))), None
        )


def sniff(file: File) -> bool:
    """Return whether the head of the file is that of an exported table."""
    head = file.head()
    return "Public ID" in head and "Avg. Result" in head and "Scenario" in head


def drafts(file: File, document: Document) -> Iterator[Draft | Refused]:
    """Yield a draft for each filled cell of a result line, or its refusal."""
    delimiter = "\t" if file.head()[:2000].count("\t") > file.head()[:2000].count(",") else ","
    with file.open_text("replace") as opened:
        reader = csv.reader(text_lines(opened), delimiter=delimiter)
        lines: list[list[str]] = []
        heading: _Heading | None = None
        block: list[tuple[int, list[str]]] = []
        try:
            for values in reader:
                line = [value.strip() for value in values]
                if heading is None:
                    lines.append(line)
                    if line and line[0] == "Public ID":
                        heading = _heading(lines)
                    elif len(lines) > _HEADINGS:
                        break
                    continue
                if line and line[0] and block:
                    yield from _of_system(heading, block, document, delimiter)
                    block = []
                if any(line) and len(block) < _BLOCK:
                    block.append((reader.line_num, line))
        except csv.Error as error:
            yield document.refused(f"not CSV: {error}", row=reader.line_num)
        if heading is None:
            raise BadFile("has no line that begins with Public ID")
        if block:
            yield from _of_system(heading, block, document, delimiter)


def _heading(lines: list[list[str]]) -> _Heading:
    names = lines[-1]
    if len(lines) < 3:
        raise BadFile("has no lines of benchmarks and scenarios above its columns", len(lines))
    benchmarks, scenarios = lines[-3], lines[-2]
    columns: dict[str, list[int]] = {}
    results: dict[int, tuple[str, str, str]] = {}
    benchmark, measure = "", -1
    for place, name in enumerate(names):
        benchmark = benchmarks[place] if place < len(benchmarks) and benchmarks[place] else benchmark
        scenario = scenarios[place] if place < len(scenarios) else ""
        if scenario and benchmark:
            results[place] = (benchmark, scenario, name)
        elif not name:
            measure = place
        else:
            columns.setdefault(_column(name), []).append(place)
    if measure < 0 or not results:
        raise BadFile("does not say which columns hold results", len(lines))
    return _Heading(lines, columns, measure, results)


def _column(name: str) -> str:
    return re.sub(r"\s+", " ", name.replace("(click + for details)", "")).strip().lower()


def _of_system(
    heading: _Heading, block: list[tuple[int, list[str]]], document: Document, delimiter: str
) -> Iterator[Draft | Refused]:
    first = block[0][1]
    measured: dict[str, tuple[int, list[str]]] = {}
    for row, line in block:
        if heading.measure < len(line):
            measured[_column(line[heading.measure])] = (row, line)
    result = next((where for name, where in measured.items() if name.startswith(_RESULT)), None)
    if result is None:
        yield document.refused("the system has no line of results", row=block[0][0], field="Public ID")
        return
    row, line = result

    def at(name: str, place: int) -> str | None:
        values = measured.get(name, (0, []))[1]
        return values[place] if place < len(values) else None

    for place, (benchmark, scenario, _) in heading.results.items():
        if place >= len(line) or not line[place]:
            continue
        counts = at("# of accelerators", place), at("# of nodes", place)
        try:
            yield draft_of(_result(heading, first, row, line[place], heading.results[place], counts))
        except BadRow as bad:
            alone = [_only(value, heading.measure, place) for _, value in block]
            content = csv_text([*heading.lines, *alone], delimiter)
            yield document.refused(bad.reason, row=row, field=f"{benchmark} {scenario}", content=content)


def _only(line: list[str], measure: int, place: int) -> list[str]:
    """Return a line without the other results."""
    return [value if at <= measure or at == place else "" for at, value in enumerate(line)]


def _result(
    heading: _Heading,
    first: list[str],
    row: int,
    value: str,
    named: tuple[str, str, str],
    counts: tuple[str | None, str | None],
) -> Result:
    benchmark, scenario, unit = named
    accelerators, nodes = counts
    if not _NUMBER.fullmatch(value):
        raise BadRow(benchmark, f"{value[:40]!r} is not a number")
    identity = heading.said(first, "public id")
    if identity is None:
        raise BadRow("Public ID", "is missing")
    organization, system = heading.said(first, "organization"), heading.said(first, "system name")
    division, availability = heading.said(first, "division/power"), heading.said(first, "availability")
    figure = float(value.replace(",", ""))
    return Result(
        benchmark=benchmark,
        scenario=scenario,
        field="Avg. Result at System Name",
        value=figure or None,
        unit=unit,
        version=identity,
        system=System(
            accelerator=heading.said(first, "accelerator"),
            accelerators=_count(accelerators, heading.said(first, "# of accelerators")),
            nodes=_count(nodes, heading.said(first, "# of nodes")),
            processor=heading.said(first, "processor"),
            processors=_count(heading.said(first, "# of processors")),
            cores=_count(heading.said(first, "host processor core count")) or None,
            name=system,
        ),
        said={
            "Public ID": identity,
            "Organization": organization,
            "System Name": system,
            "Division": division,
            "Availability": availability,
            "Scenario": scenario,
            "Benchmark": benchmark,
        },
        key=[identity, division],
        row=row,
    )


def _count(*said: str | None) -> int | None:
    """Return the first that is a whole number, 0 included."""
    return next((int(item) for item in said if item and item.isascii() and item.isdigit() and len(item) < 7), None)
