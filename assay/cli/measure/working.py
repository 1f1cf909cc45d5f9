"""`assay worker`: this machine does jobs of a service's queue."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from assay.cli.options import WORDS, as_json, served
from assay.cli.output import notes, write_json
from domain.errors import ServiceUnavailable, UsageError

if TYPE_CHECKING:
    from domain.jobs.jobs import Claim
    from domain.jobs.needs import WorkerDescription

__all__ = ["worker"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_QUICK_S = 5.0


@click.command(
    epilog="""\b
Examples:
  assay worker --server https://assay.example.org --token assay_…
  assay worker --labels rack-7,lab --name bench-3
  assay worker --once"""
)
@click.option("--once", is_flag=True, help="Do one job and end: exit code 1 where it failed or none waits.")
@click.option("--labels", type=WORDS, metavar="a,b", help="Names of your own that jobs can need: --needs label=a.")
@click.option("--name", metavar="NAME", help="Name of this worker, the same at each start; the host's name by default.")
@click.option(
    "--work-in",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder for plans and events of the job in hand; jobs in ASSAY_HOME by default.",
)
@click.option(
    "--allow-code",
    is_flag=True,
    help="Do plans with trust_remote_code or allow_pickle, which run code of others on this machine.",
)
@served
@as_json
def worker(
    once: bool,
    labels: list[str] | None,
    name: str | None,
    work_in: Path | None,
    allow_code: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Claim jobs that this machine can do, run each as `assay bench`, and send what was measured.

    It only calls out: nothing has to reach this machine. What it can do is what answers here, as `assay detect` shows.
    Events wait on this machine's disk while the service is away. One job runs on a device at a time, whichever worker of
    this machine has it. With a signal (Ctrl-C, SIGTERM) it stops its job, gives it back and ends. --json prints a line
    of JSON for each thing that happens.
    """
    from assay.client import Client
    from assay.home import find_home
    from runner.campaign.splitting import ALLOW_CODE
    from runner.jobs.description import describe_worker, take_name
    from runner.jobs.worker import StopSignals, Worker
    from runner.spool.spool import Spool

    for word in (*(labels or ()), *([name] if name else ())):
        if not _NAME.match(word):
            raise UsageError(
                f"{word!r} is no name.",
                field="name" if word == name else "labels",
                remedy="Use letters, digits, dots, hyphens and underscores, at most 63.",
            )
    home = find_home()
    url = server or _running_here()
    say = _JsonLog() if as_json else _Log()
    own, lock = take_name(name)
    with ExitStack() as stack:
        stack.callback(lock.close)
        with notes().status("trying each platform"):
            description, addresses = describe_worker(own, (*(labels or ()), *([ALLOW_CODE] if allow_code else ())))
        say("described", _description(description))
        stop = stack.enter_context(StopSignals())
        return Worker(
            client=stack.enter_context(Client(url, token=token, patience_s=0)),
            quick=stack.enter_context(Client(url, token=token, timeout_s=_QUICK_S, patience_s=0)),
            description=description,
            addresses=addresses,
            spool=stack.enter_context(Spool(home.spool)),
            root=(work_in or home.jobs) / own,
            say=say,
            stop=stop,
            allow_code=allow_code,
        ).run(once=once)


def _running_here() -> str:
    from assay.home import find_home, running

    service = running(find_home())
    if service is None:
        raise ServiceUnavailable(
            "no service is named, and none runs on this machine.",
            field="server",
            remedy="Name the service whose jobs this machine shall do: --server or ASSAY_SERVER.",
        )
    return service.url


def _description(worker: WorkerDescription) -> str:
    """Return a worker's devices in a line."""
    devices = "; ".join(
        f"{f'{device.count} × ' if device.count > 1 else ''}{device.hardware} ({', '.join(device.platforms)}"
        f"{f', {device.memory_bytes / 1e9:.3g} GB' if device.memory_bytes else ''})"
        for device in worker.devices
    )
    labels = f", labels {', '.join(worker.labels)}" if worker.labels else ""
    return f"{worker.name} has {devices or 'no device that works'}{labels}"


class _Log:
    """Lines for people on stdout: time, what happened, to which job."""

    def __call__(self, what: str, words: str, claim: Claim | None = None) -> None:
        job = f"  {claim.job}" if claim else ""
        sys.stdout.write(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {what:<9} {words}{job}\n")
        sys.stdout.flush()


class _JsonLog:
    """One JSON object a line on stdout."""

    def __call__(self, what: str, words: str, claim: Claim | None = None) -> None:
        import msgspec

        line: dict[str, Any] = {"time": datetime.now(UTC), "event": what, "detail": words}
        if claim:
            line |= {"job": claim.job, "attempt": claim.attempt, "title": claim.title, "device": claim.device}
        write_json(msgspec.json.encode(line).decode())
        sys.stdout.flush()
