from __future__ import annotations

from typing import Any

from presentation.reports.writing import as_markdown


def rows_of(text: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]


def test_tables_keep_their_columns_whatever_a_cell_holds(row: Any, report: Any) -> None:
    text = as_markdown(report(row(model_id="acme/a|b\n`c`<script>")))
    widths = {len(cells) for cells in rows_of(text.split("## Evidence")[0].replace("\\|", ""))}
    assert len(widths) == 1
    assert "acme/a\\|b \\`c\\`\\<script\\>" in text


def test_the_text_says_position_question_evidence_and_how_to_make_it_again(report: Any) -> None:
    text = as_markdown(report())
    assert text.startswith("# Performance\n\n*Which?*\n")
    assert "Position 4,321 of the log" in text
    assert "## Evidence" in text and "00000000-0000-7000-8000-000000000001" in text
    assert text.rstrip().endswith("`assay report performance --as-of 4321`")


def test_events_link_to_the_server_that_was_named(report: Any) -> None:
    text = as_markdown(report(server="https://assay.example"))
    assert "[00000001](https://assay.example/v1/events/00000000-0000-7000-8000-000000000001)" in text


def test_a_long_table_is_cut_and_says_so(row: Any, report: Any) -> None:
    text = as_markdown(report(*(row() for _ in range(60))), top=40)
    assert "The first 40 of 60 rows" in text
    assert len(rows_of(text.split("## Evidence")[1])) == 42


def test_a_doubt_is_said_in_words(report: Any) -> None:
    assert "⚠ suspect" in as_markdown(report())
