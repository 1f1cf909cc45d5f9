"""A run in words."""

from __future__ import annotations

from presentation.run_progress import source_words


def test_source_says_how_the_log_knows_it():
    assert source_words("urn:acme:one", "signed") == "urn:acme:one (signed)"
    assert source_words("urn:acme:one", None) == "urn:acme:one"
    assert source_words("urn:acme:one", "bound", "lab") == "urn:acme:one (bound, from peer lab)"
