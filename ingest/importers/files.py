"""What a list of paths holds: files, those in folders and in archives, and those that patterns match.

Archives are opened with care: a member is unpacked alone into a folder of its own and removed before the next; names
that lead elsewhere, links and devices are refused, and so is what grows beyond the limits.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from domain.errors import UsageError
from ingest.importers.refusals import Refused

__all__ = ["LIMITS", "File", "Limits", "expand", "require", "total_bytes"]

HEAD_BYTES = 65_536
HEADER_BYTES = 1 << 20
"""A member's name or attributes in a tar archive may take so much; Python would read any length into memory."""
_PIECE = 1 << 20
_ELSEWHERE = "a link, a device, or a name that leads elsewhere"
_SINGLE: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_TARS = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz2", ".txz")
_ATTRIBUTES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_BROKEN = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    struct.error,
    RuntimeError,
    NotImplementedError,
    ValueError,
    OverflowError,
    IndexError,
    KeyError,
)
"""What Python's archive readers raise on archives that somebody has damaged or forged."""
_PASSED_OVER = frozenset((".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"))
"""Folders that hold no results, and often tens of thousands of files."""


class Limits(NamedTuple):
    """How much an archive may hold: bytes of one member and of all, members, growth, and archives in archives."""

    member_bytes: int = 2 << 30
    archive_bytes: int = 8 << 30
    members: int = 100_000
    growth: int = 400
    depth: int = 2


LIMITS = Limits()
LEAST_ROOM = 1 << 24
"""Bytes that even the smallest archive may unpack to."""
Tell = Callable[[float], None]
"""Called with the number of bytes just read from the named paths."""


@dataclass(frozen=True)
class File:
    """One file: `path` is where its bytes are, `name` what it is called in what was named, such as `old.zip/a/b.json`.

    `given` is true where a person named this file itself; others may be passed over where nobody recognises them. `tell`
    is called with the number of bytes as they are read.
    """

    path: Path
    name: str
    given: bool = False
    tell: Tell | None = None

    @cached_property
    def base(self) -> str:
        """The last part of its name."""
        return PurePosixPath(self.name).name

    @cached_property
    def suffix(self) -> str:
        """The last suffix of its name, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def head(self) -> str:
        """Return the first 64 KiB as text, whatever the bytes: for recognising a format."""
        return self._head

    @cached_property
    def _head(self) -> str:
        with self.path.open("rb") as file:
            raw = file.read(HEAD_BYTES)
        return raw.decode(encoding_of(raw), errors="replace").removeprefix("\ufeff")

    def size(self) -> int:
        """Return its bytes."""
        return self.path.stat().st_size

    def open_text(self, errors: str = "strict") -> IO[str]:
        """Open it as text in the encoding that its first bytes tell; newlines stay as they are, for the csv module."""
        with self.path.open("rb") as file:
            encoding = encoding_of(file.read(HEAD_BYTES))
        raw = io.BufferedReader(_Told(self.path, self.tell), 1 << 18)
        return io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline="")


class _Told(io.FileIO):
    """A file that tells how far it was read."""

    def __init__(self, path: Path, tell: Tell | None) -> None:
        super().__init__(path, "rb")
        self._tell_read = tell

    def readinto(self, buffer: Any, /) -> int:
        size = super().readinto(buffer) or 0
        if self._tell_read is not None:
            self._tell_read(size)
        return size


class _Tally:
    """Tells of a file's bytes at what they are worth among those of the paths that were named, and of no more."""

    def __init__(self, worth: float, size: int, tell: Tell | None) -> None:
        self._left = worth
        self._each = worth / max(size, 1)
        self._tell = tell

    def add(self, size: float) -> None:
        """Tell of so many bytes of the file."""
        step = min(self._left, size * self._each)
        self._left -= step
        if step and self._tell is not None:
            self._tell(step)

    def finish(self) -> None:
        """Tell of what is left: of bytes that nobody wanted, or that another library has read."""
        self.add(float("inf") if self._each else 0)


class _Room:
    """What may still be unpacked out of one named archive and the archives in it."""

    def __init__(self, file: File, limits: Limits) -> None:
        self.bytes = min(limits.archive_bytes, max(file.size() * limits.growth, LEAST_ROOM))
        self.members = limits.members


class _Member(NamedTuple):
    """A member of an archive: `packed` its bytes in it where that is known, `open` how, or why it may not be opened."""

    name: str
    packed: int | None
    open: Callable[[], Any] | str


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


def require(paths: Iterable[Path | str]) -> None:
    """Raise UsageError for the first path that is nothing and matches nothing."""
    for value in paths:
        path = _path(value)
        if not _is_there(path):
            raise UsageError(f"there is no {path}.", field="path", remedy="Name a file, a folder or a pattern.")


def total_bytes(paths: Iterable[Path | str]) -> int:
    """Return the bytes of all files that are meant, archives as they lie there; what is no path has none."""
    there = [path for path in paths if _is_there(_path(path))]
    return sum(_size(result) for result in _found(there) if isinstance(result, File))


def expand(paths: Iterable[Path | str], limits: Limits = LIMITS, tell: Tell | None = None) -> Iterator[File | Refused]:
    """Yield the files that are meant, in sorted order: folders are walked, patterns matched, archives opened.

    A file of an archive is there until the next one is asked for. UsageError for a path that matches nothing. `tell` is
    called with the bytes as they are read, of `total_bytes` in all.
    """
    for result in _found(paths):
        if isinstance(result, Refused):
            yield result
            continue
        size = _size(result)
        yield from _opened(result, limits, _Tally(size, size, tell), None)


def _size(file: File) -> int:
    """Return its bytes; 0 where it has gone, which opening it will tell."""
    try:
        return file.size()
    except OSError:
        return 0


def _is_there(path: Path) -> bool:
    return path.exists() or next(glob.iglob(str(path), recursive=True), None) is not None  # noqa: PTH207 - Path.glob takes no absolute pattern


def _path(value: Path | str) -> Path:
    try:
        path = Path(value).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"{str(value)[:80]!r} is no path: {error}.", field="path", remedy="Name a file or a folder."
        ) from error
    return path


def _found(paths: Iterable[Path | str]) -> Iterator[File | Refused]:
    """Yield the files that lie where the paths say, archives unopened."""
    for value in paths:
        path = _path(value)
        if path.is_dir():
            root = path.resolve().name
            for file in sorted(path.rglob("*")):
                inner = file.relative_to(path)
                if file.is_file() and not _PASSED_OVER.intersection(inner.parts):
                    yield File(file, _shown(f"{root}/{inner.as_posix()}"))
        elif path.is_file():
            yield File(path, _shown(path.name), given=True)
        elif path.exists():
            yield Refused(path=_shown(path.name), reason="is no file: what has no end cannot be imported")
        else:
            require([path])
            for name in sorted(glob.glob(str(path), recursive=True)):  # noqa: PTH207 - Path.glob takes no absolute pattern
                if Path(name).is_file():
                    yield File(Path(name), _shown(Path(name).name), given=True)


def _opened(file: File, limits: Limits, tally: _Tally, room: _Room | None, depth: int = 0) -> Iterator[File | Refused]:
    """Yield a file itself, or what it holds where it is an archive."""
    members = _members(file)
    if members is None:
        yield File(file.path, file.name, file.given, tally.add)
    elif depth >= limits.depth:
        yield Refused(path=file.name, reason="archives inside archives inside archives are not opened")
    else:
        with tempfile.TemporaryDirectory(prefix="assay-import-") as folder:
            try:
                yield from _unpacked(file, members, Path(folder), limits, tally, room or _Room(file, limits), depth)
            except _BROKEN as error:
                yield Refused(path=file.name, reason=_why(error))
    tally.finish()


def _unpacked(
    file: File, members: Iterator[_Member], folder: Path, limits: Limits, tally: _Tally, room: _Room, depth: int
) -> Iterator[File | Refused]:
    for count, member in enumerate(members):
        room.members -= 1
        name = f"{file.name}/{member.name}"
        if room.members < 0:
            yield Refused(path=file.name, reason=f"holds more than {limits.members:,} files")
            return
        if isinstance(member.open, str):
            yield Refused(path=name, reason=member.open)
            continue
        place = folder / str(count)
        try:
            with member.open() as source:
                size = _copy(source, place, min(room.bytes, limits.member_bytes))
        except _BROKEN as error:
            yield Refused(path=name, reason=_why(error))
            if file.suffix == ".zip":
                continue
            return
        if size is None:
            yield Refused(path=name, reason="unpacks to more than its archive may hold")
            return
        room.bytes -= size
        inner = _Tally(size if member.packed is None else member.packed, size, tally.add)
        result = File(place, name, file.given and _single(file))
        yield from _opened(result, limits, inner, room, depth + 1)
        place.unlink()


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


def _why(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "cannot be unpacked: it ends too early"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be unpacked: {error.strerror}"
    return f"cannot be unpacked: {type(error).__name__}"


def _single(file: File) -> bool:
    return file.suffix in _SINGLE and not file.base.lower().endswith(_TARS)


def _members(file: File) -> Iterator[_Member] | None:
    """Return the members of an archive, folders left out; None for other files."""
    base = file.base.lower()
    if base.endswith(_TARS):
        return _of_tar(file)
    if base.endswith(".zip"):
        return _of_zip(file)
    if _single(file):
        name = PurePosixPath(file.base).stem
        return iter([_Member(name, file.size(), lambda: _SINGLE[file.suffix](file.path, "rb"))])
    return None


def _of_zip(file: File) -> Iterator[_Member]:
    with zipfile.ZipFile(file.path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            opened: Callable[[], Any] | str = lambda info=info: archive.open(info)  # noqa: E731
            if not _is_inside(info.filename) or (info.external_attr >> 28) & 0xF == 0xA:
                opened = _ELSEWHERE
            elif info.flag_bits & 1:
                opened = "is encrypted"
            yield _Member(_shown(info.filename), info.compress_size, opened)


def _of_tar(file: File) -> Iterator[_Member]:
    packed = file.base.lower().endswith(".tar")
    with tarfile.open(file.path, "r:*", tarinfo=_Info) as archive:
        for info in archive:
            # The archive would remember every member, and there may be millions of folders.
            archive.members = []  # type: ignore[attr-defined]
            if info.isdir():
                continue
            safe = info.isreg() and _is_inside(info.name)
            opened: Callable[[], Any] | str = (lambda info=info: archive.extractfile(info)) if safe else _ELSEWHERE
            yield _Member(_shown(info.name), info.size if packed else None, opened)


class _Info(tarfile.TarInfo):
    """A member's header, but for those that would fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Info:
        """Read a header; ReadError where what belongs to it is too long."""
        info = super().frombuf(buf, encoding, errors)
        if info.type in _ATTRIBUTES and info.size > HEADER_BYTES:
            raise tarfile.ReadError("a header that is too long")
        return info


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    return not path.is_absolute() and ".." not in path.parts and name[1:3] not in (":/", ":\\")


def _shown(name: str) -> str:
    """Return a name as it can be written anywhere: no way out, no control characters, no bytes that are no text."""
    parts = (part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("..", "/"))
    return "".join(mark if mark.isprintable() else "\ufffd" for mark in "/".join(parts)) or "\ufffd"
