"""The one function that turns a vendor's name for a device into the slug that Assay keys facts by."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

__all__ = ["slug"]

_MARKS = re.compile(r"\((?:r|tm|c|igpu|dgpu)\)|[®™©]", re.IGNORECASE)
_CLOCK = re.compile(r"(?:^|\s)@.*$", re.DOTALL)
_NOT_WORD = re.compile(r"[^a-z0-9]+")
_COUNT = re.compile(r"\d+|dual|quad|six|eight|ten|twelve|sixteen")
_MAX_Q = re.compile(r"\b(?:with )?max-?q(?: design)?\b")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")

_NOISE = frozenset(
    (
        "corporation",
        "corp",
        "inc",
        "processor",
        "processors",
        "cpu",
        "graphics",
        "geforce",
        "tesla",
        "generation",
        "edition",
    )
)
_COUNTED = frozenset(("core", "cores", "gen"))
_PHRASES = (("tensor", "core", "gpu"), ("tensor", "core"), ("graphics", "card"))
_VENDOR_OF = {
    **dict.fromkeys(("tesla", "geforce", "quadro", "rtx", "gtx", "titan", "jetson"), "nvidia"),
    **dict.fromkeys(("radeon", "instinct", "epyc", "ryzen", "threadripper"), "amd"),
    **dict.fromkeys(("xeon", "core", "arc", "gaudi", "gaudi2", "gaudi3", "celeron", "pentium"), "intel"),
    **dict.fromkeys(("snapdragon", "adreno", "hexagon"), "qualcomm"),
    **dict.fromkeys(("graviton", "graviton2", "graviton3", "graviton4"), "aws"),
    **dict.fromkeys(("tpu", "trillium"), "google"),
}
_RENAMED = {"habana": "intel"}


@lru_cache(maxsize=4096)
def slug(name: str) -> str:
    """Return the stable lower-case slug of a vendor's device name: `[a-z0-9]` words joined by single hyphens.

    Marketing and packaging words, clock rates, core counts in words ("96-Core") and everything after "with" or "w/"
    are dropped, but a GPU "with Max-Q Design" stays one (`maxq`); a "+" becomes `plus`; a known series gets its vendor
    in front. `slug(slug(x)) == slug(x)`, and what
    holds no letter or digit is `unknown`. Ids of one machine's slice of a CPU come from `hardware.cpu_slug`.
    """
    text = unicodedata.normalize("NFKD", _CLOCK.sub("", _MARKS.sub(" ", name)))
    text = text.encode("ascii", "ignore").decode().lower().replace("w/", " with ").replace("+", " plus ")
    text = _MAX_Q.sub(" maxq ", text)
    words = [word for word in _NOT_WORD.split(text) if word]
    while (shorter := _pass(words)) != words:
        words = shorter
    return "-".join(words) or "unknown"


def _pass(words: list[str]) -> list[str]:
    """Apply every rule once; each rule only shortens or puts one vendor in front, so passes come to rest."""
    if "with" in words[1:]:
        words = words[: words.index("with", 1)]
    words = [_RENAMED.get(word, word) for word in words]
    if words and words[0] in _VENDOR_OF:
        words = [_VENDOR_OF[words[0]], *words]
    for phrase in _PHRASES:
        words = _without_phrase(words, phrase)
    words = _without_pairs(words)
    kept = [word for at, word in enumerate(words) if not (word in _NOISE and at > 0)]
    return kept[1:] if len(kept) > 1 and kept[0] == kept[1] and kept[0] in set(_VENDOR_OF.values()) else kept


def _without_phrase(words: list[str], phrase: tuple[str, ...]) -> list[str]:
    size = len(phrase)
    if phrase[0] not in words:
        return words
    for at in range(1, len(words) - size + 1):
        if tuple(words[at : at + size]) == phrase:
            return words[:at] + words[at + size :]
    return words


def _without_pairs(words: list[str]) -> list[str]:
    """Drop "96 core", "sixteen cores" and "12th gen"."""
    if _COUNTED.isdisjoint(words):
        return words
    for at, (first, second) in enumerate(pairwise(words)):
        counted = at > 0 and second in ("core", "cores") and _COUNT.fullmatch(first)
        if counted or (second == "gen" and _ORDINAL.fullmatch(first)):
            return words[:at] + words[at + 2 :]
    return words
