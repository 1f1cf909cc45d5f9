"""Energy of a row in words: what was drawn, how far to believe it, and how it was read or why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from presentation import formatting

__all__ = ["drawn", "lines", "method", "rest"]

Row = Mapping[str, Any]
_KEYS = (
    "energy_j",
    "power_w",
    "energy_per_item_j",
    "energy_per_token_j",
    "energy_above_idle_j",
    "idle_power_w",
)


def drawn(metrics: Row) -> str:
    """Say what was drawn: by item, by output token, by call, and the mean power."""
    parts = [
        (f"{formatting.energy(metrics.get('energy_per_item_j'))} an item", "energy_per_item_j"),
        (f"{formatting.energy(metrics.get('energy_per_token_j'))} a token", "energy_per_token_j"),
        (f"{formatting.energy(metrics.get('energy_j'))} a call", "energy_j"),
        (f"{formatting.si(metrics.get('power_w'), 'W')} on average", "power_w"),
    ]
    return ", ".join(words for words, key in parts if metrics.get(key) is not None) or formatting.MISSING


def rest(metrics: Row, reading: Row) -> str:
    """Say what the device drew at rest, and what of a call is above that; that rest was not measured where it was not."""
    idle = next((item for item in (metrics.get("idle_power_w"), reading.get("idle_w")) if item is not None), None)
    if idle is None:
        return "not measured: what the device draws at rest is part of the energy"
    seconds, above = reading.get("idle_seconds"), metrics.get("energy_above_idle_j")
    parts = [
        f"{formatting.si(idle, 'W')}"
        + (f", in {formatting.si(seconds, 's')} before the model was loaded" if seconds else "")
    ]
    if above is not None:
        parts.append(f"{formatting.energy(above)} a call above it")
    elif metrics.get("energy_j") is not None:
        parts.append("no less than was drawn at work")
    return "; ".join(parts)


def method(reading: Row) -> str:
    """Say by what energy was read, how often, with which gaps, and how counter and integral agree; or why it was not."""
    if reading.get("unread"):
        return f"not read: {reading['unread']}"
    if not reading.get("meter"):
        return "how it was read was not recorded"
    parts = [f"{reading['meter']}, {reading['scope']}" if reading.get("scope") else str(reading["meter"])]
    if reading.get("readings") is not None:
        lasted = f" in {formatting.si(reading['seconds'], 's')}" if reading.get("seconds") else ""
        parts.append(f"{formatting.count(reading['readings'])} readings{lasted}")
    if reading.get("longest_gap_s") is not None:
        parts.append(f"longest gap {formatting.si(reading['longest_gap_s'], 's')}")
    return "; ".join([*parts, _check(reading)])


def _check(reading: Row) -> str:
    counted, integrated = reading.get("counted_j"), reading.get("integrated_j")
    if not counted or integrated is None:
        only = "its counter" if counted else "the integral of its power"
        return f"{only} alone, with nothing to check it against"
    apart = f"{abs(integrated / counted - 1):.1%}".replace("%", f"{formatting.SPACE}%")
    return f"counter {formatting.energy(counted)}, integral of power {formatting.energy(integrated)}: {apart} apart"


def lines(data: Row) -> list[tuple[str, str]]:
    """Return what a measurement's event says of energy, as names and words; empty where it says nothing at all."""
    metrics, judged = data.get("metrics") or {}, (data.get("validity") or {}).get("metrics") or {}
    reading = (data.get("conditions") or {}).get("energy") or {}
    existing = any(metrics.get(name) is not None for name in _KEYS)
    own = next((judged[name] for name in _KEYS if name in judged), None)
    if not existing and own is None and not reading:
        return []
    result = []
    if existing or own is not None:
        result.append(("Energy", drawn(metrics)))
        verdict = own or ({} if judged else data.get("validity") or {})
        reasons = "; ".join(verdict.get("reasons") or [])
        word = verdict.get("verdict") or "no verdict"
        result.append(("Its verdict", f"{word}: {reasons}" if reasons else word))
        result.append(("At rest", rest(metrics, reading)))
    return [*result, ("Read by", method(reading))]
