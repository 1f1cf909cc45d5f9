"""What the pages' scripts do with widgets and addresses, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
import streamlit as st
from streamlit import config
from streamlit.testing.v1 import AppTest

from assay.client import Client
from domain.cookbook import recipes
from tests.integration.dashboard.shown_tables import values

MODEL = "acme/tiny"
pytestmark = pytest.mark.xdist_group("dashboard")


def recommend() -> None:
    from dashboard.screens.recommend import view as recommend

    recommend.show()


def compare() -> None:
    from dashboard.screens.compare import view as compare

    compare.show()


def overview() -> None:
    from dashboard.screens.overview import view as overview

    overview.show()


@pytest.fixture
def asked(service_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", service_url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield service_url
    st.cache_data.clear()
    st.cache_resource.clear()


def run(page: Any, *, unfolded: bool = False, form: bool = False, **params: Any) -> AppTest:
    test = AppTest.from_function(page, default_timeout=30)
    for part in ("limits", "filters", "folded", "details"):
        test.session_state[f"recommend {part}"] = unfolded
    test.session_state["recommend form"] = form or unfolded
    for name, value in params.items():
        test.query_params[name] = value
    found = test.run()
    assert not found.exception
    return found


def given(test: AppTest, name: str) -> list[str]:
    value = test.query_params[name]
    return value if isinstance(value, list) else [value]


def devices(test: AppTest) -> list[str]:
    """The names in the first table."""
    sent = json.loads(test.get("bidi_component")[0].proto.json)
    return [str(name) for name in sent["columns"][0]["values"]]


def plain(text: str) -> str:
    return text.replace("\\", "").replace("\u202f", " ")


def heading(test: AppTest) -> str:
    return plain(str(test.subheader[0].value))


def fastest(test: AppTest) -> str:
    """The first pick: its device and its latency."""
    return plain(f"{test.metric[0].label}: {test.metric[0].value}")


@pytest.mark.parametrize("page", [recommend, compare, overview])
def test_every_page_runs_without_parameters(asked: str, page: Any) -> None:
    assert run(page).title


def test_trying_again_leaves_those_alone_who_are_in_the_midst_of_asking(asked: str) -> None:
    from dashboard import service

    others = service.client()
    service.forget()
    assert others.ready()["position"]
    assert service.client() is not others


def test_the_form_turns_widgets_into_parameters(asked: str) -> None:
    test = run(recommend, unfolded=True, model=MODEL)
    assert fastest(test).startswith("acme-one: 2.00 ms")
    test.multiselect(key="recommend platform").set_value(["cpu"])
    test.text_input(key="recommend batch").set_value("1, 8")
    next(button for button in test.button if button.label == "Rank hardware").click()
    test.run()
    assert not test.exception
    assert given(test, "platform") == ["cpu"]
    assert given(test, "batch") == ["1", "8"]
    assert fastest(test).startswith("acme-one: 8.00 ms")
    # The answer takes the place of the form.
    assert "Change the question" in {button.label for button in test.button}
    assert not test.selectbox


def test_the_form_asks_for_every_limit_and_filter(asked: str) -> None:
    test = run(recommend, unfolded=True, model=MODEL)
    for name, value in {"max_ms": 20.5, "max_usd": 3.0, "max_gb": 8.0, "min_per_s": 2.0, "max_w": 400.0}.items():
        test.number_input(key=f"recommend {name}").set_value(value)
    test.number_input(key="recommend confidence").set_value(0.9)
    test.selectbox(key="recommend objective").set_value("latency:0.5,cost:0.5")
    test.multiselect(key="recommend provider").set_value(["aws"])
    test.selectbox(key="recommend compiled").set_value("eager")
    test.checkbox(key="recommend spot").set_value(True)
    next(button for button in test.button if button.label == "Rank hardware").click()
    test.run()
    assert not test.exception
    told = {name: given(test, name) for name in test.query_params}
    assert told == {
        "model": [MODEL], "objective": ["latency:0.5,cost:0.5"], "max_ms": ["20.5"], "max_usd": ["3"], "max_gb": ["8"],
        "min_per_s": ["2"], "max_w": ["400"], "confidence": ["0.9"], "provider": ["aws"], "compiled": ["eager"], "spot": ["yes"],
    }  # fmt: skip


def test_parts_of_the_form_are_made_when_unfolded_and_what_they_would_say_stays(asked: str) -> None:
    test = run(recommend, form=True, model=MODEL, max_ms="20.5", platform="cpu")
    assert not keys(test)
    assert not test.multiselect
    assert not test.dataframe
    test.selectbox(key="recommend pct").set_value("p90")
    next(button for button in test.button if button.label == "Rank hardware").click()
    test.run()
    told = {name: given(test, name) for name in ("max_ms", "platform", "pct")}
    assert told == {"max_ms": ["20.5"], "platform": ["cpu"], "pct": ["p90"]}
    again = run(recommend, unfolded=True, model=MODEL, max_ms="20.5", platform="cpu")
    assert again.number_input(key="recommend max_ms").value == 20.5
    assert again.multiselect(key="recommend platform").value == ["cpu"]


def keys(test: AppTest) -> set[str]:
    return {str(widget.key) for widget in test.number_input}


def test_what_only_text_has_is_asked_of_text_and_of_what_the_address_says(asked: str) -> None:
    served = {f"recommend {name}" for name in ("max_ttft", "max_tpot", "min_tokens", "input", "output", "concurrency")}
    assert served <= keys(run(recommend, unfolded=True))
    assert served <= keys(run(recommend, unfolded=True, model="mistralai/Mistral-7B-v0.1"))
    assert not served & keys(run(recommend, unfolded=True, model="microsoft/resnet-50"))
    kept = run(recommend, unfolded=True, model="microsoft/resnet-50", max_ttft="200")
    assert served & keys(kept) == {"recommend max_ttft"}
    assert kept.number_input(key="recommend max_ttft").value == 200


def test_what_the_form_does_not_show_stays_as_the_address_has_it(asked: str) -> None:
    test = run(recommend, form=True, model=MODEL, add="acme-one", per_hw="no", top="3")
    test.selectbox(key="recommend pct").set_value("p90")
    next(button for button in test.button if button.label == "Rank hardware").click()
    test.run()
    assert {name: given(test, name) for name in ("add", "per_hw", "top", "pct")} == {
        "add": ["acme-one"], "per_hw": ["no"], "top": ["3"], "pct": ["p90"],
    }  # fmt: skip


@pytest.fixture
def local() -> Iterator[None]:
    """As on this machine alone, where whoever looks is an operator."""
    before = st.get_option("server.address")
    config.set_option("server.address", "127.0.0.1")
    yield
    config.set_option("server.address", before)


def test_a_reader_who_is_no_operator_is_not_offered_to_write(asked: str) -> None:
    assert "recommend keep" not in {button.key for button in run(recommend, model=MODEL).button}


@pytest.mark.usefixtures("local")
def test_an_answer_is_kept_when_asked_and_not_before(asked: str) -> None:
    test = run(recommend, model=MODEL, platform="cpu")
    with Client(asked) as client:
        before = client.ready()["log_position"]
        test.button(key="recommend keep").click().run()
        assert not test.exception
        (event,) = client.events(after=before)
        identifier = event["data"]["recommendation"]
        assert event["position"] == before + 1
        client.wait_for(event["position"])
        assert client.recommendation(identifier)["ranked"][0]["hardware"] == "acme-one"
        assert f"Kept as `{identifier}`" in plain(test.success[0].value)
        test.button(key="recommend keep").click().run()
        client.wait_for(client.ready()["log_position"])


def operations() -> None:
    from dashboard.screens.operations import view

    view.show()


@pytest.mark.usefixtures("local")
def test_operations_are_asked_again_when_refreshed(asked: str, build: Any) -> None:
    test = run(operations)
    # Nothing in it is a measurement: the other tests count those.
    with Client(asked) as client:
        client.wait_for(client.post_events([build.alias("tiny-of-acme", MODEL)])["last_position"])
        at = client.ready()["position"]
    test.button(key="operations refresh").click().run()
    assert not test.exception
    assert not test.error
    assert any(f"osition {at:,}" in plain(one.value) for one in test.caption)


def test_images_of_a_prompt_are_asked_of_what_sees_and_go_into_the_address(asked: str, build: Any) -> None:
    with Client(asked) as client:
        seeing = build.measurement(5.0, model="acme/seeing", hardware="acme-one")
        seeing["data"]["model"] |= {"category": "multimodal", "family": "llava"}
        client.wait_for(client.post_events([seeing])["last_position"])
    assert "recommend images" not in keys(run(recommend, unfolded=True, model="microsoft/resnet-50"))
    test = run(recommend, unfolded=True, model="acme/seeing")
    test.number_input(key="recommend images").set_value(3)
    next(button for button in test.button if button.label == "Rank hardware").click()
    test.run()
    assert not test.exception
    assert given(test, "images") == ["3"]
    again = run(recommend, unfolded=True, model="acme/seeing", images="3")
    assert again.number_input(key="recommend images").value == 3


def test_one_row_a_device_or_all_configurations(asked: str) -> None:
    test = run(recommend, unfolded=True, model=MODEL, hw="acme-one")
    assert devices(test) == ["acme-one"]
    test.toggle[0].set_value(True)
    test.run()
    assert given(test, "per_hw") == ["no"]
    assert devices(test).count("acme-one") >= 2


def test_a_limit_that_is_taken_away_leaves_the_form_too(asked: str) -> None:
    test = run(recommend, unfolded=True, model=MODEL, max_ms="20")
    test.button_group[0].set_value([])
    test.run()
    assert "max_ms" not in test.query_params
    assert test.number_input(key="recommend max_ms").value is None


def test_what_would_do_is_one_click_away(asked: str) -> None:
    test = run(recommend, model=MODEL, max_ms="0.5", hw="acme-one", platform="openvino")
    assert "No recommendation" in test.info[0].value
    next(button for button in test.button if button.label == "Ask that").click()
    test.run()
    assert not test.exception
    assert float(given(test, "max_ms")[0]) >= 2.0
    assert fastest(test).startswith("acme-one: ")


def test_a_price_says_whose_it_is_and_that_it_is_stale(asked: str, build: Any) -> None:
    device = {"id": "acme-two", "kind": "cpu", "count": 1}
    price = {"hardware": device, "provider": "own", "usd_per_hour": 0.36, "date": "2020-01-31", "region": "cellar"}
    with Client(asked) as client:
        posted = client.post_events([build.event("assay.price.published.v1", price)])
        client.wait_for(posted["last_position"])
    test = run(
        recommend, unfolded=True, model=MODEL, hw="acme-two", platform="cpu", precision="fp32", max_usd="1", batch="1"
    )
    assert fastest(test) == "acme-two: 40.0 ms (39.6–40.4)"
    told = plain(" ".join(str(text.value) for text in test.markdown))
    assert "$0.36/h · own · cellar · as of 2020-01-31" in told
    assert "orange-badge[price of 2020-01-31]" in told
    assert re.search(r"orange-badge\[stale price, \d+ days old: check it", told)
    assert "✓ price ≤ $1/h: $0.36" in told
    assert any("nothing" in str(text.value) or "best in both" in str(text.value) for text in test.caption)
    unpriced = run(recommend, unfolded=True, model=MODEL, hw="acme-one")
    assert "No price is known" in plain(" ".join(str(text.value) for text in unpriced.markdown))


def test_a_recipe_of_the_cookbook_fills_the_form(asked: str) -> None:
    test = run(recommend, unfolded=True)
    recipe = next(one for one in recipes() if one.name == "only-intel")
    test.button(key="recommend recipe only-intel").click()
    test.run()
    assert not test.exception
    assert given(test, "vendor") == ["intel"]
    assert test.selectbox(key="recommend model").value == "bert-base-uncased"
    assert test.multiselect(key="recommend vendor").value == ["intel"]
    shown = unescape(" ".join(one.proto.body for one in run(recommend).get("html")))
    assert all(one.command in shown for one in recipes() if not one.command.startswith("assay recommend"))
    assert recipe.command not in shown


def test_a_form_that_says_nonsense_names_it(asked: str) -> None:
    test = run(recommend, unfolded=True, model=MODEL)
    test.text_input(key="recommend batch").set_value("many")
    next(button for button in test.button if button.label == "Rank hardware").click()
    test.run()
    assert any("batch=many" in warning.value.replace("\\", "") for warning in test.warning)
    assert "batch" not in test.query_params


def test_a_new_address_moves_the_widgets(asked: str) -> None:
    test = run(recommend, unfolded=True, model=MODEL, objective="throughput", max_ms="20", hw="own")
    assert test.selectbox(key="recommend objective").value == "throughput"
    assert test.number_input(key="recommend max_ms").value == 20
    assert test.multiselect(key="recommend hw").value == ["own"]
    test.query_params["objective"] = "memory"
    test.run()
    assert test.selectbox(key="recommend objective").value == "memory"


def test_comparing_by_a_filter_writes_the_address(asked: str) -> None:
    test = run(compare, model=MODEL, metric="latency")
    test.selectbox(key="compare basis").set_value("measured").run()
    assert given(test, "basis") == ["measured"]
    assert "acme-one · openvino · bf16 · batch 1: 2.00 ms" in heading(test)
    test.multiselect(key="compare precision").set_value(["fp32"]).run()
    assert given(test, "precision") == ["fp32"]
    assert "× 5.0 faster than acme-two" in heading(test)
    test.query_params["hw"] = "acme-one,acme-two"
    test.run()
    removed = next(control for control in test.button_group if control.key.startswith("compare chips"))
    removed.set_value([option for option in removed.value if option != "acme-two"]).run()
    assert not test.exception
    assert given(test, "hw") == ["acme-one"]
    assert values(test, "compare table")["Hardware"] == ["acme-one"]


def test_an_answer_as_of_a_position_before_the_rows_has_none_of_them(asked: str) -> None:
    test = run(compare, model=MODEL, metric="latency", as_of="1")
    assert not any("2.00 ms" in str(found.value) for found in test.subheader)
