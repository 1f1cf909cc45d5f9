"""`assay bench-data`: made-up measurements, to try how much an installation can take."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import print_json, say
from assay.cli.output_files import OutputFile
from assay.staging import Staged
from domain.errors import UsageError
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["bench_data"]

POSTED_TOGETHER = 5000
"""Events of one request: the most that the service takes."""
_GENUINE = """
SELECT (SELECT count(*) FROM measurements WHERE origin <> 'simulated')
    + (SELECT count(*) FROM tests WHERE origin <> 'simulated')
    + (SELECT count(*) FROM failures WHERE origin <> 'simulated')
"""


@click.command(
    "bench-data",
    epilog="""\b
Examples:
  ASSAY_HOME=capacity assay bench-data --rows 1000000
  assay bench-data --rows 50000 --seed 7 --out load.ndjson.gz""",
)
@click.option("--rows", type=click.IntRange(1, 100_000_000), default=100_000, show_default=True, help="Measurements.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="Other seeds, other events.")
@click.option(
    "--out",
    type=OutputFile(word="post"),
    metavar="FILE|post",
    default="post",
    show_default=True,
    help="A file of events, or the service.",
)
@click.option("--force", is_flag=True, is_eager=True, help="Post even where real data are; overwrite the file.")
@served
@as_json
def bench_data(
    rows: int, seed: int, out: Path | str, force: bool, server: str | None, token: str | None, as_json: bool
) -> int:
    """Make up measurements on the catalogues' models and hardware, to try capacity with.

    They carry the origin `simulated`: no answer, ranking or training ever uses them. The same rows and seed give the same
    events, so that a second time posts nothing new. A service that holds real data is refused without --force.
    """
    from assay.cli.connection import connected
    from assay.cli.progress import counting
    from assay.synthesis import events, lines_of

    document: dict[str, Any] = {"rows": rows, "seed": seed, "events": lines_of(rows)}
    if out == "post":
        with connected(server, token) as client:
            _require_no_real_data(client, force=force)
            begin = time.monotonic()
            with counting("events", lines_of(rows)) as advance:
                answer = client.post_events(events(rows, seed), batch=POSTED_TOGETHER, on_batch=advance)
            document |= {name: answer[name] for name in ("accepted", "duplicate", "last_position")}
            document["posted_s"] = round(time.monotonic() - begin, 3)
            client.wait_for(answer["last_position"], timeout_s=3600)
            document["visible_s"] = round(time.monotonic() - begin, 3)
    else:
        begin = time.monotonic()
        with counting("events", lines_of(rows)) as advance:
            document["bytes"] = _write(Path(out), events(rows, seed), advance, force=force)
        document |= {"file": str(out), "written_s": round(time.monotonic() - begin, 3)}
    if as_json:
        print_json(document)
    else:
        _tell(document)
    return 0


def _require_no_real_data(client: Client, *, force: bool) -> None:
    """Raise UsageError where the service holds facts that were not made up."""
    if force:
        return
    client.wait_for(client.ready()["log_position"])
    ((genuine,),) = client.query(_GENUINE)["rows"]
    if genuine:
        raise UsageError(
            f"{client.server} holds {genuine:,} measurements, tests and failures that nobody made up.",
            field="out",
            remedy="Try capacity with another ASSAY_HOME, write a file with --out FILE, or insist with --force.",
        )


def _write(path: Path, lines: Iterable[bytes], advance: Callable[[int], None], *, force: bool) -> int:
    """Write the lines, packed where the name ends in .gz, and return the file's bytes; it appears whole or not at all."""
    packed = path.suffix == ".gz"
    with Staged(force=force) as staged, staged.file(path).open("wb") as raw, _packed(raw) if packed else raw as target:
        for line in lines:
            target.write(line + b"\n")
            advance(1)
    return path.stat().st_size


def _packed(raw: IO[bytes]) -> IO[bytes]:
    """Return a file that packs into `raw`; without a name and a time, so that equal lines give equal bytes."""
    return cast("IO[bytes]", gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=5, mtime=0))


def _tell(document: dict[str, Any]) -> None:
    if "file" in document:
        rate = document["events"] / max(document["written_s"], 1e-3)
        size = document["bytes"] / 1e6
        say(
            f"{formatting.count(document['events'])} events, {size:.1f} MB, in {document['file']} ({rate:,.0f} a second)"
        )
        return
    rate = document["events"] / max(document["posted_s"], 1e-3)
    behind = document["visible_s"] - document["posted_s"]
    say(f"{formatting.count(document['accepted'])} new, {formatting.count(document['duplicate'])} already there")
    say(f"posted in {document['posted_s']:.1f} s ({rate:,.0f} events a second); in the tables {behind:.1f} s later")
