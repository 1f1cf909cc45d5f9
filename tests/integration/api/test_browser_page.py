"""The page of a link in a real browser: consent, what it keeps, what makes a series doubtful, and pages without a network.

The runtime of these tests doubles its input in the place of onnxruntime-web, which has no part in any of this.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard import gallery
from domain.answers.links import LinkedModel, LinkFile, NewLink, ReferenceRule
from domain.configuration import Model, Workload
from domain.errors import PartMissing
from tests.integration.conftest import RunningService

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser_page")]
PLAIN_HOST = "assay.test"
"""A host name that is this machine, and to a browser another one that has no TLS."""
RUNTIME = b"""
export const env = { wasm: {}, webgpu: {}, versions: {} };
export class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } }
async function run({ x }) {
  const end = performance.now() + 2;
  while (performance.now() < end);
  return { y: new Tensor("float32", x.data.map((value) => 2 * value), x.dims) };
}
export const InferenceSession = { create: async () => ({ run, outputNames: ["y"], release: async () => {} }) };
"""


@pytest.fixture(scope="module")
def running(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    service = RunningService(tmp_path_factory.mktemp("pages"), service_database().url)
    service.environment = {"ASSAY_ALLOWED_HOSTS": PLAIN_HOST}
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    try:
        path = gallery.find_browser()
    except PartMissing as missing:
        if os.environ.get("ASSAY_REQUIRE_BROWSER") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        rules = f"--host-resolver-rules=MAP {PLAIN_HOST} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", rules])
        yield browser
        browser.close()


@pytest.fixture
def phone(chromium: Any) -> Iterator[Any]:
    """A page of 390 by 844 pixels, in a profile of its own."""
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    yield context.new_page()
    context.close()


@pytest.fixture
def link(running: RunningService, tmp_path: Path) -> Callable[..., str]:
    """Makes a link to a model that doubles 16 numbers, and returns its address."""

    def make(name: str, runtime_code: bytes = RUNTIME, copies: int = 1000, **how: Any) -> str:
        generator = np.random.default_rng(7)
        inputs = {f"in/{at}/x": generator.normal(size=(1, 16)).astype("f4") for at in range(16)}
        pool = tmp_path / "pool.npz"
        with pool.open("wb") as handle:
            np.savez(
                handle, **inputs, **{key.replace("in/", "out/")[:-1] + "y": 2 * value for key, value in inputs.items()}
            )
        with running.client() as client:

            def send(content: bytes, *, private: bool = False) -> str:
                path = tmp_path / "sent"
                path.write_bytes(content)
                digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
                client.upload_link_file(path, digest, private=private)
                return digest

            model = f"the model {name}".encode() * copies
            linked = LinkedModel(
                model=Model(id=name, category="embedding", weights="random", parameters=1000),
                workload=Workload(mode="inference", scenario="single_stream", batch_size=1),
                precision="fp32",
                file=LinkFile(name="model.onnx", digest=send(model), size=len(model)),
                pool=send(pool.read_bytes(), private=True),
                tolerance=ReferenceRule(cosine=0.9999, relative=1e-3),
            )
            runtime = [
                LinkFile(name=f"wasm/{part}", digest=send(runtime_code), size=len(runtime_code))
                for part in ("module", "mjs", "wasm")
            ]
            new = NewLink(
                models=[linked],
                runtime=runtime,
                runtime_version="0",
                backends=["wasm"],
                warm_up_ms=300,
                measure_ms=300,
                **how,
            )
            return running.url + client.make_link(new).path

    return make


def rows(running: RunningService, model: str) -> list[dict[str, Any]]:
    with running.client() as client:
        return client.measurements(model=model)


def sent(page: Any) -> str:
    page.wait_for_selector("html[data-state=sent]", timeout=30_000)
    return page.inner_text("#outcome")


def measure_and_drop(page: Any) -> None:
    page.click("#start")
    page.wait_for_selector("#drop", timeout=30_000)
    page.click("#drop")
    page.wait_for_selector("#sent:has-text('forgotten')")


def test_nothing_is_measured_or_sent_before_the_person_agrees(running: RunningService, link: Any, phone: Any) -> None:
    asked: list[str] = []
    phone.on("request", lambda request: asked.append(f"{request.method} {request.url.removeprefix(running.url)}"))
    phone.goto(link("acme/consent"))
    phone.wait_for_selector("#start")
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    assert "would be sent" in phone.inner_text("#about")
    assert not [each for each in asked if "/files/" in each or "results" in each]
    phone.fill("#stated", "Apple M1")
    assert "apple-m1" in phone.inner_text("#picked")
    phone.click("#start")
    phone.wait_for_selector("#send", timeout=30_000)
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    assert rows(running, "acme/consent") == []
    assert "POST /v1/links/results" not in asked
    phone.click("#send")
    assert "taken" in sent(phone)
    (row,) = rows(running, "acme/consent")
    assert (row["origin"], row["hardware_id"], row["options"]["browser"]) == ("page", "apple-m1", "chromium")
    assert row["latency_p50_ms"] == pytest.approx(2.0, abs=1.0)


def test_a_result_that_is_dropped_is_not_sent(running: RunningService, link: Any, phone: Any) -> None:
    phone.goto(link("acme/dropped"))
    measure_and_drop(phone)
    phone.reload()
    phone.wait_for_selector("#start")
    assert rows(running, "acme/dropped") == []


def test_a_reload_goes_on_with_what_was_measured(running: RunningService, link: Any, phone: Any) -> None:
    models: list[str] = []
    phone.on("request", lambda request: models.append(request.url) if request.url.endswith(MODEL_END) else None)
    phone.goto(link("acme/reload"))
    phone.click("#start")
    phone.wait_for_selector("#send", timeout=30_000)
    measured = phone.inner_text("#rows")
    phone.reload()
    phone.wait_for_selector("#send", timeout=30_000)
    assert phone.inner_text("#rows") == measured
    phone.click("#send")
    sent(phone)
    assert len(rows(running, "acme/reload")) == 1
    # Kept by its digest, the model is not fetched for the next series.
    phone.reload()
    phone.click("#start")
    phone.wait_for_selector("#send", timeout=30_000)
    assert len(models) == 1


def test_a_reload_in_the_middle_of_measuring_goes_on_without_a_click(
    running: RunningService, link: Any, phone: Any
) -> None:
    phone.goto(link("acme/midway"))
    phone.fill("#stated", "Apple M1")
    phone.click("#start")
    phone.wait_for_selector("#doing:has-text('Warming')")
    phone.reload()
    phone.wait_for_selector("#send", timeout=30_000)
    phone.click("#send")
    sent(phone)
    (row,) = rows(running, "acme/midway")
    assert row["hardware_id"] == "apple-m1"
    with running.client() as client:
        details = client.event(row["event_id"])["data"]["observed"]["details"]
    assert details["reloaded"] is True


def test_a_reload_in_the_middle_of_the_download_fetches_the_rest_alone(
    running: RunningService, link: Any, phone: Any
) -> None:
    address = link("acme/download", copies=500_000)
    content = b"the model acme/download" * 500_000
    kept = len(content) // 2
    ranges: list[str] = []

    def answer(route: Any) -> None:
        start = route.request.headers.get("range")
        if start is None:
            # The connection breaks in the middle.
            route.fulfill(body=content[:kept])
            return
        ranges.append(start)
        if len(ranges) > 1:
            route.continue_()

    phone.route(f"**/browser/files/{hashlib.sha256(content).hexdigest()}", answer)
    phone.goto(address)
    with phone.expect_request(lambda request: "range" in request.headers):
        phone.click("#start")
    phone.reload()
    phone.wait_for_selector("#send", timeout=60_000)
    assert ranges == [f"bytes={kept}-"] * 2


MODEL_END = hashlib.sha256(b"the model acme/reload" * 1000).hexdigest()


def test_a_page_that_was_hidden_says_so(running: RunningService, link: Any, phone: Any) -> None:
    phone.goto(link("acme/hidden-page"))
    phone.click("#start")
    phone.wait_for_selector("#doing:has-text('Warming')")
    phone.evaluate(
        "Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    phone.wait_for_selector("#send", timeout=30_000)
    phone.click("#send")
    assert "hidden" in sent(phone)
    (row,) = rows(running, "acme/hidden-page")
    assert row["verdict"] == "suspect"
    assert any("hidden" in reason for reason in row["verdict_reasons"])


def test_without_a_network_the_page_opens_measures_and_sends_later_once(
    running: RunningService, link: Any, phone: Any
) -> None:
    phone.goto(link("acme/offline"))
    phone.wait_for_selector("#start")
    phone.evaluate("navigator.serviceWorker.ready.then(() => true)")
    # The page that a service worker serves fetches the runtime through it.
    phone.reload()
    measure_and_drop(phone)
    phone.context.set_offline(True)
    phone.reload()
    phone.click("#start")
    phone.wait_for_selector("#send", timeout=30_000)
    phone.click("#send")
    phone.wait_for_selector("#sent:has-text('kept')")
    assert rows(running, "acme/offline") == []
    phone.context.set_offline(False)
    sent(phone)
    assert len(rows(running, "acme/offline")) == 1


def test_an_agreed_result_is_sent_by_the_next_opening_without_a_click(
    running: RunningService, link: Any, phone: Any
) -> None:
    phone.goto(link("acme/reopened"))
    phone.click("#start")
    phone.wait_for_selector("#send", timeout=30_000)
    phone.route("**/v1/links/results", lambda route: route.abort())
    phone.click("#send")
    phone.wait_for_selector("#sent:has-text('kept')")
    phone.unroute("**/v1/links/results")
    phone.reload()
    sent(phone)
    assert len(rows(running, "acme/reopened")) == 1


def test_an_origin_trial_token_stands_in_the_page(link: Any, phone: Any) -> None:
    phone.goto(link("acme/trial", origin_trial="A-trial-token=="))
    phone.wait_for_selector("#start")
    assert phone.get_attribute("meta[http-equiv=origin-trial]", "content") == "A-trial-token=="


def test_without_a_private_file_system_a_page_keeps_all_in_memory(
    running: RunningService, link: Any, phone: Any
) -> None:
    phone.add_init_script("StorageManager.prototype.getDirectory = () => Promise.reject(new Error('none'))")
    phone.goto(link("acme/memory") + "&consent=yes")
    assert "taken" in sent(phone)
    assert len(rows(running, "acme/memory")) == 1


def test_plain_http_from_another_machine_is_said_before_measuring(
    running: RunningService, link: Any, phone: Any
) -> None:
    phone.goto(link("acme/plain").replace("127.0.0.1", PLAIN_HOST))
    phone.wait_for_selector("#start")
    warning = phone.inner_text("#warning")
    assert "HTTPS" in warning
    assert f"--from https://{PLAIN_HOST} --to 127.0.0.1:{running.port}" in warning
    phone.click("#start")
    phone.wait_for_selector("#send", timeout=30_000)
    assert "wasm, 1 thread" in phone.inner_text("#rows")
    phone.click("#send")
    assert "not isolated" in sent(phone) or phone.evaluate("navigator.hardwareConcurrency") == 1


def failures(running: RunningService, model: str) -> list[list[Any]]:
    statement = f"SELECT platform, origin, outcome, stage, error, message FROM failures WHERE model_id = '{model}'"
    with running.client() as client:
        return client.query(statement)["rows"]


def test_a_model_that_does_not_run_is_sent_as_a_failure_once_the_person_agrees(
    running: RunningService, link: Any, phone: Any
) -> None:
    broken = RUNTIME.replace(
        b"create: async () => ({",
        b"create: async () => { throw new Error('kernel for Einsum is missing'); }, x: () => ({",
    )
    phone.goto(link("acme/broken", broken))
    phone.click("#start")
    phone.wait_for_selector("#send", timeout=30_000)
    assert "did not run" in phone.inner_text("#rows")
    phone.click("#exactly summary")
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    exact = phone.inner_text("#exact")
    assert "kernel for Einsum is missing" in exact
    assert "user_agent" in exact
    assert failures(running, "acme/broken") == []
    phone.click("#send")
    sent(phone)
    (row,) = failures(running, "acme/broken")
    assert row[:5] == ["wasm", "page", "error", "compile", "Error"]
    assert "operator Einsum" in row[5]
    assert rows(running, "acme/broken") == []


def test_wrong_outputs_are_refused_and_leave_no_row(running: RunningService, link: Any, phone: Any) -> None:
    phone.goto(link("acme/wrong-page", RUNTIME.replace(b"2 * value", b"3 * value")) + "&consent=yes")
    assert "refused" in sent(phone)
    assert rows(running, "acme/wrong-page") == []
    assert failures(running, "acme/wrong-page") == []


def test_a_runtime_that_hangs_is_ended_and_said(running: RunningService, link: Any, phone: Any) -> None:
    phone.clock.install()
    phone.goto(
        link(
            "acme/hangs",
            RUNTIME.replace(b"create: async () => ({", b"create: () => new Promise(() => {}), other: () => ({"),
        )
    )
    phone.click("#start")
    phone.wait_for_selector("#doing:has-text('Loading')")
    phone.clock.fast_forward(121_000)
    phone.wait_for_selector("#send")
    assert "no answer within 120 s" in phone.inner_text("#notes")
    assert phone.workers == []
    phone.click("#send")
    sent(phone)
    assert rows(running, "acme/hangs") == []
    ((*failed, stage, _),) = [row[:5] for row in failures(running, "acme/hangs")]
    assert failed == ["wasm", "page", "timeout"]
    # The clock jumps while the worker is between the two.
    assert stage in ("load", "compile")


def test_agreed_beforehand_it_needs_no_click(running: RunningService, link: Any, phone: Any) -> None:
    phone.goto(link("acme/agreed") + "&consent=yes")
    assert "taken" in sent(phone)
    assert len(rows(running, "acme/agreed")) == 1


def test_a_link_that_is_over_says_why(running: RunningService, link: Any, phone: Any) -> None:
    address = link("acme/over")
    with running.client() as client:
        client.revoke_link(client.links()[0].id)
    phone.goto(address)
    phone.wait_for_selector("html[data-state=stopped]")
    assert "revoked" in phone.inner_text("#warning")
    assert not phone.is_visible("#start")
