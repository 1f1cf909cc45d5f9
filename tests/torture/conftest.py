"""Fixtures of the faults: how much of each, what was measured, and who has to be ended in any case."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[_FIGURES]:
        terminalreporter.section("what was done, and what happened")
        for line in config.stash[_FIGURES]:
            terminalreporter.line(line)


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes a line for the summary of the session: docs/faults.md is written from these."""
    return lambda line: request.config.stash[_FIGURES].append(f"{request.node.name}: {line}")


@pytest.fixture(autouse=True)
def as_long_as_it_takes(request: pytest.FixtureRequest) -> None:
    """What is long on purpose is not ended for being so; everything in it has a time limit of its own."""
    if request.node.get_closest_marker("torture"):
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session", autouse=True)
def without_settings() -> Iterator[None]:
    """Nothing that the user has set may reach a service that is about to be killed."""
    kept = {
        name: os.environ.pop(name) for name in list(os.environ) if name.startswith("ASSAY_") and "TORTURE" not in name
    }
    yield
    os.environ.update(kept)
