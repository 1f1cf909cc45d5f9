"""`assay price`: what an hour of a machine costs, and what one of your own does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import rich_click as click
from rich.markup import escape
from rich.table import Table

from assay.cli.options import AS_OF, as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.errors import NotFound, UnknownHardware, UsageError
from presentation import formatting

__all__ = ["price", "price_table"]

Row = Mapping[str, Any]
SHOWN = 40
OWN_COST = ("purchase_usd", "years", "utilisation", "watts", "usd_per_kwh")


@click.group(epilog="Examples: assay price list --hardware nvidia-l4 · assay price add rtx4090 --usd-per-hour 0.25")
def price() -> None:
    """What an hour of a machine costs: the list that ships, price lists that were imported, and your own machines."""


@price.command("list")
@click.option("--hardware", metavar="SLUG", help="One hardware, or an instance type such as aws:g5.xlarge.")
@click.option("--provider", help="One provider, such as aws or own.")
@click.option("--region", help="One region.")
@click.option("--spot/--on-demand", default=None, help="Spot prices alone, or those on demand; both by default.")
@click.option("--as-of", type=AS_OF, help="As of a position of the log, or a snapshot.")
@click.option("--all", "every", is_flag=True, help=f"Every row; else the first {SHOWN}.")
@served
@as_json
def list_prices(every: bool, server: str | None, token: str | None, as_json: bool, **filters: Any) -> int:
    """List the offers that hold, cheapest device first, with the day of each."""
    from assay.cli.connection import reading

    with reading(server, token) as client:
        rows = client.prices(**filters)
    if as_json:
        print_json(rows)
    else:
        answers().print(price_table(rows if every else rows[:SHOWN], f"{len(rows)} prices, US dollars an hour"))
        _remarks(rows, every=every)
    return 0 if rows else 1


def price_table(rows: Sequence[Row], title: str) -> Table:
    """Return one row an offer; `*` marks a stale price."""
    return grid(
        title,
        [
            "hardware",
            ("count", "right"),
            "machine",
            "region",
            ("kind", "fixed"),
            ("a device", "right"),
            ("all", "right"),
            ("dated", "fixed"),
        ],
        [
            [
                row["hardware"],
                str(row["count"]),
                f"{row['provider']}:{row['instance']}" if row["instance"] else row["provider"],
                row["region"] or formatting.MISSING,
                "spot" if row["spot"] else "on demand",
                formatting.significant(row["usd_per_device"]),
                formatting.significant(row["usd_per_hour"]),
                f"{row['date'] or 'undated'}{' *' if row['stale'] else ''}",
            ]
            for row in rows
        ],
    )


def _remarks(rows: Sequence[Row], *, every: bool) -> None:
    if not every and len(rows) > SHOWN:
        say(f"{len(rows) - SHOWN} more: --all shows them.")
    if stale := sum(row["stale"] for row in rows):
        say(f"* {stale} are older than 90 days, or undated: import prices of today (docs/prices.md).")


@price.command(
    "add",
    epilog="""\b
Examples:
  assay price add nvidia-rtx-4090 --usd-per-hour 0.25
  assay price add nvidia-rtx-4090 --purchase-usd 2400 --years 3 --utilisation 0.5 --watts 450 --usd-per-kwh 0.30
  assay price add nvidia-l4 --usd-per-hour 0.71 --provider gcp --instance g2-standard-4 --region us-central1""",
)
@click.argument("hardware")
@click.option("--usd-per-hour", type=float, metavar="X", help="US dollars for an hour of the whole machine.")
@click.option("--provider", default="own", show_default=True, help="Who asks it.")
@click.option("--date", "day", metavar="DAY", help="From which day on, as 2026-01-31; today by default.")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Devices in the machine.")
@click.option("--instance", help="The provider's name of the machine.")
@click.option("--region", help="Where it stands.")
@click.option("--spot", is_flag=True, help="It may be taken away.")
@click.option("--source", help="Where you read it.")
@click.option("--purchase-usd", type=float, metavar="X", help="Own machine: what it cost.")
@click.option("--years", type=float, metavar="N", help="Own machine: how long it is used.")
@click.option("--utilisation", type=float, metavar="SHARE", help="Own machine: share of the hours in which it works.")
@click.option("--watts", type=float, metavar="W", help="Own machine: what it draws while it works.")
@click.option("--usd-per-kwh", type=float, metavar="X", help="Own machine: what electricity costs.")
@served
def add_price(hardware: str, server: str | None, token: str | None, **said: Any) -> int:
    """Publish what an hour costs, from a day on: a price, or what an own machine's is made of."""
    from assay.cli.connection import connected, event_source
    from domain.events import PRICE_PUBLISHED, decode_event, encode_event, new_event

    usd_per_hour, source = _asked(said)
    with connected(server, token) as client:
        result = _hardware(client, hardware)
        offer = _offer(said, result, usd_per_hour, source)
        event = new_event(PRICE_PUBLISHED, offer, source=event_source(), time=datetime.now(UTC))
        decode_event(encode_event(event))
        answer = client.post_events([event])
        client.wait_for(answer["last_position"])
    each = f", {formatting.significant(usd_per_hour / said['count'])} a device" if said["count"] > 1 else ""
    say(
        f"{result['id']}: {formatting.significant(usd_per_hour)} USD an hour{each} from {offer['date']} on ({said['provider']})"
    )
    if source:
        say(escape(source))
    say(f"published (position {answer['last_position']})")
    return 0


def _asked(said: Mapping[str, Any]) -> tuple[float, str | None]:
    """Return the price of an hour and its source, from what was typed: the price itself, or what an own cost is made of."""
    from domain.catalogues.prices import own_cost

    typed = {name: said[name] for name in OWN_COST if said[name] is not None}
    if said["usd_per_hour"] is not None:
        if typed:
            raise UsageError(
                "a price and what it is made of were typed.", field="usd_per_hour", remedy="Give one of the two."
            )
        return said["usd_per_hour"], said["source"]
    if missing := [f"--{name.replace('_', '-')}" for name in OWN_COST if name not in typed]:
        what = (
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing." if typed else "no price was typed."
        )
        raise UsageError(what, field="usd_per_hour", remedy="Give --usd-per-hour, or all that an own cost is made of.")
    cost = own_cost(**typed)
    return cost.usd_per_hour, f"{said['source']}: {cost.formula}" if said["source"] else cost.formula


def _hardware(client: Any, name: str) -> Row:
    """Return the row of a hardware that the service knows; UnknownHardware with the nearest names for another."""
    from domain.catalogues.hardware import nearest

    try:
        row: Row = client.one_hardware(name)["hardware"]
    except NotFound as error:
        raise UnknownHardware(
            name, nearest(name), remedy="A machine of yours is known once `assay bench` has measured on it."
        ) from error
    return row


def _offer(said: Mapping[str, Any], result: Row, usd_per_hour: float, source: str | None) -> dict[str, Any]:
    """Return the event's data, by the rules of a price list's row."""
    from domain.catalogues.prices import offer_from_row

    row = {name: str(said[name] or "") for name in ("provider", "instance", "region", "count")}
    row |= {
        "hardware": result["id"],
        "kind": result.get("kind") or "other",
        "spot": "yes" if said["spot"] else "no",
        "usd_per_hour": repr(usd_per_hour),
        "date": said["day"] or datetime.now(UTC).date().isoformat(),
    }
    offer = offer_from_row(row)
    document = {"instance": offer.instance, "region": offer.region, "source": source}
    return {
        "hardware": {
            "id": result["id"],
            "count": offer.count,
            **({"kind": result["kind"]} if result.get("kind") else {}),
        },
        "provider": offer.provider,
        "usd_per_hour": offer.usd_per_hour,
        "date": offer.date,
        "spot": offer.spot,
        **{name: value for name, value in document.items() if value is not None},
    }
