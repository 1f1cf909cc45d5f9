"""Made-up measurements of a model over a month, for the pictures of Trends and Regressions: those of data/ are of two days and have no history.
A made-up queue of jobs is for the picture of Jobs.

Two configurations, one a night: a driver makes one faster, a newer torch slower; a night with other load is suspect. They are
posted after all other pictures are taken, to a service that goes with them, and docs/gallery.md says that they are made up.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from assay.client import Client
from domain.jobs.jobs import ClaimRequest, Finish, JobRequest, ScheduleRequest, Submission
from domain.jobs.needs import DeviceDescription, WorkerDescription, read_needs

__all__ = ["ALERTS", "MODEL", "nights", "queue_jobs"]

MODEL = "example/encoder-made-up"
FIRST = datetime(2026, 10, 20, 2, tzinfo=UTC)
NIGHTS, DRIVER_CAME, TORCH_CAME, BUSY = 30, 11, 22, 17
ALERTS = 2
"""That the service raises for them: one that is better, one that is worse."""
DRIVERS, TORCHES = ("570.86", "580.65"), ("2.12.1", "2.13.0")


def nights() -> Iterator[dict[str, Any]]:
    """Yield the events of a month, the same each time."""
    chance = random.Random(7)
    for number in range(NIGHTS):
        began = FIRST + timedelta(days=number)
        driver, torch = DRIVERS[number >= DRIVER_CAME], TORCHES[number >= TORCH_CAME]
        usual = 4.1 * (0.86 if number >= DRIVER_CAME else 1.0) * (1.22 if number >= TORCH_CAME else 1.0)
        yield _measured(
            began, "nvidia-l4", "gpu", "cuda", torch, driver, usual * chance.gauss(1, 0.008), number == BUSY
        )
        yield _measured(began, "intel-xeon-2c", "cpu", "cpu", torch, None, 58.0 * chance.gauss(1, 0.012), False)


def _measured(
    began: datetime, hardware: str, kind: str, platform: str, torch: str, driver: str | None, p50: float, busy: bool
) -> dict[str, Any]:
    p50 = round(p50 * (1.06 if busy else 1.0), 4)
    why = ["made up: other load on the machine"] if busy else []
    run, device = f"nightly-{began:%Y-%m-%d}", {"id": hardware, "kind": kind, "count": 1}
    fingerprint = f"{hardware}-{torch}-{driver or 'none'}"
    data = {
        "run_id": run,
        "model": {"id": MODEL, "category": "embedding", "family": "bert", "weights": "random"},
        "workload": {"mode": "inference", "scenario": "single_stream", "batch_size": 8, "sequence_length": 128},
        "execution": {"platform": platform, "runtime": {"name": "torch", "version": torch}, "precision": "fp16" if driver else "fp32"},
        "hardware": device,
        "observed": {"device": platform, "platform": platform, "precision": "fp16" if driver else "fp32", "fallback_share": 0.0},
        "environment": {"fingerprint": fingerprint, "driver": driver, "os": "Linux", "libraries": {"torch": torch}},
        "metrics": {"latency_ms": {"mean": p50, "p50": p50, "n": 120, "ci95": {"p50": [p50 * 0.992, p50 * 1.008]}}},
        "validity": {"verdict": "suspect" if busy else "valid", "reasons": why},
        "provenance": {"origin": "measured", "source": "made up for a picture, measured by nobody"},
    }  # fmt: skip
    return {
        "specversion": "1.0", "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run} {hardware}")), "source": "urn:assay:gallery",
        "type": "assay.measurement.recorded.v1", "time": began.isoformat(), "subject": MODEL, "data": data,
    }  # fmt: skip


_WORKERS = (
    ("rack-7-l4", "nvidia-l4", 24 * 2**30, "cuda onnxruntime-cuda"),
    ("rack-7-xeon", "intel-xeon-2c", 64_000_000_000, "cpu openvino onnxruntime"),
    ("desk-mini", "apple-m4", 16_000_000_000, "mps cpu"),
)
_DONE, _FAILED = 5, "out_of_memory: the device has 24 GB, and 31 GB were needed."


def queue_jobs(client: Client) -> None:
    """Submit jobs of made-up machines, some of them done, one failed, one that no machine can do."""
    workers = [_worker(*row) for row in _WORKERS]
    for worker in workers:
        client.claim_job(ClaimRequest(worker=worker))
    nightly = [
        _job(model, platform, precision)
        for model in ("bert-base-uncased", "vit-base-patch16-224", "gpt2")
        for platform, precision in (("cuda", "fp16"), ("cpu", "fp32"), ("openvino", "bf16"), ("mps", "fp16"))
    ]
    submission = Submission(jobs=nightly, name="nightly")
    client.submit_jobs(submission)
    client.submit_jobs(Submission(jobs=[_job("gpt2", "rocm", "fp16")], name="suggested", force=True))
    client.add_schedule(ScheduleRequest(name="nightly", cron="0 2 * * *", submission=submission))
    for number in range(_DONE):
        claim = client.claim_job(ClaimRequest(worker=workers[number % len(workers)]))
        if claim is not None and number == 0:
            client.finish_job(claim.lease, Finish(outcome="failed", reason=_FAILED, final=True, exit_code=1))
        elif claim is not None:
            client.finish_job(claim.lease, Finish(outcome="succeeded", exit_code=0))
    for worker in workers[:2]:
        client.claim_job(ClaimRequest(worker=worker))


def _worker(name: str, hardware: str, memory_bytes: int, platforms: str) -> WorkerDescription:
    device = DeviceDescription(
        address="0", hardware=hardware, memory_bytes=memory_bytes, platforms=tuple(platforms.split())
    )
    return WorkerDescription(name=name, os="darwin" if "mini" in name else "linux", devices=(device,), assay="0.1")


def _job(model: str, platform: str, precision: str) -> JobRequest:
    plan = {
        "assay": 1,
        "sweeps": [{"models": [model], "platforms": [platform], "precisions": [precision], "batch_sizes": [8]}],
    }
    needs = read_needs(f"{platform},memory=2GB")
    return JobRequest(plan=plan, needs=needs, title=f"{model} on {platform}, {precision}, batch 8")
