"""`assay bench --endpoint` as it is typed: through the spool into a service, and what is then said of its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.cli import run
from tests.integration.endpoint.conftest import Echo

MODEL = "endpoint-tests/spoken"
GPU = "acme-endpoint-9"


@pytest.fixture(scope="module")
def said(echo: Echo) -> list[str]:
    return [
        "bench", "--endpoint", echo.url, "--model", MODEL, "--served-as", "echo", "--hardware", GPU, "--platform", "cuda",
        "--precision", "fp8", "--runtime", "vllm==0.11.0", "--output-tokens", "4", "--input-tokens", "16",
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    return tmp_path


def test_rows_answer_questions_and_are_never_ones_own_hardware(
    said: list[str], service: Any, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*said, "--concurrency", "3", "--iterations", "12", "--server", service.url]) == 0
    told = capsys.readouterr()
    assert "as stated" in told.out
    assert "×3" in told.out
    # So few queries bound no 99th percentile: the answer to whether the scenario is valid is no.
    queued = ["--target-qps", "60", "--target-latency", "5000", "--iterations", "30", "--server", service.url]
    assert run([*said, *queued]) == 1
    assert "30 queries cannot bound p99; 459 can" in " ".join(capsys.readouterr().err.split())

    sizes = {"input_tokens": 16, "output_tokens": 4}
    answer = client.recommend(MODEL, platform="cuda", concurrency=3, **sizes)
    (first,) = [one for one in answer["ranked"] if one["basis"] == "measured"]
    assert first["hardware"] == GPU
    assert "at an endpoint, its hardware as stated" in first["why"]
    assert run(["recommend", MODEL, "--hardware", "own", "--concurrency", "3", "--json", "--server", service.url]) == 1
    assert GPU not in json.dumps(json.loads(capsys.readouterr().out)["ranked"])


def test_a_file_is_gone_on_with_and_stdout_is_json_alone(
    said: list[str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(home / "served.ndjson")
    assert run([*said, "--concurrency", "1", "--iterations", "3", "--out", out]) == 0
    capsys.readouterr()
    code = run([*said, "--concurrency", "1,2", "--iterations", "4", "--out", out, "--resume", "--json"])
    assert code == 0
    rows = [event for event in json.loads(capsys.readouterr().out) if event["type"] == "assay.measurement.recorded.v1"]
    assert [row["data"]["workload"]["concurrency"] for row in rows] == [2]


@pytest.mark.parametrize(
    ("left_out", "more", "told"),
    [
        ("--hardware", [], "--hardware unknown"),
        ("--platform", [], "--platform cuda"),
        ("--precision", [], "--precision fp16"),
        ("--model", [], "--model NAME"),
        (None, ["--threads", "2"], "--threads is not heard with --endpoint"),
        (None, ["--platform", "vacuum"], "'vacuum' is no platform"),
        (None, ["--concurrency", "2", "--request-rate", "4"], "contradicts a rate"),
        (None, ["--scenario", "server"], "--target-qps 4"),
        (None, ["--api", "http"], "--body FILE"),
        (None, ["--resume"], "goes with --out"),
        (None, ["--slo", "speed=9"], "is no objective"),
        (None, ["--endpoint", "localhost"], "is no address of an endpoint"),
    ],
)
def test_what_is_not_said_is_asked_for_by_name(
    said: list[str], capsys: pytest.CaptureFixture[str], left_out: str | None, more: list[str], told: str
) -> None:
    words = list(said)
    if left_out:
        at = words.index(left_out)
        del words[at : at + 2]
    assert run([*words, *more]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_what_only_endpoints_have_is_refused_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "bert-tiny", "--concurrency", "4"]) == 2
    assert "--concurrency is of endpoints alone" in " ".join(capsys.readouterr().err.split())
