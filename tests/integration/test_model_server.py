"""A served model through its HTTP face: answers, refusals, a killed replica, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import psutil
import pytest
import uvicorn

from domain.configuration import Workload
from domain.errors import AssayError, PlatformUnavailable, UnsupportedPrecision
from domain.events import DELIVERY_OBSERVED, decode_event, encode_event
from runner.platforms.base import Observation
from runner.protocol.tasks import Case
from runner.serving.app import create_app
from runner.serving.contract import EndpointSpec, Tensor
from runner.serving.lifecycle import CHECKS, check_endpoint
from runner.serving.pool import ReplicaPool
from runner.serving.replica_process import require_observed
from runner.serving.server import ModelServer

NAMES = ("input_ids", "attention_mask")
EVENTS: list[dict[str, Any]] = []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    server = ModelServer(ReplicaPool(8 * 10**9), on_event=EVENTS.append, cache=tmp_path_factory.mktemp("cache"))
    server.create(EndpointSpec(name="tiny", model="bert-tiny", platform="cpu", weights="random"))
    yield server
    server.close()


def asked(server: ModelServer, talk: Callable[[httpx.AsyncClient], Any], token: str | None = None) -> Any:
    async def run() -> Any:
        transport = httpx.ASGITransport(create_app(server, token))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://models", timeout=60) as client:
            return await talk(client)

    return asyncio.run(run())


def body(ids: Any, **more: Any) -> dict[str, Any]:
    rows = np.asarray(ids)
    inputs = [(NAMES[0], rows), (NAMES[1], np.ones_like(rows))]
    listed = [
        {"name": name, "datatype": "INT64", "shape": list(array.shape), "data": array.ravel().tolist()}
        for name, array in inputs
    ]
    return {"inputs": listed, **more}


def states(answer: httpx.Response) -> Any:
    output = next(each for each in answer.json()["outputs"] if each["name"] == "last_hidden_state")
    return np.asarray(output["data"]).reshape(output["shape"])


def waiting(server: ModelServer) -> int:
    return server.pool.holdings()[0].requests  # type: ignore[attr-defined, no-any-return]


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def replica(server: ModelServer) -> psutil.Process:
    return psutil.Process(server.endpoints["tiny"]._acquire(1)[0].pid)


def test_metadata_names_the_real_inputs_and_outputs(server: ModelServer) -> None:
    document = asked(server, lambda client: client.get("/v2/models/tiny")).json()
    assert [(each["name"], each["datatype"]) for each in document["inputs"]] == [(name, "INT64") for name in NAMES]
    assert {each["name"]: each["shape"] for each in document["outputs"]}["pooler_output"] == [-1, 128]


def test_status_of_an_endpoint_says_where_it_runs_and_what_it_takes(server: ModelServer) -> None:
    status = asked(server, lambda client: client.get("/v1/endpoints/tiny")).json()
    assert (status["platform"], status["precision"], status["state"]) == ("cpu", "fp32", "ready")
    assert status["memory_bytes"] > 10**7
    assert asked(server, lambda client: client.get("/v1/endpoints")).json()[0]["spec"]["name"] == "tiny"


def test_requests_that_are_joined_are_answered_as_each_alone(server: ModelServer) -> None:
    texts = [[[5, 6, 7]], [[8, 9, 10]], [[11, 12, 13]], [[14, 15]]]

    async def talk(client: httpx.AsyncClient) -> Any:
        alone = [await client.post("/v2/models/tiny/infer", json=body(ids)) for ids in texts]
        together = await asyncio.gather(*(client.post("/v2/models/tiny/infer", json=body(ids)) for ids in texts * 3))
        return alone, together

    alone, together = asked(server, talk)
    for index, answer in enumerate(together):
        assert np.allclose(states(answer), states(alone[index % len(texts)]), atol=1e-4)


def test_binary_extension_gives_the_numbers_of_json(server: ModelServer) -> None:
    ids = np.asarray([[5, 6, 7]], np.int64)
    inputs = [
        {"name": name, "datatype": "INT64", "shape": [1, 3], "parameters": {"binary_data_size": 24}} for name in NAMES
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()

    async def talk(client: httpx.AsyncClient) -> Any:
        content = head + ids.tobytes() + np.ones_like(ids).tobytes()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        return (
            await client.post("/v2/models/tiny/infer", content=content, headers=headers),
            await client.post("/v2/models/tiny/infer", json=body(ids)),
        )

    binary, plain = asked(server, talk)
    length = int(binary.headers["Inference-Header-Content-Length"])
    first = json.loads(binary.content[:length])["outputs"][0]
    raw = binary.content[length : length + first["parameters"]["binary_data_size"]]
    assert np.allclose(np.frombuffer(raw, np.float32).reshape(first["shape"]), states(plain), atol=1e-4)


@pytest.mark.parametrize(
    ("method", "path", "document", "status", "word"),
    [
        ("POST", "/v2/models/tiny/infer", {"inputs": []}, 422, "input_ids"),
        ("POST", "/v2/models/tiny/infer", body([[1]] * 9), 422, "8"),
        ("POST", "/v2/models/nope/infer", body([[1]]), 404, "tiny"),
        ("POST", "/v2/models/tiny/infer", body([[1]], parameters={"timeout": -1}), 422, "timeout"),
        ("POST", "/v1/chat/completions", {"model": "tiny"}, 404, "/v1/embeddings"),
        ("POST", "/v1/embeddings", {"model": "tiny", "input": "text"}, 503, "tokenizer"),
        ("POST", "/v1/embeddings", {"model": "tiny", "input": []}, 422, "input"),
        ("PATCH", "/v1/endpoints/tiny", {"workers": 0}, 422, "workers"),
        ("PATCH", "/v1/endpoints/nope", {"workers": 1}, 404, "tiny"),
        ("POST", "/v1/endpoints", {"name": "a b", "model": "x"}, 422, "name"),
        ("POST", "/v1/endpoints", {"name": "tiny", "model": "bert-tiny"}, 409, "tiny"),
        ("GET", "/v2/models/tiny/results/none", None, 410, "again"),
    ],
)
def test_refusals_say_what_is_wrong(
    server: ModelServer, method: str, path: str, document: Any, status: int, word: str
) -> None:
    answer = asked(server, lambda client: client.request(method, path, json=document))
    assert answer.status_code == status, answer.text
    assert word in answer.text


def test_official_openai_client_gets_embeddings_and_models(server: ModelServer) -> None:
    from openai import AsyncOpenAI

    async def talk(http: httpx.AsyncClient) -> Any:
        client = AsyncOpenAI(base_url="http://models/v1", api_key="none", http_client=http)
        listed = [model.id async for model in await client.models.list()]
        answer = await client.embeddings.create(model="tiny", input=[[5, 6, 7], [8, 9]])
        plain = await http.post("/v2/models/tiny/infer", json=body([[5, 6, 7]]))
        return listed, answer, plain

    listed, answer, plain = asked(server, talk)
    assert listed == ["tiny"]
    assert answer.usage.prompt_tokens == 5
    assert np.allclose(answer.data[0].embedding, states(plain)[0].mean(axis=0), atol=1e-4)


def test_asynchronous_request_is_answered_at_the_place_it_names(server: ModelServer) -> None:
    async def talk(client: httpx.AsyncClient) -> Any:
        taken = await client.post("/v2/models/tiny/infer", json=body([[5, 6]]), headers={"Prefer": "respond-async"})
        while True:
            answer = await client.get(taken.headers["Location"])
            if answer.status_code != 202:
                return taken, answer
            # The application runs in this loop, and answers without ever waiting.
            await asyncio.sleep(0.01)

    taken, answer = asked(server, talk)
    assert taken.status_code == 202
    assert states(answer).shape == (1, 2, 128)


def test_with_a_token_only_health_is_open(server: ModelServer) -> None:
    async def talk(client: httpx.AsyncClient) -> list[int]:
        bearer = {"Authorization": "Bearer right"}
        asked = [await client.get("/v2/health/live"), await client.get("/v1/models")]
        asked += [await client.get("/v1/models", headers={"Authorization": "Bearer wrong"})]
        return [each.status_code for each in (*asked, await client.get("/v1/models", headers=bearer))]

    assert asked(server, talk, token="right") == [200, 401, 401, 200]


def test_endpoint_that_cannot_be_made_leaves_nothing(server: ModelServer) -> None:
    with pytest.raises(UnsupportedPrecision):
        server.create(EndpointSpec(name="gone", model="bert-tiny", platform="cpu", precision="fp8"))
    assert set(server.endpoints) == {"tiny"}
    assert EVENTS[-1]["data"]["change"] == "failed"


@pytest.mark.parametrize(
    ("seen", "word"),
    [({"platform": "cpu"}, "cpu"), ({"precision": "bf16"}, "bf16"), ({"fallback_share": 0.4}, "40%")],
)
def test_replica_refuses_where_something_else_did_the_work(seen: dict[str, Any], word: str) -> None:
    case = Case(model="m", platform="openvino", precision="fp32", workload=Workload(mode="inference"))
    right = Observation(device="CPU", platform="openvino", precision="fp32", fallback_share=0.0)
    require_observed(case, right)
    with pytest.raises(PlatformUnavailable, match=word):
        require_observed(case, msgspec.structs.replace(right, **seen))


def test_model_stays_loaded_while_requests_wait_for_it(server: ModelServer) -> None:
    process, endpoint = replica(server), server.endpoints["tiny"]
    inputs = [Tensor(name=name, array=np.asarray([[5, 6]], np.int64)) for name in NAMES]

    process.suspend()
    try:
        sent = [server.submit("tiny", inputs, 60)]
        until(lambda: endpoint.calling == 1 and not len(endpoint.batcher))
        sent += [server.submit("tiny", inputs, 60) for _ in range(2)]
        assert waiting(server) == 3
        assert sent[-1].future.cancel()
        assert waiting(server) == 2
    finally:
        process.resume()
    assert [len(each.future.result(60)) for each in sent[:2]] == [2, 2]
    until(lambda: waiting(server) == 0)


@pytest.fixture(scope="module")
def address(server: ModelServer) -> Iterator[str]:
    """Serve over a real connection, for clients that are not asynchronous, or that leave."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        serving = uvicorn.Server(uvicorn.Config(create_app(server), log_level="critical", lifespan="off"))
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        serving.should_exit = True
        thread.join(10)


def test_whole_life_of_an_endpoint_is_checked_and_counted(server: ModelServer, address: str) -> None:
    before = len(EVENTS)
    result = check_endpoint(address, create="bert-tiny", platform="cpu")
    assert result.passed, result.steps
    passed = [step.check for step in result.steps if step.outcome == "passed"]
    assert passed == [check for check in CHECKS if check != "stream"]
    changes = [event["data"]["change"] for event in EVENTS[before:] if "change" in event["data"]]
    assert (changes[:2], changes[-1]) == (["created", "ready"], "removed")
    assert set(server.endpoints) == {"tiny"}
    missing = check_endpoint(address, model="nobody")
    assert (missing.count("failed", "ready"), missing.passed) == (1, False)


def test_request_of_a_client_that_leaves_is_dropped(server: ModelServer, address: str) -> None:
    process, endpoint = replica(server), server.endpoints["tiny"]
    process.suspend()
    try:
        first = server.submit("tiny", [Tensor(name=name, array=np.asarray([[5, 6]], np.int64)) for name in NAMES], 60)
        until(lambda: endpoint.calling == 1 and not len(endpoint.batcher))
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v2/models/tiny/infer", json=body([[5, 6]]), timeout=0.3)
        until(lambda: waiting(server) == 1)
    finally:
        process.resume()
    answered = endpoint.requests
    first.future.result(60)
    until(lambda: not endpoint.calling and not len(endpoint.batcher))
    assert endpoint.requests == answered + 1


# Starts two more processes; tests/unit/runner/serving/test_pool.py has the same decisions.
@pytest.mark.torture
def test_idle_model_makes_room_for_another_and_is_loaded_again_by_its_next_request(server: ModelServer) -> None:
    pool, before = server.pool, len(EVENTS)
    pool.budget_bytes = pool.used_bytes() + 10**8
    try:
        other = EndpointSpec(name="other", model="bert-tiny", platform="cpu", weights="random", threads=1)
        server.create(msgspec.structs.replace(other, memory_bytes=2 * 10**8))
        assert server.endpoints["tiny"].state == "evicted"
        assert pool.used_bytes() <= pool.budget_bytes
        assert (
            asked(server, lambda client: client.post("/v2/models/tiny/infer", json=body([[5, 6]]))).status_code == 200
        )
        assert server.endpoints["other"].state == "evicted"
        server.remove("other")
    finally:
        pool.budget_bytes = 8 * 10**9
    changed = [event["data"] for event in EVENTS[before:] if "change" in event["data"]]
    seen = [(data["endpoint"], data["change"]) for data in changed]
    assert seen == [
        ("tiny", "evicted"),
        ("other", "created"),
        ("other", "ready"),
        ("other", "evicted"),
        ("tiny", "ready"),
        ("other", "removed"),
    ]


# Starts four processes and converts a model; the test after it has the first of its losses.
@pytest.mark.torture
def test_model_that_is_lost_again_and_again_goes_to_the_platform_that_may_take_over(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    server = ModelServer(ReplicaPool(8 * 10**9), on_event=events.append, cache=tmp_path, restart_pauses_s=(0.0, 0.0))
    spec = EndpointSpec(name="tiny", model="bert-tiny", platform="cpu", weights="random", failover=("openvino",))
    try:
        server.create(spec)
        endpoint = server.endpoint("tiny")
        request = [Tensor(name=name, array=np.asarray([[5] * 128], np.int64)) for name in NAMES]
        for _ in range(3):
            lost = replica(server)
            lost.suspend()
            sent = server.submit("tiny", request, 120)
            until(lambda: endpoint.calling == 1)
            lost.kill()
            with pytest.raises(AssayError):
                sent.future.result(60)
            until(lambda: not endpoint.calling, 120)
        assert server.submit("tiny", request, 120).future.result(120)
        status = endpoint.status()
        assert (status.state, status.platform, status.promise) == ("ready", "openvino", None)
        assert status.failures == 3
    finally:
        server.close()
    changes = [event["data"]["change"] for event in events if "change" in event["data"]]
    assert changes == ["created", "ready", *["failed", "ready"] * 2, "failed", "failed-over", "removed"]
    assert [event["data"]["execution"]["platform"] for event in events][-1] == "openvino"


def test_killed_replica_fails_its_requests_and_comes_back(server: ModelServer) -> None:
    before = replica(server)
    os.kill(before.pid, signal.SIGSTOP)

    async def talk(client: httpx.AsyncClient) -> Any:
        waiting = asyncio.ensure_future(client.post("/v2/models/tiny/infer", json=body([[5, 6]])))
        while len(server.endpoints["tiny"].batcher) or not server.endpoints["tiny"].calling:
            await asyncio.sleep(0.005)
        os.kill(before.pid, signal.SIGKILL)
        lost = await waiting
        patient = body([[5, 6]], parameters={"timeout": 240_000_000})
        return lost, await client.post("/v2/models/tiny/infer", json=patient)

    lost, again = asked(server, talk)
    assert lost.status_code == 503
    assert "SIGKILL" in lost.text
    assert again.status_code == 200
    assert replica(server).pid != before.pid
    changes = [event["data"]["change"] for event in EVENTS if "change" in event["data"]]
    assert changes[-2:] == ["failed", "ready"]


def test_delivery_is_observed_and_compared_with_the_promise(server: ModelServer) -> None:
    endpoint = server.endpoints["tiny"]

    async def talk(client: httpx.AsyncClient) -> Any:
        for _ in range(3):
            await client.post("/v2/models/tiny/infer", json=body([[5, 6]]))
        return (await client.get("/v1/endpoints/tiny")).json()

    status = asked(server, talk)
    delivery = status["delivery"]
    assert delivery["requests"] == endpoint.requests
    assert delivery["failures"] == endpoint.failures
    assert delivery["request_ms"]["p50"] > 0
    assert (delivery["verdict"], delivery["workload"]["batch_size"]) == ("undecided", 1)


def test_removed_endpoint_gives_its_memory_back_and_every_change_is_an_event(server: ModelServer) -> None:
    process, server_requests = replica(server), server.endpoints["tiny"].requests
    answer = asked(server, lambda client: client.delete("/v1/endpoints/tiny"))
    assert answer.json()["state"] == "removed"
    assert not process.is_running()
    assert server.pool.used_bytes() == 0
    assert asked(server, lambda client: client.get("/v2/models/tiny")).status_code == 404
    observed = next(event for event in reversed(EVENTS) if event["type"] == DELIVERY_OBSERVED)
    assert decode_event(encode_event(observed)).data.requests == server_requests
    created = decode_event(encode_event(EVENTS[0])).data
    assert (EVENTS[0]["data"]["change"], EVENTS[-1]["data"]["change"]) == ("created", "removed")
    assert (created.execution.platform, created.execution.precision) == ("cpu", "fp32")
    assert created.hardware.kind == "cpu"


def test_server_refuses_to_listen_beyond_this_machine_without_a_token() -> None:
    from assay.cli.endpoints.serving import require_token
    from domain.errors import UsageError

    for host in ("127.0.0.1", "localhost", "::1"):
        require_token(host, None)
    for host in ("0.0.0.0", "192.0.2.1", "models.example.org"):
        with pytest.raises(UsageError, match="token"):
            require_token(host, None)
        require_token(host, "secret")


def test_serving_a_model_by_the_verb_of_the_service_names_the_right_command(capsys: pytest.CaptureFixture[str]) -> None:
    from assay.cli import run

    assert run(["serve", "bert-tiny"]) == 2
    assert "assay endpoint serve bert-tiny" in " ".join(capsys.readouterr().err.split())


def test_sizes_of_a_memory_budget(tmp_path: Path) -> None:
    from assay.cli.endpoints.endpoint import _bytes

    assert [_bytes(None, None, text) for text in ("4GB", "512MiB", "1.5g", "7")] == [
        4 * 10**9,
        512 * 2**20,
        15 * 10**8,
        7,
    ]
