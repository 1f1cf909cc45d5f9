"""A run in words: whether it is still under way, how far it came, and what its rows are worth."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from presentation import formatting

__all__ = [
    "SILENCE",
    "VERDICTS",
    "State",
    "done",
    "duration",
    "heard",
    "length",
    "progress",
    "source_words",
    "state",
    "verdicts",
    "where",
]

SILENCE = timedelta(minutes=15)
"""A run that has not ended and was not heard of for so long is not called live: its machine may be gone."""
VERDICTS = ("valid", "suspect", "invalid", "unjudged")
Run = Mapping[str, Any]


class State(NamedTuple):
    """How a run stands, in one word or two; `live`: more is expected of it."""

    word: str
    live: bool


def source_words(row: Mapping[str, Any]) -> str:
    """Return the source of a run or a row, and how the log knows it: `urn:acme:runner-7 (signed)`."""
    source = str(row.get("source") or formatting.MISSING)
    return f"{source} ({row['attestation']})" if row.get("attestation") else source


def state(run: Run, now: datetime) -> State:
    """Say how a run of `GET /v1/runs` stands at a moment."""
    if run.get("retracted_because"):
        return State("retracted", live=False)
    if run.get("outcome"):
        return State(str(run["outcome"]), live=False)
    last = heard(run)
    if last is not None and now - last <= SILENCE:
        return State("running", live=True)
    return State("never ended", live=False)


def heard(run: Run) -> datetime | None:
    """Return when the last of a run was made, or when it began where nothing came of it; not when it was loaded from a file."""
    begun = [moment for name in ("started_at", "recorded_at") if (moment := _moment(run.get(name))) is not None]
    return _moment(run.get("last_at")) or min(begun, default=None)


def done(run: Run) -> int:
    """Count the configurations of which something is known: rows, failures, tests, and those that were taken back."""
    return sum(int(run.get(name) or 0) for name in ("rows", "rows_failed", "rows_tested", "rows_retracted"))


def progress(run: Run) -> float | None:
    """Return the share of what was planned that is done, 1 at the most; None where there is no plan."""
    return min(done(run) / run["planned"], 1.0) if run.get("planned") else None


def length(run: Run) -> str:
    """Write how far a run came: `37 of 208 configurations, 2 failed`, or without a plan `30,491 rows`."""
    parts = [
        f"{formatting.count(done(run))} of {formatting.count(run['planned'])} configurations"
        if run.get("planned")
        else _counted(done(run), "row")
    ]
    if run.get("rows_failed"):
        parts.append(f"{formatting.count(run['rows_failed'])} failed")
    if run.get("rows_tested"):
        parts.append(f"{formatting.count(run.get('tests_passed'))} of {_counted(run['rows_tested'], 'test')} passed")
    if run.get("rows_retracted"):
        parts.append(f"{formatting.count(run['rows_retracted'])} taken back")
    return ", ".join(parts)


def verdicts(run: Run) -> str:
    """Write what the rows are worth: `92 valid, 7 suspect, 0 invalid`; an em dash without rows."""
    if not run.get("rows"):
        return formatting.MISSING
    named = ("valid", "suspect", "invalid", *(("unjudged",) if run.get("rows_unjudged") else ()))
    said = {"unjudged": "without verdict"}
    return ", ".join(f"{formatting.count(run.get(f'rows_{name}') or 0)} {said.get(name, name)}" for name in named)


def where(run: Run) -> str:
    """Name the hardware of a run: that of its rows, or what the runner found before there are any."""
    names = list(run.get("hardware_ids") or [item["id"] for item in run.get("hardware") or []])
    count = max(int(run.get("devices") or 0), len(names))
    if count > 2:
        return f"{formatting.count(count)} devices"
    return ", ".join(names) or "unnamed hardware"


def duration(run: Run, now: datetime | None = None) -> str:
    """Write how long a run took, or with `now` has been under way; an em dash where that is not known.

    An import says when its file is from, and not how long anything took.
    """
    begin, end = _moment(run.get("started_at")), _moment(run.get("finished_at")) or now
    if begin is None or end is None or end < begin or run.get("kind") == "import":
        return formatting.MISSING
    seconds = int((end - begin).total_seconds())
    if seconds < 60:
        return f"{seconds}\u202fs"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}\u202fmin {seconds}\u202fs"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}\u202fh {minutes}\u202fmin"


def _counted(number: int, word: str) -> str:
    return f"{formatting.count(number)} {word}{'' if number == 1 else 's'}"


def _moment(text: Any) -> datetime | None:
    if not text:
        return None
    fromisoformat = datetime.fromisoformat(str(text))
    return fromisoformat if fromisoformat.tzinfo else fromisoformat.replace(tzinfo=UTC)
