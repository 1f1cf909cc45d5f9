"""Secrets from files: NAME_FILE names a file that holds the value of NAME."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cli import SECRETS, read_secret_files, run
from domain.errors import UsageError


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        for variable in (name, f"{name}_FILE"):
            # Set first, so that what the tested code sets or removes is undone.
            monkeypatch.setenv(variable, "")
            monkeypatch.delenv(variable)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_comes_from_its_file_and_children_get_the_value_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("postgresql://assay:p w@host/assay\n")
    monkeypatch.setenv(f"{name}_FILE", str(file))
    read_secret_files()
    assert os.environ[name] == "postgresql://assay:p w@host/assay"
    assert f"{name}_FILE" not in os.environ
    read_secret_files()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "cannot be read"),
        (b"", "empty"),
        (b" \n", "empty"),
        (b"a\nb\n", "one line"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_file_that_holds_no_secret_is_refused_with_the_variable(
    content: bytes | None,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("ASSAY_TOKEN_FILE", str(file))
    assert run(["status"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "ASSAY_TOKEN_FILE" in said
    assert word in said
    assert "ASSAY_TOKEN" not in os.environ


def test_a_secret_and_its_file_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("new")
    monkeypatch.setenv("ASSAY_TOKEN", "old")
    monkeypatch.setenv("ASSAY_TOKEN_FILE", str(file))
    with pytest.raises(UsageError) as error:
        read_secret_files()
    assert error.value.field == "ASSAY_TOKEN_FILE"
    assert os.environ["ASSAY_TOKEN"] == "old"


@given(st.binary(max_size=40))
def test_any_bytes_are_one_line_or_a_usage_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any-secret"
    file.write_bytes(content)
    os.environ["ASSAY_TOKEN_FILE"] = str(file)
    field = None
    try:
        read_secret_files()
    except UsageError as error:
        field = error.field
    value = os.environ.pop("ASSAY_TOKEN", None)
    os.environ.pop("ASSAY_TOKEN_FILE", None)
    if value is None:
        assert field == "ASSAY_TOKEN_FILE"
    else:
        assert (field, value) == (None, content.decode().strip())
        assert len(value.splitlines()) == 1
