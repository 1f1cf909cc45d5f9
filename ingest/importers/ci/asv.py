"""Results of airspeed velocity (airspeed-velocity/asv, result files of versions 1 and 2):
`results/<machine>/<commit>-<env>.json`.

One object a commit and environment: `commit_hash`, `env_name`, `date` (of the commit, ms), `params` (the machine:
machine, os, arch, cpu, num_cpu, ram, and the environment's requirements), `python`, `requirements`, `result_columns`,
`results`. A result is a list in the order of `result_columns` whose empty end is cut off: `result` (one value a
combination of parameters, null where the benchmark failed, NaN where it was skipped), `params` (the values of each
parameter, as Python writes them), `version`, `started_at` (ms), `duration`, `stats_ci_99_a`, `stats_ci_99_b`,
`stats_q_25`, `stats_q_75`, `stats_number`, `stats_repeat`, `samples`, `profile`. In version 1 a result is a number or
an object.

What a value is says `benchmarks.json` in the folder above (type, unit, names of the parameters), else the benchmark's
name: `time_…` and `timeraw_…` are medians in s, `peakmem_…` bytes; `track_…` is taken where its unit is known to be one
of Assay's, and `mem_…`, the size of an object, is refused. Combinations that failed or were skipped are failures; asv
keeps no reason. `machine.json` beside the file is read where `params` says no CPU. What ran is said as in
`ingest.importers.ci.code_benchmarks`: the model is `benchmark/<name>(<parameters>)`, unless parameters name it.

The time is when the benchmark ran, in old files the commit's. Not taken: RAM (its unit is not said), the machine's
name, quartiles and the 99 % interval (kept in `original`), profiles, environment variables.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ingest.importers.ci.code_benchmarks import draft_of, metric_of
from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.members import as_said, count, cpu_of, members, moment, series, word
from ingest.importers.reading import BadFile, json_document, json_text
from ingest.importers.refusals import BadRow, Refused

__all__ = ["Asv"]

_KINDS = {"time": "time", "timeraw": "time", "peakmem": "peakmemory", "mem": "memory", "track": "track"}
_KIND = re.compile(r"(timeraw|time|peakmem|mem|track)_|(TimeRaw|Time|PeakMem|Mem|Track)[A-Z_]")
_STATISTICS = ("stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75")
_OWN = frozenset(("machine.json", "benchmarks.json"))


class Asv:
    """Result files of asv (JSON)."""

    name = "asv"
    title = "airspeed velocity results/<machine>/*.json"

    def sniff(self, file: File) -> bool:
        """Return whether it has a commit, an environment and results; what lies beside is read with them."""
        if file.suffix != ".json" or file.base in _OWN:
            return False
        head = file.head()
        return '"commit_hash"' in head and '"results"' in head and ('"result_columns"' in head or '"params"' in head)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and failures, and the end of the run; see Importer."""
        result = _document(file)
        machine = result.get("params") if isinstance(result.get("params"), dict) else {}
        assert isinstance(machine, dict)
        if not word(machine, "cpu"):
            machine = {**_around(file, "machine.json"), **machine}
        commit = word(result, "commit_hash") or ""
        document = Document(
            file,
            self.name,
            source=f"asv results of commit {commit[:40]}".removesuffix(" of commit "),
            environment=_environment(result, machine),
        )
        yield from document.events(_rows(document, _File(result, _around(file, "benchmarks.json"), _hardware(machine))))


class _File(NamedTuple):
    """A result file, what its benchmarks are, and the machine."""

    found: dict[str, Any]
    benchmarks: dict[str, Any]
    hardware: dict[str, Any]


class _Result(NamedTuple):
    """One combination of a benchmark's parameters; `value` is None where it failed, "NaN" where it was skipped."""

    name: str
    combination: tuple[Any, ...]
    value: Any
    row: dict[str, Any]
    at: int


def _document(file: File) -> dict[str, Any]:
    """Return the file, with NaN as text where there is any: null and NaN are not the same here."""
    document = json_document(file)
    with file.open_text() as opened:
        written = opened.read()
    if "NaN" in written:
        document = json_text(json.dumps(json.loads(written, parse_constant=str)))
    if not (isinstance(document, dict) and isinstance(document.get("results"), dict)):
        raise BadFile("has no object of results")
    return document


def _around(file: File, name: str) -> dict[str, Any]:
    """Return what a file of asv's says that lies beside this one or in the folder above; empty where there is none."""
    if file.path.name != file.base:
        return {}
    for folder in (file.path.parent, file.path.parent.parent):
        place: Path = folder / name
        if place.is_file():
            try:
                document = json_document(File(place, name))
            except BadFile as error:
                raise BadFile(f"its {name} {error.reason}") from None
            return document if isinstance(document, dict) else {}
    return {}


def _rows(document: Document, file: _File) -> Iterator[Draft | Refused]:
    number_ = 0
    columns = file.found.get("result_columns")
    for name, said in file.found["results"].items():
        row = _row(said, columns if isinstance(columns, list) else None)
        if row is None:
            number_ += 1
            content = json.dumps({**file.found, "results": {name: said}})
            yield document.refused("is no row of results", row=number_, field=name[:200], content=content)
            continue
        for result in _results(name, row, number_):
            number_ = result.at
            try:
                yield _draft(file, result)
            except BadRow as bad:
                yield document.refused(bad.reason, row=result.at, field=bad.field, content=_alone(file.found, result))


def _row(said: Any, columns: list[Any] | None) -> dict[str, Any] | None:
    """Return a result by its columns, in the shape of version 2."""
    if columns is not None:
        return dict(zip((str(column) for column in columns), said, strict=False)) if isinstance(said, list) else None
    if isinstance(said, dict):
        result, stats = said.get("result"), said.get("stats")
        stats = stats if isinstance(stats, list) else [stats]
        repeats = [stat.get("repeat") if isinstance(stat, dict) else None for stat in stats]
        return {**said, "result": result if isinstance(result, list) else [result], "stats_repeat": repeats}
    return {"result": [said]}


def _results(name: str, row: dict[str, Any], before: int) -> Iterator[_Result]:
    """Yield a result for each combination that has one, and one for all where none has."""
    values = row.get("result")
    axes = row.get("params")
    axes = [axis for axis in axes if isinstance(axis, list)] if isinstance(axes, list) else []
    if not isinstance(values, list):
        yield _Result(name, (), values, row, before + 1)
        return
    for at, (combination, value) in enumerate(zip(itertools.product(*axes), values, strict=False)):
        own = {key: _one(said, at) for key, said in row.items() if key.startswith("stats_") or key == "samples"}
        yield _Result(name, combination, value, {**row, **own}, before + at + 1)


def _one(said: Any, at: int) -> Any:
    return said[at] if isinstance(said, list) and at < len(said) else None


def _alone(document: dict[str, Any], result: _Result) -> str:
    row = [
        [result.value],
        [[value] for value in result.combination],
        result.row.get("version"),
        result.row.get("started_at"),
    ]
    columns = ["result", "params", "version", "started_at"]
    return json.dumps({**document, "result_columns": columns, "results": {result.name: row}})


def _draft(file: _File, result: _Result) -> Draft:
    about = file.benchmarks.get(result.name)
    about = about if isinstance(about, dict) else {}
    values = [str(value).strip("'\"") for value in result.combination]
    names = about.get("param_names")
    named = dict(zip((str(name) for name in names), values, strict=False)) if isinstance(names, list) else {}
    title = result.name + (f"({','.join(values)})" if values else "")
    draft = draft_of(title, named, {}, hardware=file.hardware)
    draft.row = result.at
    draft.time = moment(_started(file.found, result) or file.found.get("date"), "started_at")
    commit, version = word(file.found, "commit_hash"), word(result.row, "version")
    draft.original = {"commit": commit[:64]} if commit else {}
    draft.original |= {"version": version[:64]} if version else {}
    if result.value is None or result.value == "NaN":
        return _failure(draft, skipped=result.value == "NaN")
    draft.metrics, changed = _metrics(result, about)
    draft.original |= changed
    return draft


def _started(row: dict[str, Any], result: _Result) -> Any:
    """Return when a benchmark ran: in its row, in version 1 in an object of its own."""
    of_all = row.get("started_at")
    return result.row.get("started_at") or (of_all.get(result.name) if isinstance(of_all, dict) else None)


def _failure(draft: Draft, *, skipped: bool) -> Draft:
    draft.kind = "failure"
    draft.outcome = "skipped" if skipped else "error"
    draft.error = "benchmark-skipped" if skipped else "benchmark-failed"
    draft.message = "asv skipped the benchmark" if skipped else "the benchmark gave no result; asv keeps no reason"
    return draft


def _kind(name: str, about: dict[str, Any]) -> str:
    said = word(about, "type")
    if said is not None and said in _KINDS.values():
        return said
    result = next((match for part in reversed(name.split(".")) if (match := _KIND.match(part))), None)
    return _KINDS[(result[1] or result[2]).lower()] if result else "track"


def _metrics(result: _Result, about: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    row = {"result": result.value}
    kind = _kind(result.name, about)
    if kind == "memory":
        raise BadRow("result", "is the size of an object, and Assay has no metric of it")
    if kind == "track":
        unit = word(about, "unit")
        if unit is None:
            raise BadRow("result", "has no unit that is known: benchmarks.json is not in the folder above")
        return metric_of(row, "result", unit, name=result.name)
    if kind == "peakmemory":
        return metric_of(row, "result", "bytes", name="peakmem")
    metrics, original = metric_of(row, "result", "s", statistic="p50")
    samples = series(result.row.get("samples"), "samples", "s")
    metrics["latency_ms"] |= {"min": min(samples), "max": max(samples)} if samples else {}
    metrics["latency_ms"]["n"] = count(result.row, "stats_repeat")
    original |= {
        f"{name} (s)": as_said(said) for name in _STATISTICS if isinstance(said := result.row.get(name), int | float)
    }
    return metrics, original


def _hardware(machine: dict[str, Any]) -> dict[str, Any]:
    try:
        processors = count(machine, "num_cpu")
    except BadRow:
        processors = None
    return cpu_of(word(machine, "cpu"), processors)


def _environment(row: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any] | None:
    request = members(row, "requirements") if isinstance(row.get("requirements"), dict) else {}
    python = word(row, "python") or ""  # of an existing environment a path of its machine
    libraries = {name: version for name in request if (version := word(request, name))}
    return environment(
        libraries,
        os=word(machine, "os"),
        python=python if python[:1].isdigit() else None,
        machine=word(machine, "arch"),
        cpu=word(machine, "cpu"),
    )
