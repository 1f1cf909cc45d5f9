"""Compare in all its kinds, and the Overview: what they say is what the service has, in a script and in a real browser."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from assay.client import Client
from tests.integration.dashboard.shown_tables import columns, values

pytestmark = pytest.mark.xdist_group("dashboard")
MODEL, DEVICE = "acme/scaled", "acme-wide"
LATENCIES = {1: 10.0, 2: 12.0, 4: 20.0, 8: 39.0}
"""100, 167, 200 and 205 items a second: it stops scaling at 4."""


def compare() -> None:
    from dashboard.screens.compare import view

    view.show()


def overview() -> None:
    from dashboard.screens.overview import view

    view.show()


def recommend() -> None:
    from dashboard.screens.recommend import view

    view.show()


def measured(build: Any, p50: float, *, mode: str = "inference", day: str | None = None, **more: Any) -> dict[str, Any]:
    event: dict[str, Any] = build.measurement(p50=p50, **({"model": MODEL, "hardware": DEVICE} | more))
    event["data"]["model"]["family"] = "acme-family"
    event["data"]["workload"]["mode"] = mode
    if mode == "training":
        event["data"]["metrics"] |= {"forward_ms": p50 * 0.3, "backward_ms": p50 * 0.6, "optimizer_ms": p50 * 0.1}
    return event | ({"time": f"{day}T12:00:00Z"} if day else {})


def rows(build: Any) -> list[dict[str, Any]]:
    """Four batches, a second precision, training, a second model, a failure; and a run that has not ended."""
    found = [measured(build, p50, batch_size=batch) for batch, p50 in LATENCIES.items()]
    found += [measured(build, 5.0, precision="bf16"), measured(build, 31.0, mode="training")]
    found += [measured(build, 3.0, model="acme/other"), measured(build, 50.0, hardware="acme-narrow")]
    started = {"run_id": "run-live", "kind": "bench", "hardware": [{"id": DEVICE, "kind": "cpu", "count": 1}]}
    begun = build.event("assay.run.started.v1", started) | {"time": datetime.now(UTC).isoformat()}
    return [*found, build.failure(model="acme/broken"), begun]


@pytest.fixture(scope="module")
def compared_url(new_service: Any, build: Any) -> Iterator[str]:
    with new_service() as url, Client(url) as client:
        answer = client.post_events(rows(build))
        assert answer["rejected"] == []
        client.wait_for(answer["last_position"])
        yield url


@pytest.fixture
def asked(compared_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", compared_url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield compared_url
    st.cache_data.clear()
    st.cache_resource.clear()


def run(page: Any, **params: str) -> AppTest:
    test = AppTest.from_function(page, default_timeout=60)
    for name, value in params.items():
        test.query_params[name] = value
    found = test.run()
    assert not found.exception
    return found


def plain(value: Any) -> str:
    return str(value).replace("\\", "").replace("\u202f", " ")


def heading(test: AppTest) -> str:
    return plain(test.subheader[0].value)


def said(test: AppTest) -> str:
    commands = (unescape(one.proto.body) for one in test.get("html"))
    return plain(" ".join([*(str(one.value) for one in (*test.markdown, *test.caption, *test.info)), *commands]))


def test_models_are_compared_on_a_hardware(asked: str) -> None:
    test = run(compare, what="models", hw=DEVICE, batch="1", precision="fp32")
    assert heading(test).startswith("other · cpu · fp32 · batch 1: ")
    table = columns(test, "compare table")
    assert table["Model"]["values"] == ["other", "scaled"]
    assert table["Model"]["links"] == ["models?id=acme/other", f"models?id={MODEL}"]
    assert all(path.startswith("runs?row=") for path in table["Source"]["links"])
    assert "Model differs" in said(test)


def test_another_kind_is_one_click_away_and_keeps_the_model(asked: str) -> None:
    test = run(compare, model=MODEL, metric="latency", basis="measured")
    next(control for control in test.button_group if control.key == "compare what").set_value("modes").run()
    assert not test.exception
    assert test.query_params["what"] in ("modes", ["modes"])
    assert heading(test).startswith("acme-wide · cpu · fp32 · batch 1: a step of training takes × 3.1")
    assert values(test, "compare table")["Backward"] == pytest.approx([0.6])
    assert "5 measured in inference alone" in said(test)
    assert test.query_params["model"] in (MODEL, [MODEL])


def test_a_precision_stands_beside_fp32_on_the_hardware_that_measured_most(asked: str) -> None:
    test = run(compare, what="precision", model=MODEL)
    assert test.query_params["hw"] in (DEVICE, [DEVICE])
    assert heading(test).startswith("bf16 on cpu: × 2.0 faster than fp32")
    assert heading(test).endswith("outputs not verified")
    table = values(test, "compare table")
    assert dict(zip(table["Precision"], table["Speed over fp32"], strict=True))["cpu · bf16"] == pytest.approx(2.0)
    assert "at other batches or lengths left out" in said(test)


def test_batches_say_where_they_stop_scaling(asked: str) -> None:
    test = run(compare, what="batch", model=MODEL, hw=DEVICE, basis="measured", precision="fp32")
    assert "at batch 8" in heading(test)
    assert "it stops scaling at batch 4: 8 gives 2.6 % more" in heading(test)
    assert values(test, "compare table")["Efficiency"] == pytest.approx([1.0, 0.833, 0.5, 0.256], abs=0.001)
    assert len(test.get("vega_lite_chart")) >= 3


@pytest.mark.parametrize("what", ["hardware", "models", "modes", "precision", "batch"])
def test_every_kind_is_of_the_hardware_that_the_address_names(asked: str, what: str) -> None:
    test = run(compare, what=what, hw=f"{DEVICE},acme-narrow", **({} if what == "models" else {"model": MODEL}))
    both = columns(test, "compare table")
    named = next(iter(both.values())) if what in ("modes", "precision", "batch") else both["Hardware"]
    # In both modes the second device was never measured.
    expected = {DEVICE} if what == "modes" else {DEVICE, "acme-narrow"}
    assert {link.removeprefix("hardware?id=") for link in named["links"]} == expected
    one = run(compare, what=what, hw="acme-narrow", **({} if what == "models" else {"model": MODEL}))
    tables = [item for item in one.get("bidi_component") if item.proto.id.endswith("-compare table")]
    assert not any(DEVICE in table.proto.json for table in tables)


def test_hardware_alone_in_the_address_is_compared_by_its_models(asked: str) -> None:
    test = run(compare, hw=DEVICE)
    assert {"other", "scaled"} <= set(values(test, "compare table")["Model"])


def test_what_is_not_the_same_work_is_marked_and_made_alike_by_one_click(asked: str) -> None:
    test = run(compare, model=MODEL, basis="measured")
    assert "faster" not in heading(test)
    assert "Not the same work: batch" in said(test)
    assert values(test, "compare table")["Other work"] == [None, "≠ batch 1"]
    test.button(key="compare alike").click().run()
    assert not test.exception
    # The best variant at that batch is of another precision: what the rows shared is kept.
    assert (test.query_params["batch"], test.query_params["precision"]) in (("1", "fp32"), (["1"], ["fp32"]))
    assert "Not the same work" not in said(test)
    assert "faster than acme-narrow" in heading(test)
    assert "Other work" not in values(test, "compare table")


def test_nothing_to_compare_names_what_would_help(asked: str) -> None:
    alone = run(compare, what="modes", model="acme/other")
    assert "assay bench acme/other --mode training" in said(alone)
    nobody = run(compare, what="models", hw="nobody-has-this")
    assert "nobody-has-this" in said(nobody)
    unchosen = run(compare, what="models")
    assert "Add models and hardware above" in said(unchosen)


def test_devices_at_hand_are_told_which_to_use_and_evidence_is_one_click_away(asked: str) -> None:
    test = run(recommend, model=MODEL, device=f"wide={DEVICE},narrow=acme-narrow", batch="1")
    test.session_state["recommend details"] = test.session_state["recommend form"] = True
    test.run()
    with Client(asked) as client:
        answer = client.recommend(
            MODEL, devices=[{"name": "wide", "hardware": DEVICE}, {"name": "narrow", "hardware": "acme-narrow"}],
            batch_sizes=[1], per_hardware=True,
        )  # fmt: skip
    assert answer["at_hand"]["use"] == "wide"
    assert "Use wide now; then narrow" in said(test)
    assert f"[{answer['ranked'][0]['evidence'][0]}](runs?row=" in said(test)
    test.session_state["recommend filters"] = True
    test.run()
    assert test.text_input(key="recommend device").value == f"wide={DEVICE}, narrow=acme-narrow"


def test_the_overview_counts_and_says_what_failed_and_what_is_fresh(asked: str) -> None:
    test = run(overview)
    for part in ("coverage part", "failing part", "next"):
        test.session_state[f"overview {part}"] = True
    test.run()
    with Client(asked) as client:
        known, told = client.summary(), client.overview()
    state = said(test)
    assert f"**{known['measurements']}** measurements of **{known['models']}** models" in state
    assert f"on **{known['hardware']}** devices; the newest came" in state
    failing = columns(test, "What failed most")
    assert failing["Failures"]["values"] == [told["failing"][0]["failures"]]
    assert failing["Error"]["links"] == [f"runs?row={told['failing'][0]['evidence']}"]
    ran = columns(test, "The last runs")
    shown = (ran["Run"]["shown"][0], ran["State"]["shown"][0], ran["Run"]["links"][0])
    assert shown == (f"bench on {DEVICE}", "running", "runs?run=run-live")
    assert "tried again" in said(test) or "Nothing was measured again" in said(test)
    assert "acme-family on cpu" in said(test)


def test_what_got_worse_stands_on_the_overview(asked: str, build: Any) -> None:
    with Client(asked) as client:
        before = client.ready()["position"]
        slower = [measured(build, 200.0, hardware="acme-narrow") for _ in range(2)]
        client.wait_for(client.post_events(slower)["last_position"])
        assert client.regressions(baseline=before)["changes"]
    test = run(overview, days="30")
    assert test.query_params["days"] in ("30", ["30"])
    assert any("worse than before" in plain(one.value) or "measured again" in plain(one.value) for one in test.markdown)
    then = run(overview, as_of=str(before))
    with Client(asked) as client:
        known = client.summary(as_of=before)
    assert f"**{known['measurements']}** measurements" in said(then)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("what=modes&model=acme/scaled", "a step of training takes × 3.1"),
        ("what=precision&model=acme/scaled&hw=acme-wide&batch=1", "× 2.0 faster than fp32"),
        ("what=batch&model=acme/scaled&hw=acme-wide&basis=measured", "it stops scaling at batch 4"),
        ("what=models&hw=acme-wide&metric=latency&batch=1", "other · cpu · fp32 · batch 1: 3.00 ms"),
    ],
)
def test_each_comparison_is_its_address(page: Any, dashboards: Any, compared_url: str, query: str, says: str) -> None:
    text = page.open(f"{dashboards(compared_url)}/compare?{query}")
    assert says in text
    page.page.get_by_role("button", name="About this answer").click()
    page.page.get_by_text("Same for all").wait_for()
    wide = page.page.evaluate(
        "(() => { const main = document.querySelector('[data-testid=\"stMain\"]');"
        " return main.scrollWidth - main.clientWidth; })()"
    )
    assert wide <= 0
    assert page.wrong == []


@pytest.mark.browser
@pytest.mark.parametrize("page", [(390, "dark")], indirect=True)
@pytest.mark.torture
def test_batches_fit_a_phone_and_come_as_a_file(page: Any, dashboards: Any, compared_url: str, tmp_path: Path) -> None:
    text = page.open(f"{dashboards(compared_url)}/compare?what=batch&model={MODEL}&hw={DEVICE}&basis=measured")
    assert "stops scaling" in text
    page.page.get_by_role("button", name="Download", exact=True).click()
    with page.page.expect_download() as got:
        page.page.get_by_role("button", name="CSV, every column").click()
    got.value.save_as(tmp_path / "batches.csv")
    found = pd.read_csv(io.BytesIO((tmp_path / "batches.csv").read_bytes()))
    with Client(compared_url) as client:
        known = {
            row["configuration"] for row in client.compare_hardware(MODEL, hardware=DEVICE, mode="inference")["rows"]
        }
    assert set(found["configuration"]) == known
    assert found["line_name"].str.contains(DEVICE).all()
    assert page.wrong == []


@pytest.mark.browser
def test_the_overview_shows_coverage_and_leads_on(page: Any, dashboards: Any, compared_url: str) -> None:
    text = page.open(f"{dashboards(compared_url)}/?days=1")
    assert text.index("Best hardware") < text.index("What got worse") < text.index("Last runs")
    assert text.index("Last runs") < text.index("What failed most")
    for part, words in (("Coverage", "of 1 cells have measurements"), ("What to measure next", "assay verify")):
        page.page.get_by_text(part, exact=True).click()
        page.page.get_by_text(words).first.wait_for()
    assert page.wrong == []


@pytest.mark.browser
def test_a_partial_name_is_offered_and_never_taken(page: Any, dashboards: Any, compared_url: str) -> None:
    page.open(f"{dashboards(compared_url)}/compare?hw={DEVICE}")
    box = page.page.get_by_role("combobox", name="Add a model, hardware or workload")
    box.press_sequentially("scalt")
    box.press("Enter")
    page.page.get_by_text("Nothing is called “scalt”.").wait_for()
    assert "model=" not in page.page.url
    box.press_sequentially("acme/scale and acme-narrow, batch 1")
    box.press("Enter")
    page.page.get_by_text("Nothing is called “acme/scale”. Did you mean:").wait_for()
    # What names something exactly is taken.
    page.page.wait_for_url("**hw=acme-wide%2Cacme-narrow**")
    assert "model=" not in page.page.url
    assert "batch=1" in page.page.url
    page.page.get_by_role("button", name=MODEL, exact=True).click()
    page.page.wait_for_function("location.search.includes('model=acme')")
    page.page.get_by_role("heading", name="scaled on acme-wide vs acme-narrow").wait_for()
    assert page.wrong == []
