"""The models page: what a model is, its ranking, its operators, where it runs and its gaps, in a script and a browser."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from assay.client import Client
from dashboard.frame import escape
from presentation import formatting
from tests.integration.dashboard.shown import Tables

pytestmark = pytest.mark.xdist_group("dashboard")
MODEL, SIBLING, DEVICE = "acme/broken-down", "acme/broken-up", "acme-l4"
WORKLOAD = {"mode": "inference", "scenario": "single_stream", "image_size": 224}
OPERATORS = [("aten.addmm", "mm", 40, 1e9, 100_000), ("aten.relu", "elementwise", 3, 0.0, 900_000)]


def script() -> None:
    from dashboard.screens.models import view

    view.show()


def traced(build: Any, name: str, layers: int = 40) -> dict[str, Any]:
    rows = [
        {
            "name": operator, "class": kind, "count": layers if flops else count, "flops": flops, "read_elements": moved,
            "write_elements": moved, "weight_elements": 1000 if flops else 0, "inner": 768, "kernel": None, "stride": None,
            "groups": None,
        }
        for operator, kind, count, flops, moved in OPERATORS
    ]  # fmt: skip
    totals: dict[str, Any] = {
        key: sum(row[key] * row["count"] for row in rows)
        for key in ("flops", "read_elements", "write_elements", "weight_elements")
    }
    data = {
        "model": {"id": name, "category": "vision", "family": "acmenet", "parameters": layers * 100_000},
        "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "image_size": 224},
        "tracer": {"name": "assay-tracer", "version": 1},
        "operators": rows,
        "totals": {
            **totals,
            "operators": layers + 3,
            "parameters": layers * 100_000,
            "peak_activation_elements": 900_000,
        },
    }
    return build.event("assay.model.traced.v1", data)


def measured(build: Any, p50: float, precision: str) -> dict[str, Any]:
    event: dict[str, Any] = build.measurement(
        p50,
        model=MODEL,
        hardware="nvidia-l4",
        platform="cuda",
        precision=precision,
        workload={**WORKLOAD, "batch_size": 4},
    )
    event["data"]["model"] |= {"family": "acmenet", "category": "vision"}
    event["data"]["metrics"]["throughput_per_s"] = 4000 / p50
    return event


@pytest.fixture(scope="module")
def known_url(new_service: Any, build: Any) -> Iterator[str]:
    """A service that knows a traced model, measured on one GPU in two precisions, failed in a third, and its sibling."""
    failed = build.failure(model=MODEL, hardware="nvidia-l4", platform="cuda", precision="int8")
    events = [
        build.event("assay.model.described.v1", {"model": {"id": "acme/untraced"}, "config": {"model_type": "net"}}),
        traced(build, MODEL),
        traced(build, SIBLING, 30),
        measured(build, 4.0, "fp16"),
        measured(build, 9.0, "fp32"),
        failed,
    ]
    with new_service() as url, Client(url) as client:
        answer = client.post_events(events)
        assert answer["rejected"] == []
        client.wait_for(answer["last_position"])
        yield url


@pytest.fixture
def asked(known_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ASSAY_SERVER", known_url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_data.clear()
    st.cache_resource.clear()
    yield known_url
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    return Tables(monkeypatch)


def run(**params: str) -> AppTest:
    test = AppTest.from_function(script, default_timeout=60)
    test.session_state["models ranked folded"] = True
    for name, value in params.items():
        test.query_params[name] = value
    found = test.run()
    assert not found.exception
    return found


def plain(value: Any) -> str:
    return str(value).replace("\\", "").replace("\u202f", " ")


def words(test: AppTest) -> str:
    return plain(" ".join(str(part.value) for part in (*test.markdown, *test.caption, *test.header, *test.subheader)))


def given(test: AppTest, name: str) -> str | None:
    found = test.query_params.get(name)
    return found[0] if isinstance(found, list) else found


def test_a_search_forgives_and_says_by_which_name_it_found(asked: str, tables: Tables) -> None:
    test = run()
    assert tables.column("models list", "Model") == [MODEL]
    assert tables.column("models list", "Model", "links") == [f"models?id={MODEL}"]
    assert "Found by" not in tables.heads("models list")
    test.text_input(key="models search").set_value("brokn-down").run()
    assert tables.column("models list", "Found by") == ["1 letter off: broken-down"]
    assert given(test, "search") == "brokn-down"
    test.text_input(key="models search").set_value("wisper-small").run()
    next(button for button in test.button if "all models" in button.label).click().run()
    assert "openai/whisper-small" in tables.column("models list", "Model")
    never_measured = run(id="openai/whisper-small")
    assert "assay bench openai/whisper-small<" in "".join(one.proto.body for one in never_measured.get("html"))


def test_a_list_sorts_its_numbers_by_what_they_are(asked: str, tables: Tables) -> None:
    run(known="all", family="llama")
    sizes, shown = (tables.column("models list", "Parameters", part) for part in ("values", "shown"))
    assert len(sizes) > 3 and all(size is None or size > 1e6 for size in sizes)
    assert plain(shown[0]) == plain(formatting.parameters(sizes[0]))


def test_a_name_without_its_owner_is_the_model_and_a_mistyped_one_is_only_offered(asked: str) -> None:
    test = run(id="broken-down")
    assert given(test, "id") == MODEL
    wrong = run(id="acme/broken-dwon")
    assert wrong.warning and "Did you mean" in words(wrong)


def test_the_best_number_comes_first_and_the_rest_by_hardware(asked: str, tables: Tables) -> None:
    with Client(asked) as client:
        rows = client.compare_hardware(MODEL, mode="inference", metric="throughput_per_s", per_hardware=True)["rows"]
    test = run(id=MODEL)
    best = rows[0]
    low, high = (4000 / best[f"latency_ms_{end}"] for end in ("high", "low"))
    assert plain(test.header[0].value) == f"1,000 items/s ({low:.0f}–{high:,.0f}) on NVIDIA L4"
    assert "The only device measured at image size 224: cuda · fp16 · batch 4 (● measured" in words(test)
    assert tables.column("models best", "Hardware", "links") == ["hardware?id=nvidia-l4"]
    assert tables.column("models best", "Items/s") == [1000.0]
    assert tables.column("models best", "Items/s", "low") == [pytest.approx(low)]
    assert tables.column("models best", "Known", "links") == [f"runs?row={best['evidence'][0]}"]
    assert "vision · acmenet" in words(test), "what it is stands in a line under its name"


def test_what_it_is_is_the_apis(asked: str, tables: Tables) -> None:
    with Client(asked) as client:
        told = client.model(MODEL)
    test = run(id=MODEL, tab="about")
    facts = dict(test.table[0].value.itertuples(index=False))
    size = told["model"]["parameters"]
    assert facts["Parameters"] == escape(f"{formatting.parameters(size)} ({formatting.count(size)})")
    assert facts["Licence"] == "unknown" and facts["Family"].startswith("acmenet")
    assert tables.column("models Nearest siblings", "Model") == [SIBLING]


def test_operators_begin_with_where_it_was_fastest_and_follow_the_address(asked: str, tables: Tables) -> None:
    with Client(asked) as client:
        told = client.operators(MODEL, hardware="nvidia-l4", platform="cuda", precision="fp16", batch_size=4)
    test = run(id=MODEL, tab="operators")
    assert test.selectbox(key="models operators hw").value == "nvidia-l4"
    assert test.number_input(key="models operators batch").value == 4
    table = "models operators table"
    assert tables.column(table, "Operator") == [row["name"] for row in told["operators"]]
    assert tables.column(table, "Least ms") == [row["ms"] for row in told["operators"]]
    assert "not covered by measurement" in words(test) and "The whole call: 4.0 ms" in words(test)
    assert "matrix products" in words(test) and "What would make it faster" in words(test)
    test.selectbox(key="models operators precision").set_value("int4").run()
    assert given(test, "precision") == "int4"
    assert "No times: its peak or its bandwidth is not known" in words(test)
    assert "Least ms" not in tables.heads(table)


def test_an_address_chooses_the_device_of_the_operators(asked: str) -> None:
    test = run(id=MODEL, tab="operators", hw="intel-core-i9-10940x", batch="2")
    assert test.selectbox(key="models operators platform").value in ("cpu", "openvino")
    assert test.number_input(key="models operators batch").value == 2
    assert "batch 2" in words(test)


def test_the_ranking_is_the_recommendations(asked: str, tables: Tables) -> None:
    with Client(asked) as client:
        answer = client.recommend(MODEL, objective="throughput", per_hardware=True, hardware="all", top=15)
    test = run(id=MODEL, tab="estimates")
    links = [f"hardware?id={row['hardware']}" for row in answer["ranked"]]
    assert tables.column("models ranked", "Hardware", "links") == links
    assert "Ranked by the worse end of each interval" in words(test)
    test.selectbox(key="models ranking metric").set_value("latency").run()
    assert given(test, "metric") == "latency"


def test_where_it_runs_and_what_was_never_tried(asked: str, tables: Tables) -> None:
    test = run(id=MODEL, tab="tests")
    states = zip(*(tables.column("models platforms", head) for head in ("Precision", "State")), strict=True)
    assert set(states) == {("fp16", "measured"), ("fp32", "measured"), ("int8", "✕ failed")}
    test.button(key="models gaps").click().run()
    assert any(f"<code>assay verify {MODEL} --platform cpu," in one.proto.body for one in test.get("html"))
    at = tables.column("models family", "Platform").index("cuda")
    assert (tables.column("models family", "Of")[at], tables.column("models family", "Tried")[at]) == (2, 0.5)


def test_a_model_that_nobody_traced_says_what_would(asked: str) -> None:
    test = run(id="acme/untraced", tab="operators")
    assert "has no operator trace" in words(test) and "assay bench acme/untraced" in words(test)


def test_a_trace_that_ships_is_shown_without_an_event(asked: str, tables: Tables) -> None:
    test = run(id="openai/whisper-small", tab="operators")
    assert "has no operator trace" not in words(test) and "another form" not in words(test)
    assert len(tables.column("models operators table", "Operator")) > 5


@pytest.mark.browser
def test_the_bars_are_what_the_api_says_and_can_be_taken_away(
    page: Any, dashboards: Any, known_url: str, tmp_path: Path
) -> None:
    with Client(known_url) as client:
        told = client.operators(MODEL, hardware="nvidia-l4", platform="cuda", precision="fp16", batch_size=4)
    text = page.open(f"{dashboards(known_url)}/models?id={MODEL}&tab=operators")
    first = told["operators"][0]
    assert f"with {formatting.plain(formatting.share(first['share']))}" in text
    page.page.get_by_test_id("stPopover").get_by_role("button", name="Download").click()
    with page.page.expect_download() as expected:
        page.page.get_by_role("button", name="CSV, every column").click()
    expected.value.save_as(tmp_path / "operators.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "operators.csv").read_text())))
    assert [(row["name"], float(row["ms"])) for row in rows] == [(row["name"], row["ms"]) for row in told["operators"]]
    assert page.wrong == []


@pytest.mark.browser
def test_a_copied_link_shows_the_same_and_a_sibling_is_one_click_away(
    page: Any, dashboards: Any, known_url: str
) -> None:
    page.open(
        f"{dashboards(known_url)}/models?id={MODEL}&tab=operators&hw=nvidia-l4&platform=cuda&precision=fp32&batch=2"
    )
    page.page.get_by_role("button", name="About this answer").click()
    link = page.page.get_by_text(re.compile(r"http://.*models\?")).inner_text()
    query = parse_qs(urlsplit(link).query)
    told = {"id": MODEL, "tab": "operators", "hw": "nvidia-l4", "platform": "cuda", "precision": "fp32", "batch": "2"}
    assert {name: query[name][0] for name in told} == told
    assert "batch 2" in page.open(link)
    page.open(f"{dashboards(known_url)}/models?id={MODEL}&tab=about")
    page.page.get_by_role("link", name=SIBLING).click()
    page.page.wait_for_function("location.search.includes('broken-up')")
    page.page.get_by_role("heading", level=1, name=SIBLING.rpartition("/")[2], exact=True).wait_for()
    assert page.wrong == []


@pytest.mark.browser
@pytest.mark.parametrize("page", [(390, "dark")], indirect=True)
def test_the_page_fits_a_phone_in_the_dark(page: Any, dashboards: Any, known_url: str) -> None:
    page.open(f"{dashboards(known_url)}/models?id={MODEL}&tab=operators")
    wide = page.page.evaluate(
        "(() => { const main = document.querySelector('[data-testid=\"stMain\"]');"
        " return main.scrollWidth - main.clientWidth; })()"
    )
    assert wide <= 0
    assert page.wrong == []


@pytest.mark.browser
def test_a_row_of_the_list_leads_to_the_model_and_what_it_rests_on_to_the_measurement(
    page: Any, dashboards: Any, known_url: str
) -> None:
    page.open(f"{dashboards(known_url)}/models")
    page.page.get_by_role("link", name=MODEL).click()
    page.page.get_by_role("heading", name="items/s").wait_for()
    assert len(page.page.context.pages) == 1, "a name opens in the same tab"
    page.page.get_by_role("link", name="● measured").click()
    page.page.wait_for_function("location.pathname.endsWith('/runs') && location.search.includes('row=')")
    assert page.wrong == []


CUT = """() => [...document.querySelectorAll('.assay-table tbody th, .assay-table td.long')]
    .filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.innerText)"""


@pytest.mark.browser
@pytest.mark.parametrize("page", [(390, "light")], indirect=True)
def test_no_name_is_cut_on_a_phone(page: Any, dashboards: Any, known_url: str) -> None:
    text = page.open(f"{dashboards(known_url)}/models?id=openai/whisper-small&tab=operators")
    assert "aten.scaled_dot_product" in text
    assert page.page.evaluate(CUT) == []
    assert page.wrong == []
