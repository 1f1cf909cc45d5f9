"""`assay alerts routes`, and the example file and receiver of docs/alert-routes.md, run as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from assay.cli.serve.alert_routes import routes
from domain.errors import UsageError
from domain.history.routes import decode_routes
from tests.integration.alert_receivers import Hook

PAGE = (Path(__file__).parents[3] / "docs" / "alert-routes.md").read_text()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def block(language: str) -> str:
    """The first block of code in a language on the page."""
    match = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert match
    return match[1]


def typed(*arguments: str | Path) -> int:
    return int(routes.main([str(each) for each in arguments], prog_name="routes", standalone_mode=False))


def file_of(folder: Path, url: str) -> Path:
    path = folder / "alerts.yaml"
    path.write_text(
        f'routes: [{{name: nlp, to: {{webhook: {{url: "{url}", secret_env: ASSAY_NLP_SECRET, allow_private: true}}}}}}]'
    )
    return path


def test_the_example_of_the_page_is_a_routes_file() -> None:
    example = decode_routes(block("yaml"))
    assert [route.name for route in example.routes] == ["nlp-on-call", "team-channel", "weekly-good-news"]
    assert [owner.name for owner in example.owners] == ["nlp", "platform"]


def test_check_shows_what_owners_and_routes_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(block("yaml") + '\n  - name: none\n    match: {models: ["no-such-*"]}\n    to: {email: {to: [a@b.org], from: c@d.org, host: m}}\n')  # fmt: skip
    assert typed("check", "--file", path, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    by_name = {route["name"]: route for route in answer["routes"]}
    assert by_name["nlp-on-call"]["models"] < by_name["team-channel"]["models"]
    assert by_name["none"] == {
        "name": "none", "models": 0, "hardware": by_name["team-channel"]["hardware"], "unmatched": ["no-such-*"],
    }  # fmt: skip
    assert answer["unset"]["nlp-on-call"] == ["ASSAY_NLP_SECRET"]
    assert typed("check", "--file", path) == 0
    text = capsys.readouterr()
    assert max(len(line) for line in text.out.splitlines()) <= 100
    assert "no-such-*" in text.err
    assert "ASSAY_SLACK_URL" in text.out + text.err


def test_check_ends_with_the_field_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text("routes: [{name: a, too: {}}]")
    with pytest.raises(UsageError) as refused:
        typed("check", "--file", path)
    assert (refused.value.exit_code, refused.value.field) == (2, "routes[0].too")
    monkeypatch.setenv("ASSAY_ALERTS", str(tmp_path / "none.yaml"))
    with pytest.raises(UsageError) as missing:
        typed("check")
    assert missing.value.field == "ASSAY_ALERTS"


def test_test_sends_a_message_and_says_what_came_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_NLP_SECRET", SECRET)
    with Hook().running() as hook:
        path = file_of(tmp_path, hook.url)
        assert typed("test", "nlp", "--file", path) == 0
        hook.answers = [(403, {})]
        assert typed("test", "nlp", "--file", path) == 1
        with pytest.raises(UsageError):
            typed("test", "nobody", "--file", path)
    assert "403" in capsys.readouterr().out
    assert json.loads(hook.got[0][2])["type"] == "alert.test"


def started(source: str, port: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "ASSAY_NLP_SECRET": SECRET, "PORT": str(port)}
    process = subprocess.Popen(
        [sys.executable, "-c", source], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    until = time.monotonic() + 20
    while time.monotonic() < until and process.poll() is None:
        try:
            httpx.get(f"http://127.0.0.1:{port}/", trust_env=False)
        except httpx.HTTPError:
            time.sleep(0.02)
        else:
            break
    return process


def test_the_receiver_of_the_page_takes_what_is_signed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.service import free_port

    source, port = block("python"), free_port()
    assert len(source.splitlines()) <= 25
    monkeypatch.setenv("ASSAY_NLP_SECRET", SECRET)
    process = started(source, port)
    try:
        path = file_of(tmp_path, f"http://127.0.0.1:{port}/")
        assert typed("test", "nlp", "--file", path) == 0
        monkeypatch.setenv("ASSAY_NLP_SECRET", "whsec_" + "A" * 44)
        assert typed("test", "nlp", "--file", path) == 1
        _sent_twice(port)
    finally:
        process.terminate()
        lines, _ = process.communicate()
    assert [line.split()[0] for line in lines.splitlines()] == ["test", "once"]


def _sent_twice(port: int) -> None:
    from api.alerts.receivers import signature

    body = b'{"data": {"alerts": [{"state": "once", "title": "t"}]}}'
    now = str(int(time.time()))
    headers = {"webhook-id": "m1", "webhook-timestamp": now, "webhook-signature": signature(SECRET, "m1", now, body)}
    answers: Sequence[int] = [
        httpx.post(f"http://127.0.0.1:{port}/", content=body, headers=headers, trust_env=False).status_code
        for _ in range(2)
    ]
    assert answers == [204, 204]
