"""The search box of every page, in a real browser: by keyboard, on a phone, for everybody, and without the service."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest

from assay.client import Client
from dashboard.gallery import settled
from tests.integration.dashboard.conftest import dashboard_on
from tests.integration.dashboard.test_every_page import OVERFLOW, findings

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]


def box(page: Any) -> Any:
    return page.get_by_role("combobox", name="Search everything")


def shortcut(page: Any) -> None:
    """Press Ctrl+K once the box listens to it."""
    page.locator(".assay-search input[aria-keyshortcuts]").wait_for()
    page.keyboard.press("Control+k")


def options(page: Any) -> Any:
    return page.locator("#assay-search-list").get_by_role("option")


def first(page: Any, title: str) -> None:
    """Wait until the first answer has this title."""
    page.locator(".assay-search:not([aria-busy])").wait_for()
    options(page).first.locator("b", has_text=re.compile(f"^{re.escape(title)}$")).wait_for()


def subject(page: Any, name: str) -> None:
    page.get_by_role("heading", level=1, name=name, exact=True).wait_for()


def test_the_keyboard_alone_leads_to_a_device(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(dashboards(service_url))
    # From another page, from the same page, and mistyped.
    for text, id_, title in (
        ("4090", "nvidia-rtx-4090", "NVIDIA GeForce RTX 4090"),
        ("acme-one", "acme-one", "acme-one"),
        ("nvida rtx 4090", "nvidia-rtx-4090", "NVIDIA GeForce RTX 4090"),
    ):
        shortcut(page.page)
        page.page.keyboard.type(text)
        page.page.keyboard.press("Enter")
        subject(page.page, title)
        page.page.wait_for_url(f"**/hardware?id={id_}")
        settled(page.page)
        assert box(page.page).input_value() == ""
    assert page.wrong == []


def test_arrows_choose_among_kinds_and_going_back_returns(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/compare?model=acme/tiny")
    before = page.page.url
    shortcut(page.page)
    # Nothing typed: what was measured most.
    first(page.page, "tiny")
    page.page.keyboard.type("acme")
    first(page.page, "tiny")
    titles = options(page.page).locator("b").all_inner_texts()
    assert {"tiny", "acme-one", "acme-two"} <= set(titles)
    for _ in range(titles.index("acme-two")):
        page.page.keyboard.press("ArrowDown")
    chosen = box(page.page).get_attribute("aria-activedescendant")
    assert page.page.locator(f"#{chosen}").get_attribute("aria-selected") == "true"
    page.page.keyboard.press("Enter")
    subject(page.page, "acme-two")
    settled(page.page)
    page.page.go_back()
    subject(page.page, "tiny")
    assert page.page.url == before
    assert page.wrong == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("bench", "**/runs?run=run-1"),
        ("compatib", "**/compatibility"),
        ("a bert service", "**/recommend?model=bert-base-uncased&**"),
        ("why it did not run", "**/query?q=**"),
    ],
)
def test_runs_pages_and_saved_questions_are_opened(
    page: Any, dashboards: Any, service_url: str, text: str, path: str
) -> None:
    page.open(f"{dashboards(service_url)}/operations")
    shortcut(page.page)
    page.page.keyboard.type(text)
    page.page.keyboard.press("Enter")
    page.page.wait_for_url(path)


def test_an_event_is_opened_by_its_id(page: Any, dashboards: Any, service_url: str) -> None:
    with Client(service_url) as client:
        event = str(client.measurements(limit=1)[0]["event_id"])
    page.open(f"{dashboards(service_url)}/query")
    shortcut(page.page)
    page.page.keyboard.insert_text(event)
    options(page.page).first.wait_for()
    from playwright.sync_api import TimeoutError as Late

    for _ in range(3):  # A key that meets a run of the page is lost.
        page.page.keyboard.press("Enter")
        with contextlib.suppress(Late):
            page.page.wait_for_url(f"**/runs?row={event}", timeout=10_000, wait_until="commit")
            break
    assert page.page.url.endswith(f"/runs?row={event}")


def test_what_is_like_nothing_opens_nothing(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/query")
    before = page.page.url
    box(page.page).fill("zzqqxxyy")
    page.page.keyboard.press("Enter")
    page.page.get_by_text("Nothing is called “zzqqxxyy”.").wait_for()
    assert options(page.page).count() == 0
    box(page.page).fill("acme-onne")
    page.page.get_by_text("Nothing is called “acme-onne”. Did you mean:").wait_for()
    first(page.page, "acme-one")
    assert page.page.url == before
    page.page.keyboard.press("Escape")
    options(page.page).first.wait_for(state="detached")


@pytest.mark.parametrize("page", [(390, "dark"), (1280, "light")], indirect=True)
def test_it_fits_a_phone_and_is_read_by_everybody(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/hardware?id=acme-one")
    head = page.page.get_by_role("heading", level=1).bounding_box()
    closed = box(page.page).bounding_box()
    assert closed["y"] + closed["height"] <= head["y"]
    box(page.page).click()
    first(page.page, "tiny")
    width = page.page.viewport_size["width"]
    for place in (closed, page.page.locator("#assay-search-list").bounding_box()):
        assert place["x"] >= 0 and place["x"] + place["width"] <= width
    assert box(page.page).get_attribute("aria-expanded") == "true"
    assert page.page.evaluate(OVERFLOW) <= 0
    assert findings(page.page) == []
    box(page.page).fill("acme-two")
    first(page.page, "acme-two")
    options(page.page).first.click()
    subject(page.page, "acme-two")
    assert page.wrong == []


def test_without_the_service_pages_are_found(page: Any, away_url: str) -> None:
    with dashboard_on(away_url, ASSAY_PATIENCE_S="0.5") as at:
        page.open(f"{at}/runs")
        box(page.page).fill("quer")
        first(page.page, "Query")
        page.page.get_by_text("only pages and saved questions are searched").wait_for()
        page.page.keyboard.press("Enter")
        page.page.wait_for_url("**/query")


def test_links_in_a_text_stay_in_the_tab(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/trends?model=acme/tiny")
    link = page.page.locator("[data-testid=stMain] [data-testid=stMarkdownContainer] a[href*='compare?model=']").first
    link.wait_for()
    page.page.wait_for_function("() => !document.querySelector('[data-testid=stMain] a[target=_blank][href*=compare]')")
    tabs = len(page.page.context.pages)
    link.click()
    subject(page.page, "tiny")
    # A link in a table stays as well.
    page.page.locator(".assay-table a[href*='hardware?id=acme-one']").click()
    subject(page.page, "acme-one")
    assert len(page.page.context.pages) == tabs
    assert page.page.url.endswith("/hardware?id=acme-one")


def test_a_part_of_a_name_in_the_form_is_never_taken_for_a_model(page: Any, dashboards: Any, service_url: str) -> None:
    page.open(f"{dashboards(service_url)}/recommend")
    model = page.page.get_by_role("combobox", name="Model", exact=True)
    model.click()
    model.type("tin")
    page.page.keyboard.press("Enter")
    page.page.get_by_role("button", name="Rank hardware").click()
    page.page.get_by_text("No model is called “tin”. Did you mean:").wait_for()
    assert "tin" not in page.page.url.partition("?")[2]
    page.page.get_by_role("link", name="acme/tiny").click()
    subject(page.page, "tiny")
    settled(page.page)
    assert "2.00 ms" in page.text()
