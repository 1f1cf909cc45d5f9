"""What a page asks is asked when its address arrives, by a real service's count of its answers: no browser is there yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dashboard.server import Ahead, middleware
from tests.integration.dashboard.conftest import MODEL

LONGEST_S = 30


def answered(service: str, route: str) -> float:
    """How many requests of a route the service answered."""
    families = text_string_to_metric_families(httpx.get(f"{service}/metrics", trust_env=False).text)
    every = [sample for family in families for sample in family.samples if sample.name == "assay_requests_total"]
    return sum(sample.value for sample in every if sample.labels["route"] == route)


@pytest.mark.parametrize(
    ("address", "route"),
    [
        ("recommend?max_ms=77&model=", "/v1/recommendations"),
        ("compare?batch=77&model=", "/v1/comparisons/hardware"),
        ("trends?since=1999-12-31&model=", "/v1/trends"),
    ],
)
def test_the_service_is_asked_before_a_browser_runs_the_page(
    service_url: str, dashboards: Callable[[str], str], address: str, route: str
) -> None:
    before = answered(service_url, route)
    got = httpx.get(f"{dashboards(service_url)}/{address}{quote(MODEL)}", trust_env=False)
    assert got.status_code == 200
    until = time.monotonic() + LONGEST_S
    while answered(service_url, route) == before:
        assert time.monotonic() < until, f"{route} was not asked"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "address", ["recommend?model=%ff%00&max_ms=soon", "trends?model=no/such", "nothing?model=x", "compare?batch=x"]
)
def test_an_address_that_nobody_understands_is_served_as_ever(
    service_url: str, dashboards: Callable[[str], str], address: str
) -> None:
    assert httpx.get(f"{dashboards(service_url)}/{address}", trust_env=False).status_code == 200


def test_where_people_sign_in_nothing_is_asked_for_a_stranger() -> None:
    assert [one.cls for one in middleware({})] == [Ahead]
    assert middleware({"ASSAY_SIGN_IN": "who.toml"}) == []
