"""A predictor made again from the log: the same bits, or what differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["differences"]

MOST = 20
_LONGEST = 60


def differences(kept: Any, made: Any) -> list[str]:
    """Return by path what differs between the documents of two artifacts, at most 20 of them and how many more."""
    result = list(_differing(kept, made, ""))
    more = [f"and {len(result) - MOST} more"] if len(result) > MOST else []
    return [*result[:MOST], *more]


def _differing(kept: Any, made: Any, path: str) -> Iterator[str]:
    if isinstance(kept, dict) and isinstance(made, dict):
        for name in sorted({*kept, *made}):
            below = f"{path}.{name}" if path else name
            if name not in kept or name not in made:
                yield f"{below}: only in the {'new' if name not in kept else 'kept'} one"
            else:
                yield from _differing(kept[name], made[name], below)
    elif isinstance(kept, list) and isinstance(made, list) and len(kept) == len(made):
        for index, (item, other) in enumerate(zip(kept, made, strict=True)):
            yield from _differing(item, other, f"{path}[{index}]")
    elif isinstance(kept, str) and isinstance(made, str) and "\n" in kept:
        yield from _differing_text(kept.splitlines(), made.splitlines(), path)
    elif kept != made:
        yield f"{path}: {_short(kept)} was kept, {_short(made)} is made now"


def _differing_text(kept: list[str], made: list[str], path: str) -> Iterator[str]:
    lines = [number for number, (item, other) in enumerate(zip(kept, made, strict=False), 1) if item != other]
    if lines:
        yield f"{path}: line {lines[0]} and {len(lines) - 1} more"
    elif len(kept) != len(made):
        yield f"{path}: {len(kept)} lines were kept, {len(made)} are made now"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
