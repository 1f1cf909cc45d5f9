"""Two sets of results side by side: which lines fell is known, because the samples are planted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.__main__ import main
from benchmarks.before_after import compared, kept_results, table
from benchmarks.lines import Limit, Line, growth, plain, rates, times


def result(folder: Path, name: str, lines: list[Line], processor: str = "A") -> None:
    folder.mkdir(exist_ok=True)
    document = {"benchmark": name, "machine": {"processor": processor, "cores": 2}, "failed": False, "lines": lines}
    (folder / f"{name}.json").write_bytes(msgspec.json.encode(document))


def verdict(before: Line, after: Line) -> str:
    ((change,), _) = compared([before], [after])
    return change.verdict


def test_rates_fall_where_they_are_lower_and_times_where_they_are_higher() -> None:
    assert verdict(plain("a", "events/s", [100, 101, 99]), plain("a", "events/s", [80, 81, 79])) == "fell"
    assert verdict(plain("a", "events/s", [80, 81, 79]), plain("a", "events/s", [100, 101, 99])) == ""
    assert verdict(plain("a", "ms", [80, 81, 79]), plain("a", "ms", [100, 101, 99])) == "fell"
    assert verdict(plain("a", "ms", [100, 101, 99]), plain("a", "ms", [80, 81, 79])) == ""


def test_what_the_samples_do_not_tell_apart_has_not_fallen() -> None:
    assert verdict(plain("a", "ms", [50, 100, 150]), plain("a", "ms", [60, 110, 160])) == ""
    # All of it is worse, but by less than 5 %.
    assert verdict(plain("a", "ms", [100, 100, 100]), plain("a", "ms", [104, 104, 104])) == ""


def test_line_that_fell_no_more_than_its_peer_is_told_apart() -> None:
    before = rates("append", "events/s", [100, 100, 100], [200, 200, 200], "COPY")
    assert verdict(before, rates("append", "events/s", [50, 50, 50], [100, 100, 100], "COPY")) == "as its peer"
    assert verdict(before, rates("append", "events/s", [50, 50, 50], [200, 200, 200], "COPY")) == "fell"
    asked = times("compare", "ms", [10, 10], [1000, 1000], "search")
    assert verdict(asked, times("compare", "ms", [20, 20], [2000, 2000], "search")) == "as its peer"


def test_growth_is_better_where_its_ratio_is_smaller() -> None:
    most = Limit(bar=11, most=True)
    ((change,), _) = compared(
        [growth("rebuild", "s", [100, 100], [10, 10], "a tenth", most)],
        [growth("rebuild", "s", [50, 50], [10, 10], "a tenth", most)],
    )
    assert change.ratio == pytest.approx(2)
    assert change.better == pytest.approx(2)


def test_plain_line_is_compared_by_the_value_that_it_shows() -> None:
    ((change,), _) = compared(
        [plain("p99", "ms", [1, 2, 400], value=400)], [plain("p99", "ms", [1, 2, 200], value=200)]
    )
    assert change.better == pytest.approx(2)


def test_lines_match_where_numbers_in_their_names_differ_a_little() -> None:
    changes, alone = compared(
        [plain("visible, under 2,007 events/s", "ms", [1.0]), plain("rebuild of 100,000", "s", [1.0])],
        [plain("visible, under 1,998 events/s", "ms", [1.0]), plain("rebuild of 1,000,000", "s", [1.0])],
    )
    assert [change.after.what for change in changes] == ["visible, under 1,998 events/s"]
    assert {line.what for line in alone} == {"rebuild of 100,000", "rebuild of 1,000,000"}


def test_nothing_missed_before_and_after_has_not_changed() -> None:
    assert verdict(plain("missed events", "events", [0, 0]), plain("missed events", "events", [0, 0])) == ""
    assert verdict(plain("missed events", "events", [0, 0]), plain("missed events", "events", [3, 3])) == "fell"


def test_command_prints_writes_and_says_by_its_exit_code_what_fell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "table.md"
    result(old, "rebuild", [plain("rebuild", "s", [10, 10, 10]), plain("gone", "s", [1])])
    result(new, "rebuild", [plain("rebuild", "s", [20, 20, 20])], processor="B")
    (old / "capacity.json").write_text("[]")
    monkeypatch.setattr("sys.argv", ["benchmarks", "--before", str(old), "--after", str(new), "--out", str(out)])
    assert main() == 1
    text = capsys.readouterr().out
    assert out.read_text() == text
    assert "| rebuild | 10 s | 20 s | -50.0% | – | **fell** |" in text
    assert "only in one of them: gone" in text
    assert "another machine: A, B" in text


def test_kept_results_compare_with_themselves() -> None:
    kept = kept_results(Path(__file__).parents[3] / "benchmarks" / "results")
    text, fell = table(kept, kept)
    assert not fell
    assert "rebuild" in kept
    assert "**fell**" not in text
    assert "only in one" not in text


def test_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kept_results(tmp_path)
