"""What the types of payloads cannot express: members that contradict each other, and members that nobody knows."""

from __future__ import annotations

import functools
import types
import typing
from typing import Annotated, Any

import msgspec

from domain.errors import InvalidInput
from domain.kernels import check_kernels, unknown_columns
from domain.metrics import MEASURED_METRICS
from domain.payloads import (
    AliasDeclared,
    KernelMeasured,
    Latency,
    MeasurementRecorded,
    MeasurementRetracted,
    SamplesRecorded,
    TestReported,
)

__all__ = ["check", "unknown_members"]


def check(data: msgspec.Struct) -> None:
    """Raise InvalidInput, naming the field, where members contradict each other."""
    if isinstance(data, MeasurementRecorded):
        _check_measurement(data)
    elif isinstance(data, KernelMeasured):
        check_kernels(data)
    elif isinstance(data, MeasurementRetracted) and (data.event_id is None) == (data.run_id is None):
        raise InvalidInput("give exactly one of event_id and run_id.", field="event_id", remedy="Name what is void.")
    elif isinstance(data, AliasDeclared) and data.alias == data.canonical:
        raise InvalidInput("an alias of itself.", field="alias", remedy="Name the canonical id that it stands for.")
    elif isinstance(data, SamplesRecorded) and data.n != len(data.values):
        raise InvalidInput(
            f"says {data.n}, and there are {len(data.values)} values.", field="n", remedy="Count the values."
        )
    elif isinstance(data, TestReported) and data.outcome not in ("passed", "skipped") and data.failure is None:
        raise InvalidInput(
            "required unless the test passed or was skipped.", field="failure", remedy="Say what went wrong."
        )


def _check_measurement(data: MeasurementRecorded) -> None:
    metrics = data.metrics
    if metrics.latency_ms is None and all(getattr(metrics, name) is None for name in MEASURED_METRICS):
        raise InvalidInput(
            "no metric is given.", field="metrics", remedy="A measurement has at least one metric that is not null."
        )
    if metrics.latency_ms is not None:
        _check_latency(metrics.latency_ms)
    origin = data.provenance.origin
    if origin == "imported" or (origin == "simulated" and data.imported is not None):
        return
    for value, field in (
        (data.workload.batch_size, "workload.batch_size"),
        (data.execution.precision, "execution.precision"),
    ):
        if value is None:
            raise InvalidInput("required: only imported rows may leave it null.", field=field, remedy="State what ran.")
    if origin == "measured" and data.observed is None:
        raise InvalidInput(
            "required of a measured row.",
            field="observed",
            remedy="Observe the device, platform and precision that did the work.",
        )


def _check_latency(latency: Latency) -> None:
    lower, low = "", float("-inf")
    for upper in ("min", "p50", "p90", "p95", "p99", "max"):
        high = getattr(latency, upper)
        if high is None:
            continue
        if low > high:
            raise InvalidInput(
                f"{lower} = {low} is above {upper} = {high}.",
                field=f"metrics.latency_ms.{lower}",
                remedy="Check the order and the units.",
            )
        lower, low = upper, high
    for name, (low, high) in (latency.ci95 or {}).items():
        if low > high:
            raise InvalidInput(
                f"the interval [{low}, {high}] is upside down.",
                field=f"metrics.latency_ms.ci95.{name}",
                remedy="Give [low, high].",
            )


def unknown_members(value: Any, shape: Any, path: str) -> list[str]:
    """Return the paths of members of `value` that its structure does not know, at every depth."""
    structure = _structure(shape)
    rests = _unknown(value, structure) if structure is not None else []
    if shape is KernelMeasured:
        rests += unknown_columns(value)
    return [path + rest for rest in rests]


class _Structure:
    """The members of an object that are known by name, and of those the ones that have members themselves.

    `each` is the structure of every member of a mapping, or of every item of a list.
    """

    def __init__(self, names: frozenset[str] | None, inner: dict[str, _Structure], each: _Structure | None) -> None:
        self.names = names
        self.inner = inner
        self.each = each


def _unknown(value: Any, structure: _Structure) -> list[str]:
    """Return the ends of the paths; they are put together only where there is one, which is rare."""
    names: list[str] = []
    if isinstance(value, dict):
        if structure.names is not None:
            if not value.keys() <= structure.names:
                names += [f".{name}" for name in sorted(value.keys() - structure.names)]
            for name, inner in structure.inner.items():
                if name in value:
                    names += [f".{name}{rest}" for rest in _unknown(value[name], inner)]
        elif structure.each is not None:
            for name, item in value.items():
                names += [f".{name}{rest}" for rest in _unknown(item, structure.each)]
    elif isinstance(value, list) and structure.each is not None:
        for index, item in enumerate(value):
            names += [f"[{index}]{rest}" for rest in _unknown(item, structure.each)]
    return names


@functools.cache
def _structure(shape: Any) -> _Structure | None:
    """Return what is known of a type's members, None of a plain value; looking it up anew would cost the most."""
    if typing.get_origin(shape) is Annotated:
        return _structure(typing.get_args(shape)[0])
    if isinstance(shape, types.UnionType) or typing.get_origin(shape) is typing.Union:
        return next((_structure(arm) for arm in typing.get_args(shape) if arm is not type(None)), None)
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        fields = {field.encode_name: _structure(field.type) for field in msgspec.structs.fields(shape)}
        return _Structure(frozenset(fields), {name: inner for name, inner in fields.items() if inner}, None)
    arguments = typing.get_args(shape)
    each = _structure(arguments[-1]) if typing.get_origin(shape) in (dict, list) else None
    return _Structure(None, {}, each) if each else None
