"""Messages without what is private on this machine: `domain.scrub` with the names of its user and of itself."""

from __future__ import annotations

import getpass
import socket

from domain import scrub as texts

__all__ = ["private_names", "private_parts", "scrub"]


def scrub(message: str, *, names: tuple[str, ...] | None = None, limit: int = 2000) -> str:
    """Return the message scrubbed, by default also of this user's and this machine's name."""
    return texts.scrub(message, names=private_names() if names is None else names, limit=limit)


def private_parts(text: str, *, names: tuple[str, ...] | None = None) -> list[str]:
    """Return the parts of a text that `scrub` would take out."""
    return texts.private_parts(text, names=private_names() if names is None else names)


def private_names() -> tuple[str, ...]:
    """Return names worth hiding: not root, not localhost, nothing shorter than three letters."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    host = socket.gethostname().split(".")[0]
    common = {"root", "localhost", "user", "runner"}
    return tuple(name for name in (user, host) if len(name) > 2 and name.lower() not in common)
