"""Host names of a server, and the depth of JSON."""

from __future__ import annotations

import json

import pytest

from domain.canonical import DEEPEST, require_shallow
from domain.errors import MalformedBody, UsageError
from domain.hosts import allowed_hosts, is_same_origin


@pytest.mark.parametrize(
    ("text", "bound", "yes", "no"),
    [
        ("", "127.0.0.1", ["localhost", "[::1]:80", "127.0.0.1:8000"], ["10.0.0.1", "here", "", "evil.example"]),
        ("", "0.0.0.0", ["10.0.0.1:8501", "[fe80::1]", "here"], ["evil.example", "10.0.0.1.evil.example"]),
        ("", None, ["10.0.0.1", "here"], ["evil.example"]),
        ("A.example., [::2]", "127.0.0.1", ["a.example", "a.example:1", "[::2]"], ["b.a.example", "a.example:x"]),
        ("*.corp.example", "127.0.0.1", ["a.corp.example"], ["corp.example", "acorp.example", "x@a.corp.example"]),
        ("*", "127.0.0.1", ["evil.example"], ["a/b", ""]),
    ],
)  # fmt: skip
def test_a_server_answers_to_its_names(text, bound, yes, no):
    hosts = allowed_hosts(text, bound, "Here")
    assert [hosts.admits(host) for host in yes] == [True] * len(yes)
    assert [hosts.admits(host) for host in no] == [False] * len(no)


@pytest.mark.parametrize("text", ["http://a.example", "a.example:80", "a b", "a/b", "**", "*.*", "a.*"])
def test_what_is_no_host_name_is_refused(text):
    with pytest.raises(UsageError) as refused:
        allowed_hosts(text, "127.0.0.1")
    assert refused.value.field == "ASSAY_ALLOWED_HOSTS"


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://a", "a", True), ("http://a:80", "a", True), ("https://a", "a:443", True), ("http://A", "a", True),
        ("https://listed.example", "127.0.0.1:8000", True), ("http://a", "a:8000", False), ("null", "null", False),
        ("", "", False), ("http://", "", False), ("http://b", "a", False), ("file://", "a", False),
    ],
)  # fmt: skip
def test_an_origin_is_the_address_or_a_listed_name(origin, host, same):
    assert is_same_origin(origin, host, allowed_hosts("listed.example", "127.0.0.1")) is same


def test_depth_is_counted_outside_of_strings():
    def nested(depth: int) -> bytes:
        return (
            json.dumps({"text": '\\"[{' * 500, "wide": [[], {}] * 500})
            .encode()
            .replace(b'"wide"', b'"deep":' + b'[{"a":' * (depth // 2) + b"1" + b"}]" * (depth // 2) + b',"wide"')
        )

    require_shallow(nested(DEEPEST - 2))
    for text in (nested(DEEPEST), nested(DEEPEST * 20), b"[" * 5000, b'{"a":' * 5000, b"[]" * 100 + b"[" * 5000):
        with pytest.raises(MalformedBody):
            require_shallow(text)
