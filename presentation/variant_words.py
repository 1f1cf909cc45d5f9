"""Variants in words: the recipe of an option, its size, and what it costs in quality."""

from __future__ import annotations

from domain.answers import OptionVariant, QualityLoss, RankedOption
from presentation import formatting

__all__ = ["NOT_EVALUATED", "loss_words", "option_loss", "option_size", "recipe_of", "variant_line", "variant_sentence"]

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
