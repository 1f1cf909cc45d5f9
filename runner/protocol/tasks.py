"""Requests to a child process, and its messages while it works: one JSON object a line.

A child announces each stage before it begins, so that whoever watches knows where it ended when it ends badly.
"""

from __future__ import annotations

from typing import Any

import msgspec

from domain.configuration import Workload
from runner.calibration.kernels import Kernel
from runner.measure.stopping import Method
from runner.platforms.base import Rank
from runner.protocol.nodes import Nodes

__all__ = [
    "Calibrate",
    "Case",
    "Communication",
    "Compress",
    "Convert",
    "Evaluate",
    "Examine",
    "Exhaust",
    "Failed",
    "Finished",
    "Follow",
    "FollowingTask",
    "KernelJob",
    "KernelReport",
    "Loaded",
    "Measure",
    "Message",
    "Partial",
    "Prepare",
    "Progress",
    "RankReport",
    "Reached",
    "Serve",
    "Survey",
    "Task",
    "Verify",
    "Wanted",
]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration as it was asked for; `model` is a name or a path, `threads` None means all allowed.

    `unreachable` is why the hub cannot be asked for its checkpoint, found out once for all children. `nodes` are the machines
    whose processes train together.
    """

    model: str
    platform: str
    precision: str
    workload: Workload
    weights: str = "auto"
    threads: int | None = None
    device: str | None = None
    compiled: bool = False
    options: tuple[str, ...] = ()
    seed: int = 0
    trust_remote_code: bool = False
    allow_pickle: bool = False
    unreachable: str | None = None
    nodes: Nodes | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A model and the workloads that it is wanted at; sizes left out are filled in from the model."""

    model: str
    workloads: list[Workload]


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag="prepare"):
    """Describe models, fill in their workloads, and trace each on the meta device where `trace` is set."""

    wanted: list[Wanted]
    weights: str
    trace: bool = True
    trust_remote_code: bool = False
    allow_pickle: bool = False


class Survey(msgspec.Struct, frozen=True, kw_only=True, tag="survey"):
    """Probe platforms, describe the machine where `describe` is set, and do what is to be prepared in the same child.

    Libraries that take seconds to import are then imported once.
    """

    platforms: list[str]
    describe: bool = True
    prepare: Prepare | None = None


class Convert(msgspec.Struct, frozen=True, kw_only=True, tag="convert"):
    """Convert one case's model into the folder."""

    case: Case
    folder: str


class Measure(msgspec.Struct, frozen=True, kw_only=True, tag="measure"):
    """Measure one case; `folder` holds the converted model where the platform converts."""

    case: Case
    method: Method
    folder: str | None = None


class Verify(msgspec.Struct, frozen=True, kw_only=True, tag="verify"):
    """Compare one case's outputs with those of the fp32 reference on the processor."""

    case: Case
    folder: str | None = None


class Evaluate(msgspec.Struct, frozen=True, kw_only=True, tag="evaluate"):
    """Score one case on examples: `examples` is the file with inputs and labels, `scores` the file to write."""

    case: Case
    examples: str
    scores: str
    metric: str
    folder: str | None = None


class Compress(msgspec.Struct, frozen=True, kw_only=True, tag="compress"):
    """Carry out one recipe and write the variant, with its card, into the folder.

    `request` is the digest of what is asked for, `source` the name or path by which the card will name the base.
    """

    model: str
    source: str
    recipe: str
    folder: str
    request: str
    weights: str = "auto"
    calibrate: str | None = None
    seed: int = 0
    trust_remote_code: bool = False
    allow_pickle: bool = False
    unreachable: str | None = None


class FollowingTask(msgspec.Struct, frozen=True, kw_only=True):
    """Be one rank of a case beside the first; `case.threads` are its own."""

    case: Case
    rank: Rank
    verifying: bool


class RankReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The device of a rank, its threads, and the highest memory that it took, in bytes.

    Of a rank that trains: its time on processors over the wall time, in the timed steps (`core_share`) and while it
    computed without communication, and what its passes waited for communication, in ms.
    """

    rank: int
    device: str
    threads: int
    node: int | None = None
    peak_memory_bytes: int
    device_memory_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    core_share: float | None = None
    computing_core_share: float | None = None
    exposed_communication_ms: float | None = None


class Communication(msgspec.Struct, frozen=True, kw_only=True):
    """What communication took in a training on ranks, as the first of them saw it.

    `exposed_ms` is its share of a step that no computing hid; `all_reduce_ms` the time of adding up the gradients'
    bytes alone, in that many buffers; `steps` how many steps without communication it was compared with.
    """

    exposed_ms: float
    all_reduce_ms: float
    gradient_bytes: int
    buffers: int
    backend: str
    steps: int


class Follow(msgspec.Struct, frozen=True, kw_only=True, tag="follow"):
    """Be a node of a case beside the first: start its ranks here, and watch them until the first rank has done with them."""

    case: Case


class Examine(msgspec.Struct, frozen=True, kw_only=True, tag="examine"):
    """Check what a platform does against answers that are known."""

    platform: str
    device: str | None = None


class Exhaust(msgspec.Struct, frozen=True, kw_only=True, tag="exhaust"):
    """Take memory until there is no more."""

    platform: str
    device: str | None = None


class KernelJob(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel in one precision."""

    kernel: Kernel
    precision: str


class Calibrate(msgspec.Struct, frozen=True, kw_only=True, tag="calibrate"):
    """Measure kernels on one platform, one after the other, and report each as soon as it is done.

    `kind` is that of the device, `memory_bytes` what it holds, None where nobody knows.
    """

    platform: str
    jobs: list[KernelJob]
    method: Method
    device: str | None = None
    threads: int | None = None
    kind: str | None = None
    memory_bytes: float | None = None


class Serve(msgspec.Struct, frozen=True, kw_only=True, tag="serve"):
    """Load one case and answer calls of it on inherited descriptors: a socket, and the files of inputs and outputs."""

    case: Case
    socket: int
    inputs: int
    outputs: int
    folder: str | None = None
    max_batch: int = 1


Task = (
    Survey | Prepare | Convert | Measure | Verify | Evaluate | Compress | Follow | Examine | Exhaust | Calibrate | Serve
)


class Reached(msgspec.Struct, frozen=True, kw_only=True, tag="reached"):
    """The child begins a stage."""

    stage: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """The child has loaded the code that it was started with, and waits for its task."""


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The child finished its task; the last message of a child that did not fail."""

    result: Any


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The child could not; the last message of a child that failed in an orderly way."""

    stage: str
    outcome: str
    error: str
    message: str
    remedy: str | None = None
    result: Any = None


class KernelReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a kernel: its series with what did the work and how it was launched, or why there is none."""

    series: dict[str, Any] | None = None
    observed: dict[str, Any] | None = None
    options: dict[str, Any] = {}
    launch: str = "eager"
    failure: Failed | None = None


class Partial(msgspec.Struct, frozen=True, kw_only=True, tag="partial"):
    """A part of the result, which the child does not keep: kernels come in the order of their jobs."""

    result: KernelReport


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """What the child is at within a stage, and the share of it (0–1) that is done, None where nobody knows."""

    what: str
    share: float | None = None


Message = Loaded | Reached | Progress | Finished | Failed | Partial
