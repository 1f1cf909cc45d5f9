"""A dashboard of its own and a real browser: how long a page takes until its reader has it, and an act until it shows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from assay.service import free_port
from benchmarks.serving import Running, server
from dashboard import launch
from dashboard.gallery import settled
from dashboard.menu import MENU

__all__ = ["ADDRESSES", "acts", "address", "dashboard", "opened", "pages"]

ADDRESSES: Mapping[str, str] = {
    "overview": "", "recommend": "recommend?model={model}", "compare": "compare?model={model}", "trends": "trends?model={model}",
    "models": "models?id={model}", "hardware": "hardware?id={hardware}", "predictor": "predictor?split=family",
}  # fmt: skip
"""Pages that are opened on a subject; the others without parameters."""
CHANGES: Mapping[str, tuple[str, str, Mapping[str, str | None]]] = {
    "compare": ("Metric", "metric", {"Latency": "latency", "Memory": "memory", "Throughput": None}),
    "trends": ("Along", "x", {"Order": "order", "Date": "time", "Automatic": None}),
    "predictor": ("Errors by", "group", {"family": "family", "hardware": None}),
}
"""By page: a filter, its parameter, and what it is set to in turn with what the address then says; nothing of a default."""
WRITTEN = "([name, value]) => new URLSearchParams(location.search).get(name) === value"


def pages() -> list[str]:
    """Return every page of the menu."""
    return [entry.name for entries in MENU.values() for entry in entries]


def address(page: str, model: str, hardware: str) -> str:
    """Return the path and parameters of a page that shows something."""
    return ADDRESSES.get(page, page).format(model=model, hardware=hardware)


@contextmanager
def dashboard(asked: str, home: Path) -> Iterator[Running]:
    """Give a dashboard that was just started and asks the service at this address."""
    port = free_port()
    with server(launch.command(port, asked), port, "/_stcore/health", home) as running:
        yield running


def opened(page: Any, url: str) -> float:
    """Return the seconds from the address to a page at rest: its script done, its charts drawn. Raises on an error shown."""
    begin = time.perf_counter()
    page.goto(url, wait_until="commit")
    settled(page)
    taken = time.perf_counter() - begin
    text = page.inner_text('[data-testid="stMain"]')
    if "could not be shown" in text or page.locator('[class*="st-key-trouble"]').count():
        raise RuntimeError(f"{url} shows an error: {text[:400]}")
    return taken


def acts(page: Any, name: str, repeats: int) -> list[float]:
    """Return the seconds from each change of a page's filter to the picture that it gives; none where no filter is known."""
    if name not in CHANGES:
        return []
    label, parameter, values = CHANGES[name]
    taken = []
    for value, written in islice(cycle(values.items()), repeats):
        page.get_by_role("combobox", name=label).first.click()
        option = page.get_by_role("option", name=value, exact=True).first
        option.wait_for()
        begin = time.perf_counter()
        option.click()
        page.wait_for_function(WRITTEN, arg=[parameter, written])
        settled(page)
        taken.append(time.perf_counter() - begin)
    return taken
