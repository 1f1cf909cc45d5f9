"""`assay log`: verify that nobody has changed the log, and sign its head so that this can be shown later."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from assay.cli.keep.database import opened
from assay.cli.options import as_json
from assay.cli.output import answers, grid, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from assay.cli.progress import counting
from presentation import formatting

if TYPE_CHECKING:
    from ingest.log.verify import Verified

__all__ = ["log"]


@click.group()
def log() -> None:
    """The log's hash chain: verify it, and sign its head."""


@log.command(
    "verify",
    epilog="""\b
Examples:
  assay log verify
  assay log verify --head /elsewhere/head-2026-11.json --json""",
)
@click.option(
    "--head",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A head that `assay log head` signed before; may be given more than once.",
)
@click.option(
    "--since", metavar="POSITION", type=click.IntRange(min=0), default=0, help="Believe the chain up to this position."
)
@as_json
def verify(files: tuple[Path, ...], since: int, as_json: bool) -> int:
    """Recompute the chain, every digest and the archive; exit 1, with position and kind, where something was changed.

    A chain that an administrator computed again as a whole, and a tail that was cut off, contradict only heads that were signed
    before and kept elsewhere: give them with --head.
    """
    from assay.home import find_home
    from ingest.archive.archive import Archive, archive_folder
    from ingest.log.chain_heads import read_head
    from ingest.log.verify import verify_log

    heads = {str(path): read_head(path) for path in files}
    with opened() as database, counting("events") as advance:
        archive = Archive(archive_folder(find_home().path), database.url)
        verified = verify_log(database.url, archive, heads, since=since, progress=advance)
    if as_json:
        print_json(verified)
    else:
        _tell(verified)
    return 1 if verified.breaks else 0


@log.command("head", epilog="Example: assay log head --out /elsewhere/head-2026-11-21.json")
@click.option("--out", metavar="FILE", type=OutputFile(), help="Write it there.")
@overwritable
def head(out: Path | None, force: bool) -> int:
    """Sign the head of the log with the key of this installation, as JSON; keep it where the log's administrator cannot write.

    The key is ASSAY_HOME/keys/log.pem, made at the first need.
    """
    import msgspec

    from assay.home import find_home
    from assay.staging import Staged
    from ingest.log.chain_heads import sign_head, signing_key

    with opened() as database:
        signed = sign_head(database.url, signing_key(find_home().path))
    if out is None:
        print_json(signed)
        return 0
    with Staged(force=force) as staged:
        staged.file(out).write_bytes(msgspec.json.format(msgspec.json.encode(signed)) + b"\n")
    say(f"{out}: position {formatting.count(signed.position)} of log {signed.log}")
    return 0


def _tell(verified: Verified) -> None:
    if verified.breaks:
        rows = [
            [
                formatting.MISSING if item.position is None else formatting.count(item.position),
                item.kind,
                item.id or formatting.MISSING,
                item.detail,
            ]
            for item in verified.breaks
        ]
        answers().print(grid("Changed", [("position", "right"), "kind", "event", "what"], rows))
    since = f" above position {formatting.count(verified.since)}" if verified.since else ""
    against = f" and {formatting.count(verified.heads)} signed heads" if verified.heads else ""
    outcome = f"{formatting.count(len(verified.breaks))} breaks" if verified.breaks else "unchanged"
    say(
        f"{formatting.count(verified.events)} events{since}{against}: {outcome}; the head is {verified.chain[:16]}… at position {formatting.count(verified.position)}"
    )
