"""What evaluations say, in words and rows: the shapes of `assay evaluate`, on a card or in an answer."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.tables.result_table import Column
from domain.catalogues import hardware
from presentation import formatting

__all__ = [
    "EMPTY_LEVEL",
    "FEWEST_ROWS",
    "TIPS",
    "calibration",
    "csv_file",
    "expected",
    "expected_elsewhere",
    "grouped",
    "history",
    "in_order",
    "macro_devices",
    "sentence",
    "shares",
    "short_title",
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
SHORT = {
    "random": "random rows",
    "configuration": "new configuration",
    "architecture": "new architecture",
    "family": "new family",
    "hardware": "new device",
    "hardware+family": "new device and family",
    "time": "the newest fifth",
}
"""What was held out, where there is room for few words."""
CLASSES = {"gpu": "GPUs", "cpu": "CPUs", "npu": "NPUs"}
"""Kinds of devices for which the first line gives errors."""
TIPS = {
    "MAPE": "Mean of the errors, each relative to what was measured.",
    "median": "Half of the errors are smaller.",
    "80 % holds": "Share of measurements within the 80 % interval: 80 % is right, more is too wide.",
    "90 % holds": "Share of measurements within the 90 % interval: 90 % is right, more is too wide.",
    "width at 80 %": "Width of an 80 % interval, relative to the estimate.",
    "τ": "Kendall's rank correlation: 1 where all pairs stand in the right order.",
    "macro families": "Mean over families of models, so that large ones do not decide.",
    "macro devices": "Mean over devices, so that those with many rows do not decide.",
}
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


def short_title(answer: Answer) -> str:
    """Say what was held out in two or three words: `new device, 10 measured`."""
    words = [SHORT.get(answer["split"], str(answer["split"]))]
    words += [f"{answer['shots']} measured"] if answer["shots"] else []
    words += [TARGETS[answer["target"]]] if answer["target"] in TARGETS else []
    return ", ".join([*words, "training"] if answer.get("mode") == "training" else words)


def expected(scores: Mapping[str, Answer]) -> str | None:
    """Say how far estimates are off on known devices, by their kind; None where no evaluation says it.

    It is the mean error on models of families that never trained, else of architectures.
    """
    answer = _of(scores, "family") or _of(scores, "architecture")
    errors = _by_class(answer) if answer is not None else {}
    if not errors:
        return None
    return f"Expect {', '.join(f'±{_percent(error)} on known {kind}' for kind, error in errors.items())}"


def expected_elsewhere(scores: Mapping[str, Answer]) -> str:
    """Say what that error is of, and how far estimates are off on devices that never trained."""
    held = "families of models" if _of(scores, "family") is not None else "architectures"
    known = _of(scores, "family") or _of(scores, "architecture")
    of = f" ({formatting.count(known['overall']['rows'])} measurements)" if known is not None else ""
    text = f"Mean error on {held} that it never saw{of}."
    unseen = _of(scores, "hardware")
    errors = _by_class(unseen) if unseen is not None else {}
    if not errors:
        return text
    return f"{text} On devices that it never saw: {', '.join(f'±{_percent(error)} on {kind}' for kind, error in errors.items())}."


def _of(scores: Mapping[str, Answer], split: str) -> Answer | None:
    """Return the evaluation of inference's throughput that held this out, with nothing given beforehand."""
    for answer in scores.values():
        plain = answer["target"] == "throughput" and not answer["shots"] and answer.get("mode") != "training"
        if plain and answer["split"] == split:
            return answer
    return None


def _by_class(answer: Answer) -> dict[str, float]:
    """Return the mean error of each kind of device, weighed by rows, those with most rows first."""
    rows: dict[str, float] = {}
    sums: dict[str, float] = {}
    for slug, group in (answer.get("by_hardware") or {}).items():
        spec = hardware.find(slug)
        kind = CLASSES.get("" if spec is None or spec.kind is None else spec.kind)
        if kind is not None:
            rows[kind] = rows.get(kind, 0) + group["rows"]
            sums[kind] = sums.get(kind, 0.0) + group["rows"] * group["mape"]
    return {kind: sums[kind] / rows[kind] for kind in sorted(rows, key=lambda kind: -rows[kind])}


def _percent(error: float) -> str:
    return f"{error * 100:.0f}{formatting.SPACE}%"


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


def shares(head: str, values: Sequence[float | None], tip: str = "") -> Column:
    """Return a column of shares, shown as per cent; a missing one is not a zero."""
    return Column(head=head, values=values, shown=[formatting.share(value) for value in values], help=tip)


def splits_table(scores: Mapping[str, Answer]) -> list[Column]:
    """Return one line an evaluation."""
    answers = list(scores.values())
    taus = [answer["overall"].get("kendall_tau") for answer in answers]
    return [
        Column(head="Tested on", values=[short_title(answer) for answer in answers]),
        Column(head="Rows", values=[int(answer["overall"]["rows"]) for answer in answers]),
        *(
            shares(head, [answer["overall"].get(key) for answer in answers], TIPS.get(head, ""))
            for key, head in SHARES.items()
        ),
        Column(
            head="τ",
            values=taus,
            shown=[formatting.MISSING if tau is None else f"{tau:.3f}" for tau in taus],
            help=TIPS["τ"],
        ),
        shares("macro families", [answer.get("macro_family_mape") for answer in answers], TIPS["macro families"]),
        shares("macro devices", [macro_devices(answer) for answer in answers], TIPS["macro devices"]),
        Column(head="What that is", values=[title(answer) for answer in answers]),
    ]


def widths_table(widths: Mapping[str, Any]) -> list[Column]:
    """Return how far intervals reach to either side, by how far a question lies from what trained.

    In log units for each unit of a row's own difficulty: the interval of a row is the product of the two.
    """
    by_level: Mapping[str, Mapping[str, float | None]] = widths.get("by_level") or {}
    counted = widths.get("rows") or {}
    if not by_level:
        return []
    columns = [
        Column(head="Level", values=[level.replace("_", " ") for level in by_level]),
        Column(head="Rows", values=[counted.get(level) for level in by_level]),
    ]
    for nominal in next(iter(by_level.values())):
        reaches = [reach.get(nominal) for reach in by_level.values()]
        words = [EMPTY_LEVEL if reach is None else f"{reach:.3f} × difficulty" for reach in reaches]
        columns.append(Column(head=f"{float(nominal) * 100:.0f} % interval", values=reaches, shown=words))
    return columns


def history(row: Mapping[str, Any]) -> list[Column]:
    """Return the predictors, newest first, with what was decided about each."""
    items = list(row.get("items") or ())
    states = {True: "in force", False: "not in force"}
    accepted = {True: "yes", False: "no"}
    columns = {
        "Predictor": [formatting.digest(item["digest"]) for item in items],
        "State": [states[bool(item.get("in_force"))] for item in items],
        "Trained": [formatting.date(item.get("recorded_at")) for item in items],
        "At event": [item.get("trained_at_position") for item in items],
        "Trees": [item.get("trees_from") for item in items],
        "Rows": [item.get("rows") for item in items],
        "Accepted": [accepted.get(item.get("accepted")) for item in items],
        "Because": [item.get("reason") for item in items],
    }
    return [
        Column(head=head, values=values)
        for head, values in columns.items()
        if any(value is not None for value in values)
    ]


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
