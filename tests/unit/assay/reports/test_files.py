from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from domain.errors import UsageError
from presentation.reports import writing
from presentation.reports.content import ReportQuestion
from presentation.reports.files import as_csv, as_json, defused


def cells(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_text_that_a_spreadsheet_would_run_is_defused(text: str) -> None:
    assert defused(text) == f"'{text}"
    assert defused("acme/tiny") == "acme/tiny"


def test_csv_holds_raw_values_position_and_events_and_defuses_only_text(row: Any, report: Any) -> None:
    made = report(row(10.0, model_id="=cmd()", peak_memory_bytes=None))
    (table,) = (table for table in made.tables() if table.name == "configurations")
    (found,) = cells(as_csv(made, table))
    assert found["model"] == "'=cmd()"
    assert (found["latency_ms"], found["peak_memory_bytes"], found["as_of"]) == ("10.0", "", "4321")
    assert found["evidence"] == "00000000-0000-7000-8000-000000000001"
    (below,) = cells(as_csv(made, table._replace(rows=[{**table.rows[0], "latency_ms": -1.5}])))
    assert below["latency_ms"] == "-1.5"


def test_json_holds_every_row_with_position_filters_and_evidence(row: Any, report: Any) -> None:
    made = report(*(row() for _ in range(60)), asked=ReportQuestion(kind="performance", precision=("fp16", "int8")))
    found = json.loads(as_json(made))
    assert (found["report"], found["position"], found["filters"]) == ("performance", 4321, {"precision": "fp16,int8"})
    (table,) = (part for part in found["sections"][0]["parts"] if "table" in part)
    assert (len(table["rows"]), len(found["evidence"])) == (60, 60)
    assert table["rows"][0]["evidence"] == [found["evidence"][0]["event_id"]]


@pytest.mark.parametrize(
    ("form", "out", "expected"),
    [
        (None, "a.html", "html"),
        ("csv", "a.html", "csv"),
        (None, "a.PNG", "png"),
        (None, "folder", "html"),
        (None, None, "md"),
    ],
)
def test_the_format_is_asked_for_or_that_of_the_suffix(form: str | None, out: str | None, expected: str) -> None:
    assert writing.format_of(form, Path(out) if out else None) == expected


def test_an_unknown_suffix_is_refused() -> None:
    with pytest.raises(UsageError, match="format"):
        writing.format_of(None, Path("a.docx"))


def test_a_folder_gets_every_table_and_every_picture(report: Any, tmp_path: Path) -> None:
    assert {path.name for path in writing.files(report(), "csv", tmp_path)} == {"configurations.csv", "evidence.csv"}
    (picture,) = writing.files(report(), "svg", tmp_path).items()
    assert picture[0].name == "pic.svg"
    assert b"position 4,321" in picture[1]
    (page,) = writing.files(report(), "html", tmp_path)
    assert page == tmp_path / "performance.html"


def test_markdown_has_its_pictures_beside_it_or_none(report: Any, tmp_path: Path) -> None:
    found = writing.files(report(), "md", tmp_path / "a b.md")
    *pictures, text = found
    assert pictures == [tmp_path / "a b-pictures" / "pic.svg"]
    assert "![A picture](a%20b-pictures/pic.svg)" in found[text].decode()
    (alone,) = writing.files(report(), "md", tmp_path / "b.md", pictures=False).values()
    assert b"![" not in alone


def test_one_part_is_chosen_by_name_and_others_are_listed(report: Any) -> None:
    assert b"reasons" in writing.rendered(report(), "csv", part="evidence").splitlines()[0]
    with pytest.raises(UsageError, match="configurations, evidence"):
        writing.rendered(report(), "csv", part="nobody")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.md"
    writing.write({target: b"one"})
    with pytest.raises(UsageError, match="exists"):
        writing.write({target: b"two"})
    with pytest.raises(TypeError):
        writing.write({target.with_name("b.md"): b"two", target: None}, force=True)  # type: ignore[dict-item]
    assert target.read_bytes() == b"one"
    assert [path.name for path in target.parent.iterdir()] == ["a.md"]


def test_a_subject_becomes_a_safe_file_name() -> None:
    assert writing.stem(ReportQuestion(kind="model", subject="../a b/c:d")) == "model-a-b-c-d"
