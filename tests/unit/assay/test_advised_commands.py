"""Every command that the product names in an answer, a remedy or a page exists, with the options that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from assay.cli import VERBS, cli

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("api", "assay", "dashboard", "domain", "ingest", "predictor", "presentation", "runner")
HOLE = "\x00"
"""Stands for what a formatted string puts in."""
QUOTED = re.compile(r"`assay ([a-z][a-z-]*)([^`]*)`")
PLAIN = re.compile(r"(?:^|[:.(·] |\n\s*)assay ([a-z][a-z-]*)([^`\n;()·#]*)")
GROUPED = re.compile(r"^ ([a-z][a-z-]*)")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module with their lines, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside | said:
            yield node.lineno, node.value


@cache
def advised() -> dict[tuple[str, str], list[str]]:
    """Every command that is named, its verb and the rest, and where.

    Read when a test asks: each worker of a session collects this file, and one of them runs it.
    """
    named: dict[tuple[str, str], list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for line, text in texts(path):
                where = f"{path.relative_to(ROOT)}:{line}"
                plain = [(verb, rest) for verb, rest in PLAIN.findall(text) if verb in VERBS]
                for command in (*QUOTED.findall(text), *plain):
                    named.setdefault(command, []).append(where)
    return named


def problem(verb: str, rest: str) -> str | None:
    """What is wrong with a command; None where it parses."""
    if verb not in VERBS:
        return f"no verb {verb}"
    command = cli.resolve_command(click.Context(cli), [verb])[1]
    assert command is not None
    options, inner_rest = _options(command), rest
    while isinstance(command, click.Group) and (match := GROUPED.match(inner_rest)):
        inner = command.get_command(click.Context(command), match[1])
        if inner is None:
            return f"{verb} has no {match[1]}"
        options |= _options(inner)
        command, inner_rest = inner, inner_rest[match.end() :]
    missing = [flag for flag in re.findall(r"(?<!\S)(--[a-z][a-z-]*)", rest) if flag not in {*options, "--help"}]
    return f"assay {verb} has no {', '.join(missing)}" if missing else None


def _options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_commands_are_found_in_the_product() -> None:
    verbs = {verb for verb, _ in advised()}
    assert {"bench", "detect", "post", "doctor", "import"} <= verbs
    assert ("detect", " --post") in advised()


def test_every_advised_command_exists_with_its_options() -> None:
    wrong = {why: places for words, places in sorted(advised().items()) if (why := problem(*words)) is not None}
    assert wrong == {}


@pytest.mark.parametrize(
    ("verb", "rest", "said"),
    [
        ("frobnicate", "", "no verb"),
        ("detect", " --send", "--send"),
        ("model", " shew x", "no shew"),
        ("alerts", " routes tst x", "no tst"),
        ("alerts", " routes check --send", "--send"),
        ("bench", " m", ""),
    ],
)
def test_what_does_not_exist_would_be_seen(verb: str, rest: str, said: str) -> None:
    assert said in (problem(verb, rest) or "")
