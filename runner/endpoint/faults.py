"""What can be wrong with an endpoint: one error with the stage-free part of an outcome, and a sentence on what to do."""

from __future__ import annotations

import msgspec

from runner.protocol.tasks import Failed

__all__ = [
    "EndpointFault",
    "broken",
    "gone",
    "not_json",
    "not_streamed",
    "refused",
    "silent",
    "too_long",
    "unreachable",
]

_SAID = 300
"""So many characters of what a server says are kept."""


class EndpointFault(Exception):
    """A request that gave no measurement. `final` is one that every further request would meet as well."""

    def __init__(self, error: str, message: str, remedy: str, *, outcome: str = "error", final: bool = False) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
        self.remedy = remedy
        self.outcome = outcome
        self.final = final

    def failed(self, stage: str) -> Failed:
        """Return it as the outcome of a case at a stage."""
        return Failed(stage=stage, outcome=self.outcome, error=self.error, message=self.message, remedy=self.remedy)


def unreachable(why: str) -> EndpointFault:
    """Return that no connection was made."""
    return EndpointFault(
        "EndpointUnreachable",
        f"the endpoint cannot be reached: {why}.",
        "Check that it runs and listens there, and the host, port and scheme of --endpoint.",
    )


def gone(times: int, last: EndpointFault) -> EndpointFault:
    """Return that it went away while it was measured."""
    return EndpointFault(
        "EndpointGone",
        f"the endpoint went away while it was measured: {times} requests in a row failed, the last because {last.message}",
        "Look at the server's own log, start it again, and repeat the run with --resume.",
    )


def silent(seconds: float, tokens: int) -> EndpointFault:
    """Return that nothing came for so long."""
    where = f"after {tokens} tokens " if tokens else ""
    return EndpointFault(
        "EndpointSlow",
        f"nothing came {where}for {seconds:g} s.",
        "Give it more time with --request-timeout, or ask for less (--output-tokens, --concurrency).",
        outcome="timeout",
    )


def broken(tokens: int) -> EndpointFault:
    """Return that an answer ended before it was complete."""
    where = f"after {tokens} tokens" if tokens else "before its first token"
    return EndpointFault(
        "BrokenAnswer",
        f"the answer broke off {where}.",
        "Look at the server's own log, or at the proxy between: the connection was closed in the middle.",
    )


def not_streamed(kind: str) -> EndpointFault:
    """Return that a stream was asked for and one whole answer came."""
    return EndpointFault(
        "NotStreamed",
        f"a stream of tokens was asked for, and one whole answer came ({kind or 'without a content type'}).",
        "Turn streaming on in the server, or measure whole answers with --no-stream: then there is no time to the first token.",
        outcome="unsupported",
        final=True,
    )


def not_json(what: str) -> EndpointFault:
    """Return that what came cannot be read."""
    return EndpointFault(
        "UnreadableAnswer",
        f"the answer is not what this API sends: {what}.",
        "Check --api and the path of --endpoint: something else answers there.",
    )


def too_long(limit: int) -> EndpointFault:
    """Return that an answer is longer than is kept."""
    return EndpointFault(
        "AnswerTooLong",
        f"the answer is longer than {limit:,} bytes.",
        "Ask for fewer tokens, or check what answers there.",
    )


def refused(status: int, said: bytes, *, location: str | None = None, elsewhere: bool = False) -> EndpointFault:
    """Return what an HTTP status other than 2xx means; `said` is the body of the answer."""
    if 300 <= status < 400:
        where = "another host" if elsewhere else "another address of the same host" if location else "nowhere"
        return EndpointFault(
            "RedirectRefused",
            f"it answers {status} and points to {where}; a redirect is not followed, what is measured must be what is named.",
            "Name the address that serves the model itself with --endpoint, if you trust it.",
            final=True,
        )
    error, remedy, final = _STATUS.get(status, _KIND[status // 100] if status // 100 in _KIND else _KIND[5])
    return EndpointFault(error, f"it answers {status}{_quoted(said)}.", remedy, final=final)


_UNAUTHORISED = (
    "Unauthorised",
    "Put the key into the variable ASSAY_ENDPOINT_KEY, or name the variable with --key-variable.",
    True,
)
_STATUS = {
    401: _UNAUTHORISED,
    403: _UNAUTHORISED,
    404: (
        "NotServed",
        "Check the path of --endpoint, --api, and the name that the server gives the model (--served-as).",
        True,
    ),
    429: ("Overloaded", "Ask for less at once (--concurrency, --request-rate), or raise the server's limits.", False),
    503: (
        "Overloaded",
        "Wait until the model is loaded, or ask for less at once (--concurrency, --request-rate).",
        False,
    ),
}
_KIND = {
    1: ("UnreadableAnswer", "Check --api and the path of --endpoint.", True),
    4: ("RequestRefused", "Read what the server says; check --api, --served-as and the numbers of tokens.", True),
    5: ("ServerError", "Look at the server's own log.", False),
}


def _quoted(said: bytes) -> str:
    text = " ".join(_sentence(said).split()).rstrip(".")
    return f": {text[:_SAID]}{'…' if len(text) > _SAID else ''}" if text else ""


def _sentence(said: bytes) -> str:
    """Return what an error's body says in words, as the APIs write it, or the body as it is."""
    try:
        document = msgspec.json.decode(said)
    except msgspec.DecodeError:
        return said.decode(errors="replace")
    error = document.get("error", document) if isinstance(document, dict) else document
    if isinstance(error, dict):
        error = next((error[name] for name in ("message", "detail", "error") if error.get(name)), error)
    return str(error)
