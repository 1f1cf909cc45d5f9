"""Endpoints that are slow, broken, locked, lying about what they are: each is an outcome, and nothing hangs."""

from __future__ import annotations

import shlex
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.integration.endpoint.conftest import GAP_MS, Bench, Echo, bench_of


@pytest.mark.parametrize(
    ("model", "error", "outcome", "stage", "remedy"),
    [
        ("slow", "EndpointSlow", "timeout", "first_run", "--request-timeout"),
        ("broken", "BrokenAnswer", "error", "first_run", "log"),
        ("whole", "NotStreamed", "unsupported", "resolve", "--no-stream"),
        ("html", "UnreadableAnswer", "error", "first_run", "--api"),
        ("page", "UnreadableAnswer", "error", "first_run", "--api"),
        ("elsewhere", "RedirectRefused", "error", "resolve", "--endpoint"),
        ("beside", "RedirectRefused", "error", "resolve", "--endpoint"),
        ("locked", "Unauthorised", "error", "resolve", "ASSAY_ENDPOINT_KEY"),
        ("missing", "NotServed", "error", "resolve", "--served-as"),
        ("erring", "ServerError", "error", "first_run", "log"),
    ],
)
def test_each_is_an_outcome_with_stage_and_remedy(
    bench: Bench, model: str, error: str, outcome: str, stage: str, remedy: str
) -> None:
    began = time.monotonic()
    ran = bench(model, patience_s=0.6)
    failed = ran.failure
    assert (failed["failure"]["error"], failed["outcome"], failed["stage"]) == (error, outcome, stage)
    assert remedy in failed["remedy"]
    assert failed["hardware"]["id"] == "acme-h9"
    assert ran.report.exit_code == 1
    assert time.monotonic() - began < 6


def test_a_redirect_says_where_to_and_names_no_host(bench: Bench) -> None:
    message = bench("elsewhere").failure["failure"]["message"]
    assert "another host" in message
    assert "elsewhere.example" not in message
    assert "another address of the same host" in bench("beside").failure["failure"]["message"]


def test_what_a_server_says_is_quoted(bench: Bench) -> None:
    assert bench("locked").failure["failure"]["message"] == "it answers 401: Incorrect API key provided."


def test_a_key_opens_and_is_in_no_event(bench: Bench) -> None:
    ran = bench("locked", key="open-sesame")
    assert ran.row
    assert "open-sesame" not in repr(ran.events)


def test_whole_answers_are_measured_where_that_is_asked(bench: Bench) -> None:
    metrics = bench("whole", streams=False).row["metrics"]
    assert "ttft_ms" not in metrics
    assert "tpot_ms" not in metrics
    assert metrics["tokens_per_s"] > 0


def test_requests_that_fail_beside_good_ones_are_counted_and_told(echo_alone: Echo) -> None:
    row = bench_of(echo_alone.url, "wobbling", concurrency=(2,), iterations=12).row
    assert row["validity"]["verdict"] == "suspect"
    assert any("requests failed (ServerError)" in reason for reason in row["validity"]["reasons"])
    assert row["observed"]["details"]["failed_requests"] > 0


def test_a_server_that_goes_away_ends_the_load_and_the_next_says_so(echo_alone: Echo) -> None:
    ran = bench_of(echo_alone.url, "vanishing", concurrency=(2, 1), iterations=100)
    gone, refused = ran.of("measurement.failed")
    assert (gone["failure"]["error"], gone["stage"]) == ("EndpointGone", "run")
    assert "--resume" in gone["remedy"]
    assert (refused["failure"]["error"], refused["stage"]) == ("EndpointUnreachable", "resolve")
    assert "refused" in refused["failure"]["message"]


def test_a_name_that_does_not_resolve_is_an_outcome() -> None:
    failed = bench_of("http://nowhere.invalid:1").failure
    assert (failed["failure"]["error"], failed["stage"]) == ("EndpointUnreachable", "resolve")


def test_a_server_without_tls_is_an_outcome(echo: Echo) -> None:
    failed = bench_of(echo.url.replace("http://", "https://")).failure
    assert (failed["failure"]["error"], failed["stage"]) == ("EndpointUnreachable", "resolve")
    assert "scheme" in failed["remedy"]


def test_a_certificate_that_nobody_vouches_for_is_refused_and_one_that_is_trusted_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    made = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run([*shlex.split(said), *made], check=True, capture_output=True)
    server = Echo("--certificate", str(tmp_path))
    try:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        failed = bench_of(url).failure
        assert "certificate verify failed" in failed["failure"]["message"].lower().replace("_", " ")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        row = bench_of(url, concurrency=(2,)).row
        assert row["observed"]["details"]["client"]["stamps"] == "client"
        assert row["metrics"]["tpot_ms"] == pytest.approx(GAP_MS, rel=0.4)
    finally:
        server.stop()


def test_a_server_that_speaks_no_http_is_an_outcome() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.recv(65536)
                caller.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                caller.recv(65536)

        thread = threading.Thread(target=greet)
        thread.start()
        failed = bench_of(f"http://127.0.0.1:{listener.getsockname()[1]}").failure
        thread.join(10)
    assert failed["failure"]["error"] == "UnreadableAnswer"
    assert failed["stage"] == "first_run"


def test_a_load_that_takes_too_long_ends(bench: Bench) -> None:
    began = time.monotonic()
    failed = bench(output_tokens=(4000,), timeout_s=0.5, patience_s=1.0).failure
    assert failed["outcome"] == "timeout"
    assert time.monotonic() - began < 5


def test_no_connection_is_left_behind(bench: Bench) -> None:
    import psutil

    bench(concurrency=(8,), iterations=16)
    bench("slow", patience_s=0.4)
    assert not [one for one in psutil.Process().net_connections("tcp") if one.status == "ESTABLISHED"]
