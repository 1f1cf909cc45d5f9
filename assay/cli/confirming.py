"""What verbs that destroy something have in common: they ask first, and leave in the log what they did."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click

from domain.errors import UsageError

__all__ = ["confirm", "confirmed", "performed"]

Verb = TypeVar("Verb", bound=Callable[..., Any])


def confirmed(verb: Verb) -> Verb:
    """Add `--yes`."""
    return click.option("--yes", is_flag=True, help="Do not ask.")(verb)


def confirm(what: str, *, yes: bool) -> None:
    """Return where the user agrees; abort where not, and UsageError where nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{what} Nobody is there to agree.", field="yes", remedy="Add --yes.")
    click.confirm(f"{what} Go on?", abort=True, err=True)


def performed(url: str, action: str, on: str | None, details: dict[str, Any]) -> None:
    """Append to the log at `url` what was done here."""
    from api.background.audit import LOCAL, operation, record

    record(url, operation(action, LOCAL, on, details))
