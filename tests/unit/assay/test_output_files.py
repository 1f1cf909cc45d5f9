"""Every option and argument of the command line that names a file: read or written, and never overwritten unasked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from assay.cli import cli, run
from assay.cli.output_files import OutputFile

READ = {
    ("bench", "body"), ("bench", "plan_file"), ("bench", "tokenizer"), ("browser install", "archives"), ("browser link", "runtime"), ("card", "files"), ("ci comment", "file"),
    ("ci compare", "candidate"), ("db restore", "file"), ("fleet", "file"), ("share", "files"),
    ("hardware alias", "path"), ("import", "mapping"), ("log verify", "files"), ("migrate", "tree"), ("model alias", "path"), ("post", "files"),
    ("verify", "expect"), ("verify", "plan_file"), ("bisect", "repository"),
    ("alerts routes check", "file"), ("alerts routes test", "file"), ("ci compare", "thresholds"),
    ("ci gate", "score_file"), ("regressions history", "files"), ("jobs submit", "plan"), ("jobs export", "plan"),
    ("peer add", "token_file"), ("peer pull", "token_file"), ("scaffold check", "places"), ("scaffold test", "events"),
    ("endpoint invoke", "file"),
}  # fmt: skip
"""Files and folders that a verb reads."""
UNIQUE = {("migrate", "folder"), ("scaffold test", "folder")}
"""Folders that a verb writes new files into, each under a name that is not taken; `scaffold test --refresh` asks first."""
KEPT = {
    ("bisect", "state"),
    ("ci compare", "folder"),
    ("ci gate", "folder"),
    ("ci prepare", "folder"),
    ("compress", "folder"),
    ("export", "to"),
    ("worker", "work_in"),
}
"""Folders in which a verb replaces the files of its own names, `export` with --force only, and no others."""
VALUES = {"budget_s": "1h", "rows": "3", "paths": "nothing.json"}
"""Values of required and useful parameters; others get a word, or their first choice."""


def commands(group: Any, name: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=name)
    for each in group.list_commands(context):
        command = group.resolve_command(context, [each])[1]
        if isinstance(command, click.Group):
            yield from commands(command, f"{name}{each} ")
        else:
            yield f"{name}{each}", command


COMMANDS = dict(commands(cli))
WRITTEN = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter in command.params
    if isinstance(parameter.type, OutputFile)
]
each_written = pytest.mark.parametrize(
    ("name", "parameter"), WRITTEN, ids=[f"{name} {parameter.name}" for name, parameter in WRITTEN]
)


def words(name: str, parameter: click.Parameter, path: Path, *flags: str) -> list[str]:
    """Return a command line that names a file by one parameter, and has what else is required."""
    line = name.split()
    arguments = []
    for other in COMMANDS[name].params:
        value = VALUES.get(str(other.name)) or (
            other.type.choices[0] if isinstance(other.type, click.Choice) else "word"
        )
        if other is parameter:
            value = str(path)
        elif not (other.required or str(other.name) in VALUES):
            continue
        if isinstance(other, click.Argument):
            arguments.append(value)
        else:
            line += [other.opts[0], value]
    return [*line, *flags, *arguments]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_every_path_of_the_command_line_is_read_or_written() -> None:
    found = {
        (name, str(parameter.name)): parameter.type
        for name, command in COMMANDS.items()
        for parameter in command.params
        if isinstance(parameter.type, (click.Path, click.File))
    }
    assert {key for key, type_ in found.items() if not isinstance(type_, OutputFile)} == READ | UNIQUE | KEPT
    names = {"out", "output", "output_dir", "save", "record", "rejects", "names", "picture"}
    unnoticed = [
        (name, parameter.name)
        for name, command in COMMANDS.items()
        for parameter in command.params
        if parameter.name in names
        and not isinstance(parameter.type, OutputFile)
        and not getattr(parameter, "is_flag", False)
    ]
    assert unnoticed == []
    assert len(WRITTEN) >= 15


@each_written
def test_verb_with_output_file_has_force(name: str, parameter: click.Parameter) -> None:
    assert any(option.name == "force" and option.is_eager for option in COMMANDS[name].params)


@each_written
@pytest.mark.parametrize("place", ["file", "link", "dangling link", "fifo", "folder", "below a file"])
def test_what_is_there_is_never_overwritten(
    name: str, parameter: click.Parameter, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, path = tmp_path / "mine.md", tmp_path / "out.svg"
    mine.write_text("mine")
    if place == "file":
        path = mine
    elif place == "link":
        path.symlink_to(mine)
    elif place == "dangling link":
        path.symlink_to(tmp_path / "elsewhere")
    elif place == "fifo":
        os.mkfifo(path)
    elif place == "folder":
        if parameter.type.folder:  # type: ignore[attr-defined]
            pytest.skip("takes a folder")
        path.mkdir()
    else:
        path = mine / "deep" / "out.svg"
    before = sorted(each.name for each in tmp_path.iterdir())
    code = run(words(name, parameter, path, *(["--force"] if place not in ("file",) else [])))
    said = capsys.readouterr().err
    assert code == 2, said
    assert path.name in said
    assert mine.read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == before


def test_files_of_the_same_option_may_be_made_anew(tmp_path: Path) -> None:
    golden = Path(__file__).resolve().parents[2] / "golden" / "assay.measurement.recorded.v1.json"
    rows = tmp_path / "rows.ndjson"
    rows.write_text(" ".join(golden.read_text().split()) + "\n")
    line = ["regressions", "--candidate", str(rows), "--save", "base.json"]
    assert run(line) == 0
    reports = [word for suffix in ("xml", "md", "json") for word in ("--output-ci", f"report.{suffix}")]
    for _ in range(2):
        assert run([*line, "--baseline", "base.json", "--new-ok", *reports]) == 0
    assert run([*line[:-1], "report.json"]) == 2
    assert run([*line, "--baseline", "base.json", "--output-ci", "base.json"]) == 2
    assert run([*line[:-1], "report.json", "--force"]) == 0


def test_force_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "load.ndjson"
    path.write_text("old")
    assert run(["bench-data", "--rows", "3", "--out", str(path), "--force"]) == 0
    assert len(path.read_text().splitlines()) > 3
    assert [each.name for each in tmp_path.iterdir()] == ["load.ndjson"]


def test_dry_run_writes_only_the_new_files_it_was_asked_for(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text('[{"unknown": 1}]')
    line = ["import", "auto", str(rows), "--dry-run"]
    run(line)
    assert [each.name for each in tmp_path.iterdir()] == ["rows.json"]
    run([*line, "--names", "names.yaml", "--rejects", "refused.ndjson"])
    first = (tmp_path / "names.yaml").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["names.yaml", "refused.ndjson", "rows.json"]
    (tmp_path / "names.yaml").write_text("model: {filled: in}")
    assert run([*line, "--names", "names.yaml"]) == 2
    assert (tmp_path / "names.yaml").read_text() == "model: {filled: in}"
    assert run([*line, "--names", "names.yaml", "--force"]) in (0, 1)
    assert (tmp_path / "names.yaml").read_text() == first


@pytest.mark.parametrize("option", ["--names", "--rejects"])
def test_import_does_not_write_over_what_it_reads(tmp_path: Path, option: str) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text("[]")
    assert run(["import", "auto", str(rows), "--dry-run", option, str(rows), "--force"]) == 2
    assert run(["import", "auto", str(rows), "--dry-run", "--names", "same", "--rejects", "same"]) == 2
    assert rows.read_text() == "[]"
    assert [each.name for each in tmp_path.iterdir()] == ["rows.json"]
