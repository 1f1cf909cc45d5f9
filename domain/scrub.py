"""Texts without what is private: paths become their last part; addresses, tokens and private names a word."""

from __future__ import annotations

import re

__all__ = ["private_parts", "scrub"]

_URL = r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+"
_PATH = r"(?:[A-Za-z]:\\|\\\\|(?<![\w.])~?/)(?:[^\s'\"<>:|*?,;()\[\]]+[\\/])*[^\s'\"<>:|*?,;()\[\]]*"
_EITHER = re.compile(f"(?P<url>{_URL})|(?P<path>{_PATH})")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")
_MAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""What colours words in a terminal, and is noise everywhere else."""
_OF_EVERY_MACHINE = ("/proc/", "/sys/", "/dev/")
_SECRET = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{12,}|hf_(?:oauth|jwt)_[A-Za-z0-9._-]{8,}|(?:assay_|sk-|ghp_)[A-Za-z0-9_-]{8,})\b"
)
"""A token of the hub has no underscore of its own: `hf_bert_test_results` is the name of a file."""


def scrub(message: str, *, names: tuple[str, ...] = (), limit: int = 2000) -> str:
    """Return the message without paths, addresses, tokens, colours and the words `names`, cut to `limit` characters."""
    text = _EITHER.sub(_shorter, _COLOURS.sub("", message))
    text = _SECRET.sub("<token>", text)
    text = _MAIL.sub("<address>", text)
    text = _ADDRESS.sub("<address>", text)
    for name in names:
        text = re.sub(_word(name), "<private>", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def private_parts(text: str, *, names: tuple[str, ...] = ()) -> list[str]:
    """Return the parts of a text that `scrub` would take out; not files that every machine has, nor what it leaves."""
    matches = [
        match[0]
        for match in _EITHER.finditer(text)
        if match["url"] or not (len(match[0]) == 1 or match[0].startswith(_OF_EVERY_MACHINE) or _is_left(text, match))
    ]
    for pattern in (_SECRET, _MAIL, _ADDRESS):
        matches += pattern.findall(text)
    for name in names:
        matches += re.findall(_word(name), text)
    return matches


def _is_left(text: str, match: re.Match[str]) -> bool:
    return text[: match.start()].endswith("…")


def _word(name: str) -> str:
    return rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"


def _shorter(match: re.Match[str]) -> str:
    if match["url"]:
        return re.sub(r"^([a-z0-9+.-]+)://.*$", r"<\1 address>", match["url"], flags=re.DOTALL)
    last = re.split(r"[\\/]", match["path"].rstrip("\\/"))[-1]
    return f"…/{last}" if last not in ("", "~") else match["path"] if len(match["path"]) == 1 else "…"
