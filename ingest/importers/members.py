"""Members of the documents that other tools wrote, taken with care: figures by path, times, latencies, devices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from domain.catalogues import hardware
from domain.catalogues.slugs import slug
from domain.statistics import SAMPLES_NEEDED
from ingest.importers.files import File
from ingest.importers.identity import hardware_of
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow

__all__ = [
    "UNKNOWN",
    "UNKNOWN_CPU",
    "UNKNOWN_GPU",
    "as_said",
    "beside",
    "bytes_of",
    "count",
    "cpu_of",
    "first_word",
    "gpus_of",
    "items",
    "latency_of",
    "members",
    "model_name",
    "moment",
    "quantity",
    "series",
    "truth",
    "within",
    "word",
]

UNKNOWN: dict[str, Any] = {"id": "unknown", "kind": "other", "count": 1}
UNKNOWN_CPU: dict[str, Any] = {"id": "unknown-cpu", "kind": "cpu", "count": 1}
UNKNOWN_GPU: dict[str, Any] = {"id": "unknown-gpu", "kind": "gpu", "count": 1}
_PATH = re.compile(r"[A-Za-z]:[\\/]|[\\/~]|\.{1,2}[\\/]")
_EPOCH_MS = 10**11
"""A number above this counts milliseconds since 1970, one below it seconds: they meet in 1973 and in 5138."""


def within(value: Any, path: str) -> Any:
    """Return the member at a dotted path, or None where it, or an object on the way, is missing."""
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def members(value: Any, path: str) -> dict[str, Any]:
    """Return the object at a path, empty where it is missing or null; BadRow where it is something else."""
    members = within(value, path)
    if members is None:
        return {}
    if not isinstance(members, dict):
        raise BadRow(path, "is not an object")
    return members


def items(value: Any, path: str) -> list[Any]:
    """Return the list at a path, empty where it is missing or null; BadRow where it is something else."""
    values = within(value, path)
    if values is None:
        return []
    if not isinstance(values, list):
        raise BadRow(path, "is not a list")
    return values


def quantity(value: Any, path: str, *, unit: str | None = None, zero: bool = False) -> float | None:
    """Return the number at a path in Assay's unit, None where it is missing; see `reading.number`."""
    outer, _, name = path.rpartition(".")
    try:
        return number(members(value, outer) if outer else value, name, unit=unit, zero=zero)
    except BadRow as error:
        raise BadRow(path if error.field == name else error.field, error.reason) from None


def count(value: Any, path: str) -> int | None:
    """Return the whole number above 0 at a path, None where it is missing."""
    outer, _, name = path.rpartition(".")
    try:
        return whole(members(value, outer) if outer else value, name)
    except BadRow as error:
        raise BadRow(path if error.field == name else error.field, error.reason) from None


def word(value: Any, path: str) -> str | None:
    """Return the text at a path, None where it is missing or no text."""
    outer, _, name = path.rpartition(".")
    result = within(value, outer) if outer else value
    return text(result, name) if isinstance(result, dict) else None


def first_word(value: Any, paths: Iterable[str]) -> str | None:
    """Return the first text that is there."""
    return next((result for path in paths if (result := word(value, path)) is not None), None)


def truth(value: Any) -> bool | None:
    """Return a flag that a file may write as true, 1 or "true"; None where it says nothing."""
    if isinstance(value, bool):
        return value
    said = str(value).strip().lower()
    return {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }.get(said)


def latency_of(
    said: Mapping[str, Any], fields: Mapping[str, str], *, unit: str, n: int | None = None, where: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a latency in ms from a file's statistics, `fields` being theirs by ours, and what was changed or left out.

    Percentiles beyond the median that `n` samples cannot support are left out. The second is for `Draft.original`.
    """
    row: dict[str, Any] = {}
    original: dict[str, Any] = {}
    for ours, theirs in fields.items():
        try:
            value = number(said, theirs, unit=unit, zero=ours == "stddev")
        except BadRow as error:
            raise BadRow(where + theirs, error.reason) from None
        if value is None:
            continue
        supported = n is None or n >= SAMPLES_NEEDED.get(ours, 0)
        if supported:
            row[ours] = value
        if not supported or unit != "ms":
            original[f"{where}{theirs} ({unit})"] = as_said(said[theirs])
    if row and n is not None:
        row["n"] = n
    return row, original


def series(values: Any, field: str, unit: str) -> list[float]:
    """Return single times in ms, empty where there are none or one of them is missing; BadRow where one is no number."""
    if not isinstance(values, list):
        return []
    times = [number({field: value}, field, unit=unit) for value in values]
    matching_times = [time for time in times if time is not None]
    return matching_times if len(matching_times) == len(times) else []


def as_said(value: Any) -> Any:
    """Return a value as an event can keep it: a number that JSON has, or up to 200 characters of its text."""
    if isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < 2**53):
        return value
    return str(value)[:200]


def bytes_of(value: Any, path: str, unit: str) -> int | None:
    """Return an amount of memory in bytes, None where it is missing or cannot be one."""
    try:
        result = quantity(value, path, unit=unit)
    except BadRow:
        return None
    return round(result) if result is not None and 1 <= result < 2**53 else None


def moment(said: Any, field: str) -> str | None:
    """Return a time as ISO 8601 in UTC, None where it is missing; BadRow where it is none.

    Texts are ISO 8601 or `20261122-065959`; numbers are seconds or milliseconds since 1970. A time that says no offset
    is read as UTC.
    """
    if said is None or (isinstance(said, str) and not said.strip()):
        return None
    try:
        if isinstance(said, bool):
            raise ValueError
        if isinstance(said, int | float):
            when = datetime.fromtimestamp(said / 1000 if abs(said) >= _EPOCH_MS else said, UTC)
        elif re.fullmatch(r"\d{8}-\d{6}", said.strip()):
            when = datetime.strptime(said.strip(), "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        else:
            when = datetime.fromisoformat(said.strip())
    except (ValueError, OverflowError, OSError, AttributeError):
        raise BadRow(field, "is not a time") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def model_name(said: str) -> str:
    """Return a model's name from what a command line was given: of a path only the last part, of a hub's cache the id."""
    said = said.strip()
    if not (_PATH.match(said) or "\\" in said or said.count("/") > 1):
        return said
    parts = [part for part in re.split(r"[\\/]+", said) if part not in ("", ".", "..", "~")]
    cached = next((part for part in parts if part.startswith("models--")), None)
    if cached:
        return cached.removeprefix("models--").replace("--", "/")
    return parts[-1] if parts else "unknown"


def beside(file: File, name: str) -> File | None:
    """Return the file of this name in the same folder, or None; what comes out of an archive has none beside it."""
    path = file.path.with_name(name)
    beside = file.path.name == file.base and path.is_file()
    return File(path, file.name.removesuffix(file.base) + name) if beside else None


def cpu_of(name: str | None, processors: int | None = None) -> dict[str, Any]:
    """Return a CPU as hardware. `processors` are the logical ones that a machine shows.

    A processor of the catalogue that shows all its cores, once or twice each, is the whole of it; any other number makes
    a slice, with the logical processors for cores, because such files do not say how many of them share one.
    """
    if name is None or slug(name) == "unknown":
        return UNKNOWN_CPU
    existing = hardware.find(name)
    if processors is None or existing is None or existing.cores is None:
        return hardware_of(name, kind="cpu", cores=processors)
    whole_of_it = processors in (existing.cores.value, 2 * existing.cores.value)
    return hardware_of(name, kind="cpu", cores=None if whole_of_it else processors)


def gpus_of(names: Iterable[str]) -> dict[str, Any]:
    """Return GPUs as hardware: of one name their count, of several names a device of its own.

    A name without a digit is its vendor's, not a device's.
    """
    matching_names = [name for name in names if any(letter.isdigit() for letter in name)]
    if not matching_names:
        return UNKNOWN_GPU
    each = [hardware_of(name, kind="gpu") for name in matching_names]
    different = list(dict.fromkeys(item["id"] for item in each))
    if len(different) == 1:
        return {**each[0], "count": len(each)}
    return {"id": "-and-".join(different)[:200], "kind": "gpu", "count": 1}
