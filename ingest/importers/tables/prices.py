"""Price lists as CSV: each row is what a provider asks for an hour of a machine; `docs/prices.md` says what the columns mean.

A price list may name the packaged columns `vcpus`, `host_cpu` and `host_memory_gib`; a price has no room for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from domain.canonical import drop_nulls
from domain.catalogues.prices import COLUMNS, REQUIRED, Offer, offer_from_row
from domain.errors import InvalidInput
from domain.events import PRICE_PUBLISHED
from ingest.importers.files import File
from ingest.importers.identity import row_id
from ingest.importers.reading import BadFile, csv_rows, csv_text
from ingest.importers.refusals import Refused
from ingest.importers.tables.csv_drafts import header_of

__all__ = ["Prices", "price_event"]

SOURCE = "urn:assay:importer:prices"
_ASKED = ("usd_per_hour", "price_per_hour")


class Prices:
    """Price lists (CSV)."""

    name = "prices"
    title = "price lists: provider, hardware, usd_per_hour, date … (docs/prices.md)"

    def sniff(self, file: File) -> bool:
        """Return whether the first line names a provider, a hardware and a price of an hour."""
        header = header_of(file)
        return {"provider", "hardware"} <= set(header) and any(name in header for name in _ASKED)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield one published price a row; a row that gives an earlier one another price on the same day is refused.

        BadFile where a column is unknown or a needed one is not there.
        """
        _require(header_of(file))
        seen: dict[tuple[Any, ...], tuple[int, float]] = {}
        for item in csv_rows(file):
            if isinstance(item, Refused):
                yield item
                continue
            line, row = item
            try:
                offer = offer_from_row(row)
            except InvalidInput as error:
                reason = f"{error.detail} {error.remedy or ''}".strip()
                yield _refused(file, line, row, error.field, reason)
                continue
            first, price = seen.setdefault((*offer.what, offer.date), (line, offer.usd_per_hour))
            if price != offer.usd_per_hour:
                reason = f"line {first} gives this offer another price on the same day, {price:g} USD"
                yield _refused(file, line, row, "usd_per_hour", reason)
            elif first == line:
                yield price_event(offer)


def _require(header: list[str]) -> None:
    for name in REQUIRED:
        if name not in header:
            raise BadFile(f"has no column {name!r}; a price list needs {', '.join(REQUIRED)} and {' or '.join(_ASKED)}")
    if unknown := [name for name in header if name and name not in COLUMNS]:
        raise BadFile(f"has a column {unknown[0][:80]!r}, which no price list has; known are {', '.join(COLUMNS)}")


def _refused(file: File, line: int, row: dict[str, str], field: str | None, reason: str) -> Refused:
    content = csv_text([list(row), list(row.values())])
    return Refused(path=file.name, row=line, field=field, format="prices", reason=reason, content=content)


def price_event(offer: Offer, source: str = SOURCE) -> dict[str, Any]:
    """Return the event that publishes a dated offer; the same offer gives the same event, id and all."""
    data = drop_nulls(
        {
            "hardware": {"id": offer.hardware, "kind": offer.kind, "count": offer.count},
            "provider": offer.provider,
            "usd_per_hour": offer.usd_per_hour,
            "date": offer.date,
            "instance": offer.instance,
            "region": offer.region,
            "spot": offer.spot,
            "source": offer.source,
        }
    )
    return {
        "specversion": "1.0",
        "id": row_id("prices", 1, data),
        "source": source,
        "type": PRICE_PUBLISHED,
        "time": f"{offer.date}T00:00:00Z",
        "datacontenttype": "application/json",
        "data": data,
    }
