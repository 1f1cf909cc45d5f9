"""Many readers at once, from the moment on that the dashboard answers: nobody is shown an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.viewers import view
from dashboard.menu import MENU
from tests.integration.dashboard.conftest import dashboard_on

pytestmark = [pytest.mark.xdist_group("dashboard")]
MODEL = "acme/tiny"
VIEWERS = 8


@pytest.fixture
def started(service_url: str) -> Iterator[str]:
    """A dashboard that nobody has asked anything: its pages are imported while its first readers come."""
    with dashboard_on(service_url) as url:
        yield url


@pytest.mark.torture
def test_nobody_is_shown_an_error(started: str) -> None:
    pages = [entry.name for entries in MENU.values() for entry in entries][1:]
    asked = ["", f"recommend?model={MODEL}", *(page for page in pages if page != "recommend")]
    seen = view(started, asked, VIEWERS)
    assert seen.errors == []
    assert len(seen.seconds) == VIEWERS * len(asked)
