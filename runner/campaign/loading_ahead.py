"""Children that load code two at a time, before either of them measures.

Importing torch and a model's code takes seconds in each child, on one processor. So the child of the next case that
builds its model does it at the same time, and then waits for its task. A task is sent when neither loads any more:
nothing runs beside a measurement, and who waits takes no time of a processor. Each case still has a process of its own,
which imports the same code in the same order, so that its memory is what it is without.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from time import monotonic
from typing import TypeGuard

from runner.machine.headroom import NotEnoughMemory, available_bytes
from runner.measure.workloads import purpose_of
from runner.platforms.execution_options import RANK_OPTIONS
from runner.platforms.registry import built_in
from runner.protocol.parent import Child, Ended
from runner.protocol.tasks import Case, Convert, Failed, Measure, Task, Verify

__all__ = ["LoadingAhead", "code_of"]

_ROOM_BYTES = 8_000_000_000
"""Memory that has to be free for one child to wait beside another."""


def code_of(case: Case) -> Hashable:
    """Return what decides which code a case's child loads, and how; None where it loads none before its task.

    A platform of another package may have to be created before torch is imported, and ranks start children of their own.
    """
    options = {word.partition("=")[0] for word in case.options}
    if case.nodes or not built_in(case.platform) or not options.isdisjoint(RANK_OPTIONS):
        return None
    allowed = (case.trust_remote_code, case.allow_pickle)
    return (case.model, case.weights, case.threads, case.workload.image_size, purpose_of(case.workload), allowed)


class LoadingAhead:
    """The child that waits, if any; `timeout_s` bounds the loading of two."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waiting: tuple[Hashable, Child] | None = None

    def run(self, task: Task, rest: Iterable[Case], run: Callable[[Child | None], Ended]) -> Ended:
        """Call `run` with a child for the task, None for one that has loaded nothing, and return how it ended.

        `rest` are the cases after the task's own whose children build their models. Where memory did not suffice beside
        the child that waits, the task is run again alone.
        """
        child = self._child(task.case, rest) if _builds(task) else None
        ended = run(child)
        if self._waiting and ended.failure and _lacked_memory(ended.failure):
            self.close()
            return run(None)
        return ended

    def _child(self, case: Case, rest: Iterable[Case]) -> Child | None:
        code = code_of(case)
        waiting, self._waiting = self._waiting, None
        if waiting:
            waiting_code, child = waiting
            if waiting_code == code and child.process.poll() is None:
                return child
            # Another model's code would count in the memory of this one.
            child.close()
        if code is None or available_bytes() < _ROOM_BYTES:
            return None
        following = next((each for each in rest if code_of(each) is not None), None)
        return None if following is None else self._first_of_two(case, following)

    def _first_of_two(self, case: Case, following: Case) -> Child | None:
        first, second = Child(case), Child(following)
        deadline = monotonic() + self._timeout_s
        try:
            if first.loaded(deadline) and second.loaded(deadline):
                self._waiting = code_of(following), second
                return first
        finally:
            if self._waiting is None:
                first.close()
                second.close()
        return None

    def close(self) -> None:
        """End the child that waits."""
        if self._waiting:
            self._waiting[1].close()
        self._waiting = None


def _builds(task: Task) -> TypeGuard[Convert | Measure | Verify]:
    """Whether a task builds its case's model, and does not read a converted one."""
    return isinstance(task, Convert) or (isinstance(task, Measure | Verify) and task.folder is None)


def _lacked_memory(failure: Failed) -> bool:
    return failure.outcome == "out_of_memory" or failure.error == NotEnoughMemory.__name__
