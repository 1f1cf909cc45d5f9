"""What the compare page asks beside hardware for a model."""

from __future__ import annotations

from typing import Any

from dashboard.answers.source import KEPT, checked, client, kept

__all__ = ["models", "modes"]


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
