"""Query in a real browser: a link fills the editor and never runs, results are the API's, and views come back."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow.parquet as pq
import pytest

from assay.client import Client
from dashboard.gallery import settled
from dashboard.screens.query.words import EXAMPLES, packed

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]
SQL = "SELECT hardware_id, platform, throughput_per_s\nFROM measurements\nWHERE throughput_per_s > 0 ORDER BY throughput_per_s"
UNRUN = "The query in the editor has not been run."


def ran(page: Any) -> str:
    page.page.get_by_role("button", name="Run", exact=True).click()
    page.page.get_by_role("button", name="Download", exact=True).wait_for()
    return str(page.text())


def download(page: Any, label: str, into: Path) -> Path:
    page.get_by_role("button", name="Download", exact=True).click()
    with page.expect_download() as expected:
        page.get_by_role("button", name=label, exact=True).click()
    path = into / expected.value.suggested_filename
    expected.value.save_as(path)
    page.keyboard.press("Escape")
    return path


def test_a_link_fills_the_editor_and_never_runs(page: Any, dashboards: Any, service_url: str, tmp_path: Path) -> None:
    text = page.open(f"{dashboards(service_url)}/query?q={quote(SQL)}&x=platform")
    assert page.page.get_by_label("SQL").input_value() == SQL
    assert UNRUN in text
    assert "rows of 3 columns" not in text
    assert all(limit in text for limit in ("10 s", "512 MiB", "1,000 rows", "100,000 in a file"))
    text = ran(page)
    with Client(service_url) as client:
        told = client.query(SQL)
    assert f"{len(told['rows'])} rows of 3 columns" in text
    page.page.get_by_role("button", name="About this answer").click()
    page.page.get_by_text(f"position {told['position']}").first.wait_for()
    page.page.keyboard.press("Escape")
    assert parse_qs(urlsplit(page.page.url).query) == {"q": [SQL], "x": ["platform"]}
    path = download(page.page, "CSV", tmp_path)
    assert path.name == f"assay_query_p{told['position']}.csv"
    found = [
        [row["hardware_id"], row["platform"], float(row["throughput_per_s"])]
        for row in csv.DictReader(io.StringIO(path.read_text()))
    ]
    assert found == told["rows"]
    table = pq.read_table(download(page.page, "Parquet", tmp_path))
    assert [list(row.values()) for row in table.to_pylist()] == told["rows"]
    assert download(page.page, "PNG picture", tmp_path).read_bytes()[:4] == b"\x89PNG"
    page.page.reload()
    assert UNRUN in page.text()
    assert page.wrong == []


@pytest.mark.torture
def test_how_a_result_is_drawn_is_in_the_address(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/query?q={quote(SQL)}&kind=point&colour=gone&scale=log")
    ran(page)
    assert page.page.get_by_role("combobox", name="Chart").input_value() == "point"
    assert page.page.get_by_role("combobox", name="Colour").input_value() == "platform"
    page.page.get_by_role("combobox", name="Chart").click()
    page.page.get_by_role("option", name="line").click()
    page.page.wait_for_function("location.search.includes('kind=line')")
    page.page.get_by_role("button", name="About this answer").click()
    link = page.page.get_by_text(re.compile(r"http://.*query\?")).inner_text()
    asked = parse_qs(urlsplit(link).query)
    assert (asked["q"], asked["kind"], asked["scale"]) == ([SQL], ["line"], ["log"])
    assert int(asked["as_of"][0]) > 0
    page.open(link)
    assert "3 columns" in ran(page)
    assert page.page.get_by_role("combobox", name="Chart").input_value() == "line"
    assert page.wrong == []


def test_an_error_says_what_and_where(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/query?q={quote('SELECT 1 AS one' + chr(10) + 'FROM measurments')}")
    page.page.get_by_role("button", name="Run", exact=True).click()
    page.page.get_by_text("Line 2:").wait_for()
    text = page.text()
    assert "measurments does not exist" in text
    assert "usage" in text
    page.page.get_by_label("SQL").fill("DROP TABLE measurement")
    page.page.get_by_label("SQL").press("Control+Enter")
    page.page.get_by_text("only one SELECT is run").wait_for()
    assert page.wrong == []


def test_an_example_runs_on_arrival_and_names_lead_to_their_pages(page: Any, dashboards: Any, service_url: str) -> None:
    text = page.open(f"{dashboards(service_url)}/query")
    assert page.page.get_by_label("SQL").input_value() == EXAMPLES[0].sql
    with Client(service_url) as client:
        told = client.query(EXAMPLES[0].sql)
    assert f"{EXAMPLES[0].title}: {len(told['rows'])} rows of 4 columns" in text
    assert "q=" not in page.page.url
    rows = page.page.locator(".assay-table tbody tr")
    assert [row.inner_text().split("\t") for row in rows.all()] == [[str(cell) for cell in row] for row in told["rows"]]
    rows.first.get_by_role("link").click()
    page.page.wait_for_url(f"**/hardware?id={told['rows'][0][0]}")
    page.page.go_back()
    assert EXAMPLES[0].title in page.text()
    assert page.wrong == []


# Clicks on the menu are lost while a busy machine runs the page: five in a row, in two of three runs of the whole suite.
@pytest.mark.parametrize("back", [False, pytest.param(True, marks=pytest.mark.torture)], ids=["run", "come back"])
def test_examples_and_views_of_ours_run_and_come_back(page: Any, dashboards: Any, service_url: str, back: bool) -> None:
    page.open(f"{dashboards(service_url)}/query?q={quote('SELECT 1')}")
    page.page.get_by_text(UNRUN).wait_for()
    page.page.get_by_role("button", name="Examples").click()
    page.page.get_by_role("button", name=EXAMPLES[4].title).click()
    page.page.get_by_text(f"{EXAMPLES[4].title}: ").wait_for()
    assert page.page.get_by_label("SQL").input_value() == EXAMPLES[4].sql
    page.page.keyboard.press("Escape")
    page.page.get_by_text("Views and their columns").click()
    begin = page.page.get_by_role("button", name="Begin with measurements")
    begin.wait_for()
    # A click that comes while the part is still being filled is lost with the run that it ends.
    settled(page.page)
    begin.click()
    page.page.wait_for_function("document.querySelector('textarea').value.startsWith('SELECT *')")
    page.page.locator(".assay-table").first.get_by_text("acme-one").first.wait_for()
    assert page.wrong == []
    if not back:
        return
    settled(page.page)
    from playwright.sync_api import TimeoutError as Late

    # A click that meets a run of the page is lost, as it is for a person, who clicks again where the address stays.
    for _ in range(5):
        page.page.get_by_role("link", name="Recommend").click()
        with contextlib.suppress(Late):
            page.page.wait_for_url("**/recommend**", timeout=10_000, wait_until="commit")
            page.page.get_by_role("heading", name="Recommend").wait_for(timeout=15_000)
            break
    page.page.get_by_role("heading", name="Recommend").wait_for()
    page.page.get_by_role("link", name="Query").click()
    page.page.locator(".assay-table").first.get_by_text("acme-one").first.wait_for()
    assert page.page.get_by_label("SQL").input_value().startswith("SELECT *\nFROM measurements")
    assert page.wrong == []


def test_the_editor_completes_names_of_views_and_columns(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/query")
    editor, names = page.page.get_by_label("SQL"), page.page.get_by_role("listbox", name="Names that fit")
    editor.fill("")
    editor.press_sequentially("SELECT count(*) AS n FROM best_m")
    names.wait_for()
    assert names.get_by_role("option").first.inner_text().startswith("best_measurements")
    editor.press("Tab")
    names.wait_for(state="hidden")
    editor.press_sequentially(" WHERE hardw")
    names.locator("[data-name=hardware_id]").click()
    editor.press_sequentially(" = 'acme-one'")
    assert editor.input_value() == "SELECT count(*) AS n FROM best_measurements WHERE hardware_id = 'acme-one'"
    assert editor.evaluate("area => document.activeElement === area")
    # The rows of the example stay until those of this query are there.
    page.page.get_by_role("button", name="Run", exact=True).click()
    page.page.get_by_text("1 row of 1 column").first.wait_for()
    assert page.wrong == []


@pytest.mark.torture
def test_every_example_runs(service_url: str) -> None:
    with Client(service_url) as client:
        for example in EXAMPLES:
            assert client.query(example.sql)["columns"], example.title


@pytest.mark.parametrize("page", [(390, "dark")], indirect=True)
def test_a_long_query_comes_packed_and_a_phone_shows_it(page: Any, dashboards: Any, service_url: str) -> None:
    sql = "SELECT 1 AS one\n" + "-- a long remark\n" * 200 + "UNION ALL SELECT 2"
    page.open(f"{dashboards(service_url)}/query?saved={packed(sql)}")
    assert page.page.get_by_label("SQL").input_value() == sql
    text = ran(page)
    assert "2 rows of 1 column" in text
    assert "Nothing to draw" in text
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.wrong == []
