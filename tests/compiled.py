"""Write the byte code of test modules, with the assertions that pytest rewrites, once for all workers.

A plugin of pytest. Each worker imports every test module; in a fresh clone it would also rewrite every one, which takes as
long as importing them.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import assertstate_key, rewrite


def pytest_sessionstart(session: pytest.Session) -> None:
    """Write what is missing before the workers start, with all processors."""
    config = session.config
    starts_workers = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if not starts_workers or sys.dont_write_bytecode or "fork" not in multiprocessing.get_all_start_methods():
        return
    paths = [path for path in modules(config) if rewrite._read_pyc(path, written(path)) is None]
    share = os.cpu_count() or 1
    forked = multiprocessing.get_context("fork")
    children = [forked.Process(target=write, args=(config, paths[number::share])) for number in range(share)]
    for child in children:
        child.start()
    for child in children:
        child.join()


def modules(config: pytest.Config) -> list[Path]:
    """Return the paths of the modules in the folders of the command line whose assertions pytest rewrites."""
    patterns = [*config.getini("python_files"), "conftest.py"]
    folders = [Path(word).resolve() for word in config.args if Path(word).is_dir()]
    return [path for folder in folders for pattern in patterns for path in folder.rglob(pattern)]


def write(config: pytest.Config, paths: Sequence[Path]) -> None:
    """Write the byte code of modules where pytest's import hook looks for it."""
    for path in paths:
        rewrite.try_makedirs(written(path).parent)
        digest, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[assertstate_key], code, digest, written(path))


def written(path: Path) -> Path:
    return rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
