"""The contract of a platform: what the child process asks of the thing that executes a model.

The order of calls is `probe` → (`convert` →) `load` → `compile` → `place` → `run` … → `observe` → `close`. A platform
that converts does so in a process of its own, so that the memory of converting is not counted as that of running.
Work other than one forward pass is asked for in place of `run`: `generator` and `trainer`.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from domain.configuration import Runtime, Workload
from domain.errors import UnsupportedPrecision, UnsupportedWorkload
from domain.variants.lineage import FormKind
from runner.machine.devices.watching import Watcher
from runner.measure.power.choice import host_meter
from runner.measure.power.meter import Meter, Unread
from runner.measure.stopping import Method, StopReason
from runner.platforms.execution_options import Strategy

__all__ = [
    "CallTimer",
    "Converted",
    "Generator",
    "Observation",
    "Platform",
    "Preprocessing",
    "Probe",
    "Rank",
    "Recipe",
    "Settings",
    "Trainer",
]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a platform works here. `evidence` was gained by using it; `reason` and `remedy` say why it does not."""

    available: bool
    devices: tuple[str, ...] = ()
    evidence: str | None = None
    reason: str | None = None
    remedy: str | None = None


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One of `size` processes that divide the work as `strategy` says, as many on each node.

    They meet at a store on a port of `host`, None: of this machine. `wait_s` is how long one waits for the others.
    """

    index: int
    size: int
    port: int
    strategy: Strategy = "tensor"
    host: str | None = None
    nodes: int = 1
    wait_s: float | None = None

    @property
    def node(self) -> int:
        """The node that it is on."""
        return self.index // (self.size // self.nodes)

    @property
    def local_index(self) -> int:
        """Its number among the ranks of its node, which is that of its device."""
        return self.index % (self.size // self.nodes)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What may be set on a platform: the device (None: its first), threads, and whether to compile the module.

    `purpose` is the kind of work: inference, generation or training. `dropout` false trains without, so that two runs
    can be compared. `threads_named` says that somebody asked for that many, so that fewer are no answer. `options` are those of `runner.platforms.execution_options`. `rank` is this process's part of the work.
    With `narrow_edges` a converted graph takes and gives 16-bit values where it computes in 16 bits, as one operator of a
    model does; a whole model takes and gives fp32.
    """

    precision: str
    threads: int
    device: str | None = None
    compiled: bool = False
    purpose: str = "inference"
    dropout: bool = True
    options: tuple[str, ...] = ()
    rank: Rank | None = None
    threads_named: bool = False
    narrow_edges: bool = False


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is converted: for which kind of work and, where weights are quantized, in which precision."""

    purpose: str = "inference"
    precision: str = "fp32"


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What did the work.

    `fallback_share` is the share of it (0–1) done on another device, or in another precision where that is no part of
    what was asked for. `precision_share` is the share whose arithmetic was that of `precision`: mixed and quantized
    forms leave the rest in a wider type by design. `details` are the runtime's own words.
    """

    device: str
    platform: str
    precision: str
    fallback_share: float
    precision_share: float | None = None
    details: dict[str, Any] = {}


class Preprocessing(msgspec.Struct, frozen=True, kw_only=True):
    """The work before the model, timed where it would be done: ms for one batch, and in words what was timed and by whom."""

    ms: float
    details: dict[str, Any]


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """A model in a platform's own form, and the inputs that it was converted with, in a folder."""

    folder: Path


class Generator(Protocol):
    """Greedy generation step by step on one batch; `prefill` begins again from the prompt."""

    def prefill(self) -> None:
        """Read the prompt into an empty cache and choose the first token of each item."""

    def decode(self) -> None:
        """Append the token chosen last and choose the next."""

    def tokens(self) -> Any:
        """Return the tokens chosen last as an int64 array [batch, 1]."""

    def logits(self) -> Any:
        """Return the logits of the step done last as a float32 array [batch, vocabulary]."""

    def cache_bytes(self) -> int | None:
        """Return the bytes of keys and values held now; None where the runtime does not show them."""


class Trainer(Protocol):
    """Training step by step on one batch: `forward` (with the loss), `backward`, `update`, in that order."""

    def forward(self) -> float | None:
        """Compute outputs and loss; return when the outputs were there and the loss began, as perf_counter seconds."""

    def backward(self) -> None:
        """Compute gradients of the loss."""

    def update(self) -> None:
        """Let the optimizer step, and forget the gradients."""

    def loss(self) -> float:
        """Return the loss of the last forward pass."""

    def gradients_finite(self) -> bool:
        """Return whether every gradient held now is finite; asked between `backward` and `update`."""


class CallTimer(Protocol):
    """Calls timed where they are made, by another clock than this process's."""

    def warm_up(self, method: Method) -> tuple[list[float], bool]:
        """Call until the times are steady; return them in ms, and whether they became so."""

    def series(self, method: Method) -> tuple[list[float], StopReason, float, list[int]]:
        """Take the samples; return them in ms, why they ended, their wall time in s, and memory in bytes."""

    def bare_ms(self, calls: int) -> float:
        """Return the mean time of calls in ms, from one reading of the clock before and one after all of them."""

    def conditions(self) -> dict[str, float]:
        """Return what is known of that clock and place, by names of `domain.conditions.Conditions`."""


class Platform(ABC):
    """One runtime on one kind of device."""

    name: ClassVar[str]
    converts: ClassVar[bool] = False
    """True where `convert` must have run, in another process, before `load`."""
    forms: ClassVar[tuple[FormKind, ...]] = ("checkpoint",)
    """Forms of a variant that are taken here, best first; any but a checkpoint takes the place of what `convert` writes."""

    @abstractmethod
    def probe(self) -> Probe:
        """Return whether this works here, by really using it. Never raises; environment variables prove nothing."""

    def probe_for(self, options: tuple[str, ...]) -> Probe:  # noqa: ARG002
        """Return the same for what a case asks for with its options, where that makes a difference."""
        return self.probe()

    @abstractmethod
    def runtime(self) -> Runtime:
        """Return the software that executes, with its version."""

    @abstractmethod
    def precisions(self) -> tuple[str, ...]:
        """Return the precisions that can be asked for here; only asked where the probe said yes."""

    known_options: ClassVar[frozenset[str]] = frozenset()
    """Options that may be asked for here."""

    def most_ranks(self) -> int:
        """Return how many ranks this machine can have."""
        return 1

    def refusals(self) -> dict[str, str]:
        """Return a sentence with what to do for each precision that something missing here keeps from working."""
        return {}

    def check(self, purpose: str, precision: str) -> None:
        """Raise UnsupportedWorkload or UnsupportedPrecision for a kind of work that this can never do."""
        if purpose != "inference":
            raise UnsupportedWorkload(
                f"{self.name} does no {purpose}.",
                field="mode" if purpose == "training" else "output_tokens",
                remedy="Measure one forward pass, or take the cpu platform.",
            )
        if precision not in self.precisions():
            raise UnsupportedPrecision(
                f"{self.name} cannot compute in {precision} here.",
                field="precision",
                remedy=self.refusals().get(precision) or f"It can in {', '.join(self.precisions())}.",
            )

    def convert(self, module: Any, inputs: dict[str, Any], folder: Path, recipe: Recipe) -> None:
        """Write the torch module, with those example inputs, into the folder in the platform's own form."""
        raise NotImplementedError(f"{self.name} runs torch modules as they are")

    def take(self, form: Path, inputs: dict[str, Any], folder: Path) -> None:  # noqa: ARG002
        """Copy a variant's graph from its folder into that which `load` reads, for inputs of these shapes."""
        for file in form.iterdir():
            shutil.copyfile(file, folder / file.name)

    @abstractmethod
    def load(self, model: Any, settings: Settings) -> None:
        """Take the model: a torch module in eval mode, or `Converted` where `converts` is true."""

    def weights_dtype(self, precision: str) -> str:  # noqa: ARG002
        """Return the torch type in which the weights for a precision may be made, to save the memory of casting."""
        return "float32"

    @abstractmethod
    def compile(self) -> bool:
        """Prepare for the device; return False where there was nothing to prepare."""

    def free_batch(self) -> bool:
        """Make calls of any batch size possible, after `load` and before `compile`; False where shapes stay as they are."""
        return False

    def compiling(self) -> int | None:
        """Return how much has been compiled so far where that happens inside the first calls, else None."""
        return None

    @abstractmethod
    def place(self, inputs: dict[str, Any]) -> Any:
        """Return the inputs (name → torch tensor or numpy array) where and as `run` wants them."""

    @abstractmethod
    def run(self, inputs: Any) -> Any:
        """Run one call and return its outputs; may return before the device has finished."""

    def generator(self, inputs: Any, output_tokens: int) -> Generator:  # noqa: ARG002
        """Return the generation of so many tokens from placed inputs; raises UnsupportedWorkload."""
        raise UnsupportedWorkload(f"{self.name} does not generate.", field="output_tokens")

    def trainer(self, inputs: Any, workload: Workload, learning_rate: float) -> Trainer:  # noqa: ARG002
        """Return the training on one batch of placed inputs with labels; raises UnsupportedWorkload."""
        raise UnsupportedWorkload(f"{self.name} does not train.", field="mode")

    def timer(self) -> CallTimer | None:
        """Return what times calls where they are made; None where this process's clock does."""
        return None

    def preprocessing(self, checkpoint: Path | None, family: str | None, workload: Workload) -> Preprocessing | None:  # noqa: ARG002
        """Return what the work before the model takes here; None where it is done and timed in Python."""
        return None

    def stage_times(self) -> dict[str, float]:
        """Return times of stages in ms (`load_ms`, `compile_ms`, `first_run_ms`) that are told better than timed here."""
        return {}

    def threads_used(self) -> int | None:
        """Return the threads that do the work, where the platform counts them."""
        return None

    def processes(self) -> list[int]:
        """Return the ids of other processes that do the work."""
        return []

    def peak_memory_bytes(self) -> int | None:
        """Return the highest memory of those processes; None where this process does the work."""
        return None

    def synchronize(self) -> None:  # noqa: B027 - nothing to wait for is the common case
        """Wait until the device has finished; a no-op where `run` already did."""

    @abstractmethod
    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Return what `run` returned as (name, float32 numpy array) pairs, in the model's own order."""

    @abstractmethod
    def observe(self, inputs: Any) -> Observation:
        """Return what really did the work; may run the model once more."""

    def options(self) -> dict[str, Any]:
        """Return what else was set that changes the work: how weights were quantized, which compiler; after load."""
        return {}

    def device_memory_bytes(self) -> int | None:
        """Return the highest memory allocated on a device of its own; None where it has none or cannot tell."""
        return None

    def watcher(self, device: str | None) -> Watcher | Unread | None:  # noqa: ARG002
        """Return what shows the state of the accelerator at that address (None: the first), or why nothing does.

        None where the platform has no device of its own. Asked before `load`.
        """
        return None

    def device_key(self, device: str | None) -> str | None:  # noqa: ARG002
        """Return the name of the device at that address on which one runner at a time may measure; None for any number."""
        return None

    def mark(self) -> Any:
        """Return a mark in the device's queue of work, for `between_ms`; None where the device has no clock to ask."""
        return None

    def between_ms(self, start: Any, end: Any) -> float:
        """Return the time between two marks by the device's own clock, in ms; asked when the device has finished."""
        raise NotImplementedError(f"{self.name} makes no marks")

    def meter(self, device: str | None) -> Meter | Unread:  # noqa: ARG002
        """Return what shows the power of the device that does the work where it has no watcher, or why nothing does."""
        return host_meter()

    def allocator_bytes(self) -> dict[str, int]:
        """Return the highest `allocated_bytes` and `reserved_bytes` of a device allocator; empty without one."""
        return {}

    def close(self) -> None:  # noqa: B027
        """Let go of the device."""
