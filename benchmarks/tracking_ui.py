"""The MLflow UI on the same measurements, beside our pages in the same browser: a list of runs, and a hundred compared.

Each measurement is a run of MLflow under the id of its event, with what names it as parameters and every figure as a metric.
The hundred of a comparison are those that our page shows for a model; every opening takes the next model. Both servers run on
as they come; a page is there when its rows or its chart can be seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from playwright.sync_api import Error as PlaywrightError

from assay.client import Client
from assay.service import free_port
from benchmarks.browsing import dashboard, opened
from benchmarks.lines import Line, interleaved, times
from benchmarks.peers import environment
from benchmarks.serving import ROOT, Running, server
from dashboard.gallery import browser

__all__ = ["COMPARED", "RUNS", "beside"]

COMPARED = 100
RUNS = 100_000
MODELS = 8
ATTEMPTS = 5
LOADED_S = 1800.0
OPENED_MS = 60_000
PAGE = 1000
SIZE = {"width": 1280, "height": 900}
NAMES = (
    "model_id", "hardware_id", "platform", "precision", "batch_size", "mode", "runtime_name", "runtime_version",
)  # fmt: skip
LISTED = "document.querySelectorAll('.ag-center-cols-container [role=row]').length > 10"
DRAWN = f"""document.body.innerText.includes('Comparing {COMPARED} Runs')
    && document.querySelector('.js-plotly-plot .main-svg') && document.querySelector('.js-plotly-plot canvas')"""
Way = Callable[[Any], float]


class Loaded(msgspec.Struct, frozen=True):
    """What MLflow holds: its experiment, how many runs, and the ids of the hundred of each model."""

    experiment: str
    runs: int
    compared: dict[str, list[str]]


def beside(service: str, folder: Path, runs: int, repeats: int) -> Iterator[Line]:
    """Yield how quickly both show a list of runs and a hundred compared, warm and in a new browser."""
    home = folder / "mlflow"
    loaded = _loaded(service, home, runs)
    with _mlflow(_database(home, runs)) as theirs, dashboard(service, folder / "dashboard") as ours, browser() as found:
        for what, mine, other in (
            ("a list of runs", _ours(ours, ["runs"]), _theirs(theirs, LISTED, [_list(loaded)])),
            (
                f"{COMPARED} configurations compared",
                _ours(ours, [f"compare?model={quote(model)}&basis=measured" for model in loaded.compared]),
                _theirs(theirs, DRAWN, [_comparison(loaded, model) for model in loaded.compared]),
            ),
        ):
            for how, opening in (("warm", _warm), ("in a new browser", _anew)):
                with opening(found) as context_of:
                    took = _turns(context_of, mine, other, repeats)
                yield times(f"{what}, {how}", "s", took[0], took[1], f"the MLflow UI with {loaded.runs:,} runs")


def _turns(context_of: Callable[[], Any], mine: Way, other: Way, repeats: int) -> list[list[float]]:
    """Return the seconds of both, opened in turns after one of each that does not count."""
    for way in (mine, other):
        _begun(way, context_of)
    return interleaved(repeats, lambda: mine(context_of()), lambda: other(context_of()))


def _begun(way: Way, context_of: Callable[[], Any]) -> None:
    """Open a page until it comes: right after the loading, servers may be too busy to answer in time."""
    for _ in range(ATTEMPTS - 1):
        try:
            way(context_of())
            return
        except (RuntimeError, PlaywrightError) as busy:
            print(f"not there yet: {str(busy).splitlines()[0][:160]}", file=sys.stderr)
    way(context_of())


@contextmanager
def _mlflow(database: Path) -> Iterator[Running]:
    home, port = database.parent, free_port()
    command = [
        str(environment("peers")), "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{database}",
        "--artifacts-destination", str(home / "artifacts"), "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    # Its queues for jobs, seven processes of which nothing here has need, would take the processors from both.
    environment_ = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with server(command, port, "/health", home, environment_) as running:
        yield running


@contextmanager
def _warm(found: Any) -> Iterator[Callable[[], Any]]:
    """Give the same context each time."""
    context = found.new_context(viewport=SIZE)
    yield lambda: context
    context.close()


@contextmanager
def _anew(found: Any) -> Iterator[Callable[[], Any]]:
    """Give a new context each time, of which nothing is in the browser's cache."""
    made: list[Any] = []

    def context() -> Any:
        if made:
            made.pop().close()
        made.append(found.new_context(viewport=SIZE))
        return made[0]

    yield context
    made.pop().close()


def _ours(running: Running, addresses: list[str]) -> Way:
    asked = cycle(addresses)

    def way(context: Any) -> float:
        page = context.new_page()
        taken = opened(page, f"{running.url}/{next(asked)}")
        page.close()
        return taken

    return way


def _theirs(running: Running, there: str, addresses: list[str]) -> Way:
    asked = cycle(addresses)

    def way(context: Any) -> float:
        page = context.new_page()
        begin = time.perf_counter()
        page.goto(f"{running.url}/{next(asked)}", wait_until="commit")
        page.wait_for_function(there, timeout=OPENED_MS)
        taken = time.perf_counter() - begin
        page.close()
        return taken

    return way


def _list(loaded: Loaded) -> str:
    return f"#/experiments/{loaded.experiment}/runs"


def _comparison(loaded: Loaded, model: str) -> str:
    asked = quote(json.dumps(loaded.compared[model], separators=(",", ":")))
    return f"#/compare-runs?runs={asked}&experiments={quote(json.dumps([loaded.experiment]))}"


def _database(home: Path, runs: int) -> Path:
    return home / f"runs-{runs}.db"


def _loaded(service: str, home: Path, runs: int) -> Loaded:
    """Fill MLflow's database with measurements of our service, unless an earlier time left as many in the folder."""
    kept = home / f"runs-{runs}.json"
    if kept.is_file():
        return msgspec.json.decode(kept.read_bytes(), type=Loaded)
    home.mkdir(parents=True, exist_ok=True)
    for begun in home.glob(f"runs-{runs}.*"):
        begun.unlink()
    file = home / f"runs-{runs}.ndjson"
    with Client(service) as client, file.open("wb") as out:
        compared = _compared(client)
        for row in _measurements(client, compared, runs):
            out.write(msgspec.json.encode(_run(row)) + b"\n")
    told = _load(_database(home, runs), file)
    file.unlink()
    loaded = Loaded(str(told["experiment"]), int(told["runs"]), compared)
    kept.write_bytes(msgspec.json.encode(loaded))
    return loaded


def _load(database: Path, file: Path) -> dict[str, Any]:
    program = ROOT / "benchmarks" / "programs" / "mlflow_rows.py"
    command = [str(environment("peers")), str(program), str(database), str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LOADED_S)
    if ended.returncode:
        raise RuntimeError(f"the runs could not be loaded: {ended.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


def _compared(client: Client) -> dict[str, list[str]]:
    """Return the ids of a hundred measurements that our page compares, of each of some models."""
    found: dict[str, list[str]] = {}
    for row in client.models():
        if not row.get("measurements") or "-made-up-" in str(row["id"]):
            continue
        rows = client.compare_hardware(str(row["id"]), mode="inference")["rows"]
        named = [one["evidence"][0].replace("-", "") for one in rows if one["evidence"]][:COMPARED]
        if len(named) == COMPARED:
            found[str(row["id"])] = named
        if len(found) == MODELS:
            return found
    raise RuntimeError(f"no {MODELS} models have {COMPARED} configurations: ask for more --rows")


def _measurements(client: Client, compared: dict[str, list[str]], most: int) -> Iterator[dict[str, Any]]:
    """Yield the measurements that are compared, then others up to `most`."""
    wanted = {identifier for ids in compared.values() for identifier in ids}
    for model in compared:
        yield from (row for row in client.measurements(model=model) if _id(row) in wanted)
    left, cursor = most - len(wanted), None
    while left > 0:
        page = client.page("measurements", cursor=cursor, limit=PAGE)
        others = [row for row in page["items"] if _id(row) not in wanted][:left]
        yield from others
        left, cursor = left - len(others), page.get("next_cursor")
        if cursor is None:
            return


def _id(row: dict[str, Any]) -> str:
    """Return the id of a measurement's event as MLflow writes those of runs."""
    return str(row["event_id"]).replace("-", "")


def _run(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": _id(row),
        "name": f"{row['model_id']} {row['hardware_id']}",
        "at": int(datetime.fromisoformat(row["time"] or row["recorded_at"]).timestamp() * 1000),
        "params": {name: str(row[name]) for name in NAMES if row.get(name) is not None},
        "metrics": {name: value for name, value in row.items() if isinstance(value, float)},
    }
