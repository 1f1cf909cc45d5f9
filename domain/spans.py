"""Spans of OpenTelemetry for every package. Without a tracer in use nothing is recorded and next to nothing is spent.

Nothing here does I/O: a process that exports spans hands in a tracer (`api.background.span_export` makes one). Attributes
hold counts, positions, identifiers and names of models and hardware; never SQL, bodies, tokens or paths.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, Tracer

__all__ = ["Appends", "Span", "active", "context", "extract", "headers", "public_name", "span", "trace_id", "use"]

Kind = Literal["internal", "server", "client"]
Value = str | int | float | bool | None
REMEMBERED = 1024
"""Appends whose spans are known until the projector has reached them."""
LINKS = 128
"""Of one span, as the specification bounds them by default."""


class Span(Protocol):
    """A span as a context manager; an exception that leaves it marks it as failed with the exception's type."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""

    def set(self, *, name: str | None = None, failed: bool = False, **attributes: Value) -> None:
        """Add attributes, with `_` for `.` in their names; rename the span, or mark it as failed."""


class _Off:
    """The span of a process that records none."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def set(self, *, name: str | None = None, failed: bool = False, **attributes: Value) -> None:
        """Do nothing."""


class _Tracing:
    """The parts of OpenTelemetry's API that spans need, imported when a tracer is handed in."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.tracer = tracer
        self.api = trace
        self.root = Context()
        self.propagator = TraceContextTextMapPropagator()
        self.kinds = {
            "internal": trace.SpanKind.INTERNAL,
            "server": trace.SpanKind.SERVER,
            "client": trace.SpanKind.CLIENT,
        }

    def around(self, parent: SpanContext | None) -> Any:
        """Return the context whose current span is `parent`; None is the context of the caller."""
        return None if parent is None else self.api.set_span_in_context(self.api.NonRecordingSpan(parent))


class _Recorded:
    """A span of the tracer in use, current while its block runs."""

    def __init__(self, tracing: _Tracing, name: str, options: Mapping[str, Any]) -> None:
        self._tracing = tracing
        self._manager = tracing.tracer.start_as_current_span(name, **options)
        self._span: Any = None

    def __enter__(self) -> Self:
        self._span = self._manager.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # Not the message: it may quote what a person typed.
            self.set(failed=True, error_type=kind.__name__)
        self._manager.__exit__(None, None, None)

    def set(self, *, name: str | None = None, failed: bool = False, **attributes: Value) -> None:
        if name is not None:
            self._span.update_name(name)
        if failed:
            self._span.set_status(self._tracing.api.StatusCode.ERROR)
        self._span.set_attributes(_named(attributes))


_OFF = _Off()
_tracing: _Tracing | None = None


def _named(attributes: Mapping[str, Value]) -> dict[str, Any]:
    return {_dotted(name): value for name, value in attributes.items() if value is not None}


def _dotted(name: str) -> str:
    """Return `http_response_status__code` as `http.response.status_code`."""
    return name.replace("__", "\0").replace("_", ".").replace("\0", "_")


def use(tracer: Tracer | None) -> None:
    """Record spans with this tracer from here on; None records none."""
    global _tracing
    _tracing = None if tracer is None else _Tracing(tracer)


def active() -> bool:
    """Return whether spans are recorded."""
    return _tracing is not None


def span(
    name: str,
    *,
    kind: Kind = "internal",
    parent: SpanContext | None = None,
    links: Sequence[SpanContext] = (),
    **attributes: Value,
) -> Span:
    """Return a span below `parent`, by default below the current one; in names of attributes `_` is `.` and `__` is `_`."""
    tracing = _tracing
    if tracing is None:
        return _OFF
    options = {
        "context": tracing.around(parent),
        "kind": tracing.kinds[kind],
        "links": [tracing.api.Link(each) for each in links[:LINKS]],
        "attributes": _named(attributes),
    }
    return _Recorded(tracing, name, options)


def context() -> SpanContext | None:
    """Return what names the current span in other threads and tasks; None where there is none."""
    tracing = _tracing
    if tracing is None:
        return None
    current = tracing.api.get_current_span().get_span_context()
    return current if current.is_valid else None


def trace_id() -> str | None:
    """Return the id of the current trace, 32 hexadecimal digits; None where there is none."""
    current = context()
    return None if current is None else f"{current.trace_id:032x}"


def headers() -> dict[str, str]:
    """Return `traceparent` (W3C Trace Context) of the current span for a request; empty where there is none."""
    carrier: dict[str, str] = {}
    if _tracing is not None:
        _tracing.propagator.inject(carrier)
    return carrier


def extract(request: Mapping[bytes, bytes]) -> SpanContext | None:
    """Return the span that the headers of a request name; None where they name none, or not as W3C Trace Context says."""
    tracing = _tracing
    if tracing is None or b"traceparent" not in request:
        return None
    carrier = {
        name: request[name.encode()].decode("latin-1")
        for name in ("traceparent", "tracestate")
        if name.encode() in request
    }
    sender = tracing.api.get_current_span(tracing.propagator.extract(carrier)).get_span_context()
    return sender if sender.is_valid else None


def public_name(model: str) -> str:
    """Return the name of a model as a span may hold it: a path of somebody's machine is `(local)`."""
    return "(local)" if model.startswith((".", "/", "~")) or "\\" in model else model


class _Move:
    """A stretch of the log that was projected, and when."""

    def __init__(self, name: str, before: int, now: int, since_ns: int) -> None:
        self.name, self.before, self.now = name, before, now
        self.since_ns, self.until_ns = since_ns, time.time_ns()

    def record(self, tracing: _Tracing, appends: Sequence[SpanContext]) -> None:
        """Record its span below the first append in it, linked to the others; a root where none is known."""
        span = tracing.tracer.start_span(
            self.name,
            context=tracing.around(appends[0]) if appends else tracing.root,
            links=[tracing.api.Link(each) for each in appends[1 : LINKS + 1]],
            attributes=_named({"assay_position_first": self.before + 1, "assay_position_last": self.now}),
            start_time=self.since_ns,
        )
        span.end(self.until_ns)


class Appends:
    """The spans of recent appends by position, so that what follows the log can name those that it works on.

    Bounded: where more than REMEMBERED wait, the oldest are forgotten. Trace context never enters an event.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[int, SpanContext]] = deque(maxlen=REMEMBERED)
        self._early: deque[_Move] = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()
        self._under_way = 0

    def span(self, name: str, **attributes: Value) -> Span:
        """Return the span of an append; it is known by the `assay_position_last` that is set before its end."""
        tracing = _tracing
        if tracing is None:
            return _OFF
        options = {"kind": tracing.kinds["client"], "attributes": _named(attributes)}
        return _Append(self, tracing, name, options)

    def begin(self) -> None:
        """Count an append that is under way: a follower may see what it appended before its position is known here."""
        with self._lock:
            self._under_way += 1

    def end(self, tracing: _Tracing, append: SpanContext, position: int | None) -> None:
        """Keep the span of an append that ended; what followed it before that is recorded now."""
        with self._lock:
            self._under_way -= 1
            claimed = [move for move in self._early if position and move.before < position <= move.now]
            left = [] if self._under_way else [move for move in self._early if move not in claimed]
            self._early = deque((move for move in self._early if move not in (*claimed, *left)), REMEMBERED)
            if position and not claimed:
                self._recent.append((position, append))
        for move in claimed:
            move.record(tracing, [append])
        for move in left:
            move.record(tracing, [])

    def follower(self, name: str, position: Callable[[], int], then: Callable[[], None]) -> Callable[[], None]:
        """Return what calls `then` and, where the position has moved since the last time, records a span of the move."""
        since, before = time.time_ns(), position()

        def moved() -> None:
            nonlocal since, before
            then()
            now, tracing = position(), _tracing
            if now > before:
                if tracing is not None:
                    self._follow(tracing, _Move(name, before, now, since))
                since, before = time.time_ns(), now

        return moved

    def _follow(self, tracing: _Tracing, move: _Move) -> None:
        with self._lock:
            appends = [each for position, each in self._recent if move.before < position <= move.now]
            while self._recent and self._recent[0][0] <= move.now:
                self._recent.popleft()
            if not appends and self._under_way:
                self._early.append(move)
                return
        move.record(tracing, appends)


class _Append(_Recorded):
    """The span of an append, kept by position when it ends."""

    def __init__(self, appends: Appends, tracing: _Tracing, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(tracing, name, options)
        self._appends = appends
        self._position: int | None = None

    def __enter__(self) -> Self:
        self._appends.begin()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._appends.end(self._tracing, self._span.get_span_context(), self._position)

    def set(self, *, name: str | None = None, failed: bool = False, **attributes: Value) -> None:
        position = attributes.get("assay_position_last")
        self._position = position if isinstance(position, int) else self._position
        super().set(name=name, failed=failed, **attributes)
