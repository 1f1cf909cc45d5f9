"""The import contracts of pyproject.toml hold the floors of the house: each forbidden import breaks one of them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder with the packages that the contracts name, all of them empty."""
    floors = next(one["layers"] for one in CONFIG["contracts"] if one["type"] == "layers")
    rooms = {room for floor in floors for room in floor.replace("|", ":").replace(" ", "").split(":")}
    for name in sorted({*CONFIG["root_packages"], *rooms}):
        package = tmp_path.joinpath(*name.split("."))
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
    return tmp_path


def contracts_kept(house: Path) -> bool:
    program = (
        "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(sys.argv[1], no_cache=True))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "pyproject.toml")],
        cwd=house,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Contracts: " in run.stdout, run.stdout + run.stderr
    return run.returncode == 0


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("dashboard", "assay.client"),
        ("runner", "assay.client"),
        ("api", "predictor"),
        ("predictor", "ingest"),
        ("presentation", "domain"),
        ("assay.cli", "dashboard"),
        ("assay.service", "api"),
    ],
)
def test_imports_down_the_floors_are_kept(importer, imported, house):
    add_import(house, importer, imported)
    assert contracts_kept(house)


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("domain", "ingest"),
        ("domain", "httpx"),
        ("assay.client", "runner"),
        ("ingest", "runner"),
        ("ingest", "assay.client"),
        ("runner", "ingest"),
        ("runner", "assay.cli"),
        ("presentation", "dashboard"),
        ("presentation", "ingest"),
        ("predictor", "presentation"),
        ("predictor", "torch"),
        ("api", "runner"),
        ("api", "presentation"),
        ("dashboard", "ingest"),
        ("dashboard", "predictor"),
        ("dashboard", "assay.cli"),
    ],
)
def test_an_import_against_the_floors_is_refused(importer, imported, house):
    add_import(house, importer, imported)
    assert not contracts_kept(house)


def add_import(house: Path, importer: str, imported: str) -> None:
    (house.joinpath(*importer.split(".")) / "violation.py").write_text(f"import {imported}\n")
