"""A run in words: whether it is still under way, how far it came, and what its rows are worth."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from presentation import formatting

if TYPE_CHECKING:
    from assay.client.row_types import Run

__all__ = [
    "SILENCE",
    "VERDICTS",
    "State",
    "by_verdict",
    "done",
    "duration",
    "heard",
    "length",
    "progress",
    "seconds",
    "source_words",
    "state",
    "verdicts",
    "where",
]

SILENCE = timedelta(minutes=15)
"""A run that has not ended and was not heard of for so long is not called live: its machine may be gone."""
VERDICTS = ("valid", "suspect", "invalid", "unjudged")


class State(NamedTuple):
    """How a run stands, in one word or two; `live`: more is expected of it."""

    word: str
    live: bool


def source_words(source: str | None, attestation: str | None, peer: str | None = None) -> str:
    """Name the source of a run or a row, how the log knows it, and the peer that brought it: `urn:acme:runner-7 (signed)`."""
    known = ", ".join(word for word in (attestation, f"from peer {peer}" if peer else None) if word)
    name = source or formatting.MISSING
    return f"{name} ({known})" if known else name


def state(run: Run, now: datetime) -> State:
    """Say how a run of `GET /v1/runs` stands at a moment."""
    if run.retracted_because:
        return State("retracted", live=False)
    if run.outcome:
        return State(run.outcome, live=False)
    last = heard(run)
    if last is not None and now - last <= SILENCE:
        return State("running", live=True)
    return State("never ended", live=False)


def heard(run: Run) -> datetime | None:
    """Return when the last of a run was made, or when it began where nothing came of it; not when it was loaded from a file."""
    begun = [_aware(moment) for moment in (run.started_at, run.recorded_at) if moment is not None]
    return _aware(run.last_at) if run.last_at else min(begun, default=None)


def done(run: Run) -> int:
    """Count the configurations of which something is known: rows, failures, tests, and those that were taken back."""
    return sum(count or 0 for count in (run.rows, run.rows_failed, run.rows_tested, run.rows_retracted))


def by_verdict(run: Run) -> dict[str, int]:
    """Count the rows of a run by verdict."""
    counts = (run.rows_valid, run.rows_suspect, run.rows_invalid, run.rows_unjudged)
    return {name: count or 0 for name, count in zip(VERDICTS, counts, strict=True)}


def progress(run: Run) -> float | None:
    """Return the share of what was planned that is done, 1 at the most; None where there is no plan."""
    return min(done(run) / run.planned, 1.0) if run.planned else None


def length(run: Run) -> str:
    """Write how far a run came: `37 of 208 configurations, 2 failed`, or without a plan `30,491 rows`."""
    parts = [
        f"{formatting.count(done(run))} of {formatting.count(run.planned)} configurations"
        if run.planned
        else _counted(done(run), "row")
    ]
    if run.kernels and not run.rows:
        parts = [f"{formatting.count(run.kernels)} kernels timed"]
    if run.rows_failed:
        parts.append(f"{formatting.count(run.rows_failed)} failed")
    if run.rows_tested:
        parts.append(f"{formatting.count(run.tests_passed)} of {_counted(run.rows_tested, 'test')} passed")
    if run.rows_retracted:
        parts.append(f"{formatting.count(run.rows_retracted)} taken back")
    return ", ".join(parts)


def verdicts(run: Run) -> str:
    """Write what the rows are worth: `92 valid, 7 suspect, 0 invalid`; an em dash without rows."""
    if not run.rows:
        return formatting.MISSING
    said = {"unjudged": "without verdict"}
    counts = {name: count for name, count in by_verdict(run).items() if count or name != "unjudged"}
    return ", ".join(f"{formatting.count(count)} {said.get(name, name)}" for name, count in counts.items())


def where(run: Run) -> str:
    """Name the hardware of a run: that of its rows, or what the runner found before there are any."""
    names = list(run.hardware_ids or [item["id"] for item in run.hardware or []])
    count = max(run.devices or 0, len(names))
    if count > 2:
        return f"{formatting.count(count)} devices"
    return ", ".join(names) or "unnamed hardware"


def duration(run: Run, now: datetime | None = None) -> str:
    """Write how long a run took, or with `now` has been under way; an em dash where that is not known.

    An import says when its file is from, and not how long anything took.
    """
    took = seconds(run, now)
    if took is None:
        return formatting.MISSING
    if took < 60:
        return f"{took}\u202fs"
    minutes, left = divmod(took, 60)
    if minutes < 60:
        return f"{minutes}\u202fmin {left}\u202fs"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}\u202fh {minutes}\u202fmin"


def seconds(run: Run, now: datetime | None = None) -> int | None:
    """Return the whole seconds that `duration` writes; None where that is not known."""
    begin, end = run.started_at, run.finished_at or now
    if begin is None or end is None or _aware(end) < _aware(begin) or run.kind == "import":
        return None
    return int((_aware(end) - _aware(begin)).total_seconds())


def _counted(number: int, word: str) -> str:
    return f"{formatting.count(number)} {word}{'' if number == 1 else 's'}"


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
