"""What each API is asked and how it answers: OpenAI's completions, TGI's stream, OpenVINO Model Server, plain HTTP."""

from __future__ import annotations

import json
from typing import Any, Protocol

import msgspec

from domain.errors import UsageError
from runner.endpoint.exchange import Piece
from runner.endpoint.faults import EndpointFault, not_json
from runner.endpoint.target import Target

__all__ = ["EXTRAS", "Call", "OpenAi", "Plain", "Tgi", "language_call", "tensors"]

EXTRAS: tuple[tuple[str, ...], ...] = (
    ("stream_options", "ignore_eos", "min_tokens"),
    ("stream_options", "ignore_eos"),
    ("stream_options",),
    (),
)
"""Members beyond the standard that are tried in this order, because some servers refuse what they do not know."""


class Call(Protocol):
    """One kind of request. `streams` says whether its answer comes token by token, `allowed` how many tokens it may have."""

    path: str
    allowed: int | None
    streams: bool
    content_type: str

    def body(self, prompt: str, extras: tuple[str, ...]) -> bytes:
        """Return the body of a request; `extras` are the members of EXTRAS that this server takes."""

    def read(self, data: bytes) -> Piece:
        """Return what one event, or a whole answer, says; raises DecodeError or EndpointFault."""


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Said(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None

    def text(self) -> str:
        return (self.content or "") + (self.reasoning_content or self.reasoning or "")


class _Choice(msgspec.Struct):
    delta: _Said | None = None
    message: _Said | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_ANSWER: msgspec.json.Decoder[_Answer] = msgspec.json.Decoder(_Answer)


class OpenAi:
    """`/v1/chat/completions`, or `/v1/completions` where the path says so."""

    content_type = "application/json"

    def __init__(self, target: Target, output_tokens: int | None, *, streams: bool, base: str = "/v1") -> None:
        path = target.path or base
        self.path = path if path.endswith("/completions") else f"{path}/chat/completions"
        self.streams = streams
        self._chat = self.path.endswith("/chat/completions")
        self._model = target.served_as
        self.allowed = output_tokens

    def body(self, prompt: str, extras: tuple[str, ...]) -> bytes:
        """Return the body; greedy, so that every run asks for the same work."""
        request: dict[str, Any] = {"model": self._model, "temperature": 0, "stream": self.streams}
        request |= {"messages": [{"role": "user", "content": prompt}]} if self._chat else {"prompt": prompt}
        if self.allowed:
            request["max_tokens"] = self.allowed
            wanted = {"ignore_eos": True, "min_tokens": self.allowed}
            request |= {name: value for name, value in wanted.items() if name in extras}
        if self.streams and "stream_options" in extras:
            request["stream_options"] = {"include_usage": True}
        return msgspec.json.encode(request)

    def read(self, data: bytes) -> Piece:
        """Return what it says; an error in the middle of a stream ends it."""
        answer = _ANSWER.decode(data)
        if answer.error is not None:
            raise _server_error(answer.error)
        if not answer.choices and answer.usage is None and not self.streams:
            raise not_json("it has neither choices nor usage")
        piece = Piece()
        for choice in answer.choices:
            said = choice.delta or choice.message
            piece.text += choice.text or (said.text() if said else "")
            piece.last = piece.last or choice.finish_reason is not None
        if answer.usage is not None:
            piece.output_tokens, piece.input_tokens = answer.usage.completion_tokens, answer.usage.prompt_tokens
        return piece


class _TgiToken(msgspec.Struct):
    text: str = ""


class _TgiDetails(msgspec.Struct):
    generated_tokens: int | None = None
    input_length: int | None = None


class _TgiAnswer(msgspec.Struct):
    token: _TgiToken | None = None
    generated_text: str | None = None
    details: _TgiDetails | None = None
    error: str | None = None


_TGI: msgspec.json.Decoder[_TgiAnswer] = msgspec.json.Decoder(_TgiAnswer)


class Tgi:
    """`/generate_stream`, or `/generate` where the answer is not to be streamed."""

    content_type = "application/json"

    def __init__(self, target: Target, output_tokens: int | None, *, streams: bool) -> None:
        named = target.path.endswith(("/generate", "/generate_stream"))
        self.path = target.path if named else target.path + ("/generate_stream" if streams else "/generate")
        self.streams = streams
        self.allowed = output_tokens

    def body(self, prompt: str, extras: tuple[str, ...]) -> bytes:  # noqa: ARG002
        """Return the body; TGI has no way to go on after the model's own end."""
        parameters = {"max_new_tokens": self.allowed, "do_sample": False, "details": True}
        return msgspec.json.encode({"inputs": prompt, "parameters": parameters})

    def read(self, data: bytes) -> Piece:
        """Return what it says; the last event has the whole text and the details."""
        answer = _TGI.decode(data)
        if answer.error is not None:
            raise _server_error(answer.error)
        details = answer.details or _TgiDetails()
        return Piece(
            text=answer.token.text if answer.token else "",
            token=answer.token is not None,
            output_tokens=details.generated_tokens,
            input_tokens=details.input_length,
            last=answer.generated_text is not None,
        )


class Plain:
    """Any request with a body of one's own: only the time of the whole answer is known."""

    streams = False
    allowed: int | None = None

    def __init__(self, path: str, body: bytes, content_type: str) -> None:
        self.path = path or "/"
        self.content_type = content_type
        self._body = body

    def body(self, prompt: str, extras: tuple[str, ...]) -> bytes:  # noqa: ARG002
        """Return the body as it was given."""
        return self._body

    def read(self, data: bytes) -> Piece:  # noqa: ARG002
        """Return that it is complete: what it says is not looked at."""
        return Piece(last=True)


def language_call(target: Target, output_tokens: int | None, *, streams: bool) -> OpenAi | Tgi:
    """Return the kind of request that asks a language model."""
    if target.api == "tgi":
        return Tgi(target, output_tokens, streams=streams)
    return OpenAi(target, output_tokens, streams=streams, base="/v3" if target.api == "ovms" else "/v1")


class _Tensor(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]


class _Metadata(msgspec.Struct):
    inputs: list[_Tensor]


_LARGEST = 2**22


def tensors(metadata: bytes, batch_size: int, sequence_length: int | None) -> bytes:
    """Return the body of an inference for the inputs that a server of the KServe protocol (version 2) describes.

    An open first axis is the batch, any other open axis the sequence. Raises UsageError where a size is missing, and
    EndpointFault where the description cannot be read.
    """
    try:
        inputs = msgspec.json.decode(metadata, type=_Metadata).inputs
    except msgspec.DecodeError as error:
        raise not_json(str(error)) from None
    return json.dumps({"inputs": [_filled(each, batch_size, sequence_length) for each in inputs]}).encode()


def _filled(tensor: _Tensor, batch_size: int, sequence_length: int | None) -> dict[str, Any]:
    shape = [batch_size if axis == 0 and size < 1 else size for axis, size in enumerate(tensor.shape)]
    if any(size < 1 for size in shape):
        if sequence_length is None:
            raise UsageError(
                f"the input {tensor.name} has an open axis besides the batch.",
                field="sequence_lengths",
                remedy="Give --sequence-length, or a request of your own with --api http --body FILE.",
            )
        shape = [size if size >= 1 else sequence_length for size in shape]
    count = 1
    for size in shape:
        count *= size
    if count > _LARGEST:
        raise EndpointFault(
            "RequestTooLong", f"the input {tensor.name} has {count:,} numbers.", "Ask for a smaller batch.", final=True
        )
    value: float | int | bool = {"BOOL": True, "BYTES": 0}.get(tensor.datatype, 1 if "INT" in tensor.datatype else 0.5)
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": shape, "data": [value] * count}


def _server_error(error: Any) -> EndpointFault:
    said = error.get("message") if isinstance(error, dict) else error
    text = " ".join(str(said).split())[:300]
    return EndpointFault(
        "ServerError", f"the server ends the answer with an error: {text}.", "Look at the server's own log."
    )
