"""The ways from rows to predictions, by name: each makes a table of the rows it understands and has a method for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from domain.errors import UsageError
from predictor.artifact.calibrated import CalibratedMethod
from predictor.device_transfer.method import ReferenceMethod
from predictor.device_transfer.pieces import tabulate as referred
from predictor.features.dataset import TARGETS, Row, by_software
from predictor.features.operators_route import SpecOf, tabulate
from predictor.features.table import Table
from predictor.features.traces import TraceBook
from predictor.learning.blend import ARCHITECTURES_NEEDED, BlendMethod
from predictor.learning.method import Method
from predictor.learning.parametric import ParametricMethod
from predictor.llm_serving.method import ServingMethod
from predictor.llm_serving.table import tabulate as served
from predictor.memory.facts import tabulate as remembered
from predictor.memory.method import MemoryMethod

__all__ = ["ROUTES", "Evaluation", "chosen", "routed"]

ROUTES = ("operators", "serving", "reference")
_USUAL = {"ttft": "serving", "tpot": "serving"}


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `assay evaluate` asks: rows are held out by `split`, with `shots` measurements of what is held out.

    `route` is how predictions are made: from operator traces, from the facts of language models, or from the same model
    on sibling devices; without one the target decides. The rest chooses rows: of a `mode` (or both), of sources, devices
    or platforms whose name contains a text.
    """

    split: str = "architecture"
    target: str = "throughput"
    shots: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    route: str | None = None
    mode: str | None = "inference"
    source: str | None = None
    hardware: str | None = None
    platform: str | None = None
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    points: bool = False
    as_of: int | Annotated[str, msgspec.Meta(max_length=100)] | None = None

    def takes(self, row: Row) -> bool:
        """Return whether a row is among those asked for."""
        wanted = ((self.source, row.source), (self.hardware, row.hardware), (self.platform, row.platform))
        return all(text is None or text.lower() in (value or "").lower() for text, value in wanted)


def chosen(route: str | None, target: str) -> str:
    """Return the route, checked; that of the target where none is named. Raises UsageError naming the field."""
    if target not in TARGETS:
        raise UsageError(f"no target {target!r}.", field="target", remedy=f"One of {', '.join(TARGETS)}.")
    if route is None:
        return _USUAL.get(target, "operators")
    if route not in ROUTES:
        raise UsageError(f"no route {route!r}.", field="route", remedy=f"One of {', '.join(ROUTES)}.")
    return route


def routed(route: str, rows: Sequence[Row], book: TraceBook, spec_of: SpecOf, target: str) -> tuple[Table, Method]:
    """Return the table of the rows that a route understands, and its method."""
    if route == "serving":
        return served(rows, spec_of, target), ServingMethod()
    if route == "reference":
        return referred(rows, spec_of, target), ReferenceMethod()
    if target == "memory":
        return remembered(rows, book), MemoryMethod()
    table = tabulate(rows, book, spec_of, target)
    return table, _of_operators(table)


def _of_operators(table: Table) -> Method:
    """What a service would use: trees and neighbours where a software was measured widely, else the few rows' model."""
    wide = any(
        len(set(table.architecture[members].tolist())) >= ARCHITECTURES_NEEDED
        for members in by_software(table.rows).values()
    )
    return CalibratedMethod(BlendMethod()) if wide else ParametricMethod()
