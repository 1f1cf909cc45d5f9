from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.tables import result_table as tables
from dashboard.tables.result_table import Column, columns_of


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the browser is sent for a table."""
    shown: list[Any] = []
    monkeypatch.setattr(tables, "_component", lambda **options: shown.append(options["data"]))

    def of(columns: list[Column]) -> Any:
        tables.result_table(columns, key="rows", words="Rows")
        # As JSON has it: nothing that the browser cannot read.
        return json.loads(json.dumps(shown[-1], allow_nan=False))

    return of


def test_a_frame_keeps_numbers_as_numbers_and_leaves_out_columns_without_values(sent: Any) -> None:
    frame = pd.DataFrame(
        {
            "Name": ["one", None],
            "Rows": pd.Series([12_000, None], dtype="Int64"),
            "ms": [1.23456, float("nan")],
            "Nothing": [None, None],
        }
    )
    made = sent(columns_of(frame, links={"Name": ["runs?run=1", None]}))
    name, rows, ms = made["columns"]
    assert (name["values"], name["shown"], name["links"], name["number"]) == (
        ["one", None],
        ["one", "—"],
        ["runs?run=1", None],
        False,
    )
    assert (rows["values"], rows["shown"], rows["number"]) == ([12_000, None], ["12,000", "—"], True)
    assert (ms["values"], ms["shown"]) == ([1.23456, None], ["1.23", "—"])


def test_words_and_intervals_go_beside_the_raw_value(sent: Any) -> None:
    column = Column(
        head="Latency", values=[2.0, None], shown=["2.00 ms (1–3)", "—"], low=[1.0, float("inf")], high=[3.0, None]
    )
    (made,) = sent([column])["columns"]
    assert (made["values"], made["low"], made["high"]) == ([2.0, None], [1.0, None], [3.0, None])
    assert made["shown"][0] == "2.00 ms (1–3)"


def test_a_table_is_shown_by_streamlit() -> None:
    def script() -> None:
        from dashboard.tables.result_table import Column, result_table

        result_table([Column(head="Name", values=["one"])], key="rows", words="Rows")

    assert not AppTest.from_function(script).run().exception
