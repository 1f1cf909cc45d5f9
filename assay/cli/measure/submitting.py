"""Make jobs of a plan: one for each case, with what a machine needs for it, memory by the predictor's estimate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click
from rich.markup import escape

from assay.cli.output import answers, grid, say
from domain.errors import AssayError, Unavailable, UsageError
from domain.jobs.jobs import JobRequest
from domain.jobs.needs import Needs, read_needs
from domain.vocabulary import SECOND_RUNTIMES
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from domain.catalogues.hardware import HardwareSpec
    from domain.jobs.jobs import JobsSubmitted
    from runner.campaign.plan_file import PlanFile
    from runner.protocol.tasks import Case

__all__ = ["SHOWN", "job_requests", "needs_option", "tell_submitted"]

SHOWN = 20

Verb = TypeVar("Verb", bound=Any)
_SIZES = (
    "sequence_length",
    "image_size",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
)
MOST_ROWS = 1000
MOST_JOBS = 10_000

Peaks = Mapping[tuple[str, str, int], float]
"""Peak memory in bytes by platform, precision and batch."""


class NeedsType(click.ParamType[Needs]):
    """`cuda,memory=16GB`: what a machine must have."""

    name = "NEED,…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Needs:  # noqa: ARG002
        """Return the needs; raises UsageError for what is none."""
        return value if isinstance(value, Needs) else read_needs(str(value))


def needs_option(verb: Verb) -> Verb:
    """Add `--needs`."""
    return click.option(
        "--needs",
        type=NeedsType(),
        default=Needs(),
        help="Beside those of the plan: cuda, memory=16GB, hardware=SLUG, os=linux, devices=2 and label=NAME, joined by commas.",
    )(verb)


def job_requests(client: Client, plan_file: PlanFile, needs: Needs) -> tuple[list[JobRequest], list[str]]:
    """Return one job for each case of a plan, and notes for people.

    A job needs its case's platform, the memory that the service's predictor expects, and what `needs` adds. Sweeps that
    name no platform take those of the workers that have reported.
    """
    from runner.campaign.splitting import combined_needs, split

    unnamed = any(sweep.platforms is None for sweep in plan_file.sweeps)
    cases = split(plan_file, _reported_platforms(client) if unnamed else ())
    if len(cases) > MOST_JOBS:
        raise UsageError(
            f"the plan has {len(cases):,} cases, and one submission has at most {MOST_JOBS:,} jobs.",
            field="plan",
            remedy="Split the plan.",
        )
    memory: dict[Case, int] = {}
    notes: list[str] = []
    if needs.memory_bytes is None:
        memory, notes = _memory_needs(client, [item.case for item in cases])
    requests = [
        JobRequest(
            plan=item.document,
            title=item.title,
            needs=combined_needs(combined_needs(item.needs, needs), Needs(memory_bytes=memory.get(item.case))),
        )
        for item in cases
    ]
    return requests, notes


def tell_submitted(submitted: JobsSubmitted, requests: Sequence[JobRequest]) -> None:
    """Print which jobs were queued, with their needs, and how to watch them."""
    existing = set(submitted.existing)
    rows = [
        [request.title or identifier, str(request.needs), "waited already" if identifier in existing else identifier]
        for identifier, request in zip(submitted.jobs, requests, strict=True)
    ]
    answers().print(grid(None, ["job", "needs", ("id", "fixed")], rows[:SHOWN]))
    if len(rows) > SHOWN:
        say(f"and {formatting.count(len(rows) - SHOWN)} more; --json has all")
    for note in submitted.notes:
        say(escape(note))
    new = len(submitted.jobs) - len(existing)
    if new:
        say(f"{formatting.count(new)} {'job' if new == 1 else 'jobs'} queued as submission {submitted.submission}")
        say(f"[dim]assay jobs watch {submitted.submission}[/dim]")
    else:
        say("nothing new is queued: all of it waits already; --again queues it once more")


def _reported_platforms(client: Client) -> tuple[str, ...]:
    """Return the platforms that work on any worker that has reported."""
    workers = client.queue().workers
    platforms = [name for item in workers for device in item.description.devices for name in device.platforms]
    return tuple(dict.fromkeys(platforms))


def _memory_needs(client: Client, cases: Sequence[Case]) -> tuple[dict[Case, int], list[str]]:
    """Return the peak memory that is expected of each case, one question for each model at its sizes, and notes."""
    needs: dict[Case, int] = {}
    unknown: dict[str, str] = {}
    for group in _alike(cases):
        try:
            peaks = _peaks(client, group)
        except Unavailable:
            raise
        except AssayError as error:
            unknown[group[0].model] = error.detail
            continue
        for case in group:
            key = (_platform(case), case.precision, case.workload.batch_size or 1)
            if key in peaks:
                needs[case] = int(peaks[key])
    notes = [f"no memory is asked for {model}: {why}" for model, why in unknown.items()]
    without = sum(1 for case in cases if case not in needs and case.model not in unknown)
    if without:
        notes.append(f"the memory of {without} of {len(cases)} jobs cannot be estimated, and none is asked for")
    return needs, notes


def _alike(cases: Iterable[Case]) -> list[list[Case]]:
    """Return cases in groups that one question can ask about: one model in one mode at the same sizes."""
    groups: dict[object, list[Case]] = {}
    for case in cases:
        sizes = tuple(getattr(case.workload, name) for name in _SIZES)
        groups.setdefault((case.model, case.workload.mode, sizes), []).append(case)
    return list(groups.values())


def _peaks(client: Client, group: Sequence[Case]) -> Peaks:
    """Return what the predictor expects on the devices with the most memory: peaks depend on the software, not the device."""
    work = group[0].workload
    platforms = list(dict.fromkeys(map(_platform, group)))
    answer = client.recommend(
        group[0].model,
        mode=work.mode,
        hardware=_largest(platforms),
        platform=platforms,
        precision=list(dict.fromkeys(case.precision for case in group)),
        batch_sizes=sorted({case.workload.batch_size or 1 for case in group}),
        per_hardware=False,
        top=MOST_ROWS,
        **{name: getattr(work, name) for name in _SIZES if getattr(work, name) is not None},
    )
    rows: dict[tuple[str, str, int], list[float]] = {}
    for row in answer["ranked"]:
        if row["peak_memory_bytes"]:
            rows.setdefault((row["platform"], row["precision"], row["batch_size"]), []).append(row["peak_memory_bytes"])
    return {key: median(values) for key, values in rows.items()}


def _platform(case: Case) -> str:
    return SECOND_RUNTIMES.get(case.platform, case.platform)


def _largest(platforms: Sequence[str]) -> list[str]:
    """Return for each platform the device of the catalogue with the most memory, so that no case is left out for it."""
    from domain.catalogues.hardware import catalogue

    def room(spec: HardwareSpec) -> tuple[float, str]:
        # A processor's memory is that of its machine, which the catalogue does not know.
        return (spec.memory_bytes.value if spec.memory_bytes else inf, spec.id)

    chosen = []
    for name in platforms:
        having = [spec for spec in catalogue().values() if name in spec.platforms]
        if having:
            chosen.append(max(having, key=room).id)
    return list(dict.fromkeys(chosen)) or ["all"]
