"""Files of measurements that are published with the code: their names, what they hold, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from domain.errors import AssayError, UsageError
from domain.events import (
    DATA_TYPES,
    MEASUREMENT_FAILED,
    MEASUREMENT_RECORDED,
    RUN_STARTED,
    TEST_REPORTED,
    Decoded,
    decode_event,
)
from runner.campaign.campaign import survey_machine
from runner.machine.scrub import private_parts
from runner.spool.event_file import numbered_lines, read_lines
from runner.spool.post import MOST_REFUSALS, Refusal, too_long

__all__ = ["Contents", "contents_of", "new_file", "problems_in", "published_files", "published_name"]

PLAN = "plan.yaml"
"""What stands beside published files, and tells their folder from another of the same name."""
_ROWS = frozenset({MEASUREMENT_RECORDED, MEASUREMENT_FAILED, TEST_REPORTED})


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What files hold: rows by kind, measurements by verdict, and machines by the slugs of their hardware."""

    events: int = 0
    measurements: int = 0
    failures: int = 0
    tests: int = 0
    verdicts: dict[str, int] = {}
    machines: list[str] = []


def published_name(hardware: Sequence[str], day: date) -> str:
    """Return the name of a file of the measurements of a machine with this hardware (slugs), begun on a day."""
    return f"{'+'.join(dict.fromkeys(hardware))}-{day:%Y-%m}.ndjson.gz"


def published_files(folder: Path) -> list[Path]:
    """Return the files of a folder by name, then those of pages in browsers; none where it does not hold the plan."""
    if not (folder / PLAN).is_file():
        return []
    return [path for place in ("", "browsers", "cuda") for path in sorted((folder / place).glob("*.ndjson*"))]


def new_file(folder: Path, day: date, *, resume: bool = False) -> Path:
    """Return the file for this machine's events in a folder; UsageError where it is there and not gone on with."""
    path = folder / published_name([each["hardware"]["id"] for each in survey_machine(())[0].placement], day)
    if path.exists() and not resume:
        raise UsageError(
            f"{path} is there already.",
            field="out",
            remedy="Go on with it by --resume, or name another file in the folder.",
        )
    return path


def contents_of(paths: Sequence[Path]) -> Contents:
    """Return what NDJSON files of events hold; raises UsageError where one cannot be read."""
    counts: dict[str, int] = {}
    verdicts: dict[str, int] = {}
    machines: dict[str, None] = {}
    for line in (line for path in paths for line in read_lines(path)):
        event = msgspec.json.decode(line)
        type_, data = event["type"], event["data"]
        counts[type_] = counts.get(type_, 0) + 1
        if type_ == RUN_STARTED:
            machines["+".join(each["id"] for each in data["hardware"])] = None
        if type_ == MEASUREMENT_RECORDED:
            verdict = (data.get("validity") or {}).get("verdict") or "without verdict"
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
    return Contents(
        events=sum(counts.values()),
        measurements=counts.get(MEASUREMENT_RECORDED, 0),
        failures=counts.get(MEASUREMENT_FAILED, 0),
        tests=counts.get(TEST_REPORTED, 0),
        verdicts=verdicts,
        machines=list(machines),
    )


def problems_in(paths: Sequence[Path], *, names: tuple[str, ...] | None = None) -> list[Refusal]:
    """Return why files cannot be published, line by line; nothing where they can.

    Every event passes the gate of the log and is of a type and with members that this version knows; ids are unique
    over all files and ascend within one; each row was measured by a runner and has its environment, each measurement
    its verdict; no text has a path, address, token, or one of `names` (by default this user's and this machine's).
    After MOST_REFUSALS reasons the rest is not read.
    """
    refusals: list[Refusal] = []
    seen: set[str] = set()
    for path in paths:
        last = ""
        for number, line in numbered_lines(path):
            if len(refusals) >= MOST_REFUSALS:
                return refusals
            if line is None:
                refusals.append(too_long(path, number))
                continue
            try:
                event = decode_event(line)
            except AssayError as error:
                refusals.append(Refusal(file=path.name, line=number, field=error.field, detail=error.detail))
                continue
            # A signature is 64 random-looking bytes in Base64, where any two letters after a slash look like a path.
            text = {name: value for name, value in event.event.items() if name != "signature"}
            wrong = [*_lacking(event), *_order(event.id, last, seen), *_private(text, "", names)]
            refusals += [Refusal(file=path.name, line=number, field=field, detail=detail) for field, detail in wrong]
            last = max(last, event.id)
            seen.add(event.id)
    return refusals


def _order(id_: str, last: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    if id_ in seen:
        yield "id", "another line has this id."
    elif id_ < last:
        yield "id", "lower than an id above it: the lines are not in the order in which they were written."


def _lacking(event: Decoded) -> Iterator[tuple[str, str]]:
    if event.type not in DATA_TYPES:
        yield "type", f"{event.type} is none that this version knows."
    for member in event.warnings:
        yield member, "no member that this version knows."
    if event.type not in _ROWS:
        return
    if getattr(event.data, "environment", None) is None:
        yield "data.environment", "missing: nobody could tell what this ran on."
    if event.type == MEASUREMENT_RECORDED and getattr(event.data, "validity", None) is None:
        yield "data.validity", "missing: a measurement is published with its verdict."
    origin = event.data.provenance.origin  # type: ignore[union-attr]
    if origin != "measured":
        yield "data.provenance.origin", f"{origin}: only what a runner measured is published."


def _private(value: Any, field: str, names: tuple[str, ...] | None) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        for part in private_parts(value, names=names):
            yield field, f"private: {part!r}."
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _private(name, field, names)
            yield from _private(inner, f"{field}.{name}" if field else name, names)
    elif isinstance(value, list):
        for inner in value:
            yield from _private(inner, field, names)
