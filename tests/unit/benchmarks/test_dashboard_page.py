"""Figures of the dashboard's benchmark in their place on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import dashboard_page
from benchmarks.lines import Limit, plain, times

PAGE = "# Page\n<!-- figures -->\nold\n<!-- /figures -->\nbetween\n<!-- peer -->\n<!-- /peer -->\nend\n"


def test_a_peers_figures_stand_beside_ours_and_leave_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_page, "RESULTS", tmp_path / "results")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    line = times("100 compared", "s", [1.0, 1.2, 1.1], [2.0, 2.2, 2.4], "the MLflow UI")
    dashboard_page.keep("peer", [line], {"rows": 1_000_000, "runs": 1000}, 0.5, page)
    text = page.read_text()
    assert "<!-- figures -->\nold\n<!-- /figures -->\nbetween" in text
    assert "1,000 of them in MLflow as runs" in text
    assert "| 100 compared | 1.1 s | 2.2 s | 2 |\n<!-- /peer -->" in text
    assert [one.name for one in (tmp_path / "results").iterdir()] == ["dashboard-peer.json"]


def test_a_figure_stands_beside_its_bar() -> None:
    line = plain("overview: warm", "s", [0.7, 0.8, 1.4], Limit(bar=1.0, most=True))
    assert dashboard_page.row(line) == "overview: warm | 0.8 s | ≤ 1 | yes"
