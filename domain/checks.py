"""What the types of payloads cannot express: members that contradict each other, and members that nobody knows."""

from __future__ import annotations

import functools
import itertools
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from domain.errors import InvalidInput
from domain.metrics import MEASURED_METRICS
from domain.payloads import (
    AliasDeclared,
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
    if all(getattr(data.metrics, name) is None for name in MEASURED_METRICS):
        raise InvalidInput(
            "no metric is given.", field="metrics", remedy="A measurement has at least one metric that is not null."
        )
    if data.metrics.latency_ms is not None:
        _check_latency(data.metrics.latency_ms)
    if data.provenance.origin == "imported":
        return
    for value, field in (
        (data.workload.batch_size, "workload.batch_size"),
        (data.execution.precision, "execution.precision"),
    ):
        if value is None:
            raise InvalidInput("required: only imported rows may leave it null.", field=field, remedy="State what ran.")
    if data.provenance.origin == "measured" and data.observed is None:
        raise InvalidInput(
            "required of a measured row.",
            field="observed",
            remedy="Observe the device, platform and precision that did the work.",
        )


def _check_latency(latency: Latency) -> None:
    ascending = ("min", "p50", "p90", "p95", "p99", "max")
    known = [(name, getattr(latency, name)) for name in ascending if getattr(latency, name) is not None]
    for (lower, low), (upper, high) in itertools.pairwise(known):
        if low > high:
            raise InvalidInput(
                f"{lower} = {low} is above {upper} = {high}.",
                field=f"metrics.latency_ms.{lower}",
                remedy="Check the order and the units.",
            )
    for name, (low, high) in (latency.ci95 or {}).items():
        if low > high:
            raise InvalidInput(
                f"the interval [{low}, {high}] is upside down.",
                field=f"metrics.latency_ms.ci95.{name}",
                remedy="Give [low, high].",
            )


def unknown_members(value: Any, shape: Any, path: str) -> Iterator[str]:
    """Yield the paths of members of `value` that its structure does not know, at every depth."""
    shape = _structure(shape)
    if isinstance(value, dict):
        if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
            members = _members(shape)
            for name, item in value.items():
                if name not in members:
                    yield f"{path}.{name}"
                elif isinstance(item, dict | list):
                    yield from unknown_members(item, members[name], f"{path}.{name}")
        elif typing.get_origin(shape) is dict:
            for name, item in value.items():
                yield from unknown_members(item, typing.get_args(shape)[1], f"{path}.{name}")
    elif isinstance(value, list) and typing.get_origin(shape) is list:
        for index, item in enumerate(value):
            yield from unknown_members(item, typing.get_args(shape)[0], f"{path}[{index}]")


@functools.cache
def _members(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """Return name → type of a structure's members; looking them up costs more than all the rest of the gate."""
    return {field.encode_name: _structure(field.type) for field in msgspec.structs.fields(shape)}


def _structure(shape: Any) -> Any:
    """Return the member of an optional or annotated type that is not None."""
    if typing.get_origin(shape) is Annotated:
        shape = typing.get_args(shape)[0]
    if isinstance(shape, types.UnionType) or typing.get_origin(shape) is typing.Union:
        return next((_structure(arm) for arm in typing.get_args(shape) if arm is not type(None)), None)
    return shape
