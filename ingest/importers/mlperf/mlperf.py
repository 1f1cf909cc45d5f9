"""MLPerf Inference results of MLCommons: run logs of its load generator, the checker's JSON, and the published tables.

* `mlperf_log_detail.txt`, `mlperf_log_summary.txt`: one run (mlcommons/inference, loadgen ≥ v1.0); see `mlperf_logs`.
* `summary_results.json`: a list of results as the submission checker writes it since v5.0. Members used: UsedModel, Model,
  Scenario, Performance_Result and Performance_Units, Power_Result and Power_Units, Accelerator, `a#` (per node), Nodes,
  Processor, host_processors_per_node, host_processor_core_count, Software, operating_system, weight_data_types, inferred,
  errors, version, and who submitted it.
* the flattened table of all versions (CSV): SystemName, Platform, accelerator_model_name, accelerators_per_node, Model (as it was
  run), MlperfModel (the benchmark), Scenario, Result, Units, Result_Power, framework, inferred, version …
* the exported table of a version (CSV or Tableau's UTF-16, tabs or commas): see `mlperf_tables`.

Units: rates in 1/s, latencies in ms, power in W, energy in mJ. A result has no time of its own: the rounds are published on
one day, and no file says when a run was made. The flattened table's rows of MLPerf Tiny are taken too (inferences a second, µJ each, on
a system on chip); rows of MLPerf Training are refused: a time to train ends at a quality target,
and Assay has no metric for it. What MLPerf does not tell (batch size, most precisions) stays unknown; `weight_data_types` is
taken as the precision where it is one type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import hardware_of
from ingest.importers.members import truth
from ingest.importers.mlperf import logs, tables
from ingest.importers.mlperf.results import Result, draft_of
from ingest.importers.mlperf.vocabulary import System
from ingest.importers.reading import BadFile, json_document, number, text, whole
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import csv_drafts, header_of

__all__ = ["MLPerf"]

_SUMMARY = ('"Performance_Result"', '"Scenario"', '"Platform"')
_FLAT = frozenset(("experiment", "MlperfModel", "Scenario", "Result", "SystemName"))


class MLPerf:
    """MLPerf results in any of the forms in which MLCommons publishes them."""

    name = "mlperf"
    title = (
        "MLPerf Inference: mlperf_log_detail.txt, mlperf_log_summary.txt, summary JSON and exported tables (MLCommons)"
    )

    def sniff(self, file: File) -> bool:
        """Return whether the file is one of MLPerf's; a summary beside a detailed log is passed over, being the same run."""
        if file.suffix == ".txt":
            return logs.sniff(file)
        if file.suffix == ".json":
            return all(name in file.head() for name in _SUMMARY)
        return file.suffix in (".csv", ".tsv") and (set(header_of(file)) >= _FLAT or tables.sniff(file))

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run with its measurements; see Importer."""
        source = "MLPerf Inference results (MLCommons)"
        document = Document(file, self.name, source=source, licence="Apache-2.0")
        if file.suffix == ".txt":
            rows = logs.drafts(file, document)
        elif file.suffix == ".json":
            rows = _of_summary(file, document)
        elif "experiment" in header_of(file):
            rows = csv_drafts(file, document, _of_flat)
        else:
            rows = tables.drafts(file, document)
        yield from document.events(rows)


def _of_summary(file: File, document: Document) -> Iterator[Draft | Refused]:
    records = json_document(file)
    if not isinstance(records, list):
        raise BadFile("is not a list of results")
    for row, record in enumerate(records, start=1):
        try:
            if not isinstance(record, dict):
                raise BadRow("result", "is not an object")
            yield draft_of(_summary_result(record, row))
        except BadRow as bad:
            yield document.refused(bad.reason, row=row, field=bad.field, content=json.dumps([record]))


def _summary_result(record: dict[str, Any], row: int) -> Result:
    return Result(
        benchmark=_needed(record, "UsedModel", "Model"),
        rules=text(record, "Model"),
        scenario=_needed(record, "Scenario"),
        field="Performance_Result",
        value=number(record, "Performance_Result"),
        unit=text(record, "Performance_Units"),
        power=number(record, "Power_Result"),
        power_unit=text(record, "Power_Units"),
        version=text(record, "version"),
        precision=text(record, "weight_data_types"),
        inferred=_flag(record, "inferred"),
        errors=_flag(record, "errors"),
        system=System(
            accelerator=text(record, "Accelerator"),
            accelerators=_count(record, "a#"),
            nodes=_count(record, "Nodes"),
            processor=text(record, "Processor"),
            processors=_count(record, "host_processors_per_node") or _count(record, "p#"),
            cores=_count(record, "host_processor_core_count"),
            software=text(record, "Software"),
            name=text(record, "Platform"),
            os=text(record, "operating_system"),
        ),
        said={
            **_kept(
                record, "ID", "Submitter", "Availability", "Category", "System", "Scenario", "UsedModel", "Accuracy"
            ),
            **_kept(record, "weight_data_types", "version", "Location", "Notes"),
        },
        key=text(record, "Location")
        or [text(record, name) for name in ("version", "Category", "Submitter", "Platform")],
        row=row,
    )


def _of_flat(row: int, record: dict[str, str]) -> Iterator[Draft]:
    if "training" in record["experiment"]:
        raise BadRow("experiment", "a time to train ends at a quality target: Assay has no metric for it")
    if "tiny" in record["experiment"]:
        yield _of_tiny(row, record)
        return
    if "inference" not in record["experiment"]:
        raise BadRow("experiment", "is no result of MLPerf Inference or Tiny")
    # A model of the open division is not the one that the benchmark is named after.
    open_division = (text(record, "Division") or "").startswith("open")
    benchmark = _needed(record, "Model", "MlperfModel") if open_division else _needed(record, "MlperfModel", "Model")
    names = ("version", "Division", "Organization", "Platform")
    yield draft_of(
        Result(
            benchmark=benchmark,
            rules=text(record, "MlperfModel"),
            scenario=_needed(record, "Scenario"),
            field="Result",
            value=number(record, "Result"),
            unit=text(record, "Units") or text(record, "Result_Units"),
            power=number(record, "Result_Power"),
            power_unit=text(record, "Result_Power_Units"),
            version=text(record, "version"),
            inferred=_flag(record, "inferred"),
            system=System(
                accelerator=text(record, "accelerator_model_name"),
                accelerators=_count(record, "accelerators_per_node"),
                nodes=_count(record, "number_of_nodes"),
                processor=text(record, "host_processor_model_name"),
                processors=_count(record, "host_processors_per_node"),
                cores=_count(record, "host_processor_core_count"),
                software=text(record, "framework"),
                name=text(record, "Platform"),
            ),
            said=_kept(record, "uid", *names, "SystemName", "Model", "Scenario", "Accuracy", "Availability"),
            key=[text(record, name) for name in names],
            row=row,
        )
    )


def _of_tiny(row: int, record: dict[str, str]) -> Draft:
    """Return a result of MLPerf Tiny: inferences one after another on a microcontroller, and the energy of one."""
    said = _kept(
        record, "uid", "version", "Division", "Submitter", "Benchmark", "Model", "Processor(s) Name", "SoC Name"
    )
    draft = draft_of(
        Result(
            benchmark=text(record, "Model") or f"tiny-{_needed(record, 'Benchmark')}",
            scenario="SingleStream",
            field="median_throughput",
            value=number(record, "median_throughput"),
            unit=text(record, "median_throughput_metric"),
            power=number(record, "median_energy_cost"),
            power_unit=text(record, "median_energy_cost_metric"),
            version=text(record, "version"),
            system=System(software=text(record, "Inference Framework")),
            said=said,
            key=[said.get(name) for name in ("version", "Division", "Submitter", "SoC Name", "Benchmark", "uid")],
            row=row,
        )
    )
    draft.hardware = hardware_of(_needed(record, "SoC Name", "Processor(s) Name"), kind="other")
    draft.execution["platform"] = "other"
    return draft


def _needed(record: dict[str, Any], *fields: str) -> str:
    name = next((said for field in fields if (said := text(record, field)) is not None), None)
    if name is None:
        raise BadRow(fields[0], "is missing")
    return name


def _flag(record: dict[str, Any], field: str) -> bool:
    """Return a flag or a count as a flag; it is written as 1, 1.0, true or an empty field."""
    said = text(record, field)
    return bool(record.get(field) is True or (said and truth(said.removesuffix(".0")) is not False))


def _count(record: dict[str, Any], field: str) -> int | None:
    """Return a count, 0 included; None where it is missing or words stand there: `6 (4 big; 2 LITTLE)`."""
    try:
        return whole(record, field) or (0 if number(record, field, zero=True) == 0 else None)
    except BadRow:
        return None


def _kept(record: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {field: said[:200] for field in fields if (said := text(record, field)) is not None}
