"""Variants and served models on the pages: Models, Operations and Recommend, in a script and once in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import streamlit as st
from streamlit import config
from streamlit.testing.v1 import AppTest

from assay.client import Client
from tests.integration.dashboard.shown import Tables
from tests.integration.dashboard.test_every_page import findings
from tests.variants import BASE, PLACED, PROMISE, VARIANTS, delivery, endpoint, experiment

pytestmark = pytest.mark.xdist_group("dashboard")


def models() -> None:
    from dashboard.screens.models import view

    view.show()


def operations() -> None:
    from dashboard.screens.operations import view

    view.show()


def recommend() -> None:
    from dashboard.screens.recommend import view

    view.show()


@pytest.fixture(scope="module")
def variants_url(new_service: Any, build: Any) -> Iterator[str]:
    """A service that knows eight variants of a model, and an endpoint whose promise was kept once and broken once."""
    events = [
        *experiment(build),
        endpoint(build, "created", promise=PROMISE, **PLACED),
        endpoint(build, "ready", workers=2, memory_bytes=310_000_000),
        delivery(build),
        delivery(build, "broken", 15.9, 16, reason="Slower than promised."),
    ]
    with new_service() as url, Client(url) as client:
        answer = client.post_events(events)
        assert answer["rejected"] == []
        client.wait_for(answer["last_position"])
        yield url


@pytest.fixture
def asked(variants_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", variants_url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield variants_url
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def local() -> Iterator[None]:
    """As on this machine alone, where whoever looks is an operator."""
    before = st.get_option("server.address")
    config.set_option("server.address", "127.0.0.1")
    yield
    config.set_option("server.address", before)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    return Tables(monkeypatch)


def run(page: Any, **params: str) -> AppTest:
    test = AppTest.from_function(page, default_timeout=60)
    for name, value in params.items():
        test.query_params[name] = value
    shown = test.run()
    assert not shown.exception
    return shown


def table(test: AppTest, *heads: str) -> list[dict[str, str]]:
    """Return the one plain table that has these columns, without the signs that escape Markdown."""
    (frame,) = [each.value for each in test.table if set(heads) <= set(each.value.columns)]
    return [
        {head: str(cell).replace("\\", "").replace("\u202f", " ") for head, cell in row.items()}
        for row in frame.to_dict("records")
    ]


@pytest.mark.usefixtures("asked")
def test_a_model_shows_every_variant_losers_included_and_null_where_nobody_evaluated() -> None:
    rows = table(run(models, id=BASE, tab="hardware"), "Variant")
    assert {made.recipe for made in VARIANTS} <= {row["Variant"] for row in rows}
    loss = {row["Variant"]: row["Quality loss"] for row in rows}
    assert loss["prune-2:4"].startswith("5.3 pt") and "%" not in loss["int4-weights"]


@pytest.mark.usefixtures("asked", "local")
def test_operations_show_served_models_with_promise_beside_delivery() -> None:
    test = AppTest.from_function(operations, default_timeout=60)
    test.session_state["operations part Served models"] = True
    test.run()
    assert not test.exception
    (served,) = table(test, "Endpoint", "Promise held")
    assert (served["Endpoint"], served["Workers"], served["Promise held"]) == ("digits", "2", "1 of 2")
    broken, kept = table(test, "Verdict", "Delivered")
    assert broken["Verdict"].endswith("broken") and broken["Delivered"] == "15.9 ms"
    assert kept["Verdict"].endswith("kept") and "12.1 ms" in kept["Promise"]


@pytest.mark.usefixtures("asked")
def test_recommend_takes_limits_of_quality_loss_and_size_from_the_address(tables: Tables) -> None:
    test = run(recommend, model=BASE, max_loss="0.5", max_mb="100")
    assert any("--max-quality-loss 0.5 --max-size-mb 100" in part.proto.body for part in test.get("html"))
    words = " ".join(str(value) for column in tables.shown["recommend ranking"] for value in column["shown"] or ())
    assert "int8-ptq" in words and not {"prune-2:4", "distill-half", "mixed"} & set(words.split())


@pytest.mark.browser
def test_axe_finds_nothing_on_variants_and_served_models(page: Any, dashboards: Any, variants_url: str) -> None:
    shown = page.open(f"{dashboards(variants_url)}/models?id={BASE}&tab=hardware")
    assert "distill-half" in shown
    assert findings(page.page) == []
    page.open(f"{dashboards(variants_url)}/operations")
    page.page.get_by_text("Served models").click()
    page.page.get_by_text("Promise against delivery").wait_for()
    assert findings(page.page) == []
    assert page.wrong == []
