"""The measurements of a model with the lines of its trends, in memory: a newer position adds the rows that came since."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from domain.comparison.comparison_input import alike_of, contents_of
from domain.history.trend_series import FACT, LINE, WHOLE, Parts, Series, line_of
from ingest.projection.memory.best_rows import Snapshot
from ingest.projection.rows import joined

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FIGURES", "Histories", "ModelHistory"]

ROOM_BYTES = 64 * 2**20
"""Bytes of all models in memory. The one that was not asked for the longest goes first."""
FIGURES = (
    "latency_p90_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "throughput_per_s",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "peak_memory_bytes",
    "energy_j",
    "energy_per_item_j",
    "energy_per_token_j",
    "power_w",
    "load_ms",
    "first_run_ms",
)
"""Columns that are kept beside those of `domain.history.trend_series.FACT`."""
_EXPRESSIONS = {
    "event_id": "event_id::VARCHAR AS event_id",
    "time": "epoch_us(time) AS time",
    "recorded_at": "epoch_us(recorded_at) AS recorded_at",
}
"""Times are kept as µs since 1970."""
_FACTS = f"""
SELECT position, {", ".join(_EXPRESSIONS.get(name, name) for name in (*FACT, *FIGURES))}
FROM measurement ANTI JOIN void USING (position)
WHERE position > ? AND subject IN (SELECT id FROM subject WHERE model_id = ?) ORDER BY position
"""
_SUBJECTS = f"SELECT id, {', '.join((*LINE, *WHOLE))} FROM subject WHERE model_id = ?"
_PARTS = {
    "context": "SELECT id, run_id, environment_fingerprint, origin FROM context",
    # The verdict on the row is on times; it stands for energy only where nothing was judged by itself.
    "judgement": """
        SELECT id, verdict, coalesce(
            energy_verdict, CASE WHEN coalesce(metric_verdicts::VARCHAR, '{}') = '{}' THEN verdict END) AS energy_verdict,
            verdict_reasons, metric_verdicts
        FROM judgement""",
}
_ENVIRONMENTS = "SELECT * FROM environment WHERE fingerprint IN (SELECT unnest(?::VARCHAR[]))"
_CHANGED = """
SELECT (SELECT count(*) FROM alias WHERE position > ?) AS aliases,
    (SELECT count(*) FROM measurement
        WHERE position IN (SELECT position FROM voided WHERE since > ? OR until > ?)
        AND subject IN (SELECT id FROM subject WHERE model_id = ?)) AS voided
"""
_MODEL_BYTES = 2_000
_SUBJECT_BYTES = 5_000
_PART_BYTES = 800
"""About what a model, a configuration, and a context or judgement take beside the rows."""
Select = Callable[[str, str, Sequence[Any]], "pa.Table"]
"""Read a statement over relations, as they are or were: `Tables.select`."""


class ModelHistory:
    """The measurements of one model that are not void, in the order of the log, with what they share."""

    def __init__(self, model: str, select: Select) -> None:
        self.model = model
        self.select = select
        """Reads the tables in the state that this tells of."""
        self.facts: pa.Table | None = None
        self.parts = Parts({}, {}, {}, {})
        self.alike: dict[int, str] = {}
        """By subject, the name of its history."""
        self.places: dict[str, list[int]] = {}
        """By history, the numbers of its rows."""
        self.series: dict[Hashable, dict[str, Series]] = {}
        """What was made of the rows, by question and history; whoever asks makes it."""
        self._lines: dict[int, dict[str, Any]] = {}

    @property
    def bytes(self) -> int:
        """About how many bytes it takes."""
        contexts, judgements = self.parts.contexts, self.parts.judgements
        series = sum(each.bytes for made in self.series.values() for each in made.values())
        parts = _SUBJECT_BYTES * len(self.alike) + _PART_BYTES * (len(contexts) + len(judgements))
        return _MODEL_BYTES + (self.facts.nbytes if self.facts is not None else 0) + parts + series

    @property
    def count(self) -> int:
        """How many rows there are."""
        return 0 if self.facts is None else self.facts.num_rows

    def columns(self, names: Iterable[str], start: int = 0) -> list[list[Any]]:
        """Return the values of columns from the row `start` on."""
        if self.facts is None:
            return [[] for _ in names]
        rows = self.facts.slice(start)
        return [rows.column(name).to_pylist() for name in names]

    def has(self, name: str) -> bool:
        """Whether some row has a value in a column."""
        return self.facts is not None and self.facts.column(name).null_count < self.facts.num_rows

    def line(self, subject: int) -> dict[str, Any]:
        """Return the line of a subject, without points."""
        if subject not in self._lines:
            self._lines[subject] = line_of(self.parts.subjects[subject], self.alike[subject])
        return self._lines[subject]

    def read(self, above: int = 0) -> ModelHistory:
        """Add the rows above a position, and return itself."""
        rows = self.select("measurement void subject", _FACTS, [above, self.model])
        first = self.count
        if rows.num_rows:
            self.facts = rows if self.facts is None else _few_chunks(joined([self.facts, rows]))
        subjects = rows.column("subject").to_pylist()
        if not self.parts.subjects.keys() >= set(subjects):
            every = self.select("subject", _SUBJECTS, [self.model]).to_pylist()
            self.parts.subjects.update({row["id"]: row for row in every})
        for place, subject in enumerate(subjects, first):
            name = self.alike.get(subject) or self.alike.setdefault(subject, alike_of(self.parts.subjects[subject]))
            self.places.setdefault(name, []).append(place)
        return self

    def read_parts(self, contexts: Iterable[int], judgements: Iterable[int]) -> None:
        """Read the parts that rows name, and the environments of these contexts, where they are not there yet.

        What was said of an environment first holds, so that none is read twice.
        """
        parts = self.parts
        self._read_parts(parts.contexts, "context", contexts)
        self._read_parts(parts.judgements, "judgement", judgements)
        fingerprints = {fingerprint for _, fingerprint, _ in parts.contexts.values()} - {None}
        missing = sorted(fingerprints - parts.environments.keys())
        if missing:
            rows = self.select("environment", _ENVIRONMENTS, [missing]).to_pylist()
            parts.environments.update({row["fingerprint"]: contents_of(row) for row in rows})

    def _read_parts(self, kept: dict[int, tuple[Any, ...]], relation: str, wanted: Iterable[int]) -> None:
        missing = sorted(set(wanted) - kept.keys())
        if missing:
            rows = self.select("", f"{_PARTS[relation]} WHERE id IN (SELECT unnest(?::BIGINT[]))", [missing])
            ids, *columns = (rows.column(name).to_pylist() for name in rows.column_names)
            kept |= zip(ids, zip(*columns, strict=True), strict=True)


class Histories:
    """Histories of models at the newest state that was asked for, for any number of threads.

    At a newer position the rows that came since are added. An alias, or the retraction of a measurement of the model or
    its undoing, has the model read again, as another file or another log does.
    """

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self._room_bytes = room_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    @property
    def bytes(self) -> int:
        """About how many bytes all take."""
        return sum(kept.bytes for kept in self._kept.values())

    @contextmanager
    def of_model(self, snapshot: Snapshot, model: str, select: Select) -> Iterator[ModelHistory]:
        """Give the history of a model in this state, to one thread at a time; of an older state it is read and not kept.

        `select` reads the tables in this state.
        """
        with self._lock:
            kept = self._kept.setdefault(model, _Kept())
            self._kept.move_to_end(model)
        with kept.lock:
            history = kept.at(snapshot, model, select)
            if history is not None:
                try:
                    yield history
                except BaseException:
                    # What was made of it may be half made, and a model that nobody knows takes no room.
                    kept.forget()
                    with self._lock:
                        self._kept = OrderedDict(item for item in self._kept.items() if item[1] is not kept)
                    raise
                finally:
                    history.select = _outside
                kept.bytes = history.bytes
                self._make_room()
                return
        yield ModelHistory(model, select).read()

    def _make_room(self) -> None:
        with self._lock:
            while self.bytes > self._room_bytes:
                self._kept.popitem(last=False)


class _Kept:
    """The history of a model in the newest state in which it was asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bytes = 0
        self._snapshot: Snapshot | None = None
        self._history: ModelHistory | None = None

    def at(self, snapshot: Snapshot, model: str, select: Select) -> ModelHistory | None:
        """Return the history in a state; None where a newer one was asked for already."""
        before, history = self._snapshot, self._history
        self.forget()  # What fails halfway is read anew.
        if history is None or before is None or before[:2] != snapshot[:2]:
            history = ModelHistory(model, select).read()
        elif snapshot.position < before.position:
            self._snapshot, self._history = before, history
            return None
        elif snapshot.position > before.position:
            history = _followed(history, before.position, select)
        history.select = select
        self._snapshot, self._history = snapshot, history
        return history

    def forget(self) -> None:
        """Have the history read anew by whoever asks next."""
        self._snapshot = self._history = None


def _outside(*_: Any) -> pa.Table:
    """Refuse to read: the cursor of whoever asked is closed."""
    raise RuntimeError("a history is read by whoever it was given to alone")


def _followed(history: ModelHistory, since: int, select: Select) -> ModelHistory:
    (changed,) = select("", _CHANGED, [since, since, since, history.model]).to_pylist()
    if changed["aliases"] or changed["voided"]:
        return ModelHistory(history.model, select).read()
    history.select = select
    return history.read(since)


def _few_chunks(rows: pa.Table) -> pa.Table:
    """Return the rows in one chunk where there are many: each addition is one more."""
    return rows.combine_chunks() if rows.column(0).num_chunks > 64 else rows
