"""A command of `assay` in the process of the tests, whose children that measure begin with their imports done."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from assay.cli import run


def run_here(environment: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command with these variables alone; return its exit status and what it wrote."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with mock.patch.dict(os.environ, environment, clear=True), redirect_stdout(out), redirect_stderr(err):
        status = run(list(words))
    said = []
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
        said.append(stream.read())
    return subprocess.CompletedProcess(words, status, *said)
