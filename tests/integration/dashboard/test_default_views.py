"""What a page shows unasked: no row that is invalid or simulated, and no chart without marks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from assay.client import Client
from presentation import formatting
from tests.integration.dashboard.conftest import Page, dashboard_on

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]
MODEL, DEVICE = "acme/doubted", "acme-one"
TRUE_MS, INVALID_MS, SIMULATED_MS = 41.0, 7.77, 3.33
"""Three rows of one model: the two that are no evidence would stand first."""
VIEWS = {
    "home": "", "recommend": f"recommend?model={MODEL}", "compare": f"compare?model={MODEL}", "compare-models": f"compare?what=models&hw={DEVICE}",
    "trends": f"trends?model={MODEL}&hw={DEVICE}", "model": f"models?id={MODEL}", "hardware": f"hardware?id={DEVICE}",
}  # fmt: skip
MARKS = """() => [...document.querySelectorAll('[data-testid="stVegaLiteChart"] svg')]
    .map(drawn => drawn.querySelectorAll('.role-mark path, .role-mark line').length)"""


def words(ms: float) -> tuple[str, str]:
    """How a page writes a row: its time, or its rate."""
    return formatting.significant(ms), f"{formatting.significant(1000 / ms)}/s"


@pytest.fixture(scope="module")
def doubted(new_service: Any, build: Any) -> Iterator[str]:
    """A dashboard over one good row and two that are no evidence."""
    good, invalid, simulated = (
        build.measurement(ms, model=MODEL, hardware=DEVICE, platform=platform, precision="fp32")
        for ms, platform in ((TRUE_MS, "cpu"), (INVALID_MS, "openvino"), (SIMULATED_MS, "onnxruntime"))
    )
    invalid["data"]["validity"] = {"verdict": "invalid", "reasons": ["other work had the processors"]}
    simulated["data"]["provenance"] = {"origin": "simulated"}
    with new_service() as url:
        with Client(url) as client:
            answer = client.post_events([good, invalid, simulated])
            assert answer["rejected"] == []
            client.wait_for(answer["last_position"])
        with dashboard_on(url) as shown:
            yield shown


@pytest.mark.parametrize("name", VIEWS)
def test_a_default_view_holds_evidence_alone(name: str, tab: Any, doubted: str) -> None:
    page: Page = tab(1280, "light")
    text = page.open(f"{doubted}/{VIEWS[name]}")
    true, invalid, simulated = (words(ms) for ms in (TRUE_MS, INVALID_MS, SIMULATED_MS))
    assert any(figure in text for figure in true), text
    assert not any(figure in text for figure in (*invalid, *simulated)), text
    drawn = page.page.evaluate(MARKS)
    assert all(drawn), "a picture has no marks"
    assert drawn or name not in ("recommend", "compare")
    assert page.wrong == []
