"""A served model through its HTTP face: answers, refusals, a killed replica, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import psutil
import pytest

from domain.configuration import Workload
from domain.errors import PlatformUnavailable, UnsupportedPrecision
from domain.events import decode_event, encode_event
from runner.platforms.base import Observation
from runner.protocol.tasks import Case
from runner.serving.app import create_app
from runner.serving.contract import EndpointSpec
from runner.serving.pool import ReplicaPool
from runner.serving.replica_process import require_observed
from runner.serving.server import ModelServer

NAMES = ("input_ids", "attention_mask")
EVENTS: list[dict[str, Any]] = []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    server = ModelServer(ReplicaPool(8 * 10**9), on_event=EVENTS.append, cache=tmp_path_factory.mktemp("cache"))
    server.create(EndpointSpec(name="tiny", model="bert-tiny", platform="cpu", weights="random", max_batch=4))
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
        ("POST", "/v2/models/tiny/infer", body([[1]] * 5), 422, "4"),
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
    changes = [event["data"]["change"] for event in EVENTS]
    assert changes[-2:] == ["failed", "ready"]


def test_removed_endpoint_gives_its_memory_back_and_every_change_is_an_event(server: ModelServer) -> None:
    process = replica(server)
    answer = asked(server, lambda client: client.delete("/v1/endpoints/tiny"))
    assert answer.json()["state"] == "removed"
    assert not process.is_running()
    assert server.pool.used_bytes() == 0
    assert asked(server, lambda client: client.get("/v2/models/tiny")).status_code == 404
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
