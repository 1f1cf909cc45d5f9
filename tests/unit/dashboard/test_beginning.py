from __future__ import annotations

from typing import Any

import pytest

from dashboard import beginning

FOUND = {
    "events": {"assay.measurement.recorded.v1": 1204, "assay.run.started.v1": 1}, "models": ["a", "b"], "hardware": ["h"],
    "rows_refused": 5, "refused": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "1,204 measurements of 2 models on 1 device would be added; 5 are refused."),
        ({"rows_refused": 0}, "1,204 measurements of 2 models on 1 device would be added."),
        ({"events": {}, "rows_refused": 1}, "Nothing of this can be added; 1 is refused."),
        (
            {"events": {"assay.price.recorded.v1": 1}, "rows_refused": 0},
            "1 event of 2 models on 1 device would be added.",
        ),
    ],
)
def test_a_dry_run_is_said_in_a_sentence(more: dict[str, Any], said: str) -> None:
    assert beginning.found_words(FOUND | more) == said


def test_an_import_says_what_was_new() -> None:
    assert beginning.added_words({"accepted": 1, "duplicate": 0}) == "1 event added"
    assert beginning.added_words({"accepted": 0, "duplicate": 3}) == "0 events added, 3 were there already"


def test_what_is_refused_names_the_field_and_the_first_row() -> None:
    row = {"reason": "is empty", "field": "ms", "rows": 2, "path": "a.csv", "row": None}
    columns = {column.head: column.values for column in beginning.refused_columns([row])}
    assert columns == {"Why": ["ms: is empty"], "Rows": [2], "First in": ["a.csv"]}
