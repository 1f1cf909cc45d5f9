"""`assay dashboard` as deployments start it, the addresses that their probes ask, and the metrics that their alerts need."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from assay.cli import run
from assay.service import free_port
from tests.integration.conftest import ROOT, RunningService


@pytest.fixture(scope="module")
def dashboard(
    service: RunningService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A dashboard with a home of its own, which finds the service by its address and its token in a file."""
    home, port = tmp_path_factory.mktemp("dashboard"), free_port()
    token = home / "token"
    token.write_text("assay_of_nobody\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    environment |= {"ASSAY_HOME": str(home), "ASSAY_TOKEN_FILE": str(token), "ASSAY_SERVER": service.url}
    with (home / "log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "assay.cli", "dashboard", "--port", str(port)],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    yield child, f"http://127.0.0.1:{port}"
    if child.poll() is None:
        child.kill()
        child.wait()


def answered(address: str, child: subprocess.Popen[bytes]) -> httpx.Response:
    """Ask until something listens."""
    until = time.monotonic() + 60
    while True:
        try:
            return httpx.get(address, timeout=10, trust_env=False)
        except httpx.TransportError:
            assert child.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)


def test_probes_of_the_service_answer(service: RunningService) -> None:
    for path in ("/health/live", "/health/ready", "/metrics"):
        assert httpx.get(f"{service.url}{path}", trust_env=False).status_code == 200


def test_metrics_of_alerts_and_of_the_grafana_dashboard_are_exported(service: RunningService) -> None:
    files = ROOT / "deploy" / "helm" / "assay" / "files"
    asked = {
        name
        for file in ("alerts.yaml", "dashboard.json")
        for name in re.findall(r"\bassay_\w+", (files / file).read_text())
    }
    text = httpx.get(f"{service.url}/metrics", trust_env=False).text
    families = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    exported = families.keys() | {
        f"{name}_{part}"
        for name, kind in families.items()
        if kind == "histogram"
        for part in ("bucket", "sum", "count")
    }
    # What is not known has no sample: this log has no archive and no training, and drift is looked at once a minute.
    unknown = {f"assay_{name}" for name in ("archive_position", "archive_bytes", "predictor_trained_position")}
    assert asked - exported <= {*unknown, "assay_predictor_drift"}
    assert len(asked & exported) > 15


def test_it_is_one_process_that_answers_its_probe_and_ends_on_sigterm(
    dashboard: tuple[subprocess.Popen[bytes], str],
) -> None:
    child, url = dashboard
    health = answered(f"{url}/_stcore/health", child)
    assert (health.status_code, health.text) == (200, "ok")
    assert "<title>" in httpx.get(url, trust_env=False).text
    # The process of the verb became the dashboard: a service manager watches and ends the right one.
    words = Path(f"/proc/{child.pid}/cmdline")
    assert not words.exists() or b"streamlit" in words.read_bytes() or b"start.py" in words.read_bytes()
    child.send_signal(signal.SIGTERM)
    assert child.wait(20) in (0, -signal.SIGTERM)


def test_a_port_that_is_taken_is_said_before_anything_starts(
    service: RunningService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dashboard", "--port", str(service.port)]) == 3
    assert str(service.port) in capsys.readouterr().err
