"""Everything that is refused or fails becomes a problem document (RFC 9457, `application/problem+json`).

`type` is `urn:assay:problem:<name>`, stable, and listed in docs/problems.md. `field` names what is wrong, `remedy` says
what to do, `instance` which request it was. An error that nobody foresaw answers 500 with an `error_id` that stands in the
log beside its traceback.
"""

from __future__ import annotations

import logging
import math
import re
import uuid
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap

from api.http.logs import CURRENT
from domain.errors import AssayError, InvalidInput, MalformedBody, TooBusy, VersionConflict

__all__ = [
    "EXCEPTION_HANDLERS",
    "MEDIA_TYPE",
    "TYPE_PREFIX",
    "BodyTooSlow",
    "NotAcceptable",
    "RateLimited",
    "UnsupportedMedia",
    "problem",
    "problem_response",
    "rendered",
    "unforeseen",
]

TYPE_PREFIX = "urn:assay:problem:"
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
INTERNAL = "internal"
_TITLES = {400: "Bad request", 404: "Not found", 405: "Method not allowed", 413: "Too large", 422: "Invalid input"}
_TYPES = {400: "malformed-body", 404: "not-found", 405: "method-not-allowed", 413: "payload-too-large"}
_REMEDIES = {
    "unknown-model": "GET /v1/models lists the known ones; any other is known once it was measured or traced.",
    "unknown-hardware": "GET /v1/hardware lists the known ones.",
    "unknown-platform": "The platforms are in /schema and docs/api.md.",
}
"""For names that nothing known is near to."""
_IN_TICKS = re.compile(r"field `(?P<name>[^`]+)`")
_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_LEFT = "client disconnected prematurely"
"""Litestar's words for a body that ends before its announced length."""
_LOG = logging.getLogger(__name__)


class UnsupportedMedia(InvalidInput):
    """The body is of a media type or encoding that the route does not take."""

    type = "unsupported-media"
    status = 415


class NotAcceptable(InvalidInput):
    """None of the media types in Accept can be answered with."""

    type = "not-acceptable"
    status = 406


class BodyTooSlow(InvalidInput):
    """The body did not arrive within the time that a request may take to send it."""

    type = "body-too-slow"
    status = 408


class RateLimited(TooBusy):
    """The token, or the address, asks for more than its rate; `retry_after_s` says when to come back."""

    type = "rate-limited"


def problem(error: AssayError, **members: Any) -> dict[str, Any]:
    """Return the problem document of an error as a mapping; `members` are added. `instance` names the request."""
    document: dict[str, Any] = {
        "type": TYPE_PREFIX + error.type,
        "title": type(error).__name__,
        "status": error.status,
        "detail": error.detail,
    }
    if error.field:
        document["field"] = error.field
    remedy = error.remedy or _REMEDIES.get(error.type)
    if remedy:
        document["remedy"] = remedy
    nearest = getattr(error, "nearest", ())
    if nearest:
        document["nearest"] = list(nearest)
    if isinstance(error, VersionConflict):
        document["version"] = getattr(error, "version", None)
    if error.retry_after_s is not None:
        document["retry_after_s"] = math.ceil(error.retry_after_s)
    return document | members


def rendered(document: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and bytes of a problem document; 429 and 503 say when to come back."""
    status = int(document["status"])
    request = CURRENT.get()
    if request is not None:
        request.problem = str(document["type"]).removeprefix(TYPE_PREFIX)
        document = {**document, "instance": f"urn:assay:request:{request.id}"}
    headers = {"Cache-Control": "no-store"}
    if status in (429, 503):
        headers["Retry-After"] = str(document.get("retry_after_s", RETRY_AFTER_S))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="assay"'
    return status, headers, msgspec.json.encode(document)


def problem_response(document: dict[str, Any]) -> Response[bytes]:
    """Return the response that carries a problem document."""
    status, headers, content = rendered(document)
    return Response(content, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _assay_error(_: Request[Any, Any, Any], error: AssayError) -> Response[bytes]:
    return problem_response(problem(error))


def _http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    if error.detail == _LEFT:
        return problem_response(problem(MalformedBody("the sender left.", field="$", remedy="Send it again.")))
    if error.status_code >= 500:
        return _unforeseen(request, error)
    document: dict[str, Any] = {
        "type": TYPE_PREFIX + _TYPES.get(error.status_code, "invalid-input"),
        "title": _TITLES.get(error.status_code, "Invalid input"),
        "status": error.status_code,
        "detail": error.detail,
    }
    document["remedy"] = "The routes and what they take are in /schema."
    answer = problem_response(document)
    if error.headers:
        answer.headers.update(error.headers)
    return answer


def _validation(_: Request[Any, Any, Any], error: ValidationException) -> Response[bytes]:
    """What Litestar's own checks of queries and bodies refuse; the first wrong field is named."""
    matching_extra = [item for item in error.extra if isinstance(item, dict)] if isinstance(error.extra, list) else []
    first = matching_extra[0] if matching_extra else {}
    words = str(first.get("message") or error.detail)
    at, named = _PATH.search(words), _IN_TICKS.search(words)
    field = (at and at["path"]) or (named and named["name"]) or first.get("key")
    document: dict[str, Any] = {
        "type": TYPE_PREFIX + "invalid-input",
        "title": "InvalidInput",
        "status": 422,
        "detail": _PATH.sub("", words) + ".",
        "remedy": "The route's parameters are in /schema.",
    }
    if field:
        document["field"] = str(field)
    return problem_response(document)


def unforeseen(error: Exception, method: str, path: str) -> dict[str, Any]:
    """Log an error that nobody expected, with its cause, and return the problem document that names the line."""
    request = CURRENT.get()
    error_id = request.id if request is not None else uuid.uuid4().hex
    _LOG.error("error %s at %s %s", error_id, method, path, exc_info=error)
    return {
        "type": TYPE_PREFIX + INTERNAL,
        "title": "Internal error",
        "status": 500,
        "detail": "The service failed in a way that it did not foresee.",
        "remedy": f"The log has the cause under {error_id}; please report it.",
        "error_id": error_id,
    }


def _unforeseen(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    return problem_response(unforeseen(error, request.method, request.url.path))


EXCEPTION_HANDLERS: ExceptionHandlersMap = {
    AssayError: _assay_error,
    ValidationException: _validation,
    HTTPException: _http_error,
    Exception: _unforeseen,
}
