"""Options and arguments that name a file to write: what they have in common, checked before a verb does any work."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from assay.staging import require_place

__all__ = ["OutputFile", "overwritable", "resumable"]

Verb = TypeVar("Verb", bound=Callable[..., Any])


class OutputFile(click.Path):
    """A file that a verb writes. What is there already is refused, unless the verb's `--force` is given.

    With `folder` the name of a folder is taken too, with `parents` missing folders are made, and with `resumes` an
    existing file is taken where `--resume` is given. `replaces` tells whether an existing file was made by the same
    option before and may be made anew. `word` is a value that names no file.
    """

    def __init__(
        self,
        *,
        folder: bool = False,
        parents: bool = False,
        resumes: bool = False,
        replaces: Callable[[Path], bool] | None = None,
        word: str | None = None,
    ) -> None:
        super().__init__(path_type=Path)
        self.folder = folder
        self.parents = parents
        self.resumes = resumes
        self.replaces = replaces
        self.word = word

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; UsageError where no file can be written there."""
        if value == self.word:
            return value
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self.folder and path.is_dir():
            return path
        flags = ctx.params if ctx is not None else {}
        force = bool(flags.get("force") or (self.resumes and flags.get("resume")))
        if not force and self.replaces is not None and path.is_file():
            force = self.replaces(path)
        field = (param.name if param is not None else None) or "path"
        remedy = f"Name another, {'go on with it by --resume, ' if self.resumes else ''}or add --force."
        require_place(path, force=force, parents=self.parents, field=field, remedy=remedy)
        return path


def overwritable(verb: Verb) -> Verb:
    """Add `--force`, which is read before the options that name files."""
    return click.option("--force", is_flag=True, is_eager=True, help="Overwrite files that exist.")(verb)


def resumable(help_: str) -> Callable[[Verb], Verb]:
    """Add `--resume`, which is read before the options that name files."""
    return click.option("--resume", is_flag=True, is_eager=True, help=help_)
