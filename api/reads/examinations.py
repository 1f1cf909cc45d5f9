"""Reports of histories, each examined once for the points that it has."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

from domain.history.examination import examine
from domain.history.history import History, HistoryReport

__all__ = ["Examinations"]

KEPT = 20_000
"""Reports; beyond that the oldest go."""
YIELD_S = 0.0005
"""After each history other threads may go on: an answer must not wait for thousands of histories."""
Digest = tuple[int, tuple[str, ...]]


class Examinations:
    """Examines histories and keeps the reports by the points that they are of; safe from any thread."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, str], tuple[Digest, HistoryReport]] = {}
        self._lock = threading.Lock()

    def reports(self, histories: Iterable[History]) -> Iterator[tuple[History, HistoryReport]]:
        """Yield each history with its report."""
        for history in histories:
            yield history, self._report(history)

    def _report(self, history: History) -> HistoryReport:
        key = (history.alike, history.metric)
        points = tuple((point.event_id, point.value, *point.doubts) for point in history.points)
        digest = (hash(points), tuple(history.restarts))
        kept = self._reports.get(key)
        if kept is not None and kept[0] == digest:
            return kept[1]
        report = examine(history)
        time.sleep(YIELD_S)
        with self._lock:
            self._reports.pop(key, None)
            self._reports[key] = (digest, report)
            while len(self._reports) > KEPT:
                del self._reports[next(iter(self._reports))]
        return report
