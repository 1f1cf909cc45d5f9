"""What verbs print: answers on stdout, everything else on stderr."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

__all__ = [
    "answers",
    "captured",
    "complain",
    "fitted",
    "grid",
    "notes",
    "prepare_streams",
    "print_json",
    "say",
    "shortened",
    "write_json",
]

_OF_UNICODE = re.compile("[^\x00-\x7f]")
WIDTH = 100
"""Columns assumed where stdout is no terminal."""


class _Answers(Console):
    """A console whose reader may leave, as `head` does: that is no failure of the verb."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which ends quietly."""
        raise BrokenPipeError


_CAPTURE: ContextVar[Console | None] = ContextVar("captured answers", default=None)


@contextmanager
def captured() -> Iterator[io.StringIO]:
    """Collect what is written to `answers()` within the context, in this thread or task alone."""
    text = io.StringIO()
    token = _CAPTURE.set(Console(file=text, width=WIDTH, highlight=False, color_system=None))
    try:
        yield text
    finally:
        _CAPTURE.reset(token)


def prepare_streams() -> None:
    """Let no character that stdout or stderr cannot encode end a verb: it is replaced. Lines end as they do elsewhere.

    Windows gives a pipe or a file the code page of the system, and writes a carriage return before each line's end.
    """
    # A program that was started with one of the three closed would give its number to the next file that it opens.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace", newline="\n")


def answers() -> Console:
    """Return the console of the answer: stdout, 100 columns where it is a file or a pipe; see `captured`."""
    return _CAPTURE.get() or _Answers(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def notes() -> Console:
    """Return the console of progress and remarks: stderr."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else WIDTH, highlight=False)


def say(text: str) -> None:
    """Write a remark to stderr."""
    notes().print(text)


def complain(text: str) -> None:
    """Write what is wrong to stderr, as it is, without markup."""
    notes().print(Text("error: ", style="bold red") + Text(text), soft_wrap=True)


def print_json(value: Any) -> None:
    """Write the JSON of an answer, alone, to stdout."""
    write_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def write_json(text: str) -> None:
    """Write a line of JSON to stdout, with escapes in place of characters that stdout may not be able to encode."""
    if (sys.stdout.encoding or "").lower().replace("_", "-") not in ("utf-8", "utf8"):
        text = _OF_UNICODE.sub(_escaped, text)
    sys.stdout.write(text + "\n")


def _escaped(character: re.Match[str]) -> str:
    """Return a character as JSON escapes it: in one or two units of UTF-16."""
    units = character[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def shortened(name: str, longest: int) -> str:
    """Return a name of at most so many letters, so that its row takes one line."""
    return name if len(name) <= longest else f"{name[: longest - 1].rstrip()}…"


def fitted(title: str | None, columns: Sequence[tuple[str, str, Sequence[str | Text]]], spare: Sequence[str]) -> Table:
    """Return a table of heads, kinds and cells as wide as the terminal: `spare` columns are left away, the first of them first."""
    kept, leave = list(columns), list(spare)
    while leave and sum(_wide(head, cells) for head, _, cells in kept) > answers().width:
        least = leave.pop(0)
        kept = [column for column in kept if column[0] != least]
    rows = [list(line) for line in zip(*(cells for _, _, cells in kept), strict=True)]
    return grid(title, [(head, kind) for head, kind, _ in kept], rows)


def _wide(head: str, cells: Sequence[str | Text]) -> int:
    return 1 + max([len(head), *(len(cell) for cell in cells)])


def grid(title: str | None, columns: Sequence[str | tuple[str, str]], rows: Sequence[Sequence[str | Text]]) -> Table:
    """Return a table. A column is a name and may wrap; ("name", "right") holds figures, ("name", "fixed") short words.

    Figures and short words stay on one line, so that they can be read and copied.
    """
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="bold", box=None, padding=(0, 1, 0, 0)
    )
    for column in columns:
        name, kind = (column, "text") if isinstance(column, str) else column
        table.add_column(name, justify="right" if kind == "right" else "left", overflow="fold", no_wrap=kind != "text")
    for row in rows:
        table.add_row(*(escape(cell) if isinstance(cell, str) else cell for cell in row))
    return table
