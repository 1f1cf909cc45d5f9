"""Variants in words: the recipe of an option, its size, and what it costs in quality."""

from __future__ import annotations

from collections.abc import Sequence

from domain.answers import OptionVariant, QualityLoss, RankedOption
from domain.answers.variants import VariantRow
from presentation import formatting
from presentation.answer_words import short_name

__all__ = [
    "NOT_EVALUATED",
    "loss_words",
    "option_loss",
    "option_size",
    "recipe_of",
    "variant_line",
    "variant_sentence",
    "variants_note",
    "variants_table",
]

NOT_EVALUATED = "not evaluated"


def loss_words(loss: QualityLoss | None) -> str:
    """Return a loss with its interval: `0.1 pt (-0.2 – 0.4)`; `not evaluated` where there is none."""
    return NOT_EVALUATED if loss is None else f"{loss.loss:.3g} {loss.unit} ({loss.low:.3g} – {loss.high:.3g})"


def recipe_of(option: RankedOption) -> str:
    """Return the recipe of a variant; missing for the model itself."""
    return formatting.MISSING if option.variant is None else option.variant.recipe


def option_loss(option: RankedOption) -> str:
    """Return what an option costs in quality, and at most: `0.1 ≤0.4 pt`; missing for the model itself without evaluation."""
    loss = option.quality_loss
    if loss is None:
        return formatting.MISSING if option.variant is None else NOT_EVALUATED
    return f"{loss.loss:.3g} ≤{loss.high:.3g} {loss.unit}"


def option_size(option: RankedOption) -> str:
    """Return the size of a variant on disk; missing for the model itself."""
    return formatting.MISSING if option.variant is None else formatting.memory(option.variant.bytes)


def variant_line(option: RankedOption) -> str | None:
    """Return which variant an option is, with its size against the base's, and its quality; None for the model itself."""
    return None if option.variant is None else variant_sentence(option.variant)


def variant_sentence(variant: OptionVariant) -> str:
    """Return the id of a variant, with its size against the base's, and its quality."""
    base = "" if variant.base_bytes is None else f" of {formatting.memory(variant.base_bytes)}"
    quality = NOT_EVALUATED if variant.quality is None else f"{variant.quality.metric} loss {variant.quality.text()}"
    return f"{variant.model}: {formatting.memory(variant.bytes)}{base} on disk, {quality}"


def variants_table(rows: Sequence[VariantRow]) -> list[dict[str, str]]:
    """Return a model and its variants as lines of words, those of a device and platform together, the fastest first.

    What nobody measured or evaluated says so: losers and gaps are part of it.
    """

    def order(row: VariantRow) -> tuple[str, str, float]:
        return row.hardware or "~", row.platform or "~", row.latency_ms or 1e12

    return [
        {
            "Variant": row.recipe or "the model itself",
            "Platform": row.platform or row.form or formatting.MISSING,
            "Precision": row.precision or formatting.MISSING,
            "Latency": formatting.latency(row.latency_ms),
            "Speed": formatting.factor(row.speedup),
            "Size on disk": formatting.memory(row.bytes),
            "Quality loss": "0, by definition" if row.is_reference else loss_words(row.quality),
            "Memory": formatting.memory(row.peak_memory_bytes),
            "Hardware": short_name(row.hardware) if row.hardware else "not measured",
            "Examples": formatting.MISSING if row.quality is None else f"{row.quality.examples:,}",
        }
        for row in sorted(rows, key=order)
    ]


def variants_note(rows: Sequence[VariantRow], drawn: int) -> str:
    """Return what the table and its picture do not say themselves: what was slower, and how many rows nobody evaluated."""
    slower = sorted({row.recipe for row in rows if row.recipe and row.speedup is not None and row.speedup < 1})
    parts = ["Speed is against the model itself in fp32 on the same device and platform"]
    if slower:
        parts.append(f"slower than that somewhere: {', '.join(slower)}")
    if drawn < len(rows):
        parts.append(
            f"{len(rows) - drawn} of {len(rows)} rows have no measured loss or figure and are not in the picture"
        )
    return "; ".join(parts) + "."
