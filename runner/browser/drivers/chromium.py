"""Chromium, Chrome and Edge, through the DevTools protocol of the browser process; nothing is attached to the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from domain.errors import PlatformUnavailable
from domain.operating_system import user_id
from runner.browser.drivers.base import Channel, Driver, Profile, Running, Started, Transport, WebSocket

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


_NO_SANDBOX = "No usable sandbox"
"""What Chromium says where the system gives it no namespaces, as in many containers."""
_TO_3_AND_4 = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD_CLOEXEC, 10) for number in sys.argv[1:3]]
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Becomes the program in its arguments, with two descriptors where Chromium looks for them."""


class ChromiumDriver(Driver):
    """Drives a browser that is made of Chromium."""

    engine = "blink"

    def flags(self) -> tuple[str, ...]:
        """Return the switches that change what a page can do."""
        return (*_COMPUTE, *self.extra)

    def start(self, url: str, profile: Profile, started: Started) -> Running:
        """Start it without a window, listen for crashes, then open the address in a first page.

        As root, and where the system has no sandbox for it, it runs without: the page is our own.
        """
        if user_id() == 0:
            return self._start(url, profile, started, ("--no-sandbox", *self.flags()))
        try:
            return self._start(url, profile, started, self.flags())
        except PlatformUnavailable:
            if not any(_NO_SANDBOX in line for line in started.lines(started.log)):
                raise
            return self._start(url, profile, started, ("--no-sandbox", *self.flags()))

    def _start(self, url: str, profile: Profile, started: Started, flags: Sequence[str]) -> Running:
        page = _Page()
        command = [self.program.path, *([] if self.headed else ["--headless"]), *_QUIET, *flags]
        command.append(f"--user-data-dir={profile.path / 'data'}")
        variables = profile.environment() | self.program.variables
        connect = _by_port if sys.platform == "win32" else _by_pipe
        process, transport = connect(command, variables, started)
        try:
            channel = Channel(transport, page.event)
            started.closers.append(channel.close)
            product = channel.call("Browser.getVersion")["product"]
            channel.call("Target.setDiscoverTargets", discover=True)
            page.target = channel.call("Target.createTarget", url=url, newWindow=True)["targetId"]
        except OSError as error:
            raise started.refused(process, error) from error
        return Running(
            process=process,
            profile=profile,
            version=product.partition("/")[2],
            engine=self.engine,
            flags=flags,
            page_fault=lambda: page.fault,
            console=lambda: [match[1] for line in started.lines(started.log) if (match := _CONSOLE.search(line))],
            close=started.close,
        )


Connected = tuple["subprocess.Popen[bytes]", Transport]


def _by_pipe(command: Sequence[str], variables: Mapping[str, str], started: Started) -> Connected:
    """Start the browser with two pipes: no other user of this machine can drive it, and it ends with this process."""
    if not os.access(command[0], os.X_OK):
        raise started.failed("did not start: its program is not there")
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    pipes = _Pipes(ours_in, ours_out)
    trampoline = [sys.executable, "-I", "-S", "-c", _TO_3_AND_4, str(theirs_in), str(theirs_out)]
    try:
        process = started.launch(
            [*trampoline, *command, "--remote-debugging-pipe"], variables, descriptors=(theirs_in, theirs_out)
        )
    except BaseException:
        pipes.close()
        raise
    finally:
        os.close(theirs_in)
        os.close(theirs_out)
    return process, pipes


def _by_port(command: Sequence[str], variables: Mapping[str, str], started: Started) -> Connected:
    """Start the browser with a port on loopback: Windows passes no descriptors."""
    WebSocket.require()
    process = started.launch([*command, "--remote-debugging-port=0"], variables)
    port_file = started.profile.path / "data" / "DevToolsActivePort"

    def address() -> tuple[str, str] | None:
        lines = started.lines(port_file)
        return (lines[0], lines[1]) if len(lines) == 2 else None

    port, path = started.wait_for("an address for its driver", address, process)
    return process, WebSocket(f"ws://127.0.0.1:{port}{path}")


class _Pipes:
    """Messages that end with a zero byte, on two pipes."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def send(self, text: str) -> None:
        with memoryview(text.encode() + b"\0") as data:
            sent = 0
            while sent < len(data):
                sent += os.write(self._outgoing, data[sent:])

    def messages(self) -> Iterator[bytes]:
        rest = b""
        while block := os.read(self._incoming, 1 << 16):
            *whole, rest = (rest + block).split(b"\0")
            yield from whole

    def close(self) -> None:
        os.close(self._incoming)
        os.close(self._outgoing)


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
