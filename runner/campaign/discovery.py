"""What a child finds out before anything is measured: the machine, its platforms, and a model's operators."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal, Protocol

import msgspec

from domain.canonical import digest
from domain.configuration import Workload
from domain.errors import AssayError, InvalidInput, UnsupportedWorkload
from domain.vocabulary import IN_BROWSERS
from runner.machine.scrub import scrub
from runner.platforms.registry import create
from runner.protocol.tasks import Message, Prepare, Survey, Wanted

__all__ = ["Announcer", "prepare", "survey"]

_FORWARD: Literal["forward"] = "forward"
_IN_BROWSER = frozenset(IN_BROWSERS)


class Announcer(Protocol):
    """Announces stages; `stage` is the last of them."""

    stage: str

    def reach(self, stage: str) -> None:
        """Say that a stage begins."""

    def say(self, message: Message) -> None:
        """Pass a message on to the parent."""


def survey(task: Survey) -> dict[str, Any]:
    """Return `{"platforms": {name: probe, precisions, refusals, runtime, converts}, "environment", "hardware", "placement"}`.

    `hardware` is the data of hardware events; `placement` says which platform calls which of it by what address.
    """
    row: dict[str, Any] = {"platforms": {name: _probe(name) for name in task.platforms}}
    if task.describe:
        from runner.machine.detect import describe, detect
        from runner.machine.environment import environment

        row["environment"] = environment()
        detection = detect(browsers=not _IN_BROWSER.isdisjoint(task.platforms))
        row["hardware"] = msgspec.to_builtins(describe(detection))
        row["placement"] = [
            {"hardware": msgspec.to_builtins(device.hardware), "addresses": msgspec.to_builtins(device.addresses)}
            for device in detection.devices
        ]
    return row


def _probe(name: str) -> dict[str, Any]:
    platform = create(name)
    probe = platform.probe()
    return {
        "probe": msgspec.to_builtins(probe),
        "precisions": list(platform.precisions()) if probe.available else [],
        "refusals": platform.refusals() if probe.available else {},
        "runtime": msgspec.to_builtins(platform.runtime()),
        "converts": platform.converts,
        "forms": list(platform.forms),
    }


def prepare(task: Prepare, speaker: Announcer) -> list[dict[str, Any]]:
    """Return one `{"model", "config", "workloads", "traces", "error"}` for each model wanted, in order.

    `workloads` are filled in, as asked and in that order; `traces` has one for each that differs in more than its
    batch. `error` is null, or why this model cannot be measured (`fatal`) or only not traced.
    """
    speaker.reach("resolve")
    return [_prepared(wanted, task) for wanted in task.wanted]


def _prepared(wanted: Wanted, task: Prepare) -> dict[str, Any]:
    from runner.compression.folder import check_variant
    from runner.models.build import build_meta
    from runner.models.checkpoints import check_shapes
    from runner.models.inputs import workload_defaults
    from runner.models.sources import resolve

    row: dict[str, Any] = {"model": None, "config": None, "workloads": [], "traces": [], "error": None}
    try:
        how = {"trust_remote_code": task.trust_remote_code, "allow_pickle": task.allow_pickle}
        source = resolve(wanted.model, task.weights, **how)
        if source.variant_folder:
            check_variant(source.variant_folder)
        workloads = [workload_defaults(source, workload) for workload in wanted.workloads]
        row["config"] = source.config
        row["workloads"] = msgspec.to_builtins(workloads)
        built = build_meta(source, image_size=workloads[0].image_size)
        if source.location is not None and source.kind != "diffusers":
            check_shapes(built.module, source.location)
        row["model"] = msgspec.to_builtins(built.model())
    except AssayError as error:
        row["error"] = _said(error, fatal=True)
        return row
    if task.trace:
        try:
            row["traces"] = _traces(source, workloads)
        except Exception as error:
            # A model that cannot be traced can still be measured; the caller says that its trace is missing.
            row["error"] = _said(error, fatal=False)
    return row


def _traces(source: Any, workloads: list[Workload]) -> list[dict[str, Any]]:
    """Return the traces of each workload that differs in more than its batch: the forward pass, and its phases."""
    from runner.tracing.trace import phases_of, trace

    single = {msgspec.structs.replace(workload, batch_size=1, optimizer=None): None for workload in workloads}
    traces: dict[str, dict[str, Any]] = {}
    for workload in single:
        for phase in dict.fromkeys((_FORWARD, *phases_of(source, workload))):
            # A model without a phase has the others.
            with suppress(UnsupportedWorkload):
                traced = trace(source, workload, phase=phase)
                traces.setdefault(digest(traced["workload"]), traced)
    return list(traces.values())


def _said(error: Exception, *, fatal: bool) -> dict[str, Any]:
    existing = error if isinstance(error, AssayError) else AssayError(str(error) or repr(error))
    return {
        "fatal": fatal,
        "usage": isinstance(error, InvalidInput),
        "type": type(error).__name__,
        "detail": scrub(existing.detail),
        "field": existing.field,
        "remedy": existing.remedy,
    }
