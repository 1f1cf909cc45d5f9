"""Launch snippets: the first place of a recommendation, or the parts of a plan, for Terraform, Kubernetes, SkyPilot or Slurm.

Pure functions of the answer and of the plan.
"""

from __future__ import annotations

from domain.answers import Recommendation
from domain.errors import UsageError
from presentation.launch.indexed_job import indexed_job
from presentation.launch.plan import plan_of
from presentation.launch.plan_jobs import PlanJobs, managed_jobs, plan_jobs, slurm_array
from presentation.launch.schedulers import kubernetes, skypilot, slurm
from presentation.launch.terraform import terraform

__all__ = ["FORMS", "JOB_FORMS", "plan_jobs", "plan_script", "snippet"]

FORMS = ("terraform", "k8s", "skypilot", "slurm")
_WRITERS = dict(zip(FORMS, (terraform, kubernetes, skypilot, slurm), strict=True))

JOB_FORMS = ("slurm", "kubernetes", "skypilot")
_JOB_WRITERS = dict(zip(JOB_FORMS, (slurm_array, indexed_job, managed_jobs), strict=True))


def snippet(answer: Recommendation, form: str) -> str:
    """Return a snippet that runs the first place of an answer, ending in a newline.

    Raises UsageError with the remedy where the answer recommends nothing, or where its first place cannot be launched so.
    """
    if form not in _WRITERS:
        raise UsageError(f"{form!r} is no form of a snippet.", field="format", remedy=f"One of {', '.join(FORMS)}.")
    return _WRITERS[form](plan_of(answer))


def plan_script(jobs: PlanJobs, form: str) -> str:
    """Return the jobs of a plan as a script of Slurm, manifests of Kubernetes or a task of SkyPilot, ending in a newline."""
    return _JOB_WRITERS[form](jobs)
