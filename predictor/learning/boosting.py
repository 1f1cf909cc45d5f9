"""LightGBM's own interface, `lightgbm`, loaded without the libraries that it looks for and that we do not hand to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from domain.errors import PartMissing

__all__ = ["lightgbm"]


@contextmanager
def _absent(*names: str) -> Iterator[None]:
    """Let imports of these packages fail for as long as the block lasts."""
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)


# They would be three quarters of its import: a second of every service's start and 130 MB of its memory.
with _absent("sklearn", "pandas", "pyarrow"):
    try:
        import lightgbm
    except OSError as error:
        raise PartMissing(
            f"LightGBM finds no OpenMP library on this system ({error}).",
            remedy="Install it: apt install libgomp1 (Debian, Ubuntu), dnf install libgomp (Fedora), brew install libomp (macOS).",
        ) from error
