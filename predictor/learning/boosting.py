"""LightGBM: its Python package where trees are fitted, and its library alone where they only predict.

The package imports scipy, narwhals and what else it finds, which takes longer than most answers do.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from domain.errors import PartMissing
from predictor.features.table import Array, Matrix

__all__ = ["Forest"]

_PACKAGE = "lightgbm"
_FLOAT64, _ROW_MAJOR, _NORMAL, _EVERY = 1, 1, 0, -1
"""Of LightGBM's C API: the type and the layout of a matrix, the kind of prediction, and how many iterations."""
_SETTINGS = b"num_threads=1"
"""With two threads every barrier waits for the slower core."""


class Forest:
    """Fitted trees that predict, from LightGBM text: what `lightgbm.Booster.predict` gives, by the same library."""

    def __init__(self, text: str) -> None:
        """Read the trees. Raises ValueError where the text is none of LightGBM, PartMissing where its library cannot be loaded."""
        self._library = _library()
        self._handle = ctypes.c_void_p()
        iterations = ctypes.c_int(0)
        self._checked(
            self._library.LGBM_BoosterLoadModelFromString(
                text.encode(), ctypes.byref(iterations), ctypes.byref(self._handle)
            )
        )
        weakref.finalize(self, self._library.LGBM_BoosterFree, self._handle).atexit = False

    def predict(self, values: Matrix) -> Array:
        """Return the prediction of each row of features, (rows,)."""
        rows = np.ascontiguousarray(values, dtype=np.float64)
        result = np.empty(len(rows), dtype=np.float64)
        written = ctypes.c_int64(0)
        self._checked(
            self._library.LGBM_BoosterPredictForMat(
                self._handle,
                rows.ctypes.data_as(ctypes.c_void_p),
                _FLOAT64,
                ctypes.c_int32(rows.shape[0]),
                ctypes.c_int32(rows.shape[1]),
                _ROW_MAJOR,
                _NORMAL,
                0,
                _EVERY,
                _SETTINGS,
                ctypes.byref(written),
                result.ctypes.data_as(ctypes.c_void_p),
            )
        )
        return result

    def _checked(self, code: int) -> None:
        if code:
            raise ValueError(f"LightGBM: {self._library.LGBM_GetLastError().decode()}")


@cache
def _library() -> Any:
    """Return LightGBM's library, found and loaded as its package does it, whose other modules are not imported."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {_PACKAGE!r}", name=_PACKAGE)
    path = Path(spec.origin).with_name("libpath.py")
    loader = importlib.util.spec_from_file_location(f"_{_PACKAGE}_libpath", path)
    assert loader is not None
    assert loader.loader is not None
    module = importlib.util.module_from_spec(loader)
    with _named():
        loader.loader.exec_module(module)
    library = module._LIB
    library.LGBM_GetLastError.restype = ctypes.c_char_p
    return library


@contextmanager
def _named() -> Iterator[None]:
    """Say of a library that cannot be loaded what to install."""
    try:
        yield
    except OSError as error:
        raise PartMissing(
            f"LightGBM finds no OpenMP library on this system ({error}).",
            remedy="Install it: apt install libgomp1 (Debian, Ubuntu), dnf install libgomp (Fedora), brew install libomp (macOS).",
        ) from error


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


_IMPORTING = threading.Lock()


def __getattr__(name: str) -> Any:
    """Import LightGBM's package when it is asked for, without the libraries that it looks for and that we do not hand to it."""
    if name != _PACKAGE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # They would be three quarters of its import: a second and 130 MB of a training's memory.
    with _IMPORTING, _named():
        if _PACKAGE in sys.modules:
            return sys.modules[_PACKAGE]
        with _absent("sklearn", "pandas", "pyarrow"):
            return importlib.import_module(_PACKAGE)
