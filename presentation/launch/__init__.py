"""Launch snippets: the first place of a recommendation as Terraform, Kubernetes, SkyPilot or Slurm. Pure functions of the answer."""

from __future__ import annotations

from domain.answers import Recommendation
from domain.errors import UsageError
from presentation.launch.plan import plan_of
from presentation.launch.schedulers import kubernetes, skypilot, slurm
from presentation.launch.terraform import terraform

__all__ = ["FORMS", "snippet"]

FORMS = ("terraform", "k8s", "skypilot", "slurm")
_WRITERS = dict(zip(FORMS, (terraform, kubernetes, skypilot, slurm), strict=True))


def snippet(answer: Recommendation, form: str) -> str:
    """Return a snippet that runs the first place of an answer, ending in a newline.

    Raises UsageError with the remedy where the answer recommends nothing, or where its first place cannot be launched so.
    """
    if form not in _WRITERS:
        raise UsageError(f"{form!r} is no form of a snippet.", field="format", remedy=f"One of {', '.join(FORMS)}.")
    return _WRITERS[form](plan_of(answer))
