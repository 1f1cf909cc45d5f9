"""New names for models and hardware, declared one at a time or from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click
from rich.markup import escape

from assay.cli.options import served
from assay.cli.output import say
from domain.errors import UsageError
from presentation import formatting

__all__ = ["aliasing", "declare"]

Verb = TypeVar("Verb", bound=Callable[..., Any])


def aliasing(verb: Verb) -> Verb:
    """Add what the alias verbs have in common: their arguments, which `declare` takes."""
    for option in (
        served,
        click.option(
            "--file",
            "path",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Many at once, from a file that `assay import --names FILE` has written and you filled in.",
        ),
        click.option("--reason", help="Why; it stays in the log."),
        click.argument("canonical", required=False),
        click.argument("alias", required=False),
    ):
        verb = option(verb)
    return verb


def declare(
    kind: Any,
    *,
    alias: str | None,
    canonical: str | None,
    path: Path | None,
    reason: str | None,
    server: str | None,
    token: str | None,
) -> int:
    """Declare the aliases that were typed or stand in a file; return the exit code, once the tables hold them."""
    from assay.cli.connection import connected, event_source
    from domain.events import ALIAS_DECLARED, decode_event, encode_event, new_event
    from domain.payloads import AliasDeclared

    time = datetime.now(UTC)
    events = []
    for name, meant in _declared(kind, alias, canonical, path).items():
        data = AliasDeclared(kind=kind, alias=name, canonical=meant, reason=reason)
        events.append(new_event(ALIAS_DECLARED, data, source=event_source(), time=time))
        decode_event(encode_event(events[-1]))
    with connected(server, token) as client:
        answer = client.post_events(events)
        client.wait_for(answer["last_position"])
    for event in events[:20]:
        said = event["data"]
        say(escape(f"{said['alias']} now means {said['canonical']}{_doubt(kind, said['canonical'])}"))
    more = f"{formatting.count(len(events))} aliases" if len(events) > 1 else "declared"
    say(f"{more} (position {answer['last_position']})")
    return 0


def _declared(kind: str, alias: str | None, canonical: str | None, path: Path | None) -> Mapping[str, str]:
    """Return what is to be declared: the one pair that was typed, or those of a file."""
    from assay.cli.keep.name_file import read_names

    if path is None:
        if alias is None or canonical is None:
            raise UsageError(
                "an alias and what it means are needed.", field="alias", remedy="Type both, or name a file with --file."
            )
        return {alias: canonical}
    if alias is not None:
        raise UsageError("aliases were typed and named in a file.", field="file", remedy="Give the one or the other.")
    names = read_names(path, kind)
    if not names:
        raise UsageError(
            f"nothing is filled in under `{kind}:` of {path.name}.",
            field="file",
            remedy="Write the canonical id behind a name.",
        )
    return names


def _doubt(kind: str, canonical: str) -> str:
    """Return a remark on a canonical id that the catalogue does not have: it may be one of the user's own, or mistyped."""
    from domain.catalogues import hardware, models

    existing = models.find(canonical) if kind == "model" else hardware.find(canonical)
    return "" if existing else " (which is in no catalogue)"
