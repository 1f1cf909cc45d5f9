"""What a model server and the process of a replica say to each other: heads over a socket, arrays in shared memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from domain.configuration import Runtime
from domain.errors import ServiceUnavailable
from runner.protocol.tasks import Failed
from runner.serving.contract import Tensor

__all__ = ["KINDS", "Answer", "Buffer", "Head", "Infer", "Loaded", "Refused", "Reply", "TensorSpec", "memory_file"]

_ALIGNMENT = 64
_PAGE = 1 << 16
_SHARED = Path("/dev/shm")

KINDS = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}
"""numpy's types in the words of KServe."""


class TensorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output as it is asked for: `datatype` in the words of KServe (`FP32`), -1 for a free axis."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class Head(msgspec.Struct, frozen=True, array_like=True):
    """Where one array lies in a buffer, and what it is; `dtype` is numpy's name."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Infer(msgspec.Struct, frozen=True, array_like=True):
    """One call: its inputs, and how long their buffer is."""

    heads: list[Head]
    size: int


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """A replica is ready: what it is, what did the work of its first call, and what it takes.

    `max_batch` is 1 where answers of a joined call are not those of single calls, and `unjoined` says why. `length` is
    how many tokens an item of a measurement has.
    """

    model: dict[str, Any]
    runtime: Runtime
    threads: int
    options: dict[str, Any]
    device: str
    platform: str
    precision: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch: int
    unjoined: str | None = None
    length: int | None = None
    checkpoint: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """The outputs of a call, how long their buffer is, and the time of the model's own call in ms."""

    heads: list[Head]
    size: int
    call_ms: float


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """A call that failed while the process goes on."""

    failed: Failed


Reply = Loaded | Answer | Refused


def memory_file() -> int:
    """Return the descriptor of a file in memory without a name, which the kernel frees with its last user."""
    folder = str(_SHARED) if os.access(_SHARED, os.W_OK) else None
    with tempfile.TemporaryFile(dir=folder, prefix="assay-") as file:
        return os.dup(file.fileno())


class Buffer:
    """Arrays in a file that two processes map; one of them writes, and grows it where it is too small."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._map: mmap.mmap | None = None

    def write(self, tensors: list[Tensor]) -> tuple[list[Head], int]:
        """Copy the arrays into the buffer; return where each lies, and the length of it all."""
        import numpy as np

        arrays = [np.ascontiguousarray(tensor.array) for tensor in tensors]
        heads, end = [], 0
        for tensor, array in zip(tensors, arrays, strict=True):
            heads.append(Head(tensor.name, array.dtype.str, array.shape, end))
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        self._grow(end)
        for head, array in zip(heads, arrays, strict=True):
            np.frombuffer(self._mapped(end), np.uint8, array.nbytes, head.offset)[:] = array.reshape(-1).view(np.uint8)
        return heads, end

    def read(self, heads: list[Head], size: int) -> list[Tensor]:
        """Return the arrays as views, which are good until the next call."""
        import numpy as np

        return [
            Tensor(
                name=head.name,
                array=np.frombuffer(self._mapped(size), np.dtype(head.dtype), _count(head.shape), head.offset).reshape(
                    head.shape
                ),
            )
            for head in heads
        ]

    def close(self) -> None:
        """Let go of the file."""
        self._map = None
        os.close(self._descriptor)

    def _grow(self, size: int) -> None:
        if self._map is not None and len(self._map) >= size:
            return
        rounded = max(_PAGE, -(-size // _PAGE) * _PAGE)
        try:
            if hasattr(os, "posix_fallocate"):
                # Memory that is not there must be an error now, and not a signal when it is written.
                os.posix_fallocate(self._descriptor, 0, rounded)
            else:
                os.ftruncate(self._descriptor, rounded)
        except OSError as error:
            raise ServiceUnavailable(
                f"{rounded:,} bytes of shared memory are not there: {error.strerror}.",
                field="inputs",
                remedy="Send a smaller batch, or give /dev/shm more room.",
            ) from error
        self._map = mmap.mmap(self._descriptor, rounded)

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None or len(self._map) < size:
            self._map = mmap.mmap(self._descriptor, os.fstat(self._descriptor).st_size)
        return self._map


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
