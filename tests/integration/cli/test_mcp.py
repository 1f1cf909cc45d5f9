"""The MCP server, driven by the official client over stdio and HTTP against a real service."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from assay.cli import run
from assay.cli.agents.arguments import LEFT_OUT
from assay.cli.agents.tools import TOOLS
from predictor.answering.question import LIMITS, PredictQuestion, Question
from predictor.capacity.question import FitQuestion

ROOT = Path(__file__).resolve().parents[3]
MODEL, CPU = "bert-base-uncased", "intel-xeon-2c"
OWN_MEMBERS = {"verbose", "launch", "limit"}
"""Arguments of the tools that say how much of an answer is returned."""
NOT_IN_TOOLS = {
    "min_position",  # waits for a write of the caller, and tools do not write
    "per",
    "per_hardware",
    "rows",
    "hardware",  # of a comparison: `subject` names it
    "model",
    "cursor",
    "by_hardware",
    "precision",  # of the matrix: a row has all, or by_precision one each
    "platform",  # of the matrix: `platforms` filters by several
}
"""Parameters of the API that tools leave out, or have under another name."""
QUESTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "recommend": ({"model": MODEL, "top": 3}, ("recommend", MODEL, "--top", "3", "--json")),
    "predict": (
        {"model": MODEL, "hardware": "nvidia-l4", "platform": "cuda", "precision": "fp16", "batch_size": 8},
        (
            "predict", MODEL, "--hardware", "nvidia-l4", "--platform", "cuda", "--precision", "fp16",
            "--batch-size", "8", "--json",
        ),
    ),
    "fit": (
        {"model": MODEL, "hardware": ["nvidia-l4"], "precision": ["fp16"]},
        ("fit", MODEL, "--hardware", "nvidia-l4", "--precision", "fp16", "--json"),
    ),
    "compare": ({"what": "hardware", "subject": MODEL}, ("compare", "hardware", MODEL, "--json")),
    "matrix": ({"model": MODEL}, ("matrix", "--model", MODEL, "--json")),
}  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    return {**kept, "PYTHONPATH": str(ROOT), "ASSAY_PATIENCE_S": "0.2", **more}


def drive(server: Any, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Run something with the official client connected to a server."""

    async def session() -> Any:
        async with Client(server) as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(session(), 60))


def call(server: Any, name: str, arguments: dict[str, Any]) -> Any:
    return drive(server, lambda client: client.call_tool(name, arguments))


def stdio(*arguments: str, **more: str) -> StdioServerParameters:
    words = ["-m", "assay.cli", "mcp", *arguments]
    return StdioServerParameters(command=sys.executable, args=words, env=environment(**more), cwd=str(ROOT))


def started(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """An `assay mcp --transport http` process and its address."""
    command = [sys.executable, "-m", "assay.cli", "mcp", "--transport", "http", "--port", "0", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(COLUMNS="200"), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = process.stderr.readline()
    address = re.search(r"http://\S+/mcp", said)
    assert address is not None, said + process.stderr.read()
    return process, address[0]


def stopped(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait(30)
    assert process.stderr is not None
    process.stderr.close()


@pytest.fixture(scope="module")
def address(filled: Any) -> Iterator[str]:
    process, url = started("--server", filled.url)
    yield url
    stopped(process)


def same(part: Any, whole: Any) -> None:
    """Assert that everything in a cut answer stands in the whole one as it is."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "evidence":
                evidence = whole.get("evidence_ids") or whole["evidence"]
                assert value == evidence[: len(value)]
            elif name == "evidence_count":
                assert value >= len(part["evidence"])
            else:
                same(value, whole[name])
    elif isinstance(part, list):
        for mine, theirs in zip(part, whole, strict=False):
            same(mine, theirs)
    else:
        assert part == whole


def test_tools_have_typed_arguments_that_are_described_and_change_nothing(filled: Any) -> None:
    listed = drive(stdio("--server", filled.url), lambda client: client.list_tools()).tools
    assert [tool.name for tool in listed] == ["recommend", "predict", "fit", "compare", "matrix", "query"]
    for tool in listed:
        assert tool.annotations.read_only_hint and tool.annotations.idempotent_hint
        assert tool.input_schema["additionalProperties"] is False
        for name, member in tool.input_schema["properties"].items():
            assert member["description"], (tool.name, name)
            assert "--" not in member["description"], (tool.name, name)
            assert {"type", "anyOf", "enum"} & set(member), (tool.name, name)
    recommend = listed[0].input_schema["properties"]
    assert recommend["percentile"]["enum"] == ["p50", "p90", "p95", "p99"]
    assert recommend["objective"]["anyOf"][0]["enum"] == ["latency", "throughput", "cost", "energy", "memory"]
    assert recommend["max_quality_loss_pt"]["minimum"] == 0
    assert all(recommend[name]["exclusiveMinimum"] == 0 for name in LIMITS if name != "max_quality_loss_pt")
    assert listed[1].input_schema["required"] == ["model", "hardware", "platform", "precision"]


@pytest.mark.parametrize(
    ("tool", "question"), [("recommend", Question), ("predict", PredictQuestion), ("fit", FitQuestion)]
)
def test_every_member_of_the_question_is_an_argument_or_left_out_by_name(tool: str, question: Any) -> None:
    members = set(question.__struct_fields__)
    assert set(TOOLS[tool].input_schema["properties"]) - OWN_MEMBERS == members - LEFT_OUT


@pytest.mark.parametrize(
    ("tool", "paths"),
    [
        ("compare", ["/v1/comparisons/hardware", "/v1/comparisons/models", "/v1/comparisons/modes"]),
        ("matrix", ["/v1/compatibility"]),
        ("query", ["/v1/query"]),
    ],
)
def test_every_parameter_of_the_route_is_an_argument_or_left_out_by_name(
    filled: Any, tool: str, paths: list[str]
) -> None:
    document = httpx.get(f"{filled.url}/schema/openapi.json").json()
    names: set[str] = set()
    for path in paths:
        for operation in document["paths"][path].values():
            names |= {parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"}
            if "requestBody" in operation:
                reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                names |= set(document["components"]["schemas"][reference.rpartition("/")[2]]["properties"])
    assert names - set(TOOLS[tool].input_schema["properties"]) <= NOT_IN_TOOLS


@pytest.mark.parametrize("name", QUESTIONS)
def test_answer_has_the_figures_of_the_command_line(name: str, address: str, typed: Any) -> None:
    arguments, words = QUESTIONS[name]
    result = call(address, name, arguments)
    assert not result.is_error, result.content
    answer, whole = result.structured_content, json.loads(typed(*words)[0])
    if name == "compare":
        best: dict[str, Any] = {}
        for row in whole["rows"]:
            best.setdefault(row["hardware"], row)
        assert answer["rows_count"] == len(whole["rows"])
        same(answer["rows"], list(best.values()))
    elif name == "matrix":
        by_platform = {row["platform"]: row for row in whole}
        assert answer["cells_count"] == len(whole) == len(by_platform)
        for cell in answer["cells"]:
            same({key: cell[key] for key in ("built", "ran", "measured") if key in cell}, by_platform[cell["platform"]])
    else:
        own = {"excluded_by_rule", "fits_count"}
        same({key: value for key, value in answer.items() if key not in own}, whole)
        assert answer["predictor"] == whole["predictor"]
        assert answer["position"] == whole["position"]
    text = result.content[0].text
    assert max(len(line) for line in text.splitlines() if "  assay " not in line and "evidence of" not in line) <= 100


def test_text_has_the_words_of_the_command_line(address: str, typed: Any) -> None:
    arguments, words = QUESTIONS["recommend"]
    text = call(address, "recommend", arguments).content[0].text
    shown = [line.rstrip() for line in typed(*words[:-1])[0].splitlines()]
    assert text.splitlines()[: len(shown)] == shown


def test_usual_answers_are_short_and_verbose_ones_are_whole(address: str, typed: Any) -> None:
    arguments, words = QUESTIONS["recommend"]
    short = call(address, "recommend", {"model": MODEL})
    size = len(json.dumps(short.structured_content)) + len(short.content[0].text)
    # A token is at least three characters of such JSON.
    assert size / 3 < 4000
    assert len(short.structured_content["ranked"]) == 5
    whole = call(address, "recommend", {**arguments, "verbose": True}).structured_content
    given = json.loads(typed(*words)[0])
    assert whole["question"] == {name: value for name, value in given["question"].items() if value is not None}
    assert len(whole["excluded"]) == len(given["excluded"])


def test_every_question_is_answered_over_stdio_as_over_http(filled: Any, address: str) -> None:
    async def all_of(client: Client) -> list[Any]:
        return [(await client.call_tool(name, question[0])).structured_content for name, question in QUESTIONS.items()]

    assert drive(stdio("--server", filled.url), all_of) == drive(address, all_of)


def test_stdout_carries_the_protocol_alone(filled: Any) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    fit = {"name": "fit", "arguments": {"model": MODEL, "hardware": "nvidia-l4"}}
    question = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": fit}
    command = [sys.executable, "-m", "assay.cli", "mcp", "--server", filled.url]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        for message in (hello, ready, question):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        messages = []
        while not any(message.get("id") == 2 for message in messages):
            messages.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        rest = process.stdout.read()
    assert rest == b""
    assert process.returncode == 0
    assert messages[-1]["result"]["structuredContent"]["fits"]


def test_query_reads_and_is_guarded(address: str) -> None:
    rows = call(address, "query", {"sql": "select platform, count(*) as n from measurements group by all"})
    assert {row[0] for row in rows.structured_content["rows"]} >= {"cpu", "openvino"}
    cut = call(address, "query", {"sql": "select * from measurements", "limit": 1000}).structured_content
    assert cut["truncated"] and len(json.dumps(cut["rows"])) < 10_000
    for sql in ("drop table measurement", "select * from read_csv('/etc/passwd')", "attach 'x.db'"):
        refused = call(address, "query", {"sql": sql})
        assert refused.is_error, sql
        assert refused.structured_content["field"] == "sql"


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("recommend", {"model": "no-such-model-at-all"}, "model"),
        ("recommend", {"model": MODEL, "max_latency_ms": -1}, "max_latency_ms"),
        ("recommend", {"model": MODEL, "objective": "beauty"}, "objective"),
        ("recommend", {"model": MODEL, "top": "many"}, "top"),
        ("recommend", {"model": MODEL, "latency": 1}, "latency"),
        ("recommend", {"model": MODEL, "record": True}, "record"),
        ("recommend", {"model": MODEL, "launch": "ansible"}, "launch"),
        ("recommend", {}, "model"),
        (
            "predict",
            {"model": MODEL, "hardware": "no-such-device", "platform": "cuda", "precision": "fp16"},
            "hardware",
        ),
        ("compare", {"what": "colours", "subject": MODEL}, "what"),
        ("fit", {"model": MODEL, "limit": 0}, "limit"),
    ],
)
def test_bad_input_is_an_error_that_names_field_and_remedy(
    address: str, tool: str, arguments: dict[str, Any], field: str
) -> None:
    result = call(address, tool, arguments)
    assert result.is_error
    assert result.structured_content["field"] == field
    assert result.structured_content["remedy"]
    assert field in result.content[0].text
    assert "Traceback" not in result.content[0].text


def test_unknown_tool_and_resource_are_errors_of_the_protocol(address: str) -> None:
    async def refused(client: Client) -> None:
        with pytest.raises(MCPError, match="recommend"):
            await client.call_tool("guess", {})
        with pytest.raises(MCPError, match="assay://views"):
            await client.read_resource("assay://nothing")

    drive(address, refused)


def test_resources_say_how_much_is_known_and_what_can_be_queried(address: str, filled: Any) -> None:
    async def read(client: Client) -> list[Any]:
        listed = (await client.list_resources()).resources
        uris = [str(resource.uri) for resource in listed] + ["assay://views/measurements"]
        return [json.loads((await client.read_resource(uri)).contents[0].text) for uri in uris]

    coverage, views, columns = drive(address, read)
    cell = next(cell for cell in coverage["cells"] if (cell["category"], cell["platform"]) == ("embedding", "cpu"))
    with filled.client() as client:
        rows = client.coverage(category="embedding", platform="cpu")["items"]
    assert cell["measured"] == sum(row["measured"] for row in rows) > 0
    assert "measurements" in [view["name"] for view in views["views"]]
    assert {"name", "type", "unit", "meaning"} <= set(columns["views"][0]["columns"][0])


def test_launch_snippet_comes_beside_the_answer(address: str) -> None:
    result = call(address, "recommend", {"model": MODEL, "hardware": ["nvidia-l4"], "launch": "k8s"})
    assert "nvidia.com/gpu: 1" in result.structured_content["launch"]
    refused = call(address, "recommend", {"model": MODEL, "hardware": [CPU], "launch": "terraform"})
    assert not refused.is_error
    assert refused.structured_content["ranked"]
    assert "format" in refused.structured_content["launch_problem"]


def test_without_a_service_what_ships_answers_and_sql_is_refused(tmp_path: Path) -> None:
    async def asked(client: Client) -> list[Any]:
        fit = await client.call_tool("fit", {"model": MODEL, "hardware": "nvidia-l4", "precision": "fp16"})
        query = await client.call_tool("query", {"sql": "select 1"})
        coverage = await client.read_resource("assay://coverage")
        return [fit, query, json.loads(coverage.contents[0].text)]

    fit, query, coverage = drive(stdio(ASSAY_HOME=str(tmp_path)), asked)
    assert fit.structured_content["fits"][0]["largest_batch"] > 1
    assert coverage["position"] == fit.structured_content["position"] > 70_000
    assert query.is_error
    assert "assay up" in query.structured_content["remedy"]


def test_service_that_is_away_is_an_error_with_a_remedy() -> None:
    result = call(stdio("--server", "http://127.0.0.1:1"), "recommend", {"model": MODEL})
    assert result.is_error
    assert result.structured_content["field"] == "server"
    assert "assay up" in result.structured_content["remedy"]


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1:1"}]
)
def test_pages_of_other_origins_are_refused(address: str, headers: dict[str, str]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    answer = httpx.post(address, json=body, headers={**accept, **headers})
    assert answer.status_code == 403
    assert answer.json()["remedy"]


def test_callers_bring_their_own_token_where_the_service_wants_one(fresh_service: Any, database: Any) -> None:
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    from api.http.tokens import TokenStore

    secret, _ = TokenStore(database.url).create("agent", ["read"])
    guarded = fresh_service().start_with(secret)

    async def asked(url: str) -> Any:
        bearer = {"Authorization": f"Bearer {secret}"}
        async with (
            create_mcp_http_client(headers=bearer) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return await client.call_tool("query", {"sql": "select 1 as one"})

    process, url = started("--server", guarded.url)
    try:
        assert asyncio.run(asked(url)).structured_content["rows"] == [[1]]
        for header in ({}, {"Authorization": "Bearer assay_wrong"}):
            answer = httpx.post(url, json={}, headers=header)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    finally:
        stopped(process)


def test_beyond_loopback_only_where_the_service_wants_tokens(filled: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ended = run(["mcp", "--transport", "http", "--host", "0.0.0.0", "--port", "0", "--server", filled.url])
    assert ended == 2
    assert "assay token create" in capsys.readouterr().err


def test_port_in_use_is_said(address: str, filled: Any, capsys: pytest.CaptureFixture[str]) -> None:
    port = address.rsplit(":", 1)[1].removesuffix("/mcp")
    assert run(["mcp", "--transport", "http", "--port", port, "--server", filled.url]) == 2
    assert "--port" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "root"), [("claude", "mcpServers"), ("cursor", "mcpServers"), ("vscode", "servers")])
def test_configuration_names_the_command_and_no_token(
    filled: Any, name: str, root: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_TOKEN", "assay_secret")
    assert run(["mcp", "--print-config", name, "--server", filled.url]) == 0
    out = capsys.readouterr().out
    assert "assay_secret" not in out
    entry = json.loads(out)[root]["assay"]
    assert entry["args"][-3:] == ["mcp", "--server", filled.url]
    assert Path(entry["command"]).is_file()
