"""Files that appear whole, together, or not at all."""

from __future__ import annotations

import pytest

from assay.exports import Staged
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
    (tmp_path / "lake" / "b").write_text("old")
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
