"""Other tools' files into our events: one module a format, found through IMPORTERS."""

from ingest.importers.base import Importer, Watcher
from ingest.importers.files import File
from ingest.importers.refusals import Refused
from ingest.importers.registry import IMPORTERS, import_paths, sniff
from ingest.importers.summary import Summary

__all__ = ["IMPORTERS", "File", "Importer", "Refused", "Summary", "Watcher", "import_paths", "sniff"]
