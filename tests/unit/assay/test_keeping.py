"""Copies are read back before anything is removed, and nothing is removed that is not in the copy as it is."""

from __future__ import annotations

import tarfile

import pytest

from assay.cli.keep.originals import MANIFEST, CopyBroken, clean, verify_copy, write_copy
from ingest.importers.ledger import Entry, sha256_of


@pytest.fixture
def entries(tmp_path):
    found = []
    for name in ("one.json", "two.json"):
        path = tmp_path / "old" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'{{"name": "{name}"}}')
        found.append(
            Entry(
                name=f"old/{name}", path=path, sha256=sha256_of(path), size_bytes=path.stat().st_size, format="seed-web"
            )
        )
    return found


def test_a_copy_holds_the_files_and_says_what_they_are(entries, tmp_path):
    copy = write_copy(entries, tmp_path / "copies", "old")
    assert copy.name.startswith("old-") and copy.name.endswith(".tar.gz")
    assert verify_copy(copy) == {entry.name: entry.sha256 for entry in entries}
    with tarfile.open(copy) as archive:
        assert archive.getnames() == ["old/one.json", "old/two.json", MANIFEST]
        assert archive.extractfile("old/one.json").read() == entries[0].path.read_bytes()
    second = write_copy(entries, tmp_path / "copies", "old")
    assert second != copy and copy.exists()


def test_a_file_that_is_no_longer_what_was_imported_makes_no_copy(entries, tmp_path):
    entries[1].path.write_text("changed")
    with pytest.raises(CopyBroken, match=r"two\.json"):
        write_copy(entries, tmp_path / "copies", "old")
    assert list((tmp_path / "copies").iterdir()) == []


def test_only_what_the_copy_holds_as_it_is_now_is_removed(entries, tmp_path):
    copy = write_copy(entries, tmp_path / "copies", "old")
    entries[1].path.write_text("changed since")
    stranger = Entry(name="old/three.json", path=tmp_path / "old" / "three.json", sha256="0")
    stranger.path.write_text("never copied")
    removed, left = clean([*entries, stranger], copy)
    assert [entry.name for entry in removed] == ["old/one.json"]
    assert [entry.name for entry in left] == ["old/two.json", "old/three.json"]
    assert not entries[0].path.exists() and entries[1].path.exists() and stranger.path.exists()


@pytest.mark.parametrize("damage", ["cut", "swap", "empty"])
def test_a_damaged_copy_removes_nothing(entries, tmp_path, damage):
    copy = write_copy(entries, tmp_path / "copies", "old")
    if damage == "cut":
        copy.write_bytes(copy.read_bytes()[:-40])
    elif damage == "swap":
        with tarfile.open(copy) as archive:
            manifest = archive.extractfile(MANIFEST).read()
        (tmp_path / "m").write_bytes(manifest)
        (tmp_path / "x").write_text("something else")
        with tarfile.open(copy, "w:gz") as archive:
            for entry in entries:
                archive.add(tmp_path / "x", entry.name)
            archive.add(tmp_path / "m", MANIFEST)
    else:
        copy.write_bytes(b"")
    with pytest.raises(CopyBroken):
        clean(entries, copy)
    assert all(entry.path.exists() for entry in entries)
