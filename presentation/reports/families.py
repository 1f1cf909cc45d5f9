"""What holds for whole families of models: the best hardware, its improvement over the CPU, memory, batch scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from presentation import formatting
from presentation.reports import likeness
from presentation.reports.content import Column, Row, Table
from presentation.reports.evidence import counted, evidence_column, option_words, origin_words, where_words, worst

__all__ = ["best_by_family", "joined_words", "scaling_by_family", "speedup_by_family"]

_KIND = (Column("family", "Family", lambda row: _family_words(row)), Column("category"), Column("mode"))
_RESTS = (Column("origin", "Origin", origin_words), Column("verdict"), evidence_column())


def _family_words(row: Row) -> str:
    beside = (str(row[name]).replace("_", " ") for name in ("category", "mode") if row.get(name))
    return f"{row.get('family') or 'family not said'}\n{', '.join(beside)}"


def _kind(row: Row) -> tuple[Any, ...]:
    return row.get("family"), row.get("category"), row.get("mode")


def _grouped(rows: Iterable[Row], name: Callable[[Row], tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], list[Row]]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    return sorted(groups.items(), key=lambda item: [str(part) for part in item[0]])


def joined_words(row: Row, key: str = "factor", nouns: tuple[str, str] = ("pair", "pairs")) -> str:
    """Write a geometric mean with its range and number: `× 3.10`, and below it `2.00–4.80, 12 pairs`."""
    if row.get(key) is None:
        return formatting.MISSING
    pairs = counted(row["pairs"], *nouns)
    if row["pairs"] == 1:
        return f"{formatting.factor(row[key])}\n{pairs}"
    ends = f"{formatting.significant(row['smallest'])}–{formatting.significant(row['largest'])}"
    return f"{formatting.factor(row[key])}\n{ends}, {pairs}"


def best_by_family(rows: Sequence[Row], pairs: Sequence[Row], series: Sequence[Row]) -> Table:
    """Return one row a family and mode: which hardware won most contests, by how much over the CPU, memory, scaling."""
    result = []
    for (family, category, mode), members in _grouped(rows, _kind):
        kind = {"family": family, "category": category, "mode": mode, "models": len({row["model"] for row in members})}
        contests = likeness.contests(members)
        won = likeness.winners(contests)
        if not won:
            result.append({**kind, **worst(members), "contests": 0, "hardware": None})
            continue
        best, wins = won[0]
        mine = [pair for pair in pairs if _kind(pair) == (family, category, mode) and _same_option(pair, best)]
        grown = [item for item in series if _kind(item) == (family, category, mode) and _same_option(item, best)]
        joined = likeness.geometric(pair["factor"] for pair in mine)
        memory = likeness.geometric(pair["memory_ratio"] for pair in mine)
        sizes = [row["peak_memory_bytes"] for row in members if _same_option(row, best) and row["peak_memory_bytes"]]
        result.append(
            {
                **kind,
                **worst([contest[0] for contest in contests if _same_option(contest[0], best)] + mine),
                **{name: best.get(name) for name in ("hardware", "hardware_count", "platform", "precision")},
                "contests": len(contests),
                "wins": wins,
                **joined,
                "memory_smallest_bytes": min(sizes, default=None),
                "memory_largest_bytes": max(sizes, default=None),
                "memory_ratio": memory["factor"],
                "memory_pairs": memory["pairs"],
                **_efficiencies(grown),
            }
        )
    columns = (
        *_KIND,
        Column("models", "Models", lambda row: formatting.count(row["models"]), figures=True),
        Column("hardware", "Best hardware", _best_words),
        Column("platform"),
        Column("precision"),
        Column("wins"),
        Column("contests"),
        Column("factor", "Over the CPU", joined_words, figures=True),
        Column("smallest"),
        Column("largest"),
        Column("pairs"),
        Column("memory_ratio", "Memory", _memory_words, figures=True),
        Column("memory_pairs"),
        Column("memory_smallest_bytes"),
        Column("memory_largest_bytes"),
        Column("efficiency", "Batch scaling", _scaling_words, figures=True),
        Column("efficiency_smallest"),
        Column("efficiency_largest"),
        Column("series"),
        *_RESTS,
    )
    note = (
        "Best hardware: the way (hardware, platform, precision) that was the fastest in the most contests; a contest is one "
        "model and workload that ran in at least two ways. Over the CPU: geometric mean over pairs that agree in model, "
        "workload and precision, with their range. Memory: smallest to largest peak, and its ratio to the same baselines. "
        "Batch scaling: gain in throughput over growth of the batch; 100 % is twice the items from twice the batch."
    )
    result.sort(key=lambda row: (not row.get("pairs"), not row["contests"], str(row["family"]), str(row["mode"])))
    return Table("families", "Best hardware by family", columns, result, note)


def _same_option(row: Row, other: Row) -> bool:
    return likeness.option(row) == likeness.option(other)


def _best_words(row: Row) -> str:
    if row["hardware"] is None:
        return "nothing ran in two ways"
    return f"{option_words(row)}\nfastest in {formatting.count(row['wins'])} of {counted(row['contests'], 'contest')}"


def _memory_words(row: Row) -> str:
    low, high = row.get("memory_smallest_bytes"), row.get("memory_largest_bytes")
    if low is None:
        return formatting.MISSING
    words = formatting.memory(low) if low == high else f"{formatting.memory(low)} to {formatting.memory(high)}"
    if row["memory_ratio"] is None:
        return words
    return f"{words}\n{formatting.factor(row['memory_ratio'])}, {counted(row['memory_pairs'], 'pair')}"


def _efficiencies(series: Sequence[Row]) -> dict[str, Any]:
    """Join the efficiencies of several series; batch sizes stand beside, because a longer way costs more."""
    joined = likeness.geometric(item["efficiency"] for item in series)
    return {
        "efficiency": joined["factor"],
        "efficiency_smallest": joined["smallest"],
        "efficiency_largest": joined["largest"],
        "series": joined["pairs"],
        "batch_from": min((item["batch_from"] for item in series), default=None),
        "batch_to": max((item["batch_to"] for item in series), default=None),
    }


def _scaling_words(row: Row) -> str:
    if row.get("efficiency") is None:
        return formatting.MISSING
    ends = f"batch {row['batch_from']} to {row['batch_to']}, {counted(row['series'], 'series', 'series')}"
    return f"{formatting.share(row['efficiency'])}\n{ends}"


def speedup_by_family(pairs: Sequence[Row]) -> Table:
    """Return one row a family, mode and way: how often it does the work of the plain CPU."""
    result = []
    for (family, category, mode, *_), members in _grouped(
        pairs, lambda row: (*_kind(row), *likeness.option(row), bool(row.get("compiled")))
    ):
        first = members[0]
        result.append(
            {
                "family": family,
                "category": category,
                "mode": mode,
                **{
                    name: first.get(name)
                    for name in ("hardware", "hardware_count", "platform", "precision", "compiled")
                },
                **worst(members),
                **likeness.geometric(pair["factor"] for pair in members),
                "models": len({pair["model"] for pair in members}),
                "baselines": sorted({pair["baseline"] for pair in members}),
                "memory_ratio": likeness.geometric(pair["memory_ratio"] for pair in members)["factor"],
            }
        )
    columns = (
        *_KIND,
        Column("hardware", "Where", where_words),
        Column("platform"),
        Column("precision"),
        Column("compiled"),
        Column("models", "Models", lambda row: formatting.count(row["models"]), figures=True),
        Column("factor", "Over the CPU", joined_words, figures=True),
        Column("smallest"),
        Column("largest"),
        Column("pairs"),
        Column("memory_ratio", "Memory", lambda row: formatting.factor(row["memory_ratio"]), figures=True),
        Column("baselines", "Baseline", lambda row: "; ".join(row["baselines"])),
        *_RESTS,
    )
    note = "Geometric means of ratios; every pair agrees in model, workload and precision. Baselines are not compiled."
    return Table("speedup-by-family", "Speed-up over the CPU, by family", columns, result, note)


def scaling_by_family(series: Sequence[Row]) -> Table:
    """Return one row a family, mode, way and stretch of batch sizes: what a larger batch gains."""

    def stretch(row: Row) -> tuple[Any, ...]:
        return *_kind(row), *likeness.option(row), row["batch_from"], row["batch_to"]

    result = []
    for (family, category, mode, *_), members in _grouped(series, stretch):
        first = members[0]
        gain = likeness.geometric(member["gain"] for member in members)
        result.append(
            {
                "family": family,
                "category": category,
                "mode": mode,
                **{name: first.get(name) for name in ("hardware", "hardware_count", "platform", "precision")},
                **worst(members),
                "models": len({member["model"] for member in members}),
                "gain": gain["factor"],
                "smallest": gain["smallest"],
                "largest": gain["largest"],
                "pairs": gain["pairs"],
                **_efficiencies(members),
                "memory_ratio": likeness.geometric(member["memory_ratio"] for member in members)["factor"],
            }
        )
    columns = (
        *_KIND,
        Column("hardware", "Where", option_words),
        Column("platform"),
        Column("precision"),
        Column("models", "Models", lambda row: formatting.count(row["models"]), figures=True),
        Column("batch_from", "Batch", lambda row: f"{row['batch_from']} to {row['batch_to']}", figures=True),
        Column("batch_to"),
        Column("gain", "Gain", lambda row: joined_words(row, "gain", ("series", "series")), figures=True),
        Column("efficiency", "Efficiency", lambda row: formatting.share(row["efficiency"]), figures=True),
        Column("memory_ratio", "Memory", lambda row: formatting.factor(row["memory_ratio"]), figures=True),
        *_RESTS,
    )
    note = (
        "Gain: items a second at the largest batch over those at the smallest, geometric mean over series that differ in "
        "the batch alone. Efficiency: gain over the growth of the batch. Memory: peak at the largest over the smallest."
    )
    return Table("scaling-by-family", "Batch scaling, by family", columns, result, note)
