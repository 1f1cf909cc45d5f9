"""Batches into rows: the state that a projection is after them, whatever the batches were."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterable, Iterator, Mapping

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from domain.events import DATA_TYPES, DELIVERY_OBSERVED, ENDPOINT_CHANGED, QUALITY_MEASURED, VARIANT_CREATED
from domain.upcasting import UPCASTERS, Upcasters, upcast
from ingest.projection.dimensions import Poison
from ingest.projection.facts import MEASURED, TESTED, Facts, Input, Projected
from ingest.projection.history import History
from ingest.projection.names import Names, names_of
from ingest.projection.small_batches import FEW, StandingMemory, grown, read_few, standing_table
from ingest.projection.statements import FOLD, INSERTS, STANDING, TABLES, VIEWS

__all__ = ["BATCH_SCHEMA", "CHECKPOINT_AT", "DATA_ERRORS", "Aggregates", "Folder", "Undone", "create"]


class Aggregates:
    """Keeps `voided` and `standing` in step with the rows of a batch, within its transaction."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._measured = Input(connection, "measured")
        self._counted: set[int] = set()
        self._standings = StandingMemory()
        self._retracting: bool | None = None
        self.postponed = False
        """Whether `standing` is without rows until `count_all`."""

    def count_all(self) -> None:
        """Count all measurements at once where that was postponed, and from here on those of each batch."""
        if self.postponed:
            self._connection.execute(f"{_MERGED} WITH live AS ({STANDING['live']}) {STANDING['standing']}")
            self._connection.execute(STANDING["keep"])
            self.postponed = False

    def follow(
        self, first: int, projected: Projected | None = None, *, few: bool = False, facts: bool, retracted: bool
    ) -> None:
        """Count the batch that begins at position `first`: its measurements, and what its retractions void or restore.

        The rows of `few` measurements, which nothing retracts, are added to those of their subjects in Python.
        """
        connection = self._connection
        changed = False
        measured = projected.measured if projected is not None else None
        if few and projected is not None and measured is not None and not self._retracts(projected.seen):
            if not self.postponed:
                self._count_few(first, measured, projected.seen)
            return
        if retracted:
            self._retracting = True
        if retracted or (facts and self._has_retractions()):
            connection.execute(FOLD["voids"], {"low": 0 if retracted else first - 1})
            if self._any("changed"):
                changed = True
                connection.execute(FOLD["void"])
            if changed or retracted:
                connection.execute(FOLD["undone"])
                if self._any("undone"):
                    changed = True
                    connection.execute(FOLD["restore"])
        if self.postponed:
            return
        if measured is not None:
            self._measured.table = measured
            self._count("live_of_batch", "INSERT INTO came" if self._counted else _CAME)
            self._counted.update(measured.column("subject").unique().to_pylist())
        if changed and retracted:
            self.settle()
            self._count("live_again", _CAME)
            self._standings.forget()
            connection.execute(STANDING["forget_changed"])
            connection.execute(STANDING["keep_again"])

    def settle(self) -> None:
        """Add what was counted since the last time to `standing`: once a transaction, however many batches it has."""
        if self._counted:
            for step in ("merge", "forget", "keep"):
                self._connection.execute(STANDING[step])
            self._standings.forget(self._counted)
            self._counted = set()

    def keep(self) -> None:
        """Keep in memory the rows that were written in the transaction: they are in the file now."""
        self._standings.settle()

    def undo(self) -> None:
        """Forget what was counted since the last `settle`, and the rows that were written in the transaction."""
        self._counted = set()
        self._standings.undo()

    def _any(self, table: str) -> bool:
        return bool(self._connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall())

    def _has_retractions(self) -> bool:
        """Whether the table has had rows: asked once, because nothing but what this follows writes them."""
        if self._retracting is None:
            self._retracting = self._any("retraction")
        return self._retracting

    def _retracts(self, seen: pa.Table) -> bool:
        """Whether a retraction names one of the facts or their runs; asking is cheaper than planning what follows of it."""
        if not self._has_retractions():
            return False
        runs = [msgspec.json.decode(text) for text in seen.column("run_sent").unique().to_pylist()]
        events = seen.column("event_id").to_pylist()
        return bool(self._connection.execute(FOLD["naming"], {"runs": runs, "events": events}).fetchall())

    def _count_few(self, first: int, measured: pa.Table, seen: pa.Table) -> None:
        connection, memory = self._connection, self._standings
        subjects = measured.column("subject").unique().to_pylist()
        # A subject is named by its first position: one of this batch has no row yet.
        unread = [subject for subject in subjects if subject < first and memory.row(subject) is None]
        if unread:
            memory.read(connection.execute(f"{STANDING['before']} WHERE {_among(unread)}").fetchall())
        before = {subject: row for subject in subjects if (row := memory.row(subject)) is not None}
        after = grown(measured, seen, before)
        if before:
            connection.execute(f"DELETE FROM standing WHERE {_among(before)}")
        self._measured.table = standing_table(after)
        connection.execute("INSERT INTO standing FROM measured")
        memory.write(after)

    def _count(self, live: str, into: str) -> None:
        self._connection.execute(f"{into} WITH live AS ({STANDING[live]}) {STANDING['standing']}")


_CAME = "CREATE OR REPLACE TEMPORARY TABLE came AS"
_MERGED = "CREATE OR REPLACE TEMPORARY TABLE merged AS"


def _among(subjects: Iterable[int]) -> str:
    return f"subject IN ({', '.join(map(str, subjects))})"


BATCH_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("event_id", pa.string()),
        ("type", pa.string()),
        ("source", pa.string()),
        ("attestation", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("recorded_at", pa.timestamp("us", tz="UTC")),
        ("body", pa.string()),
        ("chain", pa.binary()),
    ]
)
_LOG = logging.getLogger(__name__)
DATA_ERRORS = (
    duckdb.DataError,
    duckdb.IntegrityError,
    duckdb.InvalidInputException,
    duckdb.OutOfRangeException,
)
"""What an event can cause. Anything else (no memory, no disk, a bug of ours) is not the event's fault."""

_FACTS = TESTED | {MEASURED}
_RETRACTED = "assay.measurement.retracted.v1"
_WITH_ENVIRONMENT = {"assay.run.started.v1", "assay.hardware.described.v1"}
_KERNELS = "assay.kernel.measured.v1"
_VARIANTS = (VARIANT_CREATED, QUALITY_MEASURED, ENDPOINT_CHANGED, DELIVERY_OBSERVED)
_OF_VARIANTS = ("variant", "quality_comparison", "endpoint_change", "delivery")
_NAMING = (
    "assay.model.described.v1",
    "assay.model.traced.v1",
    "assay.hardware.described.v1",
    "assay.price.published.v1",
    _KERNELS,
    *_VARIANTS,
)
_RENAMED = {
    "model": (
        *((table, "model") for table in ("model_part", "subject", "model", "model_trace", *_OF_VARIANTS)),
        *((table, "base") for table in ("variant", "quality_comparison")),
    ),
    "hardware": tuple(
        (table, "hardware")
        for table in ("hardware_part", "subject", "hardware_description", "price", "kernel_table", *_OF_VARIANTS[1:])
    ),
}
"""Tables that hold an id of each kind, each with the noun of its column."""

CHECKPOINT_AT = "256MB"
"""Each checkpoint writes the last row group of every table again: seldom is cheaper, and replaying so much takes a second."""
_KEY = "configuration_key(execution::VARCHAR, hardware_id, hardware_count, model_id, workload::VARCHAR)"
_CHECKPOINT = "SELECT position, chain, log, epoch FROM projection"
_COUNTED = "UPDATE event_type_count SET events = events + ?, last_position = ? WHERE type = ?"
_MOVED = "UPDATE projection SET position = ?, event_id = ?, chain = ?, log = ?, epoch = ?"
_LINKED = 1024
"""Positions for each of which the table `link` has one event."""
_PIECE_BYTES = 2 * 2**20
"""A byte of kernel timings becomes ten to thirty bytes of rows, which the tables' writer has in memory at once."""
_NAME_SCHEMA = pa.schema([("posted", pa.string()), ("canonical", pa.string())])
_LETTER_SCHEMA = pa.schema([("position", pa.int64()), ("reason", pa.string())])


def create(connection: duckdb.DuckDBPyConnection, definitions: str = "") -> None:
    """Make the tables and views of an empty projection; `definitions` names what they were made by."""
    connection.begin()
    connection.execute(TABLES)
    for name, query in VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {query}")
    connection.execute("INSERT INTO projection (position, definitions) VALUES (0, ?)", [definitions])
    connection.commit()


class Undone(Exception):
    """A held batch failed: nothing since the last commit is there."""


class Folder:
    """Applies batches of events, each in one transaction with the checkpoint, over one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, upcasters: Upcasters = UPCASTERS) -> None:
        self._connection = connection
        self._upcasters = upcasters
        self._names = self._kept_names = self._declared()
        self._open = False
        self.failed = 0
        self._arrived, self._batch, self._letter, self._renamed = (
            Input(connection, name) for name in ("arrived", "batch", "letter", "renamed")
        )
        self._posted = {kind: Input(connection, f"{kind}_name") for kind in ("model", "hardware")}
        self._facts = Facts(connection)
        self._standing = Aggregates(connection)
        ((position, chain, log, epoch),) = connection.execute(_CHECKPOINT).fetchall()
        self.position: int = position
        self.reached = self.position
        self.chain: bytes | None = None if chain is None else bytes.fromhex(chain)
        self._reached_chain = self.chain
        self.history = History(log, epoch)
        table = pa.table(
            {"type": pa.array(sorted({*DATA_TYPES, *upcasters, *_FACTS, *itertools.chain(*INSERTS.values())}))}
        )
        connection.register("known_type", table)

    def belong_to(self, history: History) -> None:
        """Say which log and epoch the tables tell of from here on."""
        if history != self.history:
            self.history = history
            if not self._open:
                self._connection.execute("UPDATE projection SET log = ?, epoch = ?", list(history))

    def close(self) -> None:
        """Close the connection that it writes over."""
        self._connection.close()

    def apply(self, batch: pa.Table, *, hold: bool = False) -> None:
        """Apply events in the order of the log; those at or below `reached` must not be among them.

        With `hold` the transaction is left open for the next batch, until `commit`: rows then go to the file once, not
        through the write-ahead log. Where a held batch fails for any reason, everything since the last commit is undone
        and Undone raised: begin again after `position`, without `hold`.

        An event that cannot be projected is recorded as a dead letter in the transaction that moves the checkpoint over
        it; where it does not say which it is, it is found by halving. An error that no event causes is raised, and
        nothing of the batch is kept.
        """
        letters: dict[int, str] = {}
        while batch.num_rows:
            try:
                self._transact(batch, letters)
                if not hold:
                    self.commit()
                return
            except Undone:
                raise
            except Poison as poison:
                letters |= poison.letters
            except DATA_ERRORS as error:
                if len(letters) == batch.num_rows:
                    raise
                result = self._malformed(batch, letters)
                if result:
                    letters |= dict.fromkeys(result, "the body is not JSON")
                elif batch.num_rows > 1:
                    middle = batch.num_rows // 2
                    self.apply(batch.slice(0, middle))
                    batch, letters = batch.slice(middle), {}
                else:
                    letters = {batch.column("position")[0].as_py(): str(error).split("\n", 1)[0][:500]}

    def postpone_standings(self) -> None:
        """Count no measurements until `count_standings`, which takes a tenth of the time: for empty tables that nobody reads."""
        self._standing.postponed = True

    def count_standings(self) -> None:
        """Commit, and count the measurements, where that was postponed."""
        self.commit()
        self._standing.count_all()

    def checkpoint(self) -> bool:
        """Commit, and bring the file up to date; False where readers of older states do not let it for half a second."""
        self.commit()
        until = time.monotonic() + 0.5
        while True:
            try:
                self._connection.execute("CHECKPOINT")
                return True
            except duckdb.TransactionException:
                if time.monotonic() > until:
                    return False
                time.sleep(0.02)

    def checkpoint_by_hand(self, alone: bool) -> None:
        """Leave the file as it is until checkpoints are on again: what is committed stays in the write-ahead log."""
        self._connection.execute(f"SET GLOBAL wal_autocheckpoint = '{'1TB' if alone else CHECKPOINT_AT}'")

    def commit(self) -> None:
        """Make what was applied last; the checkpoint moves with it."""
        if self._open:
            self._open = False
            try:
                self._standing.settle()
                self._connection.commit()
            except BaseException:
                self._undo()
                raise
            self._facts.settle()
            self._standing.keep()
            self.position, self._kept_names, self.chain = self.reached, self._names, self._reached_chain

    def _undo(self) -> None:
        self._open = False
        try:
            self._connection.rollback()
        except duckdb.Error as error:  # Not instead of the error that made it necessary.
            _LOG.info("nothing to undo: %s", str(error).splitlines()[0][:200])
        self._facts.undo()
        self._standing.undo()
        self.reached, self._names, self._reached_chain = self.position, self._kept_names, self.chain

    def _transact(self, batch: pa.Table, letters: Mapping[int, str]) -> None:
        connection, held = self._connection, self._open
        try:
            sound = self._sound(batch, letters)
        except Poison as poison:
            if held:
                self._undo()
                self.failed = batch.column("position")[-1].as_py()
                raise Undone(str(poison)) from poison
            raise
        types = frozenset(sound.column("type").unique().to_pylist())
        few = read_few(sound) if sound.num_rows <= FEW and types == {MEASURED} and not letters else None
        if few is None:
            self._show(batch, sound, letters)
        last = batch.slice(batch.num_rows - 1).select(["position", "event_id", "chain"]).to_pylist()[0]
        if not held:
            connection.begin()
            self._open = True
        try:
            if few is None or not self._counted(few):
                self._arrived.table = batch
                connection.execute(FOLD["counts"])
            if last["position"] // _LINKED > self.reached // _LINKED:
                self._arrived.table = batch
                connection.execute(FOLD["links"], {"before": self.reached})
            if letters:
                connection.execute(FOLD["dead_letters"])
            if types - _FACTS:
                connection.execute(FOLD["moments"])
            self._fold(types, sound, batch.column("position")[0].as_py(), few)
            connection.execute(_MOVED, [last["position"], last["event_id"], last["chain"].hex(), *self.history])
        except BaseException as error:
            self._undo()
            if held and isinstance(error, (Poison, *DATA_ERRORS)):
                self.failed = last["position"]
                raise Undone(str(error)) from error
            raise
        self.reached, self._reached_chain = last["position"], last["chain"]

    def _show(self, batch: pa.Table, sound: pa.Table, letters: Mapping[int, str]) -> None:
        """Let the statements see the batch as it came and without its dead letters, and these."""
        rows = [{"position": position, "reason": reason[:500]} for position, reason in letters.items()]
        self._letter.table = pa.Table.from_pylist(rows, schema=_LETTER_SCHEMA)
        self._arrived.table = batch
        self._batch.table = sound

    def _counted(self, few: pa.Table) -> bool:
        """Count the measurements, unless they are the first: a statement that may insert is planned for longer."""
        values = [few.num_rows, few.column("position")[-1].as_py(), MEASURED]
        ((rows,),) = self._connection.execute(_COUNTED, values).fetchall()
        return bool(rows)

    def _sound(self, batch: pa.Table, letters: Mapping[int, str]) -> pa.Table:
        """Return the batch without the dead letters, in the newest versions."""
        if letters:
            batch = batch.filter(
                pa.array([position not in letters for position in batch.column("position").to_pylist()])
            )
        if not self._upcasters.keys() & set(batch.column("type").unique().to_pylist()):
            return batch
        types, bodies = batch.column("type").to_pylist(), batch.column("body").to_pylist()
        wrong: dict[int, str] = {}
        for index, type_ in enumerate(types):
            if type_ in self._upcasters:
                try:
                    event = msgspec.json.decode(bodies[index])
                    types[index], data = upcast(type_, event["data"], self._upcasters)
                    bodies[index] = msgspec.json.encode({**event, "type": types[index], "data": data}).decode()
                except Exception as error:  # An upcaster is pure: what it raises, the event caused.
                    wrong[batch.column("position")[index].as_py()] = f"{type_}: {type(error).__name__}: {error}"
        if wrong:
            raise Poison(wrong)
        batch = batch.set_column(batch.schema.get_field_index("type"), "type", pa.array(types, pa.string()))
        return batch.set_column(batch.schema.get_field_index("body"), "body", pa.array(bodies, pa.string()))

    def _malformed(self, batch: pa.Table, letters: Mapping[int, str]) -> list[int]:
        self._arrived.table = batch
        rows = self._connection.execute(FOLD["malformed"]).fetchall()
        return [position for (position,) in rows if position not in letters]

    def _fold(self, types: frozenset[str], sound: pa.Table, first: int, few: pa.Table | None) -> None:
        connection = self._connection
        if "assay.alias.declared.v1" in types:
            connection.execute(FOLD["aliases"])
            self._names = self._declared()
            self.rename()
        projected = self._facts.project(sound.num_rows, types, self._names, few) if types & _FACTS else None
        if types & _WITH_ENVIRONMENT or (projected is not None and projected.new_environments):
            if few is not None:
                self._batch.table = sound
            connection.execute(FOLD["environments"])
        if types.intersection(_NAMING):
            posted = connection.execute(FOLD["posted"]).fetchall()
            for kind, columns in (("model", slice(2)), ("hardware", slice(2, 3))):
                named = sorted({name for row in posted for name in row[columns] if name is not None})
                self._posted[kind].table = _name_table(self._names[kind], named)
        for name, needed in INSERTS.items():
            if types & needed:
                connection.execute(FOLD[name])
        if _KERNELS in types:
            for low, high in _pieces(sound, _KERNELS):
                connection.execute(FOLD["kernels"], {"low": low, "high": high})
        if _RETRACTED in types:
            connection.execute(FOLD["retractions"])
        self._standing.follow(
            first,
            projected,
            few=few is not None,
            facts=bool(types & {*_FACTS, _KERNELS, *_VARIANTS}),
            retracted=_RETRACTED in types,
        )

    def _declared(self) -> dict[str, Names]:
        return names_of(
            self._connection.execute("SELECT kind, alias, canonical FROM alias ORDER BY position").fetchall()
        )

    def rename(self) -> None:
        """Give the rows that are there the canonical ids that the declared aliases now say, as a rebuild would."""
        connection = self._connection
        for kind, tables in _RENAMED.items():
            for table, noun in tables:
                rows = connection.execute(
                    f"SELECT DISTINCT {noun}_id_posted FROM {table} WHERE {noun}_id_posted IS NOT NULL"
                ).fetchall()
                self._renamed.table = _name_table(self._names[kind], [name for (name,) in rows])
                ((changes,),) = connection.execute(
                    f"SELECT count(*) FROM {table} JOIN renamed ON {noun}_id_posted = posted AND {noun}_id <> canonical"
                ).fetchall()
                if changes:
                    connection.execute(
                        f"UPDATE {table} SET {noun}_id = renamed.canonical FROM renamed "
                        f"WHERE {noun}_id_posted = renamed.posted AND {noun}_id <> renamed.canonical"
                    )
                if changes and table == "subject":
                    connection.execute(f"UPDATE subject SET configuration = {_KEY} WHERE configuration <> {_KEY}")


def _pieces(batch: pa.Table, type_: str) -> Iterator[tuple[int, int]]:
    """Yield ranges of positions whose events of a type have about _PIECE_BYTES: their rows are in memory at once."""
    chosen = batch.filter(pc.equal(batch.column("type"), type_))
    sizes = pc.binary_length(chosen.column("body")).to_pylist()
    positions = chosen.column("position").to_pylist()
    low, length = positions[0], 0
    for position, size in zip(positions, sizes, strict=True):
        if length and length + size > _PIECE_BYTES:
            yield low, position - 1
            low, length = position, 0
        length += size
    yield low, positions[-1]


def _name_table(names: Names, posted: list[str]) -> pa.Table:
    rows = [{"posted": name, "canonical": names.resolve(name)} for name in posted]
    return pa.Table.from_pylist(rows, schema=_NAME_SCHEMA)
