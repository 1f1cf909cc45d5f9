"""Histories from files of events: what each figure and test was, run by run, without what was retracted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from assay.regressions.reading import LINES, Row, in_force, json_lines
from domain.comparison.comparison_input import alike_of, contents_of, is_wanted, row_of_event
from domain.errors import UsageError
from domain.events import MEASUREMENT_RECORDED, RUN_STARTED
from domain.figures import FIGURES
from domain.history.branches import of_branch
from domain.history.history import History
from domain.history.history_rows import histories_of_rows, row_order
from domain.vocabulary import NO_EVIDENCE

__all__ = ["read_histories"]


def read_histories(
    paths: Sequence[Path], wanted: Mapping[str, Any], *, metrics: Sequence[str] = (), branch: str | None = None
) -> list[History]:
    """Return the histories in files of events, by model and configuration, in the order of the events' times.

    `wanted`: by `model`, `hardware`, `platform`, `precision` the value that is taken. Simulated, invalid and undated rows
    are left out. UsageError for a file that is none, and where a metric is neither a figure nor a test that the files have.
    """
    records = [record for path in paths for record in _events(path)]
    contexts = {
        data["run_id"]: data["context"]
        for record in records
        if record.get("type") == RUN_STARTED and isinstance(data := record.get("data"), dict) and data.get("context")
    }
    rows = list(_rows(in_force(records), contexts, wanted))
    _require_metrics(rows, metrics)
    environments = {name: contents_of(row["environment"]) for row in rows if (name := row["environment_fingerprint"])}
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=row_order):
        grouped.setdefault((row["model_id"], row["alike"]), []).append(row)
    histories: list[History] = []
    for _, group in sorted(grouped.items()):
        measured = [row for row in group if row["kind"] == MEASUREMENT_RECORDED]
        outcomes = [row for row in group if row["kind"] != MEASUREMENT_RECORDED]
        for history in histories_of_rows(measured, outcomes, metrics):
            if (own := of_branch(history, branch)) is not None:
                used = {point.environment for point in own.points}
                kept = {name: each for name, each in environments.items() if name in used}
                histories.append(msgspec.structs.replace(own, environments=kept))
    return histories


def _events(path: Path) -> Iterator[Row]:
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}.", field="file", remedy="Name a file that `assay bench --out` wrote."
        )
    if Path(path.name.removesuffix(".gz")).suffix.lower() not in LINES:
        raise UsageError(
            f"{path} is no file of events.", field="file", remedy="Give .ndjson or .ndjson.gz: of `assay bench --out`."
        )
    for number, record in enumerate(json_lines(path, "file"), 1):
        if not isinstance(record, dict) or "type" not in record:
            raise UsageError(f"line {number} of {path} is no event.", field="file", remedy="One event a line.")
        yield record


def _rows(records: Iterable[Row], contexts: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Row]:
    for position, record in enumerate(records, 1):
        row = row_of_event(record, field="file")
        if row is None or row["origin"] in NO_EVIDENCE or row.get("verdict") == "invalid":
            continue
        time = _time(record)
        if time is not None and is_wanted(row, {name: {value} for name, value in wanted.items()}):
            own = {"kind": record["type"], "alike": alike_of(row), "position": position, "time": time}
            yield {**row, **own, "source": record.get("source", ""), **contexts.get(row["run_id"], {})}


def _time(record: Row) -> datetime | None:
    """Return the time of an event with its offset, or None where it has none."""
    try:
        time = datetime.fromisoformat(str(record.get("time")))
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def _require_metrics(rows: Sequence[Row], metrics: Sequence[str]) -> None:
    from domain.comparison.thresholds import MEASURING

    followed = [name for name, figure in FIGURES.items() if figure.better != "neither"]
    tests = {MEASURING, *(str(row["test"]) for row in rows if row.get("test"))}
    for name in metrics:
        if name not in followed and name not in tests:
            raise UsageError(
                f"{name!r} is neither a figure nor a test.",
                field="metric",
                remedy=f"Give a test ({', '.join(sorted(tests))}), or one of {', '.join(followed)}.",
            )
