"""A service with a million measurements of 300 models on 40 devices, and our own of data/, for the dashboard to be tried on.

The million is made up (`assay.synthesis`), and says `measured` here, in a database that goes with the benchmark, because no
page shows what is simulated beside what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import httpx
import msgspec

from assay.client import Client
from assay.synthesis import SOURCE, events
from benchmarks.answer_speed import filled
from benchmarks.documents import Document
from benchmarks.loading import fill
from benchmarks.serving import Running, service
from domain.errors import ProjectionBehind, ServiceUnavailable
from ingest.log.migrate import upgrade
from ingest.log.postgres import open_database

__all__ = ["DEVICES", "MODELS", "ROWS", "documents", "full_service"]

ROWS, MODELS, DEVICES = 1_000_000, 300, 40
LONGEST_S = 1800.0


class _Envelope(msgspec.Struct):
    id: str
    type: str
    subject: str
    time: datetime


def documents(rows: int) -> Iterator[Document]:
    """Yield the made-up events as rows of the log."""
    envelope = msgspec.json.Decoder(_Envelope)
    for line in events(rows, 1, works=MODELS, devices=DEVICES):
        told = envelope.decode(line)
        body = line.replace(b'"origin":"simulated"', b'"origin":"measured"')
        yield Document(told.id, told.type, SOURCE, told.subject, told.time, body)


def _up_to_date(client: Client) -> None:
    """Return once the tables have caught up, also where another version of Assay made them."""
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until:
        with suppress(ProjectionBehind, ServiceUnavailable):
            if not client.ready()["lag_events"]:
                return
        time.sleep(0.2)
    raise RuntimeError("the tables did not catch up")


@contextmanager
def full_service(home: Path, rows: int) -> Iterator[Running]:
    """Give a service that holds everything, its tables up to date; what a folder holds from an earlier time is taken as it is."""
    database = open_database(home / "postgres")
    stamp = home / f"filled-{rows}"
    try:
        upgrade(database.url)
        if not stamp.exists():
            fill(database.url, documents(rows))
        with service(home / "assay", database) as running:
            with Client(running.url) as client:
                _up_to_date(client)
            if not stamp.exists():
                # A proxy of the environment is for other hosts.
                with httpx.Client(base_url=running.url, timeout=120, trust_env=False) as posting:
                    filled(posting)
                stamp.touch()
            yield running
    finally:
        database.close()
