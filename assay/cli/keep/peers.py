"""`assay peer`: other Assay services whose events are pulled into this log."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import rich_click as click
from rich.markup import escape

from assay.cli.options import WORDS, as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.errors import AssayError, ProjectionBehind, UsageError
from domain.sharing.peers import DEFAULT_TYPES, EVERY_SOURCE, NewPeer, full_type, require_peer
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from assay.client.peers import Pulled
    from domain.sharing.peers import Peer

__all__ = ["peer"]

PATIENCE_S = 30.0
LONGEST_PAUSE_S = 60.0
_SHOWN_REASONS = 10


@click.group(
    epilog="""\b
Examples:
  assay peer add https://lab.example.org --sources 'urn:lab:*' --token-file lab.token
  assay peer pull
  assay peer pull lab.example.org --follow
  assay peer list"""
)
def peer() -> None:
    """Other Assay services whose events are pulled into this log, unchanged, by position.

    A peer's measurements count as measured where they were. Add one as you would hand out a token: for named sources.
    """


@peer.command(
    "add",
    epilog="""\b
Examples:
  assay peer add https://lab.example.org --sources 'urn:lab:*' --token-file lab.token
  assay peer add http://10.0.0.7:8000 --name bench --sources urn:lab:gpu-1,urn:lab:gpu-2
  assay peer add http://10.0.0.7:8000 --all-sources --types measurement.recorded""",
)
@click.argument("url")
@click.option("--name", help="What to call it; by default its host.")
@click.option("--sources", type=WORDS, help="Sources to take, or beginnings of them that end with *.")
@click.option("--all-sources", is_flag=True, help="Take every source: whoever may append there then measures here.")
@click.option(
    "--types",
    type=WORDS,
    help="Types of events, as measurement.recorded; by default all that may come but raw samples and prices.",
)
@click.option("--relayed", is_flag=True, help="Also what the peer itself got from its peers.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with a token of the peer, of scope read. Its path is kept, never what it holds.",
)
@served
@as_json
def add(
    url: str,
    name: str | None,
    sources: list[str] | None,
    all_sources: bool,
    types: list[str] | None,
    relayed: bool,
    token_file: Path | None,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Add a peer. It is asked once whether it answers; nothing is taken before the first pull."""
    from assay.cli.connection import connected
    from assay.client.peers import PeerReader
    from assay.client.transport import patience

    new = NewPeer(
        name=name or re.sub(r"[^A-Za-z0-9._-]+", "-", url.partition("://")[2].partition("/")[0]).strip("-") or "peer",
        url=url.rstrip("/"),
        sources=_sources(sources, all_sources=all_sources),
        types=[full_type(word) for word in types] if types else list(DEFAULT_TYPES),
        relayed=relayed,
        token_file=str(token_file.resolve()) if token_file else None,
    )
    require_peer(new)
    with PeerReader(new, _secret(new), patience_s=patience(0)) as reader:
        fetched = reader.read(0, limit=1)
    with connected(server, token) as client:
        added = client.add_peer(new)
    if as_json:
        print_json(added)
    else:
        count = formatting.count(fetched.page.last_position)
        say(
            f"{added.name} is a peer; its log is at position {count}. `assay peer pull {added.name}` takes what is there"
        )
    return 0


def _sources(sources: list[str] | None, *, all_sources: bool) -> list[str]:
    if all_sources and sources:
        raise UsageError("--sources and --all-sources exclude each other.", field="sources", remedy="Leave one out.")
    if all_sources:
        return [EVERY_SOURCE]
    if not sources:
        raise UsageError(
            "say whose events to take.", field="sources", remedy="Add --sources URN,…, or --all-sources for every one."
        )
    if EVERY_SOURCE in sources:
        raise UsageError(
            "* alone is every source.",
            field="sources",
            remedy="Write --all-sources if that is meant, else a beginning.",
        )
    return sources


def _secret(new: NewPeer) -> str | None:
    """Return the token of a peer from its file."""
    if new.token_file is None:
        return None
    try:
        secret = Path(new.token_file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{new.token_file} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}.",
            field="token_file",
            remedy="Pull on the machine that has the file, or name it with --token-file.",
        ) from error
    if not secret.isascii() or len(secret.split()) != 1:
        raise UsageError(
            f"{new.token_file} does not hold one token.", field="token_file", remedy="Write the token alone into it."
        )
    return secret


@peer.command(
    "pull",
    epilog="""\b
Examples:
  assay peer pull
  assay peer pull lab.example.org --json
  assay peer pull lab.example.org --follow --every 10""",
)
@click.argument("peer_names", nargs=-1, metavar="[NAME]…")
@click.option("--follow", is_flag=True, help="Go on, and take what comes, until interrupted.")
@click.option(
    "--every", type=click.FloatRange(0.1, 86400), default=5.0, show_default=True, help="With --follow: seconds between."
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The token of the peer, in the place of the file that was named when it was added.",
)
@served
@as_json
def pull(
    peer_names: tuple[str, ...],
    follow: bool,
    every: float,
    token_file: Path | None,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Take what peers have that is not here yet; all peers without a NAME. A pull goes on where the last one ended.

    Exit 1 where events or a peer were refused; a peer that does not answer is 3.
    """
    from assay.cli.connection import connected

    with connected(server, token) as client:
        chosen = [client.peer(name) for name in peer_names] or client.peers()
        if not chosen:
            raise UsageError("there is no peer.", field="NAME", remedy="`assay peer add URL --sources …` adds one.")
        results, code = _round(client, chosen, token_file)
        _tell(results, as_json=as_json)
        if follow:
            _follow(client, results, token_file, every, as_json=as_json)
        try:
            client.wait_for(max(item.last_position or 0 for item in results))
        except ProjectionBehind:
            say("what came is in the log; the tables are still behind, and `assay status` says how far")
    return code


def _follow(client: Client, results: list[Pulled], token_file: Path | None, every: float, *, as_json: bool) -> NoReturn:
    """Pull again and again, less often while something is wrong; say what came, and each problem once."""
    pause = every
    problems = {item.peer: item.problem for item in results}
    while True:
        time.sleep(pause)
        later, _ = _round(client, [client.peer(name) for name in problems], token_file)
        failed = any(item.problem for item in later)
        pause = min(2 * pause, max(every, LONGEST_PAUSE_S)) if failed else every
        news = [item for item in later if item.accepted or item.problem != problems[item.peer]]
        problems = {item.peer: item.problem for item in later}
        if news:
            _tell(news, as_json=as_json)


def _round(client: Client, chosen: list[Peer], token_file: Path | None) -> tuple[list[Pulled], int]:
    """Pull each peer once; one that fails leaves the others alone. Return what came, and the exit code."""
    results = []
    code = 0
    for item in chosen:
        result, failed = _pulled(client, item, token_file)
        results.append(result)
        code = max(code, failed)
    return results, code


def _pulled(client: Client, item: Peer, token_file: Path | None) -> tuple[Pulled, int]:
    import msgspec

    from assay.cli.progress import counting
    from assay.client.peers import Pulled
    from assay.client.peers import pull as pull_peer
    from assay.client.transport import patience

    named = msgspec.structs.replace(item, token_file=str(token_file)) if token_file else item
    result = Pulled(peer=item.name, position=item.position)
    try:
        secret = _secret(named)
        with counting(item.name, None if item.lag is None else item.lag) as advance:
            reached = item.position

            def on_page(done: int, _whole: int) -> None:
                nonlocal reached
                advance(done - reached)
                reached = done

            pull_peer(client, item.name, secret, patience_s=patience(PATIENCE_S), pulled=result, on_page=on_page)
    except AssayError as error:
        result.problem = str(error)
        return result, error.exit_code
    return result, 1 if result.refused else 0


def _tell(results: list[Pulled], *, as_json: bool) -> None:
    if as_json:
        print_json(results)
        return
    for item in results:
        figures = f"{formatting.count(item.accepted)} new, {formatting.count(item.duplicate)} already here"
        if item.refused:
            figures += f", {formatting.count(item.refused)} refused"
        if item.expired:
            figures += f", {formatting.count(item.expired)} expired"
        say(f"{item.peer}: {figures}; read up to position {formatting.count(item.position)}")
        for reason, count in sorted(item.reasons.items(), key=lambda pair: -pair[1])[:_SHOWN_REASONS]:
            say(escape(f"  {formatting.count(count)} refused: {reason}"))
        if item.problem:
            say(f"[red]stopped[/red] {escape(item.problem)}")


@peer.command("list", epilog="Example: assay peer list")
@served
@as_json
def list_peers(server: str | None, token: str | None, as_json: bool) -> int:
    """List the peers: how far each is read, when, what was refused, and why the last pull ended early."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        peers = client.peers()
    if as_json:
        print_json(peers)
        return 0
    if not peers:
        say("there is no peer; `assay peer add URL --sources …` adds one")
        return 0
    rows = [
        [
            item.name,
            item.url,
            formatting.count(item.position),
            "" if item.lag is None else formatting.count(item.lag),
            formatting.date(item.pulled_at) if item.pulled_at else "never",
            formatting.count(item.accepted),
            formatting.count(item.refused),
        ]
        for item in peers
    ]
    columns: list[str | tuple[str, str]] = [
        "peer",
        "address",
        ("position", "right"),
        ("lag", "right"),
        "last pull",
        ("taken", "right"),
        ("refused", "right"),
    ]
    answers().print(grid("Peers", columns, rows))
    for item in peers:
        if item.problem:
            say(escape(f"{item.name}: {item.problem}"))
    return 0


@peer.command("show", epilog="Example: assay peer show lab.example.org")
@click.argument("name")
@served
@as_json
def show(name: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Show one peer with all that is known of it."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        item = client.peer(name)
    if as_json:
        print_json(item)
        return 0
    every = item.sources == [EVERY_SOURCE]
    lines = {
        "address": item.url,
        "sources": "every one" if every else ", ".join(item.sources),
        "types": ", ".join(item.types),
        "relayed": "yes" if item.relayed else "no: only what the peer did not get from its own peers",
        "token file": item.token_file or "none",
        "log": f"{item.log}, epoch {item.epoch}" if item.log else "not read yet",
        "position": formatting.count(item.position),
        "lag": "" if item.lag is None else formatting.count(item.lag),
        "added": formatting.date(item.added_at),
        "last pull": formatting.date(item.pulled_at) if item.pulled_at else "never",
        "taken": formatting.count(item.accepted),
        "already here": formatting.count(item.duplicate),
        "refused": formatting.count(item.refused) + (f"; the last: {item.refusal}" if item.refusal else ""),
        "problem": item.problem or "none",
    }
    answers().print(grid(item.name, ["", ""], [[word, escape(value)] for word, value in lines.items()]))
    return 0


@peer.command("remove", epilog="Example: assay peer remove lab.example.org")
@click.argument("name")
@served
@as_json
def remove(name: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Remove a peer: nothing more comes from it. What it brought stays, and still says from where it came."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        removed = client.remove_peer(name)
    if as_json:
        print_json(removed)
    else:
        say(f"{removed.name} is no peer any more; {formatting.count(removed.events)} events that it brought stay")
    return 0
