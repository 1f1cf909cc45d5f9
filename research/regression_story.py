"""Does an alarm come once, reach its receiver, and lead to the release that did it? `python -m research.regression_story`.

Answer: yes. BERT-tiny in int8 became 63 % slower with ONNX Runtime 1.30.0, with one alert and one message for latency and memory
(docs/regressions.md, "A release that made a model slower"). It is measured with 1.28.0 twelve times and with 1.32.0 twelve times; then the
bisection that the alert names runs, and the alert is acknowledged.

It needs a package index, two quiet cores and about ten minutes. Everything is in a temporary folder: a service of its own, an
alerts.yaml, and a receiver on this machine that verifies signatures.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx

GOOD, BAD = "1.28.0", "1.32.0"
BEFORE, AFTER = 12, 12
BENCH = ("bench", "bert-tiny", "--platform", "onnxruntime", "--precision", "int8", "--threads", "1", "--budget", "2")
KEY = b"a key that only this story knows"
SEEN: list[dict[str, Any]] = []
_WAIT_S = 30.0


class Receiver(BaseHTTPRequestHandler):
    """Takes signed messages."""

    def do_POST(self) -> None:
        """Keep a message whose signature is right."""
        body = self.rfile.read(int(self.headers["content-length"]))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        signature = "v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        valid = signature in self.headers["webhook-signature"].split()
        if valid:
            SEEN.append(json.loads(body))
        self.send_response(204 if valid else 401)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def assay(*words: str, environment: dict[str, str], show: bool = True) -> str:
    """Run a verb, print what it printed, and return it."""
    if show:
        print("\n$ assay " + shlex.join(words), flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "assay.cli", *words], env=environment, capture_output=True, text=True, check=False
    )
    if show:
        print(done.stdout.rstrip(), flush=True)
    if done.returncode > 1:
        raise SystemExit(done.stderr)
    return done.stdout


@contextmanager
def served(environment: dict[str, str]) -> Iterator[None]:
    """Serve at ASSAY_SERVER for as long as the block runs."""
    address = environment["ASSAY_SERVER"]
    command = [sys.executable, "-m", "assay.cli", "serve", "--port", address.rpartition(":")[2]]
    service = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait(lambda: ready(address))
        yield
    finally:
        service.terminate()
        service.wait()


def ready(address: str) -> bool:
    """Return whether the service answers."""
    try:
        return httpx.get(f"{address}/health/ready").is_success
    except httpx.TransportError:
        return False


def installed(version: str, folder: Path) -> Path:
    """Install a version of ONNX Runtime into a folder of its own, and return that."""
    target = folder / version
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, f"onnxruntime=={version}"], check=True)
    return target


def alerts(environment: dict[str, str]) -> list[dict[str, Any]]:
    """Return the alerts of the service."""
    listed: list[dict[str, Any]] = json.loads(assay("alerts", "list", "--json", environment=environment, show=False))[
        "alerts"
    ]
    return listed


def measure(version: Path, environment: dict[str, str]) -> None:
    """Measure once with the version in a folder, and print the row."""
    path = os.pathsep.join(filter(None, [str(version), environment.get("PYTHONPATH")]))
    printed = assay(*BENCH, environment={**environment, "PYTHONPATH": path}, show=False)
    row = next((line for line in printed.splitlines() if line.startswith("bert-tiny")), printed.strip())
    print(f"{version.name}  {row}", flush=True)


def story(folder: Path) -> None:
    """Measure, break, be told, bisect, acknowledge."""
    receiver = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    home = folder / "home"
    home.mkdir()
    to = {"webhook": {"url": f"http://127.0.0.1:{receiver.server_port}/", "secret_env": "STORY", "allow_private": True}}
    routes = {
        "owners": [{"name": "nlp", "models": ["*bert*"]}],
        "routes": [{"name": "on-call", "to": to, "match": {"owners": ["nlp"]}}],
    }
    (home / "alerts.yaml").write_text(json.dumps(routes), encoding="utf-8")
    secret = "whsec_" + base64.b64encode(KEY).decode()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{free.getsockname()[1]}"
    environment = {**os.environ, "ASSAY_HOME": str(home), "ASSAY_SERVER": server, "STORY": secret, "COLUMNS": "100"}
    good, bad = (installed(version, folder) for version in (GOOD, BAD))
    with served(environment):
        print(f"# {BEFORE} runs with ONNX Runtime {GOOD}, then {BAD}")
        for _ in range(BEFORE):
            measure(good, environment)
        for _ in range(AFTER):
            measure(bad, environment)
        wait(lambda: bool(SEEN))
        print(f"\n# the receiver has {len(SEEN)} message(s)")
        for message in SEEN:
            for alert in message["data"]["alerts"]:
                print(message["type"], alert["state"], alert["owners"], alert["title"])
        (alert, *others) = alerts(environment)
        print(f"# alerts: {1 + len(others)}")
        shown = assay("alerts", "show", alert["id"][:13], environment=environment)
        command = next(line.strip() for line in shown.splitlines() if line.strip().startswith("assay bisect"))
        assay(*shlex.split(command)[1:], environment=environment)
        assay(
            "alerts",
            "acknowledge",
            alert["id"][:13],
            "--reason",
            "ONNX Runtime 1.30.0; pinned until it is mended",
            environment=environment,
        )
        assay("alerts", "list", environment=environment)
        assay("regressions", "history", "bert-tiny", environment=environment)
        print(f"\n# the receiver has {len(SEEN)} message(s)")


def wait(until: Any) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + _WAIT_S
    while not until():
        if time.monotonic() > deadline:
            raise SystemExit("nothing came")
        time.sleep(0.2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="story-") as name:
        story(Path(name))
