"""An installation without measurements, in a real browser: three ways to begin, each of which works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest import evidence
from presentation import formatting
from tests.integration.dashboard.conftest import dashboard_on
from tests.integration.working_folder import hostile_folder

pytestmark = [pytest.mark.xdist_group("dashboard"), pytest.mark.browser]
TABLE = """model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count,infer_gmacs,infer_macts
resnet18,224,1000.0,64.0,64,11.69,1.82,2.48
resnet34,224,500.0,128.0,64,21.8,3.67,3.74
resnet50,224,,,64,25.5,4.1,11.1
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "benchmark-infer-amp-nhwc-pt113-cu117-rtx3090.csv"
    path.write_text(TABLE)
    return path


@pytest.mark.parametrize("path", ["", "runs"])
def test_a_page_that_has_nothing_offers_three_ways_to_begin(
    page: Any, dashboards: Any, empty_url: str, path: str
) -> None:
    text = page.open(f"{dashboards(empty_url)}/{path}")
    assert "assay bench bert-base-uncased --platform cpu,openvino" in text
    main = page.page.get_by_test_id("stMain")
    main.get_by_role("button", name="Copy", exact=True).click()
    main.get_by_role("button", name="Copied").wait_for()
    assert main.get_by_role("button", name="Import files").is_visible()
    assert main.get_by_role("button", name="Add the published data").is_visible()
    assert page.wrong == []


def test_files_are_previewed_then_added_whatever_the_folder_holds(
    page: Any, fresh_service: Any, table: Path, tmp_path: Path
) -> None:
    service = fresh_service().start()
    (tmp_path / "hostile").mkdir()
    with dashboard_on(service.url, hostile_folder(tmp_path / "hostile")) as url:
        page.open(url)
        page.page.get_by_role("button", name="Import files").click()
        dialog = page.page.get_by_role("dialog")
        dialog.locator("input[type=file]").set_input_files(table)
        dialog.get_by_text("2 measurements of 2 models on 1 device would be added; 1 is refused.").wait_for()
        refused = dialog.get_by_role("region", name="What is refused").locator("tbody tr")
        refused.first.wait_for()
        assert [cell.inner_text() for cell in refused.locator("th, td").all()] == [
            "infer_step_time: is empty", "1", table.name, "4",
        ]  # fmt: skip
        with service.client() as client:
            assert client.summary()["measurements"] == 0
            dialog.get_by_role("button", name="Add 2 measurements").click()
            page.page.get_by_text("2 measurements of 2 models on 1 device; the newest came just now.").wait_for()
            assert client.summary()["measurements"] == 2
        # The same offer stands below what is there.
        page.page.get_by_text("Add measurements", exact=True).click()
        page.page.get_by_role("button", name="Import files").wait_for()
        assert page.wrong == []


@pytest.mark.torture
def test_the_published_data_is_added_by_a_button(page: Any, fresh_service: Any) -> None:
    service = fresh_service().start()
    with dashboard_on(service.url) as url:
        page.open(url)
        page.page.get_by_role("button", name="Add the published data").click()
        page.page.get_by_text("measurements of").wait_for(timeout=120_000)
        with service.client() as client:
            known = client.summary()
            assert client.ready()["position"] == evidence.count()
        assert f"{formatting.count(known['measurements'])} measurements of" in page.text()
        assert page.wrong == []
