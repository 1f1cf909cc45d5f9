"""What is to be exported, how, and which filters that can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from domain.errors import UsageError

__all__ = ["DOCUMENTS", "FORMATS", "NOUNS", "SUFFIXES", "ExportSelection", "format_of"]

NOUNS: Mapping[str, str | None] = {
    "events": None,
    "measurements": "measurements",
    "best": "best_measurements",
    "tests": "tests",
    "failures": "failures",
    "compatibility": "compatibility",
    "models": "models",
    "hardware": "hardware",
    "environments": "environments",
    "runs": "runs",
    "kernels": "kernels",
    "all": None,
}
"""By noun the view that it is; events are the log's, and all are the events and every view."""
SUFFIXES = {"parquet": ".parquet", "csv": ".csv", "arrow": ".arrow", "ndjson": ".ndjson"}
"""The formats of which a folder holds one file a noun, and those files' suffixes."""
DOCUMENTS = ("bmf", "github-action", "badge")
"""Formats of other tools that tell of the best measurements."""
FORMATS = (*SUFFIXES, "duckdb", *DOCUMENTS)
_BY_SUFFIX = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".duckdb": "duckdb",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".svg": "badge",
}
_OF_EVENTS = frozenset(("types", "source", "subject", "since", "until", "after", "upto"))
_OF_VIEWS = frozenset(
    (
        "model",
        "hardware",
        "platform",
        "precision",
        "mode",
        "origin",
        "category",
        "family",
        "configuration",
        "run_id",
        "batch_size",
    )
)


class ExportSelection(msgspec.Struct, frozen=True, kw_only=True):
    """One export: `filters` are those of events or of views; `columns` make folders in the order named.

    Raises UsageError where the parts do not fit together.
    """

    what: str
    format: str
    filters: dict[str, Any]
    as_of: int | None = None
    partition_by: Sequence[str] = ()
    metrics: Sequence[str] = ()
    monthly: bool = False

    def __post_init__(self) -> None:
        foreign = self.filters.keys() - (_OF_EVENTS if self.what == "events" else _OF_VIEWS)
        if self.what == "all":
            foreign = set(self.filters)
        if foreign:
            raise UsageError(
                f"{self.what} cannot be filtered by it.",
                field=sorted(foreign)[0],
                remedy="Events are filtered by type, source, subject, time and position; views by their columns; all by --as-of.",
            )
        if self.format in DOCUMENTS and self.what not in ("best", "measurements"):
            raise UsageError(
                f"{self.format} tells of measurements, not of {self.what}.", field="what", remedy="Leave out --what."
            )
        if (self.partition_by or self.monthly) and (self.format != "parquet" or self.what == "all"):
            raise UsageError(
                "only one noun as Parquet is cut into folders or months.",
                field="partition_by",
                remedy="Add --format parquet --what measurements, or leave it out.",
            )
        if self.monthly and (self.what != "events" or self.partition_by):
            raise UsageError(
                "months are of events alone.", field="monthly", remedy="Use --partition-by month for everything else."
            )
        if self.metrics and self.format not in DOCUMENTS:
            raise UsageError(f"{self.format} has every column.", field="metric", remedy="Leave out --metric.")

    @property
    def document(self) -> dict[str, Any]:
        """The filters as the card says them."""
        plain = {
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in self.filters.items()
        }
        if self.what == "events":
            plain = {"after": 0, "upto": self.as_of, "since": None, "until": None, "types": None, **plain}
        return plain | ({"as_of": self.as_of} if self.as_of is not None else {})


def format_of(path: Path, named: str | None, what: str | None, *, folder: bool) -> str:
    """Return the format: as named, else by the suffix of the path; Parquet for folders. UsageError where it is open."""
    if named is not None:
        return named
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if folder or what == "all" or (not suffix and path.is_dir()):
        return "parquet"
    raise UsageError(
        f"{path.name} says no format.",
        field="format",
        remedy=f"Add --format ({', '.join(FORMATS)}), or name a file {', '.join(_BY_SUFFIX)}.",
    )
