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
    """The first line of the page's first table by its heads; what is drawn is also written for who cannot see it."""
    grid = page.page.get_by_test_id("stDataFrame").first
    grid.locator("canvas [role=gridcell]").first.wait_for(state="attached")
    heads, values = (
        [one.text_content() or "" for one in grid.locator(f"canvas [role={role}]").all()]
        for role in ("columnheader", "gridcell")
    )
    return {head: value.replace("\u202f", " ") for head, value in zip(heads, values, strict=False)}


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
            assert "1 value is worse than before the last day; 2 configurations were tried again." in text
            line = cells(page)
            assert line["Change"].startswith("▼ 30 % longer")
            assert (line["Before"][:7], line["Now"][:7]) == ("5.00 ms", "6.50 ms")
            assert SLOWED in line["Configuration"]
        text = page.open(f"{url}{line['Over time']}")
        assert "30 % longer" in text
        assert page.wrong == []
