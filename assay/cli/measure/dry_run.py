"""`assay bench --dry-run`: what a plan would do, told without doing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.cli.output import answers, grid, print_json, say
from presentation import formatting

if TYPE_CHECKING:
    from runner.campaign.plan import Plan
    from runner.campaign.rehearsal import Rehearsed

__all__ = ["tell_plan"]

_NAMED_APART = frozenset({"mode", "scenario"})


def tell_plan(plan: Plan, *, as_json: bool) -> int:
    """Tell every case, how long steady measuring takes at most, and what cannot run; 1 where something cannot."""
    import msgspec

    from assay.home import find_home
    from runner.campaign.rehearsal import rehearse, steady_bound_s

    cases = rehearse(plan, find_home().cache)
    refused = sum(1 for each in cases if each.why)
    bound_s = steady_bound_s(plan, len(cases) - refused)
    if as_json:
        print_json({"cases": msgspec.to_builtins(cases), "refused": refused, "steady_bound_s": bound_s})
    else:
        answers().print(_table(cases))
        longest = f"at most {formatting.count(bound_s)} s" if bound_s is not None else "as long as the iterations take"
        say(
            f"{formatting.count(len(cases))} cases, {formatting.count(refused)} of them impossible here; warming up and "
            f"measuring take {longest}, loading and converting come on top"
        )
    return 1 if refused else 0


def _table(cases: Sequence[Rehearsed]) -> Any:
    columns: list[str | tuple[str, str]] = [
        "model", ("platform", "fixed"), ("precision", "fixed"), ("mode", "fixed"), "sizes", "why not",
    ]  # fmt: skip
    rows = [
        [
            each.case.model.rpartition("/")[2],
            each.case.platform,
            each.case.precision,
            each.case.workload.mode + (" compiled" if each.case.compiled else ""),
            _sizes(each.case.workload),
            " ".join(filter(None, (each.why, each.remedy))),
        ]
        for each in cases
    ]
    return grid("Would be measured", columns, rows)


def _sizes(workload: Any) -> str:
    import msgspec

    values = {
        name: value for name, value in msgspec.to_builtins(workload).items() if value and name not in _NAMED_APART
    }
    return ", ".join(_size(name.replace("_", " "), value) for name, value in values.items())


def _size(name: str, value: Any) -> str:
    return name if value is True else f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
