"""A service with the measurements that come with Assay, and `assay` as it is typed against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.cli import run

DATA = Path(__file__).resolve().parents[3] / "data" / "intel-xeon-2c-2026-11.ndjson.gz"


@pytest.fixture(scope="module")
def filled(service: Any) -> Any:
    """The shared service with the measurements that come with Assay."""
    assert run(["post", str(DATA), "--server", service.url]) == 0
    return service


@pytest.fixture
def typed(filled: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command in this process; returns what went to stdout and to stderr."""
    monkeypatch.setenv("ASSAY_SERVER", filled.url)
    capsys.readouterr()

    def type_(*words: str, code: int = 0) -> tuple[str, str]:
        ended = run(list(words))
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return said.out, said.err

    return type_
