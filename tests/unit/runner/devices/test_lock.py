"""Two runners on one device, and a device that is looked at meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from domain.errors import TooBusy
from domain.performance.device_state import DeviceState
from runner.machine.devices.lock import take
from runner.machine.devices.watching import Watching
from runner.measure.power.meter import Meter, Unread
from runner.protocol.child import classify

HOLD = f"import sys; from pathlib import Path; from {take.__module__} import take; held = take(sys.argv[1], Path(sys.argv[2])); print('held', flush=True); input()"


def test_a_second_runner_is_refused_with_the_first_ones_process_and_may_when_that_has_died(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, "GPU-1/2", str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert first.stdout is not None and first.stdout.readline() == b"held\n"
    with pytest.raises(TooBusy) as refused:
        take("GPU-1/2", tmp_path)
    assert f"(process {first.pid})" in str(refused.value) and "--resume" in str(refused.value)
    assert classify(refused.value) == ("error", refused.value.remedy)
    take("GPU-2", tmp_path).close()
    first.kill()
    first.communicate()
    take("GPU-1/2", tmp_path).close()


def test_a_lock_that_was_let_go_can_be_taken_again(tmp_path: Path) -> None:
    take("GPU-1", tmp_path).close()
    take("GPU-1", tmp_path).close()


class Recorded:
    """A device whose states were recorded: it warms up, and then somebody else comes."""

    key = "GPU-1"
    part = "1g.10gb"

    def __init__(self) -> None:
        self._states = iter([DeviceState(clock_hz=1.9e9, others=0), DeviceState(clock_hz=1.2e9, others=0)])

    def state(self) -> DeviceState:
        return next(self._states, DeviceState(others=1))

    def meter(self) -> Meter | Unread:
        return Unread("recorded.")


def test_a_device_is_looked_at_before_during_and_after() -> None:
    device = Recorded()
    with Watching(device, before=device.state()) as watching:
        sleep(0.3)
    found = watching.conditions()
    assert found is not None and found.part == "1g.10gb"
    assert found.before == DeviceState(clock_hz=1.9e9, others=0)
    assert found.during is not None and found.during.clock_hz == 1.2e9
    assert found.after == DeviceState(others=1)


def test_no_device_has_no_conditions_and_one_that_cannot_be_read_says_why() -> None:
    with Watching(None) as none, Watching(Unread("no library.", "Install it.")) as unread:
        pass
    assert none.conditions() is None
    found = unread.conditions()
    assert found is not None and found.unread == "no library. Install it."
