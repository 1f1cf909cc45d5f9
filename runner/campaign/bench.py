"""Benchmarks: a plan run case by case, each fact posted as an event as soon as it is known."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Any

import msgspec

from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, SAMPLES_RECORDED, uuid7
from domain.payloads import RunContext
from runner.campaign.campaign import Campaign
from runner.campaign.event_payloads import failure_data, measurement_data
from runner.campaign.plan import SIZES, Plan
from runner.campaign.resume import CaseKey, case_key
from runner.campaign.run import OnEvent, OnProgress, Progress, Row, Run, RunReport
from runner.measure.noise import noise
from runner.protocol.parent import Ended
from runner.protocol.tasks import Case, Failed
from runner.tracing.combined_traces import operators_of_call

__all__ = ["Growth", "follow_plan", "run_campaign", "run_plan"]


class Growth:
    """Remembers the cases of a run that ran out of memory."""

    def __init__(self) -> None:
        self._full: dict[Hashable, list[Case]] = {}

    def ran_out(self, case: Case) -> None:
        """Remember that this one did not fit."""
        self._full.setdefault(_kind(case), []).append(case)

    def refusal(self, case: Case) -> Failed | None:
        """Return why a case is not tried: one of the same kind, no larger in any size, ran out of memory."""
        smaller = next((full for full in self._full.get(_kind(case), ()) if _reaches(case, full)), None)
        if smaller is None:
            return None
        sizes = {member: getattr(smaller.workload, member) for member in SIZES.values()}
        stated = ", ".join(f"{name} {value:g}" for name, value in sizes.items() if value is not None)
        return Failed(
            stage="resolve",
            outcome="skipped",
            error="LargerThanMemory",
            message=f"not tried: with {stated} it ran out of memory already.",
            remedy="Take a lower precision, a smaller model, or a machine with more memory.",
        )


def _kind(case: Case) -> Hashable:
    """Return all that a case is but its sizes."""
    plain = dict.fromkeys(SIZES.values())
    return msgspec.structs.replace(case, workload=msgspec.structs.replace(case.workload, **plain))


def _reaches(case: Case, full: Case) -> bool:
    pairs = [(getattr(case.workload, member), getattr(full.workload, member)) for member in SIZES.values()]
    return all(value == other or (value is not None and other is not None and value >= other) for value, other in pairs)


NOISE_S = 1.0
"""How long the machine is listened to before a run, in s."""


def run_plan(
    plan: Plan,
    on_event: OnEvent,
    on_progress: OnProgress | None = None,
    *,
    done: Collection[CaseKey] = (),
    cache: Path | None = None,
    context: RunContext | None = None,
    describe: bool = True,
) -> RunReport:
    """Run the plan and tell each event, in order, through `on_event`; an error that it raises stops the plan.

    Cases whose key is in `done` are skipped, and those larger than one that ran out of memory are not tried;
    `cache` is the folder for converted models, `context` the state of the code that is measured. Before any event it raises PlatformUnavailable where none of the
    platforms is here, and UsageError or UnsupportedPrecision where the plan can never work. An interrupt ends the
    child, records the case as failed and the run as interrupted, and is raised again. `describe` is that of `Campaign`;
    without it nothing is traced.
    """
    campaign = Campaign(plan, trace=True, cache=cache, describe=describe)
    return run_campaign(campaign, on_event, on_progress, done=done, context=context)


def run_campaign(
    campaign: Campaign,
    on_event: OnEvent,
    on_progress: OnProgress | None = None,
    *,
    done: Collection[CaseKey] = (),
    context: RunContext | None = None,
) -> RunReport:
    """Run a campaign that was made before, as `run_plan` does."""
    run = Run(campaign, on_event, on_progress, kind="bench", context=context)

    def act(case: Case, ended: Ended, model: dict[str, Any]) -> Row:
        if ended.failure:
            data = failure_data(case, ended.failure, run_id=run.run_id, model=model, machine=campaign.machine)
            return Row(events=[(MEASUREMENT_FAILED, data, None)], word=ended.failure.outcome, failed=ended.failure)
        measured, samples = measurement_data(
            case,
            ended.result,
            run_id=run.run_id,
            model=model,
            machine=campaign.machine,
            operators=operators_of_call(case.workload, campaign.prepared[case.model].traces),
        )
        identity = uuid7()
        samples = msgspec.structs.replace(samples, measurement_id=identity)
        word = measured.validity.verdict if measured.validity else "measured"
        return Row(events=[(MEASUREMENT_RECORDED, measured, identity), (SAMPLES_RECORDED, samples, None)], word=word)

    growth = Growth()
    with run.under_way(noise(NOISE_S)):
        for case in campaign.cases:
            if case_key(campaign.prepared[case.model].model["id"], case) in done:
                run.skip(case)
            elif too_large := growth.refusal(case):
                run.refuse(case, too_large, act)
            elif run.perform(case, act) == "out_of_memory":
                growth.ran_out(case)
    return run.report()


def follow_plan(plan: Plan, on_progress: OnProgress | None = None, *, cache: Path | None = None) -> RunReport:
    """Have this node, which is not the first, take part in the plan's cases, and return how many it finished.

    It makes no events: the first node does. A case that failed here failed there as well.
    """
    assert plan.nodes
    campaign = Campaign(plan, trace=False, cache=cache)
    show = on_progress or (lambda _: None)
    total, failures = len(campaign.cases), []
    for done, case in enumerate(campaign.cases, 1):
        show(Progress(done=done - 1, total=total, case=case))
        failed = campaign.run(case).failure
        if failed:
            failures.append((case, failed))
        show(Progress(done=done, total=total, case=case, outcome=failed.outcome if failed else "took part"))
    notes = [f"{case.model}: {failed.message} {failed.remedy or ''}".strip() for case, failed in failures]
    host = plan.nodes.hosts[0]
    return RunReport(
        run_id="",
        done=total - len(failures),
        failed=len(failures),
        failures=failures,
        notes=[
            *notes,
            f"node {plan.nodes.rank} took part in {total - len(failures)} of {total} cases; {host} has the events.",
        ],
    )
