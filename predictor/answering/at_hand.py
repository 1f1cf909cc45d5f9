"""Which of the devices at hand to use now, and which after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from predictor.answering.constraints import Constraint, memory
from predictor.answering.context import Known
from predictor.answering.option import Option
from predictor.answering.question import Device, Question
from predictor.answering.ranked_entry import figures

__all__ = ["at_hand"]


def at_hand(question: Question, context: Known, ranked: Sequence[Option]) -> dict[str, Any] | None:
    """Return the name of the device to `use`, all that will do in their `order`, and those `left_out` with the reason.

    `ranked` is best first and meets what is asked. Devices of the same hardware share its options; of two that are as
    good the one that was named first comes first. None where no devices were given.
    """
    if not question.devices:
        return None
    values: list[tuple[int, Device, Option]] = []
    left: list[dict[str, Any]] = []
    for device in question.devices:
        usable = [(rank, item) for rank, item in enumerate(ranked) if _drives(device, item, context)]
        fitting = [(rank, value) for rank, value in usable if _fits(device, value, question.confidence)]
        if fitting:
            values.append((fitting[0][0], device, fitting[0][1]))
        else:
            left.append({"name": device.called, "why": _why_not(device, usable)})
    values.sort(key=lambda item: item[0])
    return {
        "use": values[0][1].called if values else None,
        "order": [_told(device, option, question, context) for _, device, option in values],
        "left_out": left,
    }


def _drives(device: Device, option: Option, context: Known) -> bool:
    hardware = context.named.get(device.hardware.strip(), device.hardware.strip())
    return option.hardware == hardware and (not device.platforms or option.platform in device.platforms)


def _room(device: Device) -> Constraint | None:
    if device.free_memory_mb is None:
        return None
    return Constraint("max_memory_mb", device.free_memory_mb, "MB", memory)


def _fits(device: Device, option: Option, confidence: float) -> bool:
    room = _room(device)
    if room is None:
        return True
    chance = room.probability(option)
    # Without an estimate the least that it needs must do; where not even that is known, only trying tells.
    return chance >= confidence if chance is not None else room.excess(option) == 1.0


def _why_not(device: Device, usable: Sequence[tuple[int, Option]]) -> str:
    room = _room(device)
    if usable and room is not None:
        return f"does not fit in what is free: {room.told(usable[0][1])}"
    return "nothing that was asked for runs there, or nothing is known of it"


def _told(device: Device, option: Option, question: Question, context: Known) -> dict[str, Any]:
    return {
        "name": device.called,
        "hardware": option.hardware,
        "platform": option.platform,
        "precision": option.precision,
        "batch_size": option.batch_size,
        "compiled": option.compiled,
        "latency_ms": figures(option.latency_ms),
        "latency_ms_low": figures(option.low_ms),
        "latency_ms_high": figures(option.high_ms),
        "basis": option.basis,
        "configuration": option.configuration(context.model, question.mode, context.sizes),
    }
