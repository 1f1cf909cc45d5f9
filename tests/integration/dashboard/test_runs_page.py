"""The page Runs: lists, live progress, one run and one row of it, in a script and in a real browser."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from assay.client import Client
from domain.canonical import digest
from presentation import formatting
from tests.integration.dashboard.shown_tables import columns

pytestmark = pytest.mark.xdist_group("dashboard")
MODEL, DEVICE = "acme/sampled", "acme-runner"
VALUES = [10.0 + at % 5 / 10 for at in range(61)]


def page_of_runs() -> None:
    from dashboard.screens.runs import view

    view.show()


class Made(NamedTuple):
    """What was posted: the service's address, and the events that tests open, by what they are."""

    url: str
    ids: dict[str, str]


def started(build: Any, run_id: str, *, driver: str, minutes: int, hardware: str = DEVICE) -> dict[str, Any]:
    data = {
        "run_id": run_id, "kind": "bench", "planned": 4, "hardware": [{"id": hardware, "kind": "cpu", "count": 1}],
        "environment": {"fingerprint": f"env-{run_id}", "driver": driver, "os": "Linux", "libraries": {"torch": "2.13.0"}},
        "provenance": {"origin": "measured"},
    }  # fmt: skip
    return build.event("assay.run.started.v1", data, time=datetime.now(UTC) - timedelta(minutes=minutes))


def row(build: Any, run_id: str, *, batch: int, sampled: bool = True, hardware: str = DEVICE) -> list[dict[str, Any]]:
    event = build.measurement(
        10.2, model=MODEL, hardware=hardware, platform="openvino", run_id=run_id, batch_size=batch
    )
    event["subject"] = MODEL
    event["data"]["metrics"] |= {"load_ms": 900.0, "first_run_ms": 80.0, "throughput_per_s": 97.5}
    event["data"]["observed"]["requested"] = {"platform": "cuda", "precision": "fp32"}
    values = [*VALUES[:-1], 20.0 + batch]
    event["data"]["samples"] = {"digest": digest(values), "n": len(values)}
    samples = {"run_id": run_id, "digest": digest(values), "n": len(values), "values": values, "warmup": [30.0, 20.0]}
    return [event, *([build.event("assay.samples.recorded.v1", samples, subject=MODEL)] if sampled else [])]


def finished(build: Any, run_id: str) -> dict[str, Any]:
    return build.event("assay.run.finished.v1", {"run_id": run_id, "outcome": "completed"}, time=datetime.now(UTC))


@pytest.fixture(scope="module")
def made(new_service: Any, build: Any) -> Iterator[Made]:
    """A finished run with a row, a failure and a test; a run with a doubtful row, one taken back, and one without samples."""
    first, second, third = (row(build, "run-a", batch=1), row(build, "run-b", batch=1), row(build, "run-b", batch=8))
    second[0]["data"]["validity"] = {"verdict": "suspect", "reasons": ["drifting: the second half is 9% slower"]}
    lost = row(build, "run-b", batch=16, sampled=False)
    of = {"model": MODEL, "hardware": DEVICE, "run_id": "run-a"}
    failure, test = build.failure("out_of_memory", "first_run", **{**of, "batch_size": 64}), build.test(**of)
    events = [
        started(build, "run-a", driver="1.0", minutes=60), *first, failure, test, finished(build, "run-a"),
        started(build, "run-b", driver="2.0", minutes=30), *second, *third, *lost, finished(build, "run-b"),
        build.retraction(event_id=third[0]["id"]),
    ]  # fmt: skip
    named = {
        "row": first[0],
        "doubtful": second[0],
        "taken": third[0],
        "lost": lost[0],
        "failure": failure,
        "test": test,
    }
    with new_service() as url, Client(url) as client:
        answer = client.post_events(events)
        assert answer["rejected"] == []
        client.wait_for(answer["last_position"])
        yield Made(url, {name: event["id"] for name, event in named.items()})


@pytest.fixture
def asked(made: Made, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    monkeypatch.setenv("ASSAY_SERVER", made.url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield made
    st.cache_data.clear()
    st.cache_resource.clear()


def run(**params: str) -> AppTest:
    test = AppTest.from_function(page_of_runs, default_timeout=60)
    for name, value in params.items():
        test.query_params[name] = value
    found = test.run()
    assert not found.exception
    return found


def plain(found: Any) -> str:
    return " | ".join(str(one.value).replace("\\", "").replace("\u202f", " ") for one in found)


def test_a_row_that_was_taken_back_says_so_and_is_struck(asked: Made) -> None:
    test = run(row=asked.ids["taken"])
    assert "This row was taken back: wrong clock" in plain(test.error)
    assert "~~sampled · openvino" in plain(test.subheader)


def test_a_failure_says_its_stage_its_error_and_what_to_try(asked: Made) -> None:
    test = run(row=asked.ids["failure"])
    assert "out of memory at first run" in plain(test.subheader)
    assert "no such operator" in plain(test.code)
    assert "Use fp32." in plain(test.info)


def test_a_row_without_its_samples_keeps_its_figures(asked: Made) -> None:
    test = run(row=asked.ids["lost"])
    assert "The raw samples of this row are not in the log. There were 61, digest" in plain(test.info)
    assert "10.2\u202fms (10.1–10.3)" in columns(test, "Metrics of the row with their verdicts")["Value"]["shown"]


def test_a_row_of_nobody_and_a_run_of_nobody_are_sentences(asked: Made) -> None:
    assert "the log has no event" in plain(run(row="01a2021c-5247-7713-8e24-f7cecbfcdeb2").markdown)
    assert "no run is called 'moon'" in plain(run(run="moon").markdown)
    assert "row=17 was left out" in plain(run(row="17").warning)


def test_filters_become_the_address_and_what_is_not_there_is_said(asked: Made) -> None:
    test = run()
    test.selectbox(key="runs hw").set_value(DEVICE).run()
    assert test.query_params["hw"] in (DEVICE, [DEVICE])
    assert plain(test.subheader).startswith("2 runs; the newest, bench on acme-runner, completed")
    none = run(kind="verify")
    assert "No run is of kind verify." in plain(none.subheader)
    none.button(key="runs reset").click().run()
    assert "runs; the newest" in plain(none.subheader)


def test_a_run_as_of_a_position_before_its_end_has_the_rows_of_then(asked: Made) -> None:
    with Client(asked.url) as client:
        at = client.event(asked.ids["row"])["position"]
    test = run(run="run-a", as_of=str(at))
    assert "1 of 4 configurations; 1 valid, 0 suspect, 0 invalid" in plain(test.subheader)


@pytest.mark.browser
def test_the_list_says_what_the_service_says_and_can_be_taken_away(
    page: Any, dashboards: Any, made: Made, tmp_path: Path
) -> None:
    text = page.open(f"{dashboards(made.url)}/runs?hw={DEVICE}")
    with Client(made.url) as client:
        known = client.runs(hardware=DEVICE)
    assert f"{len(known)} runs; the newest, bench on {DEVICE}, completed" in text
    page.page.get_by_test_id("stPopover").get_by_role("button", name="Download").click()
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="CSV, every column").click()
    expected.value.save_as(tmp_path / "runs.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text())))
    assert [(one["run_id"], int(one["rows_suspect"])) for one in rows] == [
        (one["run_id"], one["rows_suspect"]) for one in known
    ]
    assert page.wrong == []


@pytest.mark.browser
def test_the_newest_run_is_first_and_one_click_leads_to_its_reasons(page: Any, dashboards: Any, made: Made) -> None:
    page.open(f"{dashboards(made.url)}/runs?hw={DEVICE}")
    runs = page.page.get_by_role("region", name="Runs, newest first").locator("tbody tr")
    assert [row.locator("a").get_attribute("href") for row in runs.all()] == ["runs?run=run-b", "runs?run=run-a"]
    runs.first.locator("a").click()
    page.page.get_by_role("heading", name=f"Bench on {DEVICE}", exact=True).wait_for()
    text = page.text()
    assert "drifting: the second half is 9% slower (1 row)" in text
    assert "1 row is doubtful. Measure them again on an idle, cool machine:" in text
    assert f"assay bench {MODEL} --platform openvino --precision fp32 --batch-sizes 1" in text
    rows = page.page.get_by_role("region", name="Rows of the run").locator("tbody tr")
    assert rows.count() == 1
    page.page.get_by_text("All (2)", exact=True).click()
    page.page.wait_for_function("location.search.includes('rows=all')")
    # The address comes with the run of the page that brings the rows, not after it.
    rows.nth(1).wait_for()
    assert ["⚠ suspect" in row.inner_text() for row in rows.all()] == [True, False]
    rows.first.locator("a").click()
    page.page.get_by_role("heading", name="sampled", exact=True).wait_for()
    assert made.ids["doubtful"] in page.page.url
    assert page.wrong == []


@pytest.mark.browser
def test_the_environment_says_what_changed_and_nothing_where_no_run_was_before(
    page: Any, dashboards: Any, made: Made
) -> None:
    page.open(f"{dashboards(made.url)}/runs?run=run-b")
    page.page.get_by_role("radio", name="Environment").click()
    page.page.wait_for_function("location.search.includes('tab=environment')")
    said = "Differs from the run before on this machine"
    page.page.get_by_text(said).wait_for()
    again = page.open(page.page.url)
    assert said in again and "Driver\t2.0\t1.0" in again
    first = page.open(f"{dashboards(made.url)}/runs?run=run-a&tab=environment")
    assert "No earlier run is known on any of its devices." in first
    assert "the same" not in first and "The run before" not in first
    page.page.get_by_role("button", name="All runs").click()
    page.page.get_by_text("runs; the newest").wait_for()
    assert page.wrong == []


@pytest.mark.browser
def test_a_row_alone_finds_its_run_and_shows_its_samples(
    page: Any, dashboards: Any, made: Made, tmp_path: Path
) -> None:
    text = page.open(f"{dashboards(made.url)}/runs?row={made.ids['row']}")
    with Client(made.url) as client:
        drawn = client.samples(made.ids["row"])
    page.page.get_by_role("button", name="About this answer").click()
    page.page.get_by_text("run run-a").wait_for()
    page.page.keyboard.press("Escape")
    assert "sampled · openvino · fp32 · batch 1 · acme-runner: 10.2 ms (10.1–10.3)" in text
    assert "p95 — (needs 90, has 61)" in text
    beyond = (
        f"1 call lies beyond the histogram, up to {formatting.plain(formatting.latency(drawn['beyond']['largest']))}"
    )
    assert beyond in text
    assert "cuda" in text and "≠ no" in text
    page.page.get_by_test_id("stPopover").get_by_role("button", name="Download").click()
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="CSV, every column").click()
    expected.value.save_as(tmp_path / "samples.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "samples.csv").read_text())))
    assert [float(one["ms"]) for one in rows] == drawn["points"]
    assert [one["phase"] for one in rows[:3]] == ["warm-up", "warm-up", "steady"]
    assert page.wrong == []


@pytest.mark.browser
def test_what_is_under_way_moves_by_itself_until_it_ends(page: Any, dashboards: Any, build: Any, made: Made) -> None:
    on = {"hardware": "acme-live"}
    begin = [started(build, "run-l", driver="1.0", minutes=1, **on), *row(build, "run-l", batch=1, **on)]
    with Client(made.url) as client:
        client.wait_for(client.post_events(begin)["last_position"])
        until = time.monotonic() + 30
        # A dashboard asks where the service stands every two seconds at most: what came since is on the next page.
        while "is running: 1 of 4 configurations" not in page.open(f"{dashboards(made.url)}/runs?hw=acme-live"):
            assert time.monotonic() < until
        client.post_events(row(build, "run-l", batch=8, **on))
        page.page.get_by_text("is running: 2 of 4 configurations").first.wait_for()
        client.post_events([finished(build, "run-l")])
        page.page.get_by_text("completed: 2 of 4 configurations").first.wait_for()
        assert page.page.get_by_role("progressbar").count() == 0
    assert page.wrong == []


@pytest.mark.browser
@pytest.mark.parametrize("page", [(390, "light"), (1280, "dark")], indirect=True)
@pytest.mark.torture
def test_a_row_fits_a_phone_and_the_dark(page: Any, dashboards: Any, made: Made) -> None:
    for path in ("runs", f"runs?row={made.ids['doubtful']}"):
        text = page.open(f"{dashboards(made.url)}/{path}")
        wide = page.page.evaluate(
            "(() => { const main = document.querySelector('[data-testid=\"stMain\"]');"
            " return main.scrollWidth - main.clientWidth; })()"
        )
        assert wide <= 0
    assert "drifting: the second half is 9% slower" in text
    assert page.wrong == []
