"""The hardware page: a roofline with what was measured, what was tried, siblings and machines, in a script and a browser."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from assay.client import Client
from presentation import formatting
from tests.integration.dashboard.shown import Tables

pytestmark = pytest.mark.xdist_group("dashboard")
DEVICE, OTHER, MODEL = "acme-roofed", "acme-plain", "acme/under-roof"
WORKLOAD = {"mode": "inference", "scenario": "single_stream", "sequence_length": 128}


def script() -> None:
    from dashboard.screens.hardware import view

    view.show()


def described(build: Any) -> dict[str, Any]:
    def figure(value: float) -> dict[str, Any]:
        return {"value": value, "status": "measured", "source": "a probe of this test"}

    spec = {
        "peak_flops": {"fp32": figure(1e12)},
        "memory_bandwidth_bytes_per_s": figure(1e11),
        "memory_bytes": figure(16e9),
    }
    data = {
        "hardware": {"id": DEVICE, "kind": "cpu", "count": 1},
        "name": "Acme Roofed",
        "vendor": "acme",
        "platforms": [{"platform": one, "available": True, "precisions": ["fp32"]} for one in ("cpu", "openvino")],
        "spec": spec,
    }
    return build.event("assay.hardware.described.v1", data)


def traced(build: Any) -> dict[str, Any]:
    operator = {
        "name": "aten.addmm", "class": "mm", "count": 4, "flops": 1e9, "read_elements": 100_000, "write_elements": 100_000,
        "weight_elements": 100_000, "inner": 768, "kernel": None, "stride": None, "groups": None,
    }  # fmt: skip
    totals = {name: 4 * operator[name] for name in ("flops", "read_elements", "write_elements", "weight_elements")}
    data = {
        "model": {"id": MODEL, "category": "embedding", "family": "bert"},
        "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "sequence_length": 128},
        "tracer": {"name": "assay-tracer", "version": 1},
        "operators": [operator],
        "totals": {**totals, "operators": 4, "parameters": 400_000},
    }
    return build.event("assay.model.traced.v1", data)


def measured(build: Any, p50: float, hardware: str = DEVICE, **parts: Any) -> dict[str, Any]:
    workload = {**WORKLOAD, "batch_size": parts.pop("batch", 1)}
    event: dict[str, Any] = build.measurement(p50, model=MODEL, hardware=hardware, workload=workload, **parts)
    event["data"]["metrics"]["throughput_per_s"] = 1000 * workload["batch_size"] / p50
    return event


@pytest.fixture(scope="module")
def roofed_url(new_service: Any, build: Any) -> Iterator[str]:
    """A service that knows one device's roof, a model's work, and three calls: one of them faster than the peak."""
    device = {"id": DEVICE, "kind": "cpu", "count": 1}
    price = {"hardware": device, "provider": "own", "usd_per_hour": 0.36, "date": "2020-01-31", "region": "cellar"}
    timed = build.kernels(hardware=DEVICE, m=(1024, 512, 300), latency_ms=(4.0, 0.5, 0.2))
    timed["data"]["fixed"] = {}
    timed["data"]["columns"] |= {"n": [1024, 512, 300], "k": [1024, 512, 300]}
    events = [
        timed, described(build), traced(build), measured(build, 8.0), measured(build, 40.0, OTHER),
        measured(build, 2.0, platform="openvino"), build.event("assay.price.published.v1", price),
        build.alias("the-cellar-box", DEVICE, kind="hardware"),
    ]  # fmt: skip
    with new_service() as url, Client(url) as client:
        answer = client.post_events(events)
        assert answer["rejected"] == []
        client.wait_for(answer["last_position"])
        yield url


@pytest.fixture
def asked(roofed_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", roofed_url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield roofed_url
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    return Tables(monkeypatch)


def run(**params: str) -> AppTest:
    test = AppTest.from_function(script, default_timeout=60)
    for name, value in params.items():
        test.query_params[name] = value
    found = test.run()
    assert not found.exception
    return found


def plain(value: Any) -> str:
    return str(value).replace("\\", "").replace("\u202f", " ")


def words(test: AppTest) -> str:
    return plain(" ".join(str(part.value) for part in (*test.title, *test.header, *test.markdown, *test.caption)))


def given(test: AppTest, name: str) -> str | None:
    found = test.query_params.get(name)
    return found[0] if isinstance(found, list) else found


def test_a_list_has_what_was_measured_and_a_search_that_forgives(asked: str, tables: Tables) -> None:
    test = run()
    links = {f"hardware?id={OTHER}", f"hardware?id={DEVICE}"}
    assert set(tables.column("hardware list", "Hardware", "links")) == links
    test.text_input(key="hardware search").set_value("acme-rofed").run()
    assert tables.column("hardware list", "Hardware") == ["Acme Roofed"]
    assert given(test, "search") == "acme-rofed"
    test.text_input(key="hardware search").set_value("rtx4090").run()
    assert "Nothing of it was measured" in plain(test.info[0].value)
    next(button for button in test.button if "all hardware" in button.label).click().run()
    at = tables.column("hardware list", "Hardware", "links").index("hardware?id=nvidia-rtx-4090")
    assert tables.column("hardware list", "Memory GB")[at] == 24 * 2**30
    assert tables.column("hardware list", "Memory GB", "shown")[at] == "24"
    assert given(test, "known") == "all"


def test_the_way_back_leads_to_the_list(asked: str) -> None:
    test = run(id=DEVICE)
    next(button for button in test.button if button.label == "All hardware").click().run()
    assert given(test, "id") is None


def test_the_best_number_comes_first_and_the_rest_by_model(asked: str, tables: Tables) -> None:
    test = run(id=DEVICE)
    assert plain(test.header[0].value).endswith("with under-roof")
    assert "The only model measured at sequence length 128" in words(test) and "● measured" in words(test)
    assert tables.column("hardware best", "Model", "links") == [f"models?id={MODEL}"]
    (link,) = tables.column("hardware best", "Known", "links")
    assert link.startswith("runs?row=")


def test_an_alias_is_its_hardware_and_an_unknown_one_is_told_what_it_may_mean(asked: str) -> None:
    assert "Acme Roofed" in words(run(id="the-cellar-box"))
    test = run(id="acme-rofed")
    assert "no hardware is known as 'acme-rofed'" in plain(test.warning[0].value)
    assert "Did you mean" in words(test)


def test_the_specification_says_what_is_known_how_and_what_is_not(asked: str) -> None:
    table = run(id=DEVICE, tab="specification").table[0].value
    told = {row["Figure"]: (plain(row["Value"]), row["Known"]) for row in table.to_dict("records")}
    assert told["Peak fp32"] == ("1.00 TFLOP/s", "measured")
    assert told["Memory"] == ("16.0 GB", "measured")
    assert told["Power"] == (formatting.MISSING, "unknown")


def test_filters_of_the_points_become_the_address(asked: str) -> None:
    test = run(id=DEVICE, tab="roofline")
    assert "reaches 50.0 % of its roof of 1.00 TFLOP/s" in words(test)
    assert "1 over the peak" in words(test)
    test.selectbox(key="hardware platform").set_value("cpu").run()
    assert given(test, "platform") == "cpu"
    assert "1 mark for the best" in words(test) and "Check these" not in words(test)
    assert "nothing measured on it can be placed" in words(run(id=DEVICE, tab="roofline", precision="bf16"))


def test_a_device_without_figures_has_no_roof_and_says_what_finds_one(asked: str) -> None:
    assert not run(id=OTHER).info, "without points there is no picture beside the models"
    test = run(id=OTHER, tab="roofline")
    assert "Its peak is not known" in plain(test.info[0].value)
    assert "<code>assay detect</code>" in test.get("html")[-1].proto.body


def test_kernels_stand_beside_what_the_model_thinks_of_them(asked: str, tables: Tables) -> None:
    test = run(id=DEVICE, tab="kernels")
    assert "2 of 29 standard kernels were measured" in words(test)
    table = "hardware kernel estimates"
    names = tables.column(table, "Kernel")
    assert len(names) == 29
    at = names.index("product-1024")
    assert tables.column(table, "Measured µs")[at] == 4000.0
    estimate = tables.column(table, "Estimate µs")[at]
    assert tables.column(table, "÷ estimate")[at] == pytest.approx(4000.0 / estimate)
    assert tables.column(table, "Measured is")[at] == "● measured"
    test.selectbox(key="hardware operator").set_value("norm").run()
    assert given(test, "operator") == "norm"
    assert tables.column(table, "Kernel") == ["norm-768", "norm-4096"]


def test_a_device_without_kernels_shows_estimates_alone_and_what_times_them(asked: str, tables: Tables) -> None:
    test = run(id="nvidia-rtx-4090", tab="kernels", precision="fp16")
    assert "no kernel was measured; 29 estimates" in words(test)
    lows, estimates = (tables.column("hardware kernel estimates", head) for head in ("Low µs", "Estimate µs"))
    assert all(low < estimate for low, estimate in zip(lows, estimates, strict=True))
    assert "Measured µs" not in tables.heads("hardware kernel estimates")
    assert "<code>assay calibrate</code>" in test.get("html")[-1].proto.body
    # A precision of another device's address that this one has not is left out.
    assert "no kernel was measured" in words(run(id="nvidia-rtx-4090", tab="kernels", precision="int4"))
    assert "its figures are not known" in plain(run(id=OTHER, tab="kernels").info[0].value)


def test_what_was_never_tried_and_what_is_like_it(asked: str, tables: Tables) -> None:
    with Client(asked) as client:
        told = client.tried(DEVICE)
    test = run(id=DEVICE)
    test.button(key="hardware gaps").click().run()
    assert f"{told['families_tried']} of {told['families']} families" in words(test)
    assert tables.column("hardware families", "Tried") == [row["tried_share"] for row in told["items"]]
    run(id=DEVICE, tab="siblings")
    at = tables.column("hardware siblings", "Hardware", "links").index(f"hardware?id={OTHER}")
    assert plain(tables.column("hardware siblings", "Speed", "shown")[at]) == "× 20 slower"
    assert tables.column("hardware siblings", "Shared models")[at] == 1


def test_a_price_says_its_date_and_that_it_is_old(asked: str, tables: Tables) -> None:
    test = run(id=DEVICE, tab="machines")
    assert tables.column("hardware prices", "$ an hour") == [0.36]
    assert tables.column("hardware prices", "$ an hour", "shown") == ["$0.36"]
    assert tables.column("hardware prices", "As of") == ["2020-01-31 · stale"]
    assert "1 stale: older than 90 days" in words(test)
    assert "the-cellar-box" in words(test)
    assert "env-1" in tables.column("hardware environments", "Fingerprint")
    assert "assay price add acme-plain" in run(id=OTHER, tab="machines").get("html")[-1].proto.body


def test_as_of_a_position_before_the_calls_nothing_lies_under_the_roof(asked: str) -> None:
    assert "nothing measured on it can be placed" in words(run(id=DEVICE, tab="roofline", as_of="2"))


@pytest.mark.browser
def test_the_picture_is_what_the_api_says(page: Any, dashboards: Any, roofed_url: str, tmp_path: Path) -> None:
    with Client(roofed_url) as client:
        told = client.roofline(DEVICE)
    text = page.open(f"{dashboards(roofed_url)}/hardware?id={DEVICE}&tab=roofline")
    below = next(point for point in told["points"] if not point["over"])
    assert (
        f"{MODEL} · cpu · fp32 · batch 1 reaches {formatting.plain(formatting.share(below['share']))} of its roof"
        in text
    )
    assert "1 over their roof, ringed above" in text and "● measured" in text
    page.page.get_by_test_id("stPopover").get_by_role("button", name="Download").click()
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="CSV, every column").click()
    expected.value.save_as(tmp_path / "points.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "points.csv").read_text())))
    assert [float(row["flops_per_s"]) for row in rows] == [point["flops_per_s"] for point in told["points"]]
    assert {row["as_of"] for row in rows} == {str(told["position"])}
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="PNG picture").click()
    expected.value.save_as(tmp_path / "roof.png")
    assert (tmp_path / "roof.png").read_bytes().startswith(b"\x89PNG")
    assert page.wrong == []


@pytest.mark.browser
def test_a_copied_link_shows_the_same_and_a_sibling_is_one_click_away(
    page: Any, dashboards: Any, roofed_url: str
) -> None:
    page.open(f"{dashboards(roofed_url)}/hardware?id={DEVICE}&tab=roofline&platform=cpu&mode=inference")
    page.page.get_by_role("button", name="About this answer").click()
    link = page.page.get_by_text(re.compile(r"http://.*hardware\?")).inner_text()
    query = parse_qs(urlsplit(link).query)
    assert {name: query[name] for name in ("id", "platform", "mode", "tab")} == {
        "id": [DEVICE], "platform": ["cpu"], "mode": ["inference"], "tab": ["roofline"],
    }  # fmt: skip
    assert "reaches 50.0 % of its roof" in page.open(link)
    page.page.get_by_role("radio", name="Siblings").or_(page.page.get_by_role("button", name="Siblings")).first.click()
    page.page.wait_for_function("location.search.includes('tab=siblings')")
    page.page.locator(f"a[href='hardware?id={OTHER}']").click()
    page.page.wait_for_function(f"location.search.includes('id={OTHER}')")
    page.page.get_by_role("heading", name="items/s").wait_for()
    assert page.wrong == []


@pytest.mark.browser
def test_the_kernels_are_drawn_under_their_roofs_and_can_be_taken_along(
    page: Any, dashboards: Any, roofed_url: str, tmp_path: Path
) -> None:
    with Client(roofed_url) as client:
        document = client.device_kernels(DEVICE)
    page.open(f"{dashboards(roofed_url)}/hardware?id={DEVICE}")
    page.page.get_by_role("radio", name="Kernels").or_(page.page.get_by_role("button", name="Kernels")).first.click()
    page.page.wait_for_function("location.search.includes('tab=kernels')")
    text = page.page.get_by_text("2 of 29 standard kernels were measured").inner_text()
    assert f"{DEVICE} · cpu · fp32" in text
    page.page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first.wait_for()
    page.page.get_by_test_id("stPopover").get_by_role("button", name="Download").click()
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="Estimates: CSV, every column").click()
    expected.value.save_as(tmp_path / "estimates.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "estimates.csv").read_text())))
    assert [float(row["latency_ms"]) for row in rows] == [item.latency_ms for item in document.estimates]
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="PNG picture").click()
    expected.value.save_as(tmp_path / "kernels.png")
    assert (tmp_path / "kernels.png").read_bytes().startswith(b"\x89PNG")
    assert page.wrong == []


@pytest.mark.browser
@pytest.mark.parametrize("part", ["models", "roofline", "kernels"])
@pytest.mark.parametrize("page", [(390, "dark")], indirect=True)
def test_the_page_fits_a_phone_in_the_dark(page: Any, dashboards: Any, roofed_url: str, part: str) -> None:
    page.open(f"{dashboards(roofed_url)}/hardware?id={DEVICE}&tab={part}")
    wide = page.page.evaluate(
        "(() => { const main = document.querySelector('[data-testid=\"stMain\"]');"
        " return main.scrollWidth - main.clientWidth; })()"
    )
    assert wide <= 0
    assert page.wrong == []
