"""What happened where the log has not the events that the tables tell of: a failover, a restored backup, another log."""

from __future__ import annotations

import duckdb
import msgspec

from ingest.projection.history import History
from ingest.projection.source import LogSource

__all__ = ["Divergence", "divergence"]

_LINKS = "SELECT position, chain FROM link ORDER BY position"
_EVENTS = """
SELECT position, epoch_us(recorded_at) FROM (
    SELECT position, recorded_at FROM measurement UNION ALL SELECT position, recorded_at FROM test
    UNION ALL SELECT position, recorded_at FROM moment UNION ALL SELECT position, recorded_at FROM dead_letter
) WHERE position >= $first AND position < $end ORDER BY position
"""
_LOST = "SELECT count(*) FROM (FROM measurement SELECT position UNION ALL FROM test SELECT position UNION ALL FROM moment SELECT position UNION ALL FROM dead_letter SELECT position) WHERE position > $last"


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The tables held events up to `position`; the log has the same ones up to `last_common` and lost `lost` of them.

    `epoch` is the one that the log is in since.
    """

    log: str
    epoch: int
    position: int
    last_common: int
    lost: int
    said: str


def divergence(cursor: duckdb.DuckDBPyConnection, source: LogSource, position: int, history: History) -> Divergence:
    """Find where the log and the tables were still the same, and begin a new epoch of the log unless another node has."""
    now = source.identify()
    if history.log is not None and now.log != history.log:
        common, what = 0, "the database holds another log"
    else:
        common = _last_common(cursor, source, position)
        what = "the log was replaced by an older state of itself (a failover that lost its tail, or a restored backup)"
    ((lost,),) = cursor.execute(_LOST, {"last": common}).fetchall()
    epoch = source.next_epoch(history.epoch) if history == now and history.epoch is not None else now.epoch or 0
    said = (
        f"{what}: the {lost:,} events that the tables had after position {common} are not in it. "
        f"The tables are made anew from the log, in epoch {epoch}"
    )
    return Divergence(log=now.log or "", epoch=epoch, position=position, last_common=common, lost=lost, said=said)


def _last_common(cursor: duckdb.DuckDBPyConnection, source: LogSource, position: int) -> int:
    """Return the last position up to which log and tables have the same events.

    The links tell between which two of them; in between, the times of recording.
    """
    links = cursor.execute(_LINKS).fetchall()
    low, high = 0, len(links)
    while low < high:
        middle = (low + high) // 2
        at, chain = links[middle]
        result = source.chain_at(at)
        low, high = (middle + 1, high) if result is not None and result.hex() == chain else (low, middle)
    first = links[low - 1][0] if low else 0
    end = links[low][0] if low < len(links) else position + 1
    there = dict(source.recorded_at(first, end))
    common = first
    for at, recorded_at_us in cursor.execute(_EVENTS, {"first": first, "end": end}).fetchall():
        if there.get(at) != recorded_at_us:
            break
        common = at
    return common
