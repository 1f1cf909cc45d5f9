"""What recipes, the command that runs them, and evaluation say to each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from domain.configuration import Word
from domain.variants.lineage import DataReference, FormKind, RecipeName, Variant
from runner.models.build import Built
from runner.protocol.tasks import Failed

__all__ = [
    "EVENTS",
    "Compression",
    "Examples",
    "Made",
    "MadeForm",
    "OnStep",
    "Recipe",
    "RecipeOutcome",
    "Scores",
    "Work",
]

EVENTS = "events.ndjson"
"""The file of all events beside the variants."""
OnStep = Callable[[str, float | None], None]
"""Called with what is done now and the share (0–1) that is done, None where nobody knows."""


class Examples(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Examples in memory: `inputs` maps each of the model's input names to an array, its first dimension the example.

    `targets` are labels or the like, None where there are none; `ids` name the examples, in order.
    """

    reference: DataReference
    inputs: dict[str, Any]
    targets: Any = None
    ids: tuple[str, ...] = ()


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe as the packaged data have it (`domain/data/compression.json`).

    `needs` is `calibration` (inputs), `training` (inputs with targets) or None; `packages` are the distributions that must be
    there; `families` the model families that it is for (empty: all), with `parameters` by family over the common ones.
    """

    name: RecipeName
    title: str
    method: Word
    forms: tuple[FormKind, ...]
    precision: Word
    packages: tuple[str, ...] = ()
    needs: str | None = None
    families: tuple[str, ...] = ()
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    by_family: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    remark: str | None = None


class MadeForm(msgspec.Struct, frozen=True, kw_only=True):
    """A form that a recipe wrote: its kind, the precision it is measured in, and the folder of its files below the work's."""

    kind: FormKind
    precision: Word
    folder: str
    quantization: str | None = None


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe made. `used` is how many examples it saw."""

    forms: tuple[MadeForm, ...]
    parameters: dict[str, Any]
    tools: dict[str, str]
    used: int = 0
    notes: tuple[str, ...] = ()


class Work(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One recipe to carry out: the model as it was built in fp32, examples where the recipe needs them, and an empty folder."""

    recipe: Recipe
    built: Built
    folder: Path
    examples: Examples | None = None
    seed: int = 0


class Carry(Protocol):
    """A method: carries out a recipe and returns what it made; raises UsageError or UnsupportedWorkload with a remedy."""

    def __call__(self, work: Work, on_step: OnStep) -> Made:
        """Write the forms below `work.folder` and say what they are."""


class Scores(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an evaluation gave for one model: a score for each example, in the order of `ids`.

    `values` is a float array; for `accuracy` 1 is right and 0 is wrong. `unit` is `pt` where the mean is a share.
    `outputs` are the model's, where they were kept; `evaluated` (`runner.quality.evaluation.Evaluated`) says what did the work.
    """

    metric: Word
    values: Any
    ids: tuple[str, ...]
    unit: Word = "pt"
    direction: str = "higher"
    outputs: Any = None
    evaluated: Any = None


class Compression(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be made and measured: `calibrate` is the file of examples, `evaluate` examples or a command.

    `precisions` are those of the model itself, besides fp32, in which it is measured and judged too, without a variant.
    `platforms` None means all that are here; `timeout_s` is for one recipe, and for one measurement.
    """

    model: str
    recipes: tuple[Recipe, ...]
    out: Path
    calibrate: str | None = None
    evaluate: str | None = None
    platforms: tuple[str, ...] | None = None
    precisions: tuple[str, ...] = ()
    weights: str = "auto"
    seed: int = 0
    measure: bool = True
    budget_s: float = 5.0
    timeout_s: float = 1800.0
    trust_remote_code: bool = False
    allow_pickle: bool = False


class RecipeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a recipe: a variant and its folder, or why there is none; `reused` where it was there already."""

    recipe: str
    variant: Variant | None = None
    folder: Path | None = None
    reused: bool = False
    failed: Failed | None = None
