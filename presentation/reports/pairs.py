"""Tables and charts of comparisons: row beside baseline, with the ratio, what differs and the events of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from presentation import formatting
from presentation.answer_words import model_name
from presentation.palette import VERDICT_GLYPHS
from presentation.reports import likeness
from presentation.reports.content import Chart, Column, Row, Table
from presentation.reports.evidence import (
    FIGURES,
    HIDDEN,
    WHERE,
    counted,
    evidence_column,
    model_columns,
    origin_words,
    told_apart,
    where_words,
)

__all__ = [
    "MOST_DRAWN",
    "compared_table",
    "factor_chart",
    "latency_chart",
    "measured_table",
    "memory_chart",
    "phases_table",
    "rivals_table",
    "scaling_chart",
    "scaling_table",
    "shown_rows",
    "sizes_apart",
]

MOST_DRAWN = 24
"""Lines of one picture: more cannot be read on a screen."""
MOST_SERIES = 12
_RESTS = (Column("origin", "Origin", origin_words), Column("verdict"), evidence_column())


def measured_table(rows: Sequence[Row], name: str, title: str, note: str | None = None) -> Table:
    """Return one row a configuration with all its figures; what tells rows of one name apart stands beside the name."""
    columns = (
        *model_columns(),
        Column("hardware", "Where", _where_apart),
        *WHERE[1:],
        *FIGURES,
        *(column for column in HIDDEN if column.key != "mode"),
    )
    return Table(name, title, columns, told_apart(rows), note)


def _where_apart(row: Row) -> str:
    return f"{where_words(row)}\n{row['distinct']}" if row.get("distinct") else where_words(row)


def compared_table(
    pairs: Sequence[Row], name: str, title: str, head: str, note: str, *, verified: bool = False
) -> Table:
    """Return one row a pair: the ratio under `head` with its interval, the baseline, and what differs."""
    columns = (
        *model_columns(),
        *WHERE,
        Column("factor", head, factor_words, figures=True),
        Column("factor_low"),
        Column("factor_high"),
        Column("baseline", "Baseline"),
        *(Column(f"baseline_{key}") for key in ("hardware", "platform", "precision", "latency_ms", "throughput_per_s")),
        Column("latency_ms", "Latency", FIGURES[0].show, figures=True),
        Column("throughput_per_s"),
        Column("memory_ratio", "Memory", lambda row: formatting.factor(row["memory_ratio"]), figures=True),
        Column("peak_memory_bytes"),
        Column("baseline_peak_memory_bytes"),
        *((Column("verified", "Right", lambda row: _verified(row.get("verified"))),) if verified else ()),
        Column("differs", "Differs", lambda row: row["differs"] or "nothing else"),
        *_RESTS,
        *(column for column in HIDDEN if column.key != "mode"),
    )
    return Table(name, title, columns, pairs, note)


def _verified(value: Any) -> str:
    return "not tested" if value is None else "yes" if value else "NO"


def factor_words(row: Row) -> str:
    """Write a ratio with its interval, where both sides have one: `× 3.10`, and below it `(2.98–3.22)`."""
    low, high = row.get("factor_low"), row.get("factor_high")
    if low is None or high is None:
        return formatting.factor(row.get("factor"))
    show = formatting.Scale("", 1.0).show(row["factor"], low, high)
    return f"×{formatting.SPACE}{show}".replace(f"{formatting.SPACE} (", "\n(")


def rivals_table(rows: Sequence[Row]) -> Table:
    """Return hardware beside hardware: what is joined, over how much, and in how many of it the first was faster."""
    columns = (
        Column("hardware", "Hardware"),
        Column("other", "Against"),
        Column("factor", "Faster by", lambda row: formatting.factor(row["factor"]), figures=True),
        Column("smallest", "Range", _range, figures=True),
        Column("largest"),
        Column("pairs", "Pairs", lambda row: formatting.count(row["pairs"]), figures=True),
        Column("models", "Models", lambda row: formatting.count(row["models"]), figures=True),
        Column("faster_in", "Faster in", lambda row: f"{row['faster_in']} of {row['pairs']}", figures=True),
        *_RESTS,
    )
    note = (
        "Every pair agrees in model, workload and precision; each side is on its fastest platform. Faster by: the geometric "
        "mean of the ratios, with the smallest and the largest beside it."
    )
    return Table("rivals", "Hardware against hardware", columns, rows, note)


def _range(row: Row) -> str:
    return f"{formatting.significant(row['smallest'])}–{formatting.significant(row['largest'])}"


def scaling_table(series: Sequence[Row]) -> Table:
    """Return one row a series of batch sizes."""
    columns = (
        *model_columns(("batch_size",)),
        *WHERE,
        Column("batch_from", "Batch", lambda row: f"{row['batch_from']} to {row['batch_to']}", figures=True),
        Column("batch_to"),
        Column("throughput_from_per_s", "Items before", _rate("throughput_from_per_s"), figures=True),
        Column("throughput_to_per_s", "Items after", _rate("throughput_to_per_s"), figures=True),
        Column("gain", "Gain", lambda row: formatting.factor(row["gain"]), figures=True),
        Column("efficiency", "Efficiency", lambda row: formatting.share(row["efficiency"]), figures=True),
        Column("memory_ratio", "Memory", lambda row: formatting.factor(row["memory_ratio"]), figures=True),
        Column("best_batch", "Most items at", lambda row: f"batch {row['best_batch']}", figures=True),
        *_RESTS,
        *(column for column in HIDDEN if column.key not in ("mode", "batch_size")),
    )
    note = (
        "Rows of one series differ in the batch alone. Gain: items a second after over before. Efficiency: the gain over the "
        "growth of the batch; 100 % is twice the items from twice the batch. Memory: peak after over before."
    )
    return Table("scaling", "Batch scaling", columns, series, note)


def _rate(key: str) -> Callable[[Row], str]:
    return lambda row: formatting.throughput(row[key])


def factor_chart(pairs: Sequence[Row], name: str, title: str, what: str, *, first: str = "model") -> Chart:
    """Return the ratios as a picture, the largest first; lines are named by model or hardware."""
    drawn = [{**pair, "label": _label(pair, first)} for pair in pairs if pair.get("factor")][:MOST_DRAWN]
    rest = f" The first {len(drawn)} of {formatting.count(len(pairs))} are drawn." if len(pairs) > len(drawn) else ""
    best = f"{drawn[0]['label']}: {formatting.factor(drawn[0]['factor'])}." if drawn else ""
    return Chart(name, title, f"{what}. {best}{rest}".replace(". .", "."), "factors", drawn, {"what": what})


def _label(pair: Row, first: str) -> str:
    if first == "hardware":
        return f"{pair['hardware']} over {pair['other']}"
    batch = f"batch {pair['batch_size']}" if pair.get("batch_size") else "batch not said"
    return f"{short_model(pair['model'])} · {where_words(pair)} · {batch}"


def short_model(model: str) -> str:
    """Return a model's id without its owner, for pictures; tables have it whole."""
    return model_name(model)


def _marked(row: Row) -> Row:
    """Say in the name of a line that its number is doubtful: a picture travels without its table."""
    if row.get("verdict") != "suspect":
        return row
    said = " · ".join(filter(None, (row.get("distinct"), f"{VERDICT_GLYPHS['suspect']} suspect")))
    return {**row, "distinct": said}


def latency_chart(rows: Sequence[Row], name: str, title: str, *, by_model: bool = False) -> Chart:
    """Return latencies of one workload with their intervals; of one hardware, lines are named by model."""
    apart = [_named(row) for row in told_apart(rows) if row.get("latency_ms")]
    drawn = [_marked(row) for row in sorted(apart, key=lambda row: row["latency_ms"])[:MOST_DRAWN]]
    if by_model:
        drawn = [{**row, "hardware": short_model(row["model"])} for row in drawn]
    rest = f" The first {len(drawn)} of {formatting.count(len(apart))} are drawn." if len(apart) > len(drawn) else ""
    first = drawn[0] if drawn else None
    text = (
        f"Shortest: {first['hardware']} · {first['platform']} · {first.get('precision') or 'precision unknown'}, "
        f"{formatting.latency(first['latency_ms'])}."
        if first
        else "Nothing to draw."
    )
    return Chart(name, title, text + rest, "intervals", drawn)


def _named(row: Row) -> dict[str, Any]:
    """Add to what tells a row apart the words that a chart's names lack and a table's have."""
    count = row.get("hardware_count") or 1
    words = [f"× {count}"] if count > 1 else []
    words += ["compiled"] if row.get("compiled") else []
    return {**row, "distinct": " · ".join(filter(None, (*words, row["distinct"]))) or None}


_PHASES = {"forward_ms": "Forward", "loss_ms": "Loss", "backward_ms": "Backward", "optimizer_ms": "Optimizer"}


def phases_table(rows: Sequence[Row]) -> Table | None:
    """Return what the training steps consist of, a row a measurement; None where no phase was timed."""
    timed = [row for row in rows if any(row.get(name) is not None for name in _PHASES)]
    if not timed:
        return None

    def phase(key: str) -> Callable[[Row], str]:
        return lambda row: formatting.latency(row.get(key))

    columns = (
        *model_columns(),
        *WHERE,
        Column("latency_ms", "Step", phase("latency_ms"), figures=True),
        *(Column(key, word, phase(key), figures=True) for key, word in _PHASES.items()),
        Column(
            "peak_memory_bytes", "Memory", lambda row: formatting.memory(row.get("peak_memory_bytes")), figures=True
        ),
        *_RESTS,
        *(column for column in HIDDEN if column.key != "mode"),
    )
    note = "Medians of each phase, timed apart with a wait for the device between them; the step is timed as a whole."
    return Table("phases", "What a training step consists of", columns, timed, note)


def memory_chart(series: Sequence[Row], name: str, title: str) -> Chart | None:
    """Return the peak memory over batch size, one line a series; None where no series has it at two sizes."""
    kept = [
        {**item, "points": points}
        for item in series
        if len(points := [point for point in item["points"] if point.get("peak_memory_bytes")]) > 1
    ]
    if not kept:
        return None
    drawn = scaling_chart(kept, name, title)
    most = max((point for item in kept for point in item["points"]), key=lambda point: point["peak_memory_bytes"])
    sentence = f"Largest peak: {formatting.memory(most['peak_memory_bytes'])}, {short_model(most['model'])} at batch {most['batch_size']}."
    return drawn._replace(sentence=sentence, options={"metric": "peak_memory_bytes"})


def scaling_chart(series: Sequence[Row], name: str, title: str) -> Chart:
    """Return throughput over batch size, one line a series; those with the most sizes first."""
    chosen = sorted(series, key=lambda item: (-len(item["points"]), -item["throughput_to_per_s"]))[:MOST_SERIES]
    models, places = {item["model"] for item in chosen}, {item["hardware"] for item in chosen}
    apart = sizes_apart(chosen)

    def label(row: Row) -> str:
        parts = [short_model(row["model"])] if len(models) > 1 else []
        parts += [row["hardware"]] if len(places) > 1 else []
        return " · ".join([*parts, str(row["platform"]), str(row.get("precision")), *apart(row)])

    points = [
        {**point, "series": f"{place}", "label": label(item)}
        for place, item in enumerate(chosen)
        for point in item["points"]
    ]
    rest = (
        f" {len(chosen)} of {counted(len(series), 'series', 'series')} are drawn." if len(series) > len(chosen) else ""
    )
    best = max(chosen, key=lambda item: item["gain"])
    text = f"Largest gain: {label(best)}, {formatting.factor(best['gain'])} from batch {best['batch_from']} to {best['batch_to']}."
    return Chart(name, title, text + rest, "scaling", points)


def sizes_apart(lines: Sequence[Row]) -> Callable[[Row], list[str]]:
    """Return what says, of one of several lines, the mode and the sizes in which they differ."""
    shapes = {
        "mode": "{}",
        "sequence_length": "{} tokens",
        "image_size": "{} px",
        "layout": "{}",
        "compiled": "compiled",
    }
    differing = {name: shape for name, shape in shapes.items() if len({str(line.get(name)) for line in lines}) > 1}
    return lambda line: [shape.format(line[name]) for name, shape in differing.items() if line.get(name)]


def shown_rows(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each model and workload that ran in the most ways, most ways first: what a picture compares."""
    result: dict[Any, list[Row]] = {}
    for row in rows:
        if row.get("latency_ms"):
            result.setdefault((row["model"], likeness.work(row)), []).append(row)
    return sorted(
        (group for group in result.values() if len(group) > 1),
        key=lambda group: (-len({likeness.option(row) for row in group}), -len(group), group[0]["model"]),
    )
