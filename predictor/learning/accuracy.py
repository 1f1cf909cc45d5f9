"""The accuracy report: what a predictor's card says about its errors, as Markdown.

python -m predictor.learning.accuracy > docs/accuracy.md
"""

from __future__ import annotations

import sys
from typing import Any

from predictor.learning.artifact import Predictor, load_shipped
from predictor.learning.evaluation import SPLITS

__all__ = ["report"]

WORST_FAMILIES = 12
_MEANING = {
    "random": "random rows: interpolation, the same model is on both sides",
    "architecture": "an architecture that never trained, on known devices and software",
    "family": "a family that never trained, on known devices and software",
}


def report(predictor: Predictor) -> str:
    """Return the report on a predictor."""
    card = predictor.card
    scores = {name: card.scores[name] for name in sorted(card.scores, key=_order)}
    parts = [
        "# How accurate the shipped predictor is",
        "",
        "Made by `python -m predictor.learning.accuracy > docs/accuracy.md` from the card in `predictor/prior/`; do not edit.",
        (
            f"Predictor `{predictor.digest}`: {card.rows:,} rows, {len(card.coverage.architectures):,} architectures,"
            f" {len(card.coverage.families)} families, {len(card.coverage.hardware)} devices."
        ),
        "",
        (
            "Errors are relative to the measured throughput. Whole groups are held out, five folds; hardware one device at a"
            " time. *Macro* is the mean over families of their errors, which the large families do not decide."
            " τ is Kendall's, within a software configuration. Coverage is that of intervals taken from other folds."
        ),
        "",
        "| held out | MAPE | median | within 10 % | within 20 % | τ | covers at 80 % | at 90 % | width at 80 % | macro |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_row(_meaning(name), answer) for name, answer in scores.items()),
        "",
        "## By device",
        "",
        "| device | " + " | ".join(scores) + " |",
        "| --- |" + " --- |" * len(scores),
        *(
            f"| {device} | "
            + " | ".join(_percent(answer["by_hardware"].get(device, {}).get("mape")) for answer in scores.values())
            + " |"
            for device in card.coverage.hardware
        ),
        "",
        "## The families that are predicted worst when they are new",
        "",
        "| family | rows | MAPE |",
        "| --- | --- | --- |",
        *(f"| {name} | {one['rows']} | {_percent(one['mape'])} |" for name, one in _worst(scores["family"])),
        "",
        "## Widths of the intervals",
        "",
        (
            "Half-widths in log units by how far a question lies from what trained; an empty cell is not covered by any"
            " measurement. Families and devices count as one draw each."
        ),
        "",
        "| level | 50 % | 80 % | 90 % |",
        "| --- | --- | --- | --- |",
        *(
            f"| {level} | " + " | ".join("" if one is None else f"{one:.3f}" for one in widths.values()) + " |"
            for level, widths in card.widths.by_level.items()
        ),
        "",
        "## Limits",
        "",
        *(f"- {limit}." for limit in card.limits),
        "- Zero shots on a new device is called *not calibrated*: with five devices no 90 % interval can be supported.",
        "- Shots are drawn at random, K for each software configuration (device, torch version, compiled, layout).",
        "",
        "## Data",
        "",
        *(f"- {_source(one)}" for one in card.data.get("sources", [])),
        "",
        "The predictor is made again by `python -m predictor.prior --help`.",
    ]
    return "\n".join(parts) + "\n"


def _order(name: str) -> tuple[int, int]:
    split, _, shots = name.partition("-")
    return SPLITS.index(split), int(shots or 0)


def _meaning(name: str) -> str:
    if name.startswith("hardware-"):
        shots = name.removeprefix("hardware-")
        return f"a device that never trained, {shots} measurements a software configuration"
    return _MEANING.get(name, name)


def _row(name: str, answer: dict[str, Any]) -> str:
    one = answer["overall"]
    cells = [
        _percent(one["mape"]), _percent(one["median_ape"]), _percent(one["within_10"]), _percent(one["within_20"]),
        "–" if one["kendall_tau"] is None else f"{one['kendall_tau']:.3f}", _percent(one["coverage_80"]),
        _percent(one["coverage_90"]), _percent(one["width_80"]), _percent(answer["macro_family_mape"]),
    ]  # fmt: skip
    return f"| {name} | " + " | ".join(cells) + " |"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


def _worst(answer: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    families = [pair for pair in answer["by_family"].items() if pair[1]["rows"] >= 20]
    return sorted(families, key=lambda pair: -pair[1]["mape"])[:WORST_FAMILIES]


def _source(one: dict[str, Any]) -> str:
    where = f", {one['repository']} folder `{one['folder']}`" if "repository" in one else ""
    commit = f", commit {one['commit']}" if one.get("commit") else ""
    counts = one.get("measurements")
    taken = f"; {counts['read']:,} measurements read, {counts['kept']:,} kept" if counts else ""
    return f"{one['name']}{where}{commit} ({one['licence']}; sha256 {one['sha256'][:16]}…){taken}."


if __name__ == "__main__":
    sys.stdout.write(report(load_shipped()))
