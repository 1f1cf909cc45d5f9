"""Where a run stands, on stderr: a bar in a terminal, a line a configuration elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from assay.cli.output import notes
from domain.payloads import MeasurementRecorded
from presentation import formatting

__all__ = ["progress", "progress_bar"]


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


def _case_name(case: Any) -> str:
    size = f" batch {case.workload.batch_size}" if case.workload.batch_size else ""
    load = ""
    if case.workload.arrival_rate_per_s:
        load = f" {case.workload.arrival_rate_per_s:g}/s"
    elif case.workload.concurrency:
        load = f" ×{case.workload.concurrency}"
    browser = next((f" {word.partition('=')[2]}" for word in case.options if word.startswith("browser=")), "")
    return f"{case.model.rpartition('/')[2]} {case.platform}{browser} {case.precision}{size}{load}"
