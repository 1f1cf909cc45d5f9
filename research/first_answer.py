"""How long does the first answer take on a fresh machine, and how large is what is installed for it?

    python -m research.first_answer [--repeats 5]

Builds the wheel, installs it in a new environment without any extra, and asks a question there, from an empty cache of
pip and from a full one. Then it asks again, and sums up the wheels that were fetched.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
QUESTION = ("recommend", "bert-base-uncased")
TREES = ("numpy", "lightgbm", "scipy", "narwhals")
"""LightGBM and what it needs, which the size is told without."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the medians in s and the sizes in MB."""
    parser = argparse.ArgumentParser(prog="python -m research.first_answer", description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5, help="new environments of each kind (%(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="assay-first-") as name:
        folder = Path(name)
        wheel = _built(folder / "dist")
        _sizes(wheel, folder / "wheels")
        cache = folder / "pip-cache"
        _installed(wheel, folder / "warming", cache)
        for title, kept in (("empty cache", None), ("full cache", cache)):
            runs = [_first(wheel, folder / f"{title}-{index}", kept) for index in range(options.repeats)]
            installing, first, again = (statistics.median(part) for part in zip(*runs, strict=True))
            print(f"{title}: installation {installing:.1f} s, first answer {first:.2f} s, again {again:.2f} s")


def _built(folder: Path) -> Path:
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _sizes(wheel: Path, folder: Path) -> None:
    _run(sys.executable, "-m", "pip", "download", "-q", "-d", str(folder), str(wheel))
    sizes = {path.name: path.stat().st_size / 1e6 for path in folder.glob("*.whl")}
    trees = sum(size for name, size in sizes.items() if name.startswith(TREES))
    own = wheel.stat().st_size / 1e6
    others = sum(sizes.values()) - trees - own
    print(f"wheels: Assay {own:.1f} MB, others {others:.1f} MB, numpy and LightGBM with what it needs {trees:.1f} MB")


def _first(wheel: Path, folder: Path, cache: Path | None) -> tuple[float, float, float]:
    begun = time.monotonic()
    assay = _installed(wheel, folder / "venv", cache)
    installed = time.monotonic()
    environment = {**os.environ, "ASSAY_HOME": str(folder / "home")}
    times = []
    for _ in range(2):
        asked = time.monotonic()
        subprocess.run([assay, *QUESTION], env=environment, cwd=folder, check=True, capture_output=True)
        times.append(time.monotonic() - asked)
    return installed - begun, times[0], times[1]


def _installed(wheel: Path, venv: Path, cache: Path | None) -> str:
    _run(sys.executable, "-m", "venv", str(venv))
    options = ["--no-cache-dir"] if cache is None else ["--cache-dir", str(cache)]
    _run(str(venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *options, str(wheel))
    return str(venv / "bin" / "assay")


def _run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
