"""Text of events in Markdown that others read: shown as it is, and never an image, a link or markup."""

from __future__ import annotations

import re

__all__ = ["code", "literal"]

_MARKS = re.compile(r"([\\`*_\[\]<>|#])")


def literal(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return " ".join(_MARKS.sub(r"\\\1", text).split("\n")).replace("\r", " ")


def code(text: str) -> str:
    """Return text as inline code on one line; the fence is longer than any row of backticks in it."""
    text = " ".join(text.splitlines())
    if "`" not in text:
        return f"`{text}`"
    fence = "`" * (max(map(len, re.findall("`+", text))) + 1)
    return f"{fence} {text} {fence}"
