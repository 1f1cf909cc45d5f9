"""A working folder with files named like the packages of Assay; each ends the process that imports it."""

from __future__ import annotations

from pathlib import Path

PACKAGES = ("alembic", "api", "dashboard", "domain", "ingest", "predictor", "presentation", "runner")


def hostile_folder(folder: Path) -> Path:
    """Fill a folder with such files, and return it."""
    for name in PACKAGES:
        (folder / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the working folder was imported')\n")
    return folder
