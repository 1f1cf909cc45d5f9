"""How good decisions are, arranged for a page: rules beside each other, devices, and what fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard.screens.predictor.words import shares
from dashboard.tables.result_table import Column
from presentation import formatting

__all__ = ["devices", "fits", "rules", "rules_table", "sentence"]

SHORT = {"ours, 10 measurements of the model": "10 measured", "ours without caution (the median)": "the median"}
"""What is written beside a dot, where the whole name would run into the next."""


def rules(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rules that choose machines, ours first; `mark` names ours and numbers the others."""
    ordered = sorted(document["machines"], key=lambda entry: (not entry["rule"].startswith("ours"), entry["overspend"]))
    rules = []
    thumbs = 0
    for item in ordered:
        ours = item["rule"].startswith("ours")
        thumbs += not ours
        mark = SHORT.get(item["rule"], item["rule"].removeprefix("ours, ")) if ours else str(thumbs)
        rules.append({**item, "ours": ours, "mark": mark})
    return rules


def sentence(rows: list[dict[str, Any]]) -> str:
    """Say how good our choices are before anything is measured, and where they meet the limits most often."""
    ours = [item for item in rows if item["ours"]]
    blind = next((our for our in ours if our["mark"] == "nothing measured"), ours[0])
    best = max(ours, key=lambda item: float(item["success"]))
    text = f"With {blind['mark']} {_good(blind)} above the cheapest"
    return text if best is blind else f"{text}; {best['mark']}, {_good(best)}"


def _good(row: dict[str, Any]) -> str:
    return f"{formatting.share(row['success'])} of choices meet the limits, at {formatting.share(row['overspend'])}"


def rules_table(rows: list[dict[str, Any]]) -> list[Column]:
    """Return the rules as they are read."""
    names = [item["rule"] if item["ours"] else f"{item['mark']} · {item['rule']}" for item in rows]
    parts = {"Success": "success", "Overspend": "overspend", "Cheapest first": "top_1", "Among three": "top_3"}
    return [
        Column(head="Rule", values=names),
        *(shares(head, [item[key] for item in rows]) for head, key in parts.items()),
    ]


def devices(document: Mapping[str, Any]) -> list[Column]:
    """Return what the first choice of device loses beside the best, by kind of choice."""
    ours = [device for device in document["devices"] if device["rule"] == "ours"]
    parts = {"Median loss": "median", "90th percentile": "p90", "Best first": "top_1", "Among three": "top_3"}
    return [
        Column(head="Choices", values=[device["choices"] for device in ours]),
        Column(head="Questions", values=[device["questions"] for device in ours]),
        *(shares(head, [device[key] for device in ours]) for head, key in parts.items()),
    ]


def fits(document: Mapping[str, Any]) -> list[Column]:
    """Return how often it was right that something fits in memory."""
    answers = document["fits"]
    return [
        Column(head="Does it fit?", values=[fit["asked"] for fit in answers]),
        Column(head="Questions", values=[fit["questions"] for fit in answers]),
        shares("Right", [fit["right"] for fit in answers]),
        Column(head="Sure and wrong", values=[fit["sure_wrong"] for fit in answers]),
    ]
