"""Copies of files that are in the log, and taking the originals away: never without a copy that was read back.

A copy is a `.tar.gz` with the files under their names and a member `MANIFEST.json` that says each one's SHA-256, size, format and
time. It appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from domain.errors import AssayError
from ingest.importers.ledger import Entry, sha256_of

__all__ = ["CopyBroken", "clean", "verify_copy", "write_copy"]

MANIFEST = "MANIFEST.json"
_PIECE = 1 << 20


class CopyBroken(AssayError):
    """A copy that does not hold what it should; nothing is taken away because of it."""

    type = "copy-broken"


class _Hashing:
    """A file that is read, and the SHA-256 of what was read of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self.sha256.update(piece)
        return piece


def write_copy(entries: Sequence[Entry], folder: Path, name: str) -> Path:
    """Write the files into a new archive in the folder, read it back, and return where it is.

    CopyBroken where a file is no longer what was imported, or the archive does not hold what was written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = next(
        path
        for count in range(1, 10_000)
        if not (path := folder / f"{name}-{stamp}{f'-{count}' if count > 1 else ''}.tar.gz").exists()
    )
    beside = target.with_name(target.name + ".writing")
    try:
        with beside.open("wb") as written:
            with tarfile.open(fileobj=written, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
                for entry in entries:
                    _add(archive, entry)
                _add_manifest(archive, entries)
            written.flush()
            os.fsync(written.fileno())
        result = verify_copy(beside)
        if result != {entry.name: entry.sha256 for entry in entries}:
            raise CopyBroken(
                f"{target.name} does not hold the files that were imported.", remedy="Nothing was removed; try again."
            )
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return target


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    assert entry.path is not None
    with entry.path.open("rb") as file:
        info = tarfile.TarInfo(entry.name)
        info.size, info.mtime, info.mode = os.fstat(file.fileno()).st_size, int(entry.modified_s), 0o644
        reader = _Hashing(file)
        archive.addfile(info, reader)
        if reader.sha256.hexdigest() != entry.sha256:
            raise CopyBroken(
                f"{entry.name} is no longer what was imported.", remedy="Run it again; nothing was removed."
            )


def _add_manifest(archive: tarfile.TarFile, entries: Sequence[Entry]) -> None:
    document = [
        {
            "path": entry.name,
            "sha256": entry.sha256,
            "bytes": entry.size_bytes,
            "format": entry.format,
            "modified": datetime.fromtimestamp(entry.modified_s, UTC).isoformat(),
            "events": entry.taken.total(),
        }
        for entry in entries
    ]
    content = msgspec.json.format(msgspec.json.encode({"version": 1, "files": document}), indent=1)
    info = tarfile.TarInfo(MANIFEST)
    info.size, info.mode = len(content), 0o644
    archive.addfile(info, io.BytesIO(content))


def verify_copy(path: Path) -> dict[str, str]:
    """Read an archive back and return the SHA-256 of each file; CopyBroken where it differs from its manifest."""
    matches: dict[str, str] = {}
    manifest: Any = None
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is None:
                    raise CopyBroken(f"{path.name} holds {member.name}, which is no file.")
                if member.name == MANIFEST:
                    manifest = msgspec.json.decode(content.read())
                    continue
                digest = hashlib.sha256()
                while piece := content.read(_PIECE):
                    digest.update(piece)
                matches[member.name] = digest.hexdigest()
    except (tarfile.TarError, OSError, EOFError, msgspec.DecodeError) as error:
        raise CopyBroken(
            f"{path.name} cannot be read back: {error}.", remedy="Nothing was removed; try again."
        ) from error
    sha256s = {each["path"]: each["sha256"] for each in manifest["files"]} if isinstance(manifest, dict) else None
    if sha256s != matches:
        raise CopyBroken(f"{path.name} differs from its manifest.", remedy="Nothing was removed; try again.")
    return matches


def clean(entries: Iterable[Entry], copy: Path) -> tuple[list[Entry], list[Entry]]:
    """Remove the files that the copy holds as they are now, and return those removed and those left because they changed."""
    held = verify_copy(copy)
    removed: list[Entry] = []
    left: list[Entry] = []
    for entry in entries:
        path = entry.path
        if path is None or path.is_symlink() or not path.is_file() or held.get(entry.name) != sha256_of(path):
            left.append(entry)
            continue
        path.unlink()
        removed.append(entry)
    return removed, left
