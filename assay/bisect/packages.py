"""The versions of a Python package between two of them, each installed into a virtual environment of its own."""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from assay.bisect.measuring import execute, tail
from assay.bisect.versions import Prepared, Unbuildable, Version
from domain.errors import PartMissing, UsageError

__all__ = ["Packages"]

_COMPLETE = ".complete"
_OTHER_PYTHON = re.compile(rb"#!\s*(/\S*/python[\d.]*)\s")
"""Begins a script that pip installed. One that begins with `/usr/bin/env python` takes the first Python on the path."""
_AVAILABLE = "Available versions:"


class Packages:
    """The versions of a package from `good` to `bad`, forward or backward, as pip lists them for this Python.

    `command` is what will run in each of them. `requirements` are installed beside it. With `overlay` an environment also has the packages of the one that runs
    Assay, and only the package itself is installed. Environments are below `folder`; `arguments` go to pip.
    """

    def __init__(
        self,
        package: str,
        good: str,
        bad: str,
        *,
        command: str,
        folder: Path,
        requirements: Sequence[str] = (),
        arguments: str = "",
        overlay: bool = False,
        build: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.package = package
        self._arguments = _split(arguments)
        self.versions = _between(package, good, bad, self._arguments)
        self.notes: list[str] = []
        self._command = command
        self._folder = folder
        self._requirements = list(requirements)
        self._overlay = overlay
        self._build = build
        self._timeout_s = timeout_s

    def prepare(self, index: int, log: Path) -> Prepared:
        """Install a version and return its environment; Unbuildable where pip or the build fails."""
        version = self.versions[index].name
        place = self._folder / version
        scripts = place / ("Scripts" if sys.platform == "win32" else "bin")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
        environment |= {
            "PATH": os.pathsep.join((str(scripts), environment.get("PATH", ""))),
            "VIRTUAL_ENV": str(place),
            "ASSAY_BISECT_VERSION": version,
        }
        if not (place / _COMPLETE).exists():
            shutil.rmtree(place, ignore_errors=True)
            try:
                self._install(version, place, scripts, environment, log)
            except Unbuildable:
                shutil.rmtree(place, ignore_errors=True)
                raise
            _require_inside(self._command, scripts)
            (place / _COMPLETE).touch()
        return Prepared(folder=Path.cwd(), environment=environment)

    def _install(self, version: str, place: Path, scripts: Path, environment: dict[str, str], log: Path) -> None:
        python = scripts / ("python.exe" if sys.platform == "win32" else "python")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-input"]
        # A source distribution of an old version seldom builds, and takes long.
        wheel = ["--only-binary", self.package, *self._arguments]
        commands: list[str | list[str]] = [[sys.executable, "-m", "venv", "--without-pip", str(place)]]
        wanted = f"{self.package}=={version}"
        if self._overlay:
            commands.append([*pip, *wheel, "--no-deps", "--no-warn-conflicts", wanted])
            if self._requirements:
                commands.append([*pip, *wheel, *self._requirements])
        else:
            commands.append([*pip, *wheel, wanted, *self._requirements])
        commands += [self._build] if self._build is not None else []
        for command in commands:
            run = execute(command, folder=Path.cwd(), environment=environment, output=log, timeout_s=self._timeout_s)
            if run.timed_out or run.code != 0:
                name = "the build" if isinstance(command, str) else "its installation"
                raise Unbuildable(f"{name} {'took too long' if run.timed_out else f'ended with {run.code}'}{tail(log)}")
            if self._overlay and command is commands[0]:
                _see_this_environment(place, python)

    def retain(self, indices: set[int]) -> None:
        """Remove the environments of all other versions."""
        kept = {self.versions[index].name for index in indices}
        for place in self._folder.iterdir() if self._folder.is_dir() else ():
            if place.name not in kept:
                shutil.rmtree(place, ignore_errors=True)

    def close(self) -> None:
        """Keep the environments: a search that goes on needs them again."""

    def remove_stale(self) -> None:
        """Do nothing: an environment that is not complete is made anew."""


def _see_this_environment(place: Path, python: Path) -> None:
    """Let the new environment find the packages of this one after its own, and give it their commands."""
    for site in place.glob("[Ll]ib*/**/site-packages"):
        folder = sysconfig.get_path("purelib")
        (site / "assay-bisect.pth").write_text(f"import site; site.addsitedir({folder!r})\n", encoding="utf-8")
    if sys.platform == "win32":
        return
    for entry in importlib.metadata.entry_points(group="console_scripts"):
        lines = (f"#!{python}", "import sys", f"import {entry.module}", f"sys.exit({entry.module}.{entry.attr}())")
        script = python.with_name(entry.name)
        if not script.exists():
            script.write_text("\n".join(lines) + "\n", encoding="utf-8")
            script.chmod(0o755)


def _require_inside(command: str, scripts: Path) -> None:
    """Raise UsageError where a command is a script of another Python, which would not see the version."""
    word = command.split(maxsplit=1)[0] if command.split() else ""
    program = shutil.which(word, path=f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None or Path(program).parent == scripts:
        return
    with Path(program).open("rb") as file:
        other = _OTHER_PYTHON.match(file.read(200))
    if other is not None:
        raise UsageError(
            f"{word} belongs to {other[1].decode(errors='replace')}, which would not see the version that is measured.",
            field="run",
            remedy=f"Add --overlay, or install it beside each version: --with {Path(word).name}.",
        )


def _split(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments, posix=sys.platform != "win32")
    except ValueError as error:
        raise UsageError(
            f"{arguments!r} cannot be split into words: {error}.",
            field="pip_arguments",
            remedy="Close each quotation mark.",
        ) from error


def _between(package: str, good: str, bad: str, arguments: Sequence[str]) -> list[Version]:
    """Return the versions from good to bad; UsageError where one is not there."""
    if good == bad:
        raise UsageError(f"{good} and {bad} are the same version.", field="bad", remedy="Name two different ones.")
    names = _available(package, arguments)
    for field, version in (("good", good), ("bad", bad)):
        if version not in names:
            near = difflib.get_close_matches(version, names, n=4, cutoff=0.3) or names[-4:]
            raise UsageError(
                f"{package} {version} cannot be installed for Python {sys.version_info[0]}.{sys.version_info[1]}.",
                field=field,
                remedy=f"Near it are {', '.join(near)}; --pip-arguments=--pre also lists pre-releases.",
            )
    first, last = names.index(good), names.index(bad)
    between = names[first : last + 1] if first < last else names[last : first + 1][::-1]
    return [Version(name=name) for name in between]


def _available(package: str, arguments: Sequence[str]) -> list[str]:
    """Return the versions that pip can install here, the oldest first."""
    if re.fullmatch(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", package) is None:
        raise UsageError(
            f"{package!r} is not the name of a package.",
            field="package",
            remedy="Name it as pip does, without a version.",
        )
    if importlib.util.find_spec("pip") is None:
        raise PartMissing("bisecting a package needs pip.", remedy=f"{sys.executable} -m ensurepip")
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--no-input", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    line = next((line for line in answer.stdout.splitlines() if line.startswith(_AVAILABLE)), None)
    if answer.returncode != 0 or line is None:
        lines = [line for line in answer.stderr.splitlines() if line.startswith("ERROR")]
        raise UsageError(
            f"pip lists no versions of {package}: {lines[-1].removeprefix('ERROR: ') if lines else answer.stderr.strip()}.",
            field="package",
            remedy="Check the name and the network; --pip-arguments names another index.",
        )
    return [name.strip() for name in line.removeprefix(_AVAILABLE).split(",")][::-1]
