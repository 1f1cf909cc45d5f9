"""Which device to use now, for programs: `client.choose(model, devices)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from domain.answers import Recommendation, Rung
from domain.errors import UsageError

__all__ = ["Choice", "Rung", "asked_devices", "choice_of"]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The name of the device to `use`, all that will do in the order to try them, and why the others will not.

    `use` is None where none will do. `abstained` is a sentence where nothing tells them apart: the order is then a guess.
    """

    use: str | None
    order: list[Rung]
    left_out: dict[str, str]
    abstained: str | None
    answer: str
    """The id of the answer, position and predictor of which it is made with."""


def asked_devices(devices: Mapping[str, str] | Sequence[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return devices as the question has them: from {name: hardware}, or a list of slugs and of whole descriptions."""
    if isinstance(devices, Mapping):
        return [{"name": name, "hardware": hardware} for name, hardware in devices.items()]
    return [{"hardware": device} if isinstance(device, str) else dict(device) for device in devices]


def choice_of(recommendation: Recommendation) -> Choice:
    """Return the choice in an answer whose question had devices."""
    at_hand = recommendation.at_hand
    if at_hand is None:
        raise UsageError("the answer names no device at hand.", field="devices", remedy="Ask with at least one device.")
    return Choice(
        use=at_hand.use,
        order=at_hand.order,
        left_out={item.name: item.why for item in at_hand.left_out},
        abstained=recommendation.abstained,
        answer=recommendation.id,
    )
