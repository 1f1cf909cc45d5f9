"""Cases run in this process or in children, for tests of the kinds of work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from domain.configuration import Workload
from runner.campaign.execution import measure_case, verify_case
from runner.measure.stopping import Method
from runner.protocol.parent import run_task
from runner.protocol.tasks import Case, Convert, Measure, Message, Verify

METHOD = Method(iterations=5, budget_s=0.2)


class Stages:
    """Keeps the stages that were announced."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    @property
    def stage(self) -> str:
        return self.reached[-1]

    def reach(self, stage: str) -> None:
        self.reached.append(stage)

    def say(self, message: Message) -> None:
        raise AssertionError(message)


def case(model: str, platform: str = "cpu", precision: str = "fp32", **options: Any) -> Case:
    """A case of one model with random weights on one thread; other options are sizes of the workload."""
    how = {name: options.pop(name) for name in ("compiled", "options") if name in options}
    workload = Workload(**{"mode": "inference", "batch_size": 2, **options})
    return Case(
        model=model, platform=platform, precision=precision, workload=workload, weights="random", threads=1, **how
    )


def converted(of: Case, folder: Path) -> str:
    """Convert in a child: what converts warns of what will be gone one day, and keeps what it recorded."""
    ended = run_task(Convert(case=of, folder=str(folder)), timeout_s=300)
    assert ended.failure is None, ended.failure
    return str(folder)


def verified(of: Case, folder: str | None = None) -> dict[str, Any]:
    return verify_case(Verify(case=of, folder=folder), Stages())


def measured(of: Case, folder: str | None = None) -> dict[str, Any]:
    return measure_case(Measure(case=of, method=METHOD, folder=folder), Stages())


def failed(result: dict[str, Any]) -> list[tuple[str, str]]:
    """The checks that did not pass, with their reasons."""
    return [(each["name"], each["why"]) for each in result["outputs"] if not each["passed"]]
