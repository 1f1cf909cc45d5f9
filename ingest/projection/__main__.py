"""`python -m ingest.projection` prints the reference of the tables: docs/tables.md."""

from __future__ import annotations

import sys

from ingest.projection.reference import page

__all__: list[str] = []

if __name__ == "__main__":
    sys.stdout.write(page())
