"""A table of kernel timings as a source publishes it: rows put together by device and software."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from domain.catalogues import hardware
from domain.catalogues.slugs import slug
from domain.payloads import KernelTypes
from ingest.importers.kernels.columns import Columns, Texts

__all__ = ["KernelTable", "device_named", "grouped", "platform_of"]

_PLATFORMS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu", "google": "tpu", "apple": "mps"}


class KernelTable(msgspec.Struct, kw_only=True):
    """The timings of one operator on one device with one software, as a source publishes them.

    `about` is the event's data without columns. `sizes` are arrays of whole numbers by name, -1 where there is none;
    `texts` columns of texts; `order` names what rows are sorted by, slowest first. `places` are the rows' places in
    `columns`, which they were read from; `doubts` are marks by name with a reason and a mask of the rows that bear them.
    """

    about: dict[str, Any]
    columns: Columns
    places: Any
    sizes: dict[str, Any]
    latency: Any
    order: Sequence[str]
    texts: dict[str, Texts] = msgspec.field(default_factory=dict)
    doubts: dict[str, tuple[str, Any]] = msgspec.field(default_factory=dict)

    @property
    def types(self) -> KernelTypes | None:
        """The number types that `about` gives."""
        said = self.about.get("types")
        return msgspec.convert(said, KernelTypes) if said else None

    def taken(self, chosen: Any) -> KernelTable:
        """Return the table of some of its rows, given by their places among them."""
        return KernelTable(
            about=self.about,
            columns=self.columns,
            places=self.places[chosen],
            sizes={name: values[chosen] for name, values in self.sizes.items()},
            latency=self.latency[chosen],
            order=self.order,
            texts={name: Texts(column.codes[chosen], column.values) for name, column in self.texts.items()},
            doubts={name: (reason, mask[chosen]) for name, (reason, mask) in self.doubts.items()},
        )


def device_named(names: Iterable[str | None], kind: str | None = None, count: int = 1) -> dict[str, Any]:
    """Return the hardware of an event by the first name that the catalogue knows; else the first name's own slug.

    With a `kind`, only entries of that kind are meant: a chip has a processor and a GPU of nearly the same name.
    """
    known = [name for name in names if name]
    for name in known:
        spec = hardware.find(name)
        if spec is not None and kind in (None, spec.kind):
            return {"id": spec.id, "kind": spec.kind, "count": count}
    named = {"id": slug(known[0]) if known else "unknown-gpu", "kind": kind, "count": count}
    return {key: value for key, value in named.items() if value is not None}


def platform_of(device: Mapping[str, Any]) -> str:
    """Return the platform that drives a GPU of its maker."""
    spec = hardware.find(device["id"])
    vendor = spec.vendor if spec is not None and spec.vendor else str(device["id"]).partition("-")[0]
    return _PLATFORMS.get(vendor, "other")


def grouped(columns: Columns, keys: Mapping[str, Texts]) -> Iterator[tuple[dict[str, str | None], Any]]:
    """Yield the kept rows by what they say in the key columns: those texts, and the rows' places."""
    import numpy as np

    kept = columns.kept
    if not len(kept):
        return
    combined = np.zeros(len(kept), np.int64)
    for column in keys.values():
        # Renumbered after each column, so that the product of many never overflows.
        _, combined = np.unique(combined * (len(column.values) + 1) + column.codes[kept] + 1, return_inverse=True)
    order = np.argsort(combined, kind="stable")
    starts = np.flatnonzero(np.diff(combined[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        places = kept[order[start:end]]
        codes = {name: int(column.codes[places[0]]) for name, column in keys.items()}
        yield {name: keys[name].values[code] if code >= 0 else None for name, code in codes.items()}, places
