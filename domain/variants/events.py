"""The data of events about variants: one that was made, and what it costs in quality."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from domain.configuration import Count, Execution, Hardware, Identifier, Model, Word
from domain.measured import Digest, Environment, Provenance, Sentence, Shape
from domain.variants.lineage import Bytes, DataReference, Form, RecipeName

__all__ = ["OutputDistance", "QualityMeasured", "VariantCreated"]

Examples = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Direction = Literal["higher", "lower"]


class VariantCreated(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A model derived from another one: how, with which tools and data, its forms and their sizes on disk in bytes."""

    run_id: Identifier
    model: Model
    base: Model
    recipe: RecipeName
    forms: tuple[Form, ...]
    digest: Digest
    provenance: Provenance
    base_digest: Digest | None = None
    base_bytes: Bytes | None = None
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    tools: dict[str, str] = msgspec.field(default_factory=dict)
    calibration: DataReference | None = None
    environment: Environment | None = None


class OutputDistance(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """How far outputs are from those of the base in fp32, over all examples; no measure of quality."""

    cosine: float | None = None
    max_absolute: float | None = None


class QualityMeasured(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What a variant, or a model in another precision, costs in quality, from the user's own examples, paired one by one.

    `value` and `base_value` are the metric of both over the same examples. `loss` is how much worse the variant is
    (negative: better), in percentage points where `unit` is `pt`, else in the metric's own unit, with its 95 % interval.
    `worse` and `better` count the examples on which only one of the two is right, or has the better score.
    """

    run_id: Identifier
    model: Model
    base: Model
    execution: Execution
    hardware: Hardware
    metric: Word
    examples: Count
    value: float
    base_value: float
    loss: float
    interval: tuple[float, float]
    method: Word
    data: DataReference
    provenance: Provenance
    unit: Word = "pt"
    direction: Direction = "higher"
    worse: Examples | None = None
    better: Examples | None = None
    p_value: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    evaluator: Sentence | None = None
    distance: OutputDistance | None = None
    environment: Environment | None = None
