"""Posts measurements at a steady rate until stdin ends. Takes the address, events a second and a seed.

Requests hold 20 events; what is more than half a second late is not made up for. Tells at the end how many events a second were accepted.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from itertools import islice
from urllib.parse import urlsplit

from benchmarks.documents import measurements

SIZE = 20
THREADS = 4
BEHIND_S = 0.5


def main() -> None:
    """Post until stdin ends."""
    url, rate, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    ended = threading.Event()
    counts = [0] * THREADS

    def post(number: int) -> None:
        address = urlsplit(url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        stream = measurements(10**9, seed=seed + number)
        interval = SIZE * THREADS / rate
        due = time.perf_counter() + interval * number / THREADS
        while not ended.is_set():
            body = b"\n".join(document.body for document in islice(stream, SIZE))
            ended.wait(max(0.0, due - time.perf_counter()))
            due = max(due + interval, time.perf_counter() - BEHIND_S)
            connection.request("POST", "/v1/events", body, {"Content-Type": "application/x-ndjson"})
            counts[number] += json.loads(connection.getresponse().read())["accepted"]

    begin = time.perf_counter()
    threads = [threading.Thread(target=post, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"events_per_s": sum(counts) / (time.perf_counter() - begin)}), flush=True)


if __name__ == "__main__":
    main()
