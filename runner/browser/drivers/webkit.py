"""WebKitGTK's own small browser, on a display of its own where there is none."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress

import psutil

from domain.errors import PartMissing
from runner.browser.drivers.base import START_S, Driver, Profile, Running, Started, runs

__all__ = ["WebKitDriver"]

_PAGE_PROCESS = "WebKitWebProces"
"""The name of the process of a page, as the kernel cuts it."""


class WebKitDriver(Driver):
    """Drives WebKitGTK's MiniBrowser, which takes the address as an argument and keeps the page's console to itself."""

    engine = "webkit"

    def flags(self) -> tuple[str, ...]:
        """Return the switches that change what a page can do."""
        return ("--private", *self.extra)

    def start(self, url: str, profile: Profile, started: Started) -> Running:
        """Start a display where none is wanted on the screen, then the browser with the address."""
        variables = profile.environment() | self.program.variables
        if not self.headed:
            variables["DISPLAY"] = _display(profile, started)
            variables["GDK_BACKEND"] = "x11"
        version = _version(self.program.path, variables)
        process = started.launch([self.program.path, *self.flags(), url], variables)
        page = started.wait_for("a process for its page", lambda: _page_process(process.pid), process)
        return Running(
            process=process,
            profile=profile,
            version=version,
            engine=self.engine,
            flags=self.flags(),
            page_fault=lambda: None if runs(page) else "the page crashed",
            console=list,
            close=started.close,
        )


def _display(profile: Profile, started: Started) -> str:
    """Start an X server without a screen and return its address."""
    server = shutil.which("Xvfb")
    if server is None:
        raise PartMissing(
            "WebKitGTK needs a display, and Xvfb is not installed.", field="browser", remedy="Install the package xvfb."
        )
    number = profile.path / "display"
    command = [server, "-displayfd", "1", "-noreset", "-screen", "0", "1280x800x24", "-nolisten", "tcp"]
    process = started.launch(command, profile.environment(), into=number)
    lines = started.wait_for("a display", lambda: [x for x in started.lines(number) if x.strip().isdigit()], process)
    return f":{lines[0].strip()}"


def _page_process(pid: int) -> psutil.Process | None:
    try:
        children = psutil.Process(pid).children(recursive=True)
        return next((child for child in children if child.name().startswith(_PAGE_PROCESS)), None)
    except psutil.Error:
        return None


def _version(path: str, variables: Mapping[str, str]) -> str:
    """Return the version that the program tells; it needs a display for that."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [path, "--version"], env=dict(variables), capture_output=True, timeout=START_S, check=False
        )
        if match := re.search(rb"[0-9]+([.][0-9]+)+", done.stdout):
            return match[0].decode()
    return "unknown"
