"""How good decisions are, arranged for a page: rules beside each other, devices, and what fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from presentation import formatting

__all__ = ["devices", "fits", "rules", "rules_table", "sentence"]

SHORT = {"ours, 10 measurements of the model": "10 measured", "ours without caution (the median)": "the median"}
"""What is written beside a dot, where the whole name would run into the next."""


def rules(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rules that choose machines, ours first; `mark` names ours and numbers the others."""
    ordered = sorted(told["machines"], key=lambda one: (not one["rule"].startswith("ours"), one["overspend"]))
    found = []
    thumbs = 0
    for one in ordered:
        ours = one["rule"].startswith("ours")
        thumbs += not ours
        mark = SHORT.get(one["rule"], one["rule"].removeprefix("ours, ")) if ours else str(thumbs)
        found.append({**one, "ours": ours, "mark": mark})
    return found


def sentence(found: list[dict[str, Any]]) -> str:
    """Say how good our choices are before anything is measured, and where they meet the limits most often."""
    ours = [one for one in found if one["ours"]]
    blind = next((one for one in ours if one["mark"] == "nothing measured"), ours[0])
    best = max(ours, key=lambda one: float(one["success"]))
    told = f"With {blind['mark']} {_good(blind)} above the cheapest"
    return told if best is blind else f"{told}; {best['mark']}, {_good(best)}"


def _good(one: dict[str, Any]) -> str:
    return f"{formatting.share(one['success'])} of choices meet the limits, at {formatting.share(one['overspend'])}"


def rules_table(found: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the rules as they are read: shares as per cent."""
    return pd.DataFrame(
        [
            {
                "Rule": one["rule"] if one["ours"] else f"{one['mark']} · {one['rule']}",
                "Success": formatting.share(one["success"]),
                "Overspend": formatting.share(one["overspend"]),
                "Cheapest first": formatting.share(one["top_1"]),
                "Among three": formatting.share(one["top_3"]),
            }
            for one in found
        ]
    )


def devices(told: Mapping[str, Any]) -> pd.DataFrame:
    """Return what the first choice of device loses beside the best, by kind of choice."""
    return pd.DataFrame(
        [
            {
                "Choices": one["choices"],
                "Questions": one["questions"],
                "Median loss": formatting.share(one["median"]),
                "90th percentile": formatting.share(one["p90"]),
                "Best first": formatting.share(one["top_1"]),
                "Among three": formatting.share(one["top_3"]),
            }
            for one in told["devices"]
            if one["rule"] == "ours"
        ]
    )


def fits(told: Mapping[str, Any]) -> pd.DataFrame:
    """Return how often it was right that something fits in memory."""
    return pd.DataFrame(
        [
            {
                "Does it fit?": one["asked"],
                "Questions": one["questions"],
                "Right": formatting.share(one["right"]),
                "Sure and wrong": one["sure_wrong"],
            }
            for one in told["fits"]
        ]
    )
