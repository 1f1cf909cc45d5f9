"""The contract's tests pass for platforms that keep it, built-in or of another package, and fail for those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.contract import PlatformContract


@pytest.mark.torture
class TestCpu(PlatformContract):
    name = "cpu"


@pytest.mark.torture
class TestOpenVino(PlatformContract):
    name = "openvino"


class TestOnnxRuntime(PlatformContract):
    name = "onnxruntime"


@pytest.mark.torture
class TestOnnxRuntimeInt8(PlatformContract):
    name, precision = "onnxruntime", "int8"


@pytest.mark.usefixtures("plugin")
class TestAnotherPackage(PlatformContract):
    name = "exported"


class Corrupting(PlatformContract):
    name = "corrupting"


class Pretending(PlatformContract):
    name = "pretending"


class Unregistered(PlatformContract):
    name = "nowhere"


def test_wrong_outputs_break_it(plugin: Path) -> None:
    Corrupting().test_its_probe_says_what_it_saw_or_what_is_missing()
    with pytest.raises(AssertionError, match=r"cosine|relative"):
        Corrupting().test_its_outputs_are_those_of_the_reference()


def test_work_done_elsewhere_breaks_it(plugin: Path) -> None:
    with pytest.raises(AssertionError, match=r"did the work|fell back"):
        Pretending().test_what_it_observes_is_what_was_asked_for()


def test_a_name_without_an_entry_point_breaks_it() -> None:
    with pytest.raises(AssertionError, match="nowhere"):
        Unregistered().test_it_is_registered_under_its_own_name()


def test_calls_that_return_early_break_it(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    from runner.platforms.torch_eager import Cpu

    late = Cpu.outputs

    def outputs(self: Cpu, result: object) -> object:
        time.sleep(2.0)
        return late(self, result)

    monkeypatch.setattr(Cpu, "outputs", outputs)
    with pytest.raises(AssertionError, match="before the device has finished"):
        TestCpu().test_synchronize_waits_until_the_work_is_done()
