"""Signing in at a real OpenID Connect provider, in a real browser: roles, the way back, and the ways that stay shut."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import streamlit as st
from streamlit import config
from streamlit.testing.v1 import AppTest
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value, decode_signed_value

from api.http.tokens import TokenStore
from assay.client import Client
from dashboard import launch
from tests.conftest import append_raw
from tests.integration.conftest import RunningService
from tests.integration.dashboard.conftest import Page, dashboard_on, free_port, rows
from tests.integration.dashboard.provider import DISCOVERY, PASSWORD, SECRET

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]
COOKIE = "_streamlit_user"
COOKIE_SECRET = "what the dashboard signs its cookies with"
FILE = """
[auth]
redirect_uri = "http://127.0.0.1:{{port}}/oauth2callback"
cookie_secret = "{cookies}"
client_id = "assay"
client_secret = "{secret}"
server_metadata_url = "{discovery}"
client_kwargs = {{ scope = "openid profile email groups", prompt = "login" }}

[assay]
claim = "groups"
operators = ["assay-operators"]
viewers = ["assay-viewers"]
"""


@pytest.fixture(scope="module")
def guarded(service_database: Any, tmp_path_factory: pytest.TempPathFactory, build: Any) -> Iterator[dict[str, str]]:
    """A service with rows, one event that cannot be projected and a token for each role; its address and both secrets."""
    database = service_database()
    store = TokenStore(database.url)
    secrets = {
        name: store.create(f"dashboard-{name}", [scope])[0]
        for name, scope in (("viewer", "read"), ("operator", "admin"))
    }
    running = RunningService(tmp_path_factory.mktemp("guarded"), database.url).start_with(secrets["operator"])
    with running.client() as admin:
        admin.post_events(rows(build))
        broken = build.measurement(model="acme/broken")
        broken["data"]["metrics"]["latency_ms"]["p50"] = "fast"
        append_raw(database, json.dumps(broken))
        admin.wait_for(6)
    yield {"url": running.url, "broken": broken["id"], **secrets}
    running.stop()


@pytest.fixture(scope="module")
def site(guarded: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard that asks for a sign-in, and the provider that it asks."""
    port = free_port()
    folder = tmp_path_factory.mktemp("sign-in")
    file = folder / "sign-in.toml"
    file.write_text(FILE.format(cookies=COOKIE_SECRET, secret=SECRET, discovery=DISCOVERY.format(port=port)))
    with ExitStack() as stack:
        log = stack.enter_context((folder / "provider.log").open("wb"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ASSAY_SIGN_IN", str(file))
            patch.setenv("ASSAY_TOKEN", guarded["viewer"])
            patch.setenv("ASSAY_OPERATOR_TOKEN", guarded["operator"])
            url = stack.enter_context(dashboard_on(guarded["url"]))
        script = Path(__file__).with_name("provider.py")
        provider = subprocess.Popen([sys.executable, str(script), str(port), url], stdout=log, stderr=log, cwd="/")
        stack.callback(provider.wait, 20)
        stack.callback(provider.terminate)
        with httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False) as client:
            assert client.get(DISCOVERY.format(port=port), timeout=30).is_success
        yield url


@pytest.fixture
def visitor(tab: Callable[..., Page]) -> Iterator[Page]:
    """A browser that knows nobody yet."""
    shown = tab()
    shown.page.context.clear_cookies()
    yield shown
    shown.page.context.clear_cookies()


def sign_in(visitor: Page, name: str, password: str = PASSWORD) -> None:
    """From the dashboard's page to the provider's, and through it."""
    assert visitor.wrong == []
    page = visitor.page
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=login]").press("Enter")
    page.locator("input[name=password]").fill(password)
    page.locator("input[name=password]").press("Enter")
    page.wait_for_url("http://127.0.0.1:**" if password == PASSWORD else "**/password")
    # What went wrong on the provider's pages is not ours.
    visitor.wrong.clear()


def download(page: Any, label: str, into: Path) -> Path:
    page.get_by_role("button", name="Download", exact=True).click()
    with page.expect_download() as expected:
        page.get_by_role("button", name=label, exact=True).click()
    path = into / expected.value.suggested_filename
    expected.value.save_as(path)
    return path


def shown(visitor: Page, heading: str) -> str:
    visitor.page.get_by_role("heading", name=heading, exact=True).wait_for()
    return visitor.text()


def links(visitor: Page) -> set[str]:
    return {link.strip().splitlines()[-1] for link in visitor.page.get_by_test_id("stSidebarNavLink").all_inner_texts()}


def test_a_viewer_signs_in_comes_back_and_signs_out(visitor: Page, site: str) -> None:
    text = visitor.open(f"{site}/compare?model=acme%2Ftiny&scale=log&platform=cpu")
    assert "Sign in to see the measurements." in text
    assert "acme-one" not in text
    assert links(visitor) == set()
    sign_in(visitor, "vera")
    text = shown(visitor, "tiny")
    assert "acme-one" in text
    asked = parse_qs(urlsplit(visitor.page.url).query)
    assert (asked["model"], asked["scale"], asked["platform"]) == (["acme/tiny"], ["log"], ["cpu"])
    assert {"Recommend", "Query"} <= links(visitor)
    assert "Operations" not in links(visitor)
    assert "Signed in as Vera · viewer" in visitor.page.get_by_test_id("stSidebar").inner_text()
    text = visitor.open(f"{site}/operations")
    assert "for operators; Vera is signed in as a viewer" in text
    assert "dashboard-operator" not in text
    # What was asked for before the sign-in is opened once, not on each visit.
    assert "Compare" not in visitor.open(f"{site}/").splitlines()[0]
    assert visitor.wrong == []
    visitor.page.get_by_role("button", name="Sign out").click()
    shown(visitor, "Assay")
    assert "Sign in to see" in visitor.open(f"{site}/compare?model=acme%2Ftiny")


def test_an_operator_is_told_what_a_viewer_is_not(
    visitor: Page, site: str, guarded: dict[str, str], tmp_path: Path
) -> None:
    assert "Sign in to see" in visitor.open(f"{site}/operations")
    sign_in(visitor, "oscar")
    text = shown(visitor, "Operations")
    assert "1 event could not be read. All others are in the tables." in text
    assert "1 event is in the log and not in the tables" in text
    with Client(guarded["url"], token=guarded["operator"]) as admin:
        day = admin.operations()
        letter = admin.query("SELECT event_id, type FROM dead_letters")["rows"][0]
    assert {"Operations", "Query"} <= links(visitor)
    for part in (
        "The last 24 hours",
        "Tokens",
        "Shared measurements",
        "Peers",
        "Devices with a browser",
        "Archive",
        "Build and settings",
    ):
        visitor.page.get_by_text(part, exact=True).click()
    visitor.page.get_by_role("region", name="Build and settings").wait_for()
    text = visitor.text()
    assert "assay peer add" in text
    assert f"The log took {sum(step['events'] for step in day['throughput'])} events in the last 24 hours" in text
    assert f"{day['build']['version']}, schema {day['build']['schema']}" in text
    # Names and prefixes are on the page, secrets are not.
    assert not any(guarded[role] in visitor.page.content() for role in ("operator", "viewer"))
    path = download(visitor.page, "Throughput: CSV, every column", tmp_path)
    assert path.name == f"assay_operations_throughput_p{day['position']}.csv"
    taken = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [int(step["events"]) for step in taken] == [step["events"] for step in day["throughput"]]
    visitor.page.get_by_role("region", name="Events that could not be read").get_by_role("link").click()
    visitor.page.get_by_test_id("stJson").wait_for()
    told = visitor.open(f"{site}/operations?event={letter[0]}")
    assert guarded["broken"] in visitor.page.get_by_test_id("stJson").inner_text()
    assert "could not be shown" not in told
    visitor.open(f"{site}/recommend?model=acme%2Ftiny")
    visitor.page.get_by_role("button", name="Keep this answer").click()
    visitor.page.get_by_text("the token that this dashboard sends may read the log and not append to it.").wait_for()
    assert "assay token create dashboard --scope read --scope append" in visitor.text()
    assert visitor.wrong == []


def test_a_wrong_password_opens_nothing_and_who_has_no_role_is_told_so(visitor: Page, site: str) -> None:
    visitor.open(f"{site}/compare?model=acme%2Ftiny")
    sign_in(visitor, "nora", "not the password")
    visitor.page.get_by_text("failed", exact=False).first.wait_for()
    assert urlsplit(visitor.page.url).hostname == "localhost"
    assert "Sign in to see" in visitor.open(f"{site}/compare?model=acme%2Ftiny")
    sign_in(visitor, "nora")
    visitor.page.get_by_text("no value of").wait_for()
    text = visitor.text()
    assert "Nora is signed in, but no value of `groups` gives a role here." in text
    assert "acme-one" not in text
    assert links(visitor) == set()


def test_a_sign_in_expires_and_one_that_was_made_up_never_counts(visitor: Page, site: str) -> None:
    visitor.open(f"{site}/")
    sign_in(visitor, "oscar")
    shown(visitor, "Home")
    (cookie,) = [one for one in visitor.page.context.cookies() if one["name"] == COOKIE]
    claims = json.loads(decode_signed_value(COOKIE_SECRET, COOKIE, cookie["value"]) or b"")
    assert claims["groups"] == ["assay-operators"]
    told = {
        "The sign-in has expired: it lasts 12 h.": (claims | {"iat": claims["iat"] - 13 * 3600}, COOKIE_SECRET),
        "Sign in to see the measurements.": (claims, "another secret than the dashboard's"),
    }
    for words, (said, secret) in told.items():
        value = create_signed_value(secret, COOKIE, json.dumps(said)).decode()
        visitor.page.context.add_cookies([{**cookie, "value": value}])
        text = visitor.open(f"{site}/operations")
        assert words in text
        assert "Tokens" not in text
        assert links(visitor) == set()


def app(monkeypatch: pytest.MonkeyPatch, **environment: str) -> AppTest:
    monkeypatch.setattr("sys.argv", ["app.py"])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return AppTest.from_file(str(launch.SCRIPT), default_timeout=30)


def words(test: AppTest) -> str:
    found = test.run()
    assert not found.exception
    return " ".join(str(one.value) for one in [*found.markdown, *found.info, *found.title]).replace("\\", "")


def test_a_slip_in_the_file_lets_nobody_in(guarded: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "ASSAY_SIGN_IN": "/nowhere/sign-in.toml",
        "ASSAY_SERVER": guarded["url"],
        "ASSAY_TOKEN": guarded["operator"],
    }
    missing = words(app(monkeypatch, **told))
    assert "cannot be read: " in missing
    assert "docs/sign-in.md" in missing
    assert "Home" not in missing
    without = app(monkeypatch, **told)
    without.secrets["assay"] = {"operators": ["assay-operators"]}
    assert "names no provider" in words(without)
    wrong = app(monkeypatch, **told)
    wrong.secrets["auth"] = {"client_id": "assay"}
    wrong.secrets["assay"] = {"operator": "assay-operators"}
    text = words(wrong)
    assert "[assay] is not understood" in text
    assert "Home" not in text


def test_without_a_sign_in_operations_is_for_this_machine_alone(
    guarded: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_SIGN_IN", raising=False)

    def operations() -> None:
        from dashboard.screens.operations import view

        view.show()

    app(monkeypatch, ASSAY_SERVER=guarded["url"], ASSAY_TOKEN=guarded["viewer"])
    text = {}
    for address in ("127.0.0.1", "0.0.0.0"):
        st.cache_data.clear()
        st.cache_resource.clear()
        before = st.get_option("server.address")
        config.set_option("server.address", address)
        try:
            text[address] = words(AppTest.from_function(operations, default_timeout=30))
        finally:
            config.set_option("server.address", before)
    assert "The token" not in text["0.0.0.0"]
    assert "shown on this machine's own address only" in text["0.0.0.0"]
    assert "has not the scope admin" in text["127.0.0.1"]
    assert "ASSAY_OPERATOR_TOKEN" in text["127.0.0.1"]
    st.cache_data.clear()
    st.cache_resource.clear()
