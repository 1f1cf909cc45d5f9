"""docs/importers.md: its table is that of the importers, and the importer that it teaches to write works."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from domain.events import decode_event, encode_event
from ingest.importers import IMPORTERS, Refused, import_paths

PAGE = (Path(__file__).parents[4] / "docs" / "importers.md").read_text()


def test_every_format_is_in_the_table_with_its_title():
    table = PAGE.partition("<!-- formats -->")[2].partition("<!-- formats end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.strip().splitlines()[2:]]
    assert {row[0].strip("`"): html.unescape(row[1]) for row in rows} == {
        name: one.title for name, one in IMPORTERS.items()
    }
    assert all(len(row) == 3 and row[2] for row in rows)


@pytest.fixture
def importer():
    code = re.search(r"<!-- importer -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    scope = {"__name__": "stopwatch"}
    exec(compile(code[1], "docs/importers.md", "exec"), scope)
    return scope["Stopwatch"]()


def test_the_importer_of_the_page_reads_the_sample_of_the_page(importer, tmp_path):
    name, sample = re.search(r"<!-- sample: (\S+) -->\n```json\n(.*?)```", PAGE, re.DOTALL).groups()
    (tmp_path / name).write_text(sample)
    importers = {**IMPORTERS, importer.name: importer}
    items = list(import_paths("auto", [tmp_path], importers))
    _, refused, measured, failed, _ = items
    assert (refused.row, refused.field, refused.content.count("\n")) == (2, "mean_s", 1)
    assert measured["data"]["metrics"] == {"latency_ms": {"mean": pytest.approx(12.1)}}
    assert measured["data"]["model"]["id"] == "google-bert/bert-base-uncased"
    assert measured["data"]["hardware"]["id"] == "nvidia-l4"
    assert measured["data"]["imported"]["original"] == {"mean_s (s)": 0.0121}
    assert failed["data"]["outcome"] == "out_of_memory"
    assert failed["data"]["hardware"]["id"] == "unknown-gpu"
    for event in items:
        assert isinstance(event, Refused) or decode_event(encode_event(event)).warnings == ()
    (tmp_path / name).write_text(refused.content.replace("fast", "0.004").replace('"0.004"', "0.004"))
    (_, mended, _) = import_paths(importer.name, [tmp_path], importers)
    assert mended["data"]["metrics"]["latency_ms"]["mean"] == pytest.approx(4.0)


def test_no_importer_takes_the_sample_of_the_page_for_its_own(importer, tmp_path):
    name, sample = re.search(r"<!-- sample: (\S+) -->\n```json\n(.*?)```", PAGE, re.DOTALL).groups()
    (tmp_path / name).write_text(sample)
    assert list(import_paths("auto", [tmp_path])) == []
