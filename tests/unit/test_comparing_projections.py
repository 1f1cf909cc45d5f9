"""Two projections are the same where every table and every view says the same."""

from __future__ import annotations

import duckdb
import pytest

from tests.conftest import compare_projections

VIEW = "CREATE VIEW first_model AS SELECT first(model) AS model FROM measurement"


def projection(*models: str, view: str = VIEW, epoch: int = 1) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE measurement (model VARCHAR)")
    connection.execute("CREATE TABLE projection AS SELECT 7 AS position, ?::INTEGER AS epoch", [epoch])
    connection.execute(view)
    for model in models:
        connection.execute("INSERT INTO measurement VALUES (?)", [model])
    return connection


def test_same_rows_in_another_order_and_another_epoch_are_the_same():
    view = "CREATE VIEW models AS SELECT model, count(*) AS rows FROM measurement GROUP BY ALL"
    with projection("a", "b", view=view) as one, projection("b", "a", view=view, epoch=2) as other:
        compare_projections(one, other)


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (("a", "c"), "measurement"),
        (("a", "b", "b"), "measurement"),
        (("b", "a"), "first_model"),
    ],
)
def test_table_or_view_that_differs_is_named(other, name):
    with projection("a", "b") as one, projection(*other) as two, pytest.raises(AssertionError, match=f"{name} differs"):
        compare_projections(one, two)


def test_views_of_the_same_rows_are_compared_where_their_definitions_differ():
    view = VIEW.replace("first(", "last(")
    with (
        projection("a", "b") as one,
        projection("a", "b", view=view) as other,
        pytest.raises(AssertionError, match="first_model"),
    ):
        compare_projections(one, other)
