"""The traces that ship: every model of the catalogue is among them, and those of the log count before them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from domain.catalogues.models import catalogue
from predictor.answering.facts import trace_from_row
from predictor.features.shipped_traces import shipped_models, traces_of

BERT = "google-bert/bert-base-uncased"


class Log:
    """The traces of a log; its rows are those given."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows = rows

    def traces(self, *, model: list[str], columns: list[str] | None = None, **filters: str) -> pa.Table:
        rows = [row for row in self.rows if row["model_id"] in model]
        rows = [row for row in rows if all(row[name] == value for name, value in filters.items())]
        return pa.Table.from_pylist([{name: row[name] for name in columns or row} for row in rows])


def test_every_model_of_the_catalogue_has_one() -> None:
    assert {item.id for item in catalogue()} - shipped_models() == set()


def test_a_shipped_trace_is_the_work_of_the_model() -> None:
    rows = traces_of(Log(), [BERT])  # type: ignore[arg-type]
    usual = next(row for row in rows if row["phase"] == "forward" and row["sequence_length"] == 128)
    trace = trace_from_row(usual)
    # Twelve layers of 768: 85 million weights multiplied with 128 tokens, and the attention beside them.
    assert 2 * 85e6 * 128 < (trace.flops * trace.count).sum() < 2.2 * 90e6 * 128
    assert {row["position"] for row in rows} == {0} and {row["event_id"] for row in rows} == {None}


@pytest.mark.parametrize("columns", [None, ("model_id", "event_id")])
def test_a_trace_of_the_log_takes_the_place_of_the_shipped_one(columns: tuple[str, ...] | None) -> None:
    shipped = traces_of(Log(), [BERT], phase="forward")  # type: ignore[arg-type]
    own = {**shipped[0], "position": 7, "event_id": "e"}
    rows = traces_of(Log(own), [BERT], phase="forward", columns=columns)  # type: ignore[arg-type]
    assert len(rows) == len(shipped)
    assert [row["event_id"] for row in rows].count("e") == 1
    assert rows[-1]["event_id"] == "e"
