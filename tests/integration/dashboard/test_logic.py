"""What the pages' scripts do with widgets and addresses, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

MODEL = "acme/tiny"
pytestmark = pytest.mark.xdist_group("dashboard")


def recommend() -> None:
    from dashboard.screens import recommend

    recommend.show()


def compare() -> None:
    from dashboard.screens import compare

    compare.show()


def overview() -> None:
    from dashboard.screens import overview

    overview.show()


@pytest.fixture
def asked(service_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", service_url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield service_url
    st.cache_data.clear()
    st.cache_resource.clear()


def run(page: Any, **params: Any) -> AppTest:
    test = AppTest.from_function(page, default_timeout=30)
    for name, value in params.items():
        test.query_params[name] = value
    found = test.run()
    assert not found.exception
    return found


def given(test: AppTest, name: str) -> list[str]:
    value = test.query_params[name]
    return value if isinstance(value, list) else [value]


def heading(test: AppTest) -> str:
    return str(test.subheader[0].value).replace("\\", "").replace("\u202f", " ")


@pytest.mark.parametrize("page", [recommend, compare, overview])
def test_every_page_runs_without_parameters(asked: str, page: Any) -> None:
    assert run(page).title


def test_the_form_turns_widgets_into_parameters(asked: str) -> None:
    test = run(recommend, model=MODEL)
    assert heading(test).startswith("acme-one · openvino · bf16 · batch 1: p50 2.00 ms")
    test.multiselect(key="recommend platform").set_value(["cpu"])
    test.text_input(key="recommend batch").set_value("1, 8")
    next(button for button in test.button if button.label == "Rank hardware").click()
    test.run()
    assert not test.exception
    assert given(test, "platform") == ["cpu"]
    assert given(test, "batch") == ["1", "8"]
    assert heading(test).startswith("acme-one · cpu · fp32 · batch 1: p50 8.00 ms")


def test_a_form_that_says_nonsense_names_it(asked: str) -> None:
    test = run(recommend, model=MODEL)
    test.text_input(key="recommend batch").set_value("many")
    next(button for button in test.button if button.label == "Rank hardware").click()
    test.run()
    assert any("batch=many" in warning.value.replace("\\", "") for warning in test.warning)
    assert "batch" not in test.query_params


def test_a_new_address_moves_the_widgets(asked: str) -> None:
    test = run(recommend, model=MODEL, objective="throughput", max_ms="20", hw="own")
    assert test.selectbox(key="recommend objective").value == "throughput"
    assert test.number_input(key="recommend max_ms").value == 20
    assert test.multiselect(key="recommend hw").value == ["own"]
    test.query_params["objective"] = "memory"
    test.run()
    assert test.selectbox(key="recommend objective").value == "memory"


def test_comparing_by_a_filter_writes_the_address(asked: str) -> None:
    test = run(compare, model=MODEL, metric="latency")
    test.selectbox(key="compare basis").set_value("measured").run()
    assert given(test, "basis") == ["measured"]
    assert "× 4.0 faster than acme-one · cpu · fp32 · batch 1" in heading(test)


def test_an_answer_as_of_a_position_before_the_rows_has_none_of_them(asked: str) -> None:
    test = run(compare, model=MODEL, metric="latency", as_of="1")
    assert not any("2.00 ms" in str(found.value) for found in test.subheader)


def test_the_script_stands_where_the_launcher_says(asked: str) -> None:
    test = AppTest.from_file(str(Path(__file__).parents[3] / "dashboard" / "app.py"), default_timeout=30).run()
    assert not test.exception
    assert test.title[0].value == "Overview"
