"""Readers of the dashboard without their browsers: Streamlit's own messages over websockets, as many at a time as asked."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

__all__ = ["Seen", "view"]

THINKING_S = (0.5, 1.5)
SLOWEST_S = 60.0


class Seen(NamedTuple):
    """What all readers saw: seconds of each page, and the errors that any of them was shown."""

    seconds: list[float]
    errors: list[str]


def view(url: str, addresses: list[str], viewers: int) -> Seen:
    """Let so many readers open all addresses at the same time, each in an order of its own, with a pause to read."""
    # In a thread of its own: the browser of the benchmark keeps a loop running in this one.
    with ThreadPoolExecutor(1) as one:
        return one.submit(asyncio.run, _all(url, addresses, viewers)).result()


async def _all(url: str, addresses: list[str], viewers: int) -> Seen:
    found = Seen([], [])
    await asyncio.gather(*(_reader(url, addresses, number, found) for number in range(viewers)))
    return found


async def _reader(url: str, addresses: list[str], number: int, found: Seen) -> None:
    chance = random.Random(number)
    order = chance.sample(addresses, len(addresses))
    stream = f"ws://{urlsplit(url).netloc}/_stcore/stream"
    async with connect(stream, subprotocols=["streamlit"], max_size=None, open_timeout=SLOWEST_S, proxy=None) as socket:
        for asked in order:
            begin = time.perf_counter()
            try:
                await asyncio.wait_for(_open(socket, asked, found), SLOWEST_S)
            except TimeoutError:
                found.errors.append(f"{asked}: not there after {SLOWEST_S:g} s")
            found.seconds.append(time.perf_counter() - begin)
            await asyncio.sleep(chance.uniform(*THINKING_S))


async def _open(socket: ClientConnection, asked: str, found: Seen) -> None:
    path, _, query = asked.partition("?")
    message = BackMsg()
    message.rerun_script.query_string = query
    message.rerun_script.page_script_hash = hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()
    message.rerun_script.context_info.timezone = "Europe/Berlin"
    await socket.send(message.SerializeToString())
    while True:
        told = ForwardMsg.FromString(bytes(await socket.recv()))
        kind = told.WhichOneof("type")
        if kind == "delta":
            element = told.delta.new_element
            if element.WhichOneof("type") == "exception" or (element.alert.body and element.alert.format == 1):
                found.errors.append(f"{asked}: {(element.exception.message or element.alert.body)[:200]}")
        # A script that begins anew has a further end.
        if kind == "script_finished" and told.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
            return
