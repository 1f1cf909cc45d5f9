"""Lines of the log, and the ids that they and the answers carry."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.logs import CURRENT, AccessLog, Batch, JsonLines, RequestRecord, request_id
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


token = Token(
    id="1", prefix="assay_abc", name='c"i', source=None, scopes=["read"], expires_at=None, revoked_at=None,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)  # fmt: skip
counts = st.integers(0, 5000)
positions = st.none() | st.integers(1, 2**62)


@given(
    now_ns=st.integers(0, 4_000_000_000_000_000_000),
    path=st.text(max_size=20),
    sender=st.sampled_from((None, token)),
    problem=st.none() | st.sampled_from(("", "too-busy")),
    batch=st.none() | st.tuples(positions, positions, counts, counts, counts),
    status=st.integers(100, 599),
    duration_s=st.floats(0, 1e6),
)
def test_the_line_of_a_request_has_each_member_that_is_known(now_ns, path, sender, problem, batch, status, duration_s):
    asked = RequestRecord("req-1", "POST", path)
    asked.status, asked.token, asked.problem = status, sender, problem
    document = {
        "time": datetime.fromtimestamp(now_ns // 10**9, UTC)
        .replace(microsecond=now_ns // 1000 % 10**6)
        .isoformat(timespec="milliseconds"),
        "level": "info",
        "message": "answered",
        "logger": "access",
        "request_id": "req-1",
        "method": "POST",
        "path": asked.path,
        "status": status,
        "duration_ms": round(duration_s * 1000, 3),
        "client": "::1",
    }
    if sender is not None:
        document["token"] = 'assay_abc… c"i'
    if problem is not None:
        document["problem"] = problem
    if batch is not None:
        asked.batch = Batch(*batch)
        document["batch"] = dict(zip(("first", "last", "accepted", "duplicate", "rejected"), batch, strict=True))
    log = AccessLog("info")
    log._due = True  # The timer that writes the lines is not started.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time_ns", lambda: now_ns)
        log.add(asked, "::1", duration_s)
    assert log._lines == [msgspec.json.encode(document)]
