"""The ranked answer as a table of a terminal: only the columns that say something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from assay.cli.output import fitted, shortened
from domain.answers import RankedOption, Recommendation
from presentation import formatting
from presentation.answer_words import evidence_words, price_unit, short_name, software_names, usd_per_unit
from presentation.call_rates import rate_of
from presentation.variant_words import option_loss, option_size, recipe_of

__all__ = ["NOT_COVERED", "SEEN", "ranked_table"]

SEEN = ("measured", "imported")
LONGEST_NAME = 24
SPARE = ("size", "vs CPU", "request", "memory", "software", "precision", "platform")
"""Columns that give way in a narrow terminal, the first of them first."""
NOT_COVERED = "~"
"""Marks an interval that no measurement has checked."""


class _Column(NamedTuple):
    head: str
    kind: str
    cell: Callable[[RankedOption], str | Text]


def ranked_table(answer: Recommendation, top: int | None = None) -> Table:
    """Return the ranked answer, a line a device: what, how fast with its interval, at what price, and what it rests on.

    A platform that all rows share stands in the title, and a device where software needs its room; a column in which nothing is known is left away, and so is what has no room.
    """
    rows: Sequence[RankedOption] = answer.ranked[:top]
    platforms = {str(row.platform) for row in rows}
    shared = platforms.pop() if len(platforms) == 1 else None
    wanted = answer.question.get("percentile", "p50")
    level = round(answer.interval * 100)
    served = any(row.ttft_ms is not None or row.tpot_ms is not None for row in rows)
    energy = "energy" in (answer.question.get("objective") or "")
    names = software_names((row.platform, row.runtime, row.browser) for row in rows)
    software = {row.rank: name for row, name in zip(rows, names, strict=True)}
    devices = {_device(row) for row in rows}
    device = devices.pop() if len(devices) == 1 and len(rows) > 1 and any(names) else None
    filled = [
        (column, [column.cell(row) for row in rows])
        for column in _columns(f"{wanted} ({level} %)", shared is None, served, energy, software, answer)
        if device is None or column.head != "hardware"
    ]
    document = [(column, cells) for column, cells in filled if any(str(cell) != formatting.MISSING for cell in cells)]
    where = "".join(f" on {name}" for name in (shared, device) if name is not None)
    title = f"{answer.model}{where}"
    return fitted(title, [(column.head, column.kind, cells) for column, cells in document], SPARE)


def _columns(
    latency: str,
    platform: bool,
    served: bool,
    energy: bool,
    software: Mapping[int, str | None],
    answer: Recommendation,
) -> list[_Column]:
    rate, unit = rate_of(answer.call), price_unit(answer)
    dollars = formatting.price_scale("")
    first = [_Column("#", "right", _rank), _Column("hardware", "fixed", _device)]
    if platform:
        first.append(_Column("platform", "fixed", lambda row: str(row.platform)))
    first.append(_Column("software", "fixed", lambda row: software[row.rank] or formatting.MISSING))
    first.append(_Column("precision", "fixed", _precision))
    if served:
        middle = [
            _Column("request", "right", lambda row: formatting.latency(row.latency_ms)),
            _Column("TTFT", "right", lambda row: _time(row, "ttft_ms")),
            _Column("TPOT", "right", lambda row: _time(row, "tpot_ms")),
            _Column("tokens", "right", lambda row: formatting.throughput(row.tokens_per_s)),
        ]
    else:
        middle = [
            _Column("batch", "right", lambda row: formatting.count(row.batch_size)),
            _Column(latency, "right", lambda row: _time(row, "latency_ms")),
            _Column(rate.head, "right", rate.text),
            _Column("memory", "right", _memory),
        ]
    # Asked for by name, so that it has its place in a narrow terminal.
    middle += [_Column("energy", "right", _energy)] if energy else []
    middle += [
        _Column("variant", "fixed", recipe_of),
        _Column("loss", "fixed", option_loss),
        _Column("size", "right", option_size),
    ]
    compressed = any(row.variant for row in answer.ranked)
    price = _Column(f"$/{unit.words}", "right", lambda row: dollars.show(usd_per_unit(row, unit)))
    last = [
        # Beside what tells variants apart there is no room for it; --objective cost asks for it.
        *([] if compressed and answer.question.get("objective") != "cost" else [price]),
        _Column("vs CPU", "right", _speedup),
        _Column("evidence", "fixed", _evidence),
    ]
    return [*first, *middle, *last]


def _rank(row: RankedOption) -> str:
    return f"{'=' if row.tied_with else ''}{row.rank}"


def _device(row: RankedOption) -> str:
    return shortened(short_name(row.hardware, row.hardware_count), LONGEST_NAME)


def _precision(row: RankedOption) -> str:
    return f"{row.precision or formatting.MISSING}{'+c' if row.compiled else ''}"


def _time(row: RankedOption, name: str) -> str:
    mean = name == "latency_ms" and bool(row.latency_is_mean)
    return formatting.latency(getattr(row, name), getattr(row, f"{name}_low"), getattr(row, f"{name}_high"), mean=mean)


def _memory(row: RankedOption) -> str:
    return formatting.memory(row.peak_memory_bytes)


def _energy(row: RankedOption) -> str:
    """Of an item; what is not a valid measurement says so."""
    energy = formatting.energy(row.energy_per_item_j)
    said = "predicted" if row.energy_basis == "predicted" else row.energy_verdict
    return energy if energy == formatting.MISSING or said in (None, "valid") else f"{energy} {said}"


def _speedup(row: RankedOption) -> str:
    """How many times faster than the measured processor; of an interval that nothing has checked it would say too much."""
    return formatting.factor(row.speedup_over_cpu) if row.interval_covered else formatting.MISSING


def _evidence(row: RankedOption) -> Text:
    """What the row rests on; measured stands out, an interval that nothing has checked is marked."""
    mark = NOT_COVERED if row.interval_covered is False and row.basis not in SEEN else ""
    word = "specs only" if row.basis == "roofline" else evidence_words(row.basis, row.origin)
    return Text(f"{word}{mark}", style="bold" if row.basis == "measured" else "")
