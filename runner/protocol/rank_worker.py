"""A rank beside the first one of a split model: `python -m runner.protocol.rank_worker` does what the first rank says.

It reads its task from standard input and writes what it took, or why it failed, on its standard output.
"""

from __future__ import annotations

from typing import Any

import msgspec

from domain.errors import AssayError
from runner.machine.scrub import scrub
from runner.measure.prepared_case import alone, available, built_for, set_threads
from runner.measure.workloads import purpose_of
from runner.platforms.base import Generator, Settings
from runner.platforms.splitting import meet
from runner.protocol.child import Speaker, classify, connect
from runner.protocol.ranks import Word, address, device_type, report_of, said
from runner.protocol.tasks import Failed, FollowingTask

__all__ = ["main"]


def main() -> int:
    """Follow until the first rank ends this process; 1 where it failed by itself."""
    speaker, line = connect()
    task = msgspec.json.decode(line, type=FollowingTask)
    try:
        _Following(task).follow(speaker)
    except Exception as error:
        outcome, remedy = classify(error)
        text = error.detail if isinstance(error, AssayError) else str(error)
        speaker.say(
            Failed(
                stage="run",
                outcome=outcome,
                error=type(error).__name__.lstrip("_"),
                message=scrub(text or repr(error)),
                remedy=scrub(remedy) if remedy else None,
            )
        )
    return 1


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
        self._platform = available(case)
        self._lock = alone(self._platform, address(self._platform, task.rank.index))
        set_threads(case)
        dtype = "float32" if task.verifying else self._platform.weights_dtype(case.precision)
        built, raw, _ = built_for(case, dtype, _Silent())
        settings = Settings(
            precision=case.precision,
            threads=case.threads or 1,
            purpose=purpose_of(case.workload),
            options=case.options,
            rank=task.rank,
        )
        meet(task.rank, device_type(self._platform))
        self._platform.load(built.module, settings)
        self._module = built.module
        self._inputs = self._platform.place(raw)

    def follow(self, speaker: Speaker) -> None:
        """Do what is said, for ever."""
        steps: Generator | None = None
        while True:
            match said():
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
                    speaker.say(report_of(self._platform, self._task.rank.index, self._task.case.threads or 1))


if __name__ == "__main__":
    raise SystemExit(main())
