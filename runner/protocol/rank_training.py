"""Training steps on ranks: led by the first, done by all, each with its times; and what is measured after the series.

The first rank announces several steps at once, a quarter of a second of them at most, so that its word takes no time
of most steps. After the series every rank does the same in the same order: it says what it holds, sees once what does
the work, makes the same steps without communication, and adds up buffers of the gradients' size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import Any

import msgspec

from runner.platforms.base import Observation, Platform, Rank
from runner.platforms.data_parallel import RankTraining, all_reduce_ms
from runner.protocol.ranks import GRACE_S, Word, address, device_type, gathered, report_of, say, unreachable
from runner.protocol.tasks import Communication, RankReport

__all__ = ["Closing", "LeadingSteps", "StepTimes", "close_series"]

_ANNOUNCED_S = 0.25
_MOST_ANNOUNCED = 64
_LOCAL_S = 1.0
_LEAST_LOCAL, _MOST_LOCAL = 5, 50


class StepTimes:
    """Steps of one rank, each with the time of its passes, of the whole step, and of its process on processors, in s."""

    def __init__(self, steps: RankTraining, synchronize: Callable[[], None]) -> None:
        self.steps = steps
        self._synchronize = synchronize
        self._began = self._on_processor = 0.0
        self._passes: list[float] = []
        self._whole: list[float] = []
        self._busy: list[float] = []

    def step(self) -> None:
        """Make one step."""
        self.forward()
        self.backward()
        self.update()

    def forward(self) -> float | None:
        """Compute outputs and loss; return when the loss began."""
        self._began, self._on_processor = perf_counter(), process_time()
        return self.steps.forward()

    def backward(self) -> None:
        """Compute gradients, and wait for those of the other ranks."""
        self.steps.backward()
        self._synchronize()
        self._passes.append(perf_counter() - self._began)

    def update(self) -> None:
        """Let the optimizer step."""
        self.steps.update()
        self._synchronize()
        self._whole.append(perf_counter() - self._began)
        self._busy.append(process_time() - self._on_processor)

    def passes_ms(self, samples: int, skipped: int) -> float:
        """Return the median time of the passes of so many steps, of which so many later ones do not count."""
        return median(_last(self._passes, samples, skipped)) * 1e3

    def core_share(self, samples: int, skipped: int) -> float:
        """Return the time on processors over the wall time of those steps."""
        return sum(_last(self._busy, samples, skipped)) / sum(_last(self._whole, samples, skipped))


def _last(values: list[float], samples: int, skipped: int) -> list[float]:
    end = len(values) - skipped
    return values[max(0, end - samples) : end]


class LeadingSteps(StepTimes):
    """Steps of the first rank, each of which the others make too."""

    def __init__(self, steps: RankTraining, synchronize: Callable[[], None], rank: Rank) -> None:
        super().__init__(steps, synchronize)
        self._rank = rank
        self._left = 0
        self._announced_at: float | None = None
        self._announced = 0

    def forward(self) -> float | None:
        """Compute outputs and loss after a word to the others where they have no step left."""
        began: float | None = self._led(self._forward)
        return began

    def _forward(self) -> float | None:
        if not self._left:
            self._left = self._announced = self._next_announced()
            self._announced_at = perf_counter()
            say(Word.STEPS, self._left)
        self._left -= 1
        return super().forward()

    def _next_announced(self) -> int:
        if self._announced_at is None:
            return 1
        took_s = (perf_counter() - self._announced_at) / self._announced
        return min(max(1, int(_ANNOUNCED_S / took_s)), 2 * self._announced, _MOST_ANNOUNCED)

    def backward(self) -> None:
        """Compute gradients."""
        self._led(super().backward)

    def update(self) -> None:
        """Let the optimizer step."""
        self._led(super().update)

    def loss(self) -> float:
        """Return the last loss, the mean over the ranks where it is averaged."""
        return self.steps.loss()

    def gradients_finite(self) -> bool:
        """Return whether every gradient that this rank holds is finite."""
        return self.steps.gradients_finite()

    def finish(self) -> int:
        """Make the steps that the others were told of and still wait for; return their number."""
        left = self._left
        for _ in range(left):
            self.step()
        return left

    def _led(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except RuntimeError as error:
            # Where a rank died this process is ended before it can tell the lesser half of it.
            time.sleep(GRACE_S)
            raise unreachable(error, self._rank) or error from error

    def close(self, platform: Platform, threads: int, inputs: Any, samples: int | None) -> Closing:
        """Let all ranks do what comes after so many sampled steps (None: all), and return what it gave."""
        samples = samples or len(self._whole)
        skipped = self.finish()
        step_s = sum(_last(self._whole, samples, skipped)) / samples
        local = min(max(_LEAST_LOCAL, int(_LOCAL_S / step_s)), _MOST_LOCAL)
        say(Word.CLOSE, samples, skipped, local)
        return close_series(self, platform, self._rank, threads, inputs, (samples, skipped, local))


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the end of a series: the ranks' reports, what did the work, and what communication took."""

    reports: list[RankReport]
    observed: Observation
    communication: Communication


def close_series(
    times: StepTimes, platform: Platform, rank: Rank, threads: int, inputs: Any, amounts: tuple[int, int, int]
) -> Closing:
    """Do what every rank does after the series, in step with the others: `amounts` are the sampled steps, those after them, and the local ones.

    Exposed communication is the median of forward and backward pass in the sampled steps less that of the same passes
    without communication, on all ranks at once.
    """
    samples, skipped, local = amounts
    report = report_of(platform, rank, threads)
    observed = platform.observe(inputs)
    sizes = times.steps.gradient_bytes()
    began, on_processor = perf_counter(), process_time()
    local_ms = times.steps.local_ms(local)
    computing = (process_time() - on_processor) / (perf_counter() - began)
    exposed = max(0.0, times.passes_ms(samples, skipped) - local_ms)
    bare = all_reduce_ms(sizes, address(platform, rank.local_index), local, platform.synchronize)
    report = msgspec.structs.replace(
        report,
        core_share=round(times.core_share(samples, skipped), 4),
        computing_core_share=round(computing, 4),
        exposed_communication_ms=round(exposed, 6),
    )
    communication = Communication(
        exposed_ms=round(exposed, 6),
        all_reduce_ms=round(bare, 6),
        gradient_bytes=sum(sizes),
        buffers=len(sizes),
        backend="gloo" if device_type(platform) == "cpu" else "nccl",
        steps=local,
    )
    return Closing(reports=gathered(report), observed=observed, communication=communication)
