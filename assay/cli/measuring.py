"""`assay detect`, `assay bench`, `assay verify`: what this machine is, and what it measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rich_click as click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from assay import numbers
from assay.cli.options import NUMBERS, WORDS, as_json, modelled, served
from assay.cli.output import answers, grid, notes, print_json, say
from domain.errors import UsageError

__all__ = ["bench", "detect", "progress", "verify"]

OnEvent = Callable[[dict[str, Any]], None]


@click.command(epilog="Example: assay detect --json")
@as_json
def detect(as_json: bool) -> int:
    """Say what hardware this machine has and which platforms work on it, each tried and not assumed."""
    from runner.detect import describe
    from runner.detect import detect as look

    with notes().status("trying each platform"):
        found = describe(look())
    if as_json:
        print_json(found)
        return 0
    for item in found:
        spec = item.get("spec") or {}
        answers().print(
            grid(
                f"{item['hardware']['id']}  ({item.get('name') or item['hardware']['kind']})",
                ["figure", ("value", "right"), "how we know"],
                list(_figures(spec)),
            )
        )
        answers().print()
        rows = [
            [
                probe["platform"],
                "yes" if probe["available"] else "no",
                ", ".join(probe.get("devices") or []) or "—",
                (probe.get("evidence") if probe["available"] else probe.get("reason")) or "—",
            ]
            for probe in item.get("platforms", [])
        ]
        if rows:
            answers().print(grid(None, ["platform", "here", "devices", "evidence, or why not"], rows))
            answers().print()
    return 0


def _figures(spec: dict[str, Any]) -> Iterator[list[str]]:
    for name, figure in spec.items():
        if not figure:
            continue
        nested = figure if "value" not in figure else {"": figure}
        for part, one in nested.items():
            how = one.get("formula") or one.get("source") or ""
            yield [f"{name} {part}".strip(), _amount(name, one["value"]), f"{one['status']}: {how}".rstrip(": ")]


def _amount(name: str, value: float) -> str:
    if "bytes_per_s" in name:
        return f"{numbers.significant(value / 1e9)} GB/s"
    if "bytes" in name:
        return numbers.memory(value)
    if "flops" in name:
        return f"{numbers.significant(value / 1e12)} TFLOP/s"
    if name.endswith("_hz"):
        return f"{numbers.significant(value / 1e9)} GHz"
    if name.endswith("_w"):
        return f"{numbers.significant(value)} W"
    return numbers.count(value)


def _chosen(verb: Any) -> Any:
    """Add what `bench` and `verify` share: which models, on what."""
    for option in reversed(
        (
            click.argument("models", nargs=-1, metavar="MODEL…"),
            click.option("--models-set", type=click.Choice(["small", "key", "all"]), help="A set of the catalogue."),
            click.option("--category", metavar="C", help="The catalogue's models of one category, such as vision."),
            click.option("--platform", "platforms", type=WORDS, help="Platforms; all that are present by default."),
            click.option("--precision", "precisions", type=WORDS, default="fp32", show_default=True),
            click.option(
                "--weights", type=click.Choice(["auto", "pretrained", "random"]), default="auto", show_default=True
            ),
            click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The first N models only."),
            click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads of one measurement."),
            click.option(
                "--timeout", "timeout_s", type=click.FloatRange(min=1), default=600, show_default=True, metavar="S"
            ),
            click.option(
                "--out",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Write the events to a file, send nothing.",
            ),
            click.option("--resume", is_flag=True, help="With --out: leave out what the file already holds."),
            click.option("--trust-remote-code", is_flag=True, help="Run code that comes with a checkpoint."),
        )
    ):
        verb = option(verb)
    return verb


@click.command(
    epilog="""\b
Examples:
  assay bench bert-base-uncased --platform cpu,openvino --precision fp32,bf16 --batch-sizes 1,8
  assay bench --models-set small --out here.ndjson
  assay bench ./my-checkpoint --percentile p95"""
)
@_chosen
@modelled
@click.option("--batch-sizes", type=NUMBERS, default="1", show_default=True)
@click.option("--sequence-lengths", type=NUMBERS, help="Tokens of one item; the model's default else.")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Seconds of steady measuring a configuration.",
)
@click.option("--iterations", type=click.IntRange(min=1), metavar="N", help="A fixed number of samples instead.")
@click.option(
    "--percentile",
    type=click.Choice(["p50", "p90", "p95", "p99"]),
    default="p50",
    show_default=True,
    help="Measure on until this one is supported.",
)
@served
@as_json
def bench(
    models: tuple[str, ...],
    models_set: str | None,
    category: str | None,
    sequence_length: int | None,
    sequence_lengths: list[int] | None,
    budget_s: float,
    iterations: int | None,
    percentile: str,
    out: Path | None,
    resume: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
    **how: Any,
) -> int:
    """Measure models on this machine: one configuration, one process of its own; every result is an event.

    Without --out the events go through the spool to the service. Exit code 1 where a configuration failed.
    """
    from runner.bench import run_plan
    from runner.plan import make_plan
    from runner.stopping import Method

    plan = make_plan(
        _models(models, models_set, category),
        sequence_lengths=sequence_lengths or ([sequence_length] if sequence_length else None),
        method=Method(budget_s=budget_s, iterations=iterations, percentile=percentile),
        **how,
    )
    done = _already_there(out, resume, "assay.measurement.recorded.v1")
    kept: list[dict[str, Any]] = []
    with _destination(out, resume, server, token) as deliver, progress() as show:
        report = run_plan(plan, _both(kept.append, deliver), show, done=done, cache=_cache())
    return _told(kept, report, as_json=as_json)


@click.command(epilog="Example: assay verify bert-tiny --platform cpu,openvino --precision fp32,bf16")
@_chosen
@modelled
@served
@as_json
def verify(
    models: tuple[str, ...],
    models_set: str | None,
    category: str | None,
    sequence_length: int | None,
    out: Path | None,
    resume: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
    **how: Any,
) -> int:
    """Does it run, and does it run right? Outputs are compared with fp32 on the CPU; every outcome is a test event.

    Exit code 1 where a test did not pass.
    """
    from runner.plan import make_plan
    from runner.verify import run_verification

    plan = make_plan(
        _models(models, models_set, category), sequence_lengths=[sequence_length] if sequence_length else None, **how
    )
    done = _already_there(out, resume, "assay.test.reported.v1")
    kept: list[dict[str, Any]] = []
    with _destination(out, resume, server, token) as deliver, progress() as show:
        report = run_verification(plan, _both(kept.append, deliver), show, done=done, cache=_cache())
    return _told(kept, report, as_json=as_json)


def _models(named: tuple[str, ...], models_set: str | None, category: str | None) -> list[str]:
    from domain import models

    chosen = list(named)
    if models_set:
        chosen += [entry.id for entry in models.models_set(models_set)]
    if category:
        found = [entry.id for entry in models.in_category(category)]
        if not found:
            raise UsageError(
                f"no model of the catalogue is of category {category!r}.",
                field="category",
                remedy="`assay model list` shows them all.",
            )
        chosen += found
    if not chosen:
        raise UsageError("no model is named.", field="MODEL", remedy="Name models, or give --models-set or --category.")
    return list(dict.fromkeys(chosen))


def _already_there(out: Path | None, resume: bool, type_: str) -> set[str]:
    from runner.resume import cases_in

    if resume and out is None:
        raise UsageError("goes with --out.", field="resume", remedy="Name the file that the interrupted run wrote.")
    return cases_in(out, type_) if resume and out and out.exists() else set()


def _cache() -> Path:
    from assay.home import find_home

    return find_home().cache


def _both(*listeners: OnEvent) -> OnEvent:
    def tell(event: dict[str, Any]) -> None:
        for listener in listeners:
            listener(event)

    return tell


@contextmanager
def _destination(out: Path | None, resume: bool, server: str | None, token: str | None) -> Iterator[OnEvent]:
    """Give what takes each event: a file, or the spool, which is emptied into the service at the end."""
    if out is not None:
        from runner.resume import EventFile

        file = EventFile(out, resume=resume)
        try:
            yield file.write
        finally:
            file.close()
        say(f"events written to {out}; send them with `assay post {out}`")
        return
    from assay.cli.connection import connected
    from assay.cli.sending import empty_spool
    from assay.home import find_home
    from runner.spool import Spool

    home = find_home()
    with Spool(home.spool) as spool:
        try:
            yield lambda event: spool.put([event])
        finally:
            with connected(server, token) as client:
                empty_spool(spool, client)


@contextmanager
def progress() -> Iterator[Callable[[Any], None]]:
    """Show where a plan stands: a bar in a terminal, a line a configuration elsewhere."""
    console = notes()
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

        def show(step: Any) -> None:
            left = f"about {step.left_s:.0f} s left" if step.left_s else ""
            doing = _case_name(step.case) if step.case else ""
            if step.stage:
                doing += f": {step.stage}"
            bar.update(task, total=step.total, completed=step.done, description=doing, left=left)
            if step.outcome:
                console.print(f"[{step.done}/{step.total}] {_case_name(step.case)}: {step.outcome}", highlight=False)

        yield show


def _case_name(case: Any) -> str:
    size = f" batch {case.workload.batch_size}" if case.workload.batch_size else ""
    return f"{case.model.rpartition('/')[2]} {case.platform} {case.precision}{size}"


def _told(events: list[dict[str, Any]], report: Any, *, as_json: bool) -> int:
    from assay.cli.tables import doubts, failures_table, measurements_table, verifications_table

    if as_json:
        print_json(events)
        return int(report.exit_code)
    for make in (measurements_table, verifications_table, failures_table):
        table = make(events)
        if table is not None:
            answers().print(table)
            answers().print()
    for note in [*doubts(events), *report.notes]:
        say(note)
    return int(report.exit_code)
