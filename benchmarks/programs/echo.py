"""A server of known timing that speaks OpenAI's and TGI's streams: an instrument to hold clients against.

    python -m benchmarks.programs.echo [--first-ms 50] [--gap-ms 20] [--port 0]

Prints its port. The text of each token is the reading of the monotonic clock (ns) at which it was sent, so that whoever
reads it on the same machine knows how late it was seen. The model's name says how it misbehaves: `echo` does not;
`lying` claims twice the tokens; `slow` stops after two; `broken` hangs up after two; `whole` does not stream; `html` is a
page; `elsewhere` and `beside` redirect; `locked` wants a key; `picky` refuses members beyond the standard; `once` sends all
at once; `mute` counts nothing; `erring` ends a stream with an error; `page` streams what is no JSON; `vanishing` ends the
process at the twentieth request; `wobbling` fails every fifth request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import sys
from time import perf_counter_ns
from typing import Any

import httptools

_STANDARD = {"model", "messages", "prompt", "temperature", "stream", "max_tokens"}


class Answering(asyncio.Protocol):
    """One connection of a client."""

    first_s = 0.05
    gap_s = 0.02
    requests = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport: Any = transport
        self.parser: Any = httptools.HttpRequestParser(self)
        self.task: asyncio.Task[None] | None = None
        self.body = b""
        self.url = b""
        self.headers: dict[bytes, bytes] = {}

    def data_received(self, data: bytes) -> None:
        """Parse."""
        self.parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Stop what is being answered."""
        if self.task is not None:
            self.task.cancel()

    def on_url(self, url: bytes) -> None:
        """Begin a request."""
        self.url, self.body, self.headers = url, b"", {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self.body += body

    def on_message_complete(self) -> None:
        """Answer."""
        self.task = asyncio.create_task(self._answer(perf_counter_ns()))

    async def _answer(self, began: int) -> None:
        Answering.requests += 1
        if self.parser.get_method() == b"GET":
            self._whole(200, {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]})
            return
        asked = json.loads(self.body)
        if self.url.startswith(b"/generate"):
            await self._generate(asked, began)
            return
        if "inputs" in asked:
            await asyncio.sleep(self.first_s)
            self._whole(200, {"outputs": [], "rows": asked["inputs"][0]["shape"]})
            return
        model, tokens = asked.get("model"), asked.get("max_tokens") or asked.get("max_completion_tokens") or 16
        refusal = self._refusal(model, asked)
        if refusal is not None:
            status, said, more = refusal
            self._whole(status, said, more)
        elif model == "whole" or not asked.get("stream"):
            await asyncio.sleep(self.first_s + self.gap_s * (tokens - 1))
            message = {"message": {"content": "a " * tokens}, "finish_reason": "length"}
            self._whole(200, {"choices": [message], "usage": self._usage(asked, tokens)})
        else:
            await self._stream(model, asked, tokens, began)

    def _refusal(self, model: str, asked: dict[str, Any]) -> tuple[int, Any, dict[str, str]] | None:
        if model == "html":
            return 200, "<html>Welcome</html>", {"Content-Type": "text/event-stream"}
        if model == "elsewhere":
            return 307, "", {"Location": "http://elsewhere.example/v1"}
        if model == "beside":
            return 308, "", {"Location": "/v2/"}
        if model == "locked" and self.headers.get(b"authorization") != b"Bearer open-sesame":
            return 401, {"error": {"message": "Incorrect API key provided"}}, {}
        if model == "picky" and asked.keys() - _STANDARD:
            return 400, {"error": {"message": f"unknown members {sorted(asked.keys() - _STANDARD)}"}}, {}
        if model == "missing":
            return 404, {"error": {"message": "The model `missing` does not exist."}}, {}
        if model == "wobbling" and Answering.requests % 5 == 0:
            return 500, {"error": {"message": "out of luck"}}, {}
        if model == "vanishing" and Answering.requests >= 20:
            os._exit(0)
        return None

    def _usage(self, asked: dict[str, Any], tokens: int) -> dict[str, int]:
        prompt = asked.get("prompt") or asked["messages"][0]["content"]
        prompt = prompt if isinstance(prompt, str) else " ".join(part.get("text", "") for part in prompt)
        # A chat has a few tokens of its own around the prompt.
        return {"prompt_tokens": len(prompt.split()) + (0 if "prompt" in asked else 7), "completion_tokens": tokens}

    async def _stream(self, model: str, asked: dict[str, Any], tokens: int, began: int) -> None:
        self._head()
        chat = "messages" in asked
        kind = "chat.completion.chunk" if chat else "text_completion"
        if model == "once":
            await asyncio.sleep(self.first_s + self.gap_s * (tokens - 1))
        for index in range(tokens):
            if model != "once":
                await self._due(began, index)
            if model == "slow" and index == 2:
                await asyncio.sleep(3600)
            if model == "broken" and index == 2:
                self.transport.close()
                return
            if model == "erring" and index == 2:
                self._event({"error": {"message": "out of memory", "code": 500}})
                self._end()
                return
            if model == "page":
                self._chunk(b"data: <html>\n\n")
                continue
            text = f"{perf_counter_ns()} "
            said = {"delta": {"content": text}} if chat else {"text": text}
            self._event({"object": kind, "choices": [said | {"index": 0, "finish_reason": None}]})
        last: dict[str, Any] = {"delta": {}} if chat else {"text": ""}
        self._event({"object": kind, "choices": [last | {"index": 0, "finish_reason": "length"}]})
        if model != "mute" and (asked.get("stream_options") or model != "echo"):
            said_tokens = 2 * tokens if model == "lying" else tokens
            self._event({"choices": [], "usage": self._usage(asked, said_tokens)})
        self._chunk(b"data: [DONE]\n\n")
        self._end()

    async def _generate(self, asked: dict[str, Any], began: int) -> None:
        tokens = asked["parameters"]["max_new_tokens"]
        self._head()
        for index in range(tokens):
            await self._due(began, index)
            event: dict[str, Any] = {"token": {"id": 1, "text": f"{perf_counter_ns()} ", "special": False}}
            if index == tokens - 1:
                length = len(asked["inputs"].split())
                event |= {"generated_text": "…", "details": {"generated_tokens": tokens, "input_length": length}}
            self._event(event)
        self._end()

    async def _due(self, began: int, index: int) -> None:
        at = began + int((self.first_s + self.gap_s * index) * 1e9)
        while (left := at - perf_counter_ns()) > 0:
            await asyncio.sleep(left / 1e9)

    def _head(self) -> None:
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

    def _event(self, value: Any) -> None:
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.transport.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _end(self) -> None:
        self.transport.write(b"0\r\n\r\n")

    def _whole(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        told = "".join(f"{name}: {text}\r\n" for name, text in lines.items())
        self.transport.write(f"HTTP/1.1 {status} Said\r\n{told}\r\n".encode() + body)


async def serve(port: int, certificate: str | None) -> None:
    context = None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(f"{certificate}/cert.pem", f"{certificate}/key.pem")
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", port, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs.echo", description=__doc__.splitlines()[0])
    parser.add_argument("--first-ms", type=float, default=50.0)
    parser.add_argument("--gap-ms", type=float, default=20.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate", metavar="FOLDER", help="speak TLS with its cert.pem and key.pem")
    arguments = parser.parse_args()
    Answering.first_s, Answering.gap_s = arguments.first_ms / 1e3, arguments.gap_ms / 1e3
    asyncio.run(serve(arguments.port, arguments.certificate))
    return 0


if __name__ == "__main__":
    sys.exit(main())
