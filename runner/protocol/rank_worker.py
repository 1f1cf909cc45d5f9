"""A rank beside the first one: `python -m runner.protocol.rank_worker` does what the first rank says.

It reads its task from standard input, and writes why it failed on its standard output.
"""

from __future__ import annotations

from typing import Any

import msgspec

from domain.errors import AssayError
from runner.machine.scrub import scrub
from runner.measure.prepared_case import alone, available, built_for, rank_inputs, set_threads
from runner.measure.workloads import Training, make_work, purpose_of
from runner.platforms.base import Generator, Settings
from runner.protocol.child import classify, connect
from runner.protocol.nodes import meet
from runner.protocol.rank_training import StepTimes, close_series
from runner.protocol.ranks import Word, address, device_type, gathered, report_of, said, unreachable
from runner.protocol.tasks import Failed, FollowingTask

__all__ = ["main"]


def main() -> int:
    """Follow until the first rank says its last word, 0, or ends this process; 1 where it failed by itself."""
    speaker, line = connect()
    task = msgspec.json.decode(line, type=FollowingTask)
    try:
        _Following(task).follow()
    except Exception as error:
        lost = unreachable(error, task.rank) if isinstance(error, RuntimeError) else None
        speaker.say(_failed(lost or error))
        return 1
    return 0


def _failed(error: Exception) -> Failed:
    outcome, remedy = classify(error)
    text = error.detail if isinstance(error, AssayError) else str(error)
    return Failed(
        stage="run",
        outcome=outcome,
        error=type(error).__name__.lstrip("_"),
        message=scrub(text or repr(error)),
        remedy=scrub(remedy) if remedy else None,
    )


class _Silent:
    """Announces no stages: the first rank does."""

    stage = "run"

    def reach(self, stage: str) -> None:
        """Take one."""

    def say(self, message: Any) -> None:
        """Take one."""


class _Following:
    def __init__(self, task: FollowingTask) -> None:
        case = task.case
        self._task = task
        self._threads = case.threads or 1
        self._platform = available(case)
        self._lock = alone(self._platform, address(self._platform, task.rank.local_index))
        set_threads(case)
        dtype = "float32" if task.verifying else self._platform.weights_dtype(case.precision)
        built, raw, _ = built_for(case, dtype, _Silent())
        settings = Settings(
            precision=case.precision,
            threads=self._threads,
            purpose=purpose_of(case.workload),
            dropout=not task.verifying,
            options=case.options,
            rank=task.rank,
        )
        meet(task.rank, device_type(self._platform))
        self._platform.load(built.module, settings)
        self._module = built.module
        self._inputs = self._platform.place(rank_inputs(raw, case, task.rank))
        self._steps = self._training() if settings.purpose == "training" else None

    def _training(self) -> StepTimes:
        """Return steps on this rank's part of the batch, made as often and in the order in which the first rank does."""
        platform, workload = self._platform, self._task.case.workload
        work = make_work(platform, self._inputs, workload)
        assert isinstance(work, Training)
        steps: Any = work.steps
        if self._task.verifying:
            from runner.measure.reference_outputs import TRAINING_RATES

            steps = platform.trainer(self._inputs, workload, TRAINING_RATES[workload.optimizer or "adamw"])
        return StepTimes(steps, platform.synchronize)

    def follow(self) -> None:
        """Do what is said, until the last word."""
        steps: Generator | None = None
        while True:
            word, amounts = said()
            match word:
                case Word.FORWARD:
                    self._platform.run(self._inputs)
                case Word.PREFILL:
                    steps = self._platform.generator(self._inputs, self._task.case.workload.output_tokens or 1)
                    steps.prefill()
                case Word.DECODE:
                    assert steps is not None
                    steps.decode()
                case Word.REPORT:
                    self._platform.synchronize()
                    gathered(report_of(self._platform, self._task.rank, self._threads))
                case Word.STEPS:
                    assert self._steps is not None
                    for _ in range(amounts[0]):
                        self._steps.step()
                case Word.CLOSE:
                    assert self._steps is not None
                    close_series(self._steps, self._platform, self._task.rank, self._threads, self._inputs, amounts)
                case Word.END:
                    return


if __name__ == "__main__":
    raise SystemExit(main())
