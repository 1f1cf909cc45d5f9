"""What the compare page asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashboard.service import KEPT, checked, client, kept

__all__ = ["all_modes", "batches", "models", "modes", "of_model"]


@kept(max_entries=KEPT)
def of_model(model: str, mode: str, position: int, **filters: Any) -> dict[str, Any]:
    """Return what was measured or imported for a model, as `filters` of the API leave and cut it, and counts of the `whole`."""
    answer = dict(client().compare_hardware(model, mode=mode, as_of=position, **filters))
    return checked(answer, "rows", "whole", "baselines")


@kept(max_entries=KEPT)
def batches(model: str, mode: str, position: int, **filters: Any) -> dict[str, Any]:
    """Return the rows of a model's `lines` over the batch, their `work`, all `batches`, and how many lines there are."""
    answer = dict(client().compare_batches(model, mode=mode, as_of=position, **filters))
    return checked(answer, "rows", "work", "batches", "total")


@kept(max_entries=KEPT)
def models(
    hardware: str,
    mode: str,
    platform: str | None,
    precision: str | None,
    batch: int | None,
    length: int | None,
    limit: int,
    metric: str,
    position: int,
) -> dict[str, Any]:
    """Return the best configurations on a hardware, at most `limit`, and how many there are as `total`."""
    filters = {"mode": mode, "platform": platform, "precision": precision, "batch_size": batch, "limit": limit}
    filters |= {"metric": metric, "sequence_length": length}
    return checked(dict(client().compare_models(hardware, as_of=position, **filters)), "rows", "total")


@kept(max_entries=KEPT)
def modes(model: str, position: int, **filters: Any) -> dict[str, Any]:
    """Return inference beside training as `pairs`, as `filters` of the API leave and cut them; their `ratios`; the `whole`."""
    answer = dict(client().compare_modes(model, rows=False, as_of=position, **filters))
    return checked(answer, "pairs", "ratios", "whole")


def all_modes(model: str, position: int, **filters: Any) -> Callable[[], list[dict[str, Any]]]:
    """Return what asks for every pair that has both sides, at most a thousand: for a file."""
    item = client()
    request = {**filters, "limit": 1000, "rows": False, "as_of": position}
    return lambda: list(item.compare_modes(model, **request)["pairs"])
