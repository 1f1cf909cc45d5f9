"""Training beside inference: pairs that are alike in all else, how much longer a step of training takes, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from pandas.io.formats.style import Styler

from dashboard import evidence, ratios
from dashboard.ranking import completed
from presentation import formatting
from presentation.charts import LATENCY, MEMORY, Row, name_of
from presentation.palette import badge

__all__ = ["STAGES", "Pair", "flat", "paired", "sentence", "table"]

STAGES = {"forward_ms": "Forward", "loss_ms": "Loss", "backward_ms": "Backward", "optimizer_ms": "Optimizer"}
PER_ITEM = ("latency_ms", "latency_ms_low", "latency_ms_high")


class Pair(NamedTuple):
    """One configuration in both modes, with times in ms an item, and training over inference."""

    name: str
    inference: dict[str, Any]
    training: dict[str, Any]
    time: ratios.Ratio
    memory: ratios.Ratio


def paired(pairs: Sequence[Row]) -> list[Pair]:
    """Return the pairs of which both sides were measured, the largest difference first."""
    result = [_pair(pair) for pair in pairs if pair["inference"] and pair["training"] and pair.get("ratio")]
    return sorted(result, key=lambda pair: -(pair.time.value or 0))


def flat(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return both rows of every pair with its name and ratio, for a file."""
    return [
        {"pair": pair.name, "ratio": pair.time.value, "ratio_low": pair.time.low, "ratio_high": pair.time.high, **row}
        for pair in pairs
        for row in (pair.inference, pair.training)
    ]


def _pair(pair: Row) -> Pair:
    inference, training = (_an_item(completed(pair[mode])) for mode in ("inference", "training"))
    alike = {key: value for key, value in pair.items() if key not in ("inference", "training", "ratio")}
    return Pair(
        name_of(completed(alike)),
        inference,
        training,
        ratios.of(training, inference, LATENCY.key, LATENCY.low, LATENCY.high),
        ratios.of(training, inference, MEMORY.key, MEMORY.low, MEMORY.high),
    )


def _an_item(row: dict[str, Any]) -> dict[str, Any]:
    size = row.get("batch_size") or 1
    return row | {key: row[key] / size for key in PER_ITEM if row.get(key) is not None}


def sentence(pairs: Sequence[Pair], spread: Row) -> str:
    """Say how much longer training takes than inference, over all pairs that were measured: `spread` is of their ratios."""
    if spread["pairs"] == 1:
        ratio = pairs[0].time
        ends = (
            "" if ratio.low is None else f" ({formatting.significant(ratio.low)}–{formatting.significant(ratio.high)})"
        )
        return f"{pairs[0].name}: a step of training takes {formatting.factor(ratio.value)}{ends} the time of inference"
    reach = f"from {formatting.factor(spread['least'])} to {formatting.factor(spread['most'])}"
    middle = f"{formatting.factor(spread['median'])} the time of inference, the median of {spread['pairs']} pairs"
    return f"A step of training takes {middle}, {reach}"


def table(pairs: Sequence[Pair]) -> Styler:
    """Return each pair: ms an item in both modes, their ratio, memory, the parts of a step, what both rest on."""
    sides = [row for pair in pairs for row in (pair.inference, pair.training)]
    time, size = (
        LATENCY.scale([row.get(LATENCY.key) for row in sides]),
        MEMORY.scale([row.get(MEMORY.key) for row in sides]),
    )
    figures: dict[str, list[float | None]] = {
        f"Inference {time.unit}/item": [time.of(pair.inference.get(LATENCY.key)) for pair in pairs],
        f"Training {time.unit}/item": [time.of(pair.training.get(LATENCY.key)) for pair in pairs],
        "Training takes ×": [pair.time.value for pair in pairs],
        "low": [pair.time.low for pair in pairs],
        "high": [pair.time.high for pair in pairs],
        f"Inference memory {size.unit}": [size.of(pair.inference.get(MEMORY.key)) for pair in pairs],
        f"Training memory {size.unit}": [size.of(pair.training.get(MEMORY.key)) for pair in pairs],
        **{f"{words} %": [_share(pair, stage) for pair in pairs] for stage, words in STAGES.items()},
    }
    floats = {head: pd.Series(values, dtype="float64") for head, values in figures.items()}
    frame = pd.DataFrame(
        {
            "Configuration": [pair.name for pair in pairs],
            **floats,
            "n inference": pd.Series([pair.inference.get("n") for pair in pairs], dtype="Int64"),
            "n training": pd.Series([pair.training.get("n") for pair in pairs], dtype="Int64"),
            "Basis inference": [badge(pair.inference["basis"], pair.inference.get("origin")) for pair in pairs],
            "Basis training": [badge(pair.training["basis"], pair.training.get("origin")) for pair in pairs],
            "Evidence inference": [evidence.path_of(pair.inference) for pair in pairs],
            "Evidence training": [evidence.path_of(pair.training) for pair in pairs],
        }
    )
    unknown = [f"{words} %" for words in STAGES.values() if frame[f"{words} %"].isna().all()]
    frame = frame.drop(columns=unknown)
    formats = {head: formatting.significant for head in floats if head in frame}
    return frame.style.format(formats, na_rep=formatting.MISSING)


def _share(pair: Pair, stage: str) -> float | None:
    """The part of a step in per cent of the parts that are known; a step without parts has none."""
    stages = pair.training.get("stages") or {}
    whole = sum(value for value in stages.values() if value is not None)
    return None if stages.get(stage) is None or not whole else 100 * stages[stage] / whole
