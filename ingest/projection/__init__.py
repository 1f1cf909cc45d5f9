"""The projection: DuckDB tables made from the log, which can be thrown away and made again."""

from ingest.projection.tables import Tables

__all__ = ["Tables"]
