"""What `assay share` shares: events of a service's log, of this machine's spool or of files, chosen and anonymised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from domain.catalogues import language_models, models
from domain.errors import AssayError, NotFound, UsageError
from domain.events import (
    MEASUREMENT_FAILED,
    MEASUREMENT_RECORDED,
    MEASUREMENT_RETRACTED,
    RUN_FINISHED,
    RUN_STARTED,
    TEST_REPORTED,
    Decoded,
    decode_event,
)
from domain.payloads import MeasurementFailed, MeasurementRecorded, TestReported
from domain.sharing.anonymising import Anonymiser
from domain.sharing.bundles import SHARED_TYPES
from ingest.sharing.quarantine import physical_doubt

if TYPE_CHECKING:
    from assay.client import Client
    from assay.home import Home

__all__ = [
    "Contents",
    "Selection",
    "anonymised",
    "events_of_files",
    "events_of_service",
    "events_of_spool",
    "moment",
    "select",
]

Row = MeasurementRecorded | MeasurementFailed | TestReported
_READ = (*SHARED_TYPES, MEASUREMENT_RETRACTED)
_OF_THE_LOG = ("position", "recorded_at", "attestation", "expired", "whence")
_SHORTEST = 6
"""Characters of a run's id that name it, where only one begins with them."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows are meant: of `runs` or the last one, of models, measured since a moment."""

    runs: Sequence[str] = ()
    last: bool = False
    models: Sequence[str] = ()
    since: datetime | None = None
    include_suspect: bool = False

    @property
    def only_last(self) -> bool:
        """Whether the newest run is meant: it is where nothing else is said."""
        return self.last or not (self.runs or self.models or self.since)


class Contents(msgspec.Struct, kw_only=True):
    """What is shared, in names and counts, and what was left out or scrubbed and why."""

    runs: int = 0
    measurements: int = 0
    failures: int = 0
    tests: int = 0
    verdicts: dict[str, int] = {}
    models: list[str] = []
    devices: list[str] = []
    software: list[str] = []
    systems: list[str] = []
    scrubbed: dict[str, int] = {}
    left_out: dict[str, int] = {}


def events_of_files(paths: Iterable[Path]) -> list[Decoded]:
    """Return the events of files that a runner wrote, compressed or not; raise UsageError where one is no event."""
    from runner.spool.event_file import read_lines

    return _decoded((str(path), line) for path in paths for line in read_lines(path))


def events_of_spool(home: Home) -> list[Decoded]:
    """Return the events that wait on this machine's disk; none where no spool is there."""
    from runner.spool.spool import Spool

    if not home.spool.exists():
        return []
    with Spool(home.spool) as spool:
        return _decoded((str(home.spool), line) for line in spool.events())


def events_of_service(client: Client, selection: Selection) -> list[Decoded]:
    """Return the events of a log from the first run on that may be meant."""
    runs = [run for run in client.runs() if run["origin"] in ("measured", None)]
    if not runs:
        raise NotFound("this log has no run that was measured.", field="RUN", remedy="Measure one: `assay bench`.")
    if selection.only_last:
        rows = [run for run in runs if run["rows"] or run["rows_failed"] or run["rows_tested"]]
        runs = rows[:1] or runs[:1]
    elif selection.runs:
        named = _named(selection.runs, [run["run_id"] for run in runs])
        runs = [run for run in runs if run["run_id"] in named]
    first = min(run["position"] for run in runs)
    wanted = {run["run_id"] for run in runs}
    events = []
    for event in client.events(after=first - 1, types=_READ):
        if event["type"] == MEASUREMENT_RETRACTED or event["data"].get("run_id") in wanted:
            plain = {name: value for name, value in event.items() if name not in _OF_THE_LOG}
            events.append(("the log", msgspec.json.encode(plain)))
    return _decoded(events)


def _decoded(lines: Iterable[tuple[str, bytes]]) -> list[Decoded]:
    """Check each event as the service would."""
    events: dict[str, Decoded] = {}
    for number, (place, line) in enumerate(lines, 1):
        try:
            event = decode_event(line)
        except AssayError as error:
            raise UsageError(
                f"event {number} of {place} is none: {error.detail}",
                field=error.field or "from",
                remedy="`assay post --check FILE` names every such line.",
            ) from error
        if event.type in _READ:
            events.setdefault(event.id, event)
    return list(events.values())


def select(events: Sequence[Decoded], selection: Selection) -> tuple[list[Decoded], Counter[str]]:
    """Return the events to share, and how many rows were left out by why."""
    started = {_run(event): event for event in events if event.type == RUN_STARTED}
    chosen = _chosen_runs(events, list(started), selection)
    void = _void(events)
    left_out: Counter[str] = Counter()
    rows: list[Decoded] = []
    for event in events:
        if not isinstance(event.data, Row) or not _wanted(event, chosen, selection):
            continue
        reason = _reason_against(event, event.data, started, void, selection)
        if reason is None:
            rows.append(event)
        else:
            left_out[reason] += 1
    kept = {_run(row) for row in rows}
    ends = {_run(event): event for event in events if event.type == RUN_FINISHED and _run(event) in kept}
    return [*(started[run] for run in started if run in kept), *rows, *ends.values()], left_out


def _run(event: Decoded) -> str:
    return str(getattr(event.data, "run_id", ""))


def _chosen_runs(events: Sequence[Decoded], started: Sequence[str], selection: Selection) -> set[str]:
    with_rows = list(dict.fromkeys(_run(event) for event in events if isinstance(event.data, Row)))
    if selection.only_last:
        newest = [run for run in started if run in set(with_rows)]
        return set(newest[-1:] or with_rows[-1:])
    return _named(selection.runs, list(dict.fromkeys([*started, *with_rows]))) if selection.runs else set(with_rows)


def _named(names: Sequence[str], runs: Sequence[str]) -> set[str]:
    """Return the runs of these ids, or of ids that begin so; NotFound for what names none or several."""
    chosen = set()
    for name in names:
        matches = [run for run in runs if run == name] or [
            run for run in runs if len(name) >= _SHORTEST and run.startswith(name)
        ]
        if len(matches) != 1:
            raise NotFound(
                f"{len(matches) or 'no'} measured runs are {name!r}.",
                field="RUN",
                remedy=f"The newest: {', '.join(reversed(runs[-3:])) or 'none'}. `assay runs list` shows all.",
            )
        chosen.add(matches[0])
    return chosen


def _wanted(event: Decoded, chosen: set[str], selection: Selection) -> bool:
    if _run(event) not in chosen:
        return False
    if selection.since is not None and (event.time is None or event.time < selection.since):
        return False
    names = {_canonical(name) for name in selection.models}
    return not names or _canonical(event.data.model.id) in names  # type: ignore[union-attr]


def _canonical(name: str) -> str:
    known = models.find(name) or language_models.find(name)
    return name if known is None else known.id


def _void(events: Sequence[Decoded]) -> set[str]:
    """Return the ids of events and runs that retractions name, those that were undone left aside."""
    retractions = {event.id: event.data for event in events if event.type == MEASUREMENT_RETRACTED}
    undone = {getattr(data, "event_id", None) for data in retractions.values()}
    names: set[str] = set()
    for name, data in retractions.items():
        if name not in undone:
            names |= {target for part in ("event_id", "run_id") if (target := getattr(data, part, None))}
    return names


def _reason_against(
    event: Decoded, row: Row, started: Mapping[str, Any], void: set[str], selection: Selection
) -> str | None:
    """Return why a row is not shared, or None."""
    if event.id in void or row.run_id in void:
        return "retracted"
    if row.provenance.origin != "measured":
        return f"{row.provenance.origin}, not measured here"
    if row.run_id not in started:
        return "the start of its run is not there"
    if not isinstance(row, MeasurementRecorded):
        return None
    doubt = physical_doubt(row)
    if doubt is not None:
        return f"{doubt.rule}: physics does not allow it"
    verdict = row.validity.verdict if row.validity is not None else "valid"
    return verdict if verdict != "valid" and not selection.include_suspect else None


def anonymised(events: Sequence[Decoded], anonymiser: Anonymiser) -> tuple[list[dict[str, Any]], Contents]:
    """Return the events as they are shared, each checked again by the gate, and what they hold."""
    anonymiser.learn(events)
    shared = [anonymiser.event(event) for event in events]
    contents = Contents(scrubbed=dict(sorted(anonymiser.counts.items())))
    for document in shared:
        _count(decode_event(msgspec.json.encode(document)), contents)
    for names in (contents.models, contents.devices, contents.software, contents.systems):
        names[:] = sorted(set(names))
    return shared, contents


def _count(event: Decoded, contents: Contents) -> None:
    data = event.data
    contents.runs += event.type == RUN_STARTED
    contents.measurements += event.type == MEASUREMENT_RECORDED
    contents.failures += event.type == MEASUREMENT_FAILED
    contents.tests += event.type == TEST_REPORTED
    if isinstance(data, MeasurementRecorded):
        verdict = data.validity.verdict if data.validity is not None else "not judged"
        contents.verdicts[verdict] = contents.verdicts.get(verdict, 0) + 1
    if isinstance(data, Row):
        runtime = data.execution.runtime
        contents.models.append(data.model.id)
        contents.devices.append(data.hardware.id + (f" × {data.hardware.count}" if data.hardware.count > 1 else ""))
        contents.software.append(
            f"{runtime.name} {runtime.version or ''}".strip() if runtime else data.execution.platform
        )
        if data.environment is not None and data.environment.os:
            contents.systems.append(data.environment.os)


def moment(text: str) -> datetime:
    """Return the moment of a date or an ISO 8601 time, in UTC where it says no zone."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no date.", field="since", remedy="Write 2026-11-20, or 2026-11-20T14:00:00+00:00."
        ) from error
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
