"""The Compatibility page: what the matrix says is what the API says, in a script and in a real browser."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from assay.client import Client
from tests.integration.dashboard.shown import Tables

pytestmark = pytest.mark.xdist_group("dashboard")
FAMILY = "gridnet"
A, B, C = (f"acme/{FAMILY}-{letter}" for letter in "abc")
GPU = {"platform": "cuda", "precision": "fp16", "hardware": "acme-gpu"}


def compatibility() -> None:
    from dashboard.screens.compatibility import view

    view.show()


def of_family(event: dict[str, Any]) -> dict[str, Any]:
    event["data"]["model"] |= {"family": FAMILY, "category": "embedding"}
    return event


@pytest.fixture(scope="module")
def matrix_url(new_service: Any, build: Any) -> Iterator[str]:
    """Three models of one family: right on both devices, wrong on one, out of memory on it; and one of a claimed family."""
    events = [
        build.measurement(8.0, model=A), build.test(model=A), build.measurement(1.0, model=A, **GPU), build.test(model=A, **GPU),
        build.test(model=B), build.test("failed", model=B, **GPU),
        build.measurement(8.0, model=C), build.failure("out_of_memory", "load", model=C, **GPU),
    ]  # fmt: skip
    blip = build.measurement(model="Salesforce/blip-image-captioning-base", platform="openvino")
    blip["data"]["model"] |= {"family": "blip", "category": "multimodal"}
    with new_service() as url, Client(url) as client:
        client.wait_for(client.post_events([*map(of_family, events), blip])["last_position"])
        yield url


@pytest.fixture
def asked(matrix_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", matrix_url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield matrix_url
    st.cache_data.clear()
    st.cache_resource.clear()


def run(*, unfolded: bool = True, **params: Any) -> AppTest:
    test = AppTest.from_function(compatibility, default_timeout=60)
    test.session_state["compatibility folded"] = unfolded
    for name, value in params.items():
        test.query_params[name] = value
    found = test.run()
    assert not found.exception
    return found


def plain(value: Any) -> str:
    return str(value).replace("\\", "").replace("\u202f", " ")


def written(test: AppTest) -> str:
    return "\n".join(
        plain(one.value) for one in (*test.markdown, *test.caption, *test.subheader, *test.info, *test.warning)
    )


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    return Tables(monkeypatch)


CELLS, FAILING, OUTCOMES = "compatibility table", "compatibility failing", "compatibility outcomes"


def test_the_table_has_the_cells_of_the_api(asked: str, tables: Tables) -> None:
    test = run(family=FAMILY, level="model")
    with Client(asked) as client:
        answer = client.compatibility_matrix(level="model", family=FAMILY)
    wanted = [(row["name"], cell["platform"]) for row in answer["items"] for cell in row["cells"]]
    assert list(zip(tables.column(CELLS, "Name"), tables.column(CELLS, "Platform"), strict=True)) == wanted
    assert plain(test.subheader[0].value) == "2 of 6 pairs of model and platform did not work: 2 on cuda."


def test_what_did_not_run_comes_first_the_worst_state_before_the_others(asked: str, tables: Tables) -> None:
    run(family=FAMILY)
    assert tables.column(FAILING, "Did not work") == [B, C]
    assert tables.column(FAILING, "What happened") == ["wrong", "out of memory"]
    link = tables.column(FAILING, "Did not work", "links")[1]
    opened = {name: value for name, (value,) in parse_qs(urlsplit(link).query).items()}
    assert opened == {"level": "model", "family": FAMILY, "sel": f"{C}~cuda"}


def test_the_table_is_made_when_it_is_unfolded(asked: str, tables: Tables) -> None:
    run(unfolded=False, family=FAMILY)
    assert CELLS not in tables.shown
    run(family=FAMILY)
    assert set(tables.column(CELLS, "Platform")) >= {"cuda"}


def test_a_choice_becomes_the_address_and_closes_the_cell(asked: str) -> None:
    test = run(family=FAMILY, sel=f"{FAMILY}~cuda", page="1")
    test.segmented_control(key="compatibility level").set_value("model").run()
    assert not test.exception
    assert test.query_params["level"] in ("model", ["model"])
    assert "sel" not in test.query_params


def test_a_search_finds_a_family_or_a_model_and_offers_what_a_part_may_mean(asked: str, tables: Tables) -> None:
    run(model=C, level="model")
    assert set(tables.column(CELLS, "Name")) == {C}
    tables.shown.clear()
    assert "Did you mean" in written(run(model="acme/gridnt-c", level="model"))
    assert CELLS not in tables.shown, "a name that is mistyped is never taken for another"


def test_an_open_cell_says_what_stopped_it_and_what_to_try(asked: str, tables: Tables) -> None:
    text = written(run(level="model", sel=f"{C}~cuda"))
    assert "load: 1 (1 out of memory)" in text
    assert "memory ran out" in text
    assert "Try: Use fp32." in text.replace("*", "")
    with Client(asked) as client:
        (row,) = client.compatibility(model=C, platform="cuda")
    assert tables.column(OUTCOMES, "Seen", "links") == [f"runs?row={row['evidence_ids'][0]}"]
    assert tables.column(OUTCOMES, "Stopped at") == ["load"]


def test_an_open_cell_of_a_model_that_ran_has_what_was_measured(asked: str, tables: Tables) -> None:
    run(level="model", sel=f"{A}~cuda")
    table = "compatibility measured"
    assert [plain(one) for one in tables.column(table, "Latency", "shown")] == ["1.00 ms (0.99–1.01)"]
    assert tables.column(table, "Latency") == [1.0]
    assert tables.column(table, "Known", "links") == ["runs?run=run-1"]


def test_claims_are_apart_from_evidence(asked: str, tables: Tables) -> None:
    run(family="blip")
    assert tables.column(CELLS, "Platform") == ["openvino"]
    text = written(run(family="blip", claims="yes", sel="blip~mps"))
    assert "dashed: only a document claims it" in text
    assert "Nobody tried it here" in text
    assert "no evidence: nothing above rests on it" in text
    assert set(tables.column("compatibility claims", "Beside what was seen")) == {"unobserved"}


def test_one_hardware_shows_what_was_seen_there_alone(asked: str, tables: Tables) -> None:
    test = run(level="model", hw="acme-gpu", sel=f"{B}~cuda")
    assert set(tables.column(CELLS, "Platform")) == {"cuda"}
    assert "verify: 1 (1 wrong)" in written(test)


def test_what_the_address_says_in_vain_is_named(asked: str) -> None:
    test = run(state="sad", colour="red", sel="gridnet~moon")
    assert "state=sad was left out" in written(test)
    assert "colour is not a parameter of this page" in written(test)
    assert "Nothing was tried of gridnet on moon" in written(test)


def test_filters_that_leave_nothing_can_be_reset(asked: str, tables: Tables) -> None:
    test = run(family=FAMILY, state="timeout")
    assert "No row has all of that." in written(test)
    test.button(key="compatibility reset").click().run()
    assert "state" not in test.query_params
    assert FAMILY in tables.column(CELLS, "Name")


@pytest.mark.browser
def test_a_click_opens_a_cell_over_the_page_whose_address_opens_it_again(
    page: Any, dashboards: Any, matrix_url: str
) -> None:
    at = dashboards(matrix_url)
    text = page.open(f"{at}/compatibility?family={FAMILY}")
    assert "2 of 6 pairs of model and platform did not work: 2 on cuda." in text
    opened = page.page.get_by_role("dialog")
    for _ in range(2):
        # A cell that was closed opens again.
        page.page.locator('[data-testid="stVegaLiteChart"] :is(canvas, svg)').first.click(position={"x": 180, "y": 60})
        opened.get_by_text(f"{FAMILY} on cpu: 3 of 3 models ran").wait_for()
        assert parse_qs(urlsplit(page.page.url).query)["sel"] == [f"{FAMILY}~cpu"]
        opened.get_by_role("button", name="Close").click()
        opened.wait_for(state="detached")
        page.page.wait_for_function("!location.search.includes('sel=')")
        page.text()
    page.open(f"{at}/compatibility?family={FAMILY}&sel={FAMILY}~cuda")
    again = opened.inner_text()
    assert f"{FAMILY} on cuda: 1 of 3 models ran" in again
    assert "Halve the batch" in again or "Use fp32." in again
    assert page.wrong == []


@pytest.mark.browser
def test_a_model_is_found_by_its_name_and_its_failure_opened_by_keyboard(
    page: Any, dashboards: Any, matrix_url: str
) -> None:
    page.open(f"{dashboards(matrix_url)}/compatibility")
    page.page.get_by_role("combobox", name="Family or model").press_sequentially(C)
    page.page.keyboard.press("Enter")
    page.page.wait_for_function("location.search.includes('model=')")
    page.open(f"{dashboards(matrix_url)}/compatibility?family={FAMILY}")
    page.page.get_by_role("link", name=C).focus()
    page.page.keyboard.press("Enter")
    page.page.get_by_role("dialog").get_by_text(f"{C} on cuda: out of memory").wait_for()
    assert page.wrong == []


@pytest.mark.browser
def test_files_hold_the_rows(page: Any, dashboards: Any, matrix_url: str, tmp_path: Path) -> None:
    page.open(f"{dashboards(matrix_url)}/compatibility?family={FAMILY}&level=model")
    page.page.get_by_test_id("stPopover").get_by_role("button", name="Download").click()
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="CSV, every column").click()
    expected.value.save_as(tmp_path / "cells.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "cells.csv").read_text())))
    with Client(matrix_url) as client:
        answer = client.compatibility_matrix(level="model", family=FAMILY)
    wanted = [(row["name"], cell["platform"], cell["state"]) for row in answer["items"] for cell in row["cells"]]
    assert [(row["name"], row["platform"], row["state"]) for row in rows] == wanted
    assert {row["as_of"] for row in rows} == {str(answer["position"])}
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="SVG picture").click()
    expected.value.save_as(tmp_path / "map.svg")
    assert "gridnet-a" in (tmp_path / "map.svg").read_text()
    assert page.wrong == []
