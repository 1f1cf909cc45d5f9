"""The skill file for coding agents: its front matter, its length, and that what it tells to type can be typed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import rich_click as click
import yaml

from assay.cli import cli

SKILL = (Path(__file__).resolve().parents[3] / "docs" / "agents" / "SKILL.md").read_text()
COMMANDS = [line for line in SKILL.splitlines() if line.startswith("assay ")]


def test_front_matter_has_name_and_description() -> None:
    _, front, body = SKILL.split("---\n", 2)
    document = yaml.safe_load(front)
    assert document["name"] == "assay"
    # What skills may have at the most, by their specification.
    assert 100 < len(document["description"]) <= 1024
    assert body.strip()
    assert len(SKILL.splitlines()) <= 120


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_can_be_typed(command: str) -> None:
    verb, *words = shlex.split(command)[1:]
    context = click.Context(cli)
    found = cli.resolve_command(context, [verb])[1]
    assert found is not None
    # Raises NoSuchOption or BadParameter where it cannot.
    found.make_context(verb, list(words), parent=context)


def test_every_question_has_a_command() -> None:
    verbs = {command.split()[1] for command in COMMANDS}
    assert verbs == {"recommend", "predict", "fit", "compare", "matrix", "query"}
