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
from assay.home import find_home
from assay.service import ephemeral

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
def matrix_url(tmp_path_factory: pytest.TempPathFactory, build: Any) -> Iterator[str]:
    """Three models of one family: right on both devices, wrong on one, out of memory on it; and one of a claimed family."""
    events = [
        build.measurement(8.0, model=A), build.test(model=A), build.measurement(1.0, model=A, **GPU), build.test(model=A, **GPU),
        build.test(model=B), build.test("failed", model=B, **GPU),
        build.measurement(8.0, model=C), build.failure("out_of_memory", "load", model=C, **GPU),
    ]  # fmt: skip
    blip = build.measurement(model="Salesforce/blip-image-captioning-base", platform="openvino")
    blip["data"]["model"] |= {"family": "blip", "category": "multimodal"}
    with ephemeral(find_home(tmp_path_factory.mktemp("matrix"))) as url, Client(url) as client:
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


def table(test: AppTest, head: str) -> Any:
    """The table that has a column of this name."""
    return next(one.value for one in test.dataframe if head in one.value)


def test_the_table_has_the_cells_of_the_api(asked: str) -> None:
    test = run(family=FAMILY, level="model")
    with Client(asked) as client:
        answer = client.compatibility_matrix(level="model", family=FAMILY)
    found = table(test, "Level")
    wanted = [(row["name"], cell["platform"]) for row in answer["items"] for cell in row["cells"]]
    assert list(zip(found["Name"], found["Platform"], strict=True)) == wanted
    assert plain(test.subheader[0].value) == (
        "3 models: 4 of 6 pairs of a model and a platform that were tried ran; fewest on cuda, 1 of 3."
    )


def test_the_table_is_made_when_it_is_unfolded(asked: str) -> None:
    assert not run(unfolded=False, family=FAMILY).dataframe
    assert set(table(run(family=FAMILY), "Level")["Platform"]) >= {"cuda"}


def test_a_choice_becomes_the_address_and_closes_the_cell(asked: str) -> None:
    test = run(family=FAMILY, sel=f"{FAMILY}~cuda", page="1")
    test.segmented_control(key="compatibility level").set_value("model").run()
    assert not test.exception
    assert test.query_params["level"] in ("model", ["model"])
    assert "sel" not in test.query_params
    test.selectbox(key="compatibility sel").set_value(f"{C}~cuda").run()
    assert test.query_params["sel"] in (f"{C}~cuda", [f"{C}~cuda"])


def test_an_open_cell_says_what_stopped_it_and_what_to_try(asked: str) -> None:
    test = run(level="model", sel=f"{C}~cuda")
    text = written(test)
    assert f"{C} on cuda: out of memory" in text
    assert "load: 1 (1 out of memory)" in text
    assert "memory ran out" in text
    assert "Try: Use fp32." in text.replace("*", "")
    outcomes = table(test, "Stopped at")
    with Client(asked) as client:
        (row,) = client.compatibility(model=C, platform="cuda")
    assert list(outcomes["Evidence"]) == [f"/runs?row={row['evidence_ids'][0]}"]
    assert list(outcomes["Stopped at"]) == ["load"]


def test_an_open_cell_of_a_model_that_ran_has_what_was_measured(asked: str) -> None:
    test = run(level="model", sel=f"{A}~cuda")
    assert "verified, level high, × 8.00 the plain CPU's speed" in written(test)
    measured = table(test, "Verdict")
    assert [plain(one) for one in measured["Latency (95 % CI)"]] == ["1.00 ms (0.99–1.01)"]
    assert list(measured["Run"]) == ["/runs?run=run-1"]


def test_claims_are_apart_from_evidence(asked: str) -> None:
    plainly = run(family="blip")
    assert list(table(plainly, "Level")["Platform"]) == ["openvino"]
    test = run(family="blip", claims="yes", sel="blip~mps")
    text = written(test)
    assert "dashed: only a document claims it" in text
    assert "nobody tried it" in text
    assert "no evidence: nothing above rests on it" in text
    claims = table(test, "Beside what was seen")
    assert set(claims["Beside what was seen"]) == {"unobserved"}


def test_one_hardware_shows_what_was_seen_there_alone(asked: str) -> None:
    test = run(level="model", hw="acme-gpu", sel=f"{B}~cuda")
    assert set(table(test, "Level")["Platform"]) == {"cuda"}
    assert "verify: 1 (1 wrong)" in written(test)


def test_what_the_address_says_in_vain_is_named(asked: str) -> None:
    test = run(state="sad", colour="red", sel="gridnet~moon")
    assert "state=sad was left out" in written(test)
    assert "colour is not a parameter of this page" in written(test)
    assert "Nothing was tried of gridnet on moon" in written(test)


def test_filters_that_leave_nothing_can_be_reset(asked: str) -> None:
    test = run(family=FAMILY, state="timeout")
    assert "No row has all of that." in written(test)
    test.button(key="compatibility reset").click().run()
    assert "state" not in test.query_params
    assert any(FAMILY in set(one.value.get("Name", [])) for one in test.dataframe)


@pytest.mark.browser
def test_a_click_opens_a_cell_whose_address_opens_it_again(page: Any, dashboards: Any, matrix_url: str) -> None:
    at = dashboards(matrix_url)
    text = page.open(f"{at}/compatibility?family={FAMILY}")
    assert "1 family: 4 of 6 pairs of a model and a platform that were tried ran; fewest on cuda, 1 of 3." in text
    page.page.locator('[data-testid="stVegaLiteChart"] :is(canvas, svg)').first.click(position={"x": 180, "y": 60})
    page.page.wait_for_function("location.search.includes('sel=')")
    assert parse_qs(urlsplit(page.page.url).query)["sel"] == [f"{FAMILY}~cpu"]
    page.page.get_by_role("heading", name=f"{FAMILY} on cpu: 3 of 3 models ran").wait_for()
    again = page.open(f"{at}/compatibility?family={FAMILY}&sel={FAMILY}~cuda")
    assert f"{FAMILY} on cuda: 1 of 3 models ran" in again
    assert "Halve the batch" in again or "Use fp32." in again
    assert page.wrong == []


@pytest.mark.browser
def test_the_keyboard_opens_a_cell_and_files_hold_the_rows(
    page: Any, dashboards: Any, matrix_url: str, tmp_path: Path
) -> None:
    page.open(f"{dashboards(matrix_url)}/compatibility?family={FAMILY}&level=model")
    page.page.get_by_role("combobox", name="Open a cell").press_sequentially(f"{C} on cuda")
    page.page.keyboard.press("Enter")
    page.page.get_by_role("heading", name=f"{C} on cuda: out of memory").wait_for()
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
