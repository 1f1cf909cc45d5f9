"""What a command imports before it works. Modules are counted, because times differ from run to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from assay.cli import SUMMARIES, VERBS, cli

PROGRAM = """
import json, sys
from assay.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    sys.stdout.flush()
    sys.stderr.write("\\n" + json.dumps([end.code, sorted(sys.modules)]))
"""
HEAVY = frozenset(
    {
        "assay.client", "assay.service", "asyncio", "cryptography", "domain.answers", "domain.catalogues", "domain.events",
        "domain.payloads", "duckdb", "httpx", "ingest", "lightgbm", "numpy", "pandas", "predictor", "psutil", "pyarrow",
        "rfc8785", "runner", "scipy", "ssl", "torch", "transformers", "yaml",
    }
)  # fmt: skip
"""Packages and modules that take milliseconds to import, or bring along others that do."""
STRUCTS = frozenset({"domain.answers", "domain.catalogues", "domain.payloads", "rfc8785"})
"""What prints answers knows them by their structs."""
EVENTS = frozenset({"domain.events", "domain.payloads", "rfc8785"})
ALLOWED: dict[tuple[str, ...], frozenset[str]] = {
    ("--help",): frozenset(),
    ("--version",): frozenset(),
    ("help",): frozenset(),
    ("no-such-verb",): frozenset(),
    ("recommend", "--help"): STRUCTS,
    ("predict", "--help"): STRUCTS,
    ("fit", "--help"): STRUCTS,
    ("compare", "--help"): STRUCTS,
    ("query", "--help"): STRUCTS,
    ("bench", "--help"): EVENTS,
    ("bench", "bert-tiny", "--batch-sizes", "0"): EVENTS,
    ("bench", "no-such-model"): STRUCTS | EVENTS | {"runner", "psutil"},
    ("detect", "--help"): frozenset(),
    ("import", "--help"): frozenset(),
    ("status", "--help"): frozenset(),
    ("train", "--help"): frozenset(),
    ("serve", "--help"): frozenset(),
    ("doctor", "--help"): frozenset(),
    ("browser", "--help"): STRUCTS | EVENTS,
}
"""Command line → what of `HEAVY` it may import before it works, or before it refuses."""


def imported(words: tuple[str, ...], home: Path) -> tuple[int, set[str]]:
    """Return the exit code of a command in a process of its own, and the modules that it had imported by then."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ASSAY_HOME": str(home)},
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    return code, set(modules)


@pytest.mark.parametrize("words", ALLOWED, ids=" ".join)
def test_command_imports_no_heavy_module_before_it_works(words: tuple[str, ...], tmp_path: Path) -> None:
    code, modules = imported(words, tmp_path)
    refused = words[0] == "no-such-verb" or (words[0] == "bench" and words[-1] != "--help")
    assert code == (2 if refused else 0)
    assert {name for name in HEAVY if name in modules} <= ALLOWED[words]


def test_list_of_verbs_imports_none_of_them(tmp_path: Path) -> None:
    own = {name for name in imported(("--help",), tmp_path)[1] if name.startswith("assay.")}
    # In a wheel the package of the errors is one of assay's.
    assert own - {"assay.domain", "assay.domain.errors"} == {"assay.cli", "assay.cli.output"}


@pytest.mark.parametrize("verb", VERBS)
def test_summary_is_the_first_paragraph_of_the_help(verb: str) -> None:
    listed = cli.get_command(click.Context(cli), verb)
    loaded: Any = cli.resolve_command(click.Context(cli), [verb])[1]
    assert listed is not None
    first = loaded.help.split("\n\n")[0].replace("\n", " ")
    assert (listed.name, listed.help, listed.hidden, listed.deprecated) == (
        loaded.name,
        first,
        loaded.hidden,
        loaded.deprecated,
    )


def test_each_verb_stands_in_one_group() -> None:
    named = [verb for group in SUMMARIES.values() for verb in group]
    assert sorted(named) == sorted(VERBS)
