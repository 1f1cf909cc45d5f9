"""What is known for an answer, all of it at one position of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec

from domain.answers import OutputError, Sizes
from domain.calls import CallPlan
from domain.catalogues.hardware import HardwareSpec
from predictor.answering.prices import Price
from predictor.answering.serving_context import Served
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor
from predictor.artifact.energy import EnergyModel
from predictor.features.traces import Trace
from predictor.learning.siblings import Siblings
from predictor.variants.evidence import VariantBook

__all__ = ["AnswerContext"]


class AnswerContext(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is known at a position: what a call is, rows of the model, its trace, devices, failures, prices and the predictor.

    `failures` maps (hardware, platform, precision) to (what happened, event id) where nothing ever ran; `prices` maps a
    device to what machines that hold it cost; `errors` maps (platform, precision) to how far the verified outputs were
    from those of fp32 on the CPU; `named` maps the names that were asked for to those that are used here,
    `counts` a device that was asked for as an instance type to how many that has.
    """

    model: str
    position: int
    time: str | None
    rows: Sequence[Mapping[str, Any]]
    parts: Sequence[Mapping[str, Any]] = ()
    """Rows of parts of the model, where they stand for the call together."""
    trace: Trace | None
    call: CallPlan
    sizes: Sizes
    usual: Sizes
    specs: Sequence[HardwareSpec]
    unspecified: Sequence[str]
    restricted: bool
    failures: Mapping[tuple[str, str, str], tuple[str, str]]
    prices: Mapping[str, Price]
    own: Sequence[str]
    predictor: Predictor
    notes: Sequence[str] = ()
    siblings: Siblings | None = None
    errors: Mapping[tuple[str, str], OutputError] = {}
    named: Mapping[str, str] = {}
    counts: Mapping[str, int] = {}
    served: Served | None = None
    """Where the question is of serving a language model."""
    measured_on: Set[str] = frozenset()
    """Devices on which some model was measured, here or elsewhere."""
    kept: Reading | None = None
    """What was made for other questions at this position."""
    energy: EnergyModel | None = None
    """What devices draw at work, where any was measured."""
    variants: VariantBook | None = None
    """The variants of the model, where any are known and the question may be answered with one."""

    def blind(self) -> AnswerContext:
        """Return the same without a measurement of the model."""
        return msgspec.structs.replace(self, rows=(), parts=())

    def spec(self, hardware: str) -> HardwareSpec | None:
        """Return the figures of a device among those that are asked for."""
        return next((spec for spec in self.specs if spec.id == hardware), None)
