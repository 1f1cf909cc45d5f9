"""Models beside a model: its nearest siblings, and smaller ones for the same task that are openly licensed.

How good the outputs of one are beside those of another is not compared here: nothing of it is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from domain.catalogues.models import OPEN_LICENCES, OWN_PREFIX, find
from ingest.projection import Tables
from predictor.answering.facts import trace_from_row
from predictor.artifact.coverage import op_mix
from predictor.features.shipped_traces import traces_of
from predictor.features.traces import Trace, TraceBook

__all__ = ["Beside", "alternatives", "beside", "siblings"]

Row = Mapping[str, Any]
MOST = 5
ALIKE = 0.9
"""Cosine of the operator mixes above which models of different families do work of one kind."""
SMALLER = 0.9
"""Share of the parameters or FLOPs below which a model counts as smaller."""
_DOUBLING = 0.1
"""How much less of a cosine counts as much as twice the size."""
_READ = 100
"""Models whose traces are read, nearest in size first."""
_COLUMNS = (
    "model_id",
    "family",
    "category",
    "architecture",
    "parameters",
    "workload",
    "mode",
    "phase",
    "image_size",
    "sequence_length",
    "operators",
    "totals",
)


class Beside:
    """The sizes and the work of models beside each other, from their rows and their traces of one forward pass."""

    def __init__(self, models: Sequence[Row], book: TraceBook) -> None:
        """Take rows of the registry, and traces where there are any."""
        self._models = {row["id"]: row for row in models}
        self._book = book
        self._mixes: dict[str, Any] = {}

    def size(self, name: str) -> float | None:
        """Return the number of parameters: as published or sent, rounded or traced; None where nobody says it."""
        row = self._models[name]
        stated = row["parameters"] or row["parameters_about"]
        traced = next((trace.parameters for trace in self._book.of_model(name) if trace.parameters), None)
        return stated or traced

    def size_ratio(self, name: str, other: str) -> float | None:
        """Return how many times as many parameters the other has."""
        own, its = self.size(name), self.size(other)
        return its / own if own and its else None

    def flops_ratio(self, name: str, other: str) -> tuple[float, Mapping[str, Any]] | None:
        """Return how many times the FLOPs of one item the other takes, and the size of that item; None without one in common."""
        for own in self._book.of_model(name):
            its = self._book.find(other, **own.sizes)
            if its is not None and dict(its.sizes) == dict(own.sizes) and _flops(own) > 0:
                return _flops(its) / _flops(own), own.sizes
        return None

    def cosine(self, name: str, other: str) -> float | None:
        """Return how alike the shares of time by operator class are, 0 to 1; None where one is not traced."""
        mixes = [self._mix(item) for item in (name, other)]
        if mixes[0] is None or mixes[1] is None:
            return None
        return float(mixes[0] @ mixes[1] / (np.linalg.norm(mixes[0]) * np.linalg.norm(mixes[1])))

    def _mix(self, name: str) -> Any:
        if name not in self._mixes:
            traces = self._book.of_model(name)
            self._mixes[name] = op_mix(traces[0]) if traces else None
        return self._mixes[name]


def beside(tables: Tables, name: str, models: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Return `siblings` and `alternatives` of a model, reading the traces of those that come into question.

    `models` are the rows of the registry, the model's own among them.
    """
    model = next(row for row in models if row["id"] == name)
    unread = Beside(models, TraceBook())
    kin = [row for row in models if row["id"] != name and _comes_into_question(model, row)]
    kin.sort(key=lambda row: (row["family"] != model["family"], _far(unread.size_ratio(name, row["id"])), row["id"]))
    wanted = [name, *(row["id"] for row in kin[:_READ]), *(row["id"] for row in kin[_READ:] if row["catalogued"])]
    rows = traces_of(tables, wanted, mode="inference", phase="forward", columns=_COLUMNS)
    beside = Beside(models, TraceBook(map(trace_from_row, rows)))
    return {"siblings": siblings(model, kin, beside), "alternatives": alternatives(model, kin, beside)}


def siblings(model: Row, others: Sequence[Row], beside: Beside) -> list[dict[str, Any]]:
    """Return up to five models of the same family, nearest first: in parameters, and in the mix of their operators.

    A model whose family is not known, or has no other member, gets those of its category that do work of one kind.
    """
    kin = [row for row in others if model["family"] is not None and row["family"] == model["family"]]
    related = bool(kin)
    kin = kin or [row for row in others if (beside.cosine(model["id"], row["id"]) or 0.0) >= ALIKE]
    result = []
    for row in kin:
        ratio, cosine = beside.size_ratio(model["id"], row["id"]), beside.cosine(model["id"], row["id"])
        same = model["architecture"] is not None and row["architecture"] == model["architecture"]
        result.append(
            {
                "id": row["id"],
                "family": row["family"],
                "parameters": row["parameters"] or row["parameters_about"],
                "parameters_ratio": _rounded(ratio),
                "op_mix_cosine": _rounded(cosine),
                "same_operators": same,
                "measurements": row["measurements"],
                "tests": row["tests"],
                "why": _kinship(same, ratio, cosine, related=related),
                "_far": -1.0 if same else _far(ratio) + (1 - (1.0 if cosine is None else cosine)) / _DOUBLING,
            }
        )
    result.sort(key=lambda item: (item["_far"], item["id"]))
    return [{key: value for key, value in item.items() if key != "_far"} for item in result[:MOST]]


def alternatives(model: Row, others: Sequence[Row], beside: Beside) -> list[dict[str, Any]]:
    """Return up to five published models for the same task with a tenth fewer parameters or FLOPs at least.

       Openly licensed ones come first, and of these the largest. Where the catalogue has none for the task, those of the
    category stand in, which would have to be trained for it. Models that are known to be licensed otherwise, or that
    ask for consent, are left out; `open` is None where the licence is not known. Quality is not compared.
    """
    result = []
    for row in others:
        entry = find(row["id"])
        closed = row["licence"] is not None and row["licence"] not in OPEN_LICENCES
        if not row["catalogued"] or row["id"].startswith(OWN_PREFIX) or closed or (entry is not None and entry.gated):
            continue
        parameters, work = beside.size_ratio(model["id"], row["id"]), beside.flops_ratio(model["id"], row["id"])
        if min(parameters or 1.0, work[0] if work else 1.0) > SMALLER:
            continue
        result.append(
            {
                "id": row["id"],
                "family": row["family"],
                "task": row["task"],
                "same_task": row["task"] == model["task"],
                "parameters": row["parameters"] or row["parameters_about"],
                "parameters_ratio": _rounded(parameters),
                "flops_ratio": _rounded(work[0]) if work else None,
                "flops_at": dict(work[1]) if work else None,
                "licence": row["licence"],
                "open": True if row["licence"] else None,
                "measurements": row["measurements"],
                "tests": row["tests"],
            }
        )
    same = [item for item in result if item["same_task"]]
    result = same or result
    result.sort(key=lambda item: (not item["open"], _far(item["parameters_ratio"] or item["flops_ratio"]), item["id"]))
    return result[:MOST]


def _comes_into_question(model: Row, other: Row) -> bool:
    if model["family"] is not None and other["family"] == model["family"]:
        return True
    return model["category"] is not None and other["category"] == model["category"]


def _flops(trace: Trace) -> float:
    return float((trace.count * trace.flops).sum())


def _far(ratio: float | None) -> float:
    """How many doublings apart; what nobody knows is far."""
    return abs(math.log2(ratio)) if ratio else 20.0


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _kinship(same: bool, ratio: float | None, cosine: float | None, *, related: bool) -> str:
    if same:
        return "exactly the same operators: what is measured of one holds for the other"
    facts = ["the same family" if related else "another family whose operators are mixed alike"]
    if ratio is not None:
        facts.append("the same size" if abs(ratio - 1) < 0.005 else f"{ratio:.2g} times the parameters")
    if cosine is not None and related:
        facts.append(f"operators mixed alike to {cosine:.0%}".replace("%", " %"))
    return ", ".join(facts)
