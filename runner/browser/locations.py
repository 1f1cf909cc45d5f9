"""Where browsers and the files that pages need are on this machine."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path
from typing import Literal

import msgspec

from assay.home import data_folder
from domain.errors import PartMissing, UsageError

__all__ = [
    "ENGINES",
    "BrowserProgram",
    "Engine",
    "browser_folder",
    "choose_browser",
    "chromium_fits",
    "find_browsers",
    "how_to_get",
    "onnxruntime_web",
]

Engine = Literal["chromium", "firefox", "webkit"]
ENGINES: tuple[Engine, ...] = ("chromium", "firefox", "webkit")
ONNXRUNTIME_WEB = "1.30.0"
CHROMIUM = "153.0.0"

_COMMANDS: tuple[tuple[Engine, str], ...] = (
    ("chromium", "google-chrome"),
    ("chromium", "google-chrome-stable"),
    ("chromium", "microsoft-edge"),
    ("chromium", "chromium"),
    ("chromium", "chromium-browser"),
    ("firefox", "firefox"),
)
_FIREFOX_ESR = "firefox-esr"
_MACOS: tuple[tuple[Engine, str, str], ...] = (
    ("chromium", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    ("chromium", "microsoft-edge", "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge"),
    ("chromium", "chromium", "/Applications/Chromium.app/Contents/MacOS/Chromium"),
    ("firefox", "firefox", "/Applications/Firefox.app/Contents/MacOS/firefox"),
)
_WINDOWS: tuple[tuple[Engine, str, str], ...] = (
    ("chromium", "google-chrome", "Google/Chrome/Application/chrome.exe"),
    ("chromium", "microsoft-edge", "Microsoft/Edge/Application/msedge.exe"),
    ("firefox", "firefox", "Mozilla Firefox/firefox.exe"),
)
_PROGRAM_FOLDERS = ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")
_WEBKIT_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/libexec")


class BrowserProgram(msgspec.Struct, frozen=True, kw_only=True):
    """An installed browser; `path` is private to this machine and goes into no event."""

    name: str
    engine: Engine
    path: str
    variables: dict[str, str] = {}
    """Variables that it needs to start."""
    headless_only: bool = False
    installed: bool = False
    """Put here by `assay browser install`."""


def browser_folder() -> Path:
    """Return where `assay browser install` puts files: `cache/browser` in the data directory of Assay."""
    home = os.environ.get("ASSAY_HOME")
    return (Path(home).expanduser().absolute() if home else data_folder()) / "cache" / "browser"


def onnxruntime_web(folder: Path | None = None) -> Path:
    """Return the folder with onnxruntime-web's modules and WebAssembly. Raises PartMissing where there is none."""
    path = (folder or browser_folder()) / f"onnxruntime-web-{ONNXRUNTIME_WEB}"
    if not path.is_dir():
        raise PartMissing(
            f"onnxruntime-web {ONNXRUNTIME_WEB}, which runs models in pages, is not installed.",
            remedy="assay browser install",
        )
    return path


def find_browsers(folder: Path | None = None) -> list[BrowserProgram]:
    """Return the browsers of this machine, each program once and the one to use first.

    That is the Chromium that Assay installed; Chromium's browsers come before Firefox, and that before WebKit.
    """
    programs = [*_installed_chromium(folder or browser_folder())]
    programs += [
        BrowserProgram(name=name, engine=engine, path=path)
        for engine, name in _COMMANDS
        if (path := shutil.which(name))
    ]
    if shutil.which("firefox") is None and (path := shutil.which(_FIREFOX_ESR)):
        # Debian's `firefox` is a script that starts this program.
        programs.append(BrowserProgram(name=_FIREFOX_ESR, engine="firefox", path=path))
    if sys.platform == "darwin":
        programs += [
            BrowserProgram(name=name, engine=engine, path=path) for engine, name, path in _MACOS if Path(path).is_file()
        ]
    if sys.platform == "win32":
        roots = [Path(root) for name in _PROGRAM_FOLDERS if (root := os.environ.get(name))]
        places = [(engine, name, root / path) for engine, name, path in _WINDOWS for root in roots]
        programs += [
            BrowserProgram(name=name, engine=engine, path=str(path)) for engine, name, path in places if path.is_file()
        ]
    if sys.platform == "linux":
        programs += _webkit()
    unique: dict[Path, BrowserProgram] = {}
    for program in programs:
        unique.setdefault(Path(program.path).resolve(), program)
    return sorted(unique.values(), key=lambda program: ENGINES.index(program.engine))


def choose_browser(wanted: str | None = None, *, headed: bool = False, folder: Path | None = None) -> BrowserProgram:
    """Return the browser of an engine, a name or a path; without one the first. Raises UsageError and PartMissing."""
    if wanted and (os.sep in wanted or (os.altsep and os.altsep in wanted)):
        return _at(wanted)
    programs = [program for program in find_browsers(folder) if not (headed and program.headless_only)]
    fitting = [program for program in programs if wanted in (None, program.engine, program.name)]
    if fitting:
        return fitting[0]
    if wanted is not None and wanted not in (*ENGINES, _FIREFOX_ESR, *(name for _, name in _COMMANDS)):
        raise UsageError(
            f"{wanted!r} is no browser that Assay drives.",
            field="browser",
            remedy=f"Name one of {', '.join(ENGINES)}, or the path of a program.",
        )
    raise PartMissing(
        f"{wanted or 'A browser'} was not found on this machine.",
        field="browser",
        remedy=f"{how_to_get(wanted if wanted in ENGINES else 'chromium')}; `assay browser check` shows what is here.",
    )


def how_to_get(engine: str | None) -> str:
    """Return what brings a browser of an engine to this system."""
    debian = shutil.which("apt-get") is not None
    if engine == "webkit":
        if sys.platform != "linux":
            return "WebKit is driven on Linux only"
        return "apt install webkit2gtk-driver xvfb" if debian else "install WebKitGTK with its MiniBrowser, and Xvfb"
    if engine == "firefox":
        return "apt install firefox-esr" if debian else "install Firefox"
    if chromium_fits():
        return "assay browser install" + (", or apt install chromium" if debian else "")
    return "apt install chromium" if debian else "install Chrome, Edge or Chromium"


def chromium_fits() -> bool:
    """Return whether the Chromium that Assay can install runs here: it is built for Linux on x86-64."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _installed_chromium(folder: Path) -> Iterator[BrowserProgram]:
    """Yield the Chromium of `assay browser install`. Its own libraries are used where the system has none."""
    home = folder / f"chromium-{CHROMIUM}"
    if not (home / "chromium").is_file():
        return
    variables = {}
    if find_library("nss3") is None:
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, (str(home / "lib"), os.environ.get("LD_LIBRARY_PATH")))
        )
    if not Path("/etc/fonts/fonts.conf").is_file():
        variables["FONTCONFIG_PATH"] = str(home)
    yield BrowserProgram(
        name="chromium",
        engine="chromium",
        path=str(home / "chromium"),
        variables=variables,
        headless_only=True,
        installed=True,
    )


def _webkit() -> list[BrowserProgram]:
    """Return WebKitGTK's MiniBrowser, which lies outside the path of programs; the newest interface first."""
    patterns = ("webkit*gtk-*/MiniBrowser", "*/webkit*gtk-*/MiniBrowser")
    paths = {path for root in _WEBKIT_FOLDERS for pattern in patterns for path in Path(root).glob(pattern)}
    newest = sorted(
        (path for path in paths if os.access(path, os.X_OK)), key=lambda path: path.parent.name, reverse=True
    )
    return [BrowserProgram(name="webkit", engine="webkit", path=str(path)) for path in newest[:1]]


def _at(path: str) -> BrowserProgram:
    """Return the program at a path; its engine follows from its name."""
    program = Path(path).expanduser()
    if not program.is_file() or not os.access(program, os.X_OK):
        raise UsageError(
            f"{path} is no program that can be started.",
            field="browser",
            remedy="Name the path of a browser's program.",
        )
    name = program.resolve().name.lower()
    engine: Engine = "firefox" if "firefox" in name else "webkit" if "minibrowser" in name else "chromium"
    known = next((item for item in find_browsers() if Path(item.path).resolve() == program.resolve()), None)
    return known or BrowserProgram(name=program.stem.lower(), engine=engine, path=str(program.absolute()))
