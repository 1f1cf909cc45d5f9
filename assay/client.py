"""The typed HTTP client: `from assay import Client`.

Retries, as docs/api.md documents them: 429, 502, 503 and 504 and a connection that could not be made or broke are tried
again after the time in Retry-After, or else after a random time under a bound that doubles; no other answer is. Events
carry their own ids, so sending them again is harmless; what would be done twice is not sent again once it was sent.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

import httpx
import msgspec

from domain import errors
from domain.errors import AssayError, ServiceUnavailable, TooBusy, UsageError, VersionConflict

__all__ = ["BATCH_BYTES", "BATCH_EVENTS", "Client", "batches"]

Json = dict[str, Any]
BATCH_EVENTS = 1000
BATCH_BYTES = 8_000_000
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0
TRY_AGAIN = frozenset({429, 502, 503, 504})


def _errors_by_type(root: type[AssayError] = AssayError) -> dict[str, type[AssayError]]:
    found = {root.type: root}
    for child in root.__subclasses__():
        found.update(_errors_by_type(child))
    return found


_ERRORS = _errors_by_type()
_BY_STATUS: dict[int, type[AssayError]] = {429: TooBusy, **dict.fromkeys((500, 502, 503, 504), ServiceUnavailable)}
"""For problems of a newer service than this client."""


class Client:
    """Talks to one Assay service. Every method raises an AssayError that names the field and the remedy."""

    def __init__(
        self, server: str | None = None, token: str | None = None, *, timeout_s: float = 60.0, patience_s: float = 30.0
    ) -> None:
        """Talk to `server`: else ASSAY_SERVER, else the service on ASSAY_HOME; be patient for `patience_s` in all."""
        self.server = (server or os.environ.get("ASSAY_SERVER") or _local()).rstrip("/")
        token = token or os.environ.get("ASSAY_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._patience_s = patience_s
        # A proxy of the environment is for other hosts than the service's.
        self._http = httpx.Client(base_url=self.server, headers=headers, timeout=timeout_s, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Writing

    def post_events(
        self, events: Iterable[Mapping[str, Any] | bytes], *, batch: int = BATCH_EVENTS, on_batch: Any = None
    ) -> Json:
        """Append events and return what became of them, with indexes into the whole; `on_batch(n)` after each post."""
        total: Json = {"accepted": 0, "duplicate": 0, "rejected": [], "warnings": [], "last_position": None}
        sent = 0
        for lines in batches(events, batch):
            answer = self._post_lines(lines)
            for name in ("accepted", "duplicate"):
                total[name] += answer.get(name, 0)
            for name in ("rejected", "warnings"):
                total[name] += [{**item, "index": item["index"] + sent} for item in answer.get(name, [])]
            known = [
                position for position in (total["last_position"], answer.get("last_position")) if position is not None
            ]
            total["last_position"] = max(known, default=None)
            sent += len(lines)
            if on_batch is not None:
                on_batch(len(lines))
        return total

    def _post_lines(self, lines: Sequence[bytes]) -> Json:
        response = self._send(
            "POST", "/v1/events", content=b"\n".join(lines) + b"\n", headers={"Content-Type": "application/x-ndjson"}
        )
        body = _decoded(response)
        if response.status_code in (409, 422) and isinstance(body, dict) and "rejected" in body:
            return body
        return cast(Json, _checked(response, body))

    def decide(self, subject: str, version: int, events: Iterable[Mapping[str, Any] | bytes]) -> Json:
        """Append all events of a subject, or none where its newest event is not at position `version` any more.

        0 means that it has none. Raises VersionConflict, whose `version` is the actual one.
        """
        lines = [event if isinstance(event, bytes) else msgspec.json.encode(event) for event in events]
        response = self._send(
            "POST",
            "/v1/events",
            params={"subject": subject, "expected_version": version},
            content=b"[" + b",".join(lines) + b"]",
            headers={"Content-Type": "application/cloudevents-batch+json"},
        )
        return cast(Json, _checked(response, _decoded(response)))

    # Reading

    def events(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Sequence[str] = (),
        subject: str | None = None,
        source: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Json]:
        """Yield the stored events with `after` < position ≤ `upto`, recorded from `since` and before `until`."""
        asked = {
            "upto": upto,
            "type": list(types) or None,
            "subject": subject,
            "source": source,
            "since": since.isoformat() if since else None,
            "until": until.isoformat() if until else None,
        }
        while True:
            page = self._get("/v1/events", after=after, limit=1000, **asked)
            yield from page["events"]
            if page["next"] is None:
                return
            after = page["events"][-1]["position"]

    def event(self, identifier: str) -> Json:
        """Return one event; NotFound, or Expired where it held raw samples whose time has ended."""
        return self._get(f"/v1/events/{identifier}")

    def _rows(self, noun: str, *, limit: int | None = None, **filters: Any) -> list[Json]:
        rows: list[Json] = []
        cursor: str | None = None
        while True:
            page = self._get(f"/v1/{noun}", cursor=cursor, limit=min(limit or 1000, 1000), **filters)
            rows += page["items"]
            cursor = page.get("next_cursor")
            if cursor is None or (limit is not None and len(rows) >= limit):
                return rows[:limit]

    def runs(self, **filters: Any) -> list[Json]:
        """Return the runs, newest first."""
        return self._rows("runs", **filters)

    def measurements(self, **filters: Any) -> list[Json]:
        """Return measurements, filtered by model, hardware, platform, precision and as_of."""
        return self._rows("measurements", **filters)

    def tests(self, **filters: Any) -> list[Json]:
        """Return test outcomes."""
        return self._rows("tests", **filters)

    def models(self, **filters: Any) -> list[Json]:
        """Return the models that are known."""
        return self._rows("models", **filters)

    def hardware(self, **filters: Any) -> list[Json]:
        """Return the hardware that is known."""
        return self._rows("hardware", **filters)

    def environments(self, **filters: Any) -> list[Json]:
        """Return the environments that were seen."""
        return self._rows("environments", **filters)

    def compatibility(self, **filters: Any) -> list[Json]:
        """Return the matrix of tests and benchmarks: model × platform × precision."""
        return self._rows("compatibility", **filters)

    def compare_hardware(self, model: str, **filters: Any) -> Json:
        """Return what was measured or imported for a model on every hardware."""
        return self._get("/v1/comparisons/hardware", model=model, **filters)

    def compare_models(self, hardware: str, **filters: Any) -> Json:
        """Return what was measured or imported for every model on a hardware."""
        return self._get("/v1/comparisons/models", hardware=hardware, **filters)

    def compare_modes(self, model: str, **filters: Any) -> Json:
        """Return inference beside training for a model."""
        return self._get("/v1/comparisons/modes", model=model, **filters)

    def trends(self, model: str, **filters: Any) -> Json:
        """Return a metric of a model's configurations over time."""
        return self._get("/v1/trends", model=model, **filters)

    def summary(self, **filters: Any) -> Json:
        """Return how much is known: counts of models, hardware, runs, measurements and tests."""
        return self._get("/v1/summary", **filters)

    # Asking

    def recommend(self, model: str, **question: Any) -> Json:
        """Return the ranked answer to a question; its members are the flags of `assay recommend`."""
        return self._post("/v1/recommendations", {"model": model, **question})

    def recommendation(self, identifier: str) -> Json:
        """Return an answer that was recorded."""
        return self._get(f"/v1/recommendations/{identifier}")

    def predict(self, model: str, **question: Any) -> Json:
        """Return one configuration's prediction with its interval and basis."""
        return self._post("/v1/predictions", {"model": model, **question})

    def predictor(self, **filters: Any) -> Json:
        """Return the card of the predictor in force."""
        return self._get("/v1/predictor", **filters)

    def train(self) -> Json:
        """Train on what the tables hold and return the new predictor's card; takes minutes on large logs."""
        return self._post("/v1/predictor/train", {}, timeout_s=3600, again=False)

    def evaluate(self, **question: Any) -> Json:
        """Return grouped scores of the predictor's method on the tables."""
        return self._post("/v1/predictor/evaluate", question, timeout_s=3600)

    def query(self, sql: str, **options: Any) -> Json:
        """Return the rows of one SELECT over the documented views."""
        return self._post("/v1/query", {"sql": sql, **options})

    # Operating

    def ready(self) -> Json:
        """Return position, lag and what else health has to say; raise ServiceUnavailable where it is not ready."""
        return self._get("/health/ready")

    def wait_for(self, position: int, timeout_s: float = 60.0) -> None:
        """Return when the tables have reached a position; raise ProjectionBehind where they do not in time."""
        deadline = time.monotonic() + timeout_s
        while self.ready()["position"] < position:
            if time.monotonic() > deadline:
                raise errors.ProjectionBehind(
                    f"the tables have not reached position {position} within {timeout_s:.0f} s.",
                    remedy="`assay status` shows the lag and what holds it up.",
                )
            time.sleep(0.05)

    def rebuild(self) -> Json:
        """Project the whole log anew beside the old tables and swap."""
        return self._post("/v1/projection/rebuild", {}, timeout_s=3600, again=False)

    def create_token(
        self, name: str, scopes: Sequence[str], *, source: str | None = None, expires_at: datetime | None = None
    ) -> Json:
        """Make a token and return it beside its `secret`, which nobody can read again."""
        asked = {
            "name": name,
            "scopes": list(scopes),
            "source": source,
            "expires_at": expires_at.isoformat() if expires_at else None,
        }
        return self._post("/v1/tokens", asked, again=False)

    def tokens(self) -> list[Json]:
        """Return all tokens ever made, without secrets."""
        return cast("list[Json]", self._get("/v1/tokens")["items"])

    def revoke_token(self, token: str) -> Json:
        """Revoke the token of this id, prefix or name."""
        response = self._send("DELETE", f"/v1/tokens/{quote(token, safe='')}")
        return cast(Json, _checked(response, _decoded(response)))

    # The wire

    def _get(self, path: str, **query: Any) -> Json:
        asked = {name: value for name, value in query.items() if value is not None}
        response = self._send("GET", path, params=asked)
        return cast(Json, _checked(response, _decoded(response)))

    def _post(self, path: str, body: Mapping[str, Any], *, timeout_s: float | None = None, again: bool = True) -> Json:
        asked = {name: value for name, value in body.items() if value is not None}
        options: dict[str, Any] = {"timeout": timeout_s} if timeout_s else {}
        response = self._send(
            "POST",
            path,
            again=again,
            content=msgspec.json.encode(asked),
            headers={"Content-Type": "application/json"},
            **options,
        )
        return cast(Json, _checked(response, _decoded(response)))

    def _send(self, method: str, path: str, *, again: bool = True, **options: Any) -> httpx.Response:
        """Send a request by the rules for trying again; without `again` not once it may have been done."""
        deadline = time.monotonic() + self._patience_s
        bound = FIRST_WAIT_S
        while True:
            failure: Exception | None = None
            response: httpx.Response | None = None
            try:
                response = self._http.request(method, path, **options)
            except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                raise UsageError(
                    f"{self.server!r} is not an address: {error}.", field="server", remedy="Give http://host:port."
                ) from error
            except httpx.TransportError as error:
                failure = error
            if response is not None and response.status_code not in TRY_AGAIN:
                return response
            said = _retry_after(response)
            # Everybody who was told the same time would come back at the same moment.
            wait = random.uniform(0, bound) if said is None else said + random.uniform(0, FIRST_WAIT_S)
            unsent = response is not None or isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout)
            if time.monotonic() + wait > deadline or not (again or unsent):
                if response is not None:
                    return response
                raise ServiceUnavailable(
                    f"no service answers at {self.server} ({type(failure).__name__}).",
                    field="server",
                    remedy="Start it with `assay up`, or name another with --server or ASSAY_SERVER.",
                ) from failure
            time.sleep(wait)
            bound = min(bound * 2, LONGEST_WAIT_S)


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


def _decoded(response: httpx.Response) -> Any:
    try:
        return msgspec.json.decode(response.content) if response.content else {}
    except msgspec.DecodeError:
        return None


def _checked(response: httpx.Response, body: Any) -> Any:
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
