"""`assay jobs export`: a plan as jobs of a scheduler that runs already."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from assay.cli.output import say
from assay.cli.output_files import OutputFile, overwritable
from domain.errors import UsageError

if TYPE_CHECKING:
    from domain.jobs.needs import Needs
    from runner.campaign.plan import Plan

__all__ = ["export"]

_MOST_PARTS = 32
"""Jobs at the most where nobody says how many."""


@click.command(
    epilog="""\b
Examples:
  assay jobs export plan.yaml --to slurm --parts 8 --out plan.sbatch
  assay jobs export plan.yaml --to slurm --needs cuda,memory=16GB,label=rack7 --out plan.sbatch
  assay jobs export plan.yaml --to kubernetes --image assay:0.1.0 --server https://assay.example.org --out job.yaml
  assay jobs export plan.yaml --to skypilot --needs cuda,hardware=nvidia-l4 --out task.yaml"""
)
@click.argument("plan", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--to", "form", type=click.Choice(["slurm", "kubernetes", "skypilot"]), required=True, help="Who runs the jobs."
)
@click.option(
    "--parts",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"How many jobs; as many as the plan has models, but no more than {_MOST_PARTS}, by default.",
)
@click.option(
    "--needs",
    metavar="NEED,…",
    help="What each job needs, such as cuda,memory=16GB,hardware=nvidia-l4,label=rack7; the plan's platforms by default.",
)
@click.option("--image", metavar="IMAGE", help="A container image with Assay and what measures.")
@click.option(
    "--server", metavar="URL", help="The service that takes the events, as the machines of the jobs reach it."
)
@click.option(
    "--token-secret",
    metavar="NAME",
    help="Where the token is: a file of the nodes (slurm; ~/.config/assay/token), a Secret (kubernetes; assay-token), "
    "a variable (skypilot; ASSAY_TOKEN). It is never in the output.",
)
@click.option("--out", type=OutputFile(), help="Write to a file; to stdout else.")
@overwritable
def export(
    plan: Path,
    form: str,
    parts: int | None,
    needs: str | None,
    image: str | None,
    server: str | None,
    token_secret: str | None,
    out: Path | None,
    force: bool,
) -> int:
    """Write a plan as an array of jobs for a scheduler: Slurm, Kubernetes or SkyPilot.

    Each job measures one part of the plan (assay bench --part K/N), writes the events to a file, and posts them at its
    end. Where the service does not answer, the file stays.
    """
    from assay.staging import Staged
    from domain.jobs.needs import read_needs
    from presentation.launch import plan_jobs, plan_script
    from runner.campaign.plan_file import read_plan

    file = read_plan(plan)
    whole = file.plan()
    jobs = plan_jobs(
        file.name or plan.stem,
        plan.read_text(encoding="utf-8"),
        cases=len(whole.cases),
        parts=min(len(whole.models), _MOST_PARTS) if parts is None else parts,
        needs=_needs_of(whole) if needs is None else read_needs(needs),
        image=image,
        server=server,
        secret=token_secret,
    )
    text = plan_script(jobs, form)
    if out is None:
        sys.stdout.write(text)
        return 0
    with Staged(force=force) as staged:
        staged.file(out).write_text(text, encoding="utf-8", newline="\n")
    say(f"{jobs.parts} jobs for {jobs.cases} cases written to {out}")
    return 0


def _needs_of(plan: Plan) -> Needs:
    """Return the platforms that the plan names as needs; UsageError where it names none, since each machine has its own."""
    from domain.jobs.needs import Needs

    if not plan.platforms_named:
        raise UsageError(
            "the plan leaves the platforms to the machine, so that it does not say which machine a job needs.",
            field="needs",
            remedy="Say --needs cpu or --needs cuda, or name platforms in the plan.",
        )
    return Needs(platforms=plan.platforms)
