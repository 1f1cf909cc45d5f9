"""Files that appear whole, and together, or not at all."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from domain.errors import UsageError

__all__ = ["Staged"]


class Staged:
    """A context in which files are written beside their places; at its end they take them, after an error nothing stays.

    Without `force` a place that is taken is a UsageError, before anything is written.
    """

    def __init__(self, *, force: bool = False) -> None:
        self.force = force
        self.places: list[Path] = []
        self._made: list[Path] = []

    def file(self, path: Path) -> Path:
        """Return where to write what will become the file `path`."""
        if path.is_dir():
            raise UsageError(f"{path} is a folder.", field="path", remedy="Name a file.")
        return self._beside(path)

    def folder(self, path: Path) -> Path:
        """Return the folder, there and empty, that will become `path`."""
        beside = self._beside(path)
        beside.mkdir()
        return beside

    def _beside(self, path: Path) -> Path:
        if not self.force and path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise UsageError(f"{path} exists.", field="path", remedy="Name another, or add --force.")
        beside = _writing(path)
        try:
            for parent in reversed([parent for parent in path.parents if not parent.exists()]):
                parent.mkdir()
                self._made.append(parent)
            _remove(beside)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written: {error.strerror}.",
                field="path",
                remedy="Name a place that you may write to.",
            ) from error
        if path not in self.places:
            self.places.append(path)
        return beside

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for path in self.places:
                _synced(_writing(path))
            for path in self.places:
                if path.is_dir():
                    _remove(path)
                _writing(path).replace(path)
            return
        for path in self.places:
            _remove(_writing(path))
        for folder in reversed(self._made):
            with suppress(OSError):
                folder.rmdir()


def _writing(path: Path) -> Path:
    return path.with_name(path.name + ".writing")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _synced(path: Path) -> None:
    for file in [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]:
        with file.open("rb") as written:
            os.fsync(written.fileno())
