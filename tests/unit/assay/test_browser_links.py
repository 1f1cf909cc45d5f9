"""What `assay browser link` prints: an address, and a QR code that holds it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import segno

from assay.cli.measure import browser_links
from assay.cli.output import captured
from domain.answers.links import Link, MadeLink
from domain.errors import PartMissing

ADDRESS = "https://assay.example.org/browser/#hjkXae2P0IaOuS8mCAOgCwMNff6mVhz0"
QUIET = 2
HALVES = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1)}
"""Dark modules above and below in one character; a terminal draws light ones."""


def made() -> MadeLink:
    now = datetime(2026, 11, 26, tzinfo=UTC)
    link = Link(
        id="3f2a90c1d477",
        state="open",
        models=["acme/tiny fp32"],
        uses=1,
        opened=0,
        created_by="local",
        created_at=now,
        expires_at=now,
    )
    return MadeLink(path="/browser/#x", link=link)


def test_the_terminal_shows_a_qr_code_of_the_address() -> None:
    with captured() as text:
        browser_links._show(ADDRESS, made())
    address, *lines = text.getvalue().splitlines()
    assert address == ADDRESS
    pairs = [[HALVES[letter] for letter in line] for line in lines]
    rows = [[pair[half] for pair in line] for line in pairs for half in (0, 1)]
    code = segno.make(ADDRESS, error="l", micro=False)
    expected = [[int(module) for module in row] for row in code.matrix]
    drawn = [row[QUIET:-QUIET] for row in rows[QUIET : QUIET + len(expected)]]
    assert drawn == expected


def test_a_missing_runtime_names_the_command_that_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    with pytest.raises(PartMissing) as missing:
        browser_links._runtime(None, ["wasm"])
    assert "assay browser install" in (missing.value.remedy or "")
