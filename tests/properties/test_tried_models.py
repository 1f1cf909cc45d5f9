"""A model that was neither tested nor failed has no failures and no errors of outputs, whatever else the log says."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.projection import Tables
from predictor.answering import facts
from tests.properties.ingest.test_projection_properties import logs, projected, table


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_a_model_without_tests_and_failures_has_none(build, data):
    events = [*data.draw(logs(build)), build.failure(model="a"), build.test("failed", model="b")]
    with projected(table(events), []) as connection:
        for as_of in (None, len(events) - 2):
            tables = Tables(connection, as_of=as_of)
            for model in {tables.resolve_model(name) for name in "abcd"}:
                tried = tables.select("test subject", facts._TRIED, [model]).num_rows > 0
                assert tried or (facts._failures(tables, model), facts.output_errors(tables, model)) == ({}, {})
            if as_of is None:
                assert tables.select("test subject", facts._TRIED, [tables.resolve_model("a")]).num_rows == 1
