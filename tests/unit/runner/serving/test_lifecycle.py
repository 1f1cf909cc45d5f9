"""Life-cycle checks against foreign servers that speak KServe v2 or OpenAI's protocol, rightly and wrongly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import uvicorn
from click.testing import CliRunner
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from assay.cli.endpoints.checking import check
from domain.errors import AssayError, NotFound, ServiceUnavailable, UsageError
from domain.events import decode_event
from runner.serving.lifecycle import Lifecycle, check_endpoint, events_of

MODEL = {
    "name": "adder",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
    "outputs": [{"name": "sum", "datatype": "FP32", "shape": [-1]}],
}


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Serve an application on a free port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


def kserve(fault: str = "") -> FastAPI:
    """A server of models that add four numbers; `fault` is what it does wrong."""
    app = FastAPI()
    served = {"adder"}

    def known(name: str) -> dict[str, str]:
        if name not in served:
            raise HTTPException(404, f"no model {name}")
        return {"name": name}

    control(app, served, known, stays=fault == "stays")
    inference(app, known, fault)
    return app


def control(app: FastAPI, served: set[str], known: Callable[[str], dict[str, str]], *, stays: bool) -> None:
    @app.get("/v1/endpoints")
    def every() -> list[dict[str, Any]]:
        return [{"spec": {"name": name}} for name in sorted(served)]

    @app.post("/v1/endpoints", status_code=201)
    async def create(request: Request) -> dict[str, Any]:
        spec = await request.json()
        served.add(spec["name"])
        return {"spec": spec}

    @app.delete("/v1/endpoints/{name}")
    def remove(name: str) -> None:
        if not stays:
            served.discard(name)

    @app.get("/v1/endpoints/{name}")
    def status(name: str) -> dict[str, str]:
        return known(name)


def inference(app: FastAPI, known: Callable[[str], dict[str, str]], fault: str) -> None:
    later: dict[str, Response] = {}

    @app.get("/v2/health/{kind}")
    def health(kind: str) -> dict[str, bool]:
        return {kind: True}

    @app.get("/v2/models/{name}")
    def metadata(name: str) -> dict[str, Any]:
        return {**MODEL, **known(name)}

    @app.get("/v2/models/{name}/ready")
    def ready(name: str) -> dict[str, str]:
        return known(name)

    @app.get("/results/{number}")
    def result(number: str) -> Response:
        return later.pop(number)

    @app.post("/v2/models/{name}/infer")
    async def infer(name: str, request: Request) -> Response:
        known(name)
        (given,) = (await request.json())["inputs"]
        if refused := refusal(given, fault):
            return refused
        total = "NaN" if fault == "nan" else str(sum(given["data"]))
        text = f'{{"outputs": [{{"name": "sum", "datatype": "FP32", "shape": [1], "data": [{total}]}}]}}'
        answer = Response(text, media_type="application/json")
        if request.headers.get("prefer") == "respond-async" and fault != "at once":
            later["1"] = answer
            return PlainTextResponse("", 202, {"location": "/results/1"})
        return answer


def refusal(given: dict[str, Any], fault: str) -> Response | None:
    if fault == "takes all":
        return None
    if given["name"] != "x":
        status = 500 if fault == "crashes" else 400
        return PlainTextResponse("bad request" if fault == "silent" else f"no input {given['name']}", status)
    if len(given["shape"]) != 2:
        return PlainTextResponse("x: the shape must have two dimensions", 400)
    return None


def openai(*, names_wrong_input: bool = True) -> FastAPI:
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"data": [{"id": "parrot"}]}

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await request.json()
        if body["model"] != "parrot":
            return JSONResponse({"error": {"message": f"no model {body['model']}"}}, 404)
        if not isinstance(body["messages"], list):
            return JSONResponse({"error": {"message": "messages: a list" if names_wrong_input else "no"}}, 400)
        if body.get("stream"):
            return PlainTextResponse('data: {"choices": []}\n\ndata: [DONE]\n\n', media_type="text/event-stream")
        message = {"role": "assistant", "content": "time"}
        return JSONResponse({"choices": [{"message": message, "finish_reason": "stop"}]})

    return app


def checked(app: FastAPI, **options: Any) -> Lifecycle:
    with running(app) as url:
        return check_endpoint(url, timeout_s=10, **options)


def outcomes(result: Lifecycle) -> dict[str, str]:
    return {step.check: step.outcome for step in result.steps if step.cycle == 1}


def test_created_endpoint_lives_is_removed_and_is_gone_in_every_cycle() -> None:
    result = checked(kserve(), create="acme/adder", cycles=3)
    assert result.passed
    assert [step.said for step in result.steps if step.outcome == "failed"] == []
    for name in ("create", "ready", "metadata", "invoke", "async", "wrong input", "concurrent", "remove", "gone"):
        assert result.count("passed", name) == 3, name


def test_model_that_is_there_is_found_and_left_where_it_is() -> None:
    result = checked(kserve())
    assert (result.model, result.protocol, result.passed) == ("adder", "kserve", True)
    assert not {"create", "remove", "gone"} & set(outcomes(result))


@pytest.mark.parametrize(
    ("fault", "check_name", "word"),
    [
        ("stays", "gone", "404"),
        ("crashes", "wrong input", "500"),
        ("takes all", "wrong input", "4xx"),
        ("silent", "wrong input", "without naming"),
        ("nan", "invoke", "finite"),
    ],
)
def test_fault_of_a_server_fails_the_check_that_it_concerns(fault: str, check_name: str, word: str) -> None:
    result = checked(kserve(fault), create="acme/adder")
    assert not result.passed
    step = next(step for step in result.steps if step.check == check_name)
    assert step.outcome == "failed"
    assert word in step.said


def test_server_without_later_answers_skips_that_check() -> None:
    result = checked(kserve("at once"))
    assert result.passed
    assert outcomes(result)["async"] == "skipped"


def test_model_that_is_not_there_fails_at_ready_and_nothing_else_is_tried() -> None:
    assert outcomes(checked(kserve(), model="absent", protocol="kserve")) == {"ready": "failed"}


def test_openai_server_is_recognised_and_checked() -> None:
    result = checked(openai())
    assert (result.model, result.protocol, result.passed) == ("parrot", "openai", True)
    assert outcomes(result)["stream"] == "passed"
    assert not checked(openai(names_wrong_input=False)).passed


@pytest.mark.parametrize(
    ("options", "error"),
    [({"cycles": 0}, UsageError), ({"create": "a", "model": "b"}, UsageError)],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], error: type[AssayError]) -> None:
    with pytest.raises(error):
        check_endpoint("http://127.0.0.1:1", **options)


def test_address_without_a_server_a_protocol_or_a_model_is_refused() -> None:
    with pytest.raises(ServiceUnavailable):
        check_endpoint("http://127.0.0.1:1", timeout_s=1)
    with pytest.raises(UsageError):
        check_endpoint("127.0.0.1:1")
    with running(FastAPI()) as url:
        with pytest.raises(UsageError):
            check_endpoint(url)
        with pytest.raises(NotFound):
            check_endpoint(url, protocol="openai")


def test_events_are_those_of_a_run_with_one_test_and_its_counts() -> None:
    result = checked(kserve("stays"), create="/models/adder", cycles=2)
    events = [decode_event(msgspec.json.encode(event)) for event in events_of(result)]
    assert [event.type for event in events] == [
        "assay.run.started.v1",
        "assay.test.reported.v1",
        "assay.run.finished.v1",
    ]
    data = events_of(result)[1]["data"]
    data = data if isinstance(data, dict) else msgspec.to_builtins(data)
    assert (data["test"], data["outcome"], data["model"]["id"]) == ("lifecycle", "failed", "adder")
    assert data["checks"]["gone"] == {"passed": 0, "failed": 2, "skipped": 0}
    assert data["checks"]["invoke"]["passed"] == 2


def test_command_answers_with_a_table_or_json_and_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with running(kserve()) as url:
        table = CliRunner().invoke(check, [url], standalone_mode=False)
        document = CliRunner().invoke(
            check, [url, "--create", "adder", "--cycles", "2", "--json"], standalone_mode=False
        )
    assert table.return_value == document.return_value == 0
    assert "wrong input" in table.output
    answer = msgspec.json.decode(document.stdout)
    assert (answer["ok"], answer["failed"], answer["cycles"]) == (True, 0, 2)
    with running(kserve("crashes")) as url:
        assert CliRunner().invoke(check, [url], standalone_mode=False).return_value == 1
