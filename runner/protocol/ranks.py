"""Ranks of a split model, as the first of them sees it: it starts the others, leads their calls, and sees one die.

Every forward pass of the first rank's module begins with a word to the others, which then do the same one. That word
is in the time of a call. A rank that ends is the failure of the case, whatever the first one waits for.
"""

from __future__ import annotations

import functools
import queue
import subprocess
import sys
import threading
import time
from enum import IntEnum
from typing import Any

import msgspec

from domain.errors import UnsupportedWorkload, UsageError
from runner.campaign.discovery import Announcer
from runner.machine.resident_memory import peak_memory_bytes
from runner.measure.workloads import purpose_of
from runner.platforms.base import Platform, Rank
from runner.platforms.splitting import meet
from runner.protocol.parent import decoded, exit_failure, send_task, system_oom_kills
from runner.protocol.tasks import Case, Failed, FollowingTask, RankReport

__all__ = ["Ranks", "Word", "address", "device_type", "report_of", "require_splittable", "said"]

_REPORT_S = 30.0
_GRACE_S = 2.0
"""What ends one rank with a word of its own mostly ends the first rank too, which tells it better."""
_PLAIN = frozenset({"fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16"})


class Word(IntEnum):
    """What the first rank asks of the others: a forward pass, one that fills a cache, one token more, or their report."""

    FORWARD = 1
    PREFILL = 2
    DECODE = 3
    REPORT = 4


def require_splittable(case: Case, platform: Platform, size: int) -> None:
    """Raise UnsupportedWorkload or UsageError for a case that cannot be split over so many ranks here."""
    most, why = platform.most_ranks(), None
    if purpose_of(case.workload) == "training":
        why = "tensor-parallel measures inference and generation."
    elif case.compiled:
        why = "tensor-parallel and --compiled do not go together."
    elif case.precision not in _PLAIN:
        why = f"weights in {case.precision} are not split."
    if why:
        raise UnsupportedWorkload(why, field="options", remedy="Leave one of them out.")
    if size > most:
        what = "processors" if case.platform == "cpu" else "devices"
        raise UnsupportedWorkload(
            f"{size} ranks need {size} {what} of {case.platform}, and {most} can be used here.",
            field="options",
            remedy=f"Ask for at most {most} ranks." if most > 1 else "Leave tensor-parallel out.",
        )
    if case.device:
        raise UsageError(
            f"ranks take the first {size} devices, and {case.device} was named.", field="device", remedy="Leave it out."
        )


def device_type(platform: Platform) -> str:
    """Return the kind of device as torch calls it."""
    kind: str = getattr(platform, "device_type", platform.name)
    return kind


def address(platform: Platform, index: int) -> str:
    """Return the device of a rank as torch calls it: all ranks on processors share one address."""
    kind = device_type(platform)
    return kind if kind == "cpu" else f"{kind}:{index}"


def report_of(platform: Platform, index: int, threads: int) -> RankReport:
    """Return what this process, as that rank, took so far."""
    return RankReport(
        rank=index,
        device=address(platform, index),
        threads=threads,
        peak_memory_bytes=platform.peak_memory_bytes() or peak_memory_bytes(),
        device_memory_bytes=platform.device_memory_bytes(),
        **platform.allocator_bytes(),
    )


class Ranks:
    """The ranks beside this process, which is rank 0; they end with it, whatever happens."""

    def __init__(self, case: Case, size: int, speaker: Announcer, *, verifying: bool) -> None:
        import torch.distributed as dist

        self.size = size
        self.threads = max(1, (case.threads or 1) // size)
        self._speaker = speaker
        self._kills = system_oom_kills()
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._reports: queue.Queue[RankReport] = queue.Queue()
        own = msgspec.structs.replace(case, threads=self.threads)
        self._processes = [
            self._start(FollowingTask(case=own, rank=self.rank(index), verifying=verifying)) for index in range(1, size)
        ]

    def rank(self, index: int = 0) -> Rank:
        """Return one rank: where the others are met."""
        return Rank(index=index, size=self.size, port=self._store.port)

    @property
    def pids(self) -> list[int]:
        """The process ids of the other ranks."""
        return [process.pid for process in self._processes]

    def _start(self, task: FollowingTask) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.rank_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        send_task(process, task)
        threading.Thread(target=self._listen, args=(task.rank.index, process), daemon=True).start()
        return process

    def _listen(self, index: int, process: subprocess.Popen[bytes]) -> None:
        """Take what a rank says until it ends, which no rank does before this process, and tell that as a failure."""
        name, failed = f"rank {index} of {self.size}", None
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                message = decoded(line, RankReport | Failed)
                if isinstance(message, RankReport):
                    self._reports.put(message)
                elif message is not None:
                    failed = msgspec.structs.replace(message, message=f"{name}: {message.message}")
                    time.sleep(_GRACE_S)
        code, stage = process.wait(), self._speaker.stage
        failed = failed or exit_failure(code, stage, "", system_oom_kills() > self._kills, who=name)
        self._speaker.say(msgspec.structs.replace(failed, stage=stage))

    def meet(self, platform: Platform) -> None:
        """Wait until the other ranks have built the model."""
        meet(self.rank(), device_type(platform))

    def lead(self, module: Any) -> None:
        """Let each forward pass of the module be one of all ranks."""
        forward = module.forward

        @functools.wraps(forward)
        def together(*args: Any, **kwargs: Any) -> Any:
            try:
                say(_word(kwargs))
                return forward(*args, **kwargs)
            except RuntimeError:
                # Where a rank died this process is ended before it can tell the lesser half of it.
                time.sleep(_GRACE_S)
                raise

        module.forward = together

    def reports(self, platform: Platform) -> list[RankReport]:
        """Return what each rank took so far, in their order."""
        own = report_of(platform, 0, self.threads)
        say(Word.REPORT)
        others = [self._reports.get(timeout=_REPORT_S) for _ in self._processes]
        return sorted([own, *others], key=lambda report: report.rank)


def _word(kwargs: dict[str, Any]) -> Word:
    if not kwargs.get("use_cache"):
        return Word.FORWARD
    return Word.DECODE if kwargs.get("past_key_values") is not None else Word.PREFILL


def say(word: Word) -> None:
    """Tell the other ranks what comes next."""
    import torch
    import torch.distributed as dist

    dist.broadcast(torch.tensor([int(word)]), src=0)


def said() -> Word:
    """Return what the first rank asks for next; waits for it."""
    import torch
    import torch.distributed as dist

    heard = torch.zeros(1, dtype=torch.int64)
    dist.broadcast(heard, src=0)
    return Word(int(heard))
