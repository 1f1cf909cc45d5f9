"""The benchmarks by name, in the order of a run: each yields its comparisons as it finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.bench import Bench
from benchmarks.lines import Line
from benchmarks.rows.comparison import comparison
from benchmarks.rows.comparison_large import comparison_large
from benchmarks.rows.embedded import embedded
from benchmarks.rows.growth import growing
from benchmarks.rows.http_batches import http_batches
from benchmarks.rows.http_single import http_single
from benchmarks.rows.idle_worker import idle_worker
from benchmarks.rows.in_process import in_process
from benchmarks.rows.job_queue import job_queue
from benchmarks.rows.limits import limits
from benchmarks.rows.model_server import model_server
from benchmarks.rows.ordering_lock import ordering_lock
from benchmarks.rows.projection import projection
from benchmarks.rows.rebuild import parallel_rebuild, rebuild
from benchmarks.rows.recommending import recommending
from benchmarks.rows.results_logged import results_logged
from benchmarks.rows.startup import startup
from benchmarks.rows.stored_bytes import stored_bytes
from benchmarks.rows.visible import visible

__all__ = ["ROWS", "Row"]

Row = Callable[[Bench], Iterator[Line]]

ROWS: dict[str, Row] = {
    "http_batches": http_batches,
    "http_single": http_single,
    "in_process": in_process,
    "results_logged": results_logged,
    "comparison": comparison,
    "projection": projection,
    "visible": visible,
    "stored_bytes": stored_bytes,
    "recommending": recommending,
    "limits": limits,
    "idle_worker": idle_worker,
    "model_server": model_server,
    "ordering_lock": ordering_lock,
    "embedded": embedded,
    "startup": startup,
    "job_queue": job_queue,
    # Before the others that need a large log: its own is gone when theirs is made.
    "growth": growing,
    "rebuild": rebuild,
    "parallel_rebuild": parallel_rebuild,
    "comparison_large": comparison_large,
}
