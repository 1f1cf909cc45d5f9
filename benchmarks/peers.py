"""The peers' own environments in .bench-venv, made from their pins; and one of their programs as a child."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.bench import Bench
from benchmarks.serving import ROOT

__all__ = ["Peer", "environment", "pinned"]

FOLDER = ROOT / ".bench-venv"


def environment(name: str) -> Path:
    """Return the interpreter of an environment made from the pins of `<name>.txt`; it is made anew where they changed."""
    requirements, folder = Path(__file__).with_name(f"{name}.txt"), FOLDER / name
    python, stamp = folder / "bin" / "python", folder / ".complete"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    print(f"fetching the packages of {requirements.name} into .bench-venv", file=sys.stderr)
    venv.create(folder, with_pip=True, clear=True)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        raise RuntimeError(f"they cannot be fetched, check the network: {lines[-1] if lines else ''}")
    stamp.write_text(wanted)
    return python


def pinned() -> list[str]:
    """Return the peers with their versions."""
    return [
        one for one in Path(__file__).with_name("peers.txt").read_text().splitlines() if one and not one.startswith("#")
    ]


class Peer:
    """A program of benchmarks/programs that answers each line it is sent with one line of JSON; a context manager."""

    def __init__(self, bench: Bench, program: str, *arguments: str, ours: bool = False) -> None:
        """Start it in the peers' environment, or with `ours` in our own."""
        python = sys.executable if ours else str(environment("peers"))
        command = [python, str(ROOT / "benchmarks" / "programs" / f"{program}.py"), *arguments]
        if ours:
            command = [python, "-m", f"benchmarks.programs.{program}", *arguments]
        self._log = (bench.folder() / "peer.log").open("w+b")
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Id of its process."""
        return self._process.pid

    def tell(self, line: str) -> None:
        """Send a line without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """Return the next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"a peer ended: {self._log.read().decode(errors='replace')[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line and return its answer."""
        self.tell(line)
        return self.hear()

    def end(self) -> None:
        """Say that no more lines come."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
