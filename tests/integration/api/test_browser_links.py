"""Links to measure in a browser: who may open one, what a page may send, what is refused, and which rows count.

No browser runs here: a page is what sends such requests. The tests of the page itself are in test_browser_page.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest

from api.http.tokens import TokenStore
from domain.answers.links import LinkedModel, LinkFile, NewLink, ReferenceRule
from domain.configuration import Model, Workload
from domain.errors import AssayError, Forbidden, InvalidInput, NotFound
from tests.integration.conftest import RunningService

POOL, DRAWN = 64, 8
SIZE = 16


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.fixture(scope="module")
def running(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    service = RunningService(tmp_path_factory.mktemp("links"), service_database().url).start()
    yield service
    service.stop()


@pytest.fixture
def service(running: RunningService) -> Iterator[Any]:
    with running.client() as client:
        yield client


class Page:
    """What a page does that has opened a link; a request that is limited is sent again, as a page does."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, trust_env=False, timeout=30)
        self.device = secrets.token_hex(24)
        self.claim: dict[str, Any] = {}

    def post(self, path: str, body: Any) -> httpx.Response:
        while True:
            answer = self.http.post(f"/v1/links/{path}", json=body)
            if answer.status_code != 429:
                return answer
            time.sleep(float(answer.headers["retry-after"]) / 4)

    def open(self, token: str) -> httpx.Response:
        answer = self.post("claims", {"token": token, "device": self.device})
        if answer.is_success:
            self.claim = answer.json()
        return answer

    def begin(self, number: int = 0) -> list[list[dict[str, Any]]]:
        model = self.claim["models"][number]["digest"]
        answer = self.post("tasks", {"key": self.claim["key"], "model": model})
        assert answer.status_code == 200, answer.text
        return answer.json()["inputs"]

    def result(self, inputs: list[list[dict[str, Any]]], number: int = 0, **changed: Any) -> dict[str, Any]:
        """Return an honest result of the model `doubled`, with what is changed of it."""
        return {
            "key": self.claim["key"],
            "model": self.claim["models"][number]["digest"],
            "backend": "wasm",
            "samples": [0.20 + 0.001 * (at % 7) for at in range(40)],
            "warm_up": [0.4, 0.3],
            "outputs": [[doubled(item)] for (item,) in inputs],
            "facts": {
                "user_agent": "Mozilla/5.0 (X11; Linux) Chrome/147.0.1",
                "isolated": True,
                "clock_step_ms": 0.005,
            },
            **changed,
        }


def doubled(item: dict[str, Any], factor: float = 2.0) -> dict[str, Any]:
    values = np.frombuffer(base64.b64decode(item["data"]), "<f4") * np.float32(factor)
    return {"name": "y", "type": "float32", "dims": item["dims"], "data": base64.b64encode(values.tobytes()).decode()}


@pytest.fixture
def offer(service: Any, tmp_path: Path) -> Callable[..., str]:
    """Makes a link to models that double 16 numbers, and returns its token."""

    def send(content: bytes, *, private: bool = False) -> str:
        path = tmp_path / secrets.token_hex(4)
        path.write_bytes(content)
        service.upload_link_file(path, digest_of(content), private=private)
        return digest_of(content)

    def make(*names: str, precision: str = "fp32", **how: Any) -> str:
        generator = np.random.default_rng(7)
        pool = tmp_path / "pool.npz"
        inputs = {f"in/{at}/x": generator.normal(size=(1, SIZE)).astype("f4") for at in range(POOL)}
        outputs = {name.replace("in/", "out/")[:-1] + "y": value * 2 for name, value in inputs.items()}
        with pool.open("wb") as handle:
            np.savez(handle, **inputs, **outputs)
        kept = send(pool.read_bytes(), private=True)
        runtime = send(b"// runtime")
        models = []
        for name in names or ("acme/page-tiny",):
            content = f"the model {name}".encode()
            models.append(
                LinkedModel(
                    model=Model(id=name, category="embedding", weights="random", parameters=1000),
                    workload=Workload(mode="inference", scenario="single_stream", batch_size=1),
                    precision=precision,
                    file=LinkFile(name="model.onnx", digest=send(content), size=len(content)),
                    pool=kept,
                    tolerance=ReferenceRule(cosine=0.9999, relative=1e-3),
                )
            )
        file = LinkFile(name="wasm/module", digest=runtime, size=10)
        new = NewLink(models=models, runtime=[file], runtime_version="1.30.0", backends=["wasm"], **how)
        return service.make_link(new).path.partition("#")[2]

    return make


@pytest.fixture
def page(running: RunningService) -> Iterator[Callable[[], Page]]:
    pages: list[Page] = []

    def make() -> Page:
        pages.append(Page(running.url))
        return pages[-1]

    yield make
    for one in pages:
        one.http.close()


def rows(service: Any, model: str) -> list[dict[str, Any]]:
    return service.measurements(model=model)


def refused(answer: httpx.Response, status: int, *words: str) -> dict[str, Any]:
    document = answer.json()
    assert answer.status_code == status, document
    for word in words:
        assert word in document["detail"], document
    return document


def test_an_honest_result_is_one_row_of_origin_page(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/honest"))
    inputs = one.begin()
    assert len(inputs) == DRAWN
    answer = one.post("results", one.result(inputs, stated="apple-m1")).json()
    assert (answer["duplicate"], answer["counts"]) == (False, False)
    (row,) = rows(service, "acme/honest")
    assert (row["origin"], row["platform"], row["device"], row["hardware_id"]) == ("page", "wasm", "stated", "apple-m1")
    assert (row["runtime_name"], row["options"]["browser"]) == ("onnxruntime-web", "chromium")
    assert row["event_id"] == answer["event_id"]


def test_reference_outputs_never_leave_the_server(running: RunningService, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/secret"))
    one.begin()
    pools = list((running.home / "links" / "pools").iterdir())
    assert pools
    for pool in pools:
        assert one.http.get(f"/browser/files/{pool.name}").status_code == 404
    assert "pool" not in json.dumps(one.claim)


def test_each_device_gets_inputs_of_its_own_and_the_same_ones_again(offer: Any, page: Any) -> None:
    token = offer("acme/drawn", uses=2)
    one, other = page(), page()
    one.open(token)
    other.open(token)
    assert one.begin() == one.begin()
    assert one.begin() != other.begin()


def test_a_used_link_opens_for_nobody_else_and_again_for_its_device(offer: Any, page: Any) -> None:
    token = offer("acme/used", uses=1)
    one, other = page(), page()
    assert one.open(token).status_code == 200
    assert one.open(token).status_code == 200
    refused(other.open(token), 410, "1 device")


def test_two_devices_at_once_do_not_share_the_last_use(offer: Any, page: Any) -> None:
    token = offer("acme/race", uses=1)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda one: one.open(token), [page() for _ in range(4)]))
    assert sorted(answer.status_code for answer in answers) == [200, 410, 410, 410]


def test_an_expired_link_does_not_open_and_its_device_may_still_send(
    running: RunningService, service: Any, offer: Any, page: Any
) -> None:
    token = offer("acme/expired", uses=2)
    one, other = page(), page()
    one.open(token)
    inputs = one.begin()
    expire(running, "1 hour")
    refused(other.open(token), 410, "expired")
    assert one.post("results", one.result(inputs)).status_code == 200
    expire(running, "8 days")
    refused(one.post("results", one.result(inputs)), 410, "week")


def expire(running: RunningService, ago: str) -> None:
    with psycopg.connect(running.database_url) as connection:
        connection.execute(f"UPDATE browser_link SET expires_at = now() - interval '{ago}'")


def test_a_revoked_link_neither_opens_nor_takes_results(service: Any, offer: Any, page: Any) -> None:
    token = offer("acme/revoked", uses=2)
    one, other = page(), page()
    one.open(token)
    inputs = one.begin()
    assert service.revoke_link(service.links()[0].id).state == "revoked"
    refused(other.open(token), 410, "revoked")
    refused(one.post("results", one.result(inputs)), 410, "revoked")
    assert rows(service, "acme/revoked") == []


def test_a_token_that_nobody_made_opens_nothing(page: Any) -> None:
    refused(page().open("x" * 32), 404)


def test_another_models_key_is_refused(service: Any, offer: Any, page: Any) -> None:
    one, other = page(), page()
    one.open(offer("acme/mine"))
    other.open(offer("acme/theirs"))
    mine, theirs = one.begin(), other.begin()
    body = one.result(mine) | {"model": other.claim["models"][0]["digest"]}
    refused(one.post("results", body), 404, "model")
    refused(one.post("results", one.result(mine) | {"key": "forged"}), 404, "key")
    # Outputs of the inputs of somebody else are wrong outputs.
    refused(one.post("results", one.result(theirs)), 422, "output")
    assert rows(service, "acme/mine") == rows(service, "acme/theirs") == []


def test_a_body_of_ten_megabytes_is_refused_unread(offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/large"))
    body = one.result(one.begin()) | {"padding": "x" * 10_000_000}
    assert one.post("results", body).status_code == 413


@pytest.mark.parametrize(
    ("samples", "status"),
    [("[1.0, NaN]", 400), ("[1.0, -0.5]", 422), ("[1.0, 0.0]", 422), ("[]", 422), ("[1e999]", 400), ('["fast"]', 422)],
)
def test_samples_that_are_no_times_are_refused(offer: Any, page: Any, samples: str, status: int, service: Any) -> None:
    one = page()
    one.open(offer("acme/no-times"))
    text = json.dumps(one.result(one.begin()) | {"samples": "HERE"}).replace('"HERE"', samples)
    answer = one.http.post("/v1/links/results", content=text, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert rows(service, "acme/no-times") == []


def test_more_time_than_has_passed_is_refused(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/slow-clock"))
    document = refused(one.post("results", one.result(one.begin(), samples=[5000.0] * 20)), 422, "100.0 s")
    assert (document["type"].rpartition(":")[2], document["field"]) == ("result-refused", "samples")
    assert rows(service, "acme/slow-clock") == []


def test_times_that_the_stated_hardware_cannot_reach_are_refused(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("google-bert/bert-base-uncased"))
    body = one.result(one.begin(), samples=[0.0021 + 1e-5 * (at % 5) for at in range(50)], stated="apple-m1")
    document = refused(one.post("results", body), 422)
    assert document["field"] == "samples"
    assert [row for row in rows(service, "google-bert/bert-base-uncased") if row["origin"] == "page"] == []


@pytest.mark.parametrize("factor", [1.0, 2.01, -2.0, float("nan")])
def test_wrong_outputs_are_refused_however_right_the_times_are(
    service: Any, offer: Any, page: Any, factor: float
) -> None:
    one = page()
    one.open(offer("acme/wrong"))
    inputs = one.begin()
    outputs = [[doubled(item)] for (item,) in inputs]
    outputs[-1] = [doubled(inputs[-1][0], factor)]
    document = refused(one.post("results", one.result(inputs, outputs=outputs)), 422)
    assert document["field"] == f"outputs[{DRAWN - 1}]"
    assert rows(service, "acme/wrong") == []


def test_missing_outputs_are_refused(offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/missing"))
    inputs = one.begin()
    refused(one.post("results", one.result(inputs, outputs=[[doubled(inputs[0][0])]])), 422, "1 outputs")
    refused(one.post("results", one.result(inputs, outputs=[[] for _ in inputs])), 422, "missing")


def test_the_same_result_twice_is_one_row(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/twice"))
    body = one.result(one.begin())
    with ThreadPoolExecutor(3) as pool:
        answers = [answer.json() for answer in pool.map(lambda _: one.post("results", body), range(3))]
    faster = one.post("results", body | {"samples": [0.1] * 40}).json()
    assert sorted(answer["duplicate"] for answer in answers) == [False, True, True]
    assert faster["duplicate"] is True
    assert {answer["event_id"] for answer in (*answers, faster)} == {answers[0]["event_id"]}
    assert [round(row["latency_p50_ms"], 3) for row in rows(service, "acme/twice")] == [0.203]


def test_markup_in_the_user_agent_is_kept_as_plain_words(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/markup"))
    agent = "<script>alert(1)</script> Firefox/150.0 \x00\x1b[31m"
    answer = one.post(
        "results", one.result(one.begin(), facts={"user_agent": agent, "brands": ["<b>Brand</b>"]})
    ).json()
    event = service.event(answer["event_id"])
    text = json.dumps(event)
    assert "<" not in text
    assert "\\u001b" not in text
    assert "Firefox/150.0" in text
    refused(one.post("results", one.result([], facts={"user_agent": "x" * 600}, outputs=[[]])), 422)


def test_a_hundred_posts_a_second_are_slowed_down_and_others_are_answered(
    running: RunningService, service: Any, offer: Any, page: Any
) -> None:
    one = page()
    one.open(offer("acme/flood"))
    body = {"key": one.claim["key"], "model": one.claim["models"][0]["digest"]}
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: one.http.post("/v1/links/tasks", json=body), range(100)))
    limited = [answer for answer in answers if answer.status_code == 429]
    assert len(limited) > 50
    assert int(limited[0].headers["retry-after"]) >= 1
    assert {answer.status_code for answer in answers} <= {200, 429}
    assert one.begin()
    assert service.ready()["status"]


def test_a_hidden_page_and_a_slower_loop_make_the_series_suspect(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/hidden"))
    facts = {"user_agent": "Firefox/150", "isolated": True, "hidden": 1, "loop_before_ms": 5.0, "loop_after_ms": 10.0}
    answer = one.post("results", one.result(one.begin(), facts=facts)).json()
    assert answer["verdict"] == "suspect"
    assert {"hidden", "throttled"} <= {word for reason in answer["reasons"] for word in reason.replace(":", "").split()}


def failure_of(one: Page, **changed: Any) -> dict[str, Any]:
    facts = {"user_agent": "Mozilla/5.0 (X11; Linux) Firefox/153.0", "isolated": True}
    return {
        "key": one.claim["key"],
        "model": one.claim["models"][0]["digest"],
        "backend": "webnn",
        "stage": "compile",
        "error": "NotSupportedError",
        "message": "the operator Einsum is not supported",
        "operator": "Einsum",
        "facts": facts,
        **changed,
    }


def failures(service: Any, model: str) -> list[dict[str, Any]]:
    columns = "event_id, origin, platform, outcome, stage, error, message, precision, precision_asked"
    return selected(service, f"SELECT {columns} FROM failures WHERE model_id = '{model}' ORDER BY platform")


def selected(service: Any, statement: str) -> list[dict[str, Any]]:
    table = service.query(statement, min_position=service.summary()["position"])
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def test_a_model_that_does_not_run_is_a_row_for_each_backend_that_was_tried(
    service: Any, offer: Any, page: Any
) -> None:
    one = page()
    one.open(offer("acme/fails"))
    one.begin()
    assert one.post("failures", failure_of(one)).json()["outcome"] == "unsupported"
    late = failure_of(one, backend="webgpu", stage="first_run", error="TimeoutError", message="120 s", operator=None)
    assert one.post("failures", late).json()["outcome"] == "timeout"
    full = failure_of(one, backend="wasm", stage="load", error="RangeError", message="Out of memory", operator=None)
    first = one.post("failures", full).json()
    again = one.post("failures", full | {"message": "something else"}).json()
    assert (first["outcome"], first["duplicate"], first["counts"]) == ("out_of_memory", False, False)
    assert (again["event_id"], again["duplicate"]) == (first["event_id"], True)
    rows_ = failures(service, "acme/fails")
    assert [(row["platform"], row["outcome"], row["stage"], row["error"], row["origin"]) for row in rows_] == [
        ("wasm", "out_of_memory", "load", "RangeError", "page"),
        ("webgpu", "timeout", "first_run", "TimeoutError", "page"),
        ("webnn", "unsupported", "compile", "NotSupportedError", "page"),
    ]
    assert "operator Einsum" in rows_[2]["message"]
    (device,) = [each for each in service.browser_devices() if each.device == one.claim["device"]]
    assert (device.measurements, device.failures, device.platforms) == (0, 3, ["wasm", "webgpu", "webnn"])


def test_a_failure_shows_in_no_matrix_until_an_operator_accepts_the_device(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/failed-there"))
    one.begin()
    one.post("failures", failure_of(one, stated="apple-m1"))

    def judged() -> list[str]:
        statement = "SELECT platform FROM compatibility WHERE model_id = 'acme/failed-there'"
        return [row["platform"] for row in selected(service, statement)]

    assert judged() == []
    service.accept_device(one.claim["device"], "ours")
    assert [row["origin"] for row in failures(service, "acme/failed-there")] == ["imported"]
    assert judged() == ["webnn"]
    service.reject_device(one.claim["device"], "sold")
    assert [row["origin"] for row in failures(service, "acme/failed-there")] == ["page"]
    assert judged() == []


def test_a_backend_that_the_browser_has_not_says_nothing_of_the_model(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/absent"))
    one.begin()
    body = failure_of(one, stage="load", error="NoWebNn", message="no navigator.ml", operator=None, stated="apple-m1")
    one.post("failures", body)
    service.accept_device(one.claim["device"], "ours")
    (row,) = failures(service, "acme/absent")
    assert (row["error"], row["outcome"]) == ("PlatformUnavailable", "unsupported")
    assert "NoWebNn" in row["message"]


def test_the_text_of_a_failure_is_cleaned(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/dirty"))
    one.begin()
    body = failure_of(
        one,
        error="<b>Bad</b> Error",
        message="<img src=x onerror=alert(1)> at /home/ada/models/secret.onnx \x1b[31mred",
        operator="<script>",
    )
    event = service.event(one.post("failures", body).json()["event_id"])
    text = json.dumps(event)
    assert event["data"]["failure"]["error"] == "bBadbError"
    for word in ("<", ">", "ada", "\\u001b"):
        assert word not in text
    refused(one.post("failures", failure_of(one, message="x" * 3000)), 422)


def test_a_failure_needs_what_a_result_needs(service: Any, offer: Any, page: Any) -> None:
    one, other = page(), page()
    one.open(offer("acme/failing"))
    other.open(offer("acme/failing-other"))
    refused(one.post("failures", failure_of(one)), 404, "no inputs")
    one.begin()
    refused(one.post("failures", failure_of(one, key="forged")), 404, "key")
    refused(one.post("failures", failure_of(one, model=other.claim["models"][0]["digest"])), 404, "model")
    assert refused(one.post("failures", failure_of(one, stated="quantum-9000")), 422)["field"] == "stated"
    refused(one.post("failures", failure_of(one, stage="dancing")), 422)
    service.revoke_link(next(link.id for link in service.links() if link.models == ["acme/failing fp32"]))
    refused(one.post("failures", failure_of(one)), 410, "revoked")
    assert failures(service, "acme/failing") == []


def test_sixteen_bits_in_webassembly_are_stored_as_the_32_that_ran(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/halved", precision="fp16"))
    inputs = one.begin()
    one.post("failures", failure_of(one))
    one.post("results", one.result(inputs))
    (row,) = rows(service, "acme/halved")
    assert (row["platform"], row["precision"], row["precision_asked"]) == ("wasm", "fp32", "fp16")
    (failed,) = failures(service, "acme/halved")
    assert (failed["precision"], failed["precision_asked"]) == ("fp16", "fp16")


def test_how_weights_were_quantized_is_part_of_the_execution(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/quantized", precision="int4"))
    one.post("results", one.result(one.begin()))
    (row,) = rows(service, "acme/quantized")
    assert (row["precision"], row["options"]["weights"]) == ("int4", "int4")


def test_hardware_that_the_catalogue_does_not_have_is_refused(offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/unknown-device"))
    inputs = one.begin()
    assert refused(one.post("results", one.result(inputs, stated="<b>quantum-9000</b>")), 422)["field"] == "stated"
    assert one.post("results", one.result(inputs)).json()["duplicate"] is False


def test_rows_of_a_page_answer_nothing_until_an_operator_accepts_the_device(
    service: Any, offer: Any, page: Any
) -> None:
    one = page()
    token = offer("acme/first", "acme/second", uses=1)
    one.open(token)
    one.post("results", one.result(one.begin(0), 0, stated="apple-m1"))
    assert evidence(service, "acme/first") == []
    (device,) = [each for each in service.browser_devices() if each.device == one.claim["device"]]
    assert (device.accepted, device.measurements, device.models) == (False, 1, ["acme/first"])

    assert service.accept_device(device.device, "it is ours").changed == 1
    (row,) = rows(service, "acme/first")
    assert (row["origin"], row["source"]) == ("imported", f"urn:assay:page:{device.device}")
    assert evidence(service, "acme/first") == [row["event_id"]]
    # What an accepted device sends later counts at once.
    answer = one.post("results", one.result(one.begin(1), 1, stated="apple-m1")).json()
    assert answer["counts"] is True
    assert [row["origin"] for row in rows(service, "acme/second")] == ["imported"]

    assert service.reject_device(device.device, "it was sold").changed == 2
    assert [row["origin"] for row in rows(service, "acme/first")] == ["page"]
    assert evidence(service, "acme/first") == evidence(service, "acme/second") == []
    service.accept_device(device.device, "bought back")
    assert [row["origin"] for row in rows(service, "acme/first")] == ["imported"]
    assert len(evidence(service, "acme/second")) == 1


def test_rows_without_stated_hardware_count_as_what_the_operator_says(service: Any, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/unstated", "acme/unstated-later"))
    one.post("results", one.result(one.begin(0), 0))
    with pytest.raises(InvalidInput) as refusal:
        service.accept_device(one.claim["device"], "ours")
    assert refusal.value.field == "hardware"
    with pytest.raises(InvalidInput):
        service.accept_device(one.claim["device"], "ours", hardware="quantum-9000")
    assert [row["origin"] for row in rows(service, "acme/unstated")] == ["page"]
    service.accept_device(one.claim["device"], "ours", hardware="apple-m1")
    one.post("results", one.result(one.begin(1), 1))
    for model in ("acme/unstated", "acme/unstated-later"):
        assert [(row["origin"], row["hardware_id"]) for row in rows(service, model)] == [("imported", "apple-m1")]


def evidence(service: Any, model: str) -> list[str]:
    """Return the events on which the answer for a model rests."""
    try:
        answer = service.recommend(model, hardware=["apple-m1"], platform=["wasm"])
    except AssayError:
        return []
    return [name for option in answer["ranked"] for name in option["evidence"]]


def test_nobody_accepts_a_device_that_sent_nothing(service: Any) -> None:
    with pytest.raises(NotFound):
        service.accept_device("page-0000000000000000", "who is this")
    with pytest.raises(NotFound):
        service.reject_device("page-0000000000000000", "who is this")


def test_a_token_without_admin_makes_no_links_and_sends_no_rows_of_pages(
    fresh_service: Callable[..., RunningService], build: Any
) -> None:
    running = fresh_service()
    secret, _ = TokenStore(running.database_url).create("runner", ["append", "read"])
    running.start_with(secret)
    with running.client() as client:
        with pytest.raises(Forbidden):
            client.links()
        with pytest.raises(Forbidden):
            client.accept_device("page-0000000000000000", "mine")
        forged = build.measurement(1.0, model="acme/forged")
        forged["data"]["provenance"] = {"origin": "page"}
        stolen = build.measurement(1.0, model="acme/forged") | {"source": "urn:assay:page:page-0000000000000000"}
        for event in (forged, stolen):
            with pytest.raises(Forbidden):
                client.post_events([event])
    assert httpx.get(f"{running.url}/browser/", trust_env=False).status_code == 200
    unknown = {"token": "x" * 32, "device": "y" * 32}
    assert httpx.post(f"{running.url}/v1/links/claims", json=unknown, trust_env=False).status_code == 404


def test_a_link_names_only_files_that_were_sent(service: Any, offer: Any) -> None:
    missing = digest_of(b"never sent")
    model = LinkedModel(
        model=Model(id="acme/none"),
        workload=Workload(mode="inference", batch_size=1),
        precision="fp32",
        file=LinkFile(name="model.onnx", digest=missing, size=1),
        pool=missing,
        tolerance=ReferenceRule(cosine=0.9, relative=0.1),
    )
    with pytest.raises(InvalidInput) as refusal:
        service.make_link(
            NewLink(
                models=[model],
                runtime=[LinkFile(name="wasm/module", digest=missing, size=1)],
                runtime_version="1",
                backends=["wasm"],
            )
        )
    assert refusal.value.field == "runtime[0].digest"


def test_a_file_under_another_digest_is_not_kept(running: RunningService, service: Any, tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(b"half of it")
    wrong = digest_of(b"all of it")
    with pytest.raises(InvalidInput):
        service.upload_link_file(tmp_path / "cut", wrong)
    assert httpx.get(f"{running.url}/browser/files/{wrong.removeprefix('sha256:')}", trust_env=False).status_code == 404
    assert not [path for path in (running.home / "links" / "files").iterdir() if wrong[7:] in path.name]


def test_a_model_is_fetched_on_from_where_a_page_was_closed(running: RunningService, offer: Any, page: Any) -> None:
    one = page()
    one.open(offer("acme/pieces"))
    path = f"/browser/files/{one.claim['models'][0]['digest'].removeprefix('sha256:')}"
    whole = one.http.get(path).content
    rest = one.http.get(path, headers={"range": "bytes=5-"})
    assert (rest.status_code, rest.content) == (206, whole[5:])
    assert rest.headers["content-range"] == f"bytes 5-{len(whole) - 1}/{len(whole)}"
    assert one.http.get(path, headers={"range": f"bytes={len(whole)}-"}).status_code == 416
    for unread in ("bytes=-5", "bytes=0-3,5-6", "lines=1-", "bytes=x-"):
        answer = one.http.get(path, headers={"range": unread})
        assert (answer.status_code, answer.content) == (200, whole)


def test_the_page_is_isolated_and_runs_no_script_of_others(running: RunningService) -> None:
    answer = httpx.get(f"{running.url}/browser/", trust_env=False)
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-embedder-policy"] == "require-corp"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for name in ("link.mjs", "worker.mjs", "page.mjs", "offline.mjs", "link.css"):
        assert httpx.get(f"{running.url}/browser/{name}", trust_env=False).status_code == 200
    assert httpx.get(f"{running.url}/browser/..%2f..%2fhardware.json", trust_env=False).status_code == 404
    assert len(httpx.get(f"{running.url}/browser/hardware.json", trust_env=False).json()) > 100
