"""Documentation names only files and modules that exist, and the map of the code names every room."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PRODUCT = ("domain", "ingest", "runner", "predictor", "api", "presentation", "assay", "dashboard")
PACKAGES = "|".join((*PRODUCT, "benchmarks", "research", "tests", "alembic"))
FILE = re.compile(rf"`(?:python )?((?:{PACKAGES})/[\w/.-]*(?:/|\.[a-z.]+))[` ]")
MODULE = re.compile(rf"`(?:python -m )?((?:{PACKAGES})(?:\.\w+)+)[`( ]")
NOT_MODULES = (
    *("assay.platforms", "assay.position", "assay.schema_version", "assay.filters", "assay.export"),
    *("assay.operation.performed", "assay.samples.recorded", "assay.example.org"),
)
"""An entry point group, keys and tables of exported files, types of events without a version, and an example host."""


def _exists(dotted: str) -> bool:
    """Whether the name is a module, a package, or a member that such a module mentions."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if place.is_dir() and length == len(parts):
            return True
        if source.is_file():
            return length == len(parts) or re.search(rf"\b{parts[length]}\b", source.read_text()) is not None
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_module_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    files = [name for name in FILE.findall(text) if not (ROOT / name).exists()]
    modules = [name for name in MODULE.findall(text) if name not in NOT_MODULES and not re.search(r"\.v\d+$", name)]
    assert not files
    assert not [name for name in modules if not _exists(name)]


def test_the_map_names_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    rooms = [
        f"`{file.parent.parent.name}.{file.parent.name}`"
        for top in PRODUCT
        for file in (ROOT / top).glob("*/__init__.py")
    ]
    assert rooms and not [room for room in rooms if room not in text]
