"""What is bisected: commits or package versions in order, each prepared in a folder or environment of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

__all__ = ["Prepared", "Unbuildable", "Version", "Versions"]


class Version(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A commit by its full hash with its subject, or a version of a package; `merge`: a commit with several parents."""

    name: str
    title: str | None = None
    merge: bool = False

    @property
    def short(self) -> str:
        """The name as people write it: twelve digits of a hash."""
        return self.name[:12] if len(self.name) >= 40 else self.name


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Where the command of a version runs: its folder, and the variables of its environment."""

    folder: Path
    environment: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(os.environ))


class Unbuildable(Exception):
    """A version that cannot be built or installed; the message says why, with the last lines of the log."""


class Versions(Protocol):
    """A sequence of versions from a good one to a bad one."""

    versions: list[Version]
    notes: list[str]

    def prepare(self, index: int, log: Path) -> Prepared:
        """Build or install a version and return where it is; Unbuildable where that fails. Its output goes to `log`."""

    def retain(self, indices: set[int]) -> None:
        """Remove what was prepared of all other versions."""

    def close(self) -> None:
        """Remove everything that was prepared."""

    def remove_stale(self) -> None:
        """Remove what a killed search left behind; call it while no other search of these versions can run."""
