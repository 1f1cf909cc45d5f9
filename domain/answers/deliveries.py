"""Answers about messages of alerts: how each route stands."""

from __future__ import annotations

from datetime import datetime

import msgspec

__all__ = ["AlertDeliveries", "RouteDeliveries"]


class RouteDeliveries(msgspec.Struct, frozen=True, kw_only=True):
    """How the messages of a route stand; deliveries that ended over 30 days ago are not counted.

    `pending` counts those that are not sent yet, `held` those of them that wait for the end of quiet hours. `failed` ones
    are not tried again. `known`: the routes file has the route. `stopped`: the receiver answered 410 Gone, and nothing is
    sent until the file names another one.
    """

    route: str
    known: bool
    stopped: bool = False
    pending: int = 0
    held: int = 0
    delivered: int = 0
    failed: int = 0
    last_delivered_at: datetime | None = None
    next_attempt_at: datetime | None = None
    last_error: str | None = None


class AlertDeliveries(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/alerts/deliveries`: the routes; `error` is set while the routes file cannot be used."""

    routes: list[RouteDeliveries]
    error: str | None = None
