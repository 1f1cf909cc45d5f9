"""Results of pytest-benchmark (ionelmc/pytest-benchmark, 2 to 5): `--benchmark-json`, or a saved run of `.benchmarks`.

One object: `machine_info` (node, system, release, machine, python_version, and since 3.1 `cpu` as py-cpuinfo has it:
`brand_raw`, before `brand`, and `count`), `commit_info` (id, dirty, time, branch), `benchmarks`, `datetime` (of the
run, in UTC, since 4 with an offset), `version`. A benchmark has `group`, `name`, `fullname`
(`tests/test_x.py::test_y[8]`), `params`, `extra_info`, `options` and `stats` in seconds: min, max, mean, stddev,
median, rounds, iterations, ops …

Times of a call are taken with the rounds as `n`, calls a second (`ops`) as throughput, times the batch where a
parameter names one. What ran is said as in `ingest.importers.ci.code_benchmarks`: the model is `benchmark/<fullname>`, unless
`params` or `extra_info` name it. Versions that `machine_info` was extended by (`pytorch_version` …) are the
environment's libraries.

Not taken: the machine's name, quartiles and outliers, raw rounds (`data`), the commit's author, message and branch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ingest.importers.ci.code_benchmarks import draft_of
from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.members import as_said, count, cpu_of, first_word, latency_of, members, moment, quantity, word
from ingest.importers.reading import BadFile, json_document
from ingest.importers.refusals import BadRow, Refused

__all__ = ["PytestBenchmark"]

_STATISTICS = {"mean": "mean", "min": "min", "max": "max", "p50": "median", "stddev": "stddev"}
_NO_LIBRARY = frozenset(("python_version", "python_implementation_version"))


class PytestBenchmark:
    """Results of pytest-benchmark (JSON)."""

    name = "pytest-benchmark"
    title = "pytest-benchmark --benchmark-json"

    def sniff(self, file: File) -> bool:
        """Return whether it has a machine, a commit and benchmarks with rounds, in any order."""
        if file.suffix != ".json":
            return False
        head = file.head()
        return head.lstrip().startswith("{") and (
            ('"machine_info"' in head and '"commit_info"' in head)
            or ('"benchmarks"' in head and '"iqr_outliers"' in head)
        )

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        result = json_document(file)
        if not (isinstance(result, dict) and isinstance(result.get("benchmarks"), list)):
            raise BadFile("has no list of benchmarks")
        machine = result.get("machine_info") if isinstance(result.get("machine_info"), dict) else {}
        try:
            time = moment(result.get("datetime"), "datetime")
        except BadRow as bad:
            raise BadFile(str(bad)) from None
        version = word(result, "version")
        document = Document(
            file,
            self.name,
            source=f"pytest-benchmark {version or ''}".strip(),
            time=time,
            environment=_environment(machine or {}),
        )
        yield from document.events(_rows(document, result, machine or {}))


def _rows(document: Document, row: dict[str, Any], machine: dict[str, Any]) -> Iterator[Draft | Refused]:
    commit = word(row, "commit_info.id")
    commit = None if commit == "unversioned" else commit
    hardware = _hardware(machine)
    for at, benchmark in enumerate(row["benchmarks"], start=1):
        try:
            if not isinstance(benchmark, dict):
                raise BadRow("benchmarks", "is not a list of objects")
            draft = _draft(benchmark, hardware)
        except BadRow as bad:
            content = json.dumps({**row, "benchmarks": [benchmark]})
            yield document.refused(bad.reason, row=at, field=bad.field, content=content)
            continue
        draft.row = at
        draft.original |= {"commit": commit[:64]} if commit else {}
        yield draft


def _draft(benchmark: dict[str, Any], hardware: dict[str, Any]) -> Draft:
    name = first_word(benchmark, ("fullname", "name"))
    if name is None:
        raise BadRow("fullname", "is missing")
    stats = members(benchmark, "stats")
    rounds = count(stats, "rounds")
    latency, original = latency_of(stats, _STATISTICS, unit="s", n=rounds, where="stats.")
    ops = quantity(benchmark, "stats.ops")
    if not latency and ops is None:
        raise BadRow("stats", "has no times")
    parameters = {**members(benchmark, "params"), **members(benchmark, "extra_info")}
    draft = draft_of(name, parameters, {"latency_ms": latency or None}, hardware=hardware)
    if ops is not None:
        draft.metrics["throughput_per_s"] = ops * draft.workload.get("batch_size", 1)
        original["stats.ops (calls/s)"] = as_said(ops)
    draft.original = original
    return draft


def _hardware(machine: dict[str, Any]) -> dict[str, Any]:
    try:
        processors = count(machine, "cpu.count")
    except BadRow:
        processors = None
    return cpu_of(first_word(machine, ("cpu.brand_raw", "cpu.brand")), processors)


def _environment(machine: dict[str, Any]) -> dict[str, Any] | None:
    libraries = {
        name.removesuffix("_version"): result
        for name in machine
        if name.endswith("_version") and name not in _NO_LIBRARY and (result := word(machine, name))
    }
    system = [said for name in ("system", "release") if (said := word(machine, name))]
    return environment(
        libraries,
        os=" ".join(system) or None,
        python=word(machine, "python_version"),
        machine=word(machine, "machine"),
        cpu=first_word(machine, ("cpu.brand_raw", "cpu.brand")),
    )
