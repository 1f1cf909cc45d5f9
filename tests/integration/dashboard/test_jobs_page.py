"""The Jobs page over a real queue: what waits and why, who works, and what operators may do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import streamlit as st
from streamlit import config
from streamlit.testing.v1 import AppTest

from assay.client import Client
from benchmarks import story
from tests.integration.dashboard.shown_tables import columns

pytestmark = pytest.mark.xdist_group("dashboard")


def page() -> None:
    from dashboard.screens.jobs import view

    view.show()


def home() -> None:
    from dashboard.screens.overview import view

    view.show()


@pytest.fixture(scope="module")
def queued(service_url: str) -> str:
    """The address of a service with the jobs of the gallery: some done, one failed, one that no machine can do."""
    with Client(service_url) as client:
        story.queue_jobs(client)
    return service_url


@pytest.fixture
def asked(queued: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    yield from _asking(queued, monkeypatch)


@pytest.fixture
def empty(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    yield from _asking(empty_url, monkeypatch)


def _asking(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("ASSAY_SERVER", url)
    monkeypatch.setattr("sys.argv", ["app.py"])
    _forget()
    with Client(url) as client:
        yield client
    _forget()


def _forget() -> None:
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def local() -> Iterator[None]:
    """As on this machine alone, where whoever looks is an operator."""
    before = st.get_option("server.address")
    config.set_option("server.address", "127.0.0.1")
    yield
    config.set_option("server.address", before)


def run(shown: Any = page, **params: str) -> AppTest:
    test = AppTest.from_function(shown, default_timeout=60)
    for name, value in params.items():
        test.query_params[name] = value
    found = test.run()
    assert not found.exception
    return found


def written(test: AppTest) -> str:
    parts = (*test.markdown, *test.subheader, *test.caption, *test.info, *test.warning, *test.error, *test.success)
    texts = [str(one.value) for one in parts] + [one.proto.body for one in test.get("html")]
    return "\n".join(texts).replace("\\", "").replace("\u202f", " ")


def press(test: AppTest, label: str) -> AppTest:
    found = next(button for button in test.button if button.label == label).click().run()
    assert not found.exception
    return found


def job(client: Client, title: str) -> Any:
    return next(item for item in client.jobs(limit=100).jobs if item.title.startswith(title))


def test_the_page_says_who_works_how_far_it_is_and_why_a_job_waits(asked: Client) -> None:
    test = run()
    workers = columns(test, "jobs workers")
    assert set(workers["Worker"]["values"]) >= {"rack-7-l4", "rack-7-xeon", "desk-mini"}
    progress = columns(test, "jobs submissions")
    assert "nightly" in progress["Submission"]["values"]
    at = progress["Submission"]["values"].index("nightly")
    assert progress["Done"]["shown"][at].endswith("of 12")
    assert progress["Failed"]["values"][at] == 1
    listed = columns(test, "jobs listed")
    assert listed["Job"]["values"][0] == "gpt2 on rocm, fp16, batch 8"
    assert "rocm" in listed["Why"]["values"][0]


def test_failed_jobs_stand_alone_with_their_reasons_and_one_opens_with_its_plan(asked: Client) -> None:
    listed = columns(run(state="failed"), "jobs listed")
    assert set(listed["State"]["values"]) == {"failed"}
    assert listed["Why"]["values"][0].startswith("out_of_memory")
    failed = job(asked, listed["Job"]["values"][0])
    test = run(job=failed.id)
    assert "out_of_memory" in written(test)
    assert "1 of 3" in written(test)
    assert "There is no job nothing" in written(run(job="nothing"))


def test_operators_cancel_and_queue_again_and_others_read(asked: Client, local: None) -> None:
    waiting = job(asked, "gpt2 on rocm")
    test = press(run(job=waiting.id), "Cancel")
    assert asked.job(waiting.id).state == "cancelled"
    assert "is cancelled" in written(test)
    press(test, "Queue again")
    assert asked.job(waiting.id).state == "waiting"


def test_who_is_no_operator_finds_no_button(asked: Client) -> None:
    before = st.get_option("server.address")
    config.set_option("server.address", "0.0.0.0")
    try:
        assert "Cancel" not in [button.label for button in run(job=job(asked, "gpt2 on rocm").id).button]
    finally:
        config.set_option("server.address", before)


def test_an_empty_queue_tells_the_two_commands_that_begin(empty: Client) -> None:
    text = written(run())
    assert f"assay worker --server {empty.server}" in text
    assert "assay jobs submit plan.yaml" in text
    assert "](jobs)" not in written(run(home))


def test_home_has_a_line_of_the_queue_while_jobs_wait(asked: Client) -> None:
    assert "](jobs)" in written(run(home))
