"""A worker of a fault test, as a program: it claims, beats, and says how its jobs end, until it is killed.

python -m tests.torture.job_worker URL NAME PLATFORM TOKEN
"""

from __future__ import annotations

import random
import sys
import time

from assay.client import Client
from domain.errors import AssayError, StateConflict
from domain.jobs.jobs import ClaimRequest, Finish
from domain.jobs.needs import DeviceDescription, WorkerDescription

JOB_S = 0.1, 0.4


def main(url: str, name: str, platform: str, token: str) -> None:
    device = DeviceDescription(address="0", hardware=f"{name}-device", platforms=("cpu", platform))
    request = ClaimRequest(worker=WorkerDescription(name=name, os="linux", devices=(device,)), wait_s=2.0)
    with Client(url, token=token or None, timeout_s=10, patience_s=5) as client:
        while True:
            try:
                claim = client.claim_job(request)
                if claim is None:
                    continue
                time.sleep(random.uniform(*JOB_S))
                client.heartbeat(claim.lease)
                client.finish_job(claim.lease, Finish(outcome="succeeded", run_ids=[f"{claim.job}/{claim.attempt}"]))
            except StateConflict:
                continue  # The lease has ended: the job is another's.
            except AssayError:
                time.sleep(0.1)  # Postgres or the service is away.


if __name__ == "__main__":
    main(*sys.argv[1:])
