"""Files that appear whole, together, or not at all."""

from __future__ import annotations

import errno
import os

import pytest

from assay.staging import Staged, require_place
from domain.errors import UsageError


def test_files_appear_together_at_the_end(tmp_path):
    with Staged() as staged:
        staged.file(tmp_path / "new" / "a").write_text("a")
        (staged.folder(tmp_path / "lake") / "b").write_text("b")
        assert not (tmp_path / "new" / "a").exists()
        assert not (tmp_path / "lake").exists()
    assert (tmp_path / "new" / "a").read_text() == "a"
    assert (tmp_path / "lake" / "b").read_text() == "b"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "new"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_after_an_error_nothing_is_there_and_what_was_there_still_is(tmp_path, error):
    def broken():
        with Staged(force=True) as staged:
            staged.file(tmp_path / "a").write_text("new")
            staged.file(tmp_path / "deep" / "er" / "b").write_text("b")
            (staged.folder(tmp_path / "lake") / "c").write_text("c")
            raise error

    (tmp_path / "a").write_text("old")
    with pytest.raises(error):
        broken()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_what_is_there_is_kept_without_force(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "b.parquet").write_text("old")
    for make in (lambda one: one.file(tmp_path / "a"), lambda one: one.folder(tmp_path / "lake")):
        with pytest.raises(UsageError, match="exists") as refused, Staged() as staged:
            make(staged)
        assert "--force" in refused.value.remedy
    with Staged(force=True) as staged:
        staged.file(tmp_path / "a").write_text("new")
        (staged.folder(tmp_path / "lake") / "c").write_text("new")
    assert (tmp_path / "a").read_text() == "new"
    assert [path.name for path in (tmp_path / "lake").iterdir()] == ["c"]


def test_a_folder_is_not_replaced_by_a_file_and_an_empty_one_is_taken(tmp_path):
    (tmp_path / "lake").mkdir()
    with pytest.raises(UsageError, match="is a folder"), Staged(force=True) as staged:
        staged.file(tmp_path / "lake")
    with Staged() as staged:
        (staged.folder(tmp_path / "lake") / "b").write_text("b")
    assert (tmp_path / "lake" / "b").exists()


def test_a_place_below_a_file_is_named(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(UsageError, match="cannot be written"), Staged() as staged:
        staged.file(tmp_path / "a" / "b")


def test_folder_with_files_of_a_person_is_not_replaced(tmp_path):
    (tmp_path / "lake" / "deep").mkdir(parents=True)
    (tmp_path / "lake" / "rows.parquet").write_text("old")
    (tmp_path / "lake" / "deep" / "thesis.docx").write_text("mine")
    with pytest.raises(UsageError, match="no export wrote"), Staged(force=True) as staged:
        staged.folder(tmp_path / "lake")
    assert (tmp_path / "lake" / "deep" / "thesis.docx").read_text() == "mine"


def test_files_beside_the_place_stay(tmp_path):
    (tmp_path / "a.writing").write_text("mine")
    with Staged() as staged:
        staged.file(tmp_path / "a").write_text("a")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "a", "a.writing": "mine"}


def test_file_that_appears_meanwhile_is_kept(tmp_path):
    def late():
        with Staged() as staged:
            staged.file(tmp_path / "a").write_text("new")
            staged.file(tmp_path / "b").write_text("new")
            (tmp_path / "b").write_text("theirs")

    with pytest.raises(UsageError, match="exists"):
        late()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b": "theirs"}


def test_full_disk_is_a_sentence_and_leaves_nothing(tmp_path):
    def full():
        with Staged() as staged:
            staged.file(tmp_path / "a").write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UsageError, match="No space left"):
        full()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x" * 300, "file/below"], ids=["too long", "below a file"])
def test_place_that_cannot_be_is_a_sentence(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        require_place(tmp_path / name)
