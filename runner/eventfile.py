"""Files of events, one a line, plain or compressed with gzip: written so that an interruption loses none, and read."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from domain.errors import UsageError

__all__ = ["EventFile", "read_lines"]

_GZIP = b"\x1f\x8b"


def read_lines(path: Path, *, whole_only: bool = False) -> Iterator[bytes]:
    """Yield the lines of an NDJSON file that are not empty; what is compressed with gzip is unpacked on the way.

    A last line that breaks off, or a compressed file that does, raises UsageError, or is left out with `whole_only`.
    """
    with _opened(path) as stream:
        for number, line in enumerate(_raw_lines(path, stream, whole_only=whole_only), 1):
            if line.endswith(b"\n"):
                if line.strip():
                    yield line.rstrip(b"\r\n")
            elif whole_only:
                return
            else:
                _require_whole(path, number, line)
                yield line


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[bytes]]:
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


def _raw_lines(path: Path, stream: Iterable[bytes], *, whole_only: bool) -> Iterator[bytes]:
    count = 0
    try:
        for line in stream:
            yield line
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
        """Open a stream that holds the whole lines of the old one, which stays in place until then."""
        lines = list(read_lines(self.path, whole_only=True)) if kept else []
        target = self.path.with_name(f".{self.path.name}.part") if kept else self.path
        file = target.open("wb")
        stream = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
        if kept:
            stream.writelines(line + b"\n" for line in lines)
            stream.flush()
            os.fsync(file.fileno())
            target.replace(self.path)
        return file, stream

    @staticmethod
    def _drop_partial_line(file: IO[bytes]) -> None:
        """Cut what an interruption left behind the last whole line."""
        whole = sum(len(line) for line in file if line.endswith(b"\n"))
        file.truncate(whole)
        file.seek(whole)

    def write(self, event: dict[str, Any]) -> None:
        """Write one event and wait until it is on the disk."""
        if self._file is None:
            self._open(kept=False)
        assert self._file is not None
        self._stream.write(msgspec.json.encode(event) + b"\n")
        self._stream.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._stream.close()
            self._file.close()


def _require_writable(path: Path) -> None:
    """Raise OSError where the file cannot be written; what it holds stays, and one that was not there is not left."""
    new = not path.exists()
    path.open("ab").close()
    if new:
        path.unlink()
