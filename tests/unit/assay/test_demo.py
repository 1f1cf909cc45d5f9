"""What the demo does beside its service's start."""

from __future__ import annotations

import threading

import pytest

from assay.cli.serve.demo import _aside
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
