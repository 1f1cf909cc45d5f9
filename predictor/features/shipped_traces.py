"""Operator traces that ship with Assay: those of the catalogue's models, and of the models of timm's result files.

They stand in `predictor/shipped/traces.parquet`, made by `python -m research.pack_traces`, as rows of the view `traces`
without an event: position 0. What the log holds of a model at the same sizes counts instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import as_file, files
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.projection import Tables

__all__ = ["shipped_models", "shipped_rows", "shipped_works", "traces_of"]

_SOURCE = "assay"
_ALIKE = ("model_id", "mode", "phase", "sequence_length", "image_size", "workload")


class _Shipped:
    """The file, opened once: row groups by model, so that a question reads those of its models."""

    def __init__(self) -> None:
        with as_file(files("predictor.shipped") / "traces.parquet") as path:
            self._file = pq.ParquetFile(path)
        self.groups: dict[str, set[int]] = {}
        for group in range(self._file.num_row_groups):
            names = self._file.read_row_group(group, columns=["model_id"]).column(0).to_pylist()
            for name in names:
                self.groups.setdefault(name, set()).add(group)

    def rows(self, models: Iterable[str], columns: Sequence[str] | None) -> list[dict[str, Any]]:
        """Return the rows of these models, by model."""
        wanted = [name for name in models if name in self.groups]
        if not wanted:
            return []
        groups = sorted(set().union(*(self.groups[name] for name in wanted)))
        held = [name for name in self._file.schema_arrow.names if columns is None or name in columns]
        table = self._file.read_row_groups(groups, columns=[*held, "model_id"] if "model_id" not in held else held)
        table = table.filter(pc.is_in(table.column("model_id"), pa.array(wanted)))
        missing = {"position": 0, "event_id": None, "source": _SOURCE, "time": None, "recorded_at": None}
        rows = [{**missing, "model_id_posted": row["model_id"], **row} for row in table.to_pylist()]
        return rows if columns is None else [{name: row[name] for name in columns} for row in rows]


@cache
def _shipped() -> _Shipped:
    return _Shipped()


def shipped_models() -> frozenset[str]:
    """Return the ids of the models whose traces ship."""
    return frozenset(_shipped().groups)


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
