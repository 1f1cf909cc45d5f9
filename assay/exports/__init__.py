"""Taking data along: events and views as files of other tools, each saying of which state of the log it is."""

from __future__ import annotations

from assay.exports.card import Card
from assay.exports.wanted import FORMATS, NOUNS, ExportSelection, format_of
from assay.exports.writing import export
from assay.staging import Staged

__all__ = ["FORMATS", "NOUNS", "Card", "ExportSelection", "Staged", "export", "format_of"]
