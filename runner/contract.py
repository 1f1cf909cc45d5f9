"""The tests that a platform of another package can run on itself.

    from runner.contract import PlatformContract

    class TestMine(PlatformContract):
        name = "mine"

Run it with pytest on a machine that has the device. Every test calls the platform as the runner does, with a model built
from a config, so that what passes here is measured and verified like the built-in ones. Without the device the
probe is tested, and the other tests say that they need it.
"""

from __future__ import annotations

import tempfile
from functools import cache
from time import perf_counter
from typing import Any, ClassVar

import msgspec

from domain.configuration import Workload
from domain.errors import UnsupportedPrecision, UnsupportedWorkload
from domain.verdicts import FALLBACK_SUSPECT
from domain.vocabulary import PRECISIONS
from runner.measure.prepared_case import Ready
from runner.measure.stopping import Method
from runner.platforms.base import Platform
from runner.platforms.registry import create, names, word
from runner.protocol.parent import Ended, run_task
from runner.protocol.tasks import Case, Convert, Measure, Message, Verify

__all__ = ["PlatformContract"]

_METHOD = Method(iterations=10, budget_s=2.0)
_OTHERS = ("generation", "training")
_CALLS = 50


class PlatformContract:
    """What every platform promises. `name` is its entry point; the other members choose what is run on it."""

    name: ClassVar[str]
    model: ClassVar[str] = "bert-tiny"
    precision: ClassVar[str] = "fp32"
    device: ClassVar[str | None] = None
    timeout_s: ClassVar[float] = 600.0

    def _platform(self) -> Platform:
        return create(self.name)

    def _needed(self) -> Platform:
        """Return the platform where it is available; elsewhere the test is skipped, and says what is missing."""
        import pytest

        platform = self._platform()
        probe = platform.probe()
        if not probe.available:
            pytest.skip(f"needs {self.name}: {probe.reason}")
        return platform

    def _case(self) -> Case:
        return Case(
            model=self.model,
            platform=self.name,
            precision=self.precision,
            weights="random",
            threads=1,
            workload=Workload(mode="inference", batch_size=2),
            device=self.device,
        )

    def _folder(self) -> str | None:
        """Return where the converted model lies; None where the platform takes torch's modules as they are."""
        if not create(self.name).converts:
            return None
        folder, ended = _converted(self._case(), self.timeout_s)
        _result(ended)
        return folder.name

    def _measured(self) -> Ended:
        return _measured(self._case(), self._folder(), self.timeout_s)

    def test_it_is_registered_under_its_own_name(self) -> None:
        """An entry point of `assay.platforms` leads to a platform that is called the same."""
        assert self.name in names(), f"no entry point of assay.platforms is called {self.name}"
        assert self._platform().name == self.name

    def test_its_probe_says_what_it_saw_or_what_is_missing(self) -> None:
        """A yes names devices and evidence, a no gives a reason and a remedy; asked twice it says the same."""
        first, second = self._platform().probe(), self._platform().probe()
        assert first.available == second.available
        if first.available:
            assert first.devices, "an available platform names its devices"
            assert first.evidence, "evidence says what was tried and seen"
        else:
            assert first.reason, "a no says why"
            assert first.remedy, "a no says what to do"

    def test_its_runtime_has_a_name_and_a_version(self) -> None:
        """Rows of two versions are two configurations."""
        runtime = self._needed().runtime()
        assert runtime.name
        assert runtime.version

    def test_it_offers_known_precisions_and_refuses_others(self) -> None:
        """Precisions are words of the vocabulary; one that is not offered is refused by name, with a remedy."""
        import pytest

        platform = self._needed()
        offered = platform.precisions()
        assert offered, "no precision is offered"
        assert set(offered) <= set(PRECISIONS), f"unknown: {sorted(set(offered) - set(PRECISIONS))}"
        with pytest.raises(UnsupportedPrecision) as refused:
            platform.check("inference", "not-a-precision")
        assert refused.value.field == "precision"
        assert refused.value.remedy

    def test_it_does_a_kind_of_work_or_refuses_it(self) -> None:
        """Inference is done; generation and training are done or refused with UnsupportedWorkload, never half."""
        platform = self._needed()
        platform.check("inference", self.precision)
        for purpose in _OTHERS:
            assert _done_or_refused(platform, purpose, self.precision), (
                f"{purpose} is refused without saying what to do"
            )

    def test_its_outputs_are_those_of_the_reference(self) -> None:
        """Every output of the fp32 reference is there and within the tolerance of the precision, twice the same."""
        self._needed()
        task = Verify(case=self._case(), folder=self._folder())
        result = _result(run_task(task, timeout_s=self.timeout_s))
        assert result["missing"] == [], f"missing outputs: {result['missing']}"
        wrong = [f"{output['name']}: {output['why']}" for output in result["outputs"] if not output["passed"]]
        assert result["outputs"], "no output was compared"
        assert not wrong, "; ".join(wrong)
        assert result["deterministic"], "the same inputs gave other outputs"

    def test_what_it_observes_is_what_was_asked_for(self) -> None:
        """The device, platform and precision that did the work are named, and (nearly) nothing fell back."""
        self._needed()
        seen = _result(self._measured())["observed"]
        assert seen["device"], "no device is named"
        assert seen["platform"] == word(self.name), f"{seen['platform']} did the work"
        assert seen["precision"] == self.precision, f"it was done in {seen['precision']}"
        assert 0.0 <= seen["fallback_share"] <= FALLBACK_SUSPECT, f"{seen['fallback_share']:.0%} fell back"

    def test_it_is_measured_stage_by_stage(self) -> None:
        """Stages come in order, times are positive, and no call is counted before its work is done."""
        self._needed()
        ended = self._measured()
        result = _result(ended)
        stages = ("resolve", "load", "compile", "first_run", "run")
        assert tuple(stage for stage in ended.stages if stage in stages) == stages
        samples = result["series"]["samples_ms"]
        assert samples, "nothing was sampled"
        assert min(samples) > 0
        assert result["peak_memory_bytes"] > 0

    def test_synchronize_waits_until_the_work_is_done(self) -> None:
        """After many calls and `synchronize` the outputs are there at once; a clock read then counts all of the work."""
        self._needed()
        folder = self._folder()
        ready = Ready(self._case(), folder, _Silent(), verifying=False)
        running, inputs = ready.platform, ready.inputs
        begun = perf_counter()
        for _ in range(_CALLS):
            result = running.run(inputs)
        running.synchronize()
        done = perf_counter()
        running.outputs(result)
        fetched = perf_counter() - done
        running.close()
        waited = fetched / (fetched + done - begun)
        assert waited < 0.25, (
            f"outputs came {waited:.0%} of the time later: calls return before the device has finished"
        )


class _Silent:
    """Takes the announcements of stages."""

    stage = "resolve"

    def reach(self, stage: str) -> None:
        """Take one."""

    def say(self, message: Message) -> None:
        """Take one."""


@cache
def _converted(case: Case, timeout_s: float) -> tuple[tempfile.TemporaryDirectory[str], Ended]:
    """Convert once for all tests; the folder lives as long as they do."""
    folder = tempfile.TemporaryDirectory()
    return folder, run_task(Convert(case=case, folder=folder.name), timeout_s=timeout_s)


@cache
def _measured(case: Case, folder: str | None, timeout_s: float) -> Ended:
    """Measure in a child, as the runner does, once for all tests."""
    return run_task(Measure(case=case, method=_METHOD, folder=folder), timeout_s=timeout_s)


def _done_or_refused(platform: Platform, purpose: str, precision: str) -> bool:
    try:
        platform.check(purpose, precision)
    except (UnsupportedWorkload, UnsupportedPrecision) as refused:
        return bool(refused.remedy)
    return True


def _result(ended: Ended) -> dict[str, Any]:
    assert ended.failure is None, f"failed at {ended.failure.stage}: {ended.failure.message}"
    document: dict[str, Any] = msgspec.to_builtins(ended.result)
    return document
