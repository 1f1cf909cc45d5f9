"""Sending files of events that a runner wrote elsewhere, and the spool of this machine, to a service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.client import batches
from domain.errors import AssayError
from runner.eventfile import read_lines

__all__ = ["PostReport", "Refusal", "post_files"]

Send = Callable[[Sequence[bytes]], Mapping[str, Any]]
"""Posts events (one JSON text each) and returns the answer of `POST /v1/events`, or raises an AssayError."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A line that the service did not take, and why."""

    file: str
    line: int
    detail: str
    field: str | None = None


class PostReport(msgspec.Struct, kw_only=True):
    """What came of posting files; `last_position` is the highest of those that the service has."""

    accepted: int = 0
    duplicate: int = 0
    refused: list[Refusal] = []
    last_position: int | None = None

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
        for _ in read_lines(path):
            pass
    report = PostReport()
    for path in paths:
        first = 1
        for batch in batches(read_lines(path)):
            _post(path, first, batch, send, report)
            first += len(batch)
    return report


def _post(path: Path, first: int, batch: list[bytes], send: Send, report: PostReport) -> None:
    try:
        answer = send(batch)
    except AssayError as error:
        if not 400 <= error.status < 500 or error.status in (401, 403, 429):
            raise
        own = {int(item["index"]): item for item in getattr(error, "rejected", None) or ()}
        for index in range(len(batch)):
            reason = own.get(index, {"detail": error.detail, "field": error.field})
            report.refused.append(_refusal(path, first + index, reason))
        return
    report.accepted += int(answer["accepted"])
    report.duplicate += int(answer["duplicate"])
    report.refused.extend(_refusal(path, first + int(item["index"]), item) for item in answer.get("rejected", ()))
    position = answer.get("last_position")
    if position is not None:
        report.last_position = max(report.last_position or 0, int(position))


def _refusal(path: Path, line: int, reason: Mapping[str, Any]) -> Refusal:
    return Refusal(file=path.name, line=line, detail=str(reason.get("detail") or ""), field=reason.get("field"))
