"""What got worse over the last days: what `GET /v1/regressions` says as a sentence, as lines and columns with links, and as dots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any
from urllib.parse import urlencode

from dashboard.screens.trends.words import METRICS, change_words, metric_of, scale_for
from dashboard.tables.result_table import Column
from presentation import formatting
from presentation.charts.metrics import Metric

__all__ = ["WORSE_BY", "columns", "dots", "lines", "sentence", "span_words", "worst"]

Row = Mapping[str, Any]
WORSE_BY = Metric(
    "worse_by", "worse_by_low", "worse_by_high", "Worse by", lambda _: formatting.Scale("%", 0.01), "larger is worse"
)
"""How much a figure got worse, as a share of what it was; half as fast is as bad as twice as long."""


def lines(row: Row, zone: tzinfo | None) -> list[dict[str, Any]]:
    """Return one line a figure that is worse, the worst first, then one a case that no longer passes."""
    turns = [turn for turn in row["turns"] if turn["state"] == "worse"]
    return [_worse_row(change, zone) for change in row["changes"]] + [_turned_row(turn, zone) for turn in turns]


def columns(row: Row, zone: tzinfo | None) -> list[Column]:
    """Return the same lines as the columns of a table: each leads to its history, its run is a link as well."""
    shown = lines(row, zone)
    changes = [*row["changes"], *(turn for turn in row["turns"] if turn["state"] == "worse")]

    def measured(side: str) -> list[float | str | None]:
        # A case that no longer passes has outcomes in the place of figures.
        return [change[side]["value"] if isinstance(change[side], Mapping) else None for change in changes]

    made = [
        Column(
            head="Configuration",
            values=[line["Configuration"] for line in shown],
            links=[line["Over time"].removeprefix("/") for line in shown],
        ),
        Column(
            head="Change",
            values=[
                _worse_by(change)["worse_by"] if isinstance(change["before"], Mapping) else None for change in changes
            ],
            shown=[line["Change"] for line in shown],
        ),
        Column(head="Before", values=measured("before"), shown=[line["Before"] for line in shown]),
        Column(head="Now", values=measured("after"), shown=[line["Now"] for line in shown]),
        Column(head="Figure", values=[line["Figure"] for line in shown]),
        Column(
            head="Measured",
            values=[change["time"] for change in changes],
            shown=[line["Measured"] or formatting.MISSING for line in shown],
        ),
        Column(
            head="Run",
            values=[change["run_id"] for change in changes],
            links=[line["Run"] and line["Run"].removeprefix("/") for line in shown],
        ),
    ]
    return made if shown else []


def dots(changes: Sequence[Row]) -> list[dict[str, Any]]:
    """Return changes as an interval chart draws them."""
    return [
        {
            "named": f"{change['title']} · {_figure(change).lower()}",
            "platform": change["platform"],
            "basis": "measured",
            **_worse_by(change),
        }
        for change in changes
    ]


def worst(row: Row) -> str:
    """Say which figure got worse the most."""
    change = row["changes"][0]
    return f"{change['title']}, {_figure(change).lower()} {change_words(change, _metric(change)).lstrip('▼ ')}"


def _worse_by(change: Row) -> dict[str, float | None]:
    """Return a change and its interval in the worse direction."""
    values = {"worse_by": change["change"], "worse_by_low": change["low"], "worse_by_high": change["high"]}
    if change["change"] >= 0:
        return values
    turned = {name: None if value is None or value <= -1 else 1 / (1 + value) - 1 for name, value in values.items()}
    return {**turned, "worse_by_low": turned["worse_by_high"], "worse_by_high": turned["worse_by_low"]}


def _metric(row: Row) -> str:
    return metric_of(str(row["column"]))


def _figure(row: Row) -> str:
    return METRICS.get(_metric(row), _metric(row))


def span_words(days: float) -> str:
    """Write a span: `day`, `7 days`."""
    return "day" if days == 1 else f"{days:g} days"


def sentence(row: Row, days: float) -> str:
    """Return the answer in words: how many figures are worse, how many cases fail now, among how many tried again."""
    if not row["compared"]:
        return f"Nothing was measured again over the last {span_words(days)}."
    worse = row["counts"].get("worse", 0)
    turns = sum(turn["state"] == "worse" for turn in row["turns"])
    failed = (
        f", and {formatting.count(turns)} no longer pass" if turns > 1 else ", and 1 no longer passes" if turns else ""
    )
    verb = "value is" if worse == 1 else "values are"
    again = (
        "1 configuration was" if row["compared"] == 1 else f"{formatting.count(row['compared'])} configurations were"
    )
    return (
        f"{formatting.count(worse)} {verb} worse than before the last {span_words(days)}{failed}; {again} tried again."
    )


def _worse_row(row: Row, zone: tzinfo | None) -> dict[str, Any]:
    metric = _metric(row)
    before, after = row["before"], row["after"]
    scale = scale_for(metric, [before["value"]])
    return {
        "Change": change_words(row, metric),
        "Before": scale.show(before["value"], before.get("low"), before.get("high")),
        "Now": scale.show(after["value"], after.get("low"), after.get("high")),
        "Configuration": row["title"],
        **_links(row, metric, zone),
        "Figure": _figure(row),
    }


def _turned_row(row: Row, zone: tzinfo | None) -> dict[str, Any]:
    return {
        "Change": "▼ no longer passes",
        "Before": row["before"],
        "Now": f"{row['after']}: {row['message']}" if row["message"] else row["after"],
        "Configuration": row["title"],
        **_links(row, "latency_ms", zone),
        "Figure": row["test"] or "measuring",
    }


def _links(row: Row, metric: str, zone: tzinfo | None) -> dict[str, Any]:
    request = {"model": row["model"], "hw": row["hardware"], "platform": row["platform"]}
    request |= {"metric": metric} if metric in METRICS and metric != "latency_ms" else {}
    return {
        "Over time": f"/trends?{urlencode(request, safe='/:')}",
        "Run": f"/runs?run={row['run_id']}" if row["run_id"] else None,
        "Measured": formatting.when(row["time"], zone) if row["time"] else None,
    }
