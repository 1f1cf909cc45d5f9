"""Training beside inference: pairs that are alike in all else, how much longer a step of training takes, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dashboard import evidence, ratios
from dashboard.ranking import completed
from dashboard.tables.result_table import Column, filled
from presentation import formatting
from presentation.answer_words import evidence_words
from presentation.charts import LATENCY, MEMORY, Row, name_of

__all__ = ["STAGES", "Pair", "columns", "flat", "paired", "sentence"]

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


def columns(pairs: Sequence[Pair]) -> list[Column]:
    """Return each pair: the ratio in its interval, time of an item in both modes, memory, the parts of a step, what both rest on."""
    ratio = [pair.time for pair in pairs]
    drawn = [
        Column(
            head="Configuration",
            values=[pair.name for pair in pairs],
            links=[evidence.about("hardware", str(pair.inference["hardware"])) for pair in pairs],
        ),
        Column(
            head="Training takes",
            values=[each.value for each in ratio],
            shown=[formatting.factor(each.value) for each in ratio],
            low=[each.low for each in ratio],
            high=[each.high for each in ratio],
            help="Times as long as inference",
        ),
    ]
    for mode in ("inference", "training"):
        rows = [getattr(pair, mode) for pair in pairs]
        time = LATENCY.scale([row.get(LATENCY.key) for row in rows])
        size = MEMORY.scale([row.get(MEMORY.key) for row in rows])
        ends = [[row.get(key) for row in rows] for key in LATENCY[:3]]
        memory = [row.get(MEMORY.key) for row in rows]
        drawn += [
            Column(
                head=f"{mode.capitalize()} an item",
                values=ends[0],
                shown=[time.show(*each) for each in zip(*ends, strict=True)],
                links=[evidence.path_of(row) for row in rows],
            ),
            Column(head=f"Memory, {mode}", values=memory, shown=[size.show(value) for value in memory]),
        ]
    shares = {words: [_share(pair, stage) for pair in pairs] for stage, words in STAGES.items()}
    drawn += [
        Column(head=words, values=values, shown=[formatting.share(value) for value in values], help="Share of a step")
        for words, values in shares.items()
    ]
    drawn += [
        Column(head="n", values=[pair.training.get("n") for pair in pairs], help="Steps of training that were timed"),
        Column(
            head="Source",
            values=[evidence_words(pair.training["basis"], pair.training.get("origin")) for pair in pairs],
        ),
    ]
    return filled(drawn)


def _share(pair: Pair, stage: str) -> float | None:
    """The part of a step as a share of the parts that are known; a step without parts has none."""
    stages = pair.training.get("stages") or {}
    whole = sum(value for value in stages.values() if value is not None)
    return None if stages.get(stage) is None or not whole else stages[stage] / whole
