"""The Trends page: what changed is what the API says, in a script and in a real browser."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from assay.client import Client
from assay.home import find_home
from assay.service import ephemeral

pytestmark = pytest.mark.xdist_group("dashboard")
MODEL, OTHER, SLOWED = "acme/driftnet", "acme/steadynet", "acme/slowednet"
VALUES = (4.0, 4.02, 2.0, 2.01, 3.0)


def trends() -> None:
    from dashboard.screens.trends import view

    view.show()


def history(build: Any) -> list[dict[str, Any]]:
    """One configuration that got faster with a driver and slower later, the same at batch 8, another once, a steady model."""
    events = []
    for batch in (1, 8):
        for number, value in enumerate(VALUES, 1):
            driver = "550.54" if number < 3 else "560.35"
            environment = {
                "fingerprint": f"env-{driver}",
                "os": "Linux",
                "driver": driver,
                "libraries": {"torch": "2.13.0"},
            }
            row = build.measurement(
                p50=value * batch, model=MODEL, batch_size=batch, time=datetime(2026, 10, number, 12, tzinfo=UTC),
                run_id=f"nightly-{number}", environment=environment,
            )  # fmt: skip
            events.append(row)
    events.append(build.measurement(9.0, model=MODEL, platform="openvino", time=datetime(2026, 10, 2, tzinfo=UTC)))
    events += [build.measurement(5.0, model=OTHER, time=datetime(2026, 10, day, tzinfo=UTC)) for day in (1, 2)]
    return events


@pytest.fixture(scope="module")
def history_url(tmp_path_factory: pytest.TempPathFactory, build: Any) -> Iterator[str]:
    with ephemeral(find_home(tmp_path_factory.mktemp("history"))) as url, Client(url) as client:
        client.wait_for(client.post_events(history(build))["last_position"])
        yield url


@pytest.fixture
def asked(history_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", history_url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield history_url
    st.cache_data.clear()
    st.cache_resource.clear()


def run(**params: Any) -> AppTest:
    test = AppTest.from_function(trends, default_timeout=60)
    for name, value in params.items():
        test.query_params[name] = value
    test.session_state["trends every point"] = True
    found = test.run()
    assert not found.exception
    return found


def plain(value: Any) -> str:
    return str(value).replace("\\", "").replace("\u202f", " ")


def written(test: AppTest) -> str:
    return "\n".join(
        plain(one.value) for one in (*test.markdown, *test.caption, *test.subheader, *test.info, *test.warning)
    )


def table(test: AppTest, head: str) -> Any:
    """The table that has a column of this name."""
    return next(one.value for one in (*test.dataframe, *test.table) if head in one.value)


def test_what_changed_is_what_the_api_says(asked: str) -> None:
    test = run(model=MODEL)
    with Client(asked) as client:
        lines = client.trends(MODEL)["lines"]
    steps = [point["step"] for line in lines for point in line["points"] if point["step"]]
    changed = table(test, "With it")
    assert len(changed) == len(steps) == 4
    assert [plain(one) for one in changed["Change"]] == [
        "▼ 49 % longer (46–52 %)", "▼ 49 % longer (46–52 %)", "▲ 50 % shorter (49–51 %)", "▲ 50 % shorter (49–51 %)",
    ]  # fmt: skip
    assert list(changed["With it"])[2:] == ["driver 550.54 → 560.35"] * 2
    assert [plain(run) for run in changed["Run"]] == [
        f"[nightly-{day}](/runs?run=nightly-{day})" for day in (5, 5, 3, 3)
    ]
    heading = plain(test.subheader[0].value)
    assert heading.startswith("At the last change of 2 configurations: 2 worse. Newest: acme-one · cpu · fp32 · batch ")


def test_every_point_has_its_value_interval_and_run(asked: str) -> None:
    points = table(run(model=MODEL, platform="cpu"), "Verdict")
    assert len(points) == 2 * len(VALUES)
    assert plain(points["Latency"][0]) == "4.00 ms (3.96–4.04)"
    assert set(points["n"]) == {60}


def test_configurations_are_chosen_by_name_and_become_the_address(asked: str) -> None:
    test = run(model=MODEL)
    picker = test.multiselect(key="trends rows")
    assert len(picker.value) == 2
    picker.set_value(picker.value[:1]).run()
    assert not test.exception
    assert test.query_params["rows"] in (picker.value[0], picker.value[:1])
    assert "1 of 3 configurations" in written(test)
    again = run(model=MODEL, rows=picker.value[0])
    assert again.multiselect(key="trends rows").value == picker.value[:1]


def test_a_span_of_days_cuts_both_ends_and_keeps_what_led_to_it(asked: str) -> None:
    points = table(run(model=MODEL, platform="cpu", since="2026-10-03", until="2026-10-04"), "Verdict")
    assert len(points) == 4
    changed = table(run(model=MODEL, platform="cpu", since="2026-10-03", until="2026-10-04"), "With it")
    assert {plain(one).split(" (")[0] for one in changed["Change"]} == {"▲ 50 % shorter"}
    nothing = run(model=MODEL, since="2026-11-01")
    assert "Nothing of these was measured between the two days." in written(nothing)


def test_filters_that_leave_nothing_and_a_metric_that_nobody_measured_say_so(asked: str) -> None:
    test = run(model=MODEL, platform="webgpu")
    assert "The filters leave none of 3 configurations." in written(test)
    test.button(key="trends reset").click().run()
    assert "platform" not in test.query_params
    energy = run(model=MODEL, metric="energy_j")
    assert "has the metric Energy of a call. It has: Latency. This" in written(energy)
    # Only what some row has is offered, and what is asked for.
    assert energy.selectbox(key="trends metric").options == ["Latency", "Energy of a call"]
    assert test.selectbox(key="trends metric").options == ["Latency"]


def test_a_steady_model_is_said_to_be_steady(asked: str) -> None:
    test = run(model=OTHER)
    assert "1 configuration: no change beyond 10 % and the noise." in written(test)


def test_without_a_model_it_says_what_got_worse(asked: str, build: Any) -> None:
    with Client(asked) as client:
        before = client.post_events([build.measurement(5.0, model=SLOWED)])["last_position"]
        at = client.post_events([build.measurement(6.5, model=SLOWED)])["last_position"]
        client.wait_for(at)
        found = client.regressions(baseline=before)
        then, now = (next(client.events(after=place - 1, upto=place))["recorded_at"] for place in (before, at))
    assert [change["model"] for change in found["changes"]] == [SLOWED]
    test = run()
    assert "Nothing was measured again over the last 7 days." in written(test)
    test.segmented_control(key="trends days").set_value(30.0).run()
    assert test.query_params["days"] in ("30", ["30"])
    # Half of what lies between the two posts.
    apart = (datetime.fromisoformat(now) - datetime.fromisoformat(then)).total_seconds() / 86400 / 2
    recent = run(days=f"{apart:.12f}")
    assert "1 value is worse than before" in written(recent)
    (row,) = table(recent, "Over time").to_dict("records")
    assert plain(row["Change"]).startswith("▼ 30 % longer")
    assert row["Over time"] == f"/trends?model={SLOWED}&hw=acme-one&platform=cpu"


def test_what_the_address_says_in_vain_is_named(asked: str) -> None:
    text = written(run(model=MODEL, x="space", rows="zzz"))
    assert "x=space was left out" in text
    assert "2 configurations" in text


@pytest.mark.browser
def test_the_address_restores_the_view_and_files_hold_the_points(
    page: Any, dashboards: Any, history_url: str, tmp_path: Path
) -> None:
    url = f"{dashboards(history_url)}/trends?model={MODEL}&platform=cpu&x=order&scale=log"
    text = page.open(url)
    assert "acme-one · cpu · fp32 · batch 1" in text
    assert "newest 3.00 ms (2.97–3.03)" in text
    assert page.page.get_by_test_id("stVegaLiteChart").count() == 2
    page.page.get_by_role("button", name="About this answer").click()
    link = page.page.get_by_text("/trends?").first.inner_text()
    query = parse_qs(urlsplit(link).query)
    assert (query["x"], query["scale"], query["platform"]) == (["order"], ["log"], ["cpu"])
    again = page.open(link)
    assert again.split("Copy link", 1)[1] == text.split("Copy link", 1)[1]
    page.page.get_by_test_id("stPopover").get_by_role("button", name="Download").click()
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="CSV, every column").click()
    expected.value.save_as(tmp_path / "points.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "points.csv").read_text())))
    with Client(history_url) as client:
        lines = client.trends(MODEL, platform="cpu")["lines"]
    assert sorted(row["event_id"] for row in rows) == sorted(
        point["event_id"] for line in lines for point in line["points"]
    )
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="SVG picture").click()
    expected.value.save_as(tmp_path / "lanes.svg")
    assert "driver 550.54" in (tmp_path / "lanes.svg").read_text()
    assert page.wrong == []


@pytest.mark.browser
def test_a_model_chosen_from_the_list_shows_its_history(page: Any, dashboards: Any, history_url: str) -> None:
    page.open(f"{dashboards(history_url)}/trends")
    page.page.get_by_role("combobox", name="Model").press_sequentially("driftnet")
    page.page.get_by_role("option", name=MODEL).click()
    page.page.wait_for_function("location.search.includes('model=acme')")
    page.page.get_by_role("heading", name="At the last change of 2 configurations").wait_for()
    assert page.wrong == []
