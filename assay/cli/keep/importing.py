"""`assay import`: other tools' files into the log, and a summary that says what became of every row."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from assay.cli.keep.import_summary import Files, Outcome, show
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from domain.errors import ConflictingEvent, UsageError
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from ingest.importers import File, Importer, Refused

__all__ = ["import_"]

Event = dict[str, Any]
Write = Callable[["Refused"], None]
PATIENCE_S = 60.0
EVENTS_PER_S = 5000
"""So fast tables show what was imported, at the least; PATIENCE_S is added."""
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "import",
    epilog="""\b
Examples:
  assay import --list
  assay import auto results/ --dry-run
  assay import auto results/ old.zip 'runs/*.json' --rejects refused.ndjson
  assay import rejects refused.ndjson
  assay import table times.csv --mapping times.yaml""",
)
@click.argument("format", metavar="FORMAT|auto", required=False)
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option("--list", "list_formats", is_flag=True, help="List the formats.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Read, clean and count; send nothing. Writes only what --rejects and --names ask for.",
)
@click.option(
    "--rejects",
    metavar="FILE",
    type=OutputFile(),
    help="Write what is refused to a file: mend it, and import it as `rejects`.",
)
@click.option(
    "--names",
    metavar="FILE",
    type=OutputFile(),
    help="Write names that resolve to nothing to a file, for `model alias --file`.",
)
@click.option("--mapping", metavar="FILE", type=_FILE, help="For `table`: which column is what.")
@overwritable
@click.option("--template", is_flag=True, help="For `table`: print a mapping for a file's columns, to be filled in.")
@served
@as_json
def import_(
    format: str | None,  # noqa: A002 - the word that users type
    paths: tuple[str, ...],
    list_formats: bool,
    dry_run: bool,
    rejects: Path | None,
    names: Path | None,
    mapping: Path | None,
    force: bool,
    template: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Turn other tools' files into events; a second import of the same rows changes nothing.

    Paths are files, folders, archives and patterns. Rows that cannot be understood are refused one by one with the
    reason, the others are taken; rows that nobody can have measured are taken and marked.
    """
    if list_formats:
        return _list(as_json=as_json)
    if format is None or not paths:
        raise UsageError(
            "a format, or `auto`, and what to import are needed.",
            field="format",
            remedy="`assay import --list` shows the formats.",
        )
    if template:
        return _template(format, paths)
    _require_apart({"rejects": rejects, "names": names}, paths)
    from ingest.importers import Summary, import_paths

    summary, outcome = Summary(), Outcome(format=format, dry_run=dry_run)
    watcher = _Shown(outcome.files)
    items = import_paths(format, paths, _importers(format, mapping), watcher=watcher)
    send: Mapping[str, set[str]] = {}
    with watcher.shown(paths), _rejects(rejects, force=force) as write, _few_collections():
        # The first is taken before a service is started, so that wrong usage costs nothing.
        items = itertools.chain(list(itertools.islice(items, 1)), items)
        events = _events(summary.watch(watcher.counted(items)), write)
        if dry_run:
            for _ in events:
                pass
        else:
            send = _send(events, server, token, outcome, lambda refused: write(summary.refuse(refused)))
    outcome.count(summary, send)
    if names:
        from assay.cli.keep.name_file import write_names

        write_names(names, outcome.names, force=force)
    if as_json:
        print_json(outcome)
    else:
        show(outcome)
    if rejects:
        say(f"what was refused is in {rejects}" if outcome.refused else f"nothing was refused; {rejects} is empty")
    return 1 if outcome.refused or not outcome.read else 0


def _list(*, as_json: bool) -> int:
    from ingest.importers import IMPORTERS

    if as_json:
        print_json([{"format": name, "title": importer.title} for name, importer in IMPORTERS.items()])
    else:
        rows = [[name, importer.title] for name, importer in IMPORTERS.items()]
        answers().print(grid(f"{len(rows)} formats; `auto` finds out which", [("format", "fixed"), "what it is"], rows))
    return 0


def _template(format: str, paths: Sequence[str]) -> int:  # noqa: A002
    from ingest.importers.files import require
    from ingest.importers.tables.table import template

    if format != "table" or len(paths) != 1:
        raise UsageError("a mapping is for one table.", field="template", remedy="assay import table FILE --template")
    require(paths)
    click.echo(template(Path(paths[0]).expanduser()), nl=False)
    return 0


def _importers(format: str, mapping: Path | None) -> Mapping[str, Importer]:  # noqa: A002
    from ingest.importers import IMPORTERS

    if mapping is None:
        return IMPORTERS
    from ingest.importers.tables.table import Table

    if format != "table":
        raise UsageError("only a table has a mapping.", field="mapping", remedy="assay import table … --mapping FILE")
    return {**IMPORTERS, "table": Table(mapping=mapping)}


def _events(items: Iterable[Event | Refused], write: Write) -> Iterator[Event]:
    """Yield the events; give the refusals to the file of rejects."""
    for item in items:
        if isinstance(item, dict):
            yield item
        else:
            write(item)


def _send(
    events: Iterable[Event], server: str | None, token: str | None, outcome: Outcome, refuse: Write
) -> Mapping[str, set[str]]:
    """Post the events, count what became of them, and return the names that the service has heard of, by kind."""
    from assay.cli.connection import connected
    from assay.client import batches

    outcome.accepted = outcome.duplicate = sent = 0
    last = None
    with connected(server, token) as client:
        for lines in batches(events):
            answer = client.post_events(lines, batch=len(lines))
            sent += len(lines)
            outcome.accepted += answer["accepted"]
            outcome.duplicate += answer["duplicate"]
            for item in answer["rejected"]:
                # An imported id is what the row says: the log has this row, out of another file.
                if item.get("problem") == ConflictingEvent.type:
                    outcome.duplicate += 1
                else:
                    refuse(_rejected(lines[item["index"]], item))
            last = answer["last_position"] or last
        if last is not None:
            client.wait_for(last, PATIENCE_S + sent / EVENTS_PER_S)
        return _names_of(client)


def _rejected(line: bytes, answer: Mapping[str, Any]) -> Refused:
    """Return what the service refused, with the place of the row where the event names it."""
    from ingest.importers import Refused

    event = msgspec.json.decode(line)
    data = event.get("data") or {}
    return Refused(
        path=(data.get("provenance") or {}).get("reference") or event.get("subject") or event["type"],
        row=(data.get("imported") or {}).get("row"),
        field=answer.get("field"),
        format=event["source"].rpartition(":")[2],
        reason=f"the service: {answer['detail']}",
    )


def _names_of(client: Client) -> dict[str, set[str]]:
    """Return the names that a service resolves or has met as more than a name: aliases, catalogues, traces, machines."""
    names: dict[str, set[str]] = {}
    for kind, rows in (("model", client.models()), ("hardware", client.hardware())):
        result = names[kind] = set()
        for row in rows:
            result.update(row["aliases"])
            if row["aliases"] or row["catalogued"] or row.get("traces") or row.get("described"):
                result.add(row["id"])
    return names


def _require_apart(outputs: Mapping[str, Path | None], inputs: Sequence[str]) -> None:
    """Raise UsageError where a file to write is one to import, or another one to write."""
    taken = {Path(value).expanduser().resolve() for value in inputs}
    for option, path in outputs.items():
        if path is not None and path.resolve() in taken:
            raise UsageError(f"{path} is used twice.", field=option, remedy="Name another file.")
        taken |= {path.resolve()} if path is not None else set()


@contextmanager
def _rejects(path: Path | None, *, force: bool) -> Iterator[Write]:
    """Give what writes a refusal to the file at once, so that it is there however the import ends."""
    if path is None:
        yield lambda _: None
        return
    try:
        file = path.open("wb" if force else "xb")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}.", field="rejects", remedy="Name another."
        ) from error
    with file:

        def write(refused: Refused) -> None:
            file.write(msgspec.json.encode(refused) + b"\n")
            file.flush()

        yield write


@contextmanager
def _few_collections() -> Iterator[None]:
    """Let Python look for cycles rarely: rows come by the million, live long together, and none refers to itself."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Shown:
    """Shows on a terminal how far the files are read, which one it is, and how many rows there were; counts files."""

    def __init__(self, files: Files) -> None:
        console = notes()
        self._files = files
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[rows]} rows"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("…", rows="0", total=None)

    @contextmanager
    def shown(self, paths: Sequence[str]) -> Iterator[None]:
        """Show it until the block ends."""
        from ingest.importers.files import total_bytes

        if not self._bar.disable:
            self._bar.update(self._task, total=total_bytes(paths))
        with self._bar:
            yield

    def opened(self, file: File, importer: Importer | None) -> None:
        """Count a file and show its name."""
        if importer is None:
            self._files.passed_over += not file.given
        else:
            self._files.read += 1
        if not self._bar.disable:
            self._bar.update(self._task, description=escape(file.base[:40]))

    def read(self, size: float) -> None:
        """Move the bar on."""
        if not self._bar.disable:
            self._bar.advance(self._task, size)

    def counted(self, items: Iterable[Event | Refused]) -> Iterable[Event | Refused]:
        """Pass the items on, and show how many there were."""
        return items if self._bar.disable else self._counting(items)

    def _counting(self, items: Iterable[Event | Refused]) -> Iterator[Event | Refused]:
        count = 0
        for count, item in enumerate(items, start=1):
            if count % 1000 == 0:
                self._bar.update(self._task, rows=formatting.count(count))
            yield item
        self._bar.update(self._task, rows=formatting.count(count))
