"""The parts of a prediction, as a table with bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from assay.cli.output import grid
from presentation import formatting

__all__ = ["class_line", "parts_table"]

BAR = 24
"""Columns of the longest bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
LEAST = 0.005
"""Parts below this share of the latency are told as one."""
CLASSES = 4


def parts_table(explanation: Mapping[str, Any]) -> Table:
    """Return what a predicted latency is made of: physics, what is learned beyond it, and a bar of both together."""
    latency = explanation["latency_ms"]
    parts = list(_merged(explanation["parts"], LEAST * latency))
    largest = max(abs(part["ms"]) for part in parts)
    rows: list[Sequence[str | Text]] = [
        [
            part["group"],
            _ms(part["roofline_ms"]),
            _ms(part["learned_ms"], signed=True),
            _ms(part["ms"]),
            _bar(part["ms"], largest),
        ]
        for part in parts
    ]
    rows.append(
        [
            "together",
            _ms(explanation["roofline_ms"]),
            _ms(latency - explanation["roofline_ms"], signed=True),
            _ms(latency),
            "",
        ]
    )
    columns: list[str | tuple[str, str]] = [
        ("ms of", "fixed"), ("roofline", "right"), ("beyond it", "right"), ("both", "right"), ("", "fixed"),
    ]  # fmt: skip
    return grid(explanation["told"], columns, rows)


def class_line(explanation: Mapping[str, Any]) -> str:
    """Return the operator classes that take most of the roofline, in a line."""
    total = explanation["roofline_ms"]
    order = sorted(explanation["by_class_ms"].items(), key=lambda item: -item[1])
    shown = [f"{name} {ms / total:.0%}" for name, ms in order[:CLASSES] if ms >= LEAST * total]
    return f"roofline by operators: {', '.join(shown)}"


def _merged(parts: Sequence[Mapping[str, Any]], least: float) -> Iterator[Mapping[str, Any]]:
    small = [part for part in parts if abs(part["ms"]) < least]
    yield from (part for part in parts if abs(part["ms"]) >= least)
    if small:
        sums = {name: sum(part[name] for part in small) for name in ("roofline_ms", "learned_ms", "ms")}
        yield {"group": f"{len(small)} smaller", **sums}


def _ms(value: float, *, signed: bool = False) -> str:
    if abs(value) < 1e-9:
        return formatting.MISSING
    text = formatting.significant(abs(value))
    return f"{'−' if value < 0 else '+' if signed else ''}{text}"


def _bar(value: float, largest: float) -> Text:
    """What is below 0 takes time away, and is drawn in another shade."""
    eighths = round(abs(value) / largest * BAR * 8)
    bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return Text(bar, style="dim" if value < 0 else "")
