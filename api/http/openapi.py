"""What `/schema` says beyond what the handlers' signatures do: bodies that are read by hand, the formats of answers, every
way of being refused, and how to prove who asks.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
from litestar import Request
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from api.http.body import EVENTS_LIMIT
from api.http.media import FORMATS, JSON
from api.http.problems import MEDIA_TYPE

__all__ = ["described", "openapi"]

VERSION = "0.1.0"
Json = dict[str, Any]

_REFUSALS = {
    "400": "The body is not JSON, or not what its headers say it is.",
    "401": "A token is needed, and none that is valid was sent.",
    "403": "The token's scope does not cover this, or a web page of another origin sent it.",
    "404": "Nothing is there under this name.",
    "406": "None of the media types in Accept can be answered with.",
    "408": "The body did not arrive in time.",
    "409": "The log holds another event of this id, or the subject has moved on.",
    "410": "It held raw samples that have expired, or the link is over.",
    "413": "The body is too large.",
    "415": "The body's media type or encoding is missing or not taken.",
    "422": "A parameter or a member of the body is missing, unknown or wrong.",
    "429": "Too much at once, or more than the token's rate; come back after Retry-After.",
    "500": "Nobody foresaw it; error_id stands in the log.",
    "503": "Postgres, the tables or a part is not there now; come back after Retry-After.",
}
_ALWAYS = ("500",)
_GUARDED = ("401", "403", "429", "503")
_ASKED = ("400", "422")
_BODY = ("408", "413", "415")
_TAGS: dict[str, tuple[str, ...]] = {
    "tables": ("406", "422"),
    "comparisons": ("406", "422"),
    "query": ("406",),
    "questions": ("406",),
}
_ROUTES: dict[tuple[str, str], tuple[str, ...]] = {
    ("/v1/events", "post"): ("404", "409"),
    ("/v1/imports", "post"): ("404",),
    ("/v1/shipped-data", "post"): ("404",),
    ("/v1/shared/{name}", "delete"): ("404", "422"),
    ("/v1/quarantine/{event_id}", "delete"): ("404", "422"),
    ("/v1/signers/{key}", "delete"): ("404", "422"),
    ("/v1/events/{event_id}", "get"): ("404", "410"),
    ("/v1/samples/{event_id}", "get"): ("404", "410", "422"),
    ("/v1/runs/{run_id}", "get"): ("404",),
    ("/v1/recommendations/{recommendation_id}", "get"): ("404",),
    ("/v1/predictor/rollback", "post"): ("404",),
    ("/v1/predictor/replay", "post"): ("404",),
    ("/v1/models/{model_id}", "get"): ("404",),
    ("/v1/hardware/{hardware_id}", "get"): ("404",),
    ("/v1/hardware/{hardware_id}/roofline", "get"): ("404",),
    ("/v1/hardware/{hardware_id}/kernels", "get"): ("404",),
    ("/v1/hardware/{hardware_id}/coverage", "get"): ("404",),
    ("/v1/operators", "get"): ("404",),
    ("/v1/tables/{view}", "get"): ("404",),
    ("/v1/links/{name}", "delete"): ("404",),
    ("/v1/links/claims", "post"): ("404", "410"),
    ("/v1/links/tasks", "post"): ("404", "410"),
    ("/v1/links/results", "post"): ("404", "410"),
    ("/v1/links/failures", "post"): ("404", "410"),
    ("/v1/links/files/{digest}", "put"): ("408", "413"),
    ("/v1/browser-devices/{device}", "post"): ("404",),
    ("/v1/browser-devices/{device}", "delete"): ("404",),
    ("/v1/baselines/{name}", "get"): ("404",),
    ("/v1/baselines/{name}", "delete"): ("404", "422"),
    ("/v1/snapshots", "post"): ("409",),
    ("/v1/snapshots/{name}", "get"): ("404",),
    ("/v1/snapshots/{name}", "delete"): ("404", "422"),
    ("/v1/alerts/{alert_id}", "get"): ("404",),
    ("/v1/alerts/{alert_id}/state", "post"): ("404", "409"),
    ("/v1/jobs/{job_id}", "get"): ("404",),
    ("/v1/jobs/{job_id}/cancel", "post"): ("404", "409"),
    ("/v1/jobs/{job_id}/retry", "post"): ("404", "409"),
    ("/v1/jobs/schedules/{name}", "delete"): ("404", "422"),
    ("/v1/jobs/claims/{lease}/heartbeat", "post"): ("409",),
    ("/v1/jobs/claims/{lease}/finish", "post"): ("409",),
    ("/v1/peers", "post"): ("409",),
    ("/v1/peers/{name}", "get"): ("404",),
    ("/v1/peers/{name}", "delete"): ("404", "422"),
    ("/v1/peers/{name}/pages", "post"): ("404", "409"),
    ("/v1/peers/{name}/problems", "post"): ("404",),
    ("/v1/tokens/{token_id}", "delete"): ("404", "422"),
    ("/v1/tokens", "post"): ("422",),
    ("/health/ready", "get"): ("503",),
}
_OPEN = frozenset({"/health/live", "/health/ready"})
_IN_FORMATS = frozenset({"tables", "comparisons", "query"})

_PROBLEM: Json = {
    "type": "object",
    "description": "RFC 9457; see docs/problems.md.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "pattern": "^urn:assay:problem:[a-z-]+$"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "minLength": 1},
        "field": {"type": "string"},
        "remedy": {"type": "string"},
        "instance": {"type": "string", "pattern": "^urn:assay:request:"},
        "nearest": {"type": "array", "items": {"type": "string"}},
    },
}
_EVENT: Json = {
    "type": "object",
    "description": "A CloudEvents 1.0 envelope; docs/events.md has the data of each type.",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {
            "type": "string",
            "format": "uuid",
            "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        },
        "source": {"type": "string", "minLength": 1, "maxLength": 500},
        "type": {"type": "string", "minLength": 1, "maxLength": 500},
        "subject": {"type": "string", "minLength": 1, "maxLength": 500},
        "time": {"type": "string", "format": "date-time"},
        "data": {},
    },
}
_RECEIPT: Json = {
    "type": "object",
    "required": ["accepted", "duplicate", "rejected", "warnings", "last_position"],
    "properties": {
        "accepted": {"type": "integer", "minimum": 0},
        "duplicate": {"type": "integer", "minimum": 0},
        "last_position": {"type": ["integer", "null"], "minimum": 1},
        "rejected": {"type": "array", "items": {"type": "object", "required": ["index", "detail", "problem"]}},
        "warnings": {"type": "array", "items": {"type": "object", "required": ["index", "field"]}},
    },
}
_STORED: Json = {
    "allOf": [{"$ref": "#/components/schemas/Event"}],
    "type": "object",
    "required": ["position", "recorded_at", "attestation"],
    "properties": {
        "position": {"type": "integer", "minimum": 1},
        "recorded_at": {"type": "string", "format": "date-time"},
        "attestation": {"enum": ["anonymous", "bound", "signed", "service"]},
        "expired": {"const": True},
        "whence": {
            "type": "object",
            "description": "the peer that brought the event, and its position there",
            "required": ["peer", "position"],
            "properties": {"peer": {"type": "string"}, "position": {"type": "integer", "minimum": 1}},
        },
    },
}
_PAGE: Json = {
    "type": "object",
    "required": ["events", "last_position", "next"],
    "properties": {
        "events": {"type": "array", "items": {"$ref": "#/components/schemas/StoredEvent"}},
        "last_position": {"type": "integer", "minimum": 0},
        "next": {"type": ["string", "null"]},
    },
}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_EVENT_BODIES: Json = {
    "application/cloudevents+json": {"schema": _reference("Event")},
    "application/cloudevents-batch+json": {
        "schema": {"type": "array", "items": _reference("Event"), "minItems": 1, "maxItems": EVENTS_LIMIT}
    },
    "application/json": {
        "schema": {
            "oneOf": [
                _reference("Event"),
                {"type": "array", "items": _reference("Event"), "minItems": 1, "maxItems": EVENTS_LIMIT},
            ]
        }
    },
    "application/x-ndjson": {"schema": {"type": "string", "description": "one event a line"}},
}
_ENCODING: Json = {
    "name": "Content-Encoding",
    "in": "header",
    "required": False,
    "description": "How the body is packed; an empty one says that it is not.",
    "schema": {"type": "string", "enum": ["", "identity", "gzip", "zstd"]},
}
_SUCCESS: dict[tuple[str, str], Json] = {
    ("/v1/events", "post"): {JSON: {"schema": _reference("Receipt")}},
    ("/v1/events", "get"): {
        JSON: {"schema": _reference("Page")},
        "application/x-ndjson": {"schema": {"type": "string"}},
    },
    ("/v1/events/{event_id}", "get"): {JSON: {"schema": _reference("StoredEvent")}},
    ("/v1/events/stream", "get"): {"text/event-stream": {"schema": {"type": "string"}}},
    ("/metrics", "get"): {"text/plain": {"schema": {"type": "string"}}},
}


def described(schema: Json) -> Json:
    """Return the OpenAPI document with what Litestar cannot know."""
    document = deepcopy(schema)
    components = document.setdefault("components", {})
    components["schemas"] = components.get("schemas", {}) | {
        "Problem": _PROBLEM,
        "Event": _EVENT,
        "StoredEvent": _STORED,
        "Receipt": _RECEIPT,
        "Page": _PAGE,
    }
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": "docs/api.md#tokens"}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _describe(path, method, operation)
    return document


def _sent(parameter: Json) -> Json:
    """Return a parameter without the null of an optional list: a query cannot send it, and one value is a list of one."""
    schema: Json = parameter.get("schema", {})
    kinds = [kind for kind in schema.get("oneOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1 or kinds[0].get("type") != "array":
        return parameter
    return parameter | {"schema": {name: value for name, value in schema.items() if name != "oneOf"} | kinds[0]}


def _describe(path: str, method: str, operation: Json) -> None:
    tags = operation.get("tags", [])
    success = next(status for status in operation["responses"] if status.startswith("2"))
    answers = {success: operation["responses"][success]}
    answers[success]["content"] = _success(path, method, tags, answers[success])
    if (path, method) == ("/v1/jobs/claims", "post"):
        answers["204"] = {"description": "No job came within wait_s."}
    if any(tag in _IN_FORMATS for tag in tags) and method == "get":
        answers["304"] = {"description": "The state under the ETag that was sent still holds."}
    for status in sorted(_statuses(path, method, operation, tags)):
        answers[status] = {
            "description": _REFUSALS[status],
            "content": {MEDIA_TYPE: {"schema": _reference("Problem")}},
        }
        if status in ("429", "503"):
            answers[status]["headers"] = {
                "Retry-After": {"schema": {"type": "integer", "minimum": 1}, "required": True}
            }
    operation["responses"] = answers
    if "parameters" in operation:
        operation["parameters"] = [_sent(parameter) for parameter in operation["parameters"]]
    if path not in _OPEN:
        operation["security"] = [{"token": []}, {}]
    if (path, method) == ("/v1/events", "post"):
        operation["requestBody"] = {"required": True, "content": _EVENT_BODIES}
        operation["parameters"] = [*operation.get("parameters", []), _ENCODING]


def _success(path: str, method: str, tags: list[str], answer: Json) -> Json:
    success = _SUCCESS.get((path, method))
    if success is not None:
        return success
    if not any(tag in _IN_FORMATS for tag in tags):
        kept: Json = answer.get("content", {})
        schema = kept.get(JSON, {}).get("schema", {})
        return kept if "$ref" in schema else {JSON: {"schema": {"type": "object"}}}
    rows: Json = {"type": "object", "required": ["position"], "properties": {"position": {"type": "integer"}}}
    return {media: {"schema": rows if media == JSON else {"type": "string", "format": "binary"}} for media in FORMATS}


def _statuses(path: str, method: str, operation: Json, tags: list[str]) -> set[str]:
    statuses = {*_ALWAYS, *_ROUTES.get((path, method), ())}
    if path not in _OPEN:
        statuses.update(_GUARDED)
    for tag in tags:
        statuses.update(_TAGS.get(tag, ()))
    if operation.get("parameters"):
        statuses.add("422")
    if "requestBody" in operation or (path, method) == ("/v1/events", "post"):
        statuses.update((*_ASKED, *_BODY))
    return statuses


class _Described(JsonRenderPlugin):
    """Renders the document as `described` makes it, once."""

    def __init__(self) -> None:
        super().__init__(path=["/", "/openapi.json"])
        self._bytes: bytes | None = None

    def render(self, request: Request[Any, Any, Any], openapi_schema: Json) -> bytes:  # noqa: ARG002 - Litestar names it
        """Return the document as JSON."""
        if self._bytes is None:
            self._bytes = msgspec.json.encode(described(openapi_schema))
        return self._bytes


def openapi() -> OpenAPIConfig:
    """Return the configuration of the OpenAPI document of one application."""
    return OpenAPIConfig(
        title="Assay",
        version=VERSION,
        description="Which hardware should run this model? Measured where we measured, predicted where we did not.",
        path="/schema",
        render_plugins=[_Described()],
        use_handler_docstrings=True,
    )
