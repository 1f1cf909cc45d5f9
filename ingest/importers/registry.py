"""The formats that are built in, by the name that users type."""

from __future__ import annotations

from ingest.importers.base import Importer
from ingest.importers.timm import Timm

__all__ = ["IMPORTERS"]

IMPORTERS: dict[str, Importer] = {importer.name: importer for importer in (Timm(),)}
