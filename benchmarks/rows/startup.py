"""What every command costs before it works: the start of `assay`, against Python that starts and imports argparse."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from benchmarks.bench import Bench
from benchmarks.lines import Limit, Line, growth, interleaved
from benchmarks.serving import ROOT

__all__ = ["startup"]

REPEATS = 10
VERBS = ("recommend", "predict", "fit", "compare", "bench", "detect", "import", "query", "status", "train")
"""The verbs that people use most."""
REFUSED = ("bench", "no-such-model")
PEER = ("-c", "import argparse")


def startup(bench: Bench) -> Iterator[Line]:
    """Processor time of a process from its start to its end, user and system, beside that of the peer in turns."""
    # Modules are compiled once, as an installation does: the first call of each command writes what is missing.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"ASSAY_HOME": str(bench.folder()), "PYTHONPATH": str(ROOT)}
    for words, code, limit in (
        (("--help",), 0, Limit(bar=15, reach=10, most=True)),
        *(((verb, "--help"), 0, None) for verb in VERBS),
        (REFUSED, 2, None),
    ):
        command = ("-P", "-m", "assay.cli", *words)
        _processor_ms(command, environment, code)
        ours, peer = interleaved(
            REPEATS,
            lambda command=command, code=code: _processor_ms(command, environment, code),
            lambda: _processor_ms(PEER, environment),
        )
        yield growth(f"assay {' '.join(words)}: processor time", "ms", ours, peer, "python -c 'import argparse'", limit)


def _processor_ms(words: Sequence[str], environment: dict[str, str], code: int = 0) -> float:
    """Return the processor time in ms of a Python with these words. Raises RuntimeError where it ends with another code."""
    child = subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != code:
        raise RuntimeError(f"{' '.join(words)} ended with {child.returncode}, not {code}")
    return (usage.ru_utime + usage.ru_stime) * 1e3
