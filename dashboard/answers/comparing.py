"""What the compare page asks."""

from __future__ import annotations

from typing import Any

from dashboard.answers.source import KEPT, checked, client, kept

__all__ = ["models", "modes", "of_model"]


@kept(max_entries=KEPT)
def of_model(model: str, mode: str, position: int, **filters: Any) -> dict[str, Any]:
    """Return what was measured or imported for a model, as `filters` of the API leave and cut it, and counts of the `whole`."""
    answer = dict(client().compare_hardware(model, mode=mode, as_of=position, **filters))
    return checked(answer, "rows", "whole", "baselines")


@kept(max_entries=KEPT)
def models(
    hardware: str,
    mode: str,
    platform: str | None,
    precision: str | None,
    batch: int | None,
    limit: int,
    metric: str,
    position: int,
) -> dict[str, Any]:
    """Return the best configurations on a hardware, at most `limit`, and how many there are as `total`."""
    filters = {"mode": mode, "platform": platform, "precision": precision, "batch_size": batch, "limit": limit}
    filters["metric"] = metric
    return checked(dict(client().compare_models(hardware, as_of=position, **filters)), "rows", "total")


@kept(max_entries=KEPT)
def modes(model: str, position: int) -> dict[str, Any]:
    """Return inference beside training, as `pairs`."""
    return checked(dict(client().compare_modes(model, as_of=position)), "pairs")
