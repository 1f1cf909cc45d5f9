"""A page open in a browser: it does steps of a task, and its browser ends with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import psutil

from domain.compatibility.pages import outcome_of
from domain.errors import PartMissing, PlatformUnavailable, UnsupportedWorkload
from runner.browser.server import PageFailed, PageGone, PageTimeout, Session
from runner.platforms.execution_options import read_options

if TYPE_CHECKING:
    from runner.browser.drivers import Running
    from runner.browser.locations import BrowserProgram

__all__ = ["OPTIONS", "Page", "PageRefused", "open_page", "opened"]

OPTIONS = frozenset({"browser", "headed"})
_START_S = 60.0
_LONGEST_S = 86_400.0
"""The parent process holds the deadline of a case, and ends the browser with it."""


class PageRefused(UnsupportedWorkload):
    """The browser or its runtime has not what the model needs."""


class Page:
    """A page, its browser and its server. `environment` is what the page said of itself when it opened."""

    def __init__(
        self, session: Session, running: Running, program: BrowserProgram, *, deadline_s: float = _START_S
    ) -> None:
        self._session, self._running, self.program = session, running, program
        self.peak_memory_bytes = 0
        self.environment = next(
            message for message in self.do("environment", deadline_s=deadline_s) if message["kind"] == "environment"
        )

    def __enter__(self) -> Page:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the browser and the server."""
        self.close()

    @property
    def name(self) -> str:
        """The browser with its version."""
        return f"{self.program.name} {self._running.version}"

    @property
    def running(self) -> Running:
        """The browser."""
        return self._running

    def address(self, path: str) -> str:
        """Return the whole address of a path of the server."""
        return urljoin(self._session.url.partition("?")[0], path)

    def offer(self, name: str, content: Path | bytes) -> str:
        """Offer a file to the page and return its address."""
        return self.address(self._session.offer(name, content))

    def do(
        self,
        *steps: str,
        deadline_s: float = _LONGEST_S,
        on_message: Callable[[dict[str, Any]], None] | None = None,
        **task: Any,
    ) -> list[dict[str, Any]]:
        """Let the page do steps and return what it said; raises PageRefused, MemoryError, PageFailed and PageGone."""
        alive = self._running.alive
        try:
            messages = self._session.ask(
                {"steps": steps, **task}, deadline_s=deadline_s, alive=alive, on_message=on_message
            )
        except PageFailed as failed:
            raise failure_of(failed) from failed
        except PageGone as gone:
            fault = self._running.fault() or "the page closed its connection"
            raise PageGone(f"{self.name}: {fault}.", remedy=gone.remedy) from gone
        self.peak_memory_bytes = max(self.peak_memory_bytes, self.memory_bytes())
        return messages

    def processes(self) -> list[int]:
        """Return the ids of the browser's processes."""
        with suppress(psutil.Error):
            first = psutil.Process(self._running.pid)
            return [first.pid, *(child.pid for child in first.children(recursive=True))]
        return []

    def memory_bytes(self) -> int:
        """Return what the browser's processes hold together; pages that they share count once where Linux tells it."""
        total = 0
        for pid in self.processes():
            with suppress(psutil.Error):
                info = psutil.Process(pid).memory_full_info()
                total += getattr(info, "pss", 0) or info.uss
        return total

    def processor_s(self) -> float:
        """Return the processor time that the browser's processes have used, in s."""
        total = 0.0
        for pid in self.processes():
            with suppress(psutil.Error):
                times = psutil.Process(pid).cpu_times()
                total += times.user + times.system
        return total

    def close(self) -> None:
        """End the browser and the server."""
        self._running.end()
        self._session.close()


def failure_of(failed: PageFailed) -> Exception:
    """Return the error that a page's failure means: refused, out of memory, or itself."""
    outcome = outcome_of(failed.name, failed.detail)
    if outcome == "out_of_memory":
        return MemoryError(failed.detail)
    if outcome == "unsupported":
        return PageRefused(
            failed.detail,
            field="platform",
            remedy="Take another backend, browser or precision; this one has not what it needs.",
        )
    return failed


def open_page(platform: str, options: Sequence[str]) -> Page:
    """Start the browser that the options name, the first one that has the platform else, and return its page.

    Raises PartMissing and UsageError where there is none, PlatformUnavailable where it does not start.
    """
    from runner.browser.facts import backends_of
    from runner.browser.locations import choose_browser, find_browsers, onnxruntime_web

    wanted = read_options(options, platform=platform, names=OPTIONS)
    runtime = onnxruntime_web()
    if wanted.browser:
        return opened(choose_browser(wanted.browser, headed=wanted.headed), runtime, headed=wanted.headed)
    page: Page | None = None
    broke: PlatformUnavailable | None = None
    for program in [each for each in find_browsers() if not (wanted.headed and each.headless_only)]:
        try:
            other = opened(program, runtime, headed=wanted.headed)
        except PlatformUnavailable as error:
            broke = broke or error
            continue
        if backends_of(other.environment)[platform].available:
            if page:
                page.close()
            return other
        if page is None:
            page = other
        else:
            other.close()
    if page is None:
        raise broke or PartMissing(
            "no browser was found on this machine.", field="browser", remedy="assay browser install"
        )
    return page


def opened(
    program: BrowserProgram,
    runtime: Path | None = None,
    *,
    headed: bool = False,
    flags: Sequence[str] = (),
    deadline_s: float = _START_S,
) -> Page:
    """Start a browser and return its page, which has told its environment; without `runtime` it can load no model.

    Raises PlatformUnavailable, and leaves nothing, where the browser does not start or its page does not answer.
    """
    from runner.browser.drivers import driver_for

    session = Session(runtime)
    running = None
    try:
        running = driver_for(program, headed=headed, flags=flags).open(session.url)
        return Page(session, running, program, deadline_s=deadline_s)
    except BaseException as error:
        if running:
            running.end()
        session.close()
        if isinstance(error, PageGone | PageFailed | PageTimeout):
            raise PlatformUnavailable(
                f"{program.name} opened and its page did not work: {error.detail}",
                field="browser",
                remedy="Try it again; if it stays so, take another browser (assay browser check shows them).",
            ) from error
        raise
