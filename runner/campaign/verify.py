"""Verification: does a model run on a platform in a precision, and does it run right.

The reference is the same model with the same weights and inputs in fp32 on the processor through torch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from domain.configuration import Hardware, Model
from domain.errors import UsageError
from domain.events import TEST_REPORTED
from domain.payloads import Failure, Observed, RunContext, TestReported
from runner.campaign.campaign import Campaign
from runner.campaign.event_payloads import Machine, asked_execution, execution_of, observed_of, provenance
from runner.campaign.plan import Plan
from runner.campaign.resume import CaseKey, case_key
from runner.campaign.run import OnEvent, OnProgress, Row, Run, RunReport
from runner.platforms.registry import word
from runner.protocol.parent import Ended
from runner.protocol.tasks import Case, Failed

__all__ = ["FALLBACK_LIMIT", "run_verification"]

FALLBACK_LIMIT = 0.10
"""The largest share of the work (0–1) that may be done elsewhere or in another precision and still pass."""
_REFERENCE = "torch, fp32, cpu"


def run_verification(
    plan: Plan,
    on_event: OnEvent,
    on_progress: OnProgress | None = None,
    *,
    done: Collection[CaseKey] = (),
    cache: Path | None = None,
    context: RunContext | None = None,
    describe: bool = True,
) -> RunReport:
    """Verify every case of the plan and tell each outcome as an `assay.test.reported.v1` event.

    A platform that is not here is an outcome like any other (`unsupported`, stage resolve). Raises UsageError where
    the plan can never work. `describe` is that of `Campaign`.
    """
    if plan.low_memory:
        raise UsageError(
            "what is verified is compared with fp32, which low-memory mode never makes.",
            field="low_memory",
            remedy="Verify without it, or measure only.",
        )
    campaign = Campaign(plan, trace=False, cache=cache, tolerate_absent=True, describe=describe)
    run = Run(campaign, on_event, on_progress, kind="verify", context=context)

    def act(case: Case, ended: Ended, model: dict[str, Any]) -> Row:
        data = _report(case, ended, run.run_id, model, campaign.machine)
        failed = _why_failed(case, ended)
        return Row(events=[(TEST_REPORTED, data, None)], word=data.outcome, failed=failed)

    with run.under_way():
        for case in campaign.cases:
            if case_key(campaign.prepared[case.model].model["id"], case) in done:
                run.skip(case)
            else:
                run.perform(case, act, verify=True)
    return run.report()


def _report(case: Case, ended: Ended, run_id: str, model: Mapping[str, Any], machine: Machine) -> TestReported:
    failed = _why_failed(case, ended)
    result = ended.result or {}
    built = {key: value for key, value in result.get("model", {}).items() if value is not None}
    observed = observed_of(case, result["observed"]) if result else None
    return TestReported(
        run_id=run_id,
        model=msgspec.convert({**model, **built}, Model),
        workload=case.workload,
        execution=execution_of(case, result) if result else asked_execution(case, machine),
        hardware=_hardware(case, observed, machine),
        outcome=failed.outcome if failed else "passed",  # type: ignore[arg-type]
        stage=failed.stage if failed else "verify",  # type: ignore[arg-type]
        provenance=provenance(),
        environment=machine.reference(),
        observed=observed,
        failure=Failure(error=failed.error, message=failed.message) if failed else None,
        remedy=failed.remedy if failed else None,
        checks=_checks(result) if result else None,
    )


def _hardware(case: Case, observed: Observed | None, machine: Machine) -> Hardware:
    if observed is None:
        return machine.hardware_for(word(case.platform), case.device)
    return machine.hardware_for(observed.platform or case.platform, observed.device)


def _checks(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was compared; `values` are what `runner.campaign.expectations` records and compares on another day."""
    named = ("kind", "tolerance", "deterministic", "outputs", "missing", "tokens", "values")
    return {"reference": _REFERENCE, **{name: result[name] for name in named if result.get(name) is not None}}


def _why_failed(case: Case, ended: Ended) -> Failed | None:
    """Return what is wrong with a case, or None where it ran and ran right."""
    if ended.failure:
        return ended.failure
    result = ended.result
    observed, outputs = result["observed"], result["outputs"]
    if result["missing"] or not outputs:
        missing = ", ".join(result["missing"]) or "all"
        return _wrong("MissingOutput", f"outputs that the reference has are missing: {missing}.", _OTHER_OUTPUTS)
    wrong = [each for each in outputs if not each["passed"]]
    if wrong:
        first = wrong[0]
        kind = "ShapeMismatch" if first["shape"] != first["reference_shape"] else "Mismatch"
        not_finite = first.get("cosine") is None and first["not_finite"]
        kind = "NotFinite" if not_finite and kind == "Mismatch" else kind
        message = f"{len(wrong)} of {len(outputs)} checks failed; {first['name']}: {first['why']}."
        return _wrong(kind, message, _NUMBERS)
    if observed["platform"] != word(case.platform) or observed["fallback_share"] > FALLBACK_LIMIT:
        return _wrong(
            "Fallback",
            f"{observed['fallback_share']:.0%} of the work was not done by {case.platform} in {case.precision}, "
            f"but on {observed['device']} in {observed['precision']}.",
            "Check the device and its driver, or ask for what did the work.",
        )
    return None


_NUMBERS = "Compare in fp32 first; if that passes, this precision is too coarse for the model, else report the runtime."
_OTHER_OUTPUTS = "The conversion lost outputs; take another platform, or report it with the model's name."


def _wrong(error: str, message: str, remedy: str) -> Failed:
    return Failed(stage="verify", outcome="failed", error=error, message=message, remedy=remedy)
