from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from assay.client import Client
from dashboard import gallery
from presentation import formatting

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]
MODEL = "acme/tiny"


def download(page: Any, label: str, into: Path, among: str = "Download") -> Path:
    page.get_by_test_id("stPopover").get_by_role("button", name=among).first.click()
    with page.expect_download() as expected:
        page.get_by_role("button", name=label).click()
    path = into / expected.value.suggested_filename
    expected.value.save_as(path)
    return path


def test_recommend_says_what_the_api_says(page: Any, dashboards: Any, service_url: str) -> None:
    from playwright.sync_api import TimeoutError as Late

    with Client(service_url) as client:
        answer = client.recommend(MODEL, per_hardware=True)
    best = answer["ranked"][0]
    assert best["basis"] == "measured"
    text = page.open(f"{dashboards(service_url)}/recommend?model={MODEL}")
    latency = formatting.latency(best["latency_ms"], best["latency_ms_low"], best["latency_ms_high"])
    picks = page.page.locator(".st-key-picks").inner_text().replace("\u202f", " ")
    assert f"Fastest clear lead\nacme-one\n{formatting.plain(latency)}\nbf16 · batch 1 · measured" in re.sub(
        r"\n+", "\n", picks
    )
    assert all(len(card.split()) <= 25 for card in page.page.locator('[class*="st-key-pick-"]').all_inner_texts())
    row = page.page.locator(".assay-table tbody tr").first.inner_text().replace("\u202f", " ")
    assert formatting.plain(formatting.throughput(best["throughput_per_s"])) in row
    assert "measured" in row
    assert "position" not in text
    page.page.get_by_role("button", name="About this answer").click()
    about = page.page.get_by_test_id("stPopoverBody").inner_text().replace("\u202f", " ")
    assert f"position {formatting.count(answer['position'])}" in about
    assert f"predictor {formatting.digest(answer['predictor'])}" in about
    assert f"{formatting.count(answer['met'])} of {formatting.count(answer['considered'])} meet what is asked" in about
    assert "● measured: measured here" in about
    page.page.keyboard.press("Escape")
    page.page.get_by_text("The first three in detail").click()
    command = page.page.get_by_text(best["command"], exact=True).first
    for _ in range(3):  # A click while the page still renders the fold above is lost.
        page.page.get_by_text("Evidence and how to check").first.click()
        with contextlib.suppress(Late):
            command.wait_for(timeout=10_000)
            break
    assert command.is_visible()
    page.page.get_by_text(best["evidence"][0]).wait_for()
    page.page.get_by_text("Outputs not verified").wait_for()
    assert page.wrong == []


def test_a_device_is_added_by_its_name_and_stays_in_the_address(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/recommend?model={MODEL}&hw=acme-one")
    field = page.page.get_by_label("Add a device")
    field.fill("acme-tow")
    field.press("Enter")
    page.page.get_by_role("button", name="acme-two").click()
    page.page.wait_for_url("**add=acme-two**")
    chip = page.page.get_by_role("button", name="+ acme-two")
    chip.wait_for()
    row = page.page.locator(".assay-table tbody tr", has_text="acme-two")
    row.wait_for()
    assert "40.0 ms" in row.inner_text().replace("\u202f", " ")
    chip.click()
    page.page.wait_for_function("!location.search.includes('add=')")
    row.wait_for(state="detached")
    assert page.wrong == []


def test_an_added_device_that_misses_a_limit_says_which(page: Any, dashboards: Any, service_url: str) -> None:
    text = page.open(f"{dashboards(service_url)}/recommend?model={MODEL}&hw=acme-one&max_ms=20&add=acme-two")
    assert "acme-two is left out: latency: " in text
    row = page.page.locator(".assay-table tbody tr", has_text="acme-two").inner_text()
    assert "left out: latency" in row
    assert page.wrong == []


def test_the_address_restores_the_question(page: Any, dashboards: Any, service_url: str) -> None:
    url = f"{dashboards(service_url)}/recommend?model={MODEL}&platform=cpu&max_ms=20"
    text = page.open(url)
    assert "latency ≤ 20 ms" in text
    assert "platform: cpu" in text
    assert "8.00 ms" in page.page.locator(".st-key-picks").inner_text().replace("\u202f", " ")
    page.page.get_by_role("button", name="latency ≤ 20 ms").click()
    page.page.get_by_role("button", name="latency ≤ 20 ms").wait_for(state="detached")
    page.page.wait_for_function("!location.search.includes('max_ms')")
    assert parse_qs(urlsplit(page.page.url).query) == {"model": [MODEL], "platform": ["cpu"]}


def test_every_member_of_the_address_is_restored(page: Any, dashboards: Any, service_url: str) -> None:
    told = {
        "model": MODEL, "objective": "latency:0.7,memory:0.3", "max_ms": "99.5", "max_w": "500", "confidence": "0.9",
        "compiled": "eager", "region": "us-east-1", "provider": "aws", "spot": "yes", "per_hw": "no",
        "batch": "1", "add": "acme-two", "top": "3",
    }  # fmt: skip
    text = page.open(f"{dashboards(service_url)}/recommend?{urlencode(told)}")
    chips = ("power ≤ 500 W", "sure to 0.9", "batch: 1", "eager only", "region: us-east-1", "spot prices too")
    assert all(chip in text for chip in chips)
    page.page.get_by_role("button", name="About this answer").click()
    link = page.page.get_by_text(re.compile(r"http://.*recommend\?")).inner_text()
    query = parse_qs(urlsplit(link).query)
    assert {name: query[name][0] for name in told} == told
    assert page.wrong == []


def test_a_form_writes_the_address_and_a_page_remembers_its_view(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/recommend?model={MODEL}")
    page.page.get_by_role("button", name="Change the question").click()
    page.page.get_by_role("combobox", name="Percentile").click()
    page.page.get_by_role("option", name="p90").click()
    page.page.get_by_text("Limits", exact=True).click()
    page.page.get_by_label("Latency at most, ms").fill("20")
    # What was typed is sent, though a part was unfolded and folded after it.
    page.page.get_by_text("Work, hardware and prices", exact=True).click()
    page.page.get_by_label("Batch sizes").wait_for()
    page.page.get_by_text("Limits", exact=True).click()
    page.page.get_by_label("Latency at most, ms").wait_for(state="hidden")
    page.page.get_by_role("button", name="Rank hardware").click()
    page.page.get_by_role("button", name="latency ≤ 20 ms").wait_for()
    assert "max_ms=20" in page.page.url
    assert "pct=p90" in page.page.url
    page.page.get_by_role("link", name="Compare").click()
    page.page.get_by_role("heading", name="Compare").wait_for()
    page.page.get_by_role("link", name="Recommend").click()
    page.page.get_by_role("button", name="latency ≤ 20 ms").wait_for()
    page.page.wait_for_function("location.search.includes('max_ms=20')")
    assert page.wrong == []


def test_a_copied_link_names_every_value_and_the_position(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/recommend?model={MODEL}")
    page.page.get_by_role("button", name="About this answer").click()
    link = page.page.get_by_text(re.compile(r"http://.*recommend\?")).inner_text()
    query = parse_qs(urlsplit(link).query)
    assert query["objective"] == ["latency"]
    assert int(query["as_of"][0]) > 0
    page.open(link)
    assert "2.00 ms" in page.page.locator(".st-key-picks").inner_text().replace("\u202f", " ")


def test_the_link_is_copied_by_one_click(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/recommend?model={MODEL}")
    page.page.evaluate("document.addEventListener('copy', event => { window.copied = document.activeElement.value })")
    page.page.get_by_role("button", name="Copy link").click()
    page.page.get_by_role("button", name="Copied").wait_for()
    copied = urlsplit(page.page.evaluate("window.copied"))
    assert copied.path == "/recommend"
    assert parse_qs(copied.query)["model"] == [MODEL]
    assert int(parse_qs(copied.query)["as_of"][0]) > 0


def test_a_command_is_copied_by_its_button(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/recommend")
    page.page.get_by_role("button", name="Copy", exact=True).first.click()
    page.page.get_by_role("button", name="Copied").wait_for()
    assert page.page.evaluate("getSelection().toString()").startswith("assay ")
    assert page.wrong == []


def test_what_the_address_says_in_vain_is_named(page: Any, dashboards: Any, service_url: str) -> None:
    text = page.open(f"{dashboards(service_url)}/recommend?model={MODEL}&max_ms=-3&colour=red")
    assert "max_ms=-3 was left out" in text
    assert "colour is not a parameter of this page" in text


def test_downloads_hold_the_rows_of_the_answer(page: Any, dashboards: Any, service_url: str, tmp_path: Path) -> None:
    with Client(service_url) as client:
        answer = client.recommend(MODEL, per_hardware=True)
    page.open(f"{dashboards(service_url)}/recommend?model={MODEL}")
    path = download(page.page, "CSV, every column", tmp_path)
    assert path.name == f"assay_recommend_acme-tiny_p{answer['position']}.csv"
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["configuration"] for row in rows] == [row["configuration"] for row in answer["ranked"]]
    assert [float(row["latency_ms"]) for row in rows] == [row["latency_ms"] for row in answer["ranked"]]
    page.page.keyboard.press("Escape")
    told = json.loads(download(page.page, "JSON, as the API answers", tmp_path).read_text())
    assert told["id"] == answer["id"]
    page.page.keyboard.press("Escape")
    assert download(page.page, "PNG picture", tmp_path).read_bytes().startswith(b"\x89PNG")
    page.page.keyboard.press("Escape")
    assert "acme-one" in download(page.page, "SVG picture", tmp_path).read_text()


def test_an_impossible_limit_is_answered_with_reasons(page: Any, dashboards: Any, service_url: str) -> None:
    text = page.open(f"{dashboards(service_url)}/recommend?model={MODEL}&max_ms=0.001")
    with Client(service_url) as client:
        answer = client.recommend(MODEL, max_latency_ms=0.001, per_hardware=True)
    assert answer["ranked"] == []
    assert "No recommendation." in text
    assert answer["abstained"] in text
    assert f"{len(answer['excluded'])} left out" in text


def test_an_unknown_model_is_a_sentence_with_a_remedy(page: Any, dashboards: Any, service_url: str) -> None:
    text = page.open(f"{dashboards(service_url)}/recommend?model=nobody/nothing")
    assert "unknown-model" in text or "trace-needed" in text
    assert "nobody/nothing: nobody/nothing" not in text
    assert "Traceback" not in text
    assert page.wrong == []


def test_compare_shows_a_line_a_device_and_says_what_differs(page: Any, dashboards: Any, service_url: str) -> None:
    text = page.open(f"{dashboards(service_url)}/compare?model={MODEL}&basis=measured&metric=latency")
    assert "acme-one · openvino · bf16 · batch 1: 2.00 ms" in text
    assert "Not the same work: precision." in text
    rows = page.page.locator(".assay-table tbody tr")
    assert [row.split("\t")[0] for row in rows.all_inner_texts()] == ["acme-one", "acme-two"]
    assert "≠ fp32" in rows.nth(1).inner_text()
    # Streamlit draws a switch over the input that holds it.
    page.page.get_by_text("Every variant (3)").click()
    page.page.wait_for_url("**per_hw=no**")
    rows.nth(2).wait_for()
    assert rows.count() == 3
    page.page.get_by_role("button", name="Compare all at fp32, batch 1").click()
    page.page.wait_for_url("**precision=fp32**")
    gallery.settled(page.page)
    assert "× 5.0 faster than acme-two" in page.text()
    assert page.wrong == []


def test_compare_is_of_the_hardware_that_the_address_names(page: Any, dashboards: Any, service_url: str) -> None:
    text = page.open(f"{dashboards(service_url)}/compare?model={MODEL}&basis=measured&metric=latency&hw=acme-two")
    assert "acme-two · cpu · fp32 · batch 1: 40.0 ms" in text
    assert "acme-one ·" not in text
    assert page.wrong == []


def test_reports_can_be_taken_from_compare_and_overview(
    page: Any, dashboards: Any, service_url: str, tmp_path: Path
) -> None:
    page.open(f"{dashboards(service_url)}/compare?model={MODEL}&basis=measured")
    found = download(page.page, "Report on this model", tmp_path).read_text()
    assert f"<title>{MODEL} · Assay, position" in found
    assert "<svg" in found
    page.open(dashboards(service_url))
    assert "<title>Performance · Assay" in download(page.page, "Performance report", tmp_path, "Reports").read_text()
    assert page.wrong == []


def test_compare_leaves_out_what_was_not_measured_and_says_so(page: Any, dashboards: Any, service_url: str) -> None:
    text = page.open(f"{dashboards(service_url)}/compare?model={MODEL}&basis=measured&metric=memory")
    assert "64.0 MB" in text
    assert "1 row is left out" in text


def test_the_workload_of_compare_is_always_in_view_and_becomes_the_address(
    page: Any, dashboards: Any, service_url: str
) -> None:
    page.open(f"{dashboards(service_url)}/compare?model={MODEL}&basis=measured&metric=latency")
    shown = page.page
    inputs = [
        shown.get_by_role("combobox", name=name, exact=True)
        for name in ("Metric", "Precision", "Batch", "Mode", "Software")
    ]
    tops = [round(each.bounding_box()["y"]) for each in inputs]
    assert max(tops) - min(tops) <= 4
    assert max(tops) < shown.locator("[data-testid=stVegaLiteChart]").first.bounding_box()["y"]
    inputs[4].click()
    shown.get_by_role("option", name="openvino").click()
    shown.wait_for_url("**platform=openvino**")
    shown.keyboard.press("Escape")
    gallery.settled(shown)
    assert [row.split("\t")[0] for row in shown.locator(".assay-table tbody tr").all_inner_texts()] == ["acme-one"]
    # The address restores the input.
    page.open(shown.url)
    assert "openvino" in shown.locator(".st-key-workload-platform").inner_text()
    assert page.wrong == []


def test_home_names_the_picks_and_counts_what_the_api_counts(page: Any, dashboards: Any, service_url: str) -> None:
    with Client(service_url) as client:
        known, answer = client.summary(), client.recommend(MODEL, per_hardware=True)
    text = page.open(dashboards(service_url))
    # The rows of this service, and what another module may have posted to it before.
    assert known["measurements"] >= 3
    models = "1 model" if known["models"] == 1 else f"{known['models']} models"
    assert f"{known['measurements']} measurements of {models} on {known['hardware']} devices" in text
    best = page.page.get_by_role("region", name="The best hardware of each model").inner_text().replace("\u202f", " ")
    assert answer["picks"][0]["name"] == "fastest"
    assert "tiny" in best
    assert re.search(r"acme-one\s+2.00 ms \S+ · measured", best), best
    # Health is worth a word only where something is wrong.
    assert "position" not in text
    assert "Dead letters" not in text
    assert "Traceback" not in text
    assert page.wrong == []
