"""What the demo does beside its service's start."""

from __future__ import annotations

import threading

import pytest

from assay.cli.serve.demo import BATCHES, MEASURED, MODELS, PLATFORMS, PRECISIONS, _aside, _plan
from domain.errors import PlatformUnavailable


def test_work_goes_on_beside_and_its_result_is_waited_for() -> None:
    release = threading.Event()
    future = _aside(lambda: release.wait(30))
    assert not future.done()
    release.set()
    assert future.result(30)


def test_error_of_the_work_is_raised_where_its_result_is_needed() -> None:
    def fail() -> None:
        raise PlatformUnavailable("none of the platforms asked for is available here.")

    with pytest.raises(PlatformUnavailable, match="none of the platforms"):
        _aside(fail).result(30)


def test_each_model_is_measured_on_each_platform_in_each_precision_and_one_at_each_batch() -> None:
    cases = [(case.model, case.platform, case.precision, case.workload.batch_size) for case in _plan(1.0).cases]
    assert len(cases) == len(set(cases)) == 16
    assert {case[:3] for case in cases} == {(m, p, q) for m in MODELS for p in PLATFORMS for q in PRECISIONS}
    assert {batch for model, *_, batch in cases if model == MEASURED} == set(BATCHES)
    assert {batch for model, *_, batch in cases if model != MEASURED} == {1}
    assert _plan(1.0).method.budget_s == 1.0
