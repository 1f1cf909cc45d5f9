"""Benchmarks of benchmark-action/github-action-benchmark: the JSON of its custom tools, and its history `data.js`.

The JSON (customBiggerIsBetter, customSmallerIsBetter) is `[{"name", "unit", "value", "range", "extra"}, …]`, the last
two being text. `data.js` is `window.BENCHMARK_DATA = {"lastUpdate", "repoUrl", "entries": {suite: [{"commit": {"id",
"timestamp", "author", …}, "date": ms, "tool", "benches": [… as above]}]}}`; every run of every suite is taken, at its
`date`.

The unit says which metric a value is (`ingest.importers.ci.code_benchmarks`): times, also of one call (`ns/iter`), items or
tokens a second, and bytes where the name speaks of memory; other units are refused. Of a row in `iter/sec` from
pytest-benchmark, `extra` gives the mean and the rounds, and `range` the standard deviation in s; of other tools `range`
may be a deviation, a spread or a percentage, and stays in `original`. What ran is the name: the model is
`benchmark/<name>`, with the suite as an option where it is not the action's default, and the device `unknown`. Of a
list that Assay exported the names say more (`ingest.importers.ci.exported_names`).

Not taken: authors and committers, messages, and where the repository is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ingest.importers.ci.code_benchmarks import draft_of, metric_of, unit_of_time
from ingest.importers.ci.exported_names import Exported, exported, metric_named
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.members import as_said, moment, quantity, word
from ingest.importers.reading import JSON_BYTES, BadFile, json_document, json_text
from ingest.importers.refusals import BadRow, Refused

__all__ = ["GithubAction"]

_SCRIPT = re.compile(r"\s*window\.BENCHMARK_DATA\s*=\s*")
_DEFAULT_SUITE = "Benchmark"
_MEAN = re.compile(r"^mean: (?P<mean>[\d.eE+-]+) (?P<unit>\S+)$", re.MULTILINE)
_ROUNDS = re.compile(r"^rounds: (?P<rounds>\d{1,15})$", re.MULTILINE)
_DEVIATION = re.compile(r"^stddev: (?P<stddev>[\d.eE+-]+)$")


class GithubAction:
    """Benchmarks of github-action-benchmark (JSON, data.js)."""

    name = "github-action-benchmark"
    title = "github-action-benchmark custom JSON and data.js"

    def sniff(self, file: File) -> bool:
        """Return whether it is the script, or a list whose first object has a name, a unit and a value."""
        head = file.head().lstrip()
        if file.suffix == ".js":
            return _SCRIPT.match(head) is not None
        if file.suffix != ".json":
            return False
        if head.startswith("{"):
            return '"benches"' in head and '"entries"' in head
        return head.startswith("[") and _is_bench(_first(head))

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        result = _found(file)
        if not (isinstance(result, list) or (isinstance(result, dict) and isinstance(result.get("entries"), dict))):
            raise BadFile("is neither a list of benchmarks nor an object with `entries`")
        document = Document(file, self.name, source="github-action-benchmark")
        yield from document.events(_rows(document, result))


class _Bench(NamedTuple):
    """One value with the run that it is of; the suite and the time are None in a list without history."""

    said: Any
    suite: str | None = None
    run: Mapping[str, Any] = {}


def _first(head: str) -> Any:
    """Return the first member of a list whose beginning this is, None where it is longer."""
    try:
        return json.JSONDecoder().raw_decode(head[1:].lstrip())[0]
    except (ValueError, RecursionError):
        return None


def _is_bench(result: Any) -> bool:
    return (
        isinstance(result, dict)
        and isinstance(result.get("name"), str)
        and isinstance(result.get("unit"), str)
        and "value" in result
    )


def _found(file: File) -> Any:
    if file.suffix != ".js":
        return json_document(file)
    if file.size() > JSON_BYTES:
        raise BadFile(f"is a script of more than {JSON_BYTES >> 20} MiB")
    with file.open_text() as opened:
        written = opened.read()
    return json_text(_SCRIPT.sub("", written, count=1).rstrip().removesuffix(";"))


def _rows(document: Document, result: Any) -> Iterator[Draft | Refused]:
    for at, bench in enumerate(_benches(result), start=1):
        try:
            draft = _draft(bench)
        except BadRow as bad:
            yield document.refused(bad.reason, row=at, field=bad.field, content=_alone(bench))
            continue
        draft.row = at
        yield draft


def _benches(result: Any) -> Iterator[_Bench]:
    if isinstance(result, list):
        yield from (_Bench(said) for said in result)
        return
    for suite, runs in result["entries"].items():
        for run in runs if isinstance(runs, list) else [runs]:
            benches = run.get("benches") if isinstance(run, dict) else None
            if isinstance(benches, list):
                yield from (_Bench(said, suite, run) for said in benches)
            else:
                yield _Bench(None, suite, {})


def _alone(bench: _Bench) -> str:
    if bench.suite is None:
        return json.dumps([bench.said])
    run = {name: said for name, said in bench.run.items() if name in ("date", "tool")}
    commit = word(bench.run, "commit.id") if isinstance(bench.run, dict) else None
    return json.dumps({"entries": {bench.suite: [{"commit": {"id": commit}, **run, "benches": [bench.said]}]}})


def _draft(bench: _Bench) -> Draft:
    said = bench.said
    if not isinstance(said, dict):
        raise BadRow("benches", "is not a list of objects with name, unit and value")
    name, unit = word(said, "name"), word(said, "unit")
    if name is None or unit is None:
        raise BadRow("name" if name is None else "unit", "is missing")
    ours = exported(name)
    metrics, original = _of_assay(said, ours) if ours else metric_of(said, "value", unit, name=name)
    metrics |= _of_pytest(said, unit)
    options = {"suite": bench.suite[:200]} if bench.suite not in (None, _DEFAULT_SUITE) else {}
    draft = ours.draft(metrics) if ours else draft_of(name, {}, metrics, options=options)
    run = dict(bench.run)
    draft.time = moment(run.get("date") or word(run, "commit.timestamp"), "date")
    commit = word(run, "commit.id")
    original |= {name: as_said(said[name]) for name in ("range", "extra") if said.get(name) not in (None, "")}
    draft.original = original | ({"commit": commit[:64]} if commit else {})
    return draft


def _of_assay(said: dict[str, Any], ours: Exported) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figure that a name of Assay's names: the median latency where it names none."""
    if ours.column is None and word(said, "unit") != "ms":
        raise BadRow("name", "does not end in the figure that the value is")
    metric, statistic = metric_named(ours.column or "latency_p50_ms") or (None, None)
    value = quantity(said, "value")
    if metric is None or value is None:
        raise BadRow("value" if metric else "name", "is missing, or 0" if metric else "ends in no figure of Assay's")
    if metric.endswith("_bytes"):
        return {metric: round(value)}, {}
    return {metric: {statistic: value} if statistic else value}, {}


def _of_pytest(said: dict[str, Any], unit: str) -> dict[str, Any]:
    """Return the latency that the action writes in words for a benchmark of pytest's, empty for others."""
    mean = _MEAN.search(word(said, "extra") or "")
    time = unit_of_time(mean["unit"]) if mean else None
    if unit != "iter/sec" or mean is None or time is None:
        return {}
    rounds, deviation = _ROUNDS.search(word(said, "extra") or ""), _DEVIATION.match(word(said, "range") or "")
    latency = {"mean": quantity({"extra": mean["mean"]}, "extra", unit=time)}
    if deviation:
        latency["stddev"] = quantity({"range": deviation["stddev"]}, "range", unit="s", zero=True)
    if rounds:
        latency["n"] = int(rounds["rounds"]) or None
    return {"latency_ms": latency}
