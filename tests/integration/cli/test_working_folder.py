"""A file called runner.py in the working folder is never imported in place of a package of Assay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.client import Client
from assay.service import free_port
from domain.errors import AssayError
from tests.integration.working_folder import PACKAGES, hostile_folder

ASSAY = str(Path(sys.executable).with_name("assay"))
BENCH = ["bench", "prajjwal1/bert-tiny", "--platform", "cpu", "--weights", "random", "--budget", "0.1", "--json"]


@pytest.fixture
def folder(tmp_path):
    return hostile_folder(tmp_path)


def environment(home):
    return {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")} | {"ASSAY_HOME": home}


def test_files_named_like_the_packages_would_be_imported(folder):
    for name in PACKAGES:
        ended = subprocess.run([sys.executable, "-c", f"import {name}"], cwd=folder, capture_output=True, text=True)
        assert f"{name}.py of the working folder was imported" in ended.stderr


@pytest.mark.torture
def test_a_run_with_its_service_and_its_children_imports_only_the_packages(folder, tmp_path_factory):
    home = str(tmp_path_factory.mktemp("home"))
    ended = subprocess.run(
        [ASSAY, *BENCH], cwd=folder, env=environment(home), capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert "assay.measurement.recorded.v1" in {event["type"] for event in json.loads(ended.stdout)}


def test_the_workers_of_a_service_import_only_the_packages(folder, database, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    log = home / "said"
    address = {"ASSAY_DATABASE_URL": database.url}
    port = free_port()
    with log.open("wb") as said:
        service = subprocess.Popen(
            [ASSAY, "serve", "--role", "ingest", "--workers", "1", "--port", str(port)],
            cwd=folder, env=environment(str(home)) | address, stdout=said, stderr=said,
        )  # fmt: skip
    try:
        ends = time.monotonic() + 60
        with Client(f"http://127.0.0.1:{port}", patience_s=0) as client:
            while True:
                try:
                    client.ready()
                    break
                except AssayError:
                    assert service.poll() is None and time.monotonic() < ends, log.read_text()
                    time.sleep(0.05)
    finally:
        service.terminate()
        service.wait(30)
    assert "was imported" not in log.read_text()
