"""The Regressions page over alerts that a service raised by itself: the worst first, its evidence, and states that operators give."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import streamlit as st
from streamlit import config
from streamlit.testing.v1 import AppTest

from assay.client import Client
from tests.integration.dashboard.conftest import dashboard_on
from tests.integration.dashboard.shown_tables import columns, values

pytestmark = pytest.mark.xdist_group("dashboard")
DRIVEN, FASTER, FAILING, ODD = "acme/driven", "acme/faster", "acme/failing", "acme/odd"
BEFORE, AFTER = 14, 10
NOISE = (0.0, 0.008, -0.006, 0.003, -0.009, 0.005)
BEGAN = datetime(2026, 10, 1, 2, tzinfo=UTC)


def page() -> None:
    from dashboard.screens.regressions import view

    view.show()


def trends() -> None:
    from dashboard.screens.trends import view

    view.show()


def home() -> None:
    from dashboard.screens.overview import view

    view.show()


def nights(build: Any) -> Iterator[dict[str, Any]]:
    """A driver that slows two configurations, an improvement, a test that begins to fail, and a newest point that is odd."""
    for night in range(BEFORE + AFTER):
        late = night >= BEFORE
        when = {"time": BEGAN + timedelta(days=night), "run_id": f"night-{night}"}
        driver = "560.35" if late else "550.54"
        environment = {
            "fingerprint": f"env-{driver}",
            "os": "Linux",
            "driver": driver,
            "libraries": {"torch": "2.13.0"},
        }
        noise = 1 + NOISE[night % len(NOISE)]
        for batch in (1, 8):
            p50 = 4.0 * batch * noise * ((1.2 if batch == 8 else 1.15) if late else 1)
            yield build.measurement(p50, model=DRIVEN, batch_size=batch, environment=environment, **when)
        other = {**when, "hardware": "acme-two"}
        # One old point is odd as well, and long past.
        yield build.measurement(5.0 * noise * (0.8 if late else 1.5 if night == 11 else 1), model=FASTER, **other)
        last = night == BEFORE + AFTER - 1
        yield build.measurement(5.0 * noise * (1.4 if last else 1), model=ODD, **other)
        outcome = build.test("failed" if late else "passed", model=FAILING, test="outputs", run_id=when["run_id"])
        yield outcome | {"time": when["time"].isoformat()}


@pytest.fixture(scope="module")
def url(new_service: Any, build: Any) -> Iterator[str]:
    with new_service() as url, Client(url) as client:
        answer = client.post_events(list(nights(build)))
        assert answer["rejected"] == []
        client.wait_for(answer["last_position"])
        until = time.monotonic() + 60
        while len(client.alerts().alerts) < 3 or len(client.alerts(model=DRIVEN).alerts[0].changes) < 2:
            assert time.monotonic() < until, "the service raised no alerts"
            time.sleep(0.05)
        yield url


@pytest.fixture
def asked(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield url
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def local() -> Iterator[None]:
    """As on this machine alone, where whoever looks is an operator."""
    before = st.get_option("server.address")
    config.set_option("server.address", "127.0.0.1")
    yield
    config.set_option("server.address", before)


def run(shown: Any = page, *, unfolded: str = "", **params: Any) -> AppTest:
    test = AppTest.from_function(shown, default_timeout=60)
    for name, value in params.items():
        test.query_params[name] = value
    if unfolded:
        test.session_state[unfolded] = True
    found = test.run()
    assert not found.exception
    return found


def plain(value: Any) -> str:
    return str(value).replace("\\", "").replace("\u202f", " ")


def headings(test: AppTest) -> list[str]:
    return [plain(one.value) for one in test.subheader]


def written(test: AppTest) -> str:
    parts = (*test.markdown, *test.caption, *test.info, *test.warning, *test.error)
    return "\n".join([*(plain(one.value) for one in parts), *(one.proto.body for one in test.get("html"))])


def identifier(url: str, model: str) -> str:
    with Client(url) as client:
        return client.alerts(model=model).alerts[0].id


def address(test: AppTest) -> dict[str, list[str]]:
    return {name: [value] if isinstance(value, str) else list(value) for name, value in test.query_params.items()}


def press(test: AppTest, label: str) -> AppTest:
    found = next(button for button in test.button if button.label == label).click().run()
    assert not found.exception
    return found


def test_the_worst_stands_first_and_is_open_with_the_events_on_both_sides(asked: str) -> None:
    test = run()
    assert headings(test) == ["2 regressions are open, all of them new.", "▼ Test outputs fails: failing · acme-one · cpu · fp32 · batch 1"]  # fmt: skip
    listed = columns(test, "regressions alerts")
    assert listed["Change"]["shown"][0] == "▼ fails"
    assert plain(listed["Change"]["shown"][1]).startswith("▼ 2")
    assert listed["What"]["values"][1] == "2 configurations of driven · acme-one"
    events = columns(test, "regressions evidence")
    assert events["Side"]["values"] == ["before"] * 5 + ["after"] * 5
    assert events["outputs"]["values"] == ["passed"] * 5 + ["failed"] * 5
    assert all(one.startswith("runs?row=") for one in events["Event"]["links"])


def test_one_alert_has_a_cause_in_common_its_history_with_levels_and_a_bisect_command(asked: str) -> None:
    name = identifier(asked, DRIVEN)
    test = run(alert=name)
    assert "driver 550.54 → 560.35" in written(test)
    assert "assay bisect --good" in written(test)
    assert len(test.selectbox(key=f"regressions change {name}").options) == 2
    (chart,) = test.get("vega_lite_chart") or test.get("arrow_vega_lite_chart")
    assert '"area"' in chart.proto.spec and "driven" in chart.proto.alt
    assert f"trends?model={DRIVEN}&metric=latency_ms&rows=" in written(test)


def test_another_change_of_an_alert_is_chosen_and_stands_in_the_address(asked: str) -> None:
    name = identifier(asked, DRIVEN)
    test = run(alert=name)
    box = test.selectbox(key=f"regressions change {name}")
    with Client(asked) as client:
        second = client.alert(name).changes[1].id
    box.set_value(second).run()
    assert not test.exception
    assert address(test) == {"alert": [name], "change": [second]}
    assert run(alert=name, change=second).selectbox(key=f"regressions change {name}").value == second


def test_filters_choose_and_stand_in_the_address(asked: str) -> None:
    better = run(direction="better")
    assert headings(better)[0] == "1 improvement is open and new."
    assert plain(headings(better)[1]).startswith("▲ Latency 2")
    assert headings(run(model=DRIVEN, hw="acme-one"))[0] == "1 regression is open and new."
    none = run(state="fixed")
    assert "2 new" in written(none)
    press(none, "Show all states")
    assert address(none) == {"state": ["all"]}
    unknown = run(model="acme/none")
    assert headings(unknown) == ["No regression is open."]
    press(unknown, "Reset filters")
    assert len(headings(unknown)) == 2


def test_an_alert_that_does_not_exist_is_said_to_and_the_worst_is_shown(asked: str) -> None:
    test = run(alert="ffffffff")
    assert "There is no alert ffffffff." in written(test)
    assert headings(test)[1].startswith("▼ Test outputs fails")


@pytest.mark.usefixtures("local")
def test_an_operator_says_why_and_opens_it_again(asked: str) -> None:
    name = identifier(asked, FAILING)
    test = press(run(alert=name), "Fixed")
    assert "fixed needs a reason" in written(test)
    with Client(asked) as client:
        assert client.alert(name).states == []
        test.text_input[0].set_value("pinned the library")
        press(test, "Fixed")
        assert "fixed" in plain(test.success[0].value)
        (given,) = client.alert(name).states
        assert (given.state, given.reason, given.author) == ("fixed", "pinned the library", "local")
        assert headings(test)[:2] == ["1 regression is open and new.", "▼ Test outputs fails: failing · acme-one · cpu · fp32 · batch 1"]  # fmt: skip
        assert [button.label for button in test.button if button.label in ("Fixed", "Acknowledge", "Open again")] == [
            "Open again"
        ]
        assert test.text_input[0].value == ""
        press(test, "Open again")
        assert client.alert(name).state == "new"
    test.session_state["regressions states part"] = True
    assert headings(test.run())[0] == "2 regressions are open, all of them new."
    said = values(test, "regressions states")
    assert (said["State"], said["Reason"]) == (["new", "fixed"], [None, "pinned the library"])


@pytest.mark.usefixtures("local")
def test_who_is_slower_is_told_what_another_said(asked: str) -> None:
    name = identifier(asked, DRIVEN)
    test = run(alert=name)
    with Client(asked) as client:
        client.set_alert_state(name, "false", "a backup ran")
        press(test, "Acknowledge")
        assert "Not changed" in plain(test.success[0].value)
        client.set_alert_state(name, "new")


def test_a_past_position_is_read_and_not_written(asked: str, local: None) -> None:
    with Client(asked) as client:
        at = client.ready()["position"]
    test = run(as_of=str(at))
    assert len(headings(test)) == 2
    assert not test.text_input


def test_a_viewer_reads_and_may_say_nothing_and_finds_suspect_points_under_a_fold(asked: str) -> None:
    test = run()
    assert ODD not in written(test)
    assert {"Acknowledge", "Fixed"}.isdisjoint(button.label for button in test.button)
    assert not test.text_input
    test = run(unfolded="regressions suspects")
    suspect = columns(test, "regressions suspect")
    assert len(suspect["Configuration"]["values"]) == 1
    assert suspect["Configuration"]["links"][0].startswith(f"trends?model={ODD}&metric=latency_ms&rows=")


def test_trends_draws_levels_and_leads_from_a_change_to_its_alert(asked: str) -> None:
    test = run(trends, model=DRIVEN)
    assert headings(test)[0].startswith("2 changes of 2 configurations: 2 worse.")
    changed = columns(test, "trends changes")
    assert changed["Alert"]["links"] == [
        f"regressions?state=all&direction=all&alert={identifier(asked, DRIVEN)}"
    ] * 2  # fmt: skip
    assert changed["With it"]["values"] == ["driver 550.54 → 560.35"] * 2
    charts = test.get("vega_lite_chart") or test.get("arrow_vega_lite_chart")
    assert ['"area"' in chart.proto.spec for chart in charts] == [True, True]


def test_home_says_how_many_are_new(asked: str) -> None:
    assert "[2 regressions are new](/regressions?state=new)" in written(run(home))


@pytest.mark.browser
def test_in_a_browser_an_alert_is_opened_by_its_name_and_nothing_goes_wrong(tab: Any, url: str) -> None:
    with dashboard_on(url) as shown:
        opened = tab(390, "dark")
        opened.open(f"{shown}/regressions")
        opened.page.get_by_role("link", name="2 configurations of driven").click()
        opened.page.get_by_role("heading", name="2 configurations of driven").wait_for()
        opened.page.locator('[data-testid="stVegaLiteChart"] :is(svg, canvas)').first.wait_for()
        text = opened.text()
        assert "driver 550.54 → 560.35" in text and "assay bisect" in text
        assert identifier(url, DRIVEN) in opened.page.url
        assert opened.wrong == []
