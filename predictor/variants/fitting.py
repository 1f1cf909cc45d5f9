"""Variants that make a model fit on a device where the model itself does not, by their measured memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from domain.answers import CapacityEntry, FittingVariant
from domain.answers.planning import NO_BATCH
from predictor.answering.context import AnswerContext
from predictor.answering.option import Option
from predictor.variants.evidence import VariantBook

__all__ = ["fitting_variants"]


def fitting_variants(
    book: VariantBook | None, entries: Sequence[CapacityEntry], context: AnswerContext
) -> list[FittingVariant]:
    """Return the variants whose measured peak is within the room of a device on which no precision of the model fits.

    Of each variant and platform the smallest measured peak counts; the smallest variants of a device stand first. Memory of
    another device, or what nobody measured, proves nothing here and is left out.
    """
    rooms = _without_the_model(entries)
    if book is None or not rooms:
        return []
    options = book.options("p50", context.sizes, context.usual, lambda option: option.hardware in rooms)
    best: dict[tuple[str, str, str], Option] = {}
    for option in sorted(options, key=lambda item: item.peak_memory_bytes or 0.0):
        if option.variant is not None and 0 < (option.peak_memory_bytes or 0.0) <= rooms[option.hardware]:
            best.setdefault((option.variant.model, option.hardware, option.platform), option)
    found = [_fitting(option, rooms[option.hardware]) for option in best.values()]
    return sorted(found, key=lambda item: (item.hardware, item.variant.bytes, item.peak_memory_bytes, item.platform))


def _without_the_model(entries: Sequence[CapacityEntry]) -> Mapping[str, int]:
    """The room of each device on which nothing of the model fits."""
    fits = {entry.hardware for entry in entries if entry.largest_batch != NO_BATCH}
    return {
        entry.hardware: entry.room_bytes
        for entry in entries
        if entry.hardware not in fits and entry.room_bytes is not None
    }


def _fitting(option: Option, room: int) -> FittingVariant:
    assert option.variant is not None
    assert option.peak_memory_bytes is not None
    return FittingVariant(
        variant=option.variant,
        hardware=option.hardware,
        platform=option.platform,
        precision=option.precision,
        batch_size=option.batch_size,
        peak_memory_bytes=round(option.peak_memory_bytes),
        room_bytes=room,
        latency_ms=option.latency_ms,
        evidence=list(option.evidence),
    )
