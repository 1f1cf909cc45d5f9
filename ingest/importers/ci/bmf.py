"""Bencher Metric Format (bencherdev/bencher, https://bencher.dev): `{benchmark: {measure: {"value", "lower_value",
"upper_value"}}}`, as `bencher mock`, `--adapter json` and `assay export --format bmf` write it.

Bencher's own measures have fixed units: `latency` in ns, `throughput` in operations a second; `build-time` (s) and
`file-size` (bytes) are no metrics of a model and stay in `original`. A measure with the name of one of Assay's metrics
or columns, with `_` or `-` (`tokens_per_s`, `tokens-per-s`, `latency_p50_ms`), is that metric in Assay's unit. A
benchmark becomes one measurement of all its measures that are known; one with none of them is refused. Bounds are
intervals, deviations or extremes, depending on who wrote them, and stay in `original`; of latencies that Assay wrote
they are `ci95`.

What ran is the benchmark's name alone: the model is `benchmark/<name>`, to be mapped by `assay model alias`, and device
and time are not said. Of a file that Assay exported the names say more (`ingest.importers.ci.exported_names`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from domain.metrics import METRICS
from ingest.importers.ci.code_benchmarks import draft_of
from ingest.importers.ci.exported_names import exported, metric_named
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.members import as_said, quantity
from ingest.importers.reading import BadFile, json_document
from ingest.importers.refusals import BadRow, Refused

__all__ = ["Bmf"]

_BEGINNING = re.compile(
    r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"(?:value|lower_value|upper_value)"\s*:\s*[-\d]'
)
_BENCHER = {"latency": ("latency_ms", "mean", "ns"), "throughput": ("throughput_per_s", None, None)}
_WHOLE = frozenset(name for name, metric in METRICS.items() if metric.unit == "B")


class Bmf:
    """Benchmarks in Bencher Metric Format (JSON)."""

    name = "bmf"
    title = "Bencher Metric Format"

    def sniff(self, file: File) -> bool:
        """Return whether its first benchmark has a first measure with a value."""
        return file.suffix == ".json" and _BEGINNING.match(file.head()) is not None

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, a measurement a benchmark, and the end of the run; see Importer."""
        result = json_document(file)
        if not isinstance(result, dict):
            raise BadFile("is not an object of benchmarks")
        document = Document(file, self.name, source="Bencher Metric Format")
        yield from document.events(_rows(document, result))


def _rows(document: Document, row: dict[str, Any]) -> Iterator[Draft | Refused]:
    for at, (name, measures) in enumerate(row.items(), start=1):
        try:
            draft = _draft(name, measures)
        except BadRow as bad:
            yield document.refused(bad.reason, row=at, field=bad.field, content=json.dumps({name: measures}))
            continue
        draft.row = at
        yield draft


def _draft(name: str, measures: Any) -> Draft:
    if not (isinstance(measures, dict) and measures and all(isinstance(item, dict) for item in measures.values())):
        raise BadRow(name[:200] or "name", "is not an object of measures")
    metrics: dict[str, Any] = {}
    original: dict[str, Any] = {}
    for measure, said in measures.items():
        existing = _metric(measure)
        value = _value(measure, said, existing[2] if existing else None)
        kept = [part for part in ("value", "lower_value", "upper_value") if said.get(part) is not None]
        original |= {
            f"{measure}.{part}": as_said(said[part])
            for part in kept
            if part != "value" or existing is None or existing[2]
        }
        if existing is None or value is None:
            continue
        metric, statistic, _ = existing
        if statistic is None:
            metrics[metric] = round(value) if metric in _WHOLE else value
        else:
            metrics.setdefault(metric, {})[statistic] = value
    if not metrics:
        raise BadRow(", ".join(measures)[:200], "is no measure of which Assay has a metric, or has no value")
    ours = exported(name)
    if ours:
        _add_intervals(metrics, measures)
    draft = ours.draft(metrics) if ours else draft_of(name, {}, metrics)
    draft.original = original
    return draft


def _add_intervals(metrics: dict[str, Any], measures: dict[str, Any]) -> None:
    """Take the bounds of latencies that Assay wrote: they are 95 % intervals."""
    for measure, said in measures.items():
        metric, statistic = metric_named(measure) or (None, None)
        low, high = (quantity(said, f"{end}_value") for end in ("lower", "upper"))
        if metric == "latency_ms" and statistic in metrics.get(metric, {}) and low and high:
            metrics[metric].setdefault("ci95", {})[statistic] = [low, high]


def _value(measure: str, said: dict[str, Any], unit: str | None) -> float | None:
    try:
        return quantity(said, "value", unit=unit)
    except BadRow as error:
        raise BadRow(f"{measure}.value", error.reason) from None


def _metric(measure: str) -> tuple[str, str | None, str | None] | None:
    """Return the metric, its statistic and the unit of a measure, None where it is no metric."""
    said = measure.strip().lower()
    if said in _BENCHER:
        return _BENCHER[said]
    existing = metric_named(said)
    return (*existing, None) if existing else None
