"""What the documents of the earlier framework claim: which models work where, how well, and how fast.

Claims are not evidence. They are typed in from those documents (`data/claims.json`), each with the document, its edition
and the section that says it; no document names the hardware, the precision or the versions behind a figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

import domain

__all__ = ["LEVELS", "WORKS", "Claim", "Target", "claims", "claims_of"]

LEVELS = ("high", "medium", "low")
WORKS = (*LEVELS, "supported")
"""Words that claim it works; the others are `unsupported`, `partial`, `limited`, `mocked` and `simulated`."""

_UNITS: Mapping[str, tuple[str, float, str]] = {
    "tokens_per_s": ("tokens_per_s", 1, "{:g} tokens/s"),
    "memory_mb": ("peak_memory_bytes", 1e6, "{:g} MB"),
    "memory_gb": ("peak_memory_bytes", 1e9, "{:g} GB"),
    "latency_s": ("latency_ms", 1e3, "{:g} s"),
    "generation_s": ("latency_ms", 1e3, "{:g} s"),
    "preprocess_s": ("preprocess_ms", 1e3, "{:g} s"),
    "item_ms": ("item_ms", 1, "{:g} ms an item"),
    "frame_ms": ("frame_ms", 1, "{:g} ms a frame"),
    "first_ms": ("first_run_ms", 1, "{:g} ms"),
    "batch8_ms": ("latency_ms", 1, "{:g} ms at batch 8"),
    "realtime_factor": ("realtime_factor", 1, "{:g} times real time"),
    "work_per_audio": ("realtime_factor", -1, "{:g} times real time"),
    "ms_per_audio_s": ("realtime_factor", -1000, "{:g} ms a second of audio"),
    "speedup_low": ("speedup_low", 1, "from {:g} times the CPU"),
    "speedup_high": ("speedup_high", 1, "to {:g} times the CPU"),
}
"""By column of the documents: our metric, the factor to our unit (negative: over the value), and how it was printed."""


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which models a name stands for: these ids, these families, and these categories without some families."""

    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row with `model_id`, `family` and `category` is of one of them."""
        return (
            row.get("model_id") in self.models
            or row.get("family") in self.families
            or (row.get("category") in self.categories and row.get("family") not in self.without)
        )


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a document says of a name on a platform; `name` is the word it uses.

    Either `says` how far it works, or `metric` has a `value` in Assay's units, as `printed` there. `simulated` where the
    document says that nothing was run.
    """

    id: str
    name: str
    target: Target
    platform: str
    says: str | None = None
    metric: str | None = None
    value: float | None = None
    printed: str | None = None
    sizes: Mapping[str, float] = msgspec.field(default_factory=dict)
    simulated: bool = False
    note: str | None = None
    document: str
    section: str


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    edition: str


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    platform: str = ""
    says: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    note: str | None = None


class _Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    document: str
    section: str


class _Support(_Place, frozen=True, kw_only=True, forbid_unknown_fields=True):
    platforms: tuple[str, ...]
    rows: tuple[_Row, ...]


class _List(_Place, frozen=True, kw_only=True, forbid_unknown_fields=True):
    platform: str
    says: str
    names: tuple[str, ...]
    note: str | None = None


class _Figures(_Place, frozen=True, kw_only=True, forbid_unknown_fields=True):
    columns: tuple[str, ...]
    rows: tuple[_Row, ...]
    sizes: dict[str, float] = {}
    simulated: bool = False


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    about: str
    documents: dict[str, _Document]
    names: dict[str, Target]
    support: tuple[_Support, ...]
    lists: tuple[_List, ...]
    figures: tuple[_Figures, ...]


@cache
def claims() -> tuple[Claim, ...]:
    """Return every claim in the order of the documents' tables: support, lists of what does not work, then figures."""
    file = msgspec.json.decode((files(domain) / "data" / "claims.json").read_bytes(), type=_File)
    return (*_support(file), *_listed(file), *_figures(file))


def claims_of(row: Mapping[str, Any]) -> tuple[Claim, ...]:
    """Return what is claimed of the model, family or category of a row on its platform."""
    return tuple(claim for claim in claims() if claim.platform == row.get("platform") and claim.target.holds(row))


def _support(file: _File) -> Iterator[Claim]:
    for table in file.support:
        for row in table.rows:
            for platform, says in zip(table.platforms, row.says, strict=True):
                yield _claim(file, table, row.name, platform, says=says, note=row.note)


def _listed(file: _File) -> Iterator[Claim]:
    for item in file.lists:
        for name in item.names:
            yield _claim(file, item, name, item.platform, says=item.says, note=item.note)


def _figures(file: _File) -> Iterator[Claim]:
    for table in file.figures:
        for row in table.rows:
            for column, value in zip(table.columns, row.values, strict=True):
                metric, factor, shape = _UNITS[column]
                sizes = {**table.sizes, **({"batch_size": 8.0} if column == "batch8_ms" else {})}
                yield _claim(
                    file,
                    table,
                    row.name,
                    row.platform,
                    metric=metric,
                    column=column,
                    printed=shape.format(value),
                    value=value * factor if factor > 0 else -factor / value,
                    sizes=sizes,
                    simulated=table.simulated,
                    note=row.note,
                )


def _claim(file: _File, place: _Place, name: str, platform: str, *, column: str = "", **report: Any) -> Claim:
    document = file.documents[place.document]
    parts = (place.id, name, platform, *((column,) if column else ()))
    return Claim(
        id=":".join(parts),
        name=name,
        target=file.names[name],
        platform=platform,
        document=f"{document.title} ({document.edition})",
        section=place.section,
        **report,
    )
