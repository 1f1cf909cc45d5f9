"""Every answer is as the OpenAPI document says it: schemathesis over the whole of it, with all checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.http.tokens import TokenStore

HERE = Path(__file__).resolve().parent
SECONDS = int(os.environ.get("ASSAY_CONTRACT_SECONDS", "600"))
ENDLESS = "stream|train|shipped-data|work/claims$"
"""A stream never ends, a training takes seconds, a claim waits for a job, and with all that ships in the log scores take
longer than a request may: each has tests of its own."""


@pytest.fixture
def guarded(fresh_service: Any, database: Any, append: Any, build: Any) -> Any:
    """A service with an admin's token (the first token that a caller makes would lock it out) and some rows."""
    append([build.measurement(batch_size=size) for size in (1, 2, 4)] + [build.test(), build.failure()])
    secret, _ = TokenStore(database.url).create("root", ["admin"])
    service = fresh_service()
    service.environment = {"ASSAY_RATE_LIMIT": "off"}
    return service.start_with(secret)


def explored(service: Any, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(Path(sys.executable).with_name("st")), "--config-file", str(HERE / "schemathesis.toml"), "run",
        f"{service.url}/schema/openapi.json", "--checks", "all", "-H", f"Authorization: Bearer {service.token}",
        "--request-timeout", "30", "--no-color", "--generation-database", "none", *arguments,
    ]  # fmt: skip
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def failures(service: Any, ended: subprocess.CompletedProcess[str]) -> str:
    errors = [line for line in service.log.read_text().splitlines() if '"level":"error"' in line]
    return "\n".join([ended.stdout[-6000:], ended.stderr[-2000:], *errors[:3]])


def test_some_of_every_route_is_as_documented(guarded, tmp_path):
    ended = explored(
        guarded, tmp_path, "--phases", "examples,fuzzing", "-n", "8", "--max-time", "15", "--seed", "7",
        "--exclude-path-regex", ENDLESS, "--exclude-method", "DELETE",
    )  # fmt: skip
    assert ended.returncode == 0, failures(guarded, ended)
    with guarded.client() as client:
        assert client.ready()["status"] == "ready"


@pytest.mark.torture
def test_all_of_every_route_is_as_documented(guarded, tmp_path):
    ended = explored(
        guarded, tmp_path, "--phases", "examples,coverage,fuzzing", "-n", "200", "--max-time", str(SECONDS),
        "--continue-on-failure", "--exclude-path-regex", ENDLESS, "--exclude-method", "DELETE",
    )  # fmt: skip
    assert ended.returncode == 0, failures(guarded, ended)
    revoking = explored(guarded, tmp_path, "--phases", "coverage,fuzzing", "-n", "100", "--include-method", "DELETE")
    assert revoking.returncode == 0, failures(guarded, revoking)
    with guarded.client() as client:
        assert client.ready()["status"] == "ready"


def test_the_document_tells_of_bodies_refusals_and_keys(service):
    schema = httpx.get(f"{service.url}/schema").json()
    body = schema["paths"]["/v1/events"]["post"]["requestBody"]["content"]
    assert set(body) == {
        "application/json", "application/cloudevents+json", "application/cloudevents-batch+json",
        "application/x-ndjson",
    }  # fmt: skip
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            told = operation["responses"]
            if path.startswith("/health"):
                assert "security" not in operation
                continue
            assert operation["security"] == [{"token": []}, {}], (path, method)
            for status in ("401", "403", "429", "500", "503"):
                assert told[status]["content"].keys() == {"application/problem+json"}, (path, method)
            assert "Retry-After" in told["503"]["headers"]


def test_every_path_names_its_methods(service):
    for path, methods in (
        ("/v1/events", {"GET", "POST", "OPTIONS"}), ("/v1/tokens", {"GET", "POST", "OPTIONS"}),
        ("/v1/models/a/b", {"GET", "OPTIONS"}), ("/v1/query", {"POST", "OPTIONS"}),
    ):  # fmt: skip
        for method in ("OPTIONS", "PATCH"):
            answer = httpx.request(method, service.url + path)
            assert answer.status_code == (405 if method == "PATCH" else 204)
            assert set(answer.headers["allow"].split(", ")) == methods, path
