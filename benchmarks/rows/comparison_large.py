""" "Compare hardware for one model" at ten million measurements, against the same SQL over JSONB in Postgres."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import psycopg

from assay.client import Client
from benchmarks.bench import Bench
from benchmarks.documents import MEASUREMENT, model_name, models_for
from benchmarks.lines import Limit, Line, plain, quantile, times
from benchmarks.rows.comparison import ask, projected
from benchmarks.rows.rebuild import rebuilt
from benchmarks.serving import service
from ingest.log.postgres import Database

__all__ = ["comparison_large"]

_TABLE = """
CREATE UNLOGGED TABLE document AS SELECT position, id::text AS id, type, recorded_at, body::jsonb AS body FROM event
WHERE position % {share} = 0
"""
_KEYS = (
    "ALTER TABLE document ADD PRIMARY KEY (position)",
    "CREATE INDEX ON document (type, position)",
    "ANALYZE document",
)
_INDEXES = (
    "CREATE INDEX ON document ((body #>> '{data,model,id}'))",
    "CREATE INDEX ON document ((body #>> '{data,run_id}'))",
    "ANALYZE document",
)
_QUESTION = f"""
SELECT position, id, recorded_at, d FROM (
    SELECT position, id, recorded_at, d, row_number() OVER (
        PARTITION BY d -> 'execution', d -> 'workload', d -> 'hardware'
        ORDER BY (d #>> '{{provenance,origin}}' = 'measured') DESC,
            (coalesce(d #>> '{{validity,verdict}}', 'suspect') = 'valid') DESC, position DESC
    ) AS place
    FROM (
        SELECT position, id, recorded_at, body -> 'data' AS d FROM document
        WHERE type = '{MEASUREMENT}' AND body #>> '{{data,model,id}}' = %(model)s
            AND body #>> '{{data,provenance,origin}}' <> 'simulated'
            AND coalesce(body #>> '{{data,validity,verdict}}', 'suspect') <> 'invalid'
            AND id NOT IN (
                SELECT body #>> '{{data,event_id}}' FROM document
                WHERE type = 'assay.measurement.retracted.v1' AND body #>> '{{data,event_id}}' IS NOT NULL)
            AND body #>> '{{data,run_id}}' NOT IN (
                SELECT body #>> '{{data,run_id}}' FROM document
                WHERE type = 'assay.measurement.retracted.v1' AND body #>> '{{data,run_id}}' IS NOT NULL)
    ) AS measured
) AS ranked WHERE place = 1 ORDER BY d #>> '{{metrics,latency_ms,p50}}'
"""
ASKED, WARMING = 200, 10
SHARE = 4
"""The peer has every fourth document: ten million of them take a quarter of an hour to make, and its time without an index grows with them."""


def comparison_large(bench: Bench) -> Iterator[Line]:
    """Ours over HTTP with the answer parsed, each model asked for once; the peer's rows through psycopg, without and with expression indexes."""
    database, count = bench.large, bench.plan.events
    home = bench.folder()
    bench.say("projecting the large log")
    rebuilt(database, home)
    chance = random.Random(1)
    numbers = list(range(models_for(count)))
    chance.shuffle(numbers)
    asked = min(ASKED, (len(numbers) - WARMING) // 2)
    each_once = map(model_name, numbers)

    def model() -> str:
        return model_name(chance.choice(numbers))

    with service(home, database) as running, Client(running.url) as client:
        projected(client)
        for _ in range(WARMING):
            ask(client, next(each_once))
        ours, rows = zip(*(ask(client, next(each_once)) for _ in range(asked)), strict=True)
        mine = [taken * 1e3 for taken in ours]
        bench.say("copying a part of the log into a table of JSONB")
        _run(database, _TABLE.format(share=SHARE), *_KEYS)
        try:
            slow = [_peer(database, model()) for _ in range(bench.plan.repeats)]
            _run(database, *_INDEXES)
            for _ in range(WARMING):
                _peer(database, model())
            quick = [_peer(database, model()) for _ in range(asked)]
            again = [ask(client, next(each_once))[0] * 1e3 for _ in range(asked)]
        finally:
            _run(database, "DROP TABLE document")
    what = f"compare hardware for one model over HTTP, {count:,} measurements"
    peer = f"the same SQL over JSONB in Postgres, of {count // SHARE:,} of them"
    yield times(what, "ms", mine, slow, peer, Limit(bar=50, reach=100), rows=max(rows))
    yield times(what, "ms", again, quick, f"{peer}, with an index on the model")
    yield plain(f"{what}: p95", "ms", mine, Limit(bar=60, reach=30, most=True), value=quantile(mine, 0.95))


def _run(database: Database, *statements: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("SET maintenance_work_mem = '1GB'")
        for statement in statements:
            connection.execute(statement)


def _peer(database: Database, model: str) -> float:
    """Return the milliseconds that the peer takes, over a connection that is open."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("SET work_mem = '256MB'")
        begin = time.perf_counter()
        if not connection.execute(_QUESTION, {"model": model}).fetchall():
            raise RuntimeError("the peer found nothing")
        return (time.perf_counter() - begin) * 1e3
