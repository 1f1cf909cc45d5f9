"""`assay data add|trust|quarantine` of shared measurements: bundles from files, addresses and repositories."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.errors import AssayError, PayloadTooLarge, ServiceUnavailable, UsageError
from domain.sharing.bundles import MOST_BYTES, SUFFIX
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from domain.answers.sharing import AddedBundle, SharedBundle

__all__ = ["add_shared", "bundle_table", "names_a_place", "quarantine", "remove_shared", "tell_added", "trust"]

_ADDRESS = re.compile(r"(?i)(?:git\+)?(?:https?|ssh|git|file)://|[\w.-]+@[\w.-]+:")
_PROGRAM = re.compile(r"(?i)git\+|(?:ssh|git|file)://|[\w.-]+@[\w.-]+:")
FETCH_S = 30.0
_MOST_HELD = 10


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one bundle: what the service says, or why it was refused."""

    place: str
    added: AddedBundle | None = None
    refused: str | None = None
    field: str | None = None


def names_a_place(source: str) -> bool:
    """Return whether a SOURCE is a file, a folder or an address, and not the name of a source that ships."""
    return bool(_ADDRESS.match(source)) or source.endswith(SUFFIX) or "/" in source or Path(source).exists()


def add_shared(client: Client, places: Sequence[str], *, dry_run: bool) -> list[Added]:
    """Add the bundles of these places, each by itself: one that is refused leaves the others alone."""
    results: list[Added] = []
    for place in places:
        with _bundles_of(place) as bundles:
            for name, read in bundles:
                try:
                    if isinstance(read, Path) and read.stat().st_size > MOST_BYTES:
                        raise _too_large(name)
                    content = read.read_bytes() if isinstance(read, Path) else read
                    results.append(Added(place=name, added=client.add_bundle(content, dry_run=dry_run)))
                except ServiceUnavailable:
                    raise
                except AssayError as error:
                    results.append(Added(place=name, refused=str(error), field=error.field))
    last = max((item.added.last_position or 0 for item in results if item.added is not None), default=0)
    if last:
        client.wait_for(last)
    return results


def tell_added(results: Sequence[Added], *, as_json: bool, dry_run: bool) -> int:
    """Say what became of bundles; 1 where one was refused."""
    code = 1 if any(item.refused for item in results) else 0
    if as_json:
        print_json(results)
        return code
    rows = [_row(item) for item in results]
    columns: list[str | tuple[str, str]] = ["bundle", "signer", ("trust", "fixed"), *_FIGURES]
    answers().print(grid("Would be added" if dry_run else "Added", columns, rows))
    for item in results:
        if item.refused:
            say(f"[red]refused[/red] {item.place}: {item.refused}")
    held = [row for item in results if item.added is not None for row in item.added.held]
    if held:
        say(f"{formatting.count(len(held))} rows are held back and do not count:")
        for row in held[:_MOST_HELD]:
            say(f"  {row.model} on {row.hardware}: {row.rule}: {row.reason}")
        say("`assay data quarantine` shows them all, and releases one")
    return code


_FIGURES = (("new rows", "right"), ("known", "right"), ("held back", "right"))


def _row(item: Added) -> list[str]:
    if item.added is None:
        return [item.place, "", "refused", "", "", ""]
    added = item.added
    figures = (added.measurements, added.duplicate, len(added.held))
    return [item.place, added.name or added.signer, added.trust, *(formatting.count(figure) for figure in figures)]


@contextmanager
def _bundles_of(place: str) -> Iterator[list[tuple[str, Path | bytes]]]:
    """Give the bundles of a place by name: one file, those of a folder or a repository, or what an address answers."""
    from assay.cli.keep.evidence_repository import bundles_in, cloned

    path = Path(place)
    repository = bool(_PROGRAM.match(place)) or place.removesuffix("/").endswith(".git")
    if path.is_dir() and not ((path / ".git").exists() or (path / "HEAD").exists()):
        yield [(str(file), file) for file in bundles_in(path)]
    elif path.is_dir() or (repository and not path.is_file()):
        with cloned(place.removeprefix("git+")) as files:
            yield [(file.name, file) for file in files]
    elif re.match(r"(?i)https?://", place):
        yield [(_shown(place), fetched(place))]
    elif path.is_file():
        yield [(str(path), path)]
    else:
        raise UsageError(
            f"{place} is no file, folder or address.",
            field="SOURCE",
            remedy=f"Name a bundle (*{SUFFIX}), a folder or git repository of them, an address, or a source that ships.",
        )


def fetched(address: str) -> bytes:
    """Return what an address of http or https answers, under the limit of a bundle."""
    import httpx

    content = bytearray()
    try:
        with httpx.stream("GET", address, timeout=FETCH_S, follow_redirects=True) as response:
            if response.is_error:
                raise UsageError(
                    f"{_shown(address)} answers {response.status_code}.", field="SOURCE", remedy="Check the address."
                )
            if "html" in response.headers.get("content-type", ""):
                raise UsageError(
                    f"{_shown(address)} is a web page.",
                    field="SOURCE",
                    remedy="Name the file itself; of a repository write git+ before its address.",
                )
            for piece in response.iter_bytes():
                content += piece
                if len(content) > MOST_BYTES:
                    raise _too_large(_shown(address))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServiceUnavailable(
            f"{_shown(address)} cannot be read ({type(error).__name__}).",
            field="SOURCE",
            remedy="Check the address, the network, and HTTPS_PROXY where a proxy stands between.",
        ) from error
    return bytes(content)


def _shown(address: str) -> str:
    """Return an address without a user and a password."""
    return re.sub(r"//[^/@]*@", "//", address)


def _too_large(name: str) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"{name} has more than {MOST_BYTES:,} bytes.",
        field="SOURCE",
        remedy="No bundle is so large; name another file.",
    )


def remove_shared(client: Client, names: Sequence[str], reason: str) -> int:
    """Take the rows of bundles or signers out, and return how many runs that were."""
    changed = [client.remove_shared(name, reason) for name in names]
    client.wait_for(max((item.last_position or 0 for item in changed), default=0))
    return sum(item.changed for item in changed)


def bundle_table(bundles: Sequence[SharedBundle]) -> None:
    """Print the bundles in the log."""
    rows = [
        [
            item.bundle.removeprefix("sha256:")[:12],
            item.name or item.signer,
            item.trust,
            formatting.count(item.measurements),
            formatting.count(item.held),
            ", ".join(item.devices[:3]) + (" …" if len(item.devices) > 3 else ""),
            item.licence or "",
            item.state,
        ]
        for item in bundles
    ]
    columns: list[str | tuple[str, str]] = [
        ("bundle", "fixed"),
        "signer",
        ("trust", "fixed"),
        ("rows", "right"),
        ("held back", "right"),
        "devices",
        "licence",
        "state",
    ]
    answers().print(grid("Shared", columns, rows))


@click.command(
    epilog="""\b
Examples:
  assay data trust 7Kmc9g4/…= --name "Jane's lab"
  assay data trust ed25519:65ba1b85… --name "Jane's lab"
  assay data trust list
  assay data trust remove "Jane's lab\""""
)
@click.argument("words", nargs=-1, required=True, metavar="KEY|list|remove KEY")
@click.option("--name", metavar="NAME", help="Who it is, as answers name them.")
@served
@as_json
def trust(words: tuple[str, ...], name: str | None, server: str | None, token: str | None, as_json: bool) -> int:
    """Trust a signer: its rows count before those of strangers. KEY is a public key, a PEM file, or the id of a key."""
    from assay.cli.connection import connected

    if words == ("list",):
        with connected(server, token) as client:
            return _tell_signers(client, as_json=as_json)
    if words[0] == "remove" and len(words) == 2:
        with connected(server, token) as client:
            answer = client.distrust_signer(words[1])
    elif len(words) == 1 and name:
        path = Path(words[0])
        key = path.read_text("utf-8") if path.is_file() else words[0]
        with connected(server, token) as client:
            answer = client.trust_signer(key, name)
    elif len(words) == 1:
        raise UsageError("say who it is.", field="name", remedy="Add --name NAME.")
    else:
        raise UsageError("one KEY at a time.", field="KEY", remedy="Write KEY --name NAME, list, or remove KEY.")
    if as_json:
        print_json(answer)
    else:
        say(f"{answer['name']} ({answer['key']}) is {answer['level']} from position {answer['position']} on")
    return 0


def _tell_signers(client: Client, *, as_json: bool) -> int:
    signers = client.signers()
    if as_json:
        print_json(signers)
        return 0
    rows = [
        [
            item.key,
            item.name or "",
            item.trust,
            formatting.count(item.bundles),
            formatting.count(item.measurements),
            f"{formatting.date(item.since)} by {item.by}" if item.since else "",
        ]
        for item in signers
    ]
    columns: list[str | tuple[str, str]] = [
        "key",
        "name",
        ("trust", "fixed"),
        ("bundles", "right"),
        ("rows", "right"),
        "since",
    ]
    answers().print(grid("Signers", columns, rows))
    return 0


@click.command(
    epilog="""\b
Examples:
  assay data quarantine
  assay data quarantine release 0198c0de-… --reason "measured it again: it is that fast\""""
)
@click.argument("words", nargs=-1, metavar="[release EVENT…]")
@click.option("--reason", metavar="TEXT", help="Why a row is released; it stays in the log with your token's name.")
@served
@as_json
def quarantine(words: tuple[str, ...], reason: str | None, server: str | None, token: str | None, as_json: bool) -> int:
    """List the shared rows that do not count because they cannot be true, or release some of them."""
    from assay.cli.connection import connected

    if words[:1] not in ((), ("release",)) or len(words) == 1:
        raise UsageError("name the rows to release.", field="EVENT", remedy="Write release EVENT… --reason TEXT.")
    if words and not reason:
        raise UsageError("a row is released with a reason.", field="reason", remedy="Add --reason TEXT.")
    with connected(server, token) as client:
        if words:
            changed = [client.release(event, reason or "") for event in words[1:]]
            client.wait_for(max(item.last_position or 0 for item in changed))
        rows = client.quarantined()
    if as_json:
        print_json({"released": len(words[1:]), "held": rows})
        return 0
    if words:
        say(f"{formatting.count(len(words) - 1)} rows count from here on; {formatting.count(len(rows))} are held back")
        return 0
    if not rows:
        say("no row is held back")
        return 0
    lines = [
        [
            row.event_id,
            f"{row.model} on {row.hardware}, {row.platform} {row.precision or ''}"
            + (f", batch {row.batch_size}" if row.batch_size else ""),
            row.reason,
            row.signer,
        ]
        for row in rows
    ]
    answers().print(grid("Held back", [("event", "fixed"), "row", "why", "signer"], lines))
    return 0
