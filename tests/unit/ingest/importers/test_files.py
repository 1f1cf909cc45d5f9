"""Paths, folders and archives, those included that somebody has damaged or forged: each is told, and the rest goes on."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zipfile

import pytest

from domain.errors import UsageError
from ingest.importers.files import Limits, expand, total_bytes
from ingest.importers.refusals import Refused


def zipped(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def tarred(path, *members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def found(*paths, **limits):
    """Return {name: content} of the files and {name: reason} of the refusals."""
    files, refused = {}, {}
    for item in expand(paths, Limits(**limits)):
        if isinstance(item, Refused):
            refused[item.path] = item.reason
        else:
            files[item.name] = item.path.read_bytes()
    return files, refused


def test_files_folders_and_patterns_in_sorted_order(tmp_path):
    folder = tmp_path / "runs"
    for name in ("b.json", "a/z.csv", ".git/objects/12.json", "node_modules/x.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    assert list(found(folder)[0]) == ["runs/a/z.csv", "runs/b.json"]
    assert list(found(tmp_path / "runs" / "*.json")[0]) == ["b.json"]
    (given,) = expand([folder / "b.json"])
    assert (given.given, given.base, given.suffix) == (True, "b.json", ".json")
    assert not next(expand([folder])).given


def test_a_folder_is_called_by_its_name_however_it_was_typed(tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_text("1")
    monkeypatch.chdir(tmp_path)
    assert list(found(".")[0]) == [f"{tmp_path.name}/x.csv"]


@pytest.mark.parametrize("path", ["no-such-file.csv", "no-such-*.csv", "~nobody-of-this-name/x", "x\0y", "y" * 5000])
def test_a_path_that_is_nothing_is_wrong_usage(path):
    with pytest.raises(UsageError):
        list(expand([path]))


def test_what_has_no_end_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert found(tmp_path / "pipe")[1] == {"pipe": "is no file: what has no end cannot be imported"}
    assert found(tmp_path) == ({}, {})


def test_names_are_shown_without_control_characters_and_bytes_that_are_no_text(tmp_path):
    (tmp_path / os.fsdecode(b"a\x1b[31m\xff.csv")).write_text("1")
    (name,) = found(tmp_path)[0]
    assert name == f"{tmp_path.name}/a\ufffd[31m\ufffd.csv"


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"])
def test_archives_hold_files(tmp_path, suffix):
    path = tmp_path / f"old{suffix}"
    members = ("runs/a.json", b"{}"), ("runs/2026-11-22T10:00:00.json", b"[]")
    if suffix == ".zip":
        zipped(path, *members)
    else:
        tarred(path, *members, mode="w:" + {".tar": "", ".tgz": "gz"}.get(suffix, suffix.rpartition(".")[2]))
    files, refused = found(path)
    assert files == {f"old{suffix}/runs/a.json": b"{}", f"old{suffix}/runs/2026-11-22T10:00:00.json": b"[]"}
    assert refused == {}


def test_one_compressed_file_is_itself_and_was_named(tmp_path):
    path = tmp_path / "times.csv.gz"
    path.write_bytes(gzip.compress(b"model\n"))
    (file,) = expand([path])
    assert (file.base, file.suffix, file.given) == ("times.csv", ".csv", True)


def test_archives_in_archives_are_opened_to_a_depth(tmp_path):
    inner = zipped(tmp_path / "inner.zip", ("a.csv", b"1"))
    middle = zipped(tmp_path / "middle.zip", ("inner.zip", inner.read_bytes()), ("b.csv.gz", gzip.compress(b"2")))
    outer = zipped(tmp_path / "outer.zip", ("middle.zip", middle.read_bytes()), ("c.csv", b"3"))
    files, _ = found(middle)
    assert files == {"middle.zip/inner.zip/a.csv": b"1", "middle.zip/b.csv.gz/b.csv": b"2"}
    files, refused = found(outer)
    assert list(files) == ["outer.zip/c.csv"]
    assert set(refused) == {"outer.zip/middle.zip/inner.zip", "outer.zip/middle.zip/b.csv.gz"}


@pytest.mark.parametrize("name", ["../evil.csv", "a/../../evil.csv", "/etc/evil.csv", "C:\\evil.csv", "..\\evil.csv"])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_names_that_lead_elsewhere_are_refused_and_write_nothing(tmp_path, name, pack):
    place = tmp_path / "deep" / "er"
    place.mkdir(parents=True)
    path = pack(place / ("x.zip" if pack is zipped else "x.tar.gz"), (name, b"evil"), ("good.csv", b"1"))
    before = sorted(tmp_path.rglob("*"))
    files, refused = found(path)
    assert [name.rpartition("/")[2] for name in files] == ["good.csv"]
    assert list(refused.values()) == ["a link, a device, or a name that leads elsewhere"]
    assert ".." not in "".join(refused)
    assert sorted(tmp_path.rglob("*")) == before


def test_links_and_devices_are_refused(tmp_path):
    (tmp_path / "secret").write_text("secret")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo(f"member-{kind.decode()}")
            info.type, info.linkname = kind, "../secret"
            archive.addfile(info)
    files, refused = found(tmp_path / "x.tar")
    assert (files, len(refused)) == ({}, 4)
    link = zipfile.ZipInfo("link.csv")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr(link, "../secret")
    assert found(tmp_path / "y.zip") == ({}, {"y.zip/link.csv": "a link, a device, or a name that leads elsewhere"})


def test_what_grows_beyond_its_archive_ends_it(tmp_path):
    bomb = zipped(tmp_path / "bomb.zip", ("a.csv", b"1"), ("zeros", bytes(40 << 20)), ("b.csv", b"2"))
    assert bomb.stat().st_size < 50_000
    files, refused = found(bomb)
    assert list(files) == ["bomb.zip/a.csv"]
    assert refused == {"bomb.zip/zeros": "unpacks to more than its archive may hold"}
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(bytes(40 << 20)))
    assert found(tmp_path / "bomb.csv.gz")[0] == {}


def test_archives_in_an_archive_share_its_room(tmp_path):
    inner = zipped(tmp_path / "inner.zip", ("zeros", bytes(9 << 20)))
    members = [(f"{n}.zip", inner.read_bytes()) for n in range(3)]
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as outer:
        for name, content in members:
            outer.writestr(name, content)
    files, refused = found(tmp_path / "outer.zip", growth=1)
    assert len(files) == 1
    assert set(refused.values()) == {"unpacks to more than its archive may hold"}


def test_more_members_than_allowed_end_it(tmp_path):
    path = tarred(tmp_path / "x.tar", *((f"{n}.csv", b"") for n in range(12)), mode="w:")
    files, refused = found(path, members=10)
    assert len(files) == 10
    assert refused == {"x.tar": "holds more than 10 files"}


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path):
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a.csv")
        info.pax_headers = {"comment": "x" * (4 << 20)}
        archive.addfile(info)
    files, refused = found(tmp_path / "x.tar.gz")
    assert (files, len(refused)) == ({}, 1)


def test_encrypted_and_broken_members_are_told_and_the_others_taken(tmp_path):
    path = zipped(tmp_path / "x.zip", ("a.csv", b"a" * 100), ("b.csv", b"b" * 100), ("c.csv", b"c" * 100))
    raw = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(mark) + offset] |= 1  # the first member says that it is encrypted
    data = raw.index(b"b.csv") + len("b.csv")
    raw[data] ^= 0xFF
    path.write_bytes(raw)
    files, refused = found(path)
    assert list(files) == ["x.zip/c.csv"]
    assert refused["x.zip/a.csv"] == "is encrypted"
    assert refused["x.zip/b.csv"].startswith("cannot be unpacked")


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.csv.gz", "x.csv.bz2", "x.csv.xz"])
@pytest.mark.parametrize("content", [b"", b"no archive at all", b"PK\x03\x04", b"\x1f\x8b\x08\x00" + bytes(20)])
def test_what_is_no_archive_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    files, refused = found(tmp_path / name)
    assert not any(files.values())
    assert all(reason.startswith("cannot be unpacked") for reason in refused.values())


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz", ".csv.gz"])
def test_an_archive_cut_anywhere_never_crashes(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    content = struct.pack("<500I", *range(500))
    if suffix == ".zip":
        zipped(path, ("a.csv", content), ("b.csv", content))
    elif suffix == ".csv.gz":
        path.write_bytes(gzip.compress(content))
    else:
        tarred(path, ("a.csv", content), ("b.csv", content), mode="w:gz" if suffix == ".tar.gz" else "w:")
    whole = path.read_bytes()
    for cut in range(1, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:cut])
        files, _ = found(path)
        assert all(file in (content, b"") or suffix == ".tar" for file in files.values())


@pytest.mark.parametrize("suffix", [".csv", ".zip", ".tar.gz", ".csv.gz"])
def test_bytes_are_told_as_they_are_read_and_come_out_even(tmp_path, suffix):
    path, content = tmp_path / f"x{suffix}", b"a,b\n" * 200_000
    if suffix == ".zip":
        zipped(path, ("a.csv", content), ("b.csv", content))
    elif suffix == ".tar.gz":
        tarred(path, ("a.csv", content))
    else:
        path.write_bytes(gzip.compress(content) if suffix == ".csv.gz" else content)
    told, seen = [], []
    for file in expand([path], tell=told.append):
        with file.open_text() as opened:
            for n, _ in enumerate(opened):
                if n == 100_000:
                    seen.append(sum(told))
    assert sum(told) == pytest.approx(total_bytes([path])) == path.stat().st_size
    assert 0 < seen[0] < total_bytes([path]) or suffix == ".tar.gz"


def test_text_is_read_in_the_encoding_that_its_first_bytes_tell(tmp_path):
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"):
        (tmp_path / "x.csv").write_text("model,µs\nbert,12\n", encoding=encoding)
        (file,) = expand([tmp_path / "x.csv"])
        assert file.head().startswith("model,µs"), encoding
        with file.open_text() as opened:
            assert opened.read() == "model,µs\nbert,12\n", encoding
