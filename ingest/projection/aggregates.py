"""What the measurements of each subject come to, kept as they arrive, so that nobody has to look at all rows again."""

from __future__ import annotations

import duckdb

from ingest.projection.statements import FOLD, STANDING

__all__ = ["Standing"]


class Standing:
    """Keeps `void` and `standing` in step with the rows of a batch, within its transaction."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def follow(self, first: int, *, measured: bool, facts: bool, retracted: bool) -> None:
        """Count the batch that begins at position `first`: its measurements, and what its retractions void."""
        connection = self._connection
        voided = 0
        if retracted or (facts and self._any_retraction()):
            connection.execute(FOLD["voids"], {"low": 0 if retracted else first - 1})
            ((voided,),) = connection.execute("SELECT count(*) FROM voided").fetchall()
            if voided:
                connection.execute(FOLD["void"])
        if measured:
            self._count("live_of_batch", "forget")
        if voided and retracted:
            self._count("live_again", "forget_voided")

    def _any_retraction(self) -> bool:
        return bool(self._connection.execute("SELECT 1 FROM retraction LIMIT 1").fetchall())

    def _count(self, live: str, forget: str) -> None:
        connection = self._connection
        connection.execute(
            f"CREATE OR REPLACE TEMPORARY TABLE came AS WITH live AS ({STANDING[live]}) {STANDING['standing']}"
        )
        if live == "live_again":
            connection.execute(STANDING[forget])
            connection.execute("INSERT INTO standing FROM came")
            return
        connection.execute(STANDING["merge"])
        connection.execute(STANDING[forget])
        connection.execute(STANDING["keep"])
