"""The ranking as tables: a line a device with what decides, and every column that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from dashboard.screens.recommend.limits import chance
from dashboard.screens.recommend.words import (
    RankedRow,
    energy_doubt,
    number,
    price_doubt,
    price_words,
    shown,
    title,
    variant_brief,
)
from dashboard.tables.result_table import Column, filled
from domain.catalogues import hardware
from presentation import formatting, loads
from presentation.answer_words import evidence_words, short_name
from presentation.charts import ENERGY, LATENCY

__all__ = ["every_column", "options_table"]

_MEANT = "Bars are intervals, all on one scale."


class _Rate(NamedTuple):
    """How often a call is done, in the words of its kind: a key of a row, the head of its column, and its words."""

    key: str
    head: str
    words: Callable[[float | None], str]


_RATES = {
    "transcription": _Rate("realtime_factor", "Real time", formatting.factor),
    "recording": _Rate("realtime_factor", "Real time", formatting.factor),
    "generation": _Rate("tokens_per_s", "Tokens", formatting.throughput),
    "request": _Rate("tokens_per_s", "Tokens", formatting.throughput),
}
_ITEMS = _Rate("throughput_per_s", "Throughput", formatting.throughput)


def options_table(
    rows: Sequence[RankedRow], reasons: Mapping[str, str], *, percentile: str, call: str = "", energy: bool = False
) -> list[Column]:
    """Return a line for each option, then one for each device that cannot be recommended, by the rule of its `reasons`.

    `call` is the kind of the call, which decides the unit of the rate; the `energy` of an item has a column where it was asked for.
    """
    rate, dollars = _RATES.get(call, _ITEMS), formatting.price_scale("")
    if all(number(row, rate.key) is None for row in rows):
        rate = _ITEMS
    columns = [
        _names(rows, reasons),
        _latency(rows, "latency_ms", f"{percentile} latency"),
        _latency(rows, "ttft_ms", "First token"),
        _latency(rows, "tpot_ms", "Each token"),
        Column(
            head=f"$ / {rows[0].get('price_unit')}" if rows else "$",
            values=[row.get("unit_usd") for row in rows],
            shown=[dollars.show(row.get("unit_usd")) for row in rows],
            help="Price of a unit of the work.",
        ),
        _memory(rows),
        Column(
            head=rate.head,
            values=[number(row, rate.key) for row in rows],
            shown=[rate.words(number(row, rate.key)) for row in rows],
        ),
        *([_energy(rows)] if energy else []),
        Column(head="Runs as", values=[_runs(row) for row in rows]),
        _surely(rows, "Meets limits"),
        Column(head="Evidence", values=[evidence_words(row.get("basis"), row.get("origin")) for row in rows]),
        Column(
            head="Rank",
            values=[None if row.get("added") else row.get("rank") for row in rows],
            shown=[formatting.MISSING if row.get("added") else str(row.get("rank_band")) for row in rows],
            help="1–3: too close to call. Added devices have none.",
        ),
    ]
    filled = [columns[0], *(_padded(column, reasons) for column in columns[1:] if _filled(column))]
    return [column for column in filled if column.values]


def _names(rows: Sequence[RankedRow], reasons: Mapping[str, str]) -> Column:
    slugs = [*(str(row.get("hardware")) for row in rows), *reasons]
    counts = [*(row.get("hardware_count") for row in rows), *(None for _ in reasons)]
    names = [short_name(slug, count) for slug, count in zip(slugs, counts, strict=True)]
    return Column(head="Device", values=names, links=[f"hardware?id={quote(slug)}" for slug in slugs])


def _padded(column: Column, reasons: Mapping[str, str]) -> Column:
    """Return a column with cells for the devices that cannot be recommended: the reason stands where others say how they run."""
    said = list(reasons.values()) if column.head == "Runs as" else [None] * len(reasons)
    nothing = said if column.head == "Runs as" else [formatting.MISSING] * len(reasons)

    def longer(values: Sequence[Any] | None) -> list[Any] | None:
        return None if values is None else [*values, *(None for _ in reasons)]

    return Column(
        head=column.head,
        values=[*column.values, *said],
        shown=[*(column.shown or (str(value) for value in column.values)), *cast("list[str]", nothing)],
        low=longer(column.low),
        high=longer(column.high),
        share=longer(column.share),
        help=column.help,
    )


def _filled(column: Column) -> bool:
    return any(value is not None for value in column.values) or column.head == "Runs as"


def _runs(row: RankedRow) -> str:
    precision = None if row.get("precision") == "unknown" else row.get("precision")
    how = " ".join(filter(None, [precision, "compiled" if row.get("compiled") else None]))
    return " · ".join(
        filter(
            None,
            [
                row.get("platform"),
                row.get("software"),
                how,
                loads.batch_words(cast("dict[str, Any]", row)),
                variant_brief(row),
            ],
        )
    )


def _latency(rows: Sequence[RankedRow], key: str, head: str) -> Column:
    values, low, high = ([number(row, f"{key}{end}") for row in rows] for end in ("", "_low", "_high"))
    words = [
        formatting.latency(
            value, least, most, mean=key == "latency_ms" and value is not None and bool(row.get("latency_is_mean"))
        )
        for row, value, least, most in zip(rows, values, low, high, strict=True)
    ]
    if all(end is None for end in low):
        return Column(head=head, values=values, shown=words)
    return Column(head=head, values=values, shown=words, low=low, high=high, help=_MEANT)


def _energy(rows: Sequence[RankedRow]) -> Column:
    said = [energy_doubt(row) for row in rows]
    words = [
        shown(row, ENERGY) + (f" ({doubt})" if doubt not in (None, "valid") else "")
        for row, doubt in zip(rows, said, strict=True)
    ]
    return Column(head="Energy an item", values=[number(row, ENERGY.key) for row in rows], shown=words)


def _memory(rows: Sequence[RankedRow]) -> Column:
    """Return what an option needs of its device's memory, with the share as a bar; the least where the peak is not known."""
    needed = [row.get("peak_memory_bytes") or row.get("memory_floor_bytes") for row in rows]
    held = [_capacity(str(row.get("hardware"))) for row in rows]
    words = [
        _of(need, there, least=row.get("peak_memory_bytes") is None)
        for row, need, there in zip(rows, needed, held, strict=True)
    ]
    shares = [None if need is None or not there else need / there for need, there in zip(needed, held, strict=True)]
    return Column(head="Memory", values=needed, shown=words, share=shares, help="Of one device, and what it has.")


def _capacity(slug: str) -> float | None:
    spec = hardware.find(slug)
    return None if spec is None or spec.memory_bytes is None else float(spec.memory_bytes.value)


def _of(need: float | None, there: float | None, *, least: bool) -> str:
    """Write `3.10 of 24 GB`, or `≥ 512 MB of 24 GB`."""
    if need is None:
        return formatting.MISSING
    words = formatting.memory(need)
    if there is not None:
        whole = formatting.capacity(there)
        unit = whole.rpartition(formatting.SPACE)[2]
        words = f"{words.removesuffix(formatting.SPACE + unit)} of {whole}"
    return f"≥ {words}" if least else words


def _surely(rows: Sequence[RankedRow], head: str) -> Column:
    """Return the least of the probabilities with which the limits are met; empty where no limit was set."""
    values, words = [], []
    for row in rows:
        met = row.get("meets") or ()
        known = [limit["probability"] for limit in met if limit["probability"] is not None]
        least = min(known) if met and len(known) == len(met) else None
        values.append(least)
        words.append(chance(least) if met else formatting.MISSING)
    return Column(head=head, values=values, shown=words)


def every_column(rows: Sequence[RankedRow]) -> list[Column]:
    """Return all that is known of the options; a column without values is left out."""
    numbers: dict[str, tuple[Callable[[RankedRow], float | None], Callable[[float | None], str]]] = {
        "Latency": (lambda row: row.get("latency_ms"), formatting.latency),
        "First token": (lambda row: row.get("ttft_ms"), formatting.latency),
        "Each token": (lambda row: row.get("tpot_ms"), formatting.latency),
        "Throughput": (lambda row: row.get("throughput_per_s"), formatting.throughput),
        "Tokens": (lambda row: row.get("tokens_per_s"), formatting.throughput),
        "Memory": (lambda row: row.get("peak_memory_bytes"), formatting.memory),
        "$ an hour": (lambda row: row.get("usd_per_hour"), formatting.money),
        "Energy an item": (lambda row: number(row, ENERGY.key), formatting.energy),
        "Power": (lambda row: row.get("power_w"), lambda watts: formatting.si(watts, "W")),
        "vs plain CPU": (lambda row: row.get("speedup_over_cpu"), formatting.factor),
        "n": (lambda row: row.get("n"), formatting.count),
        "Evidence": (lambda row: len(row.get("evidence") or ()) or None, formatting.count),
    }
    figures = []
    for head, (read, words) in numbers.items():
        values = [read(row) for row in rows]
        figures.append(Column(head=head, values=values, shown=[words(value) for value in values]))
    texts: dict[str, Callable[[RankedRow], str | None]] = {
        "Platform": lambda row: row.get("platform"),
        "Software": lambda row: row.get("runtime"),
        "Precision": lambda row: row.get("precision"),
        "Compiled": lambda row: "yes" if row.get("compiled") else None,
        "Load": lambda row: loads.batch_words(cast("dict[str, Any]", row)),
    }
    rests: dict[str, Callable[[RankedRow], str | None]] = {
        "Interval": lambda row: shown(row, LATENCY).partition(" (")[2].removesuffix(")") or None,
        "Price of": price_words,
        "Price to check": price_doubt,
        "Rests on": lambda row: evidence_words(row.get("basis"), row.get("origin")),
        "Energy is": energy_doubt,
        "Why": lambda row: row.get("why"),
        "Why above the next": lambda row: row.get("why_above_next"),
    }
    links = [f"hardware?id={quote(str(row.get('hardware')))}" for row in rows]
    columns = [
        Column(head="Hardware", values=[title(row) for row in rows], links=links),
        Column(
            head="Rank",
            values=[row.get("rank") for row in rows],
            shown=[str(row.get("rank_band") or row.get("rank")) for row in rows],
        ),
        *(Column(head=head, values=[read(row) for row in rows]) for head, read in texts.items()),
        *figures,
        _surely(rows, "Meets all with"),
        *(Column(head=head, values=[read(row) for row in rows]) for head, read in rests.items()),
    ]
    return filled(columns)
