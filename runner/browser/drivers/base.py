"""What all drivers share: a process with a profile of its own, and the end of both.

A driver opens one address and takes no part in what the page does there. It reads nothing from the page: the page talks
to a server on loopback.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, ClassVar, Protocol

import msgspec
import psutil

from domain.errors import PartMissing, PlatformUnavailable
from runner.browser.locations import BrowserProgram
from runner.machine.scrub import scrub

__all__ = ["Channel", "Driver", "Profile", "Running", "end_processes"]

START_S = 30.0
"""How long a browser may take to start; a cold one on a loaded machine takes several seconds."""
MARK = "ASSAY_BROWSER_PROFILE"
"""The variable that every process of a browser inherits: the path of its profile."""
_END_S = 10.0
_GRACE_S = 2.0
_LOOK_S = 0.02
_LONGEST_CONSOLE = 1000


class Profile:
    """A new folder for one browser, and a process that removes both should this process be killed."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="assay-browser-"))
        root = str(Path(__file__).resolve().parents[__name__.count(".")])
        search = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        self._guard = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.guard", str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": search},
            start_new_session=True,
        )

    def environment(self) -> dict[str, str]:
        """Return the variables of a browser: on Linux its home and its temporary files are in the profile too."""
        variables = {**os.environ, MARK: str(self.path)}
        if sys.platform == "linux":
            for name in ("home", "tmp", "run"):
                (self.path / name).mkdir(mode=0o700, exist_ok=True)
            for name in (
                "XDG_CONFIG_HOME",
                "XDG_CACHE_HOME",
                "XDG_DATA_HOME",
                "XDG_STATE_HOME",
                "DBUS_SESSION_BUS_ADDRESS",
            ):
                variables.pop(name, None)
            variables |= {"HOME": str(self.path / "home"), "TMPDIR": str(self.path / "tmp")}
            variables.setdefault("XDG_RUNTIME_DIR", str(self.path / "run"))
        return variables

    def remove(self) -> None:
        """End what still uses the folder, remove it, and let the guard go."""
        end_processes(self.path)
        remove_folder(self.path)
        assert self._guard.stdin is not None
        with suppress(OSError):
            self._guard.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(_END_S)


class Running:
    """A browser with one page open. Use it as a context manager, or call `end`."""

    def __init__(
        self,
        *,
        process: subprocess.Popen[bytes],
        profile: Profile,
        version: str,
        engine: str,
        flags: Sequence[str],
        page_fault: Callable[[], str | None],
        console: Callable[[], list[str]],
        close: Callable[[], None],
    ) -> None:
        self.version, self.engine, self.flags = version, engine, tuple(flags)
        self._process, self._profile = process, profile
        self._page_fault, self._console, self._close = page_fault, console, close
        self._ended = False

    def __enter__(self) -> Running:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the browser."""
        self.end()

    @property
    def pid(self) -> int:
        """The id of the browser's first process."""
        return self._process.pid

    @property
    def profile(self) -> Path:
        """The folder that is removed with the browser."""
        return self._profile.path

    def alive(self) -> bool:
        """Return whether the browser runs and its page has not crashed."""
        return self.fault() is None

    def fault(self) -> str | None:
        """Return why the page is gone: the browser ended, or the page crashed. None while neither has happened."""
        if self._ended:
            return "the browser was ended"
        page = None if self._process.poll() is not None else self._page_fault()
        if page:
            # A browser that is killed takes its page along, and the page may be gone first.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        code = self._process.poll()
        if code is None:
            return page
        return f"the browser was ended by signal {-code}" if code < 0 else f"the browser exited with status {code}"

    def console(self) -> list[str]:
        """Return the last lines that the page wrote to its console."""
        return self._console()[-_LONGEST_CONSOLE:]

    def end(self) -> None:
        """Kill every process of the browser and remove its profile. The page is not asked. May be called twice."""
        if self._ended:
            return
        self._ended = True
        end_processes(self._profile.path, self._process)
        self._close()
        self._profile.remove()


class Driver(ABC):
    """Starts a browser and opens an address in it."""

    engine: ClassVar[str]

    def __init__(self, program: BrowserProgram, *, headed: bool = False, flags: Sequence[str] = ()) -> None:
        self.program, self.headed, self.extra = program, headed, tuple(flags)

    @abstractmethod
    def flags(self) -> tuple[str, ...]:
        """Return the switches that change what a page can do, without those of the profile and the driver."""

    @abstractmethod
    def start(self, url: str, profile: Profile, started: Started) -> Running:
        """Start the browser and open the address; what was started is in `started`, so that a failure ends it."""

    def open(self, url: str) -> Running:
        """Start the browser and open the address. Raises PlatformUnavailable, and leaves nothing, where it does not start."""
        if self.headed:
            _require_display()
        profile = Profile()
        started = Started(profile, self.program.name)
        try:
            return self.start(url, profile, started)
        except BaseException:
            end_processes(profile.path, *started.processes)
            started.close()
            profile.remove()
            raise


def _require_display() -> None:
    """Raise PlatformUnavailable where no window can be shown."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise PlatformUnavailable(
            "there is no display for a window.",
            field="headed",
            remedy="Leave --headed away, or run it in a desktop session or under xvfb-run.",
        )


class Started:
    """The processes of a browser that is starting, and what they write."""

    def __init__(self, profile: Profile, name: str) -> None:
        self.profile, self.name = profile, name
        self.processes: list[subprocess.Popen[bytes]] = []
        self.closers: list[Callable[[], None]] = []
        self.log = profile.path / "browser.log"

    def launch(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        *,
        into: Path | None = None,
        descriptors: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a program in the process group of this one; raises PlatformUnavailable where the system refuses."""
        with (into or self.log).open("ab") as log:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(variables),
                    cwd=self.profile.path,
                    pass_fds=descriptors,
                )
            except OSError as error:
                raise self.failed(f"did not start: {error.strerror}") from error
        self.processes.append(process)
        return process

    def refused(self, process: subprocess.Popen[bytes], error: OSError) -> PlatformUnavailable:
        """Return the error of a browser that did not do what its driver asked, or that ended."""
        with suppress(subprocess.TimeoutExpired):
            return self.failed(f"exited with status {process.wait(1)} before it opened the page")
        return self.failed(f"did not open the page: {error}")

    def wait_for(self, what: str, look: Callable[[], Any], process: subprocess.Popen[bytes]) -> Any:
        """Return the first true answer of `look`; raises PlatformUnavailable where the process ends or is too slow."""
        end = monotonic() + START_S
        while monotonic() < end:
            answer = look()
            if answer:
                return answer
            if process.poll() is not None:
                raise self.failed(f"exited with status {process.returncode} before it gave {what}")
            sleep(_LOOK_S)
        raise self.failed(f"did not give {what} within {START_S:g} s")

    def failed(self, what: str) -> PlatformUnavailable:
        """Return the error of a browser that did not start, with its last lines."""
        lines = [line for line in self.lines(self.log) if line.strip()][-3:]
        said = scrub(" ".join(lines), limit=600)
        return PlatformUnavailable(
            f"{self.name} {what}.{f' Its last words: {said}' if said else ''}",
            field="browser",
            remedy="`assay browser check` says what is missing; name another browser with --browser.",
        )

    def lines(self, path: Path) -> list[str]:
        """Return the lines of a file that a process writes."""
        try:
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []

    def close(self) -> None:
        """Close the connections, and collect the exit status of each process."""
        for close in self.closers:
            with suppress(Exception):
                close()
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)


class Transport(Protocol):
    """Carries messages to a browser and back."""

    def send(self, text: str) -> None:
        """Send a message."""

    def messages(self) -> Iterator[str | bytes]:
        """Yield messages until the other side is gone."""

    def close(self) -> None:
        """Free what it uses."""


class WebSocket:
    """A WebSocket as a transport."""

    def __init__(self, url: str) -> None:
        from websockets.sync.client import connect

        self._open = ExitStack()
        self._socket = self._open.enter_context(
            connect(url, max_size=None, proxy=None, open_timeout=START_S, ping_interval=None, close_timeout=1)
        )

    @staticmethod
    def require() -> None:
        """Raise PartMissing where the package that it needs is not installed."""
        if importlib.util.find_spec("websockets") is None:
            raise PartMissing(
                "this browser is driven over a WebSocket, and the package websockets is not installed.",
                remedy="pip install 'assay-bench[browser]'",
            )

    def send(self, text: str) -> None:
        """Send a message."""
        self._socket.send(text)

    def messages(self) -> Iterator[str | bytes]:
        """Yield messages until the connection ends."""
        from websockets.exceptions import WebSocketException

        with suppress(WebSocketException, OSError):
            yield from self._socket

    def close(self) -> None:
        """Close the connection."""
        with suppress(Exception):
            self._open.close()


class Channel:
    """Commands that are answered, and events: CDP and WebDriver BiDi share this form.

    It waits in the kernel, so that it takes no processor time while the page measures.
    """

    def __init__(self, transport: Transport, on_event: Callable[[str, dict[str, Any]], None]) -> None:
        self._transport = transport
        self._on_event = on_event
        self._answers: dict[int, dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self._closed = False
        self._last = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            for text in self._transport.messages():
                self._take(msgspec.json.decode(text, type=dict[str, Any]))
        finally:
            with self._arrived:
                self._closed = True
                self._arrived.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            self._on_event(message.get("method", ""), message.get("params") or {})
            return
        with self._arrived:
            self._answers[message["id"]] = message
            self._arrived.notify_all()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result. Raises OSError for an error, or where no answer comes in time."""
        self._last += 1
        number = self._last
        self._transport.send(msgspec.json.encode({"id": number, "method": method, "params": params}).decode())
        with self._arrived:
            self._arrived.wait_for(lambda: number in self._answers or self._closed, START_S)
            answer = self._answers.pop(number, None)
        if answer is None:
            raise OSError(f"{method} was not answered")
        if "error" in answer:
            raise OSError(f"{method} was refused: {answer.get('message') or answer['error']}")
        result: dict[str, Any] = answer.get("result") or {}
        return result

    def close(self) -> None:
        """Wait until the other side is gone, and free the transport. The browser has been ended before."""
        self._reader.join(_END_S)
        self._transport.close()


def end_processes(profile: Path, *processes: subprocess.Popen[bytes]) -> None:
    """Kill these processes, all that they started, and all that use the profile; return when they are gone."""
    end = monotonic() + _END_S
    while monotonic() < end:
        living = _family(profile, [process.pid for process in processes if process.poll() is None])
        if not living:
            break
        for each in living:
            with suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(living, timeout=_LOOK_S)
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)


def _family(profile: Path, pids: Sequence[int]) -> list[psutil.Process]:
    """Return the processes of a browser that run, by descent, by the variable they inherit, or by their command."""
    family: dict[int, psutil.Process] = {}
    for pid in pids:
        with suppress(psutil.Error):
            parent = psutil.Process(pid)
            family |= {each.pid: each for each in (parent, *parent.children(recursive=True))}
    for each in psutil.process_iter():
        if each.pid not in family and each.pid != os.getpid() and _uses(each, str(profile)):
            family[each.pid] = each
    return [each for each in family.values() if runs(each)]


def _uses(process: psutil.Process, profile: str) -> bool:
    with suppress(psutil.Error, OSError):
        if process.environ().get(MARK) == profile:
            return True
    with suppress(psutil.Error, OSError):
        command = process.cmdline()
        return f"{__package__}.guard" not in command and any(profile in word for word in command)
    return False


def runs(process: psutil.Process) -> bool:
    """Return whether it is more than the entry of a dead process that nobody collects."""
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def remove_folder(path: Path) -> None:
    """Remove a folder that processes which are ending may still write to."""
    end = monotonic() + _END_S
    while path.exists() and monotonic() < end:
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            sleep(_LOOK_S)
