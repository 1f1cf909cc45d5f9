"""The worker's loop: lock this machine's devices, claim a job, run it beside heartbeats, and say how it ended.

It only calls out. Devices that it does not need while a job runs are free for other workers of the machine.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import msgspec

from assay.client import Client
from domain.errors import AccessError, AssayError, NotFound, ServiceUnavailable, StateConflict, TooBusy, Unavailable
from domain.jobs.jobs import Claim, ClaimRequest, Finish
from domain.jobs.needs import WorkerDescription
from runner.campaign.plan_file import PlanFile
from runner.campaign.splitting import code_of_others
from runner.jobs.attempt import Attempt, leftover_events
from runner.jobs.description import Addresses, device_argument
from runner.machine.devices.lock import DeviceLock, take
from runner.spool.spool import FlushReport, Spool
from runner.spool.state import SpoolState

__all__ = ["Say", "StopSignals", "Stopped", "Worker"]

GIVEN_BACK = "the worker was stopped"
"""The reason of a job that is given back: it is `cancelled` without having been asked to be, and waits again."""
WAIT_S = 25.0
"""How long one claim waits for a job."""
ONCE_WAIT_S = 5.0
LOCKED_S = 2.0
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0

Say = Callable[..., None]
"""Takes a word for what happened, a sentence, and members of the claim where there is one."""


class Stopped(BaseException):
    """A signal asked the worker to end."""


class StopSignals:
    """SIGTERM and SIGINT raise Stopped where the worker waits; elsewhere they are kept until it does."""

    def __init__(self) -> None:
        self.requested = False
        self._waits = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._take) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal names them
        self.requested = True
        if self._waits:
            self._waits = False
            raise Stopped

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a signal end the block."""
        self._waits = True
        try:
            if self.requested:
                raise Stopped
            yield
        finally:
            self._waits = False


class Worker:
    """Works on the jobs of one service.

    `quick` gives up early on a service that is slow, so that a cancelled job is stopped in time; `client` has the time
    that claims and the last events need. Neither tries again by itself.
    """

    def __init__(
        self,
        *,
        client: Client,
        quick: Client,
        description: WorkerDescription,
        addresses: Addresses,
        spool: Spool,
        root: Path,
        say: Say,
        stop: StopSignals,
        allow_code: bool = False,
    ) -> None:
        self._client, self._quick = client, quick
        self._description, self._addresses = description, addresses
        self._spool, self._root = spool, root
        self._say, self._stop, self._allow_code = say, stop, allow_code
        self._locks: dict[str, DeviceLock] = {}
        self._answered = False

    def run(self, *, once: bool = False) -> int:
        """Work until a signal comes, or on one job with `once`: 0 where it succeeded, 1 where it did not or none waits.

        Raises AccessError where the token may not work, and ServiceUnavailable where the service has never answered.
        """
        self._recover()
        try:
            while True:
                self._lock_devices()
                claim = self._claim(ONCE_WAIT_S if once else WAIT_S)
                if claim is not None:
                    outcome = self._work(claim)
                    if once:
                        return 0 if outcome == "succeeded" else 1
                elif once:
                    self._say("idle", "no job waits that this machine can do")
                    return 1
        except Stopped:
            self._say("stopped", "the worker was stopped")
            return 0
        finally:
            self._unlock_devices()

    def _recover(self) -> None:
        """Keep what attempts had measured whose worker was killed."""
        for folder, events in leftover_events(self._root):
            if events:
                self._spool.put(events)
                self._say("recovered", f"{len(events)} events of an attempt that was cut off wait in the spool")
            Attempt.remove(folder)
        self._send(self._client)

    # Devices

    def _lock_devices(self) -> None:
        """Lock every device that no other worker holds; wait where there is none."""
        said = False
        while True:
            for device in self._description.devices:
                if device.address not in self._locks:
                    try:
                        self._locks[device.address] = take(f"job-{device.address}")
                    except TooBusy:
                        continue
            if self._locks:
                return
            if not said:
                self._say("busy", "other workers of this machine use all of its devices; waiting for one")
                said = True
            self._sleep(LOCKED_S)

    def _unlock_devices(self, but: str | None = None) -> None:
        for address in [address for address in self._locks if address != but]:
            self._locks.pop(address).close()

    def _sleep(self, seconds: float) -> None:
        with self._stop.waiting():
            time.sleep(seconds)

    # The service

    def _claim(self, wait_s: float) -> Claim | None:
        """Ask for a job; a service that is away is asked again until it answers."""
        busy = [device.address for device in self._description.devices if device.address not in self._locks]
        request = ClaimRequest(worker=self._description, wait_s=wait_s, busy=busy)
        pause_s = FIRST_WAIT_S
        while True:
            try:
                with self._stop.waiting():
                    claim = self._client.claim_job(request)
            except NotFound as missing:
                raise ServiceUnavailable(
                    f"the service at {self._client.server} has no jobs.",
                    field="server",
                    remedy="It is older than this worker, or takes events only: upgrade it, or name another.",
                ) from missing
            except AccessError as refused:
                refused.remedy = "Give this worker a token: assay token create NAME --scope work --scope append."
                raise
            except Unavailable as away:
                if not self._answered:
                    raise
                if pause_s == FIRST_WAIT_S:
                    self._say("away", f"{away.detail} Trying again until it answers")
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_WAIT_S)
            else:
                if not self._answered or pause_s > FIRST_WAIT_S:
                    self._say("connected", f"{self._client.server} answers")
                self._answered = True
                return claim

    def _send(self, client: Client) -> FlushReport:
        return self._spool.flush(lambda lines: client.post_events(lines, batch=len(lines)))

    # A job

    def _work(self, claim: Claim) -> str:
        """Run a claimed job and return how it ended."""
        self._unlock_devices(but=claim.device)
        self._say("started", f"{claim.title} (attempt {claim.attempt} of {claim.attempts})", claim)
        refusal = self._refusal(claim)
        if refusal is not None:
            return self._finish(claim, refusal)
        device = device_argument(claim.plan, claim.device, self._addresses)
        attempt = Attempt(claim, self._root, device, (self._locks[claim.device].fileno(),))
        try:
            stopped = self._beside(attempt)
        finally:
            if not attempt.ended.is_set():
                attempt.stop()
            self._keep(attempt)
        if stopped is not None and stopped.outcome is None:
            self._say("lost", stopped.reason, claim)
            self._send(self._quick)
            attempt.close()
            return "lost"
        finish = attempt.finish() if stopped is None else stopped.finish(attempt.run_ids)
        outcome = self._finish(claim, finish)
        attempt.close()
        return outcome

    def _refusal(self, claim: Claim) -> Finish | None:
        """Return why a job is not begun: its plan is none, or runs code that this worker does not allow."""
        try:
            asks = code_of_others(msgspec.convert(claim.plan, PlanFile))
        except msgspec.ValidationError as error:
            return Finish(outcome="failed", reason=f"the plan is none: {error}.", final=True)
        if asks and not self._allow_code:
            words = f"the plan has {' and '.join(asks)}, which this worker does not allow; --allow-code does"
            return Finish(outcome="failed", reason=words)
        if claim.device not in self._locks:
            return Finish(outcome="failed", reason=f"{claim.device} is not a device that this worker holds")
        return None

    def _beside(self, attempt: Attempt) -> _Stop | None:
        """Send events and heartbeats until the child ends; return why it has to be stopped, None where it ended by itself."""
        claim = attempt.claim
        expires_s = time.monotonic() + claim.lease_s
        while True:
            try:
                with self._stop.waiting():
                    if attempt.ended.wait(claim.heartbeat_s):
                        return None
            except Stopped:
                return _Stop(outcome="cancelled", reason=GIVEN_BACK)
            self._keep(attempt)
            asked_s = time.monotonic()
            try:
                beat = self._quick.heartbeat(claim.lease)
            except (StateConflict, NotFound) as ended:
                return _Stop(outcome=None, reason=f"stopped: {ended.detail}")
            except AssayError as away:
                if time.monotonic() >= expires_s:
                    return _Stop(outcome=None, reason=f"stopped: the lease could not be renewed; {away.detail}")
            else:
                expires_s = asked_s + claim.lease_s
                if beat.cancel:
                    return _Stop(outcome="cancelled", reason="it was cancelled while it ran")
                self._send(self._quick)

    def _keep(self, attempt: Attempt) -> None:
        events = attempt.new_events()
        if events:
            self._spool.put(events)

    def _finish(self, claim: Claim, finish: Finish) -> str:
        """Send the last events and then the outcome, which is asked for again while the service is away."""
        pause_s = FIRST_WAIT_S
        while True:
            client = self._quick if self._stop.requested else self._client
            self._spool.state = SpoolState()
            report = self._send(client)
            finish = _with_refusals(finish, report)
            try:
                client.finish_job(claim.lease, finish)
            except (StateConflict, NotFound) as ended:
                self._say("lost", f"{claim.title}: {ended.detail} What was measured is kept", claim)
                return "lost"
            except Unavailable as away:
                if pause_s == FIRST_WAIT_S:
                    self._say("away", f"{away.detail} Trying again until it answers")
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_WAIT_S)
            else:
                break
        what = "returned" if finish.reason == GIVEN_BACK else finish.outcome
        self._say(what, f"{claim.title}{f': {finish.reason}' if finish.reason else ''}", claim)
        if report.state.phase == "blocked":
            raise _blocked(report)
        return finish.outcome


class _Stop(msgspec.Struct, frozen=True, kw_only=True):
    """Why a child was stopped; without an outcome the lease is gone, and nothing is said to the service."""

    outcome: Any
    reason: str

    def finish(self, run_ids: list[str]) -> Finish:
        """Return how the attempt ended, as the service takes it."""
        return Finish(outcome=self.outcome, reason=self.reason, run_ids=run_ids)


def _with_refusals(finish: Finish, report: FlushReport) -> Finish:
    """Return the outcome; a job whose events the service does not take has failed."""
    if report.state.phase == "blocked":
        words = f"its events wait on the worker's disk: {report.error}"
        return msgspec.structs.replace(finish, outcome="failed", final=False, reason=words)
    if report.refused:
        words = f"the service refused {report.refused} of its events; `assay spool` on the worker lists them"
        return msgspec.structs.replace(finish, outcome="failed", final=True, reason=words)
    return finish


def _blocked(report: FlushReport) -> AccessError:
    return AccessError(
        f"{report.waiting} events wait on this machine's disk: {report.error}",
        field="token",
        remedy="Give this worker a token with both scopes: assay token create NAME --scope work --scope append.",
    )
