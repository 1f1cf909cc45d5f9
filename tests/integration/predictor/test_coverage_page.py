"""The page of coverage: grades follow errors and counts, and counts are those of the rows that ship."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from assay.accuracy.coverage import FAIR, GOOD, LEFT_OUT_NEEDED, MODELS, coverage_page, grade
from domain.events import MEASUREMENT_RECORDED
from ingest import evidence
from predictor.artifact.artifact import load_shipped

CELL = re.compile(
    r"\*\*(?P<grade>[a-z ]+)\*\*(?: (?P<error>\d+)% of (?P<left>[\d,]+) left out,)? ?(?:(?P<rows>[\d,]+) rows)?"
)


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.fixture(scope="module")
def tables() -> list[list[list[str]]]:
    """The tables of the page, as rows of cells without their heads."""
    parts = coverage_page(load_shipped()).split("\n## ")
    rows = [[line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")] for part in parts]
    return [table[2:] for table in rows]


def test_a_grade_follows_from_the_error_and_from_how_much_was_left_out(tables: list[list[list[str]]]) -> None:
    graded = 0
    for device, *cells in tables[0]:
        assert len(cells) == len(MODELS), device
        for cell in cells:
            match = CELL.fullmatch(cell.removesuffix(" own rows only"))
            if match is None or match["error"] is None:
                assert cell == "none" or (match is not None and match["grade"] in ("rows only", "not graded", "shares"))
                continue
            graded += 1
            assert number(match["left"]) >= LEFT_OUT_NEEDED
            # The page rounds: an error at the edge may stand for either grade.
            errors = (int(match["error"]) / 100 - 0.005, int(match["error"]) / 100 + 0.00499)
            assert match["grade"] in {grade(error, 1) for error in errors}
    assert graded > 10
    assert (grade(GOOD, 1), grade(FAIR, 1), grade(FAIR + 0.01, 1)) == ("good", "fair", "poor")
    assert (grade(None, 1), grade(None, 0)) == ("rows only", "not graded")


def test_an_error_is_the_one_on_the_card(tables: list[list[list[str]]]) -> None:
    general = load_shipped().card.general
    assert general is not None
    cells = {row[0]: dict(zip(MODELS, row[1:], strict=True)) for row in tables[0]}
    for name, device in (("qualcomm npu", "Qualcomm NPU"), ("amd gpu", "AMD GPU"), ("nvidia gpu", "NVIDIA GPU")):
        score = general.scores["hardware"]["by_cell"][f"{name}|vision"]
        assert f" {score['median_ape']:.0%} of {score['rows']:,} left out," in cells[device]["vision"]


def test_rows_are_those_that_ship(tables: list[list[list[str]]]) -> None:
    shipped: Counter[str] = Counter()
    for source in evidence.sources():
        for batch in evidence.events([source.name]):
            shipped[source.name] += sum(json.loads(text)["type"] == MEASUREMENT_RECORDED for text in batch)
    counted: Counter[str] = Counter()
    cells = {(row[0], model): cell for row in tables[0] for model, cell in zip(MODELS, row[1:], strict=True)}
    for device, model, rows, sources in tables[1]:
        named = Counter(
            {name: number(count) for name, count in (entry.rsplit(" ", 1) for entry in sources.split(", "))}
        )
        assert named.total() == number(rows)
        assert f" {rows} rows" in cells[device, model]
        counted += named
    assert all(count <= shipped[name] for name, count in counted.items())
    assert counted["timm"] == shipped["timm"] and counted["ai-hub"] > 0.8 * shipped["ai-hub"]


def test_shares_of_engines_are_graded_where_three_devices_or_more_tell(tables: list[list[list[str]]]) -> None:
    rows = {(engine, platform, weights): rest for engine, platform, weights, *rest in tables[2]}
    assert ("llama.cpp", "mps", "4 bits") in rows
    for figures, devices, factor, name in rows.values():
        assert number(figures) >= number(devices) > 0
        assert (name == "assumed") == (number(devices) < 3)
        assert float(factor.removeprefix("÷× ")) > 1
