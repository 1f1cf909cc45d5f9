"""Ranks of a case, as the first of them sees it: it starts those of its machine, leads their calls, and sees one die.

Every forward pass of a split module, and every few steps of a training, begins with a word of the first rank to the
others, which then do the same. That word is in the time of a call. A rank that ends is the failure of the case,
whatever the first one waits for. On several nodes the first rank also waits for their supervisors
(`runner.protocol.supervision`), which start the ranks there and tell it how one ended.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any

import msgspec

from domain.canonical import digest
from domain.errors import ServiceUnavailable, UnsupportedWorkload, UsageError
from runner.campaign.discovery import Announcer
from runner.machine.processor import threads_allowed
from runner.machine.resident_memory import peak_memory_bytes
from runner.machine.scrub import scrub
from runner.measure.workloads import purpose_of
from runner.platforms.base import Platform, Rank
from runner.platforms.execution_options import RANK_OPTIONS, ExecutionOptions
from runner.protocol.nodes import connect, listen, meet
from runner.protocol.parent import decoded, exit_failure, send_task, system_oom_kills
from runner.protocol.tasks import Case, Failed, FollowingTask, RankReport

__all__ = [
    "GO",
    "LONGEST",
    "LocalRanks",
    "NodeReport",
    "Ranks",
    "Word",
    "address",
    "case_digest",
    "device_type",
    "failed_key",
    "gathered",
    "node_key",
    "node_report",
    "report_of",
    "require_divisible",
    "require_ranks",
    "said",
    "say",
    "unreachable",
]

GRACE_S = 2.0
"""What ends one rank with a word of its own mostly ends the first rank too, which tells it better."""
LONGEST = timedelta(hours=24)
GO = "go"
_PLAIN = frozenset({"fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16"})
_REPORT_BYTES = 4096


class Word(IntEnum):
    """What the first rank asks of the others.

    Of a split module: a forward pass, one that fills a cache, one token more, or their report. Of a training: so many
    steps, and what is measured after the last of them. END is the last word.
    """

    FORWARD = 1
    PREFILL = 2
    DECODE = 3
    REPORT = 4
    STEPS = 5
    CLOSE = 6
    END = 7


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says when it comes: the digest of the case that it was asked for, and its devices by name."""

    case: str
    devices: tuple[str, ...]


def require_divisible(case: Case, options: ExecutionOptions) -> None:
    """Raise UnsupportedWorkload or UsageError for a case that its ranks cannot divide between them anywhere."""
    if options.strategy is None:
        if case.nodes:
            raise UsageError(
                "several nodes have ranks, and none are asked for.",
                field="nodes",
                remedy="Add --option data-parallel=N or --option fsdp=N, with --mode training.",
            )
        return
    name = next(name for name, strategy in RANK_OPTIONS.items() if strategy == options.strategy)
    training, batch = purpose_of(case.workload) == "training", case.workload.batch_size or 1
    why = None
    if options.strategy == "tensor" and training:
        why = "tensor-parallel measures inference and generation; training has data-parallel and fsdp."
    elif options.strategy == "tensor" and case.nodes:
        why = "tensor-parallel splits layers over the devices of one machine."
    elif options.strategy != "tensor" and not training:
        why = f"{name} is for training; inference is split with tensor-parallel."
    elif case.compiled:
        why = f"{name} and --compiled do not go together."
    elif options.strategy == "tensor" and case.precision not in _PLAIN:
        why = f"weights in {case.precision} are not split."
    if why:
        raise UnsupportedWorkload(why, field="options", remedy="Leave one of them out.")
    if training and batch % options.ranks:
        raise UsageError(
            f"a batch of {batch} cannot be divided by {options.ranks} ranks.",
            field="batch_sizes",
            remedy=f"The batch is that of all ranks: take a multiple of {options.ranks}.",
        )
    if case.nodes and options.ranks % len(case.nodes.hosts):
        raise UsageError(
            f"{options.ranks} ranks cannot be divided by {len(case.nodes.hosts)} nodes.",
            field="nodes",
            remedy="Each node has as many ranks as the others.",
        )
    if case.device:
        raise UsageError(
            f"ranks take the first devices, and {case.device} was named.", field="device", remedy="Leave it out."
        )


def require_ranks(case: Case, platform: Platform, options: ExecutionOptions) -> None:
    """Raise UnsupportedWorkload or UsageError for a case that this machine has not enough devices for, or nobody has."""
    require_divisible(case, options)
    local, most = options.ranks // _count(case), platform.most_ranks()
    if local > most:
        what = "processors" if case.platform == "cpu" else "devices"
        raise UnsupportedWorkload(
            f"{local} ranks need {local} {what} of {case.platform}, and {most} can be used here.",
            field="options",
            remedy=f"Ask for at most {most} ranks a machine." if most > 1 else "Leave the ranks out.",
        )


def _count(case: Case) -> int:
    return len(case.nodes.hosts) if case.nodes else 1


def device_type(platform: Platform) -> str:
    """Return the kind of device as torch calls it."""
    kind: str = getattr(platform, "device_type", platform.name)
    return kind


def address(platform: Platform, index: int) -> str:
    """Return the device of a rank as torch calls it: all ranks on processors share one address."""
    kind = device_type(platform)
    return kind if kind == "cpu" else f"{kind}:{index}"


def report_of(platform: Platform, rank: Rank | None, threads: int) -> RankReport:
    """Return what this process, as that rank, took so far."""
    return RankReport(
        rank=rank.index if rank else 0,
        node=rank.node if rank and rank.nodes > 1 else None,
        device=address(platform, rank.local_index if rank else 0),
        threads=threads,
        peak_memory_bytes=platform.peak_memory_bytes() or peak_memory_bytes(),
        device_memory_bytes=platform.device_memory_bytes(),
        **platform.allocator_bytes(),
    )


def case_digest(case: Case) -> str:
    """Return the digest of what a case asks for, the same on every node."""
    hosts = case.nodes and case.nodes.hosts
    plain = msgspec.structs.replace(case, nodes=None, threads=None, unreachable=None)
    return digest([msgspec.to_builtins(plain), hosts])


def node_report(case: Case, platform: Platform) -> NodeReport:
    """Return what this node says of itself."""
    from runner.machine.processor import processor

    names = (processor().name,) if case.platform == "cpu" else tuple(dict.fromkeys(platform.probe().devices))
    return NodeReport(case=case_digest(case), devices=names)


def node_key(index: int) -> str:
    """Return the key under which a node's report is kept in the store."""
    return f"node/{index}"


failed_key = "failed"
"""The key under which the failure of a rank on another node is kept in the store."""


class LocalRanks:
    """Processes of this machine that are ranks; they end with this one. `failed` is called when one of them fails."""

    def __init__(self, case: Case, ranks: Sequence[Rank], failed: Callable[[Failed], None], *, verifying: bool) -> None:
        self._failed = failed
        self._kills = system_oom_kills()
        self._host = case.nodes.hosts[case.nodes.rank] if case.nodes else None
        self._listeners: list[threading.Thread] = []
        self._processes = [self._start(FollowingTask(case=case, rank=rank, verifying=verifying)) for rank in ranks]

    @property
    def pids(self) -> list[int]:
        """Their process ids."""
        return [process.pid for process in self._processes]

    def join(self) -> None:
        """Wait until all have ended."""
        for listener in self._listeners:
            listener.join()

    def _start(self, task: FollowingTask) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.rank_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        send_task(process, task)
        listener = threading.Thread(target=self._listen, args=(task.rank, process), daemon=True)
        listener.start()
        self._listeners.append(listener)
        return process

    def _listen(self, rank: Rank, process: subprocess.Popen[bytes]) -> None:
        """Take what a rank says until it ends; 0 is the status of one that was told to."""
        name, failed = f"rank {rank.index} of {rank.size}", None
        if self._host:
            name += f" on node {rank.node} ({scrub(self._host)})"
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                message = decoded(line, Failed)
                if message is not None:
                    failed = msgspec.structs.replace(message, message=f"{name}: {message.message}")
                    time.sleep(GRACE_S)
        code = process.wait()
        if failed or code:
            self._failed(failed or exit_failure(code, "run", "", system_oom_kills() > self._kills, who=name))


class Ranks:
    """The ranks beside this process, which is rank 0; those of this machine end with it, whatever happens."""

    def __init__(self, case: Case, options: ExecutionOptions, speaker: Announcer, *, verifying: bool) -> None:
        assert options.strategy
        nodes = case.nodes
        self.size = options.ranks
        self._speaker = speaker
        local = self.size // _count(case)
        self.threads = max(1, (case.threads or threads_allowed()) // local)
        self._store, port = listen(nodes)
        self.own = Rank(
            index=0,
            size=self.size,
            port=port,
            strategy=options.strategy,
            host=nodes.hosts[0] if nodes else None,
            nodes=_count(case),
            wait_s=nodes.wait_s if nodes else None,
        )
        if nodes:
            self._gather_nodes(case)
        self.case = msgspec.structs.replace(case, threads=self.threads)
        others = [msgspec.structs.replace(self.own, index=index) for index in range(1, local)]
        self._local = LocalRanks(self.case, others, self._tell, verifying=verifying)

    @property
    def pids(self) -> list[int]:
        """The process ids of the other ranks on this machine."""
        return self._local.pids

    @property
    def training(self) -> bool:
        """Whether the ranks train, each on a part of the batch."""
        return self.own.strategy != "tensor"

    def _tell(self, failed: Failed) -> None:
        self._speaker.say(msgspec.structs.replace(failed, stage=self._speaker.stage))

    def _gather_nodes(self, case: Case) -> None:
        """Wait for the other nodes, and refuse one that was started for other work or has other devices."""
        assert case.nodes
        from runner.platforms.registry import create

        nodes, own = case.nodes, node_report(case, create(case.platform))
        for index, host in enumerate(nodes.hosts[1:], 1):
            try:
                self._store.wait([node_key(index)], timedelta(seconds=nodes.wait_s))
            except RuntimeError as error:
                raise ServiceUnavailable(
                    f"node {index} ({host}) did not come within {nodes.wait_s:g} s.",
                    field="nodes",
                    remedy=f"Start the same command there with --node-rank {index}; it must reach port {nodes.port} here.",
                ) from error
            report = msgspec.json.decode(self._store.get(node_key(index)), type=NodeReport)
            if report.case != own.case:
                raise UsageError(
                    f"node {index} ({host}) was started for other work.",
                    field="nodes",
                    remedy="Run the same command, of the same version, on each node.",
                )
            if report.devices != own.devices:
                raise UsageError(
                    f"node {index} ({host}) has {', '.join(report.devices)}, and node 0 {', '.join(own.devices)}.",
                    field="nodes",
                    remedy="A measurement names one kind of hardware: take nodes that are alike.",
                )
        self._store.set(GO, b"1")
        threading.Thread(target=self._watch_nodes, args=(nodes.hosts[0], nodes.port), daemon=True).start()

    def _watch_nodes(self, host: str, port: int) -> None:
        """Tell how a rank of another node ended, as the supervisor there says."""
        store = connect(host, port, LONGEST.total_seconds())
        store.wait([failed_key], LONGEST)
        self._tell(msgspec.json.decode(store.get(failed_key), type=Failed))

    def meet(self, platform: Platform) -> None:
        """Wait until the other ranks have built the model."""
        meet(self.own, device_type(platform))

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
                time.sleep(GRACE_S)
                raise

        module.forward = together

    def reports(self, platform: Platform) -> list[RankReport]:
        """Return what each rank of a split module took so far, in their order."""
        say(Word.REPORT)
        return gathered(report_of(platform, self.own, self.threads))

    def end(self) -> None:
        """Say the last word, after which the other ranks end."""
        say(Word.END)


def _word(kwargs: dict[str, Any]) -> Word:
    if not kwargs.get("use_cache"):
        return Word.FORWARD
    return Word.DECODE if kwargs.get("past_key_values") is not None else Word.PREFILL


def unreachable(error: RuntimeError, rank: Rank) -> ServiceUnavailable | None:
    """Return what an error of communication means where ranks are on several nodes; None where it is another error."""
    lost = re.search(
        r"timed out|connection (closed|reset|refused)|broken pipe|no route to host", str(error), re.IGNORECASE
    )
    if rank.nodes == 1 or lost is None:
        return None
    others = ", ".join(str(node) for node in range(rank.nodes) if node != rank.node)
    return ServiceUnavailable(
        f"a rank of node {others} does not answer ({lost[0].lower()})."
        if rank.nodes == 2
        else f"a rank of one of the nodes {others} does not answer ({lost[0].lower()}).",
        field="nodes",
        remedy="Look at what that node says, and at the network between the nodes.",
    )


def say(word: Word, *amounts: int) -> None:
    """Tell the other ranks what comes next, with at most three whole numbers."""
    import torch
    import torch.distributed as dist

    dist.broadcast(torch.tensor([int(word), *amounts, *[0] * (3 - len(amounts))]), src=0)


def said() -> tuple[Word, tuple[int, int, int]]:
    """Return what the first rank asks for next, and its numbers; waits for it."""
    import torch
    import torch.distributed as dist

    heard = torch.zeros(4, dtype=torch.int64)
    dist.broadcast(heard, src=0)
    word, first, second, third = heard.tolist()
    return Word(word), (first, second, third)


def gathered(report: RankReport) -> list[RankReport]:
    """Give this rank's report to the first rank, which returns those of all in their order; the others return their own."""
    import torch
    import torch.distributed as dist

    text = msgspec.json.encode(report).ljust(_REPORT_BYTES)
    own = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    if dist.get_rank():
        dist.gather(own, dst=0)
        return [report]
    rows = [torch.zeros_like(own) for _ in range(dist.get_world_size())]
    dist.gather(own, rows, dst=0)
    return [msgspec.json.decode(bytes(row.numpy()), type=RankReport) for row in rows]
