"""What evaluations say, in words and rows: the shapes of `assay evaluate`, on a card or in an answer."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from presentation import formatting

__all__ = [
    "EMPTY_LEVEL",
    "FEWEST_ROWS",
    "calibration",
    "csv_file",
    "grouped",
    "history",
    "in_order",
    "macro_devices",
    "sentence",
    "splits_table",
    "title",
    "unit",
    "widths_table",
]

SPLITS = {
    "random": "random rows: interpolation, the same model is on both sides",
    "configuration": "a configuration that never trained",
    "architecture": "an architecture that never trained, on known devices and software",
    "family": "a family that never trained, on known devices and software",
    "hardware": "a device that never trained",
    "hardware+family": "a device and a family that never trained",
    "time": "the last fifth by time",
}
TARGETS = {
    "latency": "time of a call",
    "memory": "peak memory",
    "ttft": "time to first token",
    "tpot": "time per output token",
    "energy": "energy of a call",
}
UNITS = {"memory": "bytes", "energy": "J"}
SHARES = {
    "mape": "MAPE",
    "median_ape": "median",
    "within_10": "within 10 %",
    "within_20": "within 20 %",
    "coverage_80": "80 % holds",
    "coverage_90": "90 % holds",
    "width_80": "width at 80 %",
}
EMPTY_LEVEL = "not covered"
FEWEST_ROWS = 20
Answer = Mapping[str, Any]


def title(answer: Answer) -> str:
    """Say what was held out, what was given beforehand, and what was predicted where that is not throughput."""
    split, shots, target = answer["split"], answer["shots"], answer["target"]
    words = [SPLITS.get(split, str(split))]
    if "hardware" in split:
        words.append(f"{shots} measurements a software configuration")
    elif shots:
        words.append(f"{shots} measurements")
    if target in TARGETS:
        words.append(TARGETS[target])
    if answer.get("mode") == "training":
        words.append("training")
    return ", ".join(words)


def in_order(scores: Mapping[str, Answer]) -> dict[str, Answer]:
    """Return evaluations by name, from interpolation to what is furthest from training."""
    order = list(SPLITS)

    def place(name: str) -> tuple[int, str, int, str]:
        score = scores[name]
        far = order.index(score["split"]) if score["split"] in order else len(order)
        return far, str(score["target"]), int(score["shots"]), name

    return {name: scores[name] for name in sorted(scores, key=place)}


def unit(answer: Answer) -> str:
    """Return the unit of what was measured: throughput is learned as the time of an item."""
    return UNITS.get(answer["target"], "s")


def calibration(answer: Answer) -> list[dict[str, Any]]:
    """Return what each interval promised and held; from the two that a score has where the answer has no more."""
    overall = answer["overall"]
    two = [{"nominal": nominal, "covered": overall.get(f"coverage_{nominal * 100:.0f}")} for nominal in (0.8, 0.9)]
    return list(answer.get("calibration") or two)


def macro_devices(answer: Answer) -> float | None:
    """Return the mean over devices of their errors, counted here where an older evaluation did not tell it."""
    errors = [key["mape"] for key in answer["by_hardware"].values()]
    macro_hardware_mape = answer.get("macro_hardware_mape")
    return macro_hardware_mape if macro_hardware_mape is not None else sum(errors) / len(errors) if errors else None


def sentence(answer: Answer) -> str:
    """Say how wrong predictions are on what was held out; interpolation is called that."""
    overall = answer["overall"]
    what = "Interpolation only" if answer["split"] == "random" else title(answer).capitalize()
    text = f"half of the errors are under {formatting.share(overall['median_ape'])}, {formatting.share(overall['within_20'])} are within 20{formatting.SPACE}%"
    held = overall.get("coverage_80")
    intervals = (
        "no interval is given: not calibrated"
        if held is None
        else f"80{formatting.SPACE}% intervals hold {formatting.share(held)}"
    )
    return f"{what}: {text}; {intervals}"


def grouped(answer: Answer, by: str, most: int) -> list[dict[str, Any]]:
    """Return the groups (`hardware` or `family`) as rows of a chart, the worst first; families of few rows are left out."""
    groups: Mapping[str, Any] = answer.get(f"by_{by}") or {}
    enough = {name: group for name, group in groups.items() if by == "hardware" or group["rows"] >= FEWEST_ROWS}
    rows = [{"name": name, **value} for name, value in (enough or groups).items()]
    return sorted(rows, key=lambda item: -item["mape"])[:most]


def splits_table(scores: Mapping[str, Answer]) -> pd.DataFrame:
    """Return one line an evaluation: shares in per cent as text, because a missing one is not a zero."""
    rows = []
    for name, answer in scores.items():
        overall = answer["overall"]
        tau = overall.get("kendall_tau")
        rows.append(
            {"Held out": name, "Rows": int(overall["rows"])}
            | {head: formatting.share(overall.get(key)) for key, head in SHARES.items()}
            | {
                "τ": formatting.MISSING if tau is None else f"{tau:.3f}",
                "macro families": formatting.share(answer.get("macro_family_mape")),
                "macro devices": formatting.share(macro_devices(answer)),
                "What that is": title(answer),
            }
        )
    return pd.DataFrame(rows)


def widths_table(widths: Mapping[str, Any]) -> pd.DataFrame:
    """Return how far intervals reach to either side, by how far a question lies from what trained.

    In log units for each unit of a row's own difficulty: the interval of a row is the product of the two.
    """
    by_level: Mapping[str, Mapping[str, float | None]] = widths.get("by_level") or {}
    counted = widths.get("rows") or {}
    return pd.DataFrame(
        [
            {"Level": level.replace("_", " "), "Rows": counted.get(level)}
            | {
                f"{float(nominal) * 100:.0f} % interval": EMPTY_LEVEL if reach is None else f"{reach:.3f} × difficulty"
                for nominal, reach in reaches.items()
            }
            for level, reaches in by_level.items()
        ]
    )


def history(row: Mapping[str, Any]) -> pd.DataFrame:
    """Return the predictors, newest first, with what was decided about each."""
    states = {True: "in force", False: "not in force"}
    return pd.DataFrame(
        [
            {
                "Predictor": formatting.digest(item["digest"]),
                "State": states[bool(item.get("in_force"))],
                "Trained": formatting.date(item.get("recorded_at")),
                "Position": item.get("trained_at_position"),
                "Trees": item.get("trees_from"),
                "Rows": item.get("rows"),
                "Accepted": {True: "yes", False: "no"}.get(item.get("accepted"), formatting.MISSING),
                "Because": item.get("reason"),
            }
            for item in row.get("items") or ()
        ]
    )


def csv_file(scores: Mapping[str, Answer], position: int, predictor: str) -> bytes:
    """Write every score of every evaluation, overall and by device and family; missing is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    keys = ("rows", *SHARES, "kendall_tau")
    writer.writerow(["evaluation", "split", "target", "shots", "by", "group", *keys, "as_of", "predictor"])
    for name, answer in scores.items():
        head = [name, answer["split"], answer["target"], answer["shots"]]
        for by, group, value in _parts(answer):
            values = ["" if value.get(key) is None else value[key] for key in keys]
            writer.writerow([*head, by, group, *values, position, predictor])
    return out.getvalue().encode()


def _parts(answer: Answer) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
    groups = [
        (by, name, value) for by in ("hardware", "family") for name, value in (answer.get(f"by_{by}") or {}).items()
    ]
    return [("all", "", answer["overall"]), *groups]
