"""`assay suggest`: the measurements that would lower the error of open questions most, as a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click
from rich.markup import escape

from assay.cli.measure.submitting import job_requests, tell_submitted
from assay.cli.options import AS_OF, NUMBERS, WORDS, as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from domain.answers import DeviceSuggestions, SuggestedRun, Suggestions, answer_document
from domain.jobs.jobs import JobRequest, Submission
from domain.jobs.needs import Needs
from domain.vocabulary import MODES

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["suggest"]

SHOWN = 20
_ORDER = ("assay", "name", "weights", "budget_s", "sweeps", "models")
"""Members that stand first in a plan; the others follow by name."""
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}


class Span(click.ParamType[float]):
    """`2h`, `90m`, `1h30m`, `45s`: a time."""

    name = "2h"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds; anything but whole numbers with h, m and s, in this order, is wrong usage."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s)?", str(value))
        seconds = (
            sum(int(part or 0) * unit for part, unit in zip(match.groups(), _UNITS.values(), strict=True))
            if match
            else 0
        )
        if not seconds:
            self.fail(f"{value!r} is not a time; write 2h, 90m, 1h30m or 45s", param, ctx)
        return float(seconds)


@click.command(
    epilog="""\b
Examples:
  assay suggest --budget 2h
  assay suggest bert-base-uncased gpt2 --budget 30m --platform cpu,openvino --out plan.yaml
  assay suggest --budget 1h --hardware nvidia-l4,intel-xeon-2c --json
  assay suggest --budget 8h --submit
  assay bench --plan plan.yaml"""
)
@click.argument("models", nargs=-1, metavar="[MODEL…]")
@click.option("--budget", "budget_s", type=Span(), required=True, help="Time of machines, over all devices.")
@click.option(
    "--hardware", multiple=True, type=WORDS, metavar="SLUG,…|own|all", help="May be repeated; own by default."
)
@click.option("--mode", type=click.Choice(MODES), default="inference", show_default=True)
@click.option("--platform", type=WORDS)
@click.option("--precision", type=WORDS)
@click.option("--batch-sizes", type=NUMBERS, help="Of what is asked; 1,8 where a question names none.")
@click.option("--top", type=click.IntRange(min=1, max=1000), default=200, show_default=True, help="Runs at most.")
@click.option("--as-of", type=AS_OF)
@click.option(
    "--out",
    type=OutputFile(),
    help="Write the plan for `assay bench --plan`; of several devices one each, named by them.",
)
@click.option("--submit", is_flag=True, help="Queue the runs as jobs, each for the hardware that it is suggested on.")
@overwritable
@served
@as_json
def suggest(
    models: tuple[str, ...],
    hardware: tuple[list[str], ...],
    out: Path | None,
    submit: bool,
    force: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """List the runs that would lower the error of open questions most, for the time they take.

    Open is what the MODELs, or the recorded recommendations and predictions, or else all traced models of the catalogue
    could be asked about and was not measured. Exit code 1 where nothing is worth a run.
    """
    from assay.cli.connection import connected, reading

    values = {name: value for name, value in flags.items() if value is not None}
    named = [slug for slugs in hardware for slug in slugs]
    if named:
        values["hardware"] = named[0] if named in (["own"], ["all"]) else named
    # What ships answers a question, and has no queue.
    with (connected if submit else reading)(server, token) as client:
        answer = client.suggest(models=list(models), **values)
        submission = _submission(client, answer) if submit and answer.runs else None
        submitted = client.submit_jobs(submission) if submission else None
    written = _written(out, answer, force=force) if out and answer.runs else {}
    if as_json:
        print_json({**answer_document(answer), **({"submitted": submitted} if submitted else {})})
    else:
        _tell(answer, written, queued=submitted is not None)
    if submission and submitted and not as_json:
        tell_submitted(submitted, submission.jobs)
    return 0 if answer.runs or answer.calibrations else 1


def _submission(client: Client, answer: Suggestions) -> Submission:
    """Return the runs of every device as jobs, the best of each device first; each needs its device's hardware."""
    from runner.campaign.plan_file import PlanFile

    requests: list[JobRequest] = []
    for device in answer.devices:
        plan = msgspec.convert(answer_document(device.plan), PlanFile)
        made, remarks = job_requests(client, plan, Needs(hardware=device.hardware))
        requests += made
        for remark in remarks:
            say(f"[dim]{escape(remark)}[/dim]")
    return Submission(jobs=requests, name="suggested")


def _written(out: Path, answer: Suggestions, *, force: bool) -> dict[str, Path]:
    """Write the plans and return their files by device; each begins with the calibrations of its device as comments."""
    import yaml

    from assay.staging import Staged

    devices, suffix = answer.devices, out.suffix or ".yaml"
    files = {
        item.hardware: out if len(devices) == 1 else out.with_name(f"{out.stem}.{item.hardware}{suffix}")
        for item in devices
    }
    with Staged(force=force) as staged:
        for device in devices:
            text = yaml.safe_dump(
                _sorted(answer_document(device.plan)), sort_keys=False, default_flow_style=None, width=100
            )
            staged.file(files[device.hardware]).write_text(
                f"# Made by assay suggest for {device.hardware}; the best run first.\n{_first(answer, device)}{text}",
                encoding="utf-8",
            )
    for device in devices:
        say(f"plan of {device.runs} runs written to {files[device.hardware]}")
    return files


def _first(answer: Suggestions, device: DeviceSuggestions) -> str:
    """Return the calibrations of a device as comments of its plan, which is of runs alone."""
    commands = [item.command for item in answer.calibrations if item.hardware == device.hardware]
    return "".join(f"# Before it: {command}\n" for command in commands)


def _sorted(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan with its members in the order in which people read them."""
    members = sorted(
        plan.items(), key=lambda item: (_ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER), item[0])
    )
    return {name: [_sorted(item) for item in value] if name == "sweeps" else value for name, value in members}


def _tell(answer: Suggestions, written: Mapping[str, Path], *, queued: bool) -> None:
    console = answers()
    for note in answer.notes:
        say(f"[dim]{note}[/dim]")
    if answer.abstained:
        console.print(answer.abstained, soft_wrap=False)
        return
    _tell_calibrations(answer)
    if answer.runs:
        console.print(_table(answer))
    if len(answer.runs) > SHOWN:
        console.print(f"[dim]and {len(answer.runs) - SHOWN} more, in the plan and with --json[/dim]")
    questions, expected = answer.questions, answer.expected
    console.print()
    console.print(
        f"{questions.open} open answers of {questions.models} questions ({questions.source}); their expected error falls "
        f"from {expected.error_before:.0%} to {expected.error_after:.0%}."
    )
    for device in () if queued else answer.devices:
        name = written.get(device.hardware, "plan.yaml")
        console.print(
            f"on {device.hardware}, about {_minutes(device.seconds)}: assay bench --plan {name}", soft_wrap=True
        )
    if answer.runs and not written and not queued:
        console.print("[dim]--out plan.yaml writes the plan, --submit queues it for workers[/dim]")


def _tell_calibrations(answer: Suggestions) -> None:
    """Print what to calibrate before anything else, and what that is expected to do."""
    console = answers()
    for item in answer.calibrations:
        console.print(f"[bold]First, on {item.hardware}, about {_minutes(item.seconds)}[/bold]")
        console.print(f"  {item.command}", markup=False, soft_wrap=True)
        console.print(
            f"  [dim]{item.why}; their expected error falls from {item.error_before:.0%} to {item.error_after:.0%}[/dim]"
        )
    if answer.calibrations:
        console.print()


def _table(answer: Suggestions) -> Any:
    several = len(answer.devices) > 1
    columns: list[str | tuple[str, str]] = [("#", "right"), "model", *(["hardware"] if several else []), "how"]
    columns += [("batch", "right"), ("seconds", "right"), "why"]
    rows = [
        [
            str(run.rank),
            run.model.rpartition("/")[2],
            *([run.hardware] if several else []),
            _how(run),
            str(run.batch_size),
            f"{run.seconds:.0f}",
            run.why,
        ]
        for run in answer.runs[:SHOWN]
    ]
    return grid(f"Worth measuring within {_minutes(answer.budget_s)}", columns, rows)


def _how(run: SuggestedRun) -> str:
    words = [run.platform, run.precision]
    if run.compiled:
        words.append("compiled")
    return " ".join([*words, *([run.mode] if run.mode != "inference" else [])])


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
