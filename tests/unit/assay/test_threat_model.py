"""docs/threat-model.md is one screen, and names only tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
PAGE = TESTS.parent / "docs" / "threat-model.md"
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_promise_names_a_test_that_is_there() -> None:
    promised = PAGE.read_text().partition("## Promised")[2].partition("## Not promised")[0]
    rows = [line for line in promised.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 10
    assert [row for row in rows if not NAMED.search(row)] == []
    assert [row for row in rows if row.count(".py") != len(NAMED.findall(row))] == []
    missing = [
        f"{file}::{name}"
        for file, name in NAMED.findall(PAGE.read_text())
        if not (TESTS / file).is_file() or name not in functions_of(TESTS / file)
    ]
    assert missing == []


def test_page_is_one_screen() -> None:
    assert len(PAGE.read_text().splitlines()) <= 70
