"""What Windows' users may type, with Windows' semantics: it loads, measures, keeps and asks; what cannot run says so."""

from __future__ import annotations

import json
import os
import sqlite3
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from .conftest import PROGRAMS

ASKING = ("recommend", "predict", "fit", "compare", "hardware", "model", "price", "detect", "bench", "post")
SERVING = (["serve"], ["up"], ["demo"], ["token", "list"], ["db", "upgrade"], ["spool", "send"])


def test_every_module_but_the_embedded_postgres_loads(windows):
    ended = windows("-W", "ignore", str(PROGRAMS / "load_modules.py"))
    assert ended.stdout.strip() == "[('log.account', 'fcntl'), ('log.embedded', 'fcntl')]"


def test_every_verb_has_its_help(windows):
    script = f"""
        from assay.cli import run
        for verb in {ASKING!r}:
            assert run([verb, "--help"]) == 0, verb
    """
    assert windows("-c", textwrap.dedent(script)).stdout.count("Usage:") == len(ASKING)


def test_answer_in_process_is_that_of_other_systems(windows, tmp_path):
    answers = []
    for variables in ({}, {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}):
        ended = windows("-m", "assay.cli", "recommend", "bert-base-uncased", "--json", **variables)
        answers.append(json.loads(ended.stdout) | {"time": None})
    assert answers[0] == answers[1] and answers[0]["ranked"]


def test_detect_reads_the_processor_from_the_registry(windows):
    machine = json.loads(windows("-m", "assay.cli", "detect", "--json").stdout)[0]
    assert machine["name"] == "AMD Ryzen 9 7950X 16-Core Processor"
    assert (machine["vendor"], machine["hardware"]["kind"]) == ("amd", "cpu")
    environment = machine["environment"]
    assert environment["os"].startswith("Windows ") and environment["memory_bytes"] > 0
    cpu = next(platform for platform in machine["platforms"] if platform["platform"] == "cpu")
    assert cpu["available"] and "avx2" in cpu["evidence"]


def test_bench_measures_into_the_spool_and_its_events_can_be_published(windows, tmp_path):
    words = ("prajjwal1/bert-tiny", "--platform", "cpu", "--weights", "random", "--iterations", "5", "--limit", "1")
    assert "events wait on this machine's disk" in windows("-m", "assay.cli", "bench", *words).stderr
    with closing(sqlite3.connect(tmp_path / "home" / "spool.sqlite")) as spool:
        lines = [body for (body,) in spool.execute("SELECT body FROM spooled ORDER BY sequence")]
    (measured,) = [event for line in lines if "measurement.recorded" in (event := json.loads(line))["type"]]
    assert measured["data"]["metrics"]["peak_memory_bytes"] > 10e6
    (tmp_path / "events.ndjson").write_bytes(b"\r\n".join(lines) + b"\r\n")
    checked = json.loads(windows("-m", "assay.cli", "post", "--check", "events.ndjson", "--json").stdout)
    assert checked["problems"] == [] and checked["contents"]["measurements"] == 1


def test_what_needs_the_service_says_where_it_runs(windows):
    script = f"""
        from assay.cli import run
        print([run(words) for words in {SERVING!r}])
    """
    ended = windows("-c", textwrap.dedent(script))
    assert ended.stdout.splitlines()[-1] == str([3] * len(SERVING))
    said = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == len(SERVING) and all("WSL" in line and "--server" in line for line in said)
    assert "Traceback" not in ended.stderr


def test_files_are_written_replaced_and_pruned_without_touching_open_ones(windows):
    windows(str(PROGRAMS / "write_files.py"))


@pytest.mark.parametrize("statement", ["import os; os.rename('a', 'b')", "open('a'); import os; os.replace('a', 'c')"])
def test_the_semantics_refuse_what_windows_refuses(windows, tmp_path: Path, statement: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    assert "Error" in windows("-c", f"held = open('a'); {statement}", code=1).stderr
