"""What is wrong before anybody reads a body: lengths, headers, methods, addresses, requests within requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tests.torture.hostile.bodies import fresh
from tests.torture.hostile.case import Case, post, request

__all__ = ["FAMILIES", "SMUGGLED"]

SMUGGLED = "urn:smuggled"
"""The source of events that lie inside of other requests' bodies; none of them may reach the log."""
TYPE = "application/cloudevents+json"


def _event() -> bytes:
    return json.dumps(fresh()).encode()


def lengths() -> Iterator[Case]:
    """Content-Length and chunks that do not agree with what is sent."""
    body = _event()
    true = len(body)
    for said in (0, 1, true - 1, true + 1, true + 100_000, 10**9, 2**31, 2**32, 2**63, 2**64, 10**30):
        yield Case(
            family="lengths",
            name=f"{true} bytes said to be {said}",
            sends=(post(_event(), content_length=str(said)),),
            ends=True,
            closes=True,
        )
    for said in (
        "-1",
        "+5",
        "0x10",
        "1e3",
        "ten",
        "",
        " ",
        "5, 5",
        "5;5",
        "٥",
        "1\t1",
        "00000000005",
        f"{true} {true}",
    ):
        yield Case(
            family="lengths",
            name=f"length {said!r}",
            sends=(post(_event(), content_length=said),),
            ends=True,
            closes=True,
        )
    chunks: dict[str, bytes] = {
        "whole": b"%x\r\n%s\r\n0\r\n\r\n" % (true, body), "cut in the data": b"%x\r\n%s" % (true, body[:50]), "no end": b"%x\r\n%s\r\n" % (true, body),
        "size too small": b"5\r\n%s\r\n0\r\n\r\n" % body, "size too large": b"fffff\r\n%s\r\n0\r\n\r\n" % body, "size of 2^64": b"10000000000000000\r\n%s\r\n0\r\n\r\n" % body,
        "size of 30 digits": b"f" * 30 + b"\r\n%s\r\n0\r\n\r\n" % body, "no size": b"\r\n%s\r\n0\r\n\r\n" % body, "negative": b"-5\r\n%s\r\n0\r\n\r\n" % body, "0x": b"0x5\r\nhello\r\n0\r\n\r\n",
        "long extension": b"%x;%s\r\n%s\r\n0\r\n\r\n" % (true, b"e" * 100_000, body), "bare line ends": b"%x\n%s\n0\n\n" % (true, body), "space before size": b" %x\r\n%s\r\n0\r\n\r\n" % (true, body),
        "many trailers": b"0\r\n" + b"X-T: 1\r\n" * 5000 + b"\r\n", "a bad trailer": b"%x\r\n%s\r\n0\r\nno colon\r\n\r\n" % (true, body), "rubbish": bytes(range(256)),
        "a byte each": b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n", "empty": b"0\r\n\r\n", "after the end": b"0\r\n\r\nrubbish",
    }  # fmt: skip
    for name, sent in chunks.items():
        head = request("POST", "/v1/events", {"Content-Type": TYPE, "Transfer-Encoding": "chunked"})
        yield Case(family="lengths", name=f"chunks: {name}", sends=(head + sent,), closes=True)


def slow() -> Iterator[Case]:
    """Who sends a byte now and then, or nothing more, keeps its place for a bounded time only."""
    body = _event()
    head = request("POST", "/v1/events", {"Content-Type": TYPE, "Content-Length": str(len(body))})
    large = request("POST", "/v1/events", {"Content-Type": TYPE, "Content-Length": "10000000"})
    chunked = request("POST", "/v1/events", {"Content-Type": TYPE, "Transfer-Encoding": "chunked"})
    question = request("POST", "/v1/query", {"Content-Type": "application/json", "Content-Length": "5000"})
    drip = tuple(bytes([byte]) for byte in body[:120])
    slowly: dict[str, tuple[bytes, ...]] = {
        "drips a body": (head, *drip), "drips a large body": (large, *drip), "drips chunks": (chunked, *(b"1\r\n%s\r\n" % byte for byte in drip)),
        "announces and sends nothing": (head,), "announces 10 MB and sends nothing": (large,), "stops in a chunk": (chunked + b"ff\r\nabc",), "drips a chunk's size": (chunked, *([b"0"] * 120)),
        "drips a question": (question, *drip), "question without its body": (question,),
    }  # fmt: skip
    for name, pieces in slowly.items():
        yield Case(family="slow bodies", name=name, sends=pieces, closes=True)


def headers() -> Iterator[Case]:
    """Many, long, repeated and impossible headers."""
    for count in (50, 100, 200, 1000, 5000):
        many = [(f"X-Flood-{number}", "x" * 20) for number in range(count)]
        yield Case(
            family="headers", name=f"{count} headers", sends=(request("GET", "/health/live", many),), closes=True
        )
        same = [("Accept", "application/json")] * count
        yield Case(
            family="headers",
            name=f"{count} times Accept",
            sends=(request("GET", "/v1/measurements", same),),
            closes=True,
        )
    for size in (1000, 8000, 16_000, 64_000, 400_000, 1_000_000, 8_000_000):
        for name in ("X-Long", "Authorization", "Accept", "Cookie", "X-Request-Id", "Last-Event-Id", "If-None-Match"):
            sent = request("GET", "/v1/events?limit=1", {name: "x" * size})
            yield Case(family="headers", name=f"{name} of {size} bytes", sends=(sent,), closes=True)
    values = [
        b"\x00",
        b"\x7f",
        b"\xff\xfe",
        b"a\rb",
        b"a\nb",
        b"\x1b[31m",
        b"\t",
        b"",
        b"'; DROP TABLE event; --",
        b"../../etc/passwd",
        b"${jndi:ldap://x}",
        b"%s%n%n",
        "\u00fc\u202e".encode(),
    ]
    for name in (
        "X-Request-Id",
        "Authorization",
        "Accept",
        "If-None-Match",
        "Last-Event-Id",
        "Content-Type",
        "Origin",
        "Traceparent",
    ):
        for value in values:
            sent = request("GET", "/v1/events?limit=1", {name: value})
            yield Case(family="headers", name=f"{name}: {value!r}", sends=(sent,), closes=True)
    for host in (
        "",
        "evil.example",
        "127.0.0.1:99999",
        "localhost, evil.example",
        "[::1",
        "a" * 5000,
        "127.0.0.1@evil.example",
        "%00",
    ):
        yield Case(
            family="headers",
            name=f"Host {host[:30]!r}",
            sends=(request("GET", "/v1/events", {"Host": host}),),
            closes=True,
        )
    raw: dict[str, bytes] = {
        "no Host": b"GET /v1/events HTTP/1.1\r\n\r\n", "two Hosts": b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", "space before the colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "folded": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: 1\r\n 2\r\n\r\n", "no colon": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nrubbish\r\n\r\n", "no name": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n: x\r\n\r\n",
        "NUL in a name": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX\x00: x\r\n\r\n", "bare line ends": b"GET /health/live HTTP/1.1\nHost: 127.0.0.1\n\n", "never ends": b"GET / HTTP/1.1\r\nX-A: " + b"a" * 2_000_000,
    }  # fmt: skip
    for name, sent in raw.items():
        yield Case(family="headers", name=name, sends=(sent,), ends="never" in name, closes=True)
    for expectation in ("100-continue", "200-ok", "x" * 5000):
        yield Case(
            family="headers",
            name=f"Expect {expectation[:20]}",
            sends=(post(_event(), expect=expectation),),
            closes=True,
        )
    for upgrade in ("websocket", "h2c", "TLS/1.0"):
        sent = request(
            "GET",
            "/v1/events",
            {
                "Connection": "Upgrade, HTTP2-Settings",
                "Upgrade": upgrade,
                "HTTP2-Settings": "AAMAAABkAAQAAP__",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version": "13",
            },
        )
        yield Case(family="headers", name=f"Upgrade to {upgrade}", sends=(sent,), closes=True)


def smuggling() -> Iterator[Case]:
    """A request that two readers would end at different places, with an append inside of it."""
    for name, lengthened in {
        "length and chunked": {"Content-Length": "{n}", "Transfer-Encoding": "chunked"}, "chunked and length": {"Transfer-Encoding": "chunked", "Content-Length": "{n}"},
        "short length and chunked": {"Content-Length": "5", "Transfer-Encoding": "chunked"}, "space before the colon": {"Transfer-Encoding ": "chunked", "Content-Length": "{n}"},
        "xchunked": {"Transfer-Encoding": "xchunked", "Content-Length": "{n}"}, "chunked, identity": {"Transfer-Encoding": "chunked, identity", "Content-Length": "{n}"}, "identity, chunked": {"Transfer-Encoding": "identity, chunked", "Content-Length": "{n}"},
        "tab before chunked": {"Transfer-Encoding": "\tchunked", "Content-Length": "{n}"}, "quoted": {"Transfer-Encoding": '"chunked"', "Content-Length": "{n}"}, "vertical tab": {"Transfer-Encoding": "\x0bchunked", "Content-Length": "{n}"},
        "capitals": {"TRANSFER-ENCODING": "CHUNKED", "Content-Length": "{n}"}, "gzip, chunked": {"Transfer-Encoding": "gzip, chunked", "Content-Length": "{n}"}, "chunked, chunked": {"Transfer-Encoding": "chunked, chunked", "Content-Length": "{n}"}, "underscore": {"Transfer_Encoding": "chunked", "Content-Length": "{n}"},
    }.items():  # fmt: skip
        inner = b"0\r\n\r\n" + _smuggled(name)
        sent = [(key, value.format(n=len(inner))) for key, value in lengthened.items()]
        yield Case(
            family="smuggling",
            name=name,
            sends=(request("POST", "/v1/query", [("Content-Type", "application/json"), *sent], inner),),
            closes=True,
        )
    for name, pair in {"two lengths": ("5", "{n}"), "two lengths, long first": ("{n}", "5")}.items():
        inner = b"hello" + _smuggled(name)
        sent = [("Content-Length", value.format(n=len(inner))) for value in pair]
        yield Case(
            family="smuggling",
            name=name,
            sends=(request("POST", "/v1/query", [("Content-Type", "application/json"), *sent], inner),),
            closes=True,
        )
    for method in ("GET", "HEAD", "DELETE", "OPTIONS"):
        yield Case(
            family="smuggling",
            name=f"{method} with a body",
            sends=(request(method, "/health/live", {}, _smuggled(f"{method} with a body")),),
            closes=True,
        )


def _smuggled(name: str) -> bytes:
    body = json.dumps(fresh() | {"source": SMUGGLED, "subject": name}).encode()
    return request("POST", "/v1/events", {"Content-Type": TYPE}, body)


def addresses() -> Iterator[Case]:
    """Targets that lead out of the tree, or nowhere."""
    targets: list[bytes] = [
        b"/../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"/..%2f..%2fetc%2fpasswd", b"/v1/../../../etc/passwd", b"//etc/passwd", b"/v1//events", b"/v1/events/", b"/v1/events/%00", b"/v1/events/..", b"/%", b"/%zz", b"/%c0%ae%c0%ae/",
        b"/v1/models/..%2f..%2fetc%2fpasswd", b"/v1/models/%00", b"/v1/models/" + b"a" * 8000, b"/v1/hardware/" + b"%25" * 2000, b"/v1/events/00000000-0000-0000-0000-000000000000", b"/v1/recommendations/" + b"'" * 300, b"/v1/models/%F0%9F%92%A9", b"/v1/models/%ff",
        b"http://evil.example/v1/events", b"http://127.0.0.1/v1/events", b"*", b"evil.example:80", b"", b"v1/events", b"/\x00", b"/\xff\xfe", b"/a b", b"/v1/events#fragment", b"/;/v1/events", b"/v1;a=b/events", b"\\v1\\events", b"/v1/events?", b"/v1/events?&&&&", b"/v1/events?=", b"/v1/events?limit",
        b"/v1/events?limit=1&limit=2", b"/v1/events?limit[]=1", b"/v1/events?" + b"a=1&" * 20_000, b"/v1/events?type=" + b"x" * 60_000, b"/v1/events?" + b"type=a&" * 5000, b"/v1/events?after=" + b"9" * 5000, b"/v1/events?limit=%00", b"/v1/events?type=%ff%fe", b"/v1/events?type=%ed%a0%80",
        b"/" + b"a" * 60_000, b"/" + b"a/" * 30_000, b"/" + b"a" * 1_000_000, b"/v1/events/stream?after=-1", b"/v1/events/stream?after=x", b"/schema/../v1", b"/schema/%2e%2e", b"/metrics?" + b"x" * 10_000, b"/.git/config", b"/.env", b"/static/..%5c..%5c", b"/health/ready/../../v1/query",
    ]  # fmt: skip
    for target in targets:
        yield Case(
            family="addresses",
            name=f"{target[:50]!r} ({len(target)} bytes)",
            sends=(request("GET", target),),
            closes=True,
        )


def methods() -> Iterator[Case]:
    """Methods that a route does not have, and versions of HTTP that nobody has."""
    for target in ("/v1/events", "/v1/query", "/health/ready", "/v1/measurements", "/schema"):
        for method in (
            "PUT",
            "DELETE",
            "PATCH",
            "OPTIONS",
            "HEAD",
            "TRACE",
            "CONNECT",
            "PROPFIND",
            "get",
            "G\u00cbT",
            "X" * 5000,
            "POST\t",
            "!",
        ):
            yield Case(family="methods", name=f"{method[:12]} {target}", sends=(request(method, target),), closes=True)
    raw: dict[str, bytes] = {
        "version 0.9": b"GET /health/live\r\n", "HTTP/1.0": b"GET /health/live HTTP/1.0\r\n\r\n", "HTTP/2.0": b"GET / HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n", "HTTP/9.9": b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", "HTTP/1.1.1": b"GET / HTTP/1.1.1\r\n\r\n",
        "prior knowledge of HTTP/2, cut": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "version 2 with rubbish": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(range(256)), "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), "nothing": b"", "line ends": b"\r\n" * 2000,
        "method override": request("POST", "/v1/events", {"X-HTTP-Method-Override": "DELETE", "Content-Type": TYPE}, b"{}"), "SSH": b"SSH-2.0-OpenSSH_9.6\r\n", "zeros": bytes(10_000), "a line without end": b"G" * 1_000_000,
    }  # fmt: skip
    for name, sent in raw.items():
        yield Case(
            family="methods", name=name, sends=(sent,), ends=not name.startswith(("HTTP/", "method")), closes=True
        )


def media() -> Iterator[Case]:
    """Content types, charsets and Accepts that do not go with what is sent or asked."""
    types = [
        "", "text/plain", "text/html", "application/xml", "multipart/form-data", "multipart/form-data; boundary=" + "b" * 5000, "application/x-www-form-urlencoded", "application/octet-stream", "application/json; charset=utf-16", "application/json; charset=" + "x" * 1000,
        "application/json;;;;", "application/JSON", "application/json, text/plain", "application/*", "*/*", "/", "json", "application/cloudevents+xml", "application/cloudevents+avro", "application/vnd.apache.parquet", "image/svg+xml", "application/json\x00", "\u00fc/\u00fc", "a" * 10_000,
        "application/x-ndjson; charset=latin-1", "application/x-msgpack", "application/problem+json", "message/http", "application/json; boundary=\"", "application/cloudevents-batch+json",
    ]  # fmt: skip
    for said in types:
        for target in ("/v1/events", "/v1/query"):
            yield Case(
                family="media types",
                name=f"{said[:40]!r} to {target}",
                sends=(request("POST", target, {"Content-Type": said}, _event()),),
                closes=True,
            )
    for accepted in (
        "",
        "nonsense",
        "application/pdf",
        "*/*;q=0",
        "text/csv;q=2",
        "application/vnd.apache.parquet;q=-1",
        "text/csv," * 3000,
        "application/x-ndjson",
        'a/b;c="',
        ";q=1",
    ):
        for target in ("/v1/measurements", "/v1/events", "/health/ready"):
            yield Case(
                family="media types",
                name=f"Accept {accepted[:30]!r} at {target}",
                sends=(request("GET", target, {"Accept": accepted}),),
                closes=True,
            )


FAMILIES: list[Callable[[], Iterator[Case]]] = [lengths, slow, headers, smuggling, addresses, methods, media]
