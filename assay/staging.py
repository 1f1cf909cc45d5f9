"""Files that appear whole, and together, or not at all; nothing is overwritten unless that is asked for."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from domain.errors import UsageError

__all__ = ["SUFFIX", "Staged", "require_place"]

_REMEDY = "Name another, or add --force."

SUFFIX = ".writing"
"""Ends the name of a file that is being written."""
_EXPORTED = frozenset({".parquet", ".csv", ".json", ".ndjson", ".arrow", ".gz"})
"""Suffixes of the files that an exported folder holds; a folder with anything else is never replaced."""

_OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.ENAMETOOLONG})


def require_place(
    path: Path, *, force: bool = False, parents: bool = True, field: str = "path", remedy: str = _REMEDY
) -> None:
    """Raise UsageError unless `path` can become a new file, or, with `force`, take the place of a regular file.

    Without `parents` its folder has to be there.
    """
    try:
        _require_file(path, field)
        if path.exists() and not force:
            raise UsageError(f"{path} exists.", field=field, remedy=remedy)
        parent = next(folder for folder in path.absolute().parents if folder.exists())
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error), field) from error
    if not parents and parent != path.absolute().parent:
        raise _unwritable(path, f"there is no folder {path.parent}", field)
    if not parent.is_dir():
        raise _unwritable(path, f"{parent} is no folder", field)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise _unwritable(path, f"{parent} may not be written to", field)


def _require_file(path: Path, field: str) -> None:
    if path.is_symlink():
        raise UsageError(f"{path} is a symbolic link.", field=field, remedy="Name the file that it leads to.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder.", field=field, remedy="Name a file.")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file.", field=field, remedy="Name a file.")


def _unwritable(path: Path, why: str, field: str) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {why}.",
        field=field,
        remedy="Name a file in a folder that exists and that you may write to.",
    )


class Staged:
    """A context in which files are written beside their places; at its end they take them, after an error nothing stays.

    Without `force` a place that is taken is a UsageError, before anything is written.
    """

    def __init__(self, *, force: bool = False) -> None:
        self.force = force
        self.places: list[Path] = []
        self._beside: dict[Path, Path] = {}
        self._made: list[Path] = []

    def file(self, path: Path) -> Path:
        """Return where to write what will become the file `path`."""
        require_place(path, force=self.force)
        return self._stage(path)

    def folder(self, path: Path) -> Path:
        """Return the folder, there and empty, that will become `path`; `force` replaces only an exported one."""
        self._require_folder(path)
        beside = self._stage(path)
        beside.mkdir()
        return beside

    def _require_folder(self, path: Path) -> None:
        if not path.is_dir() or path.is_symlink():
            require_place(path, force=self.force)
        elif any(path.iterdir()) and not self.force:
            raise UsageError(f"{path} exists.", field="path", remedy=_REMEDY)
        elif not all(file.suffix in _EXPORTED for file in path.rglob("*") if not file.is_dir()):
            raise UsageError(
                f"{path} holds files that no export wrote.", field="path", remedy="Name another folder, or empty it."
            )

    def _stage(self, path: Path) -> Path:
        # A name that nothing else has: whatever lies beside the place is the user's.
        beside = self._beside.get(path) or path.with_name(f".{secrets.token_hex(4)}.{path.name}{SUFFIX}")
        try:
            for parent in reversed([parent for parent in path.parents if not parent.exists()]):
                parent.mkdir()
                self._made.append(parent)
            _remove(beside)
        except OSError as error:
            raise _unwritable(path, error.strerror or str(error), "path") from error
        self._beside[path] = beside
        if path not in self.places:
            self.places.append(path)
        return beside

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._place()
                return
        except OSError as failed:
            self._discard()
            raise _unwritable(self.places[0], failed.strerror or str(failed), "path") from failed
        except UsageError:
            self._discard()
            raise
        self._discard()
        if isinstance(error, OSError) and error.errno in _OF_WRITING and self.places:
            raise _unwritable(self.places[0], error.strerror or str(error), "path") from error

    def _place(self) -> None:
        for path, beside in self._beside.items():
            _sync(beside)
            if beside.is_dir():
                self._require_folder(path)
            else:
                require_place(path, force=self.force)
        for path, beside in self._beside.items():
            if path.is_dir():
                _remove(path)
            beside.replace(path)

    def _discard(self) -> None:
        for beside in self._beside.values():
            _remove(beside)
        for folder in reversed(self._made):
            with suppress(OSError):
                folder.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    for file in [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]:
        # Windows writes out only what is open for writing.
        with file.open("r+b") as written:
            os.fsync(written.fileno())
