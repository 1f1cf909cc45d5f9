"""All that is known at a glance: how fresh it is, what covers what, what fails, what would be worth measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import quote

import msgspec
import pandas as pd

from dashboard import evidence
from dashboard.address import Params, Read, one_of, position, understood
from dashboard.pages.runs import words
from domain.vocabulary import PLATFORMS
from presentation import formatting

__all__ = [
    "Glance",
    "coverage_sentence",
    "failing_table",
    "fresh",
    "is_live",
    "platforms_of",
    "read_glance",
    "run_table",
]

UNKNOWN = "unknown"
SPANS = ("1", "7", "30")
Row = Mapping[str, Any]


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """What the overview shows: over how many days things are said to have got worse, at which position of the log."""

    days: str = "7"
    as_of: int | None = None


def read_glance(params: Params) -> Read:
    """Read the overview's parameters."""
    return understood(Glance, params, {"days": one_of(SPANS), "as_of": position})


def fresh(days: Sequence[Row], total: int, today: date, span: int) -> float | None:
    """Return the share of configurations measured in the last `span` days; None where there is none.

    `days` count configurations by the day (UTC) of their newest measurement; one dated later than today is no fresher.
    """
    since = (today - timedelta(days=span)).isoformat()
    counted = sum(int(row["configurations"]) for row in days if str(row["day"]) > since)
    return counted / total if total else None


def today() -> date:
    """Return the day (UTC) by which freshness is judged."""
    return datetime.now(UTC).date()


def platforms_of(cells: Sequence[Row]) -> list[str]:
    """Return the platforms that something was measured on, in the order in which all pages have them."""
    order = list(PLATFORMS)
    result = {str(cell["platform"]) for cell in cells}
    return sorted(result, key=lambda name: (order.index(name) if name in order else len(order), name))


def families_of(row: Row) -> list[str]:
    """Return the families as the service has them, those of models of which no family is known last."""
    return sorted((str(name) for name in row["families"]), key=lambda name: name == UNKNOWN)


def coverage_sentence(row: Row) -> str:
    """Say how much of family × platform has a measurement, and where there are most."""
    cells, families = row["cells"], row["families"]
    platforms = platforms_of(cells)
    named = [cell for cell in cells if cell["family"] != UNKNOWN] or cells
    most = max(named, key=lambda cell: int(cell["measurements"]))
    shown = f"the {len(families)} families with most" if row["families_total"] > len(families) else "all families"
    across = "1 platform" if len(platforms) == 1 else f"{len(platforms)} platforms"
    return (
        f"{formatting.count(len(cells))} of {formatting.count(len(families) * len(platforms))} cells have measurements "
        f"({shown}, {across}); most: {most['family']} on {most['platform']}, {formatting.count(most['measurements'])}"
    )


def has_ended(run: Row) -> bool:
    """Say whether it is known how a run ended."""
    return run.get("outcome") not in (None, "unfinished") or bool(run.get("retracted_because"))


def is_live(run: Row, now: datetime) -> bool:
    """Say whether a run may be under way: it began within a day and has not ended; an older one was left behind."""
    began = run.get("started_at") or run.get("recorded_at")
    return not has_ended(run) and began is not None and now - datetime.fromisoformat(str(began)) < timedelta(days=1)


def run_table(rows: Sequence[Row], now: datetime, zone: tzinfo | None) -> pd.DataFrame:
    """Return runs as the page of runs lists them, in fewer columns, each with the address of its page."""
    table = words.listed(rows, now, zone)[["Run", "State", "Rows", "Failed", "Tests", "Started"]]
    return table.assign(Open=[f"runs?run={quote(str(row['run_id']))}" for row in rows])


def failing_table(failing: Sequence[Row]) -> pd.DataFrame:
    """Return what fails most: how often, of how many models, why, and what to try."""
    return pd.DataFrame(
        {
            "Failures": [row["failures"] for row in failing],
            "Platform": [row["platform"] for row in failing],
            "At": [str(row["stage"]).replace("_", " ") for row in failing],
            "Error": [row["error"] for row in failing],
            "Models": [row["models"] for row in failing],
            "Newest says": [row["message"] or None for row in failing],
            "To try": [row["remedy"] or None for row in failing],
            "Newest": [evidence.row_path(str(row["evidence"])) for row in failing],
        }
    ).dropna(axis="columns", how="all")
