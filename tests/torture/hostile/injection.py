"""SQL, paths, templates and terminal codes in every string that anybody may send: events, queries, questions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from tests.torture.hostile.bodies import GOLDEN, fresh, paths, put
from tests.torture.hostile.case import Case, post, request

__all__ = ["INJECTIONS", "families"]

INJECTIONS = [
    "'; DROP TABLE event; --", "' OR '1'='1", '" OR ""="', "1); DELETE FROM event; --", "'||(SELECT version())||'", "$$; DROP TABLE event; $$", "\\'; DROP TABLE event; --", "%' AND 1=1 --", "'); ATTACH '/tmp/x.db'; --",
    "../../../../etc/passwd", "..\\..\\windows\\win.ini", "/etc/passwd", "file:///etc/passwd", "C:\\boot.ini", "CON", "~/.ssh/id_rsa", "$(reboot)", "`reboot`", "; reboot", "| cat /etc/passwd", "&& true",
    "{{7*7}}", "${7*7}", "<%= 7*7 %>", "#{7*7}", "%s%s%s%n", "{0.__class__}", "<script>alert(1)</script>", "<!ENTITY x SYSTEM 'file:///etc/passwd'>", "=cmd|' /C calc'!A0", "\u001b[2J\u001b[31m", "\u202e\u2066", "\ufdfa" * 50,
    "null", "true", "NaN", "-1", "1e309", "0x7fffffff", "[]", "{}", "\"", "'", "\\", "%00", "%2e%2e%2f", "a" * 400, "\u0000",
]  # fmt: skip
HOSTILE_SQL = [
    "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'", "SELECT * FROM read_text('/proc/self/environ')", "COPY measurements TO '/tmp/out.csv'", "ATTACH '/tmp/other.db'", "INSTALL httpfs", "LOAD httpfs", "SET enable_external_access = true",
    "PRAGMA database_list", "DROP TABLE measurement", "DELETE FROM measurement", "UPDATE measurement SET p50 = 1", "CREATE TABLE t AS SELECT 1", "SELECT 1; DROP TABLE measurement", "EXPORT DATABASE '/tmp/x'", "CALL pragma_version()", "SELECT getenv('HOME')",
    "SELECT * FROM glob('/*')", "SELECT * FROM duckdb_settings()", "SELECT * FROM duckdb_secrets()", "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t", "SELECT count(*) FROM range(100000000000)", "SELECT repeat('x', 4000000000)",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000, "SELECT " + ",".join(["1"] * 20_000), "", " ", ";", "--", "/*", "SELECT '\ud800'", "SELECT \u0000", "EXPLAIN ANALYZE SELECT 1", "VACUUM", "CHECKPOINT", "IMPORT DATABASE '/tmp'", "SELECT * FROM sqlite_scan('/etc/passwd', 'x')",
]  # fmt: skip


def events() -> Iterator[Case]:
    """Every string member of every type of event holds what an interpreter would run."""
    turns = itertools.cycle(INJECTIONS)
    for golden in GOLDEN:
        for path in paths(golden, str):
            for _ in range(2):
                event = put(fresh(golden), path, next(turns))
                raw = json.dumps(event).encode()
                name = f"{golden['type']} {'.'.join(map(str, path))}"
                yield Case(family="injection into events", name=name, sends=(post(raw),), event=raw)


def names_of_members() -> Iterator[Case]:
    """The same in the names of members, which are kept where they are not known."""
    for golden, text in itertools.product(GOLDEN[:4], INJECTIONS):
        event = fresh(golden)
        event["data"] = {**event["data"], text: text}
        raw = json.dumps(event).encode()
        yield Case(family="injection into names", name=f"{golden['type']} {text[:30]!r}", sends=(post(raw),), event=raw)


def queries(schema: dict[str, Any]) -> Iterator[Case]:
    """Every parameter of every GET route of the OpenAPI schema, in the path and in the query."""
    turns = itertools.cycle(INJECTIONS)
    for path, methods in schema["paths"].items():
        operation = methods.get("get", {})
        for parameter in operation.get("parameters", ()):
            if parameter["in"] not in ("path", "query") or path.endswith("/stream"):
                continue
            for _ in range(5):
                text = next(turns)
                yield Case(
                    family="injection into queries",
                    name=f"{path} {parameter['name']}={text[:30]!r}",
                    sends=(request("GET", _target(path, operation["parameters"], parameter, text)),),
                )


def _target(path: str, parameters: list[dict[str, Any]], parameter: dict[str, Any], text: str) -> str:
    """Return the address with the text in one parameter, and something plain in those that it cannot do without."""
    asked = {
        other["name"]: "bert-base-uncased" for other in parameters if other["in"] == "query" and other.get("required")
    }
    for other in parameters:
        if other["in"] == "path":
            path = path.replace(f"{{{other['name']}}}", quote(text if other is parameter else "x", safe=""))
    if parameter["in"] == "query":
        asked[parameter["name"]] = text
    return path + "?" + "&".join(f"{quote(name)}={quote(value, safe='')}" for name, value in asked.items())


QUESTIONS: dict[str, dict[str, Any]] = {
    "/v1/recommendations": {"model": "bert-base-uncased", "objective": "latency", "hardware": ["nvidia-h200-sxm"], "platform": ["cuda"], "precision": ["fp16"], "mode": "inference", "percentile": "p50", "max_latency_ms": 20, "top": 3, "batch_sizes": [1], "as_of": 1},
    "/v1/predictions": {"model": "bert-base-uncased", "hardware": "nvidia-h200-sxm", "platform": "cuda", "precision": "fp16", "batch_size": 1, "sequence_length": 128, "mode": "inference"},
}  # fmt: skip
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    1e308,
    2**63,
    10**40,
    "",
    "x",
    [],
    [[]],
    {},
    {"$gt": ""},
    ["'; DROP TABLE event; --"] * 50,
]


def questions() -> Iterator[Case]:
    """Every member of the questions, with text to run and with values of every other type."""
    turns = itertools.cycle(INJECTIONS)
    for target, question in QUESTIONS.items():
        for name in question:
            for value in [*ODD, next(turns), next(turns), next(turns)]:
                body = json.dumps(question | {name: value}).encode()
                sent = request("POST", target, {"Content-Type": "application/json"}, body)
                yield Case(family="injection into questions", name=f"{target} {name}={value!r:.40}", sends=(sent,))


def sql() -> Iterator[Case]:
    """SQL of users that reaches for files, settings, other people's tables or all the memory there is."""
    for text in HOSTILE_SQL:
        body = json.dumps({"sql": text, "timeout_s": 2}).encode()
        reaches = "/etc/passwd" in text or "environ" in text or "DROP" in text or "DELETE" in text or "COPY" in text
        yield Case(
            family="SQL of users",
            name=text[:60],
            sends=(request("POST", "/v1/query", {"Content-Type": "application/json"}, body),),
            forbidden=(200,) if reaches else (),
        )


def families(schema: dict[str, Any]) -> list[Callable[[], Iterator[Case]]]:
    """Return the families, those over routes from the service's own schema."""
    return [events, names_of_members, lambda: queries(schema), questions, sql]
