"""The benchmark of growth: its sizes, how it goes on after a kill, and how its results are shown."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import page
from benchmarks.growth_page import PANELS, grown, picture, section, shortages
from benchmarks.lines import Line, plain
from benchmarks.rows import growth
from benchmarks.rows.growth import CURVES, Progress, sizes

STOPPED = """
import os, signal, sys
from pathlib import Path
from benchmarks.rows.growth import Progress
progress = Progress(Path(sys.argv[1]))
progress.part("first", 1000, lambda: {"append": [1.0, 2.0]})
progress.part("second", 1000, lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


def document(exponent: float = 1.0, sizes_of_log: list[int] | None = None) -> dict[str, Any]:
    """Return a result file of curves that all grow with the same exponent."""
    lines = [plain("room", "bytes", [1e12], curve="disk")]
    for name, curve in CURVES.items():
        of = sizes(100_000) if curve.of != "events" else sizes_of_log or sizes(1_000_000)
        lines += [
            plain(
                f"{curve.what}, {size}",
                curve.unit,
                [0.9 * size**exponent, size**exponent, 2 * size**exponent],
                curve=name,
                size=size,
            )
            for size in of
        ]
    machine = {
        "processor": "Planted", "cores": 2, "memory_bytes": 1e10, "system": "Linux", "python": "3.11", "postgres": "18",
        "packages": {}, "peers": [],
    }  # fmt: skip
    return {
        "version": 1, "benchmark": "growth", "at": "2026-11-27T00:00:00+00:00", "machine": machine, "load_before": 1.5,
        "failed": False, "lines": msgspec.to_builtins(lines),
    }  # fmt: skip


def test_sizes_are_one_and_three_times_the_powers_of_ten() -> None:
    assert sizes(100_000) == [1_000, 3_000, 10_000, 30_000, 100_000]
    assert sizes(3_000_000)[-2:] == [1_000_000, 3_000_000]


def test_run_that_was_killed_goes_on_with_the_part_that_it_was_in(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    ended = subprocess.run([sys.executable, "-c", STOPPED, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    progress = Progress(path)
    assert progress.part("first", 1000, lambda: pytest.fail("it is measured already")) == {"append": [1.0, 2.0]}
    assert progress.part("second", 1000, lambda: {"rebuild": [3.0]}) == {"rebuild": [3.0]}
    assert Progress(path).part("second", 1000, lambda: pytest.fail("it is measured already")) == {"rebuild": [3.0]}
    # Another size is another measurement.
    assert Progress(path).part("first", 3000, lambda: {"append": [4.0]}) == {"append": [4.0]}
    assert len(json.loads(path.read_text())) == 3


@given(size=st.sampled_from(sizes(10_000_000)), share=st.floats(0, 1))
def test_log_is_filled_to_its_size_from_wherever_a_run_was_stopped(size: int, share: float) -> None:
    existing = round(size * share)
    filled, appended, seeds = [], [], []
    log = object.__new__(growth._Log)
    log._home, log._database = Path("home"), type("Database", (), {"url": "url"})()  # type: ignore[assignment]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth._Log, "_sql", lambda _self, _statement: [(existing,)])
        patch.setattr(growth, "grow", lambda _url, count, **rest: (filled.append(count), seeds.append(rest["seed"])))
        patch.setattr(growth, "_child", lambda *words: appended.append(int(words[3])))
        log._append(size)
    assert existing + sum(filled) + sum(appended) == max(size, existing + appended[0])
    # However much is there already, at least one batch is measured.
    assert appended[0] >= min(growth.BATCH, size // 2)
    assert all(count > 0 for count in filled)
    assert seeds == [2 * existing] * len(filled)


def test_every_curve_is_in_the_table_with_its_exponent_and_what_is_extrapolated() -> None:
    text = section(document(exponent=0.5))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for curve in CURVES.values():
        (row,) = [row for row in rows if row.startswith(f"| {curve.what} |")]
        assert "| 0.50 (0.50 to 0.50) | *" in row
    assert (
        "| events | 1,000 | 10,000 | 100,000 | 1,000,000 | exponent (95 %) | 100,000,000, extrapolated (95 %) |" in rows
    )
    assert {row.count("|") for row in rows if row.startswith("| append")} == {8}


def test_table_of_few_sizes_extrapolates_nothing() -> None:
    text = section(document(sizes_of_log=[1_000, 3_000]))
    (row,) = [line for line in text.splitlines() if line.startswith("| append in process")]
    assert row.endswith("| – | – |")


def test_resource_that_runs_out_first_is_named_first() -> None:
    curves = grown(document())
    reached = shortages(curves, memory_bytes=1e10, disk_bytes=3e9)
    names = list(reached)
    # Each of three stores takes a byte an event, each memory as well.
    assert names[0].startswith("disk")
    assert reached[names[0]] == pytest.approx(1e9, rel=1e-2)
    assert reached[names[1]] == pytest.approx(1e10, rel=1e-2)
    assert next(iter(shortages(curves, memory_bytes=1e6, disk_bytes=3e9))).startswith("memory")


def test_picture_has_every_panel_and_hollow_points_for_what_is_extrapolated() -> None:
    drawn = picture(document()).decode()
    for title in PANELS:
        assert title in drawn
    assert {name for names in PANELS.values() for name in names} <= set(CURVES)
    assert 'stroke-dasharray="4,4"' in drawn
    events = [name for names in PANELS.values() for name in names if CURVES[name].of == "events"]
    far = re.findall(r'aria-label="events: 100M[^>]*roledescription="point"[^>]*>', drawn)
    assert len(far) == len(events)
    # A mark without a fill is hollow.
    assert not any("fill=" in mark for mark in far)


def test_page_has_the_curves_in_their_own_place_and_not_among_the_figures(tmp_path: Path) -> None:
    docs, results = tmp_path / "docs", tmp_path / "results"
    (docs / "images").mkdir(parents=True)
    results.mkdir()
    (docs / "benchmarks.md").write_text(
        "a\n<!-- figures -->\noutdated\n<!-- /figures -->\nb\n<!-- growth -->\noutdated\n<!-- /growth -->\nc\n"
    )
    (results / "growth.json").write_bytes(msgspec.json.encode(document()))
    rebuild = {
        **document(),
        "benchmark": "rebuild",
        "lines": [msgspec.to_builtins(Line(what="x", unit="s", ours=[1.0], value=1.0, ratio=False))],
    }
    (results / "rebuild.json").write_bytes(msgspec.json.encode(rebuild))
    page.write_page(results, docs)
    text = (docs / "benchmarks.md").read_text()
    figures, curves = text.split("<!-- growth -->")
    assert "outdated" not in text
    assert "| x | 1 s |" in figures
    assert "append in process" not in figures
    assert "append in process" in curves
    assert (docs / "images" / "growth.svg").read_bytes().startswith(b"<svg")


def test_page_without_curves_keeps_what_it_has(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    before = (
        "<!-- figures -->\nNot taken yet on this version.\n<!-- /figures -->\n<!-- growth -->\nkept\n<!-- /growth -->\n"
    )
    (docs / "benchmarks.md").write_text(before)
    page.write_page(tmp_path, docs)
    assert (docs / "benchmarks.md").read_text() == before
