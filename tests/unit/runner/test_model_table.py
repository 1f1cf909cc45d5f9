"""The documentation's table of models is the catalogue's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from domain.catalogues.models import catalogue
from runner.models.__main__ import table, with_table

PAGE = Path(__file__).parents[3] / "docs" / "models.md"


def test_the_page_holds_the_table_as_it_is_now() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_table(text) == text, "write it anew: python -m runner.models docs/models.md"


def test_every_published_model_has_its_line_and_no_count_is_made_up() -> None:
    lines = {line.split("`")[1]: line for line in table().splitlines()[2:]}
    assert set(lines) == {m.id for m in catalogue() if not m.id.startswith("assay/")}
    assert "| 109,482,240 | `prajjwal1/bert-tiny` |" in lines["google-bert/bert-base-uncased"]
    assert "| about 149,000,000 |" in lines["allenai/longformer-base-4096"]
    assert "| none for this class |" in lines["allenai/led-base-16384"]


def test_the_command_writes_the_table_into_a_page(tmp_path) -> None:
    page = tmp_path / "models.md"
    page.write_text(PAGE.read_text(encoding="utf-8").replace("109,482,240", "1"), encoding="utf-8")
    subprocess.run([sys.executable, "-m", table.__module__, str(page)], check=True)
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks"):
        with_table("# Models")
