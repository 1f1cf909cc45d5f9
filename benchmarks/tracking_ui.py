"""The MLflow UI on the same measurements: a table of runs, and a hundred of them compared, in the same browser."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from assay.client import Client
from assay.service import free_port
from benchmarks.dashboard import COMPARED, SIZE
from benchmarks.lines import Line, plain
from benchmarks.peers import environment
from benchmarks.serving import ROOT, server
from dashboard.gallery import browser

__all__ = ["beside"]

RUNS = 1000
REPEATS = 6


def beside(service: str, folder: Path) -> Iterator[Line]:
    """Yield the time to MLflow's list of runs and to its comparison of 100, with measurements of our service in it."""
    home = folder / "mlflow"
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [
        str(environment("peers")), "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{home / 'runs.db'}",
        "--artifacts-destination", str(home / "artifacts"), "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    with server(command, port, "/health", home) as running:
        experiment, runs = _logged(service, running.url, home)
        listed = f"{running.url}/#/experiments/{experiment}/runs"
        asked = quote(json.dumps(runs[:COMPARED], separators=(",", ":")))
        compared = f"{running.url}/#/compare-runs?runs={asked}&experiments={quote(json.dumps([experiment]))}"
        with browser() as found:
            context = found.new_context(viewport=SIZE)
            for what, url, ready in (
                (f"MLflow UI: a list of {RUNS:,} runs, its first page, warm", listed, "[role=row] >> nth=10"),
                (f"MLflow UI: {COMPARED} runs compared, warm", compared, f"text=Comparing {COMPARED} Runs"),
            ):
                _opened(context, url, ready)
                yield plain(what, "s", [_opened(context, url, ready) for _ in range(REPEATS)])


def _opened(context: Any, url: str, ready: str) -> float:
    page = context.new_page()
    page.set_default_timeout(120_000)
    begin = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector(ready)
    page.wait_for_load_state("networkidle")
    # What it waits for to be sure that nothing more comes is not the page's.
    taken = time.perf_counter() - begin - 0.5
    page.close()
    return taken


def _logged(service: str, url: str, home: Path) -> tuple[str, list[str]]:
    """Log measurements of our service as runs, and return the experiment's id and the runs'."""
    with Client(service) as client:
        rows = client.measurements(limit=RUNS)
    file = home / "rows.json"
    file.write_text(json.dumps([_run(row) for row in rows]))
    program = ROOT / "benchmarks" / "programs" / "mlflow_rows.py"
    command = [str(environment("peers")), str(program), url, str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"the runs could not be logged: {ended.stderr[-2000:]}")
    # MLflow says on the same stream where each run can be seen.
    told = json.loads(ended.stdout.splitlines()[-1])
    return told["experiment"], told["runs"]


def _run(row: dict[str, Any]) -> dict[str, Any]:
    words = (
        "model_id",
        "hardware_id",
        "platform",
        "precision",
        "batch_size",
        "mode",
        "runtime_name",
        "runtime_version",
    )
    params = {name: str(row[name]) for name in words if row.get(name) is not None}
    metrics = {name: row[name] for name, value in row.items() if isinstance(value, float)}
    return {"params": params, "metrics": metrics}
