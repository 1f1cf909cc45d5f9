"""How much room and time a log takes at a size, measured, and what a thousand million events would, extrapolated.

    python -m benchmarks.capacity [--events 100000,1000000] [--folder DIR] [--out docs/images/capacity.json]

For each size a log of measurements of 1.5 KB is made in a Postgres of its own: bytes of the table with its indexes; appends
of batches of 1,000 to that log; the tables made anew in a process of their own (time, processor time and peak memory) and
their file; 60 recommendations over HTTP, each of another model; then the archive, written and trimmed. 10^9 is where the line
through log(value) over log(events) leads, by least squares over the sizes that were measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import psycopg

from benchmarks.answer_speed import timed
from benchmarks.bench import Bench, Plan
from benchmarks.documents import measurements, model_name, models_for
from benchmarks.loading import grow
from benchmarks.serving import ROOT, service
from domain.events import decode_event
from ingest.archive.archive import Archive
from ingest.log.event_log import EventLog
from ingest.log.postgres import Database
from ingest.projection.projector import Projection

APPENDED = 10_000
"""Events that are appended to a log of each size."""
QUESTIONS = 60
FAR = 1_000_000_000


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """What a log of one size takes. Times are of the clock; `rebuild_processor_s` is of all threads of the rebuild."""

    events: int
    postgres_bytes: float
    postgres_index_bytes: float
    append_per_s: float
    rebuild_s: float
    rebuild_processor_s: float
    rebuild_peak_bytes: float
    tables_bytes: float
    question_p50_ms: float
    question_p95_ms: float
    question_processor_ms: float
    archive_bytes: float
    trimmed_postgres_bytes: float


def measured(bench: Bench, events: int) -> Size:
    """Measure a log of this many events."""
    with bench.database() as database:
        bench.say(f"making a log of {events:,} events")
        grow(database.url, events - APPENDED, models=models_for(events), seed=bench.seed())
        append_s = asyncio.run(_append(database, bench.seed(), models_for(events)))
        whole, indexes = _bytes(database)
        home = bench.folder()
        bench.say("making the tables")
        rebuilt = _rebuilt(database, home)
        tables = sum(path.stat().st_size for path in home.rglob("*.duckdb"))
        bench.say("asking")
        took, processor_ms = _asked(database, home, events)
        bench.say("archiving")
        archive = Archive(bench.folder(), database.url)
        archived = sum(segment.size_bytes for segment in archive.write())
        archive.trim()
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute("VACUUM FULL event")
        return Size(
            events=events,
            postgres_bytes=whole,
            postgres_index_bytes=indexes,
            append_per_s=APPENDED / append_s,
            tables_bytes=tables,
            question_p50_ms=statistics.median(took),
            question_p95_ms=float(np.percentile(took, 95)),
            question_processor_ms=processor_ms,
            archive_bytes=archived,
            trimmed_postgres_bytes=_bytes(database)[0],
            **rebuilt,
        )


async def _append(database: Database, seed: int, models: int) -> float:
    """Return the seconds that the appends take, one batch after the other, as the service makes them."""
    decoded = [decode_event(document.body) for document in measurements(APPENDED, seed=seed, models=models)]
    async with EventLog(database.url) as log:
        begun = time.monotonic()
        for start in range(0, APPENDED, 1000):
            await log.append(decoded[start : start + 1000])
        return time.monotonic() - begun


def _bytes(database: Database) -> tuple[int, int]:
    """Return the bytes of the events with their indexes, and of the indexes."""
    with psycopg.connect(database.url) as connection:
        ((whole, indexes),) = connection.execute(
            "SELECT pg_total_relation_size('event'), pg_indexes_size('event')"
        ).fetchall()
    return int(whole), int(indexes)


def _rebuilt(database: Database, home: Path) -> dict[str, float]:
    """Return time, processor time and peak memory of a process that makes the tables."""
    begun = time.monotonic()
    child = subprocess.Popen([sys.executable, "-m", "benchmarks.capacity", "--fold", database.url, str(home)], cwd=ROOT)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"the tables could not be made: {child.returncode}")
    return {
        "rebuild_s": time.monotonic() - begun,
        "rebuild_processor_s": usage.ru_utime + usage.ru_stime,
        "rebuild_peak_bytes": usage.ru_maxrss * 1024.0,
    }


def _asked(database: Database, home: Path, events: int) -> tuple[list[float], float]:
    questions = ({"model": model_name(number)} for number in cycle(range(models_for(events))))
    with (
        service(home, database) as running,
        httpx.Client(base_url=running.url, timeout=300, trust_env=False) as client,
    ):
        took, processor_ms, _ = timed(client, running, "recommendations", questions, QUESTIONS)
    return took, processor_ms


def extrapolated(sizes: list[Size], events: int = FAR) -> dict[str, tuple[float, float]]:
    """Return value and slope of each figure where the line through the logarithms of the measured ones leads."""
    lines = {}
    for name in Size.__struct_fields__[1:]:
        values = [getattr(size, name) for size in sizes]
        slope, height = np.polyfit(np.log([size.events for size in sizes]), np.log(values), 1)
        lines[name] = (float(np.exp(height + slope * np.log(events))), float(slope))
    return lines


def main() -> int:
    """Measure the sizes, print them, and write them where `--out` says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__.splitlines()[0])
    parser.add_argument("--events", default="100000,1000000", help="sizes of the log; 0 measures none")
    parser.add_argument("--folder", type=Path, help="where the data of a run lie; 4 GB a million events")
    parser.add_argument("--out", type=Path, help="a JSON file; sizes that it has already stay")
    parser.add_argument("--picture", type=Path, help="an SVG file of what is in --out")
    parser.add_argument("--fold", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fold:
        projection = Projection(Path(options.fold[1]), Database(options.fold[0]))
        projection.open()
        projection.catch_up()
        projection.stop()
        return 0
    kept: dict[int, Size] = {}
    if options.out and options.out.exists():
        kept = {size.events: size for size in msgspec.json.decode(options.out.read_bytes(), type=list[Size])}
    for events in (int(word) for word in options.events.split(",") if int(word)):
        with Bench(Plan(), options.folder) as bench:
            kept[events] = measured(bench, events)
        if options.out:
            sizes = [kept[name] for name in sorted(kept)]
            options.out.write_bytes(msgspec.json.format(msgspec.json.encode(sizes)) + b"\n")
    print(table([kept[name] for name in sorted(kept)]))
    if options.picture:
        options.picture.write_bytes(picture([kept[name] for name in sorted(kept)]))
    return 0


_LINES: dict[str, tuple[str, float, bool]] = {
    "postgres_bytes": ("Postgres, with indexes, B an event", 1, True),
    "postgres_index_bytes": ("of these indexes, B an event", 1, True),
    "trimmed_postgres_bytes": ("Postgres once trimmed, B an event", 1, True),
    "archive_bytes": ("archive, B an event", 1, True),
    "tables_bytes": ("DuckDB file, B an event", 1, True),
    "append_per_s": ("append, events a second", 1, False),
    "rebuild_s": ("rebuild, s", 1, False),
    "rebuild_processor_s": ("rebuild, s of processor", 1, False),
    "rebuild_peak_bytes": ("rebuild, peak MB", 1e6, False),
    "question_p50_ms": ("question, p50 ms", 1, False),
    "question_p95_ms": ("question, p95 ms", 1, False),
    "question_processor_ms": ("question, ms of processor", 1, False),
}
"""By figure its row: the words, what a unit of it is, and whether it is told by event."""


def table(sizes: list[Size]) -> str:
    """Return the table of docs/operation.md."""
    far = extrapolated(sizes) if len(sizes) > 1 else {}
    heads = ["events", *(f"{size.events:,}" for size in sizes), *([f"{FAR:,}, extrapolated"] if far else [])]
    heads += ["slope"] if far else []
    lines = ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
    for name, (words, unit, by_event) in _LINES.items():
        values: list[Any] = [getattr(size, name) / (unit * (size.events if by_event else 1)) for size in sizes]
        cells = [_figure(value) for value in values]
        if far:
            cells += [_figure(far[name][0] / (unit * (FAR if by_event else 1))), f"{far[name][1]:.2f}"]
        lines.append("| " + " | ".join([words, *cells]) + " |")
    return "\n".join(lines)


_DRAWN = {
    "postgres_bytes": "Postgres, with indexes",
    "trimmed_postgres_bytes": "Postgres once trimmed",
    "archive_bytes": "archive",
    "tables_bytes": "DuckDB file",
}


def picture(sizes: list[Size]) -> bytes:
    """Return the bytes of each part over the events as SVG: points are measured, dashed lines extrapolated."""
    import altair as alt

    from presentation.charts import chart_files
    from presentation.charts.frame import Rows, finish

    ends = {events: extrapolated(sizes, events) for events in (sizes[0].events, FAR)}
    lines = [
        {"events": events, "gb": values[name][0] / 1e9, "part": words}
        for events, values in ends.items()
        for name, words in _DRAWN.items()
    ]
    points = [
        {"events": size.events, "gb": getattr(size, name) / 1e9, "part": words}
        for size in sizes
        for name, words in _DRAWN.items()
    ]
    x = alt.X("events:Q", title="events (log)").scale(type="log").axis(format="~s", grid=False, tickCount=5)
    y = alt.Y("gb:Q", title="GB (log)").scale(type="log").axis(format="~g", tickCount=7)
    colour = alt.Color("part:N", title=None, sort=list(_DRAWN.values())).legend(orient="bottom")
    chart = alt.layer(
        alt.Chart(Rows(values=lines)).mark_line(strokeDash=[4, 4]).encode(x=x, y=y, color=colour),
        alt.Chart(Rows(values=points)).mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, color=colour),
    )
    titled = chart_files.titled(
        finish(chart, height=320, theme="light", picture=True),
        "How much room does a log take?",
        answer="Points are measured, dashed lines lead through them to a thousand million events",
        footer="python -m benchmarks.capacity",
    )
    return chart_files.svg(titled)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    raise SystemExit(main())
