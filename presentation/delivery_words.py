"""Served models in words: how each stands, and what it delivered beside what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from domain.answers.variants import Deliveries, Delivery
from presentation import formatting
from presentation.answer_words import short_name

__all__ = ["delivery_table", "endpoint_table"]

_VERDICTS = {"kept": "✓ kept", "broken": "✕ broken", "undecided": "– undecided"}


def endpoint_table(served: Deliveries) -> list[dict[str, str]]:
    """Return a line an endpoint: its state, model and place, with how often its promise held among what is listed."""
    return [
        {
            "Endpoint": item.endpoint,
            "State": item.state if item.reason is None else f"{item.state}: {item.reason}",
            "Model": item.model_id,
            "Runs on": _place(item.platform, item.precision, item.hardware_id),
            "Workers": formatting.count(item.workers),
            "Memory": formatting.memory(item.memory_bytes),
            "Promise held": _held([row for row in served.items if row.endpoint == item.endpoint]),
        }
        for item in served.endpoints
    ]


def delivery_table(items: Sequence[Delivery], zone: tzinfo | None) -> list[dict[str, str]]:
    """Return a line a delivery: the promise with its interval, what was delivered, the load, and the verdict with its reason."""
    return [
        {
            "Verdict": _VERDICTS[item.verdict],
            "Endpoint": item.endpoint,
            "Until": item.until.astimezone(zone).strftime("%Y-%m-%d %H:%M"),
            "Promise": _promise(item),
            "Delivered": formatting.latency(item.delivered_ms),
            "With waiting": formatting.latency(item.request_p50_ms),
            "Requests": formatting.count(item.requests),
            "Failed": formatting.count(item.failures),
            "Why": item.reason or formatting.MISSING,
        }
        for item in items
    ]


def _promise(item: Delivery) -> str:
    words = formatting.latency(item.promise_latency_ms, item.promise_low_ms, item.promise_high_ms)
    return words if item.promise_percentile is None else f"{item.promise_percentile} {words}"


def _place(platform: str | None, precision: str | None, hardware: str | None) -> str:
    parts = (platform, precision, short_name(hardware) if hardware else None)
    return " · ".join(part for part in parts if part) or formatting.MISSING


def _held(items: Sequence[Delivery]) -> str:
    decided = [item for item in items if item.verdict != "undecided"]
    kept = sum(item.verdict == "kept" for item in decided)
    return f"{kept} of {len(decided)}" if decided else formatting.MISSING
