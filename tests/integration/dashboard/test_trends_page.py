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
from tests.integration.dashboard.shown_tables import columns, values

pytestmark = pytest.mark.xdist_group("dashboard")
MODEL, OTHER, SLOWED = "acme/driftnet", "acme/steadynet", "acme/slowednet"
VERSIONED = "acme/versionednet"
VERSIONS = ("2.9.1", "2.10.0", "2.10.1", "2.11.0+cu128", "2.12.0", "2.13.0.post1", "2.14.0", "2.15.0", "3.0.0")
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
    for number, version in enumerate(VERSIONS):
        # Three versions a day: their words have no room side by side.
        when = datetime(2026, 10, 1 + number // 3, number % 3, tzinfo=UTC)
        row = build.measurement(p50=4.0 * 1.3**number, model=VERSIONED, time=when)
        row["data"]["execution"]["runtime"]["version"] = version
        events.append(row)
    events += [build.measurement(5.0, model=OTHER, time=datetime(2026, 10, day, tzinfo=UTC)) for day in (1, 2)]
    return events


@pytest.fixture(scope="module")
def history_url(new_service: Any, build: Any) -> Iterator[str]:
    with new_service() as url, Client(url) as client:
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


def test_what_changed_is_what_the_api_says(asked: str) -> None:
    test = run(model=MODEL)
    with Client(asked) as client:
        lines = client.trends(MODEL)["lines"]
    steps = [point["step"] for line in lines for point in line["points"] if point["step"]]
    changed = columns(test, "trends changes")
    assert len(changed["Change"]["values"]) == len(steps) == 4
    assert [plain(one) for one in changed["Change"]["shown"]] == [
        "▼ 49 % longer (46–52 %)", "▼ 49 % longer (46–52 %)", "▲ 50 % shorter (49–51 %)", "▲ 50 % shorter (49–51 %)",
    ]  # fmt: skip
    assert changed["With it"]["values"][2:] == ["driver 550.54 → 560.35"] * 2
    assert changed["Configuration"]["links"] == [f"runs?run=nightly-{day}" for day in (5, 5, 3, 3)]
    heading = plain(test.subheader[0].value)
    assert heading.startswith(
        "4 changes of 2 configurations: 2 worse, 2 better. Newest: acme-one · cpu · fp32 · batch "
    )


def test_every_point_has_its_value_interval_and_run(asked: str) -> None:
    points = columns(run(model=MODEL, platform="cpu"), "trends points table")
    assert len(points["n"]["values"]) == 2 * len(VALUES)
    assert plain(points["Latency"]["shown"][0]) == "4.00 ms (3.96–4.04)"
    assert set(points["n"]["values"]) == {60}


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
    test = run(model=MODEL, platform="cpu", since="2026-10-03", until="2026-10-04")
    assert len(values(test, "trends points table")["Configuration"]) == 4
    changed = columns(test, "trends changes")
    assert {plain(one).split(" (")[0] for one in changed["Change"]["shown"]} == {"▲ 50 % shorter"}
    nothing = run(model=MODEL, since="2026-11-01")
    assert "Nothing of these was measured between the two days" in written(nothing)


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
    worse = columns(recent, "trends worse")
    (change,) = worse["Change"]["shown"]
    assert plain(change).startswith("▼ 30 % longer")
    assert worse["Configuration"]["links"] == [f"trends?model={SLOWED}&hw=acme-one&platform=cpu"]


def test_what_is_doubted_and_undated_is_out_until_it_is_asked_for(asked: str, build: Any) -> None:
    model = "acme/doubtednet"
    events = [build.measurement(5.0, model=model, time=datetime(2026, 10, day, tzinfo=UTC)) for day in (1, 2)]
    events.append(
        build.measurement(
            9.0,
            model=model,
            time=datetime(2026, 10, 3, tzinfo=UTC),
            validity={"verdict": "invalid", "reasons": ["why"]},
        )
    )
    # Imported today, in an order that nobody measured in: the older version last.
    for version, p50 in (("2.10.0", 6.0), ("2.9.0", 8.0)):
        event = build.measurement(p50, model=model)
        event.pop("time", None)
        event["data"]["execution"]["runtime"]["version"] = version
        events.append(event)
    with Client(asked) as client:
        answer = client.post_events(events)
        assert answer["rejected"] == []
        client.wait_for(answer["last_position"])
    test = run(model=model)
    assert "no change beyond 10 %" in plain(test.subheader[0].value)
    assert values(test, "trends points table")["Latency"] == [5.0, 5.0]
    switches = {one.key: one.label for one in test.toggle}
    assert switches == {"trends invalid": "Invalid (1)", "trends undated": "Undated (2)"}
    test.toggle(key="trends invalid").set_value(True).run()
    assert test.query_params["invalid"] in ("yes", ["yes"])
    assert values(test, "trends points table")["Latency"] == [5.0, 5.0, 9.0]
    everything = run(model=model, undated="yes")
    points = values(everything, "trends points table")
    assert [version.split(" ")[-1] for version in points["Software"]][:2] == ["2.9.0", "2.10.0"]
    assert "worse" not in plain(everything.subheader[0].value)
    undated = run(model=model, undated="yes", x="time")
    assert values(undated, "trends points table")["Latency"] == [5.0, 5.0]


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
    page.page.get_by_role("heading", name="4 changes of 2 configurations").wait_for()
    assert page.wrong == []


@pytest.mark.browser
def test_a_part_of_a_name_is_offered_and_never_taken(page: Any, dashboards: Any, history_url: str) -> None:
    page.open(f"{dashboards(history_url)}/trends")
    box = page.page.get_by_role("combobox", name="Model")
    box.press_sequentially("acme/drifted")
    box.press("Enter")
    page.page.get_by_text("No model is called “acme/drifted”.").wait_for()
    assert "model=" not in page.page.url
    box.press_sequentially("DRIFTNET")
    box.press("Enter")
    page.page.wait_for_function("location.search.includes('model=acme')")


WORDS = """() => [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].map(chart => {
    const frame = chart.getBoundingClientRect();
    const words = [...chart.querySelectorAll('svg text')].filter(text => text.textContent.trim() && text.textContent !== '▲'
        && text.checkVisibility({checkOpacity: true}));
    return {frame: [frame.left, frame.right], words: words.map(text => {
        const box = text.getBoundingClientRect();
        return [text.textContent, box.left, box.right, box.top, box.bottom];
    })};
})"""


@pytest.mark.browser
@pytest.mark.parametrize("page", [(1440, "light"), (390, "light")], indirect=True)
@pytest.mark.parametrize("x", ["time", "version"])
def test_no_words_on_a_picture_meet_or_are_cut(page: Any, dashboards: Any, history_url: str, x: str) -> None:
    text = page.open(f"{dashboards(history_url)}/trends?model={VERSIONED}&x={x}")
    assert "8 worse" in text
    (chart,) = page.page.evaluate(WORDS)
    assert any("%" in word[0] for word in chart["words"])
    assert any("→" in word[0] for word in chart["words"])
    for word, left, right, top, bottom in chart["words"]:
        assert chart["frame"][0] - 1 <= left and right <= chart["frame"][1] + 1, (word, chart["frame"])
        for other, start, end, above, below in chart["words"]:
            apart = right <= start or end <= left or bottom <= above or below <= top
            assert apart or (word, left) == (other, start), (word, other)
    assert page.wrong == []
