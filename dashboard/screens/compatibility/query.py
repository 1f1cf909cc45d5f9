"""What the Compatibility page asks of the service."""

from __future__ import annotations

from dashboard.downloads import table_files
from dashboard.frame import Download
from dashboard.screens.compatibility.words import Parameters
from dashboard.service import checked, client, decoded, kept
from domain.answers.compatibility import CellCase, CellMeasurement, ClaimRow, CompatibilityMatrix

__all__ = ["cells", "claims", "matrix", "matrix_files", "measured", "near"]

MOST_CELLS = 1000


@kept(max_entries=64)
def matrix(request: Parameters, position: int) -> CompatibilityMatrix:
    """Return one page of the matrix: rows with their cells as `items`, and the totals of all that match."""
    answer = client().compatibility_matrix(as_of=position, **request)
    return decoded(checked(dict(answer), "items", "total", "platforms", "cells"), CompatibilityMatrix)


def matrix_files(name: str, request: Parameters, position: int) -> list[Download]:
    """Offer every cell of the page with every member that the service sends, asked for when a file is."""
    item = client()
    return table_files(
        name,
        lambda: [
            {"name": row["name"], "category": row["category"], **cell}
            for row in item.compatibility_matrix(as_of=position, **request)["items"]
            for cell in row["cells"]
        ],
        as_of=position,
    )


@kept(max_entries=64)
def cells(request: dict[str, str], position: int) -> list[CellCase]:
    """Return what was seen of some models on a platform, one row a precision; a thousand at most."""
    rows = client().compatibility(as_of=position, limit=MOST_CELLS, **request)
    return [decoded(row, CellCase) for row in rows]


@kept(max_entries=64)
def claims(platform: str, position: int) -> list[ClaimRow]:
    """Return what documents claim of a platform, beside what was seen."""
    return [decoded(row, ClaimRow) for row in client().claims(platform=platform, as_of=position)]


@kept(max_entries=64)
def measured(model: str, platform: str, hardware: str | None, position: int) -> list[CellMeasurement]:
    """Return the best measurement of each configuration of a model on a platform, fastest an item first."""
    answer = client().compare_hardware(model, platform=platform, hardware=hardware, as_of=position)
    return [decoded(row, CellMeasurement) for row in checked(dict(answer), "rows")["rows"]]


@kept(max_entries=64)
def near(name: str, position: int) -> list[str]:
    """Return the models that a part of a name, or a mistyped one, may mean."""
    return [str(row["id"]) for row in client().models(search=name, as_of=position, limit=5)]
