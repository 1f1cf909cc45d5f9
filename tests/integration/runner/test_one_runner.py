"""One runner at a time on one device."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.configuration import Workload
from domain.errors import TooBusy
from runner.campaign.execution import measure_case
from runner.machine.devices.lock import take
from runner.measure.stopping import Method
from runner.protocol.tasks import Case, Measure


class Stages:
    def reach(self, stage: str) -> None:
        """Announce nothing."""


def test_a_second_runner_on_one_device_is_refused_and_may_when_the_first_has_gone(
    plugin: Path, converted: Path
) -> None:
    one = Case(model="example/doubling", platform="exclusive", precision="fp32", workload=Workload(mode="inference"))
    task = Measure(case=one, method=Method(iterations=10, budget_s=0.2), folder=str(converted))
    first = take("example-exclusive")
    with pytest.raises(TooBusy) as refused:
        measure_case(task, Stages())
    first.close()
    assert refused.value.field == "device" and "--resume" in str(refused.value)
    assert len(measure_case(task, Stages())["series"]["samples_ms"]) == 10
