"""The media types that rows are answered in."""

from __future__ import annotations

__all__ = ["ARROW", "CSV", "FORMATS", "JSON", "PARQUET"]

JSON = "application/json"
CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
FORMATS = (JSON, CSV, PARQUET, ARROW)
