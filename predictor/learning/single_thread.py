"""One thread for small matrices: with two, every product waits for the slower core, and its bits depend on how many."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["single_threaded"]


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded() -> AbstractContextManager[Any]:
    """Return a context in which linear algebra runs on one thread."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limited
