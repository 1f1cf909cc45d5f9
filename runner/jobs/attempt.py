"""One attempt at a job: `assay bench` as a child in a folder of its own, its events, and how it ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec
import psutil

from domain.events import MEASUREMENT_FAILED, RUN_STARTED, TEST_REPORTED
from domain.jobs.jobs import Claim, Finish
from domain.operating_system import lock
from runner.protocol.parent import descendants, end_tree
from runner.spool.event_file import read_lines

__all__ = ["Attempt", "failure_in", "finish_of", "leftover_events"]

GRACE_S = 4.0
"""How long a child may take to record that it was interrupted before it is killed."""
_KILLED_S = 3.0
_EVENTS = "events.ndjson"
_LOG = "bench.log"
_LOCK = "lock"
_TAIL_BYTES = 4000
_LONGEST_REASON = 2000
_SECRETS = ("ASSAY_TOKEN", "ASSAY_OPERATOR_TOKEN", "ASSAY_DATABASE_URL", "ASSAY_ENDPOINT_KEY", "ASSAY_SERVER")
"""Variables that a plan's code has no use for."""
_TRANSIENT = frozenset({"error"})
"""Outcomes of a configuration that another attempt may change."""


class Attempt:
    """A child that runs a claimed job; `ended` is set once it has ended by itself or was stopped.

    The child writes its events to a file, from which `new_events` takes them while it runs. It ends with this process,
    and holds the locks in `kept_open` as long as it lives.
    """

    def __init__(self, claim: Claim, root: Path, device: str | None, kept_open: Sequence[int] = ()) -> None:
        self.claim = claim
        self.folder = root / f"{claim.job}-{claim.attempt}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._lock = (self.folder / _LOCK).open("wb")
        lock(self._lock.fileno())
        plan = self.folder / "plan.yaml"
        # JSON is YAML, and is written without a library.
        plan.write_bytes(msgspec.json.encode({**claim.plan, **({"device": device} if device else {})}))
        self._offset = 0
        self.run_ids: list[str] = []
        self._failures: list[tuple[str, str]] = []
        self.ended = threading.Event()
        self._process = self._start(plan, kept_open)
        threading.Thread(target=self._wait, name="child", daemon=True).start()

    def _start(self, plan: Path, kept_open: Sequence[int]) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name.removesuffix("_FILE") not in _SECRETS}
        environment |= {"ASSAY_JOB": self.claim.job, "ASSAY_ATTEMPT": str(self.claim.attempt)}
        root = str(Path(__file__).resolve().parents[__name__.count(".")])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        words = ["bench", "--plan", str(plan), "--out", str(self.folder / _EVENTS)]
        inherited = () if sys.platform == "win32" else (self._lock.fileno(), *kept_open)
        with (self.folder / _LOG).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "assay.cli", *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                pass_fds=inherited,
            )

    def _wait(self) -> None:
        self._process.wait()
        self.ended.set()

    def new_events(self) -> list[dict[str, Any]]:
        """Return the events that the child has written since the last call, and remember its runs and failures."""
        events: list[dict[str, Any]] = []
        with suppress(FileNotFoundError), (self.folder / _EVENTS).open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                events.append(msgspec.json.decode(line))
        self.run_ids += [event["data"]["run_id"] for event in events if event["type"] == RUN_STARTED]
        self._failures += filter(None, map(failure_in, events))
        return events

    def stop(self) -> None:
        """Interrupt the child, and kill it and all that it started where it does not end within GRACE_S seconds."""
        family = list(descendants(self._process.pid))
        if sys.platform != "win32" and not self.ended.is_set():
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGINT)
            self.ended.wait(GRACE_S)
        # What was started meanwhile is found while its parents live.
        family += [each for each in descendants(self._process.pid) if each not in family]
        end_tree(self._process)
        for each in family:
            with suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(family, timeout=_KILLED_S)
        self.ended.wait(_KILLED_S)

    def finish(self) -> Finish:
        """Return how the child ended by itself, after the last of its events were taken."""
        log = self.folder / _LOG
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            said = file.read().decode(errors="replace")
        return finish_of(self._process.returncode, self._failures, said, self.run_ids)

    def close(self) -> None:
        """Remove the folder; its events are kept elsewhere by now."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._lock.close()
        self.remove(self.folder)

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove the folder of an attempt that is over."""
        shutil.rmtree(folder, ignore_errors=True)


def failure_in(event: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the outcome and the message of an event that says that a configuration failed; None for any other."""
    data = event["data"]
    if event["type"] not in (MEASUREMENT_FAILED, TEST_REPORTED) or data["outcome"] == "passed":
        return None
    return data["outcome"], (data.get("failure") or {}).get("message") or f"in stage {data['stage']}"


def finish_of(code: int, failures: Sequence[tuple[str, str]], said: str, run_ids: Sequence[str]) -> Finish:
    """Return what an exit code, the failures of configurations (outcome, message) and the last output mean.

    What a machine measured is final, also where it failed; what went wrong beside is worth another attempt.
    """
    runs = list(run_ids)
    if code == 0:
        return Finish(outcome="succeeded", run_ids=runs, exit_code=code)
    if code == 1 and failures:
        outcome, message = failures[0]
        final, reason = all(each not in _TRANSIENT for each, _ in failures), f"{outcome}: {message}"
    else:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "")
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        final, reason = code == 2, f"assay bench {how}: {last.removeprefix('error: ')}".removesuffix(": ")
    return Finish(outcome="failed", reason=reason[:_LONGEST_REASON], final=final, run_ids=runs, exit_code=code)


def leftover_events(root: Path) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """Yield folders of attempts whose worker and child are gone, and the events in each."""
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        try:
            file: IO[bytes] = (folder / _LOCK).open("rb")
        except OSError:
            continue
        with file:
            if not lock(file.fileno()):
                continue
            events = folder / _EVENTS
            lines = read_lines(events, whole_only=True) if events.exists() else iter(())
            yield folder, [msgspec.json.decode(line) for line in lines]
