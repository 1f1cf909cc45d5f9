"""What a list of paths holds: files, those in folders and in archives, and those that patterns match.

Archives are opened with care: a member is unpacked alone into a folder of its own and removed before the next; names
that lead elsewhere, links and devices are refused, and so is what grows beyond the limits.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from domain.errors import UsageError
from ingest.importers.refusals import Refused

__all__ = ["LIMITS", "File", "Limits", "expand"]

HEAD_BYTES = 65_536
_PIECE = 1 << 20
_SINGLE: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_TARS = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz2", ".txz")
_BROKEN = (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, RuntimeError, NotImplementedError)  # fmt: skip


class Limits(NamedTuple):
    """How much an archive may hold: bytes of one member and of all, members, growth, and archives in archives."""

    member_bytes: int = 2 << 30
    archive_bytes: int = 8 << 30
    members: int = 100_000
    growth: int = 400
    depth: int = 2


LIMITS = Limits()


class File(NamedTuple):
    """One file: `path` is where its bytes are, `name` what it is called in what was named, such as `old.zip/a/b.json`.

    `given` is true where a person named this file itself; others may be passed over where nobody recognises them.
    """

    path: Path
    name: str
    given: bool = False

    @property
    def base(self) -> str:
        """The last part of its name."""
        return PurePosixPath(self.name).name

    @property
    def suffix(self) -> str:
        """The last suffix of its name, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def head(self) -> str:
        """Return the first 64 KiB as text, whatever the bytes: for recognising a format."""
        with self.path.open("rb") as file:
            raw = file.read(HEAD_BYTES)
        return raw.decode(encoding_of(raw), errors="replace").removeprefix("\ufeff")

    def size(self) -> int:
        """Return its bytes."""
        return self.path.stat().st_size

    def open_text(self) -> IO[str]:
        """Open it as text in the encoding that its first bytes tell; newlines stay as they are, for the csv module."""
        with self.path.open("rb") as file:
            encoding = encoding_of(file.read(HEAD_BYTES))
        return self.path.open(encoding=encoding, newline="")


def encoding_of(raw: bytes) -> str:
    """Return the encoding that the first bytes of a text tell: UTF-16 by its mark or its zeros, else UTF-8."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    beginning = raw[:200]
    if beginning and len(beginning) >= 8:
        if beginning[1::2].count(0) > len(beginning) // 3:
            return "utf-16-le"
        if beginning[0::2].count(0) > len(beginning) // 3:
            return "utf-16-be"
    return "utf-8-sig"


def expand(paths: Iterable[Path | str], limits: Limits = LIMITS) -> Iterator[File | Refused]:
    """Yield the files that are meant, in sorted order: folders are walked, patterns matched, archives opened.

    A file of an archive is there until the next one is asked for. UsageError for a path that matches nothing.
    """
    for given in paths:
        path = Path(given).expanduser()
        if path.is_dir():
            for found in sorted(path.rglob("*")):
                if found.is_file():
                    yield from _opened(File(found, f"{path.name}/{found.relative_to(path).as_posix()}"), limits)
        elif path.exists():
            yield from _opened(File(path, path.name, given=True), limits)
        else:
            matched = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
            if not matched:
                raise UsageError(f"there is no {path}.", field="path", remedy="Name a file, a folder or a pattern.")
            for name in matched:
                if Path(name).is_file():
                    yield from _opened(File(Path(name), Path(name).name, given=True), limits)


def _opened(file: File, limits: Limits, depth: int = 0) -> Iterator[File | Refused]:
    """Yield a file itself, or what it holds where it is an archive."""
    members = _members(file)
    if members is None:
        yield file
        return
    if depth >= limits.depth:
        yield Refused(path=file.name, reason="archives inside archives inside archives are not opened")
        return
    with tempfile.TemporaryDirectory(prefix="assay-import-") as folder:
        place = Path(folder) / "member"
        room = min(limits.archive_bytes, max(file.size() * limits.growth, 1 << 24))
        try:
            for count, (name, opened) in enumerate(members, start=1):
                if count > limits.members:
                    yield Refused(path=file.name, reason=f"holds more than {limits.members} files")
                    return
                if opened is None:
                    yield Refused(path=f"{file.name}/{name}", reason="a link, a device, or a name that leads elsewhere")
                    continue
                with opened() as source:
                    size = _copy(source, place, min(room, limits.member_bytes))
                if size is None:
                    yield Refused(path=f"{file.name}/{name}", reason="unpacks to more than its archive may hold")
                    return
                room -= size
                yield from _opened(
                    File(place, f"{file.name}/{name}", file.given and count == 1 and _single(file)), limits, depth + 1
                )
        except _BROKEN as error:
            yield Refused(path=file.name, reason=f"cannot be unpacked: {type(error).__name__}")


def _copy(source: IO[bytes], place: Path, most: int) -> int | None:
    """Write a member to its place and return its bytes; None where there are more than it may have."""
    size = 0
    with place.open("wb") as target:
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > most:
                return None
            target.write(piece)
    return size


def _single(file: File) -> bool:
    return file.suffix in _SINGLE and not file.base.lower().endswith(_TARS)


def _members(file: File) -> Iterator[tuple[str, Any]] | None:
    """Return the members of an archive as (name, how to open it or None where it may not be); None for other files."""
    base = file.base.lower()
    if base.endswith(_TARS):
        return _of_tar(file)
    if base.endswith(".zip"):
        return _of_zip(file)
    if _single(file):
        return iter([(PurePosixPath(file.base).stem, lambda: _SINGLE[file.suffix](file.path, "rb"))])
    return None


def _of_zip(file: File) -> Iterator[tuple[str, Any]]:
    with zipfile.ZipFile(file.path) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                safe = _is_inside(info.filename) and (info.external_attr >> 28) & 0xF != 0xA
                yield _shown(info.filename), (lambda info=info: archive.open(info)) if safe else None


def _of_tar(file: File) -> Iterator[tuple[str, Any]]:
    with tarfile.open(file.path, "r:*") as archive:
        for info in archive:
            if not info.isdir():
                safe = info.isreg() and _is_inside(info.name)
                yield _shown(info.name), (lambda info=info: archive.extractfile(info)) if safe else None


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    return not path.is_absolute() and ".." not in path.parts and ":" not in name


def _shown(name: str) -> str:
    return "/".join(part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("..", "/"))
