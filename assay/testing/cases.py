"""Cases of a test file and what is expected of them, and how one is run: in a child process, as `assay verify` and `assay bench` do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

import msgspec

from domain.configuration import Workload
from domain.errors import AssayError
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, TEST_REPORTED
from domain.operating_system import lock, unlock
from domain.payloads import MeasurementFailed, MeasurementRecorded, TestReported

if TYPE_CHECKING:
    from runner.campaign.plan import Plan

__all__ = [
    "REQUIRE_PLATFORMS",
    "Case",
    "Expected",
    "Output",
    "Ran",
    "Time",
    "measure",
    "require_platform",
    "verify",
    "weights_name",
]

REQUIRE_PLATFORMS = "ASSAY_REQUIRE_PLATFORMS"
"""Set to 1, a test of a platform that is absent here fails; otherwise it is skipped with the reason."""
BUDGET_S = 3.0
"""How long one measurement goes on at most, in s, warm-up not counted."""


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """One configuration to run. `model` is a name of the catalogue or a folder; sizes left out are the model's own.

    `threads` left out are all that this process may use. `options` are those of `assay bench --option`. Code that comes
    with a checkpoint runs only with `trust_remote_code`, pickled weights are opened only with `allow_pickle`.
    """

    model: str
    platform: str
    precision: str = "fp32"
    mode: str = "inference"
    batch_size: int = 1
    weights: str = "auto"
    sequence_length: int | None = None
    image_size: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    optimizer: str | None = None
    gradient_checkpointing: bool | None = None
    compiled: bool = False
    threads: int | None = None
    device: str | None = None
    options: tuple[str, ...] = ()
    trust_remote_code: bool = False
    allow_pickle: bool = False

    def __str__(self) -> str:
        """Return the name of its test: `cpu-fp32-batch1-128`."""
        sizes = (self.sequence_length, self.image_size, self.audio_seconds, self.frames, self.input_tokens)
        words = [self.platform, self.precision, f"batch{self.batch_size}", *(f"{size:g}" for size in sizes if size)]
        words += [self.mode] if self.mode != "inference" else []
        words += [f"{self.output_tokens}tokens"] if self.output_tokens else []
        return "-".join([*words, *(["compiled"] if self.compiled else []), *self.options])

    def workload(self) -> Workload:
        """Return the work of one call."""
        sizes = {name: getattr(self, name) for name in _OF_WORKLOAD}
        return Workload(scenario=None if self.mode == "training" else "single_stream", **sizes)

    def plan(self, budget_s: float = BUDGET_S) -> Plan:
        """Return the plan of this case alone; raises as `assay bench` does, naming the field and the remedy."""
        from runner.campaign.plan import Sweep, make_plan, takes
        from runner.measure.stopping import Method
        from runner.models.sources import resolve

        sizes = ("sequence_length", "image_size", "images", "audio_seconds", "frames", "input_tokens", "output_tokens")
        source = resolve(
            self.model, self.weights, trust_remote_code=self.trust_remote_code, allow_pickle=self.allow_pickle
        )
        named = {size if size in _ALIKE else f"{size}s": getattr(self, size) for size in sizes if takes(source, size)}
        sweep = Sweep(
            models=(self.model,),
            platforms=(self.platform,),
            precisions=(self.precision,),
            modes=(self.mode,),
            batch_sizes=(self.batch_size,),
            optimizers=(self.optimizer or "adamw",),
            gradient_checkpointing=(bool(self.gradient_checkpointing),),
            compiled=(self.compiled,),
            options=(self.options,),
            threads=(self.threads,) if self.threads else (),
            **{name: (value,) for name, value in named.items() if value is not None},  # type: ignore[arg-type]
        )
        return make_plan(
            sweep,
            weights=self.weights,
            device=self.device,
            method=Method(budget_s=budget_s),
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
        )


_OF_WORKLOAD = tuple(name for name in Workload.__struct_fields__ if name in Case.__struct_fields__)
_ALIKE = ("images", "audio_seconds", "frames", "input_tokens", "output_tokens")
"""Sizes that have the same name in a case and in a plan; the others end with s there."""


class Ran(msgspec.Struct, frozen=True, omit_defaults=True):
    """What did the work: device and runtime with its version, which weights, and the share of work done elsewhere.

    `precision` stands where it is another than the one that was asked for. `weights` are `random`, `pretrained`, or
    the first digits of the SHA-256 of a checkpoint's files.
    """

    device: str
    runtime: str | None = None
    weights: str | None = None
    precision: str | None = None
    fallback_share: float = 0.0


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one output: its norm, and some of its values at even distances."""

    norm: float
    values: list[float | None]


class Time(msgspec.Struct, frozen=True, omit_defaults=True):
    """Median time of one call in ms, the longest median that is still accepted, and the hardware.

    On other hardware the time is reported and fails nothing, unless `anywhere` is set.
    """

    p50_ms: float
    most_ms: float
    on: str
    anywhere: bool = False


class Expected(msgspec.Struct, frozen=True, omit_defaults=True):
    """A case and what the log has of it. `gave` maps outputs to what is kept of them, `tokens` and `losses` to lists.

    `tested` and `measured` are the ids of the events that say so.
    """

    case: Case
    ran: Ran | None = None
    gave: dict[str, Output | list[Any]] = {}
    took: Time | None = None
    tested: str | None = None
    measured: str | None = None

    def __str__(self) -> str:
        """Return the name of its tests."""
        return str(self.case)


def require_platform(case: Case) -> None:
    """Raise SkipTest where the case's platform is absent here, or AssertionError with ASSAY_REQUIRE_PLATFORMS=1.

    pytest and unittest take SkipTest for a skipped test.
    """
    from runner.campaign.campaign import survey_machine

    machine, _ = survey_machine((case.platform,))
    if machine.available(case.platform):
        return
    probe = machine.platforms[case.platform]["probe"]
    reason = f"{case.platform} is absent here: {probe['reason'] or 'its probe said no'}"
    if os.environ.get(REQUIRE_PLATFORMS, "") not in ("", "0"):
        raise AssertionError(f"{reason} {probe['remedy'] or ''} ({REQUIRE_PLATFORMS} is set.)")
    raise SkipTest(reason)


@cache
def verify(case: Case) -> TestReported:
    """Run the case once in a child process, compare it with fp32 on the processor, and return what came of it.

    A case runs once a process; asking again gives the same answer. What the case can never be is an AssayError.
    """
    from runner.campaign.verify import run_verification

    plan = case.plan()
    with _machine(shared=True):
        events = _events(lambda take: run_verification(plan, take, describe=False))
    return msgspec.convert(events[TEST_REPORTED][-1]["data"], TestReported)


def measure(case: Case, budget_s: float = BUDGET_S) -> MeasurementRecorded:
    """Measure the case in a child process and return the row; AssertionError where it fails.

    Waits until no other test of this machine runs a case: both would be slower than they are.
    """
    from runner.campaign.bench import run_plan

    plan = case.plan(budget_s)
    with _machine(shared=False):
        events = _events(lambda take: run_plan(plan, take, describe=False))
    if measured := events.get(MEASUREMENT_RECORDED):
        return msgspec.convert(measured[-1]["data"], MeasurementRecorded)
    failed = msgspec.convert(events[MEASUREMENT_FAILED][-1]["data"], MeasurementFailed)
    raise AssertionError(f"{case} was not measured: {failed.failure.message} {failed.remedy or ''}".strip())


def _events(run: Callable[[Callable[[dict[str, Any]], None]], Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the events of a run by type."""
    kept: dict[str, list[dict[str, Any]]] = {}
    run(lambda event: kept.setdefault(event["type"], []).append(event))
    return kept


@contextmanager
def _machine(*, shared: bool) -> Iterator[None]:
    """Keep measurements of parallel test processes apart; what is only verified goes together."""
    name = Path(tempfile.gettempdir()) / "assay-model-tests.lock"
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
    except PermissionError:
        # Another user's, which can be locked and not written.
        descriptor = os.open(name, os.O_RDONLY)
    try:
        lock(descriptor, wait=True, shared=shared)
        yield
        unlock(descriptor)
    finally:
        os.close(descriptor)


@cache
def weights_name(model: str, weights: str, kind: str | None) -> str | None:
    """Return which weights a model of this `kind` has here: the digest of a checkpoint that lies on this disk, else the kind."""
    from runner.models.sources import resolve

    if kind == "random":
        return kind
    try:
        folder = resolve(model, weights, trust_remote_code=True, allow_pickle=True).location
    except AssayError:
        return kind
    files = sorted(folder.glob("*.safetensors")) if folder else []
    if not files:
        return kind
    digest = sha256()
    for file in files:
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return f"sha256:{digest.hexdigest()[:16]}"
