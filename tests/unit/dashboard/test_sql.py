from __future__ import annotations

import random
import string
from typing import Any

import pytest

from dashboard.address import parameters
from dashboard.screens.query.words import EXAMPLES, Query, addressed, drawing, line_of, packed, read_query, unpacked

KINDS = {"hardware_id": "VARCHAR", "platform": "VARCHAR", "day": "DATE", "batch": "BIGINT", "speed": "DOUBLE"}


def columns(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "type": KINDS[name]} for name in names]


def read(asked: Query) -> tuple[Query, list[str]]:
    found = read_query(parameters(asked))
    return found.asked, found.dropped


def test_a_query_comes_back_from_its_address() -> None:
    asked = Query(q="SELECT 1 AS a\nFROM runs -- it's", kind="line", x="a", y="b", colour="c", scale="log", as_of=7)
    assert read(asked) == (asked, [])


def test_a_long_text_is_packed_and_comes_back() -> None:
    sql = "SELECT " + ", ".join(f"latency_p50_ms * {place} AS a{place}" for place in range(200)) + " FROM measurements"
    view = addressed(sql, Query(q="SELECT 1", kind="bar"))
    assert (view.q, view.kind) == ("", "bar")
    assert len(view.saved) < len(sql) / 3
    found, dropped = read(view)
    assert (unpacked(found.saved), dropped) == (sql, [])
    short = addressed("SELECT 1", view)
    assert (short.q, short.saved) == ("SELECT 1", "")


def test_what_no_address_holds_is_in_none() -> None:
    noise = "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=12_000))
    view = addressed(f"SELECT '{noise}'", Query(q="SELECT 1"))
    assert (view.q, view.saved) == ("", "")


@pytest.mark.parametrize("saved", ["%%%", "abcd", packed("SELECT 1")[:-4], packed("x" * 30_000), "é"])
def test_a_damaged_packed_text_is_named(saved: str) -> None:
    found = read_query({"saved": [saved]})
    assert found.asked.saved == ""
    assert "saved=" in found.dropped[0]


def test_a_text_that_is_too_long_for_a_query_is_named() -> None:
    found = read_query({"q": ["S" * 20_001]})
    assert found.asked.q == ""
    assert "20,000 characters" in found.dropped[0]


@pytest.mark.parametrize(
    ("detail", "line"),
    [
        ('Parser Error: syntax error at or near "x"  LINE 2: FROM x', (2, "FROM measurments")),
        ("Catalog Error: Table with name measurments does not exist!", (2, "FROM measurments")),
        ('Binder Error: Referenced column "nope" not found in FROM clause!', (1, "SELECT nope")),
        ("it needs more memory than the 512 MiB of a query.", None),
        ("LINE 9: of another text", None),
    ],
)
def test_the_line_of_an_error(detail: str, line: Any) -> None:
    assert line_of(detail, "SELECT nope\nFROM measurments") == line


def test_a_result_is_drawn_by_its_types() -> None:
    assert drawing(columns("hardware_id", "platform", "speed"), Query()) == ("bar", "hardware_id", "speed", "platform")
    assert drawing(columns("batch", "speed"), Query()) == ("point", "batch", "speed", None)
    assert drawing(columns("day", "batch", "speed"), Query()) == ("line", "day", "speed", None)
    assert drawing(columns("platform", "speed"), Query()) == ("bar", "platform", "speed", None)


def test_what_is_asked_for_is_drawn_and_what_is_not_there_is_not() -> None:
    found = columns("hardware_id", "platform", "batch", "speed")
    asked = Query(kind="point", x="speed", y="batch", colour="hardware_id")
    assert drawing(found, asked) == ("point", "speed", "batch", "hardware_id")
    assert drawing(found, Query(x="gone", y="gone", colour="gone")) == ("bar", "hardware_id", "speed", "platform")


def test_without_numbers_beside_something_nothing_is_drawn() -> None:
    assert drawing(columns("hardware_id", "platform"), Query()) is None
    assert drawing(columns("speed"), Query()) is None


def test_there_are_eight_examples_that_fit_an_address() -> None:
    assert len(EXAMPLES) == len({one.title for one in EXAMPLES}) == 8
    assert all(addressed(one.sql, Query()).q == one.sql for one in EXAMPLES)
