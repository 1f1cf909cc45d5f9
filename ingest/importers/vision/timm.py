"""timm's result tables: `results/benchmark-*.csv` of huggingface/pytorch-image-models, written by its benchmark.py.

The file name says how it was measured:
`benchmark-<infer|train>-<precision>-<layout>-pt<torch>-<cu<cuda>|cpu>-<hardware>[-dynamo][@<date>-<commit>].csv`; `@…` is the
file as it was at an older commit. A row is one model at one image size: `<mode>_step_time` in ms a batch (a mean),
`<mode>_samples_per_sec`, `<mode>_batch_size`, `<mode>_img_size`, `param_count` in millions. Order and number of the columns
differ by file. GMACs and activations are not taken: an operator trace says them exactly.

The scenario is `offline`: benchmark.py sends batch after batch and reports how many samples a second come out, at
batch 1 as well. `amp` is autocast to fp16, benchmark.py's default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from domain.canonical import digest
from domain.catalogues import hardware, models
from domain.catalogues.slugs import slug
from domain.events import MEASUREMENT_RECORDED, RUN_FINISHED, RUN_STARTED
from domain.vocabulary import precision_named
from ingest.importers.files import File
from ingest.importers.identity import row_id
from ingest.importers.reading import BadFile, csv_rows, csv_text
from ingest.importers.refusals import BadRow, Refused

__all__ = ["Timm"]

VERSION = 1
"""Part of every id: raise it when a row becomes another event than before."""
SOURCE = "urn:assay:importer:timm"
LICENCE = "Apache-2.0"
REPOSITORY = "huggingface/pytorch-image-models/results/"

_NAME = re.compile(
    r"benchmark-(?P<mode>infer|train)-(?P<precision>[a-z0-9_]+)-(?P<layout>nchw|nhwc)-pt(?P<torch>\d{3})"
    r"-(?P<backend>cu\d{3}|cpu)-(?P<hardware>[a-z0-9_]+)(?P<dynamo>-dynamo)?"
    r"(?:@(?P<date>\d{4}-\d{2}-\d{2})-(?P<commit>[0-9a-f]{7,40}))?\.csv"
)
_HARDWARE = {
    "rtx3090": "NVIDIA GeForce RTX 3090",
    "3090": "NVIDIA GeForce RTX 3090",
    "rtx4090": "NVIDIA GeForce RTX 4090",
    "4090": "NVIDIA GeForce RTX 4090",
    "rtx5090": "NVIDIA GeForce RTX 5090",
    "5090": "NVIDIA GeForce RTX 5090",
    "i9_10940x": "Intel Core i9-10940X",
    "i7_12700h": "Intel Core i7-12700H",
}
"""What timm's file names call a device, and its full name."""
_MODES = {"infer": "inference", "train": "training"}
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,179}")
_TOLERANCE = 0.02
_ROUNDING = 0.005
"""Throughput is published with two decimals."""
_family = lru_cache(maxsize=8192)(models.timm_family)


class _Table(NamedTuple):
    """What the name of a file says, as parts of an event."""

    file: File
    prefix: str
    run_id: str
    time: str | None
    workload: dict[str, Any]
    execution: dict[str, Any]
    hardware: dict[str, Any]
    environment: dict[str, Any]
    provenance: dict[str, Any]


class Timm:
    """timm result tables (CSV)."""

    name = "timm"
    title = "timm results/benchmark-*.csv"

    def sniff(self, file: File) -> bool:
        """Return whether name and header are timm's."""
        if file.suffix != ".csv" or not file.base.startswith("benchmark-"):
            return False
        header = [column.strip() for column in file.head().partition("\n")[0].split(",")]
        return "model" in header and any(f"{mode}_step_time" in header for mode in _MODES)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        match = _NAME.fullmatch(file.base)
        if match is None:
            yield Refused(
                path=file.name,
                format=self.name,
                field="file name",
                reason="the name does not say mode, precision, layout, torch and device as timm's names do",
            )
            return
        table = _table_of(file, match)
        yield _event(
            table,
            RUN_STARTED,
            {
                "run_id": table.run_id,
                "kind": "import",
                "hardware": [table.hardware],
                "environment": table.environment,
                "provenance": table.provenance,
            },
        )
        measured = refused = 0
        for item in _items(table):
            measured += not isinstance(item, Refused)
            refused += isinstance(item, Refused)
            yield item
        yield _event(
            table,
            RUN_FINISHED,
            {"run_id": table.run_id, "outcome": "completed", "measured": measured, "failed": refused},
        )


def _table_of(file: File, match: re.Match[str]) -> _Table:
    device = _HARDWARE.get(match["hardware"], match["hardware"].replace("_", "-"))
    spec = hardware.find(device)
    cuda = match["backend"].removeprefix("cu") if match["backend"] != "cpu" else None
    torch = _torch_version(match["torch"])
    libraries = {"torch": torch} | ({"cuda": f"{cuda[:-1]}.{cuda[-1]}"} if cuda else {})
    reference = REPOSITORY + file.base.partition("@")[0].removesuffix(".csv") + ".csv"
    if match["commit"]:
        reference += f"@{match['commit']}"
    return _Table(
        file=file,
        prefix=match["mode"],
        run_id=f"timm:{file.base.removesuffix('.csv')}",
        time=f"{match['date']}T00:00:00+00:00" if match["date"] else None,
        workload={"mode": _MODES[match["mode"]], "scenario": "offline"},
        execution={
            "platform": "cuda" if cuda else "cpu",
            "runtime": {"name": "torch", "version": torch},
            "precision": precision_named(match["precision"]),
            "compiled": match["dynamo"] is not None,
            "layout": match["layout"],
        },
        hardware={
            "id": spec.id if spec else slug(device),
            "kind": spec.kind if spec else ("gpu" if cuda else "cpu"),
            "count": 1,
        },
        environment={"fingerprint": digest(libraries).removeprefix("sha256:")[:16], "libraries": libraries},
        provenance={
            "origin": "imported",
            "source": f"timm results {file.base}",
            "reference": reference,
            "licence": LICENCE,
        },
    )


def _torch_version(digits: str) -> str:
    """Return the version that three digits mean: `112` is 1.12, `240` is 2.4.0."""
    return f"1.{digits[1:]}" if digits[0] == "1" else ".".join(digits)


def _items(table: _Table) -> Iterator[dict[str, Any] | Refused]:
    for item in csv_rows(table.file):
        if isinstance(item, Refused):
            yield msgspec.structs.replace(item, format="timm")
            continue
        line, row = item
        if "model" not in row:
            raise BadFile("the first line does not name timm's columns", 1)
        try:
            yield _measurement(table, row)
        except BadRow as bad:
            yield Refused(
                path=table.file.name,
                format="timm",
                row=line,
                field=bad.field,
                reason=bad.reason,
                content=csv_text([list(row), list(row.values())]),
            )


def _measurement(table: _Table, row: dict[str, str]) -> dict[str, Any]:
    name = row.get("model", "")
    if not _MODEL.fullmatch(name):
        raise BadRow("model", "is not the name of a timm model")
    batch_size = _whole(row, f"{table.prefix}_batch_size")
    step_time_ms = _number(row, f"{table.prefix}_step_time")
    throughput = _number(row, f"{table.prefix}_samples_per_sec")
    model: dict[str, Any] = {
        "id": f"timm/{name}",
        "category": "vision",
        "family": _family(name),
        "task": "image-classification",
    }
    if row.get("param_count"):
        model["parameters"] = _parameters(row)
    data = {
        "run_id": table.run_id,
        "model": model,
        "workload": {
            **table.workload,
            "batch_size": batch_size,
            "image_size": _whole(row, f"{table.prefix}_img_size"),
        },
        "execution": table.execution,
        "hardware": table.hardware,
        "environment": table.environment,
        "metrics": {"latency_ms": {"mean": step_time_ms}, "throughput_per_s": throughput},
        "validity": _validity(batch_size, step_time_ms, throughput),
        "provenance": table.provenance,
    }
    return _event(table, MEASUREMENT_RECORDED, data, content=row)


def _parameters(row: dict[str, str]) -> int:
    millions = _number(row, "param_count")
    if millions > 1e9:
        raise BadRow("param_count", "is not a number of millions")
    return round(millions * 1e6)


def _validity(batch_size: int, step_time_ms: float, throughput: float) -> dict[str, Any]:
    """Return `suspect` where time and throughput tell of different batches, beyond what rounding explains."""
    document = step_time_ms / 1000 * throughput
    allowed = _TOLERANCE * batch_size + step_time_ms / 1000 * _ROUNDING
    if abs(document - batch_size) <= allowed:
        return {"verdict": "valid", "reasons": []}
    reason = f"step time × throughput = {document:.4g}, and the batch has {batch_size}"
    suspect = {"verdict": "suspect", "reasons": [reason]}
    return {**suspect, "metrics": {"latency_ms": suspect, "throughput_per_s": suspect}}


def _number(row: dict[str, str], field: str) -> float:
    text = row.get(field)
    if text is None:
        raise BadRow(field, "the column is missing")
    if not text:
        raise BadRow(field, "is empty")
    try:
        value = float(text)
    except ValueError:
        raise BadRow(field, "is not a number") from None
    if not math.isfinite(value):
        raise BadRow(field, "is not a finite number")
    if value <= 0:
        raise BadRow(field, "is not above 0")
    return value


def _whole(row: dict[str, str], field: str) -> int:
    value = _number(row, field)
    if value != int(value) or value > 2**53 - 1:
        raise BadRow(field, "is not a whole number")
    return int(value)


def _event(table: _Table, type_: str, data: dict[str, Any], content: Any = None) -> dict[str, Any]:
    """Return an event whose id says format, file and content, so that a second import is a no-op."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": row_id("timm", VERSION, table.file.base, type_, data if content is None else content),
        "source": SOURCE,
        "type": type_,
        "subject": table.run_id,
    }
    if table.time is not None:
        event["time"] = table.time
    return {**event, "datacontenttype": "application/json", "data": data}
