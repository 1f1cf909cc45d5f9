"""The client: what it retries, what it does not, and how it says what was refused; against a real HTTP server."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from assay import Client
from assay.service import free_port
from domain.errors import (
    AssayError,
    ConflictingEvent,
    InvalidEvent,
    ServiceUnavailable,
    TooBusy,
    UsageError,
    VersionConflict,
)

Answer = tuple[int, dict[str, str], Any]
BROKEN: Answer = (0, {}, None)
"""The connection is closed without an answer."""


class Scripted:
    """A server that answers request after request as told; the last answer holds for all that follow."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.times: list[float] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                script.times.append(time.monotonic())
                script.asked.append((self.command, self.path, dict(self.headers), body))
                status, headers, content = script.answers[min(len(script.asked), len(script.answers)) - 1]
                if status == 0:
                    self.close_connection = True
                    return
                sent = json.dumps(content).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(sent))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = answer  # noqa: N815 - the names that http.server calls

            def log_message(self, *_: Any) -> None:
                """Say nothing on stderr."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []

    def make(*answers: Answer) -> Scripted:
        made.append(Scripted())
        made[-1].answers = list(answers)
        return made[-1]

    yield make
    for server in made:
        server.close()


def problem(kind: str, status: int, **members: Any) -> Answer:
    return status, {}, {"type": f"urn:assay:problem:{kind}", "status": status, "detail": "no.", **members}


def receipt(accepted: int, **members: Any) -> Answer:
    told = {"accepted": accepted, "duplicate": 0, "rejected": [], "warnings": [], "last_position": accepted}
    return 200, {}, {**told, **members}


def event(number: int) -> dict[str, Any]:
    return {"id": f"{number}", "type": "acme.seen.v1"}


def test_busy_and_away_are_tried_again_after_the_time_that_was_said(scripted):
    later = {"Retry-After": "0.3"}
    server = scripted((503, later, {}), (429, later, {}), receipt(1))
    with Client(server.url) as client:
        assert client.post_events([event(1)])["accepted"] == 1
    assert len(server.asked) == 3
    assert all(after - before >= 0.3 for before, after in zip(server.times, server.times[1:], strict=False))
    assert server.asked[0][3] == server.asked[2][3]


def test_without_a_time_the_wait_is_short_and_random(scripted):
    server = scripted((503, {}, {}), receipt(1))
    with Client(server.url) as client:
        client.post_events([event(1)])
    assert server.times[1] - server.times[0] < 1.0


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_pass_is_tried_again(scripted, status):
    server = scripted((status, {}, {}), receipt(1))
    with Client(server.url) as client:
        assert client.post_events([event(1)])["accepted"] == 1
    assert len(server.asked) == 2


def test_a_connection_that_breaks_is_made_again_with_the_same_events(scripted):
    server = scripted(BROKEN, BROKEN, receipt(1))
    with Client(server.url) as client:
        assert client.post_events([event(1)])["accepted"] == 1
    assert [body for *_, body in server.asked] == [server.asked[0][3]] * 3


def test_what_would_be_done_twice_is_not_sent_twice(scripted):
    server = scripted(BROKEN, (201, {}, {}))
    with Client(server.url) as client, pytest.raises(ServiceUnavailable):
        client.create_token("one", ["read"])
    assert len(server.asked) == 1
    busy = scripted((429, {}, {}), (201, {}, {"secret": "s", "token": {}}))
    with Client(busy.url) as client:
        assert client.create_token("one", ["read"])["secret"] == "s"
    assert json.loads(busy.asked[1][3]) == {"name": "one", "scopes": ["read"]}


def test_a_decision_says_what_it_rests_on_and_the_conflict_says_what_there_is(scripted):
    server = scripted(receipt(1), problem("version-conflict", 409, version=7))
    with Client(server.url) as client:
        client.decide("acme/one", 3, [event(1), b'{"id": "2"}'])
        with pytest.raises(VersionConflict) as late:
            client.decide("acme/one", 3, [event(1)])
    assert late.value.version == 7
    assert server.asked[0][1] == "/v1/events?subject=acme%2Fone&expected_version=3"
    assert [one["id"] for one in json.loads(server.asked[0][3])] == ["1", "2"]


def test_the_log_is_read_page_by_page_under_its_filters(scripted):
    first = {"events": [{"position": 4}], "next": "/v1/events?after=4"}
    server = scripted((200, {}, first), (200, {}, {"events": [], "next": None}))
    with Client(server.url) as client:
        assert list(client.events(after=2, upto=9, types=["a", "b"], subject="s")) == [{"position": 4}]
    assert [path for _, path, *_ in server.asked] == [
        f"/v1/events?after={after}&limit=1000&upto=9&type=a&type=b&subject=s" for after in (2, 4)
    ]


def test_a_problem_of_a_newer_service_is_judged_by_its_status(scripted):
    server = scripted(problem("brand-new", 429))
    with Client(server.url, patience_s=0) as client, pytest.raises(TooBusy):
        client.ready()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 500])
def test_no_other_answer_is_tried_again(scripted, status):
    server = scripted((status, {}, {"detail": "no."}), receipt(1))
    with Client(server.url) as client, pytest.raises(AssayError):
        client.post_events([event(1)])
    assert len(server.asked) == 1


def test_proxy_of_the_environment_is_not_between_a_program_and_its_service(scripted, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server = scripted((200, {}, {"log_position": 7}))
    with Client(server.url, patience_s=0) as client:
        assert client.ready() == {"log_position": 7}


def test_patience_has_an_end(scripted):
    server = scripted(problem("too-busy", 429, remedy="Retry."))
    with Client(server.url, patience_s=0.3) as client, pytest.raises(TooBusy):
        client.post_events([event(1)])
    assert len(server.asked) >= 2


def test_nobody_there_is_one_sentence():
    with Client(f"http://127.0.0.1:{free_port()}", patience_s=0.2) as client, pytest.raises(ServiceUnavailable) as told:
        client.ready()
    assert told.value.field == "server"
    assert "assay up" in str(told.value)
    with Client("nonsense", patience_s=0) as client, pytest.raises(UsageError):
        client.ready()


def test_a_problem_becomes_the_error_of_its_type(scripted):
    server = scripted(problem("invalid-event", 422, field="data.model", remedy="Name it."))
    with Client(server.url) as client, pytest.raises(InvalidEvent) as told:
        client.recommend("one")
    assert (told.value.detail, told.value.field, told.value.remedy) == ("no.", "data.model", "Name it.")
    other = scripted(problem("conflicting-event", 409))
    with Client(other.url) as client, pytest.raises(ConflictingEvent):
        client.recommend("one")


def test_batches_are_added_up_and_indexes_are_of_the_whole(scripted):
    refusal = {"index": 1, "id": "x", "type": "t", "detail": "no.", "field": None}
    server = scripted(
        receipt(2, last_position=2), receipt(1, last_position=3, rejected=[refusal]), receipt(1, last_position=4)
    )
    sent: list[int] = []
    with Client(server.url) as client:
        told = client.post_events(map(event, range(5)), batch=2, on_batch=sent.append)
    assert (told["accepted"], told["last_position"]) == (4, 4)
    assert [one["index"] for one in told["rejected"]] == [3]
    assert sent == [2, 2, 1]
    assert [len(body.splitlines()) for *_, body in server.asked] == [2, 2, 1]


def test_a_batch_of_which_nothing_is_taken_is_an_answer_too(scripted):
    refusal = {"index": 0, "id": "x", "type": "t", "detail": "no.", "field": "id"}
    server = scripted(problem("invalid-event", 422, accepted=0, duplicate=0, rejected=[refusal], warnings=[]))
    with Client(server.url) as client:
        told = client.post_events([event(1)])
    assert (told["accepted"], told["rejected"]) == (0, [refusal])


def test_the_token_is_sent_and_lists_are_read_to_their_end(scripted):
    server = scripted(
        (200, {}, {"items": [{"id": 1}], "next_cursor": "c"}), (200, {}, {"items": [{"id": 2}], "next_cursor": None})
    )
    with Client(server.url, token="assay_secret") as client:
        assert client.measurements(model="one") == [{"id": 1}, {"id": 2}]
    assert [path for _, path, *_ in server.asked] == [
        "/v1/measurements?limit=1000&model=one", "/v1/measurements?cursor=c&limit=1000&model=one",
    ]  # fmt: skip
    assert server.asked[0][2]["Authorization"] == "Bearer assay_secret"


@pytest.fixture(scope="module")
def private_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address of a server with TLS, and the certificate that no public authority signed."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "authority.pem"
    file.write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file, folder / "key.pem")
    script = Scripted(context)
    script.answers = [(200, {}, {"status": "ready"})]
    yield f"https://localhost:{script.server.server_port}", file
    script.close()


def test_an_authority_of_ones_own_is_trusted_where_it_is_named(private_authority, monkeypatch):
    url, file = private_authority
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with Client(url, patience_s=0) as client, pytest.raises(ServiceUnavailable):
        client.ready()
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with Client(url, patience_s=0) as client:
        assert client.ready()["status"] == "ready"


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_of_authorities_that_cannot_be_read_is_named(content, tmp_path, monkeypatch):
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(UsageError) as error:
        Client("https://localhost:1")
    assert error.value.field == "SSL_CERT_FILE"
    assert str(file) in error.value.detail
    Client("http://localhost:1").close()


def test_the_front_door_brings_nothing_heavy_along():
    heavy = ["litestar", "duckdb", "lightgbm", "torch", "streamlit", "numpy", "pyarrow", "sqlalchemy", "psycopg"]
    code = f"import sys, assay, assay.client; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
