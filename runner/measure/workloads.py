"""What one measured call does, apart from where it runs: a forward pass, a generation, or a training step.

A workload is called like a function; the times of its parts are kept call by call, so that the parts of the calls
that were measured are distinguished from those that warmed up.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from time import perf_counter
from typing import Any, Literal, Protocol

from domain.configuration import Workload
from runner.platforms.base import Generator, Platform, Trainer

__all__ = ["Forward", "Generation", "Purpose", "Training", "Work", "make_work", "purpose_of"]

Purpose = Literal["inference", "generation", "training"]
LEARNING_RATES = {"adamw": 1e-5, "adamw-8bit": 1e-5, "sgd": 1e-4}
"""Small, so that thousands of steps on one batch stay finite; the time of a step does not depend on it."""


def purpose_of(workload: Workload) -> Purpose:
    """Return which kind of work a workload is; with `output_tokens` inference is generation."""
    if workload.mode == "training":
        return "training"
    return "generation" if workload.output_tokens else "inference"


class Work(Protocol):
    """One call, its parts in ms, and what else it shows."""

    def __call__(self) -> Any:
        """Do the work once; the device has finished when a call with parts returns."""

    def parts(self, calls: int) -> dict[str, list[list[float]]]:
        """Return, for each part, the times in ms within each of the last so many calls."""

    def facts(self) -> dict[str, Any]:
        """Return metrics that are no times, by their names."""


class Forward:
    """One forward pass; a call may return before the device has finished."""

    def __init__(self, platform: Platform, inputs: Any) -> None:
        self._platform = platform
        self._inputs = inputs
        self._marks: list[tuple[Any, Any]] = []

    def __call__(self) -> Any:
        """Return the outputs."""
        start = self._platform.mark()
        result = self._platform.run(self._inputs)
        if start is not None:
            self._marks.append((start, self._platform.mark()))
        return result

    def parts(self, calls: int) -> dict[str, list[list[float]]]:
        """Return `device_time_ms`, one a call, where the device has a clock of its own; a forward pass is one piece."""
        if not self._marks:
            return {}
        return {"device_time_ms": [[self._platform.between_ms(*pair)] for pair in self._marks[-calls:]]}

    def facts(self) -> dict[str, Any]:
        """Return none."""
        return {}


class Generation:
    """A prompt read and `output_tokens` tokens chosen greedily, one after the other, each waited for."""

    def __init__(self, steps: Generator, synchronize: Callable[[], None], output_tokens: int) -> None:
        self.steps = steps
        self._synchronize = synchronize
        self._output_tokens = output_tokens
        self._firsts: list[float] = []
        self._later: list[list[float]] = []

    def __call__(self) -> None:
        """Generate once."""
        marks = [perf_counter()]
        self.steps.prefill()
        self._synchronize()
        marks.append(perf_counter())
        for _ in range(self._output_tokens - 1):
            self.steps.decode()
            self._synchronize()
            marks.append(perf_counter())
        times = [(end - start) * 1e3 for start, end in pairwise(marks)]
        self._firsts.append(times[0])
        self._later.append(times[1:])

    def parts(self, calls: int) -> dict[str, list[list[float]]]:
        """Return `ttft_ms`, one a call, and `token_ms`, one for each token after the first."""
        laters = {"ttft_ms": [[first] for first in self._firsts[-calls:]]}
        if self._output_tokens > 1:
            laters["token_ms"] = self._later[-calls:]
        return laters

    def facts(self) -> dict[str, Any]:
        """Return the bytes of keys and values at the end of the last call."""
        return {"kv_cache_bytes": self.steps.cache_bytes()}


class Training:
    """One training step on one batch: forward, loss, backward and the optimizer's step, each waited for."""

    def __init__(self, steps: Trainer, synchronize: Callable[[], None]) -> None:
        self.steps = steps
        self._synchronize = synchronize
        self._calls: list[dict[str, float]] = []

    def __call__(self) -> None:
        """Train one step."""
        began = perf_counter()
        outputs_there = self.steps.forward()
        self._synchronize()
        forward = perf_counter()
        self.steps.backward()
        self._synchronize()
        backward = perf_counter()
        self.steps.update()
        self._synchronize()
        updated = perf_counter()
        times = {"backward_ms": backward - forward, "optimizer_ms": updated - backward}
        if outputs_there is None:
            times["forward_ms"] = forward - began
        else:
            times |= {"forward_ms": outputs_there - began, "loss_ms": forward - outputs_there}
        self._calls.append({name: seconds * 1e3 for name, seconds in times.items()})

    def parts(self, calls: int) -> dict[str, list[list[float]]]:
        """Return `forward_ms`, `loss_ms` where it could be separated, `backward_ms` and `optimizer_ms`."""
        names = ("forward_ms", "loss_ms", "backward_ms", "optimizer_ms")
        last = self._calls[-calls:]
        return {name: [[each[name]] for each in last] for name in names if all(name in each for each in last)}

    def facts(self) -> dict[str, Any]:
        """Return none."""
        return {}


def make_work(platform: Platform, inputs: Any, workload: Workload) -> Forward | Generation | Training:
    """Return the work that a workload asks for on placed inputs; raises UnsupportedWorkload."""
    purpose = purpose_of(workload)
    if purpose == "training":
        rate = LEARNING_RATES[workload.optimizer or "adamw"]
        return Training(platform.trainer(inputs, workload, rate), platform.synchronize)
    if purpose == "generation":
        assert workload.output_tokens is not None
        steps = platform.generator(inputs, workload.output_tokens)
        return Generation(steps, platform.synchronize, workload.output_tokens)
    return Forward(platform, inputs)
