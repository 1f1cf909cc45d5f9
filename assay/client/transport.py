"""How the client speaks to a service: requests, what is tried again, and problems as the errors that they name.

Retries, as docs/api.md documents them: 429, 502, 503 and 504 and a connection that could not be made or broke are tried
again after the time in Retry-After, or else after a random time under a bound that doubles; no other answer is. Events
carry their own ids, so sending them again is harmless; what would be done twice is not sent again once it was sent.
"""

from __future__ import annotations

import math
import os
import random
import ssl
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, cast

import httpx
import msgspec

from domain import spans
from domain.errors import AssayError, ServiceUnavailable, TooBusy, UsageError, VersionConflict

__all__ = ["BATCH_BYTES", "BATCH_EVENTS", "Json", "Wire", "authorities", "batches", "checked", "decoded", "patience"]

Json = dict[str, Any]
BATCH_EVENTS = 1000
BATCH_BYTES = 8_000_000
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0
PATIENCE_S = 30.0
TRY_AGAIN = frozenset({429, 502, 503, 504})


def _errors_by_type(root: type[AssayError] = AssayError) -> dict[str, type[AssayError]]:
    errors = {root.type: root}
    for child in root.__subclasses__():
        errors.update(_errors_by_type(child))
    return errors


_ERRORS = _errors_by_type()
_BY_STATUS: dict[int, type[AssayError]] = {429: TooBusy, **dict.fromkeys((500, 502, 503, 504), ServiceUnavailable)}
"""For problems of a newer service than this client."""


def patience(otherwise: float) -> float:
    """Return the seconds that ASSAY_PATIENCE_S gives a service that is away or slow, or `otherwise`. Raises UsageError."""
    said = os.environ.get("ASSAY_PATIENCE_S") or str(otherwise)
    try:
        seconds = float(said)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise UsageError(
            f"{said!r} is not a number of seconds.",
            field="ASSAY_PATIENCE_S",
            remedy="Set it to how long to wait for a service that is away or slow, as 5, or leave it out.",
        )
    return seconds


def authorities(server: str) -> ssl.SSLContext | bool:
    """Return whom to trust for a server: the authorities in SSL_CERT_FILE or SSL_CERT_DIR, else those that httpx ships.

    For a server that is asked in plain HTTP it is nobody: certificates are not read, which takes as long as an answer.
    """
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    if not server.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not (file or folder):
        return True
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        raise UsageError(
            f"{file or folder} has no certificates that can be read: {error.strerror or error}.",
            field="SSL_CERT_FILE" if file else "SSL_CERT_DIR",
            remedy="Name a file of certificates in PEM, or unset it to trust the public authorities.",
        ) from error


class Wire:
    """A connection to one service. Every method raises an AssayError that names the field and the remedy."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 60.0,
        patience_s: float | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Talk to `server`: else ASSAY_SERVER, else the service on ASSAY_HOME.

        Be patient for `patience_s` in all: else ASSAY_PATIENCE_S, else 30. `transport` sends the requests in the place of
        the network.
        """
        self.server = (server or os.environ.get("ASSAY_SERVER") or _local()).rstrip("/")
        token = token or os.environ.get("ASSAY_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._patience_s = patience(PATIENCE_S) if patience_s is None else patience_s
        self._timeout_s = timeout_s
        # A proxy of the environment is for other hosts than the service's.
        self._http = httpx.Client(
            base_url=self.server,
            headers=headers,
            timeout=timeout_s,
            trust_env=False,
            transport=transport,
            verify=authorities(self.server),
        )
        # Shared by threads it has no one moment to be closed at: its connections end with its last use.
        weakref.finalize(self, self._http.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def fetch(self, path: str, media_type: str, **query: Any) -> httpx.Response:
        """Return the answer to a GET in a media type: its content as it is, and headers such as Assay-Next-Cursor."""
        values = {name: value for name, value in query.items() if value is not None}
        response = self._send("GET", path, params=values, headers={"Accept": media_type})
        if not response.is_success:
            checked(response, decoded(response))
        return response

    def _get(self, path: str, **query: Any) -> Json:
        values = {name: value for name, value in query.items() if value is not None}
        response = self._send("GET", path, params=values)
        return cast(Json, checked(response, decoded(response)))

    def _post(self, path: str, body: Mapping[str, Any], *, timeout_s: float | None = None, again: bool = True) -> Json:
        values = {name: value for name, value in body.items() if value is not None}
        options: dict[str, Any] = {"timeout": timeout_s} if timeout_s else {}
        response = self._send(
            "POST",
            path,
            again=again,
            content=msgspec.json.encode(values),
            headers={"Content-Type": "application/json"},
            **options,
        )
        return cast(Json, checked(response, decoded(response)))

    def _send(self, method: str, path: str, *, again: bool = True, **options: Any) -> httpx.Response:
        """Send a request by the rules for trying again; without `again` not once it may have been done."""
        deadline = time.monotonic() + self._patience_s
        bound = FIRST_WAIT_S
        while True:
            failure: Exception | None = None
            response: httpx.Response | None = None
            try:
                response = self._request(method, path, options)
            except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                raise UsageError(
                    f"{self.server!r} is not an address: {error}.", field="server", remedy="Give http://host:port."
                ) from error
            except httpx.TransportError as error:
                failure = error
            if response is not None and response.status_code not in TRY_AGAIN:
                return response
            said = _retry_after(response)
            # Clients that got the same Retry-After would come back at the same moment.
            wait = random.uniform(0, bound) if said is None else said + random.uniform(0, FIRST_WAIT_S)
            unsent = response is not None or isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout)
            if time.monotonic() + wait > deadline or not (again or unsent):
                if response is not None:
                    return response
                if isinstance(failure, httpx.ReadTimeout | httpx.WriteTimeout):
                    raise ServiceUnavailable(
                        f"the service at {self.server} has not answered within {options.get('timeout', self._timeout_s):g} s.",
                        field="server",
                        remedy="Try again: it may be busy, which `assay status` shows, or far away.",
                    ) from failure
                raise ServiceUnavailable(
                    f"no service answers at {self.server} ({type(failure).__name__}).",
                    field="server",
                    remedy="Start it with `assay up`, or name another with --server or ASSAY_SERVER.",
                ) from failure
            time.sleep(wait)
            bound = min(bound * 2, LONGEST_WAIT_S)

    def _request(self, method: str, path: str, options: Json) -> httpx.Response:
        """Send one request, in a span of its own where spans are recorded; the service goes on with its trace."""
        if not spans.active():
            return self._http.request(method, path, **options)
        url = httpx.URL(self.server)
        with spans.span(
            method, kind="client", http_request_method=method, server_address=url.host, server_port=url.port
        ) as span:
            headers = {**(options.get("headers") or {}), **spans.headers()}
            response = self._http.request(method, path, **{**options, "headers": headers})
            span.set(http_response_status__code=response.status_code, failed=response.status_code >= 400)
            return response


def _local() -> str:
    from assay.home import find_home, running

    service = running(find_home())
    if service is None:
        raise ServiceUnavailable(
            "no service runs on ASSAY_HOME.", field="server", remedy="Start one with `assay up`, or set ASSAY_SERVER."
        )
    return service.url


def batches(events: Iterable[Mapping[str, Any] | bytes], most: int = BATCH_EVENTS) -> Iterator[list[bytes]]:
    """Group events, as lines of JSON, so that no group passes the limits of one request; one that is alone may."""
    batch: list[bytes] = []
    size = 0
    for event in events:
        line = event.strip() if isinstance(event, bytes) else msgspec.json.encode(event)
        if batch and (len(batch) >= most or size + len(line) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line) + 1
    if batch:
        yield batch


def _retry_after(response: httpx.Response | None) -> float | None:
    said = response.headers.get("Retry-After", "") if response is not None else ""
    return float(said) if said.replace(".", "", 1).isdigit() else None


def decoded(response: httpx.Response) -> Any:
    """Return the JSON of an answer; an empty object where there is no content, None where it is no JSON."""
    try:
        return msgspec.json.decode(response.content) if response.content else {}
    except msgspec.DecodeError:
        return None


def checked(response: httpx.Response, body: Any) -> Any:
    """Return the body of a success; raise the error that a problem document names."""
    if response.is_success and body is not None:
        return body
    problem = body if isinstance(body, dict) else {}
    kind = str(problem.get("type", "")).rpartition(":")[2].rpartition("/")[2]
    shape = _ERRORS.get(kind, _BY_STATUS.get(response.status_code, AssayError))
    error = shape.__new__(shape)
    AssayError.__init__(
        error,
        problem.get("detail") or f"the service answered {response.status_code} without a reason.",
        field=problem.get("field"),
        remedy=problem.get("remedy"),
    )
    error.retry_after_s = _retry_after(response)
    error.rejected = problem.get("rejected") or []
    if isinstance(error, VersionConflict):
        error.version = problem.get("version", 0)
    raise error
