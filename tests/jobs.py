"""Jobs, needs and workers, for tests."""

from __future__ import annotations

import uuid
from typing import Any

from domain.events import new_event
from domain.jobs.jobs import Claim, ClaimRequest, JobRequest, Submission
from domain.jobs.needs import DeviceDescription, Needs, WorkerDescription, read_needs
from domain.permissions import SERVICE_SOURCE

__all__ = ["claim", "job", "job_event", "submission", "worker"]


def worker(
    name: str, *platforms: str, memory_bytes: int | None = None, labels: tuple[str, ...] = ()
) -> WorkerDescription:
    """Return a worker with one device on which these platforms work, cpu where none is named."""
    device = DeviceDescription(
        address="0", hardware=f"{name}-device", platforms=platforms or ("cpu",), memory_bytes=memory_bytes
    )
    return WorkerDescription(name=name, os="linux", devices=(device,), labels=labels)


def job(needs: str | Needs = "cpu", model: str | None = None) -> JobRequest:
    """Return a job of one model, another one than any before unless it is named."""
    model = model or f"acme/{uuid.uuid4().hex[:12]}"
    plan = {"models": [model], "platforms": ["cpu"]}
    return JobRequest(plan=plan, needs=read_needs(needs) if isinstance(needs, str) else needs, title=model)


def submission(*needs: str, **members: Any) -> Submission:
    """Return a submission of one job for each of the needs."""
    return Submission(jobs=[job(item) for item in needs], **members)


def claim(client: Any, description: WorkerDescription, wait_s: float = 0.0, busy: tuple[str, ...] = ()) -> Claim | None:
    """Claim a job for a worker."""
    answer: Claim | None = client.claim_job(ClaimRequest(worker=description, wait_s=wait_s, busy=list(busy)))
    return answer


def job_event(kind: str, title: str, **data: Any) -> dict[str, Any]:
    """Return an event about the job that a test calls `title`; `data` replaces or adds parts."""
    about: dict[str, Any] = {
        "requested": {
            "submission": str(uuid.uuid5(uuid.NAMESPACE_URL, "submission")),
            "title": title,
            "needs": {},
            "priority": 0,
            "attempts": 3,
            "author": "local",
            "plan": {"models": [title]},
        },
        "started": {"attempt": 1, "worker": "lab", "device": "0", "hardware": "acme-one"},
        "finished": {"attempt": 1, "worker": "lab"},
        "failed": {"attempt": 1, "worker": "lab", "reason": "it failed", "waiting": False},
        "cancelled": {"attempt": 0, "reason": "cancelled by ada"},
    }[kind]
    name = str(uuid.uuid5(uuid.NAMESPACE_URL, title))
    return new_event(f"assay.job.{kind}.v1", {"job": name, **about, **data}, source=SERVICE_SOURCE)
