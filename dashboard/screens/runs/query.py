"""What the Runs page asks of the service."""

from __future__ import annotations

import msgspec

from assay.client.row_types import Environment, Run
from dashboard.service import SentRows, checked, client, decoded, kept, sent_rows
from domain.answers.run import LoggedEvent, MeasuredRow, PreviousRun, Retraction, RowReason, TriedRow
from domain.samples import Picture

__all__ = [
    "OneRun",
    "RunPage",
    "event",
    "listed",
    "live",
    "one",
    "outcomes",
    "rows",
    "samples",
]

LIVE = 10
"""Runs under way that are shown; more at once are counted."""


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of runs: of how many, the place of its first one, and what each filter takes."""

    runs: SentRows[Run]
    total: int
    first: int | None
    choices: dict[str, list[str]]


class OneRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: why rows are not valid, what was taken back, its environment, and what that changed since the run before.

    `differs` has the value before and the value now by name; it is None where one of the environments is not known.
    """

    run: Run
    reasons: list[RowReason]
    retractions: list[Retraction] = []
    environment: Environment | None = None
    previous: PreviousRun | None = None
    differs: dict[str, tuple[str | int | float | None, str | int | float | None]] | None


@kept(max_entries=64)
def listed(
    position: int,
    *,
    kind: str | None,
    origin: str | None,
    hardware: str | None,
    outcome: str | None,
    cursor: str | None,
    limit: int,
) -> RunPage:
    """Return one page of runs, newest first, with how many there are and what can be asked for."""
    filters = {"kind": kind, "origin": origin, "hardware": hardware, "outcome": outcome}
    answer = client().page("runs", as_of=position, cursor=cursor, limit=limit, **filters)
    checked(dict(answer), "items", "total", "choices")
    rest = {"total": answer["total"], "first": answer.get("first"), "choices": answer["choices"]}
    return RunPage(runs=sent_rows(answer["items"], Run, answer.get("next_cursor")), **rest)


@kept(max_entries=16)
def live(position: int) -> list[Run]:
    """Return the newest runs that have not ended, heard of or not."""
    rows = client().page("runs", outcome="unfinished", limit=LIVE, as_of=position)["items"]
    return [decoded(row, Run) for row in rows]


@kept(max_entries=64)
def one(run_id: str, position: int) -> OneRun:
    """Return one run, why its rows are not valid, its environment, and what changed since the run before."""
    return decoded(checked(dict(client().run(run_id, as_of=position)), "run", "reasons", "differs"), OneRun)


@kept(max_entries=64)
def rows(
    run_id: str, cursor: str | None, limit: int, position: int, *, doubtful: bool = False
) -> SentRows[MeasuredRow]:
    """Return one page of a run's measurements, or of those that are suspect or invalid, in the order in which they came."""
    columns = ",".join(MeasuredRow.__struct_fields__)
    verdict = ["suspect", "invalid"] if doubtful else None
    answer = client().page(
        "tables/measurements",
        cursor=cursor,
        limit=limit,
        run_id=run_id,
        verdict=verdict,
        columns=columns,
        as_of=position,
    )
    checked(dict(answer), "items")
    return sent_rows(answer["items"], MeasuredRow, answer.get("next_cursor"))


@kept(max_entries=64)
def outcomes(view: str, run_id: str, cursor: str | None, limit: int, position: int) -> SentRows[TriedRow]:
    """Return one page of a run's `failures` or `tests`, in the order in which they came."""
    columns = ",".join(TriedRow.__struct_fields__)
    answer = client().page(f"tables/{view}", cursor=cursor, limit=limit, run_id=run_id, columns=columns, as_of=position)
    checked(dict(answer), "items")
    return sent_rows(answer["items"], TriedRow, answer.get("next_cursor"))


# Events never change, and neither does what is kept of them; only samples expire, which the next start of the page shows.
@kept(max_entries=256)
def event(event_id: str) -> LoggedEvent:
    """Return one event of the log, with the fact that it tells."""
    answer = client().event(event_id)
    data = answer.get("data")
    document = data if isinstance(data, dict) else {}
    envelope = {name: answer.get(name) for name in ("id", "type", "time", "recorded_at", "position")}
    known = {"run_id": document.get("run_id"), "fact": document if "execution" in document else None}
    return decoded({**envelope, **known, "sent": answer}, LoggedEvent)


@kept(max_entries=64)
def samples(event_id: str) -> Picture:
    """Return the samples behind a measurement, thinned for a picture."""
    return decoded(checked(dict(client().samples(event_id)), "percentiles", "histogram"), Picture)
