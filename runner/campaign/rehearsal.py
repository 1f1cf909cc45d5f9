"""A plan without its measurements: every case with all its sizes, and what already makes one impossible here."""

from __future__ import annotations

from pathlib import Path

import msgspec

from domain.errors import AssayError
from runner.campaign.campaign import Campaign, Prepared
from runner.campaign.plan import Plan
from runner.measure.prepared_case import check_work, require_probe
from runner.platforms.registry import create
from runner.protocol.tasks import Case

__all__ = ["Rehearsed", "rehearse", "steady_bound_s"]


class Rehearsed(msgspec.Struct, frozen=True, kw_only=True):
    """A case as it would run; `why` it cannot and what to do, both None where nothing speaks against it.

    Whether it fits in memory, and whether its model can be converted, is found out by running it.
    """

    case: Case
    why: str | None = None
    remedy: str | None = None


def rehearse(plan: Plan, cache: Path | None = None) -> list[Rehearsed]:
    """Return the cases in the order in which they would run; raises what makes the whole plan wrong."""
    campaign = Campaign(plan, trace=False, cache=cache)
    absent: dict[tuple[str, tuple[str, ...]], AssayError | None] = {}
    for case in campaign.cases:
        key = (case.platform, case.options)
        if key not in absent:
            absent[key] = _absence(*key)
    return [
        _rehearsed(case, campaign.prepared[case.model], absent[case.platform, case.options]) for case in campaign.cases
    ]


def _absence(name: str, options: tuple[str, ...]) -> AssayError | None:
    platform = create(name)
    try:
        require_probe(platform, options)
    except AssayError as error:
        return error
    finally:
        platform.close()
    return None


def steady_bound_s(plan: Plan, cases: int) -> float | None:
    """Return the seconds that warming up and measuring may take in all; None for a fixed number of iterations."""
    method = plan.method
    return None if method.iterations is not None else cases * (method.warmup_s + method.budget_s)


def _rehearsed(case: Case, prepared: Prepared, absent: AssayError | None) -> Rehearsed:
    if prepared.error:
        return Rehearsed(case=case, why=prepared.error.message, remedy=prepared.error.remedy)
    try:
        if absent:
            raise absent
        check_work(create(case.platform), case)
    except AssayError as error:
        return Rehearsed(case=case, why=error.detail, remedy=error.remedy)
    return Rehearsed(case=case)
