"""Messages about alerts reach real receivers: signed, by a checked address, and without a secret where it fails."""

from __future__ import annotations

import asyncio
import base64
import email
import email.policy
import hashlib
import hmac
import json
import logging
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from api.alerts import receivers
from api.alerts.receivers import Outcome, is_public, send, signature
from domain.history.notices import trial_message
from domain.history.routes import Email, Receiver, Route, Webhook
from tests.integration.alert_receivers import Hook, MailServer, certificate

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN = "T000-B000-XXXXXXXXXXXXXXXX"
PASSWORD = "correct-horse-battery"
IDENTIFIER = "0198c0de-0000-7000-8000-000000000001"
MESSAGE = trial_message("nlp", datetime.now(UTC))


def sent(route: Route, **environment: str) -> Outcome:
    return asyncio.run(send(route, IDENTIFIER, MESSAGE, environment))


def hooked(url: str | None = None, **more: Any) -> Route:
    values = {"secret_env": "ASSAY_SECRET", "allow_private": True, **more}
    return Route(name="nlp", to=Receiver(webhook=Webhook(url=url, **values)))


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook().running() as running:
        yield running


def test_a_webhook_is_signed_after_the_standard(hook: Hook) -> None:
    outcome = sent(hooked(hook.url), ASSAY_SECRET=SECRET)
    assert outcome == Outcome(delivered=True, detail="HTTP 204 No Content")
    ((path, headers, body),) = hook.got
    assert path == "/hook"
    assert headers["webhook-id"] == IDENTIFIER
    assert abs(int(headers["webhook-timestamp"]) - datetime.now(UTC).timestamp()) < 60
    content = b".".join((IDENTIFIER.encode(), headers["webhook-timestamp"].encode(), body))
    digest = hmac.new(base64.b64decode(SECRET.removeprefix("whsec_")), content, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert json.loads(body)["data"]["route"] == "nlp"


def test_the_signature_is_that_of_the_specification() -> None:
    # The example of the specification's reference libraries.
    body = b'{"test": 2432232314}'
    made = signature(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_while_a_secret_changes_both_sign(hook: Hook) -> None:
    other = "whsec_" + base64.b64encode(b"x" * 32).decode()
    assert sent(hooked(hook.url), ASSAY_SECRET=f"{SECRET} {other}").delivered
    signatures = hook.got[0][1]["webhook-signature"].split()
    assert len(signatures) == 2
    assert all(each.startswith("v1,") for each in signatures)


def test_a_secret_may_be_in_a_file(hook: Hook, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    assert sent(hooked(hook.url), ASSAY_SECRET_FILE=str(tmp_path / "secret")).delivered
    assert not sent(hooked(hook.url), ASSAY_SECRET_FILE=str(tmp_path / "none")).delivered


def test_slack_gets_text_and_blocks_without_a_signature(hook: Hook) -> None:
    route = hooked(url_env="ASSAY_URL", secret_env=None, format="slack")
    assert sent(route, ASSAY_URL=f"{hook.url}/{TOKEN}").delivered
    ((path, headers, body),) = hook.got
    assert path == f"/hook/{TOKEN}"
    assert "webhook-signature" not in headers
    document = json.loads(body)
    assert document["text"] == document["blocks"][0]["text"]["text"]
    assert [block["type"] for block in document["blocks"]] == ["header", "section", "context"]


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (500, {}, (False, None)),
        (404, {"retry-after": "30"}, (False, None)),
        (410, {}, (True, None)),
        (429, {"retry-after": "120"}, (False, 120.0)),
        (503, {"retry-after": "Wed, 01 Jan 2020 00:00:00 GMT"}, (False, 0.0)),
        (429, {"retry-after": "9999999"}, (False, 86400.0)),
        (429, {"retry-after": "soon"}, (False, None)),
    ],
)
def test_an_answer_says_whether_and_when_to_send_again(
    hook: Hook, status: int, headers: dict[str, str], expected: tuple[bool, float | None]
) -> None:
    hook.answers = [(status, headers)]
    outcome = sent(hooked(hook.url), ASSAY_SECRET=SECRET)
    assert not outcome.delivered
    assert str(status) in outcome.detail
    assert (outcome.gone, outcome.retry_after_s) == expected


def test_redirects_and_proxies_are_not_followed(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    with Hook().running() as other:
        monkeypatch.setenv("HTTP_PROXY", other.url)
        monkeypatch.setenv("ALL_PROXY", other.url)
        hook.answers = [(307, {"location": other.url})]
        outcome = sent(hooked(hook.url), ASSAY_SECRET=SECRET)
        assert not outcome.delivered
        assert len(hook.got) == 1
        assert other.got == []


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"],
)
def test_a_private_address_gets_nothing_unless_allowed(hook: Hook, host: str) -> None:
    outcome = sent(hooked(f"http://{host}:{hook.port}/hook", allow_private=False), ASSAY_SECRET=SECRET)
    assert not outcome.delivered
    # The library refuses octal numbers before anything is resolved.
    assert "private" in outcome.detail or host.startswith("0177")
    assert hook.got == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("10.0.0.1", False), ("172.16.0.1", False),
        ("192.168.1.1", False), ("169.254.169.254", False), ("168.63.129.16", False), ("100.100.100.200", False),
        ("0.0.0.0", False), ("224.0.0.1", False), ("255.255.255.255", False), ("198.18.0.1", False),
        ("::1", False), ("::", False), ("fe80::1%eth0", False), ("fd00:ec2::254", False), ("fec0::1", False),
        ("::ffff:10.0.0.1", False), ("::ffff:8.8.8.8", True), ("::127.0.0.1", False), ("64:ff9b::7f00:1", False),
        ("64:ff9b::808:808", True), ("2002:7f00:1::", False), ("2001:db8::1", False), ("ff02::1", False), ("x", False),
    ],
)  # fmt: skip
def test_public_addresses_are_told_from_private_ones(address: str, public: bool) -> None:
    assert is_public(address) is public


def names(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], list[str]]) -> list[str]:
    """Let the system's resolver answer for *.test names, and return the list of those that were asked."""
    asked: list[str] = []
    system = socket.getaddrinfo

    def resolve(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if not str(host).endswith(".test"):
            return system(host, port, *arguments, **options)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer()]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


def test_every_address_of_a_name_is_checked(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, lambda: ["8.8.8.8", "127.0.0.1"])
    outcome = sent(hooked(f"http://hooks.test:{hook.port}/", allow_private=False), ASSAY_SECRET=SECRET)
    assert "private" in outcome.detail
    assert hook.got == []


def test_the_address_that_was_checked_is_the_one_that_is_used(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    asked = names(monkeypatch, lambda: next(answers))
    assert sent(hooked(f"http://hooks.test:{hook.port}/"), ASSAY_SECRET=SECRET).delivered
    assert asked == ["hooks.test"]
    assert hook.got[0][1]["host"] == f"hooks.test:{hook.port}"


def test_the_certificate_must_be_that_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, public = certificate(tmp_path, "hooks.test")
    seen: list[str | None] = []
    context.sni_callback = lambda _, name, __: seen.append(name)
    names(monkeypatch, lambda: ["127.0.0.1"])
    monkeypatch.setenv("SSL_CERT_FILE", str(public))
    with Hook(context).running() as secure:
        assert sent(hooked(f"https://hooks.test:{secure.port}/"), ASSAY_SECRET=SECRET).delivered
        refused = sent(hooked(f"https://other.test:{secure.port}/"), ASSAY_SECRET=SECRET)
        assert "certificate" in refused.detail
        assert seen == ["hooks.test", "other.test"]
        assert len(secure.got) == 1


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.mark.parametrize("environment", [{}, {"ASSAY_SECRET": TOKEN}, {"ASSAY_SECRET": "whsec_AAAA"}])
def test_a_missing_or_weak_secret_sends_nothing(hook: Hook, environment: dict[str, str]) -> None:
    outcome = sent(hooked(hook.url), **environment)
    assert "ASSAY_SECRET" in outcome.detail
    assert TOKEN not in outcome.detail
    assert hook.got == []


def test_no_secret_is_in_errors_or_logs(hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    hook.answers = [(500, {"x-echo": TOKEN})]
    environment = {"ASSAY_SECRET": SECRET, "ASSAY_URL": f"{hook.url}/{TOKEN}?token={TOKEN}", "ASSAY_PASSWORD": PASSWORD}
    broken = {"ASSAY_URL": f"http://user:{TOKEN}@127.0.0.1:{closed_port()}/{TOKEN}"}
    route = hooked(url_env="ASSAY_URL", secret_env="ASSAY_SECRET")
    details = [sent(route, **environment).detail, sent(route, **{**environment, **broken}).detail]
    details.append(sent(route, **{**environment, "ASSAY_URL": f"{TOKEN}://x"}).detail)
    with MailServer(refuse=535).running() as server:
        mail = mailed(server, tls="none")
        details.append(sent(mail, **{**environment, "ASSAY_PASSWORD": f"{PASSWORD}é"}).detail)
        details.append(sent(mail, **environment).detail)
        assert PASSWORD in server.logins[0]
    for text in (*details, caplog.text):
        assert TOKEN not in text
        assert PASSWORD not in text
        assert SECRET.removeprefix("whsec_") not in text
    assert "535" in details[-1]


def mailed(server: MailServer, **more: Any) -> Route:
    values: dict[str, Any] = {
        "to": ("team@example.org", "lead@example.org"), "sender": "assay@example.org", "host": "localhost",
        "port": server.port, "username": "assay", "password_env": "ASSAY_PASSWORD", **more,
    }  # fmt: skip
    return Route(name="mail", to=Receiver(email=Email(**values)))


def test_a_mail_has_text_and_html_and_the_id_of_the_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, public = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(public))
    with MailServer(context).running() as server:
        assert sent(mailed(server), ASSAY_PASSWORD=PASSWORD).delivered
        assert server.encrypted
        assert server.logins == [f"\0assay\0{PASSWORD}"]
        mail = email.message_from_bytes(server.mails[0], policy=email.policy.default)
    assert mail["Message-ID"] == f"<{IDENTIFIER}@example.org>"
    assert mail["To"] == "team@example.org, lead@example.org"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
    assert all("bert-base-uncased" in part.get_content() for part in mail.iter_parts())


def test_a_mail_server_with_another_certificate_gets_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, public = certificate(tmp_path, "mail.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(public))
    with MailServer(context).running() as server:
        outcome = sent(mailed(server), ASSAY_PASSWORD=PASSWORD)
        assert "certificate" in outcome.detail
        assert server.logins == []


def test_a_receiver_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        outcome = sent(hooked(f"http://127.0.0.1:{port}/"), ASSAY_SECRET=SECRET)
        assert "no answer" in outcome.detail
        smtp = Route(
            name="m",
            to=Receiver(email=Email(to=("a@b.org",), sender="c@d.org", host="127.0.0.1", port=port, tls="none")),
        )
        assert "no answer" in sent(smtp).detail
    refused = sent(hooked(f"http://127.0.0.1:{closed_port()}/"), ASSAY_SECRET=SECRET)
    assert "connect" in refused.detail
