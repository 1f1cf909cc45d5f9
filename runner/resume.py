"""Which cases a file of events already holds, so that a sweep goes on where it was interrupted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from domain.canonical import digest, drop_nulls
from domain.errors import UsageError
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, TEST_REPORTED
from runner.tasks import Case

__all__ = ["CaseKey", "EventFile", "case_key", "cases_in", "read_lines"]

CaseKey = str
_TRY_AGAIN = frozenset({"Interrupted"})


def case_key(model_id: str, case: Case) -> CaseKey:
    """Return the name of a case by what was asked for: model, workload, platform, precision, compiled."""
    return _key(model_id, msgspec.to_builtins(case.workload), case.platform, case.precision, compiled=case.compiled)


def _key(model_id: str, workload: dict[str, Any], platform: str, precision: str, *, compiled: bool) -> CaseKey:
    return digest([model_id, drop_nulls(workload), platform, precision, compiled])


def cases_in(path: Path, type_: str = MEASUREMENT_RECORDED) -> set[CaseKey]:
    """Return the cases that a file of events holds a row of, failures included unless they were interruptions."""
    wanted = {type_} if type_ == TEST_REPORTED else {MEASUREMENT_RECORDED, MEASUREMENT_FAILED}
    found: set[CaseKey] = set()
    for line in read_lines(path, whole_only=True):
        event = msgspec.json.decode(line)
        if event["type"] not in wanted:
            continue
        data = event["data"]
        if (data.get("failure") or {}).get("error") in _TRY_AGAIN:
            continue
        execution = data["execution"]
        asked = (data.get("observed") or {}).get("requested") or execution
        found.add(
            _key(
                data["model"]["id"],
                data["workload"],
                asked["platform"],
                asked["precision"],
                compiled=bool(execution.get("compiled")),
            )
        )
    return found


def read_lines(path: Path, *, whole_only: bool = False) -> Iterator[bytes]:
    """Yield the lines of an NDJSON file that are not empty; a last line that breaks off raises, or is left out."""
    try:
        handle = path.open("rb")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", field="file", remedy="Check the path.") from error
    with handle:
        for number, line in enumerate(handle, 1):
            if line.endswith(b"\n"):
                if line.strip():
                    yield line.rstrip(b"\r\n")
                continue
            if whole_only:
                return
            try:
                msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise UsageError(
                    f"line {number} of {path} is cut off after {len(line)} bytes.",
                    field="file",
                    remedy="Everything before it is whole. Delete that line, or write the file again.",
                ) from error
            yield line


class EventFile:
    """An NDJSON file that events are written to, each on the disk before the next; `resume` keeps what is there."""

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        try:
            self._handle: IO[bytes] = path.open("r+b" if resume and path.exists() else "xb" if resume else "wb")
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written: {error.strerror}.",
                field="out",
                remedy="Name a file in a folder that exists and that you may write to.",
            ) from error
        if resume:
            self._drop_partial_line()

    def _drop_partial_line(self) -> None:
        """Cut what an interruption left behind the last whole line."""
        whole = sum(len(line) for line in self._handle if line.endswith(b"\n"))
        self._handle.truncate(whole)
        self._handle.seek(whole)

    def write(self, event: dict[str, Any]) -> None:
        """Write one event and wait until it is on the disk."""
        self._handle.write(msgspec.json.encode(event) + b"\n")
        self._handle.flush()
        os.fsync(self._handle.fileno())

    def close(self) -> None:
        """Close the file."""
        self._handle.close()
