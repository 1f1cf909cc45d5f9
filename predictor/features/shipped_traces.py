"""Operator traces that ship with Assay: of the catalogue's models, and of models whose speed others published.

They stand in `predictor/shipped/traces.parquet`, made by `python -m research.pack_traces`, as rows of the view `traces`
without an event: position 0. What the log holds of a model at the same sizes counts instead.

`predictor/shipped/traced_names.json` names the trace of models that do the same work under other ids: ports, fine-tuned
models, other spellings. Each entry has the `trace`, the `sizes` at which it holds where that is not all of them, and the
`names` in lower case with dashes. Such a model keeps its id; its rows are those of the trace with that id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from ingest.projection import Tables
from predictor import shipped

__all__ = ["lend_trace", "renamed_models", "shipped_models", "shipped_rows", "shipped_works", "traces_of"]

_FILE = Path(str(files(shipped) / "traces.parquet"))
_SOURCE = "assay"
_ORIGIN = re.compile(r"-\((onnx-model-zoo|huggingface)\)$")
"""Where a published list got its models from: no part of what they compute."""
_ALIKE = ("model_id", "mode", "phase", "sequence_length", "image_size", "workload")


class _Renamed(NamedTuple):
    """The trace of a model that has another id, and the sizes at which it holds."""

    trace: str
    sizes: Mapping[str, Any]


class _Shipped:
    """The file, opened once: it is sorted by model, so that a question reads the row groups of its models."""

    def __init__(self) -> None:
        entries = json.loads(files(shipped).joinpath("traced_names.json").read_text("utf-8"))
        self.renamed = {
            name: _Renamed(entry["trace"], entry.get("sizes") or {}) for entry in entries for name in entry["names"]
        }
        self.lent: dict[str, list[Mapping[str, Any]]] = {}
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET parquet_metadata_cache = true")
        models = self._read("DISTINCT model_id", "true", [])
        self.models = frozenset(name for (name,) in models.fetchall())
        self._columns = [column[0] for column in self._read("*", "false", []).description or ()]

    def _read(self, selected: str, condition: str, values: Sequence[Any]) -> duckdb.DuckDBPyConnection:
        statement = f"SELECT {selected} FROM read_parquet(?) WHERE {condition}"
        return self._connection.cursor().execute(statement, [str(_FILE), *values])

    def _work_of(self, name: str) -> _Renamed | None:
        """Return the trace of a model: its own, or that of a model with other weights or another name."""
        if name in self.models:
            return _Renamed(name, {})
        return self.renamed.get(_ORIGIN.sub("", name.lower().replace("_", "-")))

    def lend(self, row: Mapping[str, Any]) -> None:
        """Have a row of a trace beside those that ship, in place of one of the same work."""
        work = _work(dict(row))
        others = [other for other in self.lent.get(row["model_id"], ()) if _work(dict(other)) != work]
        self.lent[row["model_id"]] = [*others, row]

    def rows(self, models: Iterable[str], columns: Sequence[str] | None) -> list[dict[str, Any]]:
        """Return the rows of these models, by model; lent ones first."""
        names = list(models)
        lent = [row for name in names for row in self.lent.get(name, ())]
        missing = {"position": 0, "event_id": None, "source": _SOURCE, "time": None, "recorded_at": None}
        rows = [{**missing, **row, "model_id_posted": row["model_id"]} for row in lent]
        rows += self._shipped_rows([name for name in names if name not in self.lent], columns, missing)
        return rows if columns is None else [{name: row[name] for name in columns} for row in rows]

    def _shipped_rows(
        self, models: Iterable[str], columns: Sequence[str] | None, missing: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        work = {name: self._work_of(name) for name in models}
        wanted = {entry.trace for entry in work.values() if entry is not None}
        if not wanted:
            return []
        sizes = {size for entry in work.values() if entry is not None for size in entry.sizes}
        every = self._columns
        read = every if columns is None else [name for name in every if name in {*columns, "model_id", *sizes}]
        among = f"model_id IN ({', '.join('?' * len(wanted))})"
        of_trace: dict[str, list[dict[str, Any]]] = {}
        for values in self._read(", ".join(f'"{name}"' for name in read), among, sorted(wanted)).fetchall():
            row = dict(zip(read, values, strict=True))
            of_trace.setdefault(row["model_id"], []).append(row)
        return [
            {**missing, **row, "model_id": name, "model_id_posted": name}
            for name, entry in work.items()
            if entry is not None
            for row in of_trace[entry.trace]
            if all(row[size] == value for size, value in entry.sizes.items())
        ]


@cache
def _shipped() -> _Shipped:
    return _Shipped()


def shipped_models() -> frozenset[str]:
    """Return the ids under which traces ship."""
    return _shipped().models


def renamed_models() -> dict[str, str]:
    """Return the trace of each model that does the same work under another id, in lower case with dashes."""
    return {name: entry.trace for name, entry in _shipped().renamed.items()}


def lend_trace(data: Mapping[str, Any]) -> None:
    """Have the trace in the data of an `assay.model.traced.v1` event beside those that ship, until this process ends."""
    model, workload = data["model"], data["workload"]
    row = {name: model.get(name) for name in ("category", "family", "architecture", "task", "parameters")}
    row |= {name: workload.get(name) for name in ("phase", "batch_size", "sequence_length", "image_size")}
    row |= {name: json.dumps(data[name]) for name in ("workload", "tracer", "operators", "totals")}
    _shipped().lend({"model_id": model["id"], "mode": workload.get("mode") or "inference", **row})


def shipped_rows(models: Iterable[str], columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the shipped traces of some models as rows of the view `traces`; `columns` are read, all by default."""
    return _shipped().rows(models, columns)


def shipped_works(models: Iterable[str]) -> list[dict[str, Any]]:
    """Return of which work the shipped traces of some models are: rows of model_id, mode, phase and workload."""
    return shipped_rows(models, ("model_id", "mode", "phase", "workload"))


def traces_of(
    tables: Tables,
    models: Iterable[str],
    *,
    mode: str | None = None,
    phase: str | None = None,
    columns: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return the traces of some models as rows of the view `traces`, shipped ones first; those of the log count before them.

    `columns` are read, all by default.
    """
    names = sorted(set(models))
    filters: dict[str, Any] = {name: value for name, value in (("mode", mode), ("phase", phase)) if value is not None}
    read = None if columns is None else list(dict.fromkeys((*columns, *_ALIKE)))
    paging: dict[str, Any] = {} if read is None else {"columns": read}
    recorded = tables.traces(model=names, **filters, **paging).to_pylist()
    existing = {_work(row) for row in recorded}
    shipped = [
        row
        for row in shipped_rows(names, read)
        if all(row[name] == value for name, value in filters.items()) and _work(row) not in existing
    ]
    rows = [*shipped, *recorded]
    return rows if columns is None else [{name: row[name] for name in columns} for row in rows]


def _work(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what makes two traces of a model the same work: mode, phase and every size."""
    sizes = {**json.loads(row["workload"] or "{}"), **{name: row[name] for name in ("sequence_length", "image_size")}}
    stated = sorted((name, str(size)) for name, size in sizes.items() if size and name not in ("mode", "phase"))
    return row["model_id"], row["mode"] or "inference", row["phase"] or "forward", *stated
