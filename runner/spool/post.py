"""Sending files of events that a runner wrote elsewhere, and the spool of this machine, to a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.client import batches
from domain.errors import AssayError
from domain.events import EVENT_LIMIT_BYTES
from runner.spool.event_file import numbered_lines

__all__ = ["MOST_REFUSALS", "PostReport", "Refusal", "post_files", "too_long"]

Send = Callable[[Sequence[bytes]], Mapping[str, Any]]
"""Posts events (one JSON text each) and returns the answer of `POST /v1/events`, or raises an AssayError."""


MOST_REFUSALS = 10_000
"""Refusals that are kept one by one; more are counted."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A line that the service did not take, and why."""

    file: str
    line: int
    detail: str
    field: str | None = None


class PostReport(msgspec.Struct, kw_only=True):
    """What came of posting files; `last_position` is the highest of those that the service has.

    `refused` has the first MOST_REFUSALS lines, `refused_lines` the number of all.
    """

    accepted: int = 0
    duplicate: int = 0
    refused: list[Refusal] = []
    refused_lines: int = 0
    last_position: int | None = None

    def refuse(self, refusal: Refusal) -> None:
        """Count a line that was not taken, and keep the reason while there are not too many."""
        self.refused_lines += 1
        if len(self.refused) < MOST_REFUSALS:
            self.refused.append(refusal)

    @property
    def exit_code(self) -> int:
        """0 where the service has every event, 1 where it refused some."""
        return 1 if self.refused else 0


def post_files(paths: Sequence[Path], send: Send) -> PostReport:
    """Send the events of NDJSON files in batches.

    All files are read through once before anything is sent: a file that cannot be read, or that breaks off in its
    last line (UsageError naming it), sends nothing. A batch that is refused as a whole is recorded line by line and
    the rest goes on; an unreachable service or a missing right is raised.
    """
    for path in paths:
        for _ in numbered_lines(path):
            pass
    report = PostReport()
    for path in paths:
        numbers: list[int] = []
        for batch in batches(_sendable(path, numbers, report)):
            _post(path, numbers[: len(batch)], batch, send, report)
            del numbers[: len(batch)]
    return report


def too_long(path: Path, line: int) -> Refusal:
    """Return the refusal of a line that is longer than an event may be."""
    return Refusal(file=path.name, line=line, detail=f"longer than {EVENT_LIMIT_BYTES:,} bytes, which no event may be.")


def _sendable(path: Path, numbers: list[int], report: PostReport) -> Iterator[bytes]:
    """Yield the lines that an event can have, put their numbers into `numbers`, and refuse the others."""
    for number, content in numbered_lines(path):
        if content is None:
            report.refuse(too_long(path, number))
        else:
            numbers.append(number)
            yield content


def _post(path: Path, numbers: Sequence[int], batch: list[bytes], send: Send, report: PostReport) -> None:
    try:
        answer = send(batch)
    except AssayError as error:
        if not 400 <= error.status < 500 or error.status in (401, 403, 429):
            raise
        own = {int(item["index"]): item for item in getattr(error, "rejected", None) or ()}
        for index, number in enumerate(numbers):
            report.refuse(_refusal(path, number, own.get(index, {"detail": error.detail, "field": error.field})))
        return
    report.accepted += int(answer["accepted"])
    report.duplicate += int(answer["duplicate"])
    for item in answer.get("rejected", ()):
        report.refuse(_refusal(path, numbers[int(item["index"])], item))
    position = answer.get("last_position")
    if position is not None:
        report.last_position = max(report.last_position or 0, int(position))


def _refusal(path: Path, line: int, reason: Mapping[str, Any]) -> Refusal:
    return Refusal(file=path.name, line=line, detail=str(reason.get("detail") or ""), field=reason.get("field"))
