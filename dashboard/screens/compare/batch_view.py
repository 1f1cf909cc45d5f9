"""Compare: what a larger batch brings."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from dashboard.address import Comparison
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import chart, downloads, escape, folded, guarded, theme
from dashboard.screens.compare import batches
from dashboard.screens.compare import words as comparing
from dashboard.screens.compare.comparison_frame import PAGE, Places, about, nothing
from dashboard.screens.recommend import limits
from dashboard.tables.result_table import columns_of, result_table
from presentation import charts, formatting

__all__ = ["show"]


def show(comparison: Comparison, at: int, places: Places) -> None:
    """Show latency, throughput, memory and efficiency over the batch, a line each way to run the model."""
    with guarded(comparison.model):
        result = batches.find(
            comparison.model,
            comparing.devices_of(comparison),
            comparison.mode,
            comparison.basis,
            comparison.platform,
            comparison.precision,
            comparison.length,
            at,
        )
        rows = batches.rows_of(result.lines)
        about(places, comparison, at, rows)
        if result.unpredicted:
            st.caption(f"Only what was measured is shown: {escape(result.unpredicted)}")
        if rows:
            _scaling(comparison, at, result, rows, places)
            return
        text = "Nothing was measured here. Add a hardware to see estimates, or measure some batches:"
        with places.answer:
            nothing(comparison, text, f"assay bench {comparison.model} --batch-sizes 1,2,4,8,16,32")


def _scaling(
    comparison: Comparison, at: int, result: batches.Scaling, rows: list[dict[str, Any]], places: Places
) -> None:
    sentence = batches.sentence(result.lines)
    places.answer.subheader(escape(sentence), anchor=False)
    drawn, shade = _drawn(result.lines), theme()
    panels = [
        name
        for name, metric in charts.PANELS.items()
        if 2 * sum(row.get(metric.key) is not None for row in rows) >= len(rows)
    ]
    for start in range(0, len(panels), 2):
        for column, panel in zip(st.columns(2, gap="medium"), panels[start : start + 2], strict=False):
            with column:
                drawing = charts.scaling(drawn, panel, theme=shade)
                chart(drawing, key=f"{PAGE} {panel}", words=f"{panel.capitalize()} over batch: {sentence}")
    st.markdown("  \n".join(f"**{line.letter}** {escape(line.name)}: {_told(line)}" for line in result.lines))
    st.caption(_words(result, panels))
    words = f"Batches of {comparison.model}"
    result_table(batches.columns(result.lines), key=f"{PAGE} table", words=words, height=480)
    _failed(result)
    name = stem(PAGE, f"{comparison.model}-batch", at)
    picture = picture_files(
        name,
        lambda: charts.scalings(drawn, panels, theme=shade),
        f"{comparison.model} over the batch",
        answer=sentence,
        footer=f"position {formatting.count(at)} · "
        + " · ".join(f"{line.letter} {line.name}" for line in result.lines),
    )
    downloads([*table_files(name, rows, as_of=at), *picture], PAGE)


def _drawn(lines: list[batches.Line]) -> list[charts.Drawn]:
    seen = sorted({point["batch_size"] for line in lines for point in line.points})
    stops = {line.letter: batches.stop_of(line) for line in lines}
    return [
        charts.Drawn(line.letter, line.points, batches.joined(line, seen), getattr(stops[line.letter], "batch", None))
        for line in lines
    ]


def _told(line: batches.Line) -> str:
    text = f"{line.measured} of {len(line.points)} batches measured"
    return f":gray[{text}; {escape(batches.stop_words(line))}]"


def _words(result: batches.Scaling, panels: list[str]) -> str:
    texts = ["A line is dashed where an end of it was not measured, and absent across a batch that it lacks"]
    if "efficiency" in panels:
        texts.append("100 % is the throughput of batch 1 for each item of the batch")
    sizes = {"length": result.work.sequence_length, "image size": result.work.image_size}
    texts += [f"All at {words} {size}" for words, size in sizes.items() if size]
    if result.left_out:
        texts.append(
            f"{formatting.count(result.left_out)} more lines are not shown: the {batches.MOST_LINES} with most batches are"
        )
    return ". ".join(texts) + "."


def _failed(result: batches.Scaling) -> None:
    """List what does not run at some batch, with its rule and evidence."""
    if result.failed:
        words = f"{formatting.count(len(result.failed))} left out: failed, or too large for the memory"
        folded(words, partial(_failed_table, result), key=f"{PAGE} failed")


def _failed_table(result: batches.Scaling) -> None:
    table = limits.excluded_table(result.failed[:200])
    result_table(columns_of(table), key=f"{PAGE} failed table", words="What does not run")
