"""Workload and execution of a batch: each distinct pair is canonicalised once, in Python, by the domain's own rule."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from domain.canonical import canonical
from domain.configuration import Execution, Workload, canonical_part
from domain.errors import InvalidInput

__all__ = ["Part", "Poison", "part_table"]

Part = tuple[str | None, str | None, str | None, str | None]
"""Workload and execution as sent, platform and precision as observed."""

_STRING, _INTEGER, _NUMBER, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_SCHEMA = pa.schema(
    [
        ("workload_sent", _STRING), ("execution_sent", _STRING),
        ("observed_platform", _STRING), ("observed_precision", _STRING),
        ("workload_key", _STRING), ("execution_key", _STRING),
        ("mode", _STRING), ("scenario", _STRING), ("batch_size", _INTEGER), ("sequence_length", _INTEGER),
        ("image_size", _INTEGER), ("images", _INTEGER), ("audio_seconds", _NUMBER), ("frames", _INTEGER),
        ("input_tokens", _INTEGER), ("output_tokens", _INTEGER), ("concurrency", _INTEGER),
        ("arrival_rate_per_s", _NUMBER), ("optimizer", _STRING), ("gradient_checkpointing", _FLAG),
        ("platform", _STRING), ("precision", _STRING), ("platform_asked", _STRING), ("precision_asked", _STRING),
        ("runtime_name", _STRING), ("runtime_version", _STRING), ("compiled", _FLAG), ("layout", _STRING),
        ("threads", _INTEGER), ("streams", _INTEGER), ("parallelism", _STRING), ("power_limit_w", _NUMBER),
        ("options", _STRING),
    ]
)  # fmt: skip


class Poison(Exception):
    """An event of the batch cannot be projected, whatever is tried."""


def part_table(parts: Iterable[Part]) -> pa.Table:
    """Return one row a distinct part: its canonical texts and its columns; Poison where one cannot be read."""
    return pa.Table.from_pylist([_row(*part) for part in parts], schema=_SCHEMA)


@lru_cache(maxsize=65_536)
def _row(
    workload_sent: str | None, execution_sent: str | None, platform: str | None, precision: str | None
) -> dict[str, Any]:
    try:
        workload = msgspec.json.decode(workload_sent or "null", type=Workload)
        asked = msgspec.json.decode(execution_sent or "null", type=Execution)
        actual = msgspec.structs.replace(
            asked, platform=platform or asked.platform, precision=precision or asked.precision
        )
        workload_key = canonical_part(msgspec.to_builtins(workload))
        execution_key = canonical_part(msgspec.to_builtins(actual))
        parallelism = _text(msgspec.to_builtins(asked.parallelism))
        options = _text(asked.options)
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise Poison(f"workload or execution: {error}") from error
    return {
        **{name: getattr(workload, name) for name in Workload.__struct_fields__},
        "workload_sent": workload_sent, "execution_sent": execution_sent,
        "observed_platform": platform or "", "observed_precision": precision or "",
        "workload_key": workload_key, "execution_key": execution_key,
        "platform": actual.platform, "precision": actual.precision,
        "platform_asked": asked.platform, "precision_asked": asked.precision,
        "runtime_name": asked.runtime.name if asked.runtime else None,
        "runtime_version": asked.runtime.version if asked.runtime else None,
        "compiled": asked.compiled, "layout": asked.layout, "threads": asked.threads, "streams": asked.streams,
        "parallelism": parallelism, "power_limit_w": asked.power_limit_w, "options": options,
    }  # fmt: skip


def _text(value: Any) -> str | None:
    return None if value is None else canonical(value).decode()
