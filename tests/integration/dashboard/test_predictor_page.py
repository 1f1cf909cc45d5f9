"""The predictor's page: what the card and the live accuracy say, in a script and in a real browser."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from assay.client import Client
from dashboard.address import GROUPS
from presentation import formatting

pytestmark = pytest.mark.xdist_group("dashboard")
MODEL, DEVICE = "acme/traced", "nvidia-l4"
ASKED = {"hardware": DEVICE, "platform": "cuda", "precision": "fp16", "batch_size": 8}


def predictor() -> None:
    from dashboard.screens.predictor import view

    view.show()


def trace(build: Any) -> dict[str, Any]:
    operator = {
        "name": "aten.addmm", "class": "mm", "count": 24, "flops": 1.5e8, "read_elements": 98304, "write_elements": 98304,
        "weight_elements": 589824, "inner": 768, "kernel": None, "stride": None, "groups": None,
    }  # fmt: skip
    totals = {"flops": 3.6e9, "operators": 24, "parameters": 14155776, "peak_activation_elements": 393216}
    return build.event(
        "assay.model.traced.v1",
        {
            "model": {"id": MODEL, "category": "embedding", "family": "bert", "architecture": "sha256:" + "a" * 64},
            "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "sequence_length": 128},
            "tracer": {"name": "assay-tracer", "version": 1, "torch": "2.13.0"},
            "operators": [operator],
            "totals": totals,
        },
    )


@pytest.fixture(scope="module")
def used_url(new_service: Any, build: Any) -> Iterator[str]:
    """A service that gave out one prediction, half of what was measured then."""
    with new_service() as url, Client(url) as client:
        client.wait_for(client.post_events([trace(build)])["last_position"])
        given = client.predict(MODEL, sequence_length=128, **ASKED, record=True)
        row = build.measurement(p50=given["latency_ms"] * 2, model=MODEL, **ASKED)
        client.wait_for(client.post_events([row])["last_position"])
        yield url


@pytest.fixture
def asked(used_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", used_url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield used_url
    st.cache_data.clear()
    st.cache_resource.clear()


def run(*, unfolded: str = "", **params: str) -> AppTest:
    test = AppTest.from_function(predictor, default_timeout=60)
    if unfolded:
        test.session_state[unfolded] = True
    for name, value in params.items():
        test.query_params[name] = value
    found = test.run()
    assert not found.exception
    return found


def named(url: str, split: str, shots: int = 0) -> tuple[str, dict[str, Any]]:
    """The name and the answer of the throughput evaluation on the card that held this out."""
    with Client(url) as client:
        scores = client.predictor()["scores"]
    found = [
        (name, one)
        for name, one in scores.items()
        if (one["split"], one["shots"], one["target"]) == (split, shots, "throughput")
    ]
    return found[0]


def plain(value: Any) -> str:
    return str(value).replace("\\", "").replace("\u202f", " ")


def test_the_answer_is_about_what_never_trained_and_the_choice_becomes_the_address(asked: str) -> None:
    test = run()
    assert test.selectbox(key="predictor split").value != "random"
    name, _ = named(asked, "random")
    test.selectbox(key="predictor split").set_value(name).run()
    assert not test.exception
    assert test.query_params["split"] in (name, [name])
    assert any(plain(found.value).startswith("Interpolation only") for found in test.markdown)
    assert plain(test.subheader[0].value).startswith("Expect ±")


def test_an_address_chooses_the_evaluation_and_its_groups(asked: str) -> None:
    name, answer = named(asked, "family")
    families = answer["by_family"]
    test = run(unfolded="predictor by group", split=name, group="family")
    assert test.selectbox(key="predictor group").value == "family"
    assert test.selectbox(key="predictor group").options == list(GROUPS)
    assert any("Error by family" in found.label for found in test.expander)
    worst = f"15 worst of {formatting.count(len(families))}"
    assert any(worst in plain(found.value) for found in test.caption)


def test_an_evaluation_that_is_not_there_is_named(asked: str) -> None:
    test = run(split="moon")
    assert any("no evaluation is called moon" in plain(found.value) for found in test.warning)
    assert test.selectbox(key="predictor split").value != "moon"


def test_a_split_without_intervals_has_a_dash_and_says_why(asked: str) -> None:
    test = run(split=named(asked, "hardware")[0])
    figures = {found.label: found.value for found in test.metric}
    assert figures["80 % intervals held"] == formatting.MISSING
    assert any("not calibrated" in plain(found.value) for found in test.caption)


def test_what_was_given_out_and_measured_is_scored(asked: str) -> None:
    test = run(tab="live")
    figures = {found.label: plain(found.value) for found in test.metric if found.label.startswith("Mean error")}
    assert figures == {"Mean error, models alike": "50.0 %"}
    assert any("latency · n 1 · 1 model" in plain(found.value) for found in test.caption)


def test_a_target_that_nothing_was_measured_of_says_so(asked: str) -> None:
    test = run(tab="live", target="energy")
    assert any(
        "1 prediction given out and recorded; no energy of that was measured since" in plain(found.value)
        for found in test.info
    )


def test_as_of_a_position_before_the_answer_nothing_was_recorded(asked: str) -> None:
    test = run(tab="live", as_of="1")
    assert any("No prediction was recorded yet" in plain(found.value) for found in test.info)


@pytest.mark.parametrize(
    ("tab", "there", "elsewhere"),
    [("scores", "Every evaluation", "Training history"), ("decisions", "Which device first?", "Every evaluation"),
     ("card", "Training history", "Live accuracy")],
)  # fmt: skip
def test_one_part_is_shown_and_named_in_the_address(asked: str, tab: str, there: str, elsewhere: str) -> None:
    test = run(tab=tab)
    heads = [*(found.value for found in test.subheader), *(found.label for found in test.expander)]
    assert there in heads and "What to measure next" in heads
    assert elsewhere not in heads


@pytest.mark.browser
def test_the_page_says_what_the_card_says(page: Any, dashboards: Any, used_url: str, tmp_path: Path) -> None:
    with Client(used_url) as client:
        card = client.predictor()
    name, answer = named(used_url, "family")
    one = answer["overall"]
    text = page.open(f"{dashboards(used_url)}/predictor?split={name}")
    page.page.get_by_role("button", name="About this answer").click()
    page.page.get_by_text(f"predictor {formatting.digest(card['digest'])}").first.wait_for()
    assert "ships with Assay" in page.page.get_by_test_id("stPopoverBody").inner_text()
    page.page.keyboard.press("Escape")
    assert f"half of the errors are under {formatting.plain(formatting.share(one['median_ape']))}" in text
    assert text.index("Expect ±") < text.index("half of the errors")
    page.page.get_by_text("What to measure next").click()
    page.page.get_by_text("assay suggest").wait_for()
    page.page.get_by_test_id("stPopover").get_by_role("button", name="Download").click()
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="CSV, every score").click()
    expected.value.save_as(tmp_path / "scores.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "scores.csv").read_text())))
    family = next(row for row in rows if row["evaluation"] == name and row["by"] == "all")
    assert float(family["mape"]) == one["mape"]
    assert {row["evaluation"] for row in rows if row["by"] == "family"} >= {name}
    page.page.get_by_role("radio", name="What it knows").click()
    page.page.wait_for_function("location.search.includes('tab=card')")
    page.page.get_by_text("Training history", exact=True).wait_for()
    # The part fills from above; its texts come one after the other.
    page.page.wait_for_function(
        "limits => limits.every(limit => document.querySelector('[data-testid=stMain]').innerText.includes(limit))",
        arg=[limit.rstrip(".") for limit in card["limits"]],
    )
    assert page.wrong == []


@pytest.mark.browser
def test_a_choice_writes_the_address(page: Any, dashboards: Any, used_url: str) -> None:
    page.open(f"{dashboards(used_url)}/predictor?split={named(used_url, 'family')[0]}")
    page.page.get_by_role("combobox", name="Errors by").click()
    page.page.get_by_role("option", name="family").click()
    page.page.wait_for_function("location.search.includes('group=family')")
    page.page.get_by_text("Error by family", exact=True).wait_for()
    assert page.wrong == []


@pytest.mark.browser
@pytest.mark.parametrize("page", [(390, "light"), (1280, "dark")], indirect=True)
@pytest.mark.torture
def test_the_page_fits_a_phone_and_the_dark(page: Any, dashboards: Any, used_url: str) -> None:
    page.open(f"{dashboards(used_url)}/predictor")
    wide = page.page.evaluate(
        "(() => { const main = document.querySelector('[data-testid=\"stMain\"]');"
        " return main.scrollWidth - main.clientWidth; })()"
    )
    assert wide <= 0
    assert page.wrong == []


@pytest.mark.browser
def test_a_service_of_another_version_is_a_sentence(page: Any, dashboards: Any, newer_url: str) -> None:
    text = page.open(f"{dashboards(newer_url)}/predictor")
    assert "another version" in text and "Traceback" not in text
