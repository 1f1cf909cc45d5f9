"""Other tools' files into our events: one module a format, found through IMPORTERS."""

from ingest.importers.base import Importer, Refused, Summary, import_paths, sniff
from ingest.importers.registry import IMPORTERS

__all__ = ["IMPORTERS", "Importer", "Refused", "Summary", "import_paths", "sniff"]
