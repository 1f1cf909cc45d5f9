"""`assay recommend` from Enter to its text: with a service that runs, with none, and of a model that is traced first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx

from benchmarks.answer_speed import filled
from benchmarks.bench import Bench
from benchmarks.lines import Limit, Line, plain
from benchmarks.serving import ROOT, service

__all__ = ["recommending"]

MEASURED, TRACED = "google-bert/bert-base-uncased", "microsoft/swin-tiny-patch4-window7-224"
"""A model of the measurements of data/, and one of the catalogue that has a trace and no measurement there."""
HEADS, HEAD_SIZE = 4, 32
Environment = Mapping[str, str]


def recommending(bench: Bench) -> Iterator[Line]:
    """The whole command as a child process: wall time, and the processor time of the child alone in its details."""
    home = bench.folder()
    with bench.database() as database, service(bench.folder(), database) as running:
        # A proxy of the environment is for other hosts.
        with httpx.Client(base_url=running.url, timeout=120, trust_env=False) as client:
            filled(client)
        there = {**_environment(home), "ASSAY_SERVER": running.url}
        models = _untraced_models(bench.folder())
        # One question of each kind goes before the clock: a service that runs has answered before.
        for title, model, limit in (
            ("a measured model", lambda: MEASURED, Limit(bar=1.0, reach=0.5, most=True)),
            ("a model of the catalogue that nobody measured", lambda: TRACED, Limit(bar=1.0, reach=0.5, most=True)),
            ("a folder's model, traced first", lambda: str(next(models)), Limit(bar=8.0, reach=2.0, most=True)),
        ):
            yield _line(f"recommend with a service: {title}", bench.plan.repeats, model, there, limit)
    alone = _environment(home)
    yield _line(
        "recommend without a service", bench.plan.repeats, lambda: MEASURED, alone, Limit(bar=3.0, reach=1.5, most=True)
    )
    first = [_asked(MEASURED, _environment(bench.folder())) for _ in range(bench.plan.repeats)]
    yield plain(
        "recommend without a service: the first of a home, which unpacks the tables", "s", [wall for wall, _ in first],
        processor_s=[spent for _, spent in first],
    )  # fmt: skip


def _line(what: str, repeats: int, model: Callable[[], str], environment: Environment, limit: Limit) -> Line:
    _asked(model(), environment)
    taken = [_asked(model(), environment) for _ in range(repeats)]
    return plain(what, "s", [wall for wall, _ in taken], limit, processor_s=[spent for _, spent in taken])


def _asked(model: str, environment: Environment) -> tuple[float, float]:
    """Return the seconds of the clock and of the processor that the command takes."""
    command: Sequence[str] = (sys.executable, "-m", "assay.cli", "recommend", model)
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    wall, after = time.perf_counter() - began, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, spent


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    return {**kept, "ASSAY_HOME": str(home), "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}


def _untraced_models(folder: Path) -> Iterator[Path]:
    """Yield folders of small BERTs, each of a size that no other has."""
    number = 0
    while True:
        number += 1
        path = folder / f"encoder-{number}"
        path.mkdir()
        config = {
            "model_type": "bert", "hidden_size": HEADS * HEAD_SIZE, "num_attention_heads": HEADS,
            "num_hidden_layers": 2, "intermediate_size": 256 + 64 * number, "vocab_size": 1000,
        }  # fmt: skip
        (path / "config.json").write_text(json.dumps(config))
        yield path
