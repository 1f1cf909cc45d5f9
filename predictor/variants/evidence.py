"""What the log says about the variants of a model, and options made of it.

A variant is an option only where it was measured: its figures are never predicted, neither from its recipe nor from the
measurements of its base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from domain.answers import OptionVariant, QualityLoss, Sizes
from domain.answers.variants import form_of_platform
from ingest.projection import Tables
from predictor.answering.evidence import COLUMNS, options_from_rows
from predictor.answering.option import Option
from predictor.answering.question import Question

__all__ = ["Evaluated", "Form", "VariantBook", "quality_losses", "read_variants", "variant_options", "with_quality"]

_ANY = "SELECT (SELECT count(*) FROM main.variant) + (SELECT count(*) FROM main.quality_comparison)"
_FORMS = """
SELECT model_id, base_id, recipe, form, precision, quantization, bytes, base_bytes, event_id, position
FROM variants WHERE base_id = ? OR model_id = ? ORDER BY position, form
"""
_QUALITY = """
SELECT model_id, hardware_id, platform, precision, metric, unit, loss, loss_low, loss_high, examples, data_name, method, worse,
    better, event_id
FROM quality WHERE model_id IN (SELECT unnest(?::VARCHAR[])) ORDER BY position
"""

Evaluated = tuple[str, str, str | None]
"""A model, platform and precision whose quality was measured."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One form of a variant, as the view `variants` has it."""

    model_id: str
    base_id: str
    recipe: str
    form: str
    precision: str
    quantization: str | None
    bytes: int
    base_bytes: int | None
    event_id: str
    position: int


class VariantBook(NamedTuple):
    """What is known of a model's variants: their forms by id and kind, measured rows by id, and losses of quality."""

    model: str
    forms: Mapping[tuple[str, str], Form]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    losses: Mapping[Evaluated, Sequence[QualityLoss]]

    @property
    def is_of_a_variant(self) -> bool:
        """Whether the model is a variant itself."""
        return any(model == self.model for model, _ in self.forms)

    @property
    def base_bytes(self) -> int | None:
        """The size of the model's own weights on disk; None where no variant says it."""
        sizes = [form.base_bytes for form in self.forms.values() if form.base_id == self.model and form.base_bytes]
        return sizes[-1] if sizes else None

    def loss(self, model: str, option: Option) -> QualityLoss | None:
        """Return what an option costs in quality, by the comparison with the worst upper end; None where nobody evaluated it.

        A comparison on the option's own hardware stands for it, else one on other hardware with the same platform and precision.
        """
        return self.loss_at(model, option.hardware, option.platform, option.precision)

    def loss_at(self, model: str, hardware: str, platform: str, precision: str | None) -> QualityLoss | None:
        """Return the same for a device, platform and precision."""
        losses = self.losses.get((model, platform, precision), ())
        here = [loss for loss in losses if loss.hardware == hardware] or losses
        points = [loss for loss in here if loss.unit == "pt"] or here
        return max(points, key=lambda loss: loss.high, default=None)

    def form_for(self, model: str, option: Option) -> Form | None:
        """Return the form of a variant that an option ran."""
        return self.form_of(model, option.platform, option.runtime)

    def form_of(self, model: str, platform: str, runtime: str | None) -> Form | None:
        """Return the form of a variant that a platform takes, else its first; None where it is no variant."""
        form = self.forms.get((model, form_of_platform(platform, runtime)))
        return form or next((item for (name, _), item in self.forms.items() if name == model), None)

    def options(self, percentile: str, sizes: Sizes, usual: Sizes, asked: Callable[[Option], bool]) -> list[Option]:
        """Return the measured options of all variants that are asked for."""
        options: list[Option] = []
        for model, rows in self.rows.items():
            measured = options_from_rows(rows, sizes, percentile, usual)
            options += [self.marked(model, option) for option in measured if asked(option)]
        return options

    def marked(self, model: str, option: Option) -> Option:
        """Return an option of a variant with its recipe, its size and its quality."""
        form = self.form_for(model, option)
        if form is None:
            return option
        note = OptionVariant(
            model=model,
            base=form.base_id,
            recipe=form.recipe,
            form=form.form,
            quantization=form.quantization,
            bytes=form.bytes,
            base_bytes=form.base_bytes,
            quality=self.loss(model, option),
        )
        return msgspec.structs.replace(option, variant=note, quality=note.quality, size_bytes=form.bytes)


def variant_options(
    book: VariantBook | None, question: Question, sizes: Sizes, usual: Sizes, asked: Callable[[Option], bool]
) -> list[Option]:
    """Return the measured options of variants: for devices at hand, which run the model itself, only where a limit is of them."""
    limited = question.max_quality_loss_pt is not None or question.max_size_mb is not None
    if book is None or (question.devices and not limited):
        return []
    return book.options(question.percentile, sizes, usual, asked)


def read_variants(tables: Tables, model: str, mode: str) -> VariantBook | None:
    """Return what is known of a model's variants and of the quality of its precisions; None where nothing is."""
    ((events,),) = tables.cursor.execute(_ANY).fetchall()
    if not events:
        return None
    forms = [msgspec.convert(row, Form) for row in tables.select("variants", _FORMS, [model, model]).to_pylist()]
    names = list(dict.fromkeys(form.model_id for form in forms if form.model_id != model))
    losses = quality_losses(tables, [model, *names])
    if not forms and not losses:
        return None
    rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    columns = [*COLUMNS, "model_id"]
    for row in tables.measurements(model=names, mode=mode, columns=columns).to_pylist() if names else ():
        rows[row["model_id"]].append(row)
    return VariantBook(model, {(form.model_id, form.form): form for form in forms}, rows, losses)


def quality_losses(tables: Tables, models: Sequence[str]) -> dict[Evaluated, list[QualityLoss]]:
    """Return the comparisons of quality by model, platform and precision, in the order of the log."""
    losses: dict[Evaluated, list[QualityLoss]] = {}
    for row in tables.select("quality", _QUALITY, [list(models)]).to_pylist():
        loss = QualityLoss(
            metric=row["metric"],
            unit=row["unit"],
            loss=row["loss"],
            low=row["loss_low"],
            high=row["loss_high"],
            examples=row["examples"],
            data=row["data_name"],
            method=row["method"],
            worse=row["worse"],
            better=row["better"],
            hardware=row["hardware_id"],
            platform=row["platform"],
            precision=row["precision"],
            evidence=str(row["event_id"]),
        )
        losses.setdefault((row["model_id"], row["platform"], row["precision"]), []).append(loss)
    return losses


def with_quality(
    options: Sequence[Option], model: str, book: VariantBook | None, question: Question, parameters: float | None
) -> list[Option]:
    """Return options with the size of their files, and with what their precision costs in quality.

    The model itself in fp32 costs nothing, by definition: it is what others are compared with. Where no variant says its
    size, that is the size of its parameters in fp32.
    """
    if book is None and question.max_quality_loss_pt is None and question.max_size_mb is None:
        return list(options)
    size = (book and book.base_bytes) or (4 * parameters if parameters else None)
    return [option if option.variant else _marked(option, model, book, size) for option in options]


def _marked(option: Option, model: str, book: VariantBook | None, size: float | None) -> Option:
    if book is not None and book.is_of_a_variant:
        return book.marked(model, option)
    return msgspec.structs.replace(
        option,
        is_reference=option.precision == "fp32",
        quality=None if book is None or option.precision == "fp32" else book.loss(model, option),
        size_bytes=None if size is None else math.ceil(size),
    )
