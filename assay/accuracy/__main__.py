"""Write the accuracy report, its pictures and the README's summary: `python -m assay.accuracy --out docs --readme README.md`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.accuracy.bounds import bounds_in
from assay.accuracy.coverage import coverage_page
from assay.accuracy.report import WORST_FAMILIES, report
from assay.accuracy.results import Result, choice_in, of_benchmarks, of_card
from assay.accuracy.summary import replaced, summary
from dashboard.screens.predictor import words
from predictor.artifact.artifact import load_shipped

if TYPE_CHECKING:
    from presentation.charts.frame import Spec

__all__ = ["main", "write"]

RESULTS = Path("benchmarks/results/accuracy")
BOUNDS = Path("benchmarks/results/bounds")
CHOICES = "choices.json"
"""What `python -m benchmarks.choices` left, beside the folder of results."""


def write(out: Path, results: Path, bounds: Path, readme: Path | None = None) -> list[Path]:
    """Write `accuracy.md`, the pictures that it shows and `coverage.md` into a folder, and return their paths.

    The summary in the `readme` is written anew where one is named.
    """
    from presentation.charts import chart_files

    predictor = load_shipped()
    card, benchmarks = of_card(predictor.card), of_benchmarks(results)
    drawn = _drawn(card, benchmarks)
    folder = out / "accuracy"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    written = []
    for name, chart in drawn.items():
        path = folder / f"{name}.svg"
        path.write_bytes(chart_files.svg(chart))
        written.append(path)
    page, coverage = out / "accuracy.md", out / "coverage.md"
    page.write_text(
        report(predictor, card, benchmarks, drawn, bounds_in(bounds), choice_in(results.parent / CHOICES)),
        encoding="utf-8",
    )
    coverage.write_text(coverage_page(predictor), encoding="utf-8")
    if readme is not None:
        readme.write_text(replaced(readme.read_text("utf-8"), summary(predictor, benchmarks)), encoding="utf-8")
        written.append(readme)
    return [page, coverage, *written]


def _drawn(card: Sequence[Result], benchmarks: Sequence[Result]) -> dict[str, Spec]:
    """Return the pictures by name: intervals, errors by device and by family, and one of each result with points."""
    from presentation import charts

    drawn: dict[str, Spec] = {}
    lines = [{"name": result.title, "calibration": words.calibration(result.answer)} for result in [*card, *benchmarks]]
    if lines:
        drawn["calibration"] = charts.calibration(lines, theme="light", picture=True)
    devices = [
        {"name": f"{device}, {result.answer['shots']} measurements", **value}
        for result in card
        if result.answer["split"] == "hardware" and result.answer["target"] == "throughput"
        for device, value in result.answer["by_hardware"].items()
    ]
    if devices:
        devices.sort(key=lambda item: str(item["name"].partition(",")[0]))
        drawn["devices"] = charts.errors(devices, theme="light", picture=True)
    family = next((item for item in card if item.answer["split"] == "family" and item.answer["by_family"]), None)
    if family is not None:
        rows = words.grouped(family.answer, "family", WORST_FAMILIES)
        drawn["families"] = charts.errors(rows, theme="light", log=True, picture=True)
    for result in [*benchmarks, *card]:
        if result.fields:
            drawn[result.picture] = charts.parity(result.fields, words.unit(result.answer), theme="light", picture=True)
    return drawn


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report and print the paths."""
    parser = argparse.ArgumentParser(prog="python -m assay.accuracy", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="the folder of accuracy.md")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="what `python -m benchmarks.accuracy` left (default: %(default)s)"
    )
    parser.add_argument(
        "--bounds", type=Path, default=BOUNDS, help="what `python -m research.bounds` left (default: %(default)s)"
    )
    parser.add_argument("--readme", type=Path, help="a page whose summary is written anew, such as README.md")
    args = parser.parse_args(arguments)
    for path in write(args.out, args.results, args.bounds, args.readme):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
