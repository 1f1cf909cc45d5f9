"""Media types of requests and answers; FORMATS are those of rows."""

from __future__ import annotations

__all__ = ["ARROW", "CSV", "FORMATS", "JSON", "NDJSON", "PARQUET"]

JSON = "application/json"
NDJSON = "application/x-ndjson"
CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
FORMATS = (JSON, CSV, PARQUET, ARROW)
