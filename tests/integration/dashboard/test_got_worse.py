"""What got worse, in a real browser: the tables of Overview and Trends, filled, and where their links lead."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.conftest import rechain
from tests.integration.dashboard.conftest import dashboard_on

pytestmark = [pytest.mark.xdist_group("dashboard"), pytest.mark.browser]
SLOWED, STEADY = "acme/slowed", "acme/steady"


def cells(page: Any) -> dict[str, str]:
    """The first line of the page's table of what got worse by its heads."""
    table = page.page.get_by_role("region", name="What got worse")
    table.locator("tbody tr").first.wait_for()
    heads = [one.inner_text() for one in table.locator("thead th").all()]
    values = [one.inner_text() for one in table.locator("tbody tr").first.locator("th, td").all()]
    return {head: value.replace("\u202f", " ") for head, value in zip(heads, values, strict=True)}


def test_what_is_slower_than_last_week_stands_on_overview_and_trends(page: Any, fresh_service: Any, build: Any) -> None:
    service = fresh_service().start()
    with service.client() as client:
        client.post_events([build.measurement(5.0, model=SLOWED), build.measurement(5.0, model=STEADY)])
        # As if these had come three days ago; the tables are made anew from the log.
        with psycopg.connect(service.database_url) as log:
            log.execute("UPDATE event SET recorded_at = recorded_at - interval '3 days'")
            rechain(log)
        client.post_events([build.measurement(6.5, model=SLOWED), build.measurement(5.0, model=STEADY)])
        client.rebuild()
    with dashboard_on(service.url) as url:
        for path in ("?days=1", "trends?days=1"):
            text = page.open(f"{url}/{path}")
            if path.startswith("?"):
                assert f"Worst: {SLOWED}" in text and "latency 30 % longer" in text
                page.page.get_by_text("All 1 with values and runs").click()
                page.text()
            assert "1 value is worse than before the last day; 2 configurations were tried again." in text
            line = cells(page)
            assert line["Change"].startswith("▼ 30 % longer")
            assert (line["Before"][:7], line["Now"][:7]) == ("5.00 ms", "6.50 ms")
            assert SLOWED in line["Configuration"]
        page.page.locator(".assay-table tbody a").first.click()
        page.page.get_by_role("heading", name="slowed", exact=True).wait_for()
        page.page.get_by_text("30 % longer").first.wait_for()
        assert page.wrong == []
