"""What was tried and how it ended, as the log says it: tests, failures and measurements, each configuration once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from domain.compatibility.states import not_tried
from domain.vocabulary import NO_EVIDENCE

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ENDS", "End", "TriedConfiguration", "case_from_row", "cases_of", "read_cases", "row_from_event"]

End = Literal["runs", "unsupported", "out_of_memory", "fails"]
ENDS: tuple[End, ...] = get_args(End)
_ENDS: dict[str, End] = {
    "passed": "runs",
    "unsupported": "unsupported",
    "out_of_memory": "out_of_memory",
    "failed": "fails",
    "error": "fails",
    "timeout": "fails",
}
"""By outcome. What was skipped was not tried."""


_READ = (
    "event_id", "model_id", "category", "family", "hardware_id", "platform", "platform_asked", "precision", "precision_asked",
    "mode", "batch_size", "fallback_share", "origin", "verdict", "outcome", "error",
)  # fmt: skip
"""Columns that `case_from_row` reads, of either view."""


class TriedConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration that was tried, or that is asked about (`end` is then None)."""

    model: str
    platform: str
    precision: str | None = None
    hardware: str | None = None
    category: str | None = None
    family: str | None = None
    mode: str = "inference"
    batch_size: int | None = None
    origin: str = "measured"
    end: End | None = None
    evidence: str = ""


def case_from_row(row: Mapping[str, Any]) -> TriedConfiguration | None:
    """Return the case in a row of the view `outcomes` or `measurements`; None where nothing was really tried.

    A measurement has run. Attempts where the platform was not there or the script was broken, simulated rows, skipped cases, and work that fell back to another device say nothing of the
    platform that was asked for. A configuration that failed has no actual precision: the one asked for counts.
    """
    end: End | None = "runs" if "outcome" not in row else _ENDS.get(row["outcome"])
    if (
        end is None
        or not_tried(row.get("error"))
        or row.get("origin") in NO_EVIDENCE
        or row.get("verdict") == "invalid"
        or row.get("fallback_share")
    ):
        return None
    platform = row.get("platform") or row.get("platform_asked")
    if not platform:
        return None
    return TriedConfiguration(
        model=row["model_id"],
        platform=platform,
        precision=row.get("precision") or row.get("precision_asked"),
        hardware=row.get("hardware_id"),
        category=row.get("category"),
        family=row.get("family"),
        mode=row.get("mode") or "inference",
        batch_size=row.get("batch_size"),
        origin=row.get("origin") or "measured",
        end=end,
        evidence=str(row.get("event_id") or ""),
    )


def cases_of(rows: Iterable[Mapping[str, Any]]) -> list[TriedConfiguration]:
    """Return the cases of rows in the order of the log; of one configuration tried again only the newest counts."""
    newest: dict[tuple[Any, ...], TriedConfiguration] = {}
    for row in rows:
        case = case_from_row(row)
        if case is None:
            continue
        key = (case.model, case.platform, case.precision, case.hardware, case.mode, case.batch_size)
        newest.pop(key, None)
        newest[key] = case
    return list(newest.values())


def read_cases(*tables: pa.Table) -> list[TriedConfiguration]:
    """Return the cases of the rows of tables, one after the other, as `cases_of` does."""
    return cases_of(
        row for table in tables for row in table.select([n for n in _READ if n in table.column_names]).to_pylist()
    )


def row_from_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `case_from_row` reads, of an event of a measurement, a failure or a test."""
    data = event["data"]
    observed, validity = data.get("observed") or {}, data.get("validity") or {}
    execution, hardware = data["execution"], data["hardware"]
    row = {
        "event_id": event["id"],
        "model_id": data["model"]["id"],
        "category": data["model"].get("category"),
        "family": data["model"].get("family"),
        "hardware_id": hardware["id"],
        "platform": observed.get("platform") or execution["platform"],
        "precision": observed.get("precision") or execution.get("precision"),
        "mode": data["workload"].get("mode"),
        "batch_size": data["workload"].get("batch_size"),
        "fallback_share": observed.get("fallback_share"),
        "origin": data["provenance"]["origin"],
        "verdict": validity.get("verdict"),
    }
    if "outcome" not in data:
        return row
    return {**row, "outcome": data["outcome"], "error": (data.get("failure") or {}).get("error")}
