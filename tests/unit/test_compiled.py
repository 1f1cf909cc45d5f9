"""Test modules are compiled as pytest's import hook reads them, before the workers start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests import compiled


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Two modules of tests, one of them in a folder below."""
    paths = [tmp_path / "test_sums.py", tmp_path / "below" / "test_lists.py"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("def test_one():\n    assert [1, 2] == [1, 2]\n")
    return paths


def test_module_is_written_as_it_would_be_imported(paths: list[Path], pytestconfig: pytest.Config) -> None:
    compiled.write(pytestconfig, paths)
    for path in paths:
        assert rewrite._read_pyc(path, compiled.written(path)) == rewrite._rewrite_test(path, pytestconfig)[1]
    paths[0].write_text("def test_one():\n    assert not 1\n")
    assert rewrite._read_pyc(paths[0], compiled.written(paths[0])) is None


def test_process_that_starts_workers_writes_all_modules_below_the_folders(paths: list[Path], tmp_path: Path) -> None:
    shutil.copy(compiled.__file__, tmp_path)
    # The worker does not import what is ignored.
    words = ["-p", "xdist", "-p", "compiled", "-p", "no:cacheprovider", "-n", "1", "--ignore", "below", "-q", "."]
    variables = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": ""}
    run = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=tmp_path, env=variables, stdout=subprocess.PIPE)
    assert b"1 passed" in run.stdout and run.returncode == 0
    assert all(rewrite._read_pyc(path, compiled.written(path)) for path in paths)
