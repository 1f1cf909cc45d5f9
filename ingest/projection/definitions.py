"""What a projection is made by: its statements, the code that reads parts, the names, the upcasters, the known types."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from importlib.resources import files

from domain.events import DATA_TYPES
from domain.upcasting import Upcasters
from ingest.projection.names import catalogue_digest
from ingest.projection.statements import FOLD, INSERTS, STANDING, TABLES, VIEWS

__all__ = ["definitions_digest"]

_CODE = ("fold.py", "facts.py", "small_batches.py", "dimensions.py", "names.py")


def definitions_digest(upcasters: Upcasters) -> str:
    """Return the digest of everything that tables depend on beside the log.

    Tables made by other definitions are made again, without anybody having to raise a number.
    """
    sha256 = hashlib.sha256()
    sha256.update(repr((TABLES, FOLD, STANDING, VIEWS, sorted(INSERTS))).encode())
    for name in _CODE:
        # The wheel imports from `assay.domain` what a clone imports from `domain`; their tables are the same.
        sha256.update(files(__package__).joinpath(name).read_bytes().replace(b"from assay.", b"from "))
    sha256.update(catalogue_digest().encode())
    sha256.update(repr(sorted(DATA_TYPES)).encode())
    for type_, (following, step) in sorted(upcasters.items(), key=lambda item: item[0]):
        sha256.update(repr((type_, following, _text(step))).encode())
    return sha256.hexdigest()


def _text(step: Callable[..., object]) -> str:
    try:
        return inspect.getsource(step)
    except (OSError, TypeError):
        return f"{step.__module__}.{step.__qualname__}"
