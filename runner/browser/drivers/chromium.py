"""Chromium, Chrome and Edge, through the DevTools protocol of the browser process; nothing is attached to the page."""

from __future__ import annotations

import re
from typing import Any

from domain.operating_system import user_id
from runner.browser.drivers.base import Channel, Driver, Profile, Running, Started

__all__ = ["ChromiumDriver"]

_COMPUTE = (
    "--enable-unsafe-webgpu",
    "--enable-features=WebMachineLearningNeuralNetwork,Vulkan",
    "--enable-unsafe-swiftshader",
)
"""What a page may compute with: WebGPU and WebNN, and SwiftShader where there is no other adapter."""
_QUIET = (
    "--no-first-run",
    "--no-default-browser-check",
    "--no-startup-window",
    "--no-pings",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--enable-logging=stderr",
    "--metrics-recording-only",
    "--password-store=basic",
    "--use-mock-keychain",
)
"""No traffic of its own, no slower page behind another window, no questions."""
_CONSOLE = re.compile(r'INFO:CONSOLE[:(]\d+\)?\] "(.*)", source: ')


class ChromiumDriver(Driver):
    """Drives a browser that is made of Chromium."""

    engine = "blink"

    def flags(self) -> tuple[str, ...]:
        """Return the switches that change what a page can do."""
        sandbox = ("--no-sandbox",) if user_id() == 0 else ()  # Chromium refuses to start as root with its sandbox.
        return (*sandbox, *_COMPUTE, *self.extra)

    def start(self, url: str, profile: Profile, started: Started) -> Running:
        """Start it without a window, listen for crashes, then open the address in a first page."""
        Channel.require()
        variables = profile.environment() | self.program.variables
        command = [self.program.path, *([] if self.headed else ["--headless"]), *_QUIET, *self.flags()]
        command += [f"--user-data-dir={profile.path / 'data'}", "--remote-debugging-port=0"]
        process = started.launch(command, variables)
        port_file = profile.path / "data" / "DevToolsActivePort"

        def address() -> tuple[str, str] | None:
            lines = started.lines(port_file)
            return (lines[0], lines[1]) if len(lines) == 2 else None

        port, path = started.wait_for("an address for its driver", address, process)
        page = _Page()
        try:
            channel = Channel(f"ws://127.0.0.1:{port}{path}", page.event)
            started.closers.append(channel.close)
            product = channel.call("Browser.getVersion")["product"]
            channel.call("Target.setDiscoverTargets", discover=True)
            page.target = channel.call("Target.createTarget", url=url, newWindow=True)["targetId"]
        except OSError as error:
            raise started.failed(f"did not open the page: {error}") from error
        return Running(
            process=process,
            profile=profile,
            version=product.partition("/")[2],
            engine=self.engine,
            flags=self.flags(),
            page_fault=lambda: page.fault,
            console=lambda: [match[1] for line in started.lines(started.log) if (match := _CONSOLE.search(line))],
            close=started.close,
        )


class _Page:
    """What the browser process says of the page."""

    def __init__(self) -> None:
        self.target: str | None = None
        self._gone: dict[str, str] = {}

    @property
    def fault(self) -> str | None:
        return self._gone.get(self.target or "")

    def event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Target.targetCrashed":
            self._gone[params["targetId"]] = f"the page crashed ({params.get('status')}, {params.get('errorCode')})"
        elif method == "Target.targetDestroyed":
            self._gone.setdefault(params["targetId"], "the page was closed")
