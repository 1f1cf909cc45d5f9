"""What a run would measure, and where it stands: on stderr, a bar in a terminal, a line a configuration elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from assay.cli.output import answers, grid, notes, print_json, say
from domain.payloads import MeasurementRecorded
from presentation import formatting

if TYPE_CHECKING:
    from runner.campaign.plan import Plan
    from runner.campaign.rehearsal import Rehearsed

__all__ = ["progress", "progress_bar", "tell_plan"]


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[..., None]]:
    """Give what moves a bar: `total`, `completed`, `description` and `left`, the seconds that are left, if known."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("looking at this machine", total=None, left="")

        def move(*, left: float | None, **figures: Any) -> None:
            bar.update(task, left=f"about {left:.0f} s left" if left else "", **figures)

        yield move


@contextmanager
def progress() -> Iterator[Callable[[Any], None]]:
    """Show where a plan stands: a bar in a terminal, a line a configuration elsewhere."""
    console = notes()
    with progress_bar(console) as move:

        def show(step: Any) -> None:
            doing = _case_name(step.case) if step.case else ""
            if step.stage:
                doing += f": {step.stage}"
            move(total=step.total, completed=step.done, description=doing, left=step.left_s)
            if step.outcome:
                done = f"[{step.done}/{step.total}] {_case_name(step.case)}: {step.outcome}{_figures(step.fact)}"
                console.print(done, highlight=False, markup=False)

        yield show


def _figures(fact: Any) -> str:
    """Return the median of a measurement with its interval, and why it is not valid; empty for any other fact."""
    if not isinstance(fact, MeasurementRecorded) or fact.metrics.latency_ms is None:
        return ""
    latency, validity = fact.metrics.latency_ms, fact.validity
    low, high = (latency.ci95 or {}).get("p50") or (None, None)
    reasons = validity.reasons if validity else ()
    return f", {formatting.latency(latency.p50, low, high)}" + (f": {'; '.join(reasons)}" if reasons else "")


_RANKS = ("tensor-parallel", "data-parallel", "fsdp")


def _case_name(case: Any) -> str:
    size = f" batch {case.workload.batch_size}" if case.workload.batch_size else ""
    load = ""
    if case.workload.arrival_rate_per_s:
        load = f" {case.workload.arrival_rate_per_s:g}/s"
    elif case.workload.concurrency:
        load = f" ×{case.workload.concurrency}"
    browser = next((f" {word.partition('=')[2]}" for word in case.options if word.startswith("browser=")), "")
    ranks = "".join(f" {word}" for word in case.options if word.partition("=")[0] in _RANKS)
    return f"{case.model.rpartition('/')[2]} {case.platform}{browser}{ranks} {case.precision}{size}{load}"


def tell_plan(plan: Plan, *, as_json: bool) -> int:
    """Print every case, the longest time of steady measuring and what cannot run; return 1 if something cannot."""
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
    fixed = [(name, "fixed") for name in ("platform", "precision", "mode")]
    columns: list[str | tuple[str, str]] = ["model", *fixed, "sizes", "why not"]
    rows = [
        [
            each.case.model.rpartition("/")[2],
            each.case.platform,
            each.case.precision,
            each.case.workload.mode + (" compiled" if each.case.compiled else ""),
            ", ".join([_sizes(each.case.workload), *each.case.options]),
            " ".join(filter(None, (each.why, each.remedy))),
        ]
        for each in cases
    ]
    return grid("Would be measured", columns, rows)


def _sizes(workload: Any) -> str:
    import msgspec

    sizes = msgspec.to_builtins(workload).items()
    return ", ".join(_size(name.replace("_", " "), size) for name, size in sizes if size and name not in _NAMED_APART)


def _size(name: str, value: Any) -> str:
    return name if value is True else f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


_NAMED_APART = frozenset({"mode", "scenario"})
