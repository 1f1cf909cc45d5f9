"""How fast the dashboard is in a real browser, with a million measurements of 300 models on 40 devices behind it.

    python -m benchmarks.dashboard [--rows N] [--repeats N] [--folder DIR] [--keep] [--peer [--runs N]]

A page is there when its script has ended and its charts are drawn. Cold: a new process and a new browser context, and
a model of which nobody asked before. Warm: another such model in the same process and context. The answers of the service
are counted on their way in a pass of their own. --peer takes nothing of that, but the MLflow UI beside ours, on the same
measurements. With --keep the table is also written into docs/dashboard.md, and all samples into benchmarks/results.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import psutil

from assay.client import Client
from benchmarks.browsing import ADDRESSES, acts, address, dashboard, opened, pages
from benchmarks.carried import Answer, relay
from benchmarks.dashboard_data import ROWS, full_service
from benchmarks.dashboard_page import HEADS, keep, row
from benchmarks.lines import Limit, Line, plain, quantile
from benchmarks.tracking_ui import COMPARED, RUNS, SIZE, beside
from benchmarks.viewers import view
from dashboard.gallery import browser
from domain.events import uuid7

VIEWERS = 20
COLD, WARM, ACT, MANY = (Limit(bar=bar, most=True) for bar in (2.5, 1.0, 0.6, 1.5))
NO_ERRORS = Limit(bar=0, most=True)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How long to measure, and where the data are."""

    rows: int
    repeats: int
    viewers: int


class Subjects:
    """Models and a device with measurements; each model is given once, so that no answer to it is kept anywhere."""

    def __init__(self, service: str) -> None:
        with Client(service) as client:
            models = [row for row in client.models() if row.get("measurements")]
            devices = [row for row in client.hardware() if row.get("measurements")]
        # What only the load is made up of has no trace to predict from.
        self._models = iter([str(row["id"]) for row in models if "-made-up-" not in str(row["id"])])
        self.hardware = str(max(devices, key=lambda row: row["measurements"])["id"])

    def model(self) -> str:
        """Return the next model."""
        return next(self._models)

    def address(self, page: str) -> str:
        """Return a page's address on the next model."""
        return address(page, self.model() if "{model}" in ADDRESSES.get(page, "") else "", self.hardware)


def measured(asked: Asked, service: str, folder: Path) -> Iterator[Line]:
    """Yield every line, as it is measured."""
    subjects = Subjects(service)
    with Client(service) as client:
        yield plain("first recommendation of a service that just started", "s", [_answered(client, subjects.model())])
    with browser() as found:
        cold: dict[str, list[float]] = {page: [] for page in pages()}
        for _ in range(asked.repeats):
            for page in pages():
                with dashboard(service, folder) as running:
                    context = found.new_context(viewport=SIZE)
                    cold[page].append(opened(context.new_page(), f"{running.url}/{subjects.address(page)}"))
                    context.close()
        for page, taken in cold.items():
            yield plain(f"{page}: first useful paint, cold", "s", taken, COLD)
        with dashboard(service, folder) as running:
            yield from _warm(asked, found, running.url, subjects)
            yield from _crowd(asked, running.url, subjects)
        with relay(service) as (address_of_relay, answers), dashboard(address_of_relay, folder) as running:
            yield from _carried(found, running.url, subjects, answers)
    with Client(service) as client:
        taken = [_after_a_measurement(client, subjects) for _ in range(asked.repeats)]
        yield plain("first recommendation after a new measurement", "s", taken)


def _answered(client: Client, model: str) -> float:
    begin = time.perf_counter()
    client.recommend(model)
    return time.perf_counter() - begin


def _after_a_measurement(client: Client, subjects: Subjects) -> float:
    """Measure one configuration again, and return how long a recommendation takes that asks for the row to be taken in."""
    (row,) = client.measurements(hardware=subjects.hardware, limit=1)
    again = client.event(str(row["event_id"])) | {"id": uuid7()}
    event = {name: again[name] for name in ("specversion", "id", "source", "type", "subject", "time", "data")}
    client.wait_for(client.post_events([event])["last_position"])
    return _answered(client, subjects.model())


def _warm(asked: Asked, found: Any, url: str, subjects: Subjects) -> Iterator[Line]:
    context = found.new_context(viewport=SIZE)
    for page in pages():
        one = context.new_page()
        opened(one, f"{url}/{subjects.address(page)}")
        taken = [opened(one, f"{url}/{subjects.address(page)}") for _ in range(2 * asked.repeats)]
        yield plain(f"{page}: first useful paint, warm", "s", taken, WARM)
        changed = acts(one, page, 8 * asked.repeats)
        if changed:
            yield plain(f"{page}: a filter changes, p95", "s", changed, ACT, value=quantile(changed, 0.95))
        one.close()
    one = context.new_page()
    taken = [opened(one, f"{url}/{subjects.address('compare')}&basis=measured") for _ in range(2 * asked.repeats)]
    yield plain(f"compare: {COMPARED} configurations", "s", taken, MANY)
    context.close()


def _crowd(asked: Asked, url: str, subjects: Subjects) -> Iterator[Line]:
    addresses = [subjects.address(page) for page in pages()]
    seen = view(url, addresses, asked.viewers)
    what = f"{asked.viewers} viewers at once, every page"
    yield plain(f"{what}: errors", "", [len(seen.errors)], NO_ERRORS, errors=seen.errors[:10])
    yield plain(f"{what}: script p95", "s", seen.seconds, value=quantile(seen.seconds, 0.95))


def _carried(found: Any, url: str, subjects: Subjects, answers: list[Answer]) -> Iterator[Line]:
    context = found.new_context(viewport=SIZE)
    for page in pages():
        answers.clear()
        opened(context.new_page(), f"{url}/{subjects.address(page)}")
        told = [answer._asdict() for answer in answers]
        yield plain(f"{page}: the service's answers", "kB", [sum(one.size for one in answers) / 1e3], answers=told)
    context.close()


def main() -> int:
    """Print a line each, keep them, and return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dashboard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="measurements")
    parser.add_argument(
        "--repeats", type=int, default=3, help="how often each page is opened cold; warm twice as often"
    )
    parser.add_argument("--viewers", type=int, default=VIEWERS, help="readers at the same time")
    parser.add_argument(
        "--folder", type=Path, help="where the data are kept for another time; without it they go afterwards"
    )
    parser.add_argument("--keep", action="store_true", help="write the results and the table of docs/dashboard.md")
    parser.add_argument(
        "--peer", action="store_true", help="only the MLflow UI beside ours, in an environment of its own"
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="how many of the measurements MLflow holds as runs")
    options = parser.parse_args()
    asked = Asked(rows=options.rows, repeats=options.repeats, viewers=options.viewers)
    load = round(psutil.getloadavg()[0], 2)
    table = "peer" if options.peer else "figures"
    plan = {**msgspec.to_builtins(asked), **({"runs": options.runs} if options.peer else {})}
    lines: list[Line] = []
    print(HEADS[table], flush=True)
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-bench-")))
        running = stack.enter_context(full_service(folder, asked.rows))
        found = (
            beside(running.url, folder, options.runs, 2 * asked.repeats)
            if options.peer
            else measured(asked, running.url, folder / "dashboard")
        )
        for line in found:
            lines.append(line)
            print(row(line), flush=True)
    if options.keep:
        keep(table, lines, plan, load)
    return 0 if all(line.passed is not False for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
