"""What got worse over the last days, in words: what `GET /v1/regressions` says as a sentence and as lines with links."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any
from urllib.parse import urlencode

from dashboard.pages.trends.words import METRICS, change_words, scale_for
from presentation import formatting

__all__ = ["lines", "sentence", "span_words"]

Row = Mapping[str, Any]


def lines(found: Row, zone: tzinfo | None) -> list[dict[str, Any]]:
    """Return one line a figure that is worse, the worst first, then one a case that no longer passes."""
    turns = [one for one in found["turns"] if one["state"] == "worse"]
    return [_worse_row(one, zone) for one in found["changes"]] + [_turned_row(one, zone) for one in turns]


def span_words(days: float) -> str:
    """Write a span: `day`, `7 days`."""
    return "day" if days == 1 else f"{days:g} days"


def sentence(found: Row, days: float) -> str:
    """Return the answer in words: how many figures are worse, how many cases fail now, among how many tried again."""
    if not found["compared"]:
        return f"Nothing was measured again over the last {span_words(days)}."
    worse = found["counts"].get("worse", 0)
    turns = sum(one["state"] == "worse" for one in found["turns"])
    failed = (
        f", and {formatting.count(turns)} no longer pass" if turns > 1 else ", and 1 no longer passes" if turns else ""
    )
    verb = "value is" if worse == 1 else "values are"
    again = (
        "1 configuration was"
        if found["compared"] == 1
        else f"{formatting.count(found['compared'])} configurations were"
    )
    return (
        f"{formatting.count(worse)} {verb} worse than before the last {span_words(days)}{failed}; {again} tried again."
    )


def _worse_row(one: Row, zone: tzinfo | None) -> dict[str, Any]:
    column = str(one["column"])
    metric = "latency_ms" if column in ("latency_p50_ms", "latency_mean_ms") else column
    before, after = one["before"], one["after"]
    scale = scale_for(metric, [before["value"]])
    return {
        "Change": change_words(one, metric),
        "Before": scale.show(before["value"], before.get("low"), before.get("high")),
        "Now": scale.show(after["value"], after.get("low"), after.get("high")),
        "Configuration": one["title"], **_links(one, metric, zone),
        "Figure": METRICS.get(metric, metric),
    }  # fmt: skip


def _turned_row(one: Row, zone: tzinfo | None) -> dict[str, Any]:
    return {
        "Change": "▼ no longer passes", "Before": one["before"],
        "Now": f"{one['after']}: {one['message']}" if one["message"] else one["after"],
        "Configuration": one["title"], **_links(one, "latency_ms", zone),
        "Figure": one["test"] or "measures",
    }  # fmt: skip


def _links(one: Row, metric: str, zone: tzinfo | None) -> dict[str, Any]:
    asked = {"model": one["model"], "hw": one["hardware"], "platform": one["platform"]}
    asked |= {"metric": metric} if metric in METRICS and metric != "latency_ms" else {}
    return {
        "Over time": f"/trends?{urlencode(asked, safe='/:')}",
        "Run": f"/runs?run={one['run_id']}" if one["run_id"] else None,
        "Measured": formatting.when(one["time"], zone) if one["time"] else None,
    }  # fmt: skip
