"""Split a plan into jobs: one plan for each case, with what a machine needs to run it."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.errors import UsageError
from domain.jobs.needs import Needs
from domain.vocabulary import IN_BROWSERS
from runner.campaign.plan import SIZES, Sweep
from runner.campaign.plan_file import PlanFile
from runner.platforms.execution_options import read_options
from runner.platforms.registry import create
from runner.protocol.tasks import Case

__all__ = ["ALLOW_CODE", "CasePlan", "code_of_others", "combined_needs", "split"]

ALLOW_CODE = "allow-code"
"""Label of a worker that runs code which comes with a checkpoint; plans that ask for it need the label."""
_DEFAULTS = Sweep()
_LONGEST_TITLE = 200
_OF_A_CASE = ("weights", "trust_remote_code", "allow_pickle")
"""Members of a plan that its cases carry."""


class CasePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One case of a plan: the document of a plan that makes this case alone, a title, and the needs that the case states."""

    case: Case
    document: dict[str, Any]
    title: str
    needs: Needs


def split(plan_file: PlanFile, platforms: tuple[str, ...] = ()) -> tuple[CasePlan, ...]:
    """Return one plan a case, in the order in which the plan would run them.

    `platforms` are taken by sweeps that name none; without them such a sweep is a UsageError, because every platform that
    this version knows would be a job. Raises as `PlanFile.plan` does, and UsageError for a model that is a path: other
    machines do not have it.
    """
    unnamed = [index for index, sweep in enumerate(plan_file.sweeps, 1) if sweep.platforms is None]
    if unnamed and not platforms:
        raise UsageError(
            f"sweep {unnamed[0]} names no platforms, and no worker has reported any.",
            field="platforms",
            remedy="Name them in the plan, such as platforms: [cpu], or start a worker first: assay worker.",
        )
    sweeps = tuple(
        msgspec.structs.replace(sweep, platforms=platforms) if sweep.platforms is None else sweep
        for sweep in plan_file.sweeps
    )
    whole = msgspec.structs.replace(plan_file, sweeps=sweeps)
    cases = whole.plan().cases
    for case in cases:
        if case.model.startswith(("/", ".", "~")):
            raise UsageError(
                f"{case.model} is a path of this machine, which workers do not have.",
                field="model",
                remedy="Name a model of the catalogue or the hub, or run the plan here: assay bench --plan.",
            )
    return tuple(
        CasePlan(case=case, document=_document(whole, case), title=_title(case), needs=_needs(case)) for case in cases
    )


def code_of_others(plan_file: PlanFile) -> list[str]:
    """Return what of a plan lets it run code on the machine that measures: members, and browsers by their path."""
    members = [name for name in ("trust_remote_code", "allow_pickle") if getattr(plan_file, name)]
    words = {word for sweep in plan_file.sweeps for options in sweep.options for word in options}
    return [*members, *sorted(word for word in words if _names_a_program(word))]


def _names_a_program(option: str) -> bool:
    name, _, value = option.partition("=")
    return name == "browser" and ("/" in value or "\\" in value)


def combined_needs(first: Needs, second: Needs) -> Needs:
    """Return the needs that satisfy both: the larger memory and number of devices; UsageError where they contradict."""
    for field in ("hardware", "os"):
        values = {getattr(first, field), getattr(second, field)} - {None}
        if len(values) > 1:
            raise UsageError(
                f"{' and '.join(sorted(values))} are both needed.", field=f"needs.{field}", remedy="Name one of them."
            )
    memory = [needs.memory_bytes for needs in (first, second) if needs.memory_bytes is not None]
    return Needs(
        platforms=tuple(dict.fromkeys((*first.platforms, *second.platforms))),
        memory_bytes=max(memory, default=None),
        hardware=first.hardware or second.hardware,
        os=first.os or second.os,
        devices=max(first.devices, second.devices),
        labels=tuple(dict.fromkeys((*first.labels, *second.labels))),
    )


def _document(plan_file: PlanFile, case: Case) -> dict[str, Any]:
    """Return the document of a plan with this case alone; members that have their default are left out."""
    of_case = {name: getattr(case, name) for name in _OF_A_CASE}
    alone = msgspec.structs.replace(plan_file, sweeps=(), limit=None, **of_case)
    defaults = PlanFile(assay=1, sweeps=())
    members = {
        name: getattr(alone, name)
        for name in PlanFile.__struct_fields__
        if name not in ("assay", "sweeps") and getattr(alone, name) != getattr(defaults, name)
    }
    document: dict[str, Any] = msgspec.to_builtins({"assay": 1, **members, "sweeps": [_sweep(case)]})
    return document


def _sweep(case: Case) -> dict[str, Any]:
    work = case.workload
    sweep = Sweep(
        models=(case.model,),
        platforms=(case.platform,),
        precisions=(case.precision,),
        modes=(work.mode,),
        optimizers=(work.optimizer,) if work.optimizer else _DEFAULTS.optimizers,
        gradient_checkpointing=(bool(work.gradient_checkpointing),),
        compiled=(case.compiled,),
        options=(case.options,),
        threads=(case.threads,) if case.threads else (),
        scenario=work.scenario or _DEFAULTS.scenario,
        target_qps=(work.arrival_rate_per_s,) if work.arrival_rate_per_s else (),
        **{field: () if getattr(work, member) is None else (getattr(work, member),) for field, member in SIZES.items()},
    )
    values = {name: getattr(sweep, name) for name in Sweep.__struct_fields__}
    stated = ("models", "platforms", "precisions", "batch_sizes")
    return {name: value for name, value in values.items() if name in stated or value != getattr(_DEFAULTS, name)}


def _title(case: Case) -> str:
    work = case.workload
    words = [case.precision]
    if work.mode != "inference":
        words.append(work.mode)
    if case.compiled:
        words.append("compiled")
    words += [
        f"{member.replace('_', ' ').removesuffix(' size')} {getattr(work, member):g}"
        for member in SIZES.values()
        if getattr(work, member) is not None
    ]
    if work.scenario not in (None, "single_stream"):
        words.append(work.scenario.replace("_", " "))
    if work.arrival_rate_per_s:
        words.append(f"{work.arrival_rate_per_s:g} queries/s")
    return f"{case.model.rpartition('/')[2]} on {case.platform}, {', '.join([*words, *case.options])}"[:_LONGEST_TITLE]


def _needs(case: Case) -> Needs:
    runs_code = case.trust_remote_code or case.allow_pickle or any(map(_names_a_program, case.options))
    labels = (ALLOW_CODE,) if runs_code else ()
    if case.platform in IN_BROWSERS:
        return Needs(platforms=(case.platform,), labels=labels)
    options = read_options(case.options, platform=case.platform, names=create(case.platform).known_options)
    # Ranks on the processor share it; elsewhere each has a device of its own.
    return Needs(platforms=(case.platform,), devices=1 if case.platform == "cpu" else options.ranks, labels=labels)
