"""Against a baseline: sides of a comparison read from a service or a file, and what came of it written for people and CI."""

from __future__ import annotations

from assay.regressions.reading import read_side, read_thresholds, write_side
from assay.regressions.writing import FORMATS, junit, markdown, sarif, written
from domain.comparison.comparison_input import ComparisonInput, row_of_event

__all__ = [
    "FORMATS",
    "ComparisonInput",
    "junit",
    "markdown",
    "read_side",
    "read_thresholds",
    "row_of_event",
    "sarif",
    "write_side",
    "written",
]
