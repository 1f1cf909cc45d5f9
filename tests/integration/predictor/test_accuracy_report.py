"""The accuracy report: what evaluations say, in tables and pictures, and what is not there left out."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.accuracy import of_benchmarks, of_card, report
from assay.accuracy.__main__ import BOUNDS, RESULTS, main
from assay.accuracy.bounds import Bound, Curve, Floor, Reference, Step
from assay.accuracy.results import choice_in
from assay.accuracy.summary import END, START, replaced, summary
from dashboard.screens.predictor.words import calibration
from domain.errors import UsageError
from predictor.artifact.artifact import load_shipped
from predictor.artifact.calibrated import CalibratedMethod
from predictor.learning.evaluation import evaluate
from predictor.learning.trees import TreeMethod

ROOT = Path(__file__).parents[3]
BARS = {"nvidia-rtx-3090": 10.0, "nvidia-rtx-4090": 0.0001, "google-tpu-v5e": 0.1}
REACH = {"nvidia-rtx-3090": 9.0, "nvidia-rtx-4090": 0.00009, "google-tpu-v5e": 0.08}
BOUND = Bound(
    floor=Floor(source="its own rows", rows=41, configurations=17, mape=0.0123, median_ape=0.004, ninety=0.037),
    curve=Curve(of="devices", steps=[Step(groups=2, error=0.31), Step(groups=7, error=0.307)]),
    references=[Reference(what="With the level of each device known", error=0.0777)],
)


@pytest.fixture(scope="module")
def results(table: Any, learners: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the accuracy benchmark leaves: one evaluation that meets a bar, misses one, and was not asked for one."""
    folder = tmp_path_factory.mktemp("results")
    told = evaluate(table, CalibratedMethod(TreeMethod(learners)), "hardware", shots=10)
    line = {"title": "an unseen GPU", "bars": BARS, "reach": REACH, "figure": "mape"}
    (folder / "gpu-10.json").write_text(json.dumps({**told, "line": line}))
    return folder


@pytest.fixture(scope="module")
def written(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, bounds = tmp_path_factory.mktemp("docs"), tmp_path_factory.mktemp("bounds")
    (bounds / "gpu-10.json").write_bytes(msgspec.json.encode(BOUND))
    assert main(["--out", str(out), "--results", str(results), "--bounds", str(bounds)]) == 0
    return out


def test_bars_that_are_met_missed_and_not_evaluated_say_so(written: Path, results: Path) -> None:
    answer = json.loads((results / "gpu-10.json").read_text())["by_hardware"]
    text = (written / "accuracy.md").read_text()
    assert "1 of 3 bars are met" in text
    lines = {
        line.split(" | ")[2]: line for line in text.splitlines() if line.startswith("| `gpu-10` | an unseen GPU |")
    }
    assert f"{answer['nvidia-rtx-3090']['mape'] * 100:.1f} %" in lines["nvidia-rtx-3090"]
    assert " yes, reached " in lines["nvidia-rtx-3090"] and "≤ 900.0 %" in lines["nvidia-rtx-3090"]
    assert re.search(r"\*\*no\*\*, by \d+\.\d points", lines["nvidia-rtx-4090"])
    assert "not evaluated" in lines["google-tpu-v5e"]


def test_what_bounds_a_line_is_shown_with_its_figures(written: Path) -> None:
    text = (written / "accuracy.md").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("- `gpu-10`, **missed**"))
    for figure in ("Repeats: 1.2 % (41 rows of 17 configurations", "2: 31.0 %, 7: 30.7 %: no longer falling", "7.8 %"):
        assert figure in line


def test_every_picture_that_is_shown_is_there_and_the_other_way_round(written: Path) -> None:
    shown = set(re.findall(r"\]\(accuracy/(\S+)\.svg\)", (written / "accuracy.md").read_text()))
    assert shown == {path.stem for path in (written / "accuracy").iterdir()}
    assert {"calibration", "parity-gpu-10"} <= shown
    assert all(path.read_text().startswith("<svg") for path in (written / "accuracy").iterdir())


def test_every_row_is_counted_in_a_field_and_none_is_shown(results: Path, table: Any) -> None:
    result = of_benchmarks(results)[0]
    assert sum(field["rows"] for field in result.fields) == result.answer["rows"]
    assert len(result.fields) < result.answer["rows"] / 2
    assert not {field["x"] for field in result.fields} & set(table.measured.tolist())


def test_without_evaluations_the_page_says_so_and_shows_nothing(tmp_path: Path) -> None:
    shipped = load_shipped()
    assert of_benchmarks(tmp_path / "nothing") == []
    text = report(shipped, [], [], ())
    assert "The card holds no scores" in text
    assert "](accuracy/" not in text and "Against the bars" not in text


def test_a_card_of_before_intervals_had_three_levels_is_read(tmp_path: Path) -> None:
    results = of_card(load_shipped().card)
    assert results[0].answer["split"] == "random"
    for result in results:
        bare = {key: value for key, value in result.answer.items() if key != "calibration"}
        assert [one["nominal"] for one in calibration(bare)] == [0.8, 0.9]


def test_a_file_that_holds_no_evaluation_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text('{"rows": 3}')
    with pytest.raises(UsageError, match=r"odd\.json holds no evaluation"):
        of_benchmarks(tmp_path)


def test_the_page_in_the_documentation_is_the_commands(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    shutil.copy(ROOT / "README.md", readme)
    options = ["--results", str(ROOT / RESULTS), "--bounds", str(ROOT / BOUNDS), "--readme", str(readme)]
    main(["--out", str(tmp_path), *options])
    assert readme.read_text() == (ROOT / "README.md").read_text()
    for name in ("accuracy.md", "coverage.md"):
        assert (ROOT / "docs" / name).read_text() == (tmp_path / name).read_text()
    drawn = {path.name for path in (tmp_path / "accuracy").iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs" / "accuracy").iterdir()}


def test_the_readme_summary_has_the_figures_of_the_card_and_the_results(results: Path) -> None:
    shipped = load_shipped()
    text = " ".join(summary(shipped, of_benchmarks(results)).split())
    scores = shipped.card.scores
    assert f"{scores['family']['overall']['mape'] * 100:.1f} % for a new family" in text
    assert shipped.card.serving is not None
    served = shipped.card.serving.scores["ttft"]["hardware"]["overall"]["mape"]
    assert f"and {served * 100:.0f} %; the intervals" in text
    assert "Of 3 bars on the accuracy page 1 are met" in text
    # The kernel lines are not among these results.
    assert "Single kernels" not in text


def test_a_page_without_a_place_for_the_summary_says_what_to_put_there() -> None:
    with pytest.raises(UsageError) as error:
        replaced("# Assay\n", "figures")
    assert START in str(error.value.remedy)
    assert replaced(f"a\n{START}\nold\n{END}\nb", "new\n") == f"a\n{START}\nnew\n{END}\nb"


@pytest.mark.parametrize(
    ("success", "overspend", "verdict"),
    [(0.93, 0.11, "yes, reached"), (0.93, 0.19, "yes"), (0.93, 0.21, "**no**"), (0.87, 0.05, "**no**")],
)
def test_choices_are_held_against_success_and_overspend(
    tmp_path: Path, success: float, overspend: float, verdict: str
) -> None:
    line = {"questions": 1620, "success": success, "overspend": overspend}
    path = tmp_path / "choices.json"
    path.write_text(json.dumps({"served": {"lines": {"ours, nothing measured": line}}}))
    text = report(load_shipped(), [], [], (), choice=choice_in(path))
    assert f"| 1,620 | {success * 100:.1f} % / {overspend * 100:.1f} % | " in text
    assert f" | {verdict} |" in text
    path.write_text('{"served": 3}')
    with pytest.raises(UsageError, match=r"choices\.json holds no choices"):
        choice_in(path)
    assert choice_in(tmp_path / "nothing.json") is None
