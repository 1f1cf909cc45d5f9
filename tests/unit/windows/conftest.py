"""Programs run in an interpreter that has Windows' semantics, as far as Assay's modules see: see semantics/sitecustomize.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SEMANTICS = Path(__file__).parent / "semantics"
PROGRAMS = Path(__file__).parent / "programs"

Run = Callable[..., subprocess.CompletedProcess[str]]


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    path = os.pathsep.join(filter(None, (str(SEMANTICS), os.environ.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, "ASSAY_HOME": str(home)}


@pytest.fixture
def windows(tmp_path: Path) -> Run:
    """Runs Python with these words; returns how it ended."""

    def run(*words: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [sys.executable, *words],
            env={**environment(tmp_path / "home"), **more},
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        return ended

    return run
