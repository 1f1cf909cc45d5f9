"""What a training reads of tables is what it read of them row by row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.failure_rates.cases import _READ, case_from_row, cases_of, read_cases
from predictor.features.dataset import without_runs

RUNS = ("a", "b", "c")
WORDS = st.sampled_from((None, "x", "y"))
TRIED = {
    "event_id": st.uuids().map(str),
    "model_id": st.sampled_from(("m", "n")),
    "category": WORDS,
    "family": WORDS,
    "hardware_id": WORDS,
    "platform": WORDS,
    "platform_asked": WORDS,
    "precision": WORDS,
    "precision_asked": WORDS,
    "mode": st.sampled_from((None, "inference", "training")),
    "batch_size": st.sampled_from((None, 1, 2)),
    "fallback_share": st.sampled_from((None, 0.0, 0.5)),
    "origin": st.sampled_from((None, "measured", "simulated", "imported")),
    "run_id": st.sampled_from((None, *RUNS)),
}
MEASURED = st.fixed_dictionaries({**TRIED, "verdict": st.sampled_from((None, "valid", "invalid"))})
OUTCOMES = st.fixed_dictionaries(
    {
        **TRIED,
        "outcome": st.sampled_from(("passed", "failed", "unsupported", "skipped", "out_of_memory")),
        "error": st.sampled_from((None, "ScriptError", "PlatformUnavailable", "RuntimeError")),
    }
)
Rows = list[dict[str, Any]]


def table(rows: Rows, like: tuple[str, ...]) -> pa.Table:
    kinds = {"batch_size": pa.int64(), "fallback_share": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in like])
    return pa.Table.from_pylist(rows, schema)


@settings(deadline=None)
@given(st.lists(MEASURED, max_size=8), st.sets(st.sampled_from((*RUNS, "d"))))
def test_rows_of_other_runs_stay_in_their_order(rows: Rows, runs: set[str]) -> None:
    measurements = table(rows, (*TRIED, "verdict"))
    kept = [row for row in measurements.to_pylist() if row["run_id"] not in runs]
    assert without_runs(measurements, frozenset(runs)).to_pylist() == kept


@settings(deadline=None)
@given(st.lists(OUTCOMES, max_size=8), st.lists(MEASURED, max_size=8))
def test_cases_of_tables_are_those_of_their_rows(tried: Rows, measured: Rows) -> None:
    outcomes = table(tried, (*TRIED, "outcome", "error"))
    measurements = table(measured, (*TRIED, "verdict"))
    assert read_cases(outcomes, measurements) == cases_of([*outcomes.to_pylist(), *measurements.to_pylist()])


def test_every_column_that_a_case_is_made_from_is_read() -> None:
    class Recorded(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            names.add(name)
            return super().get(name, default)

        def __getitem__(self, name: str) -> Any:
            names.add(name)
            return super().__getitem__(name)

    names: set[str] = set()
    for row in ({"outcome": "failed", "error": "RuntimeError"}, {}):
        assert case_from_row(Recorded(row, model_id="m", platform_asked="cpu", precision_asked="fp32")) is not None
    assert names <= set(_READ)
