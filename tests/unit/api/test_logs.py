"""Lines of the log, and the ids that they and the answers carry."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import msgspec
import pytest

from api.http.logs import CURRENT, JsonLines, RequestRecord, request_id
from domain.permissions import Token


@pytest.mark.parametrize("good", [b"a", b"Req-1.2_x", b"x" * 64])
def test_an_id_that_was_sent_is_kept(good):
    assert request_id(good) == good.decode()


@pytest.mark.parametrize(
    "bad", [None, b"", b"x" * 65, b"a b", b"a\nb", "ä".encode(), b'"}', b"\x00", b"assay_0123456789"]
)
def test_another_is_replaced(bad):
    one, other = request_id(bad), request_id(bad)
    assert one != other
    assert request_id(one.encode()) == one


def test_a_line_names_the_request_and_the_token_but_no_secret():
    token = Token(
        id="1", prefix="assay_abc", name="ci", source=None, scopes=["read"], expires_at=None, revoked_at=None,
        created_at=datetime.now(UTC),
    )  # fmt: skip
    record = logging.LogRecord("api", logging.WARNING, "x.py", 1, "it %s\nbroke", ("really",), None)
    asked = RequestRecord("req-1", "GET", "/v1/runs")
    asked.token = token
    before = CURRENT.set(asked)
    try:
        line = JsonLines().format(record)
    finally:
        CURRENT.reset(before)
    assert "\n" not in line
    told = msgspec.json.decode(line)
    assert (told["level"], told["message"], told["logger"]) == ("warning", "it really\nbroke", "api")
    assert (told["request_id"], told["token"]) == ("req-1", "assay_abc… ci")
    assert "request_id" not in msgspec.json.decode(JsonLines().format(record))
