"""A self-test from outside: each part in a child of its own, a small model measured and verified, all of it posted as events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from domain.configuration import Execution, Model, Runtime, Workload
from domain.errors import AssayError
from domain.events import MEASUREMENT_RECORDED, RUN_FINISHED, TEST_REPORTED
from domain.payloads import Failure, RunFinished, TestReported
from runner.campaign.bench import run_plan
from runner.campaign.campaign import Campaign, survey_machine
from runner.campaign.event_payloads import provenance
from runner.campaign.plan import Plan, Sweep, make_plan
from runner.campaign.run import OnEvent, Run
from runner.campaign.verify import run_verification
from runner.measure.stopping import Method
from runner.platforms.registry import create, word
from runner.protocol.parent import run_task
from runner.protocol.tasks import Examine, Exhaust
from runner.selftest.record import Check

__all__ = ["SelfTest", "run_selftest"]

MODEL = "prajjwal1/bert-tiny"
_METHOD = Method(budget_s=3.0, iterations=60)
_LIMIT_BYTES = 1_500_000_000
"""Of the child that takes memory until it has none: more than any runtime needs to start."""
_EXAMINE_S = 600.0
OnCheck = Callable[[Check], None]


class SelfTest(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `passed` is true where the platform is here and nothing failed; skipped parts are listed."""

    platform: str
    hardware: str
    run_id: str
    checks: list[Check]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.outcome != "failed" for check in self.checks)


def run_selftest(
    platform: str,
    on_event: OnEvent,
    on_check: OnCheck | None = None,
    *,
    device: str | None = None,
    cache: Path | None = None,
) -> SelfTest:
    """Verify a platform of this machine and tell it as events; raises UnknownPlatform for a name that is none.

    Events are those of a run of the kind `selftest`, of a small benchmark and of a verification.
    """
    machine, _ = survey_machine((platform,))
    has = machine.platforms[platform]["precisions"]
    precision = "fp32" if "fp32" in has or not has else has[0]
    plan = make_plan(
        Sweep(models=(MODEL,), platforms=(platform,), precisions=(precision,)),
        weights="random",
        method=_METHOD,
        device=device,
    )
    campaign = Campaign(plan, trace=False, cache=cache, tolerate_absent=True)
    run = Run(campaign, on_event, None, kind="selftest")
    run.start()
    checks: list[Check] = []

    def tell(result: list[Check]) -> None:
        for check in result:
            checks.append(check)
            if on_check:
                on_check(check)

    tell(_examined(platform, device))
    if all(check.outcome == "passed" for check in checks if check.name in ("probe", "product")):
        tell([_exhausted(platform, device)])
        tell([_measured(plan, on_event, cache)])
        tell([_verified(plan, on_event, cache)])
    data = _report(run, campaign, plan, checks)
    run.tell(TEST_REPORTED, data, subject=data.model.id)
    failed = 0 if data.outcome == "passed" else 1
    run.tell(
        RUN_FINISHED, RunFinished(run_id=run.run_id, outcome="completed", failed=failed, tests=1), subject=run.run_id
    )
    return SelfTest(platform=platform, hardware=data.hardware.id, run_id=run.run_id, checks=checks)


def _examined(platform: str, device: str | None) -> list[Check]:
    ended = run_task(Examine(platform=platform, device=device), timeout_s=_EXAMINE_S)
    if ended.failure:
        said = f"{ended.failure.message} {ended.failure.remedy or ''}".strip()
        return [Check(name="probe", outcome="failed", said=said)]
    return msgspec.convert(ended.result, list[Check])


def _exhausted(platform: str, device: str | None) -> Check:
    """Return whether having no memory left is an outcome, and the platform as good as before."""
    own = getattr(create(platform), "device_type", "cpu") != "cpu"
    limit = None if own else _LIMIT_BYTES
    ended = run_task(Exhaust(platform=platform, device=device), timeout_s=_EXAMINE_S, memory_limit_bytes=limit)
    outcome = ended.failure.outcome if ended.failure else "finished"
    if ended.failure and outcome == "out_of_memory":
        said = f"the child that took all of it ended as out_of_memory in stage {ended.failure.stage}"
        return Check(name="out_of_memory", outcome="passed", said=said, figures={"error": ended.failure.error})
    why = ended.failure.message if ended.failure else "nothing stopped it"
    return Check(name="out_of_memory", outcome="failed", said=f"taking all memory ended as {outcome}: {why}")


def _measured(plan: Plan, on_event: OnEvent, cache: Path | None) -> Check:
    rows: list[dict[str, Any]] = []

    def keep(event: dict[str, Any]) -> None:
        if event["type"] == MEASUREMENT_RECORDED:
            rows.append(event["data"] if isinstance(event["data"], dict) else msgspec.to_builtins(event["data"]))
        on_event(event)

    try:
        report = run_plan(plan, keep, cache=cache)
    except AssayError as error:
        return Check(name="bench", outcome="failed", said=str(error))
    if not rows:
        return Check(name="bench", outcome="failed", said="; ".join(failed.message for _, failed in report.failures))
    row = rows[0]
    latency, validity, observed = row["metrics"]["latency_ms"], row["validity"], row["observed"]
    reasons = validity.get("reasons") or []
    first = f": {reasons[0]}" + (f", and {len(reasons) - 1} more in the row" if reasons[1:] else "") if reasons else ""
    said = f"{MODEL}: {latency['p50']:.3g} ms (median of {latency['n']}), {validity['verdict']}{first}"
    elsewhere = observed["platform"] != word(plan.platforms[0]) or validity["verdict"] == "invalid"
    return Check(
        name="bench",
        outcome="failed" if elsewhere else "passed",
        said=said,
        figures={"p50_ms": latency["p50"], "n": latency["n"], "verdict": validity["verdict"]},
    )


def _verified(plan: Plan, on_event: OnEvent, cache: Path | None) -> Check:
    report = run_verification(plan, on_event, cache=cache)
    if report.failures:
        return Check(name="verify", outcome="failed", said="; ".join(failed.message for _, failed in report.failures))
    return Check(name="verify", outcome="passed", said=f"{MODEL} gives what torch gives in fp32 on the processor")


def _report(run: Run, campaign: Campaign, plan: Plan, checks: list[Check]) -> TestReported:
    machine, platform = campaign.machine, plan.platforms[0]
    failed = [check for check in checks if check.outcome == "failed"]
    absent = checks[0].outcome == "failed"
    outcome = "passed" if not failed else "unsupported" if absent else "failed"
    return TestReported(
        run_id=run.run_id,
        model=msgspec.convert({**campaign.prepared[MODEL].model, "weights": "random"}, Model),
        workload=Workload(mode="inference", scenario="single_stream", batch_size=1),
        execution=Execution(
            platform=word(platform),
            runtime=msgspec.convert(machine.platforms[platform]["runtime"], Runtime),
            precision=plan.cases[0].precision,
        ),
        hardware=machine.hardware_for(word(platform)),
        outcome=outcome,  # type: ignore[arg-type]
        stage="resolve" if absent else "verify",
        test="selftest",
        provenance=provenance(),
        environment=machine.reference(),
        failure=Failure(error="SelfTest", message=f"{failed[0].name}: {failed[0].said}") if failed else None,
        checks={check.name: {"outcome": check.outcome, "said": check.said, **check.figures} for check in checks},
    )
