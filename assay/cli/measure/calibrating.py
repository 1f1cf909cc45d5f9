"""`assay calibrate`: measure some kernels of this machine, so that every answer about its devices improves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

from assay.cli.measure.destination import OnEvent, both, destination
from assay.cli.measure.run_output import progress_bar
from assay.cli.options import WORDS, as_json, served
from assay.cli.output import notes, print_json, say
from assay.cli.output_files import OutputFile, overwritable, resumable
from domain.errors import AssayError, UsageError
from domain.events import KERNEL_MEASURED
from presentation import formatting

if TYPE_CHECKING:
    from assay.cli.measure.calibration_table import Calibrated
    from runner.calibration.plan import CalibrationPlan
    from runner.calibration.run import CalibrationReport
    from runner.campaign.plan import Plan
    from runner.campaign.run import RunReport

__all__ = ["calibrate", "calibrate_plan", "calibrated_first", "shown_calibration"]

Verb = TypeVar("Verb", bound=Callable[..., Any])

_MODEL = "bert-base-uncased"
"""The model whose answer is shown before and after."""
CONFIGURATIONS = 12
"""Before a benchmark a platform is calibrated for as long as so many of its configurations are measured, a minute at the most."""


@click.command(
    epilog="""\b
Examples:
  assay calibrate
  assay calibrate --platform cpu,openvino --precision fp32,bf16
  assay calibrate --platform cuda --device cuda:1 --budget 30
  assay calibrate --kernels gemm,attention --json
  assay calibrate --out here.ndjson
  assay calibrate --out here.ndjson --resume"""
)
@click.option("--platform", "platforms", type=WORDS, help="Platforms; all that are here by default.")
@click.option(
    "--precision", "precisions", type=WORDS, help="Precisions; by default fp32 and what the device has units for."
)
@click.option("--kernels", type=WORDS, help="Some kernels or operators only, such as gemm,attention or decode.")
@click.option("--device", metavar="NAME", help="One device of the platforms, as `assay detect` lists them.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads of the processor.")
@click.option(
    "--out", type=OutputFile(resumes=True), help="Write the events to a file (.gz: compressed), send nothing."
)
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds of measuring a platform; loading and converting come on top.",
)
@resumable(
    "With --out: leave out what the file already holds. Without it an interrupted calibration goes on by itself."
)
@overwritable
@served
@as_json
def calibrate(
    platforms: list[str] | None,
    precisions: list[str] | None,
    kernels: list[str] | None,
    device: str | None,
    threads: int | None,
    budget_s: float,
    out: Path | None,
    resume: bool,
    force: bool,  # noqa: ARG001 - the type of --out reads it
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Measure 29 kernels on each platform of this machine: matrix products, convolutions, attention, and what moves memory.

    What they reach of the device's arithmetic and bandwidth corrects every prediction for this device, of any model. Their
    sizes follow the device. Exit code 1 where a kernel failed; one that the platform cannot run is named with the reason.
    """
    from runner.calibration.plan import make_calibration

    if resume and out is None:
        raise UsageError("goes with --out.", field="resume", remedy="Leave it out: an interrupted calibration goes on.")
    plan = make_calibration(platforms, precisions, kernels or (), device=device, threads=threads, budget_s=budget_s)
    events: list[dict[str, Any]] = []
    if out is not None:
        report = _into_file(plan, out, events, resume=resume)
    else:
        report = _into_service(plan, events, server, token)
    return _tell(events, report, server, token, sent=out is None, as_json=as_json)


def _into_file(plan: CalibrationPlan, out: Path, events: list[dict[str, Any]], *, resume: bool) -> CalibrationReport:
    import msgspec

    from runner.calibration.run import groups_in, run_calibration
    from runner.spool.event_file import read_lines

    goes_on = resume and out.exists()
    if goes_on:
        events.extend(msgspec.json.decode(line) for line in read_lines(out, whole_only=True))
    done = groups_in(out) if goes_on else set()
    with destination(out, resume, None, None) as deliver, calibration_progress() as show:
        return run_calibration(plan, both(events.append, deliver), show, done=done)


def _into_service(
    plan: CalibrationPlan, events: list[dict[str, Any]], server: str | None, token: str | None
) -> CalibrationReport:
    from assay.home import find_home
    from runner.calibration.run import groups_in, run_calibration
    from runner.calibration.unfinished import earlier_events, kept_until_complete

    path = find_home().calibration
    earlier = earlier_events(path, plan)
    done = groups_in(path) if earlier else set()
    if earlier:
        say(f"going on with the calibration that was interrupted; remove {path} to begin anew")
    with (
        destination(None, False, server, token) as deliver,
        kept_until_complete(path, goes_on=bool(earlier)) as keep,
        calibration_progress() as show,
    ):
        for event in earlier:
            # What was not sent before the interruption; the service knows the others by their ids.
            deliver(event)
        events.extend(earlier)
        return run_calibration(plan, both(events.append, keep, deliver), show, done=done)


def calibrated_first(verb: Verb) -> Verb:
    """Add `--calibrate` to a verb that measures models."""
    return click.option(
        "--calibrate",
        is_flag=True,
        help="Measure kernels of each platform first (assay calibrate), which corrects every answer about the device.",
    )(verb)


def calibrate_plan(plan: Plan, resumed: Path | None, deliver: OnEvent) -> RunReport:
    """Calibrate the platforms of a benchmark in its precisions; what no kernel can be measured on is said."""
    from assay.cli.measure.calibration_table import show_refused
    from domain.errors import PlatformUnavailable
    from runner.calibration.plan import CALIBRATED, DEFAULT_BUDGET_S, make_calibration
    from runner.calibration.run import groups_in, run_calibration
    from runner.campaign.run import RunReport

    precisions = [name for name in dict.fromkeys(case.precision for case in plan.cases) if name in CALIBRATED]
    done = groups_in(resumed) if resumed is not None and resumed.exists() else set()
    first = plan.cases[0]
    wanted = make_calibration(
        plan.platforms,
        precisions or None,
        device=first.device,
        threads=first.threads,
        budget_s=min(DEFAULT_BUDGET_S, CONFIGURATIONS * plan.method.budget_s),
    )
    with calibration_progress() as show:
        try:
            report = run_calibration(wanted, deliver, show, done=done)
        except PlatformUnavailable as error:
            say(f"not calibrated: {error.detail}")
            return RunReport(run_id="")
    # A platform that is not installed has no precision; the benchmark itself reports it.
    show_refused([each for each in report.refused if each.precision is not None])
    return RunReport(run_id=report.run_id, done=report.measured, failed=report.exit_code, skipped=report.skipped)


def shown_calibration(events: Sequence[dict[str, Any]]) -> None:
    """Print the kernels among the events of a run, where there are some."""
    from assay.cli.measure.calibration_table import calibrated_in, show_calibration

    show_calibration(calibrated_in(events))


def _tell(
    events: list[dict[str, Any]],
    report: CalibrationReport,
    server: str | None,
    token: str | None,
    *,
    sent: bool,
    as_json: bool,
) -> int:
    import msgspec

    from assay.cli.measure.calibration_table import calibrated_in, show_calibration, show_refused

    parts = calibrated_in(events)
    runs = [event["data"]["run_id"] for event in events if event["type"] == KERNEL_MEASURED]
    changes = _changes(parts, runs[0], server, token) if sent and runs else []
    if as_json:
        print_json({**msgspec.to_builtins(report), "devices": msgspec.to_builtins(parts), "answers": changes})
        return report.exit_code
    show_calibration(parts)
    show_refused(report.refused)
    for change in changes:
        say(_sentence(change))
    if sent and not changes:
        say(f"ask `assay predict {_MODEL} --hardware … --platform … --precision …`: its basis is `calibrated` now")
    return report.exit_code


def _changes(parts: Sequence[Calibrated], run_id: str, server: str | None, token: str | None) -> list[dict[str, Any]]:
    """Return one model's answer before and after, for each part; empty where no service is at hand that answers."""
    from assay.client import Client
    from assay.home import find_home, running

    service = None if server else running(find_home())
    url = server or (service.url if service else None)
    if url is None:
        return []
    changes: list[dict[str, Any]] = []
    with Client(url, token=token) as client:
        try:
            # Before the first kernel the device is described already.
            before_it = client.page("kernels", limit=1, run_id=run_id)["items"][0]["position"] - 1
        except (AssayError, IndexError):
            return []
        for part in parts:
            question: dict[str, Any] = {
                "hardware": part.hardware,
                "platform": part.platform,
                "precision": part.precision,
            }
            if any(question.items() <= change.items() for change in changes):
                continue
            try:
                before = client.predict(_MODEL, **question, as_of=before_it)
                after = client.predict(_MODEL, **question)
            except AssayError as error:
                changes.append({"model": _MODEL, **question, "why_not": str(error)})
                continue
            changes.append({"model": _MODEL, **question, "before": _short(before), "after": _short(after)})
    return changes


def _short(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer.get(name) for name in ("latency_ms", "latency_ms_low", "latency_ms_high", "basis", "why")}


def _sentence(change: dict[str, Any]) -> str:
    where = f"{change['model']} on {change['platform']} in {change['precision']}"
    if "why_not" in change:
        return f"{where}: no answer to compare: {change['why_not']}"
    sides = [
        f"{formatting.plain(formatting.latency(change[side]['latency_ms']))} ({change[side]['basis']})"
        for side in ("before", "after")
    ]
    return f"{where}: {sides[0]} before, {sides[1]} now"


@contextmanager
def calibration_progress() -> Iterator[Callable[[Any], None]]:
    """Show where a calibration stands: a bar in a terminal, a line a kernel elsewhere."""
    console = notes()
    with progress_bar(console) as move:

        def show(step: Any) -> None:
            name = " ".join(filter(None, (step.platform, step.precision, step.kernel)))
            move(total=step.total, completed=step.done, description=name, left=step.left_s)
            if not console.is_terminal or step.failure:
                ended = (
                    formatting.plain(formatting.latency(step.latency_ms))
                    if step.failure is None
                    else step.failure.message
                )
                console.print(f"[{step.done}/{step.total}] {name}: {ended}", highlight=False, markup=False)

        yield show
