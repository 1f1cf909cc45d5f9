"""Lines of the accuracy benchmark: bars, reaches, and what the kept results say of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from benchmarks import accuracy
from predictor.features.shipped_traces import shipped_models

NAMES = (*accuracy.LINES, *accuracy.OTHERS)


@pytest.mark.parametrize("name", NAMES)
def test_every_bar_has_a_reach_below_it(name: str) -> None:
    line = accuracy.shaped(name)
    assert line.bars and line.bars.keys() == line.reach.keys()
    assert all(0 < line.reach[of] < bar for of, bar in line.bars.items())


@pytest.mark.parametrize("path", sorted(accuracy.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_kept_results_hold_the_bars_of_today(path: Path) -> None:
    line = accuracy.shaped(path.stem)
    assert json.loads(path.read_text())["line"] == msgspec.json.decode(msgspec.json.encode(line))


def test_bars_are_written_into_results_without_measuring(tmp_path: Path) -> None:
    name = "openvino-5"
    shutil.copy(accuracy.RESULTS / f"{name}.json", tmp_path)
    path = tmp_path / f"{name}.json"
    measured = json.loads(path.read_text())
    path.write_text(json.dumps({**measured, "line": {"title": "old", "bars": {"all": 0.5}}}))
    assert accuracy.write_bars(tmp_path) == [name]
    assert json.loads(path.read_text()) == measured


def test_without_a_file_the_traces_that_ship_are_taken() -> None:
    models = frozenset(sorted(name for name in shipped_models() if name.startswith("timm/"))[:3])
    book = accuracy.book_of(None, models)
    assert all(book.traces(model) for model in models)
