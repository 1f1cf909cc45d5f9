"""A prediction as a terminal shows it: its figures, what they are made of, and what would make it faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assay.cli.output import answers, grid
from domain.answers import Call, Explanation, Faster, Part
from presentation import formatting
from presentation.answer_words import evidence_words
from presentation.explained_time import kernel_lines, longest_lines
from presentation.faster_words import change_words, checks, none_words, other_words

__all__ = ["class_line", "parts_table", "prediction_lines", "tell_explanation", "tell_faster"]

BAR = 24
"""Columns of the longest bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
LEAST = 0.005
"""Parts below this share of the latency are shown as one."""
CLASSES = 4
MOST_PARTS = 3
"""Parts of the time that a line lists."""


def parts_table(explanation: Explanation) -> Table:
    """Return what a predicted latency is made of: physics, what is learned beyond it, and a bar of both together."""
    latency = explanation.latency_ms
    parts = list(_merged(explanation.parts, LEAST * latency))
    largest = max(abs(part.ms) for part in parts)
    rows: list[Sequence[str | Text]] = [
        [
            part.group,
            _ms(part.roofline_ms),
            _ms(part.learned_ms, signed=True),
            _ms(part.ms),
            _bar(part.ms, largest),
        ]
        for part in parts
    ]
    rows.append(
        [
            "together",
            _ms(explanation.roofline_ms),
            _ms(latency - explanation.roofline_ms, signed=True),
            _ms(latency),
            "",
        ]
    )
    columns: list[str | tuple[str, str]] = [
        ("ms of", "fixed"),
        ("roofline", "right"),
        ("beyond it", "right"),
        ("both", "right"),
        ("", "fixed"),
    ]
    return grid(explanation.told, columns, rows)


def class_line(explanation: Explanation) -> str:
    """Return the operator classes that take most of the roofline, in a line."""
    total = explanation.roofline_ms
    order = sorted(explanation.by_class_ms.items(), key=lambda item: -item[1])
    shown = [f"{name} {ms / total:.0%}" for name, ms in order[:CLASSES] if ms >= LEAST * total]
    return f"roofline by operators: {', '.join(shown)}"


def _merged(parts: Sequence[Part], least: float) -> Iterator[Part]:
    small = [part for part in parts if abs(part.ms) < least]
    yield from (part for part in parts if abs(part.ms) >= least)
    if small:
        sums = {name: sum(getattr(part, name) for part in small) for name in ("roofline_ms", "learned_ms", "ms")}
        yield Part(group=f"{len(small)} smaller", **sums)


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


def tell_explanation(explanation: Explanation) -> None:
    """Print the parts of a latency, what takes the roofline, the kernels and the longest operators."""
    console = answers()
    console.print(parts_table(explanation))
    console.print(Text(class_line(explanation), style="dim"))
    for title, lines in (("kernels", kernel_lines(explanation)), ("longest", longest_lines(explanation))):
        for place, line in enumerate(lines):
            console.print(Text(f"{title if not place else '':<8} {line}", style="dim"))


def tell_faster(faster: Faster) -> None:
    """Print the change with the largest predicted gain and the command that checks it, or why there is none."""
    console = answers()
    console.print("[bold]What would make it faster[/bold]")
    if faster.best is None:
        console.print(_indented(none_words(faster)))
        return
    console.print(_indented(change_words(faster.best)))
    for what, command in checks(faster.best):
        console.print(f"  {command}", markup=False, soft_wrap=True)
        console.print(_indented(what, 4, "dim"))
    if (others := other_words(faster)) is not None:
        console.print(_indented(others, 2, "dim"))


def _indented(words: str, columns: int = 2, style: str = "") -> Padding:
    return Padding(Text(words, style=style), (0, 0, 0, columns))


def prediction_lines(answer: Mapping[str, Any], *, verbose: bool = False) -> list[str]:
    """Return what is known of one configuration, a line a figure; `verbose` adds what it rests on."""
    notes = [f"note        {note}" for note in answer.get("notes") or ()]
    if answer.get("latency_ms") is None and answer.get("tpot_ms") is None:
        return [f"no estimate: {answer.get('abstained') or answer.get('why') or 'nothing is known'}", *notes]
    latency = formatting.latency(answer.get("latency_ms"), answer.get("latency_ms_low"), answer.get("latency_ms_high"))
    call = msgspec.convert(answer.get("call"), Call | None)
    lines = [f"call        {call.what}"] if call is not None else []
    lines.append(f"latency     {latency}")
    for name, word in (("ttft_ms", "first token"), ("tpot_ms", "per token")):
        if answer.get(name) is not None:
            document = formatting.latency(answer[name], answer.get(f"{name}_low"), answer.get(f"{name}_high"))
            lines.append(f"{word:<12}{document}")
    if answer.get("tokens_per_s") is not None:
        lines.append(f"tokens      {formatting.throughput(answer['tokens_per_s'])}")
    return [
        *lines,
        *([f"real time   {formatting.factor(answer['realtime_factor'])}"] if answer.get("realtime_factor") else []),
        f"throughput  {formatting.throughput(answer.get('throughput_per_s'))}",
        f"memory      {formatting.memory(answer.get('peak_memory_bytes'))}",
        f"evidence    {evidence_words(answer.get('basis'), answer.get('origin'))}",
        *_time_line(answer),
        *([f"basis       {answer.get('basis')}", f"why         {answer.get('why')}"] if verbose else []),
        *notes,
    ]


def _time_line(answer: Mapping[str, Any]) -> list[str]:
    """Say in a line what takes most of the time, where the parts are known."""
    parts = (answer.get("explanation") or {}).get("parts") or ()
    largest = sorted((part for part in parts if part["ms"] > 0), key=lambda part: -part["ms"])[:MOST_PARTS]
    named = ", ".join(f"{part['group']} {formatting.latency(part['ms'])}" for part in largest if not _of_model(part))
    return [f"time        {named}"] if named else []


def _of_model(part: Mapping[str, Any]) -> bool:
    """Whether a part is what the estimate adds, and no work that somebody does."""
    return "roofline" in str(part["group"])
