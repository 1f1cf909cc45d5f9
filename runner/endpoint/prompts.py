"""Prompts of a given number of tokens: exact where a tokenizer is at hand, measured against the server's count where not.

Every prompt begins with words of its own, so that a server that remembers prefixes has read none of it before.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from domain.errors import PartMissing, UsageError

__all__ = ["Counter", "Prompts", "counter_of"]

_NOUNS = """
time year people way day man thing woman life child world school state family student group country problem hand
part place case week company system program question work government number night point home water room mother
area money story fact month lot right study book eye job word business issue side kind head house service friend
father power hour game line end member law car city community name president team minute idea body information
back parent face others level office door health person art war history party result change morning reason
research girl guy moment air teacher force education
"""
WORDS = tuple(_NOUNS.split())
"""Frequent nouns: most vocabularies have each as one token."""

Counter = Callable[[str], int]


def counter_of(path: str) -> Counter:
    """Return what counts the tokens of a text: a `tokenizer.json`, or a folder that has one; raises UsageError.

    Special tokens are counted where the tokenizer adds them by itself. PartMissing where `tokenizers` is not installed.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise PartMissing(
            "the package tokenizers is not installed.", field="tokenizer", remedy="pip install tokenizers"
        ) from None
    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise UsageError(f"{path} holds no tokenizer.json.", field="tokenizer", remedy="Name the file or its folder.")
    try:
        tokenizer: Any = Tokenizer.from_file(str(file))
    except Exception as error:  # The library raises bare Exception for what it cannot read.
        raise UsageError(
            f"{path} is no tokenizer: {error}.", field="tokenizer", remedy="Name a tokenizer.json."
        ) from None
    return lambda text: len(tokenizer.encode(text).ids)


class Prompts:
    """Prompts one after the other, the same for the same seed. `words` is how many each has before it is fitted."""

    def __init__(self, tokens: int, seed: int, count: Counter | None = None) -> None:
        self.tokens = tokens
        self.words = tokens
        self._count = count
        self._drawn = random.Random(seed)

    @property
    def exact(self) -> bool:
        """Whether each has exactly that many tokens by the tokenizer that was given."""
        return self._count is not None

    def fit(self, value: int) -> bool:
        """Correct the number of words by the tokens that a server counted in the last prompt; False where it fits."""
        if self.exact or value == self.tokens:
            return False
        self.words = max(1, self.words + self.tokens - value)
        return True

    def next(self) -> str:
        """Return another prompt."""
        words = self._drawn.choices(WORDS, k=self.words)
        text = " ".join(words)
        if self._count is None:
            return text
        for _ in range(8):
            off = self._count(text) - self.tokens
            if off == 0:
                return text
            words = words[:-off] if 0 < off < len(words) else words + self._drawn.choices(WORDS, k=max(-off, 1))
            text = " ".join(words)
        raise UsageError(
            f"no prompt of exactly {self.tokens} tokens could be made.",
            field="input_tokens",
            remedy="Take another number: this tokenizer splits common words.",
        )
