"""Files of events, one a line, plain or compressed with gzip: written so that an interruption loses none, and read."""

from __future__ import annotations

import gzip
import io
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import msgspec

from domain.errors import ServiceUnavailable, UsageError
from domain.events import EVENT_LIMIT_BYTES

__all__ = ["EventFile", "Line", "numbered_lines", "read_lines"]

_GZIP = b"\x1f\x8b"
LINE_LIMIT_BYTES = 16 << 20
"""Longest line of a file that holds rows, or that a run goes on with; an event that is sent has EVENT_LIMIT_BYTES."""
_PIECE_BYTES = 1 << 20
_GROWTH = 400
"""A compressed file may unpack to this many times its size; events compress 5 to 50 times."""
_LEAST_ROOM_BYTES = 16 << 20
"""Bytes that even the smallest compressed file may unpack to."""


class Line(NamedTuple):
    """One line of a file, numbered from 1; `content` is None where the line is longer than the limit."""

    number: int
    content: bytes | None


def read_lines(path: Path, *, whole_only: bool = False) -> Iterator[bytes]:
    """Yield the contents of `numbered_lines`; raises UsageError for a line of more than LINE_LIMIT_BYTES."""
    for number, content in numbered_lines(path, whole_only=whole_only, limit=LINE_LIMIT_BYTES):
        if content is None:
            raise UsageError(
                f"line {number} of {path} has more than {LINE_LIMIT_BYTES:,} bytes.",
                field="file",
                remedy="No event or row is that long. Delete the line, or name another file.",
            )
        yield content


def numbered_lines(path: Path, *, whole_only: bool = False, limit: int = EVENT_LIMIT_BYTES) -> Iterator[Line]:
    """Yield the lines of an NDJSON file that are not empty, plain or compressed with gzip, one in memory at a time.

    A last line that breaks off, or a compressed file that does, raises UsageError, or is left out with `whole_only`.
    A line of more than `limit` bytes has no content, and its rest is skipped.
    """
    with _opened(path) as stream:
        for number, line in enumerate(_raw_lines(path, stream, limit, whole_only=whole_only), 1):
            if line is None:
                yield Line(number, None)
            elif line.endswith(b"\n"):
                if line.strip():
                    yield Line(number, line.rstrip(b"\r\n"))
            elif whole_only:
                return
            else:
                _require_whole(path, number, line)
                yield Line(number, line)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedIOBase]:
    try:
        handle = path.open("rb")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", field="file", remedy="Check the path.") from error
    with handle:
        if handle.peek(len(_GZIP)).startswith(_GZIP):
            with gzip.GzipFile(fileobj=handle) as stream:
                yield stream
        else:
            yield handle


def _raw_lines(path: Path, stream: io.BufferedIOBase, limit: int, *, whole_only: bool) -> Iterator[bytes | None]:
    """Yield the lines with their ends, None for each that is too long."""
    count = size = 0
    room = max(path.stat().st_size * _GROWTH, _LEAST_ROOM_BYTES) if isinstance(stream, gzip.GzipFile) else math.inf
    try:
        while line := stream.readline(limit + 2):
            size += len(line)
            too_long = len(line.rstrip(b"\r\n")) > limit
            rest = line
            while too_long and rest and not rest.endswith(b"\n") and size <= room:
                rest = stream.readline(_PIECE_BYTES)
                size += len(rest)
            if size > room:
                raise UsageError(
                    f"{path} unpacks to more than {_GROWTH} times its size.",
                    field="file",
                    remedy="No file of events does. If you trust it, unpack it first.",
                )
            yield None if too_long else line
            count += 1
    except EOFError as error:
        if not whole_only:
            raise UsageError(
                f"{path} breaks off after line {count}.",
                field="file",
                remedy="Copy it again; if the run that wrote it was interrupted, go on with it by --resume.",
            ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(
            f"{path} is damaged after line {count}: {error}.", field="file", remedy="Copy it again."
        ) from error


def _require_whole(path: Path, number: int, line: bytes) -> None:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"line {number} of {path} is cut off after {len(line)} bytes.",
            field="file",
            remedy="Everything before it is whole. Delete that line, or write the file again.",
        ) from error


class EventFile:
    """An NDJSON file that events are written to, each on the disk before the next; `resume` keeps what is there.

    Otherwise the first event takes the place of what the file held: a run that is refused before it changes nothing.

    A name that ends in `.gz` gives a file compressed with gzip, which can be read up to the last event at any time.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        try:
            if resume:
                self._open(kept=path.exists())
            else:
                _require_writable(path)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written: {error.strerror}.",
                field="out",
                remedy="Name a file in a folder that exists and that you may write to.",
            ) from error

    def _open(self, *, kept: bool) -> None:
        if self.path.suffix == ".gz":
            self._file, self._stream = self._compressed(kept)
        else:
            self._file = self._stream = self.path.open("r+b" if kept else "wb")
            if kept:
                self._drop_partial_line(self._file)

    def _compressed(self, kept: bool) -> tuple[IO[bytes], Any]:
        """Open a stream behind the whole lines of the old one, which stays in place until they are on the disk.

        What is written from now on is a member of its own in the file: Windows gives no open file another name.
        """
        if not kept:
            return _gzip_stream(self.path)
        target = self.path.with_name(f".{self.path.name}.part")
        try:
            file, stream = _gzip_stream(target)
            with file, stream:
                stream.writelines(line + b"\n" for line in read_lines(self.path, whole_only=True))
                stream.flush()
                os.fsync(file.fileno())
            target.replace(self.path)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        return _gzip_stream(self.path, "ab")

    @staticmethod
    def _drop_partial_line(file: IO[bytes]) -> None:
        """Cut what an interruption left behind the last whole line."""
        end = file.seek(0, os.SEEK_END)
        newline = -1
        while end and newline < 0:
            start = max(0, end - _PIECE_BYTES)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            end = start
        whole = end + newline + 1
        file.truncate(whole)
        file.seek(whole)

    def write(self, event: dict[str, Any]) -> None:
        """Write one event and wait until it is on the disk; ServiceUnavailable where the disk does not take it."""
        try:
            if self._file is None:
                self._open(kept=False)
            assert self._file is not None
            self._stream.write(msgspec.json.encode(event) + b"\n")
            self._stream.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Close the file; ServiceUnavailable where the disk does not take the rest."""
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            self._stream.close()
            file.close()
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ServiceUnavailable:
        return ServiceUnavailable(
            f"{self.path} cannot be written: {error.strerror}.",
            field="out",
            remedy="Its whole lines are safe. Make room, and go on with --resume.",
        )


def _gzip_stream(path: Path, mode: Literal["wb", "ab"] = "wb") -> tuple[IO[bytes], Any]:
    file = path.open(mode)
    return file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)


def _require_writable(path: Path) -> None:
    """Raise OSError where the file cannot be written; what it holds stays, and one that was not there is not left."""
    new = not path.exists()
    path.open("ab").close()
    if new:
        path.unlink()
