"""The sections that reports are put together from; a section without rows says why in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from domain.answers.variants import VariantRow
from presentation import charts, formatting
from presentation.answer_words import model_name
from presentation.rank_scaling import baseline_command, efficiency_words, ranks_words
from presentation.reports import families, likeness, pairs
from presentation.reports.content import Chart, Column, Part, Row, Section, Table
from presentation.reports.evidence import (
    counted,
    evidence_column,
    option_words,
    origin_words,
    where_words,
    work_words,
    worst,
)
from presentation.reports.source import Source
from presentation.variant_words import variants_note, variants_table

__all__ = [
    "batch_scaling",
    "configurations",
    "families_section",
    "hardware_overview",
    "model_pictures",
    "models_on_hardware",
    "modes",
    "on_ranks",
    "over_the_cpu",
    "over_time",
    "precisions",
    "rivals",
    "variants_section",
]

_NO_CPU = "Nothing that is shown has a baseline: the same model, workload and precision on platform cpu, not compiled."
_NO_FP32 = "Nothing was measured both in fp32 and in a narrower type with the same model, workload, hardware, platform and software."
MOST_PICTURES = 6
MOST_HARDWARE = 8
MOST_SLOWER = 10
MOST_LINES = 8
"""Lines of a trend: more colours and dashes cannot be distinguished."""


def families_section(source: Source) -> Section:
    """Say which hardware is best for each family, by how much, with what memory, and how it scales."""
    table = families.best_by_family(source.kept, source.over_cpu, source.scaling)
    contests = likeness.contests(source.kept)
    won = likeness.winners(contests)
    said = [_won(won, len(contests))] if won else []
    return Section("Best hardware by family", [*said, table])


def _won(won: Sequence[tuple[Row, int]], contests: int) -> str:
    first = ", ".join(f"{option_words(row)} in {formatting.count(wins)}" for row, wins in won[:3])
    return f"Of {counted(contests, 'model and workload', 'models and workloads')} that ran in at least two ways, the fastest was {first}."


def over_the_cpu(source: Source) -> Section:
    """Compare with the plain CPU: as a picture, by family and row by row."""
    over_cpu = source.over_cpu
    if not over_cpu:
        return Section("Speed-up over the CPU", [_NO_CPU])
    note = (
        "The baseline agrees in model, workload and precision: platform cpu, not compiled, of the same hardware, or where "
        "that has none, the fastest of any. Intervals span the ends of both sides' 95 % intervals."
    )
    chart = pairs.factor_chart(over_cpu, "speedup", "Speed-up over the CPU", "How often the plain CPU's work is done")
    parts: list[Part] = [
        chart,
        families.speedup_by_family(over_cpu),
        pairs.compared_table(over_cpu, "speedup", "Speed-up over the CPU, row by row", "Over the CPU", note),
    ]
    return Section("Speed-up over the CPU", parts)


def batch_scaling(source: Source) -> Section:
    """Say what larger batches gain."""
    result = source.scaling
    if not result:
        return Section("Batch scaling", ["No configuration was measured at two batch sizes with all else alike."])
    chart = pairs.scaling_chart(result, "scaling", "Throughput over batch size")
    memory = pairs.memory_chart(result, "scaling-memory", "Peak memory over batch size")
    tables = [families.scaling_by_family(result), pairs.scaling_table(result)]
    return Section("Batch scaling", [chart, *([memory] if memory else []), *tables])


def precisions(source: Source) -> Section:
    """Compare narrower types with fp32, with what tests say of their outputs."""
    result = _with_verified(source, source.over_fp32)
    if not result:
        return Section("Precision", [_NO_FP32])
    note = (
        "The baseline is fp32 with everything else alike: model, workload, hardware, platform, software and its settings. "
        "Right: what the newest verification of that precision said, on that hardware and platform."
    )
    chart = pairs.factor_chart(result, "precision", "Speed against fp32", "How often the work of fp32 is done")
    table = pairs.compared_table(result, "precision", "Precision, row by row", "Against fp32", note, verified=True)
    slower = [f"{model_name(item.model)} on {item.hardware}: {item.sentence}." for item in source.slower[:MOST_SLOWER]]
    return Section("Precision", [*slower, chart, _by_precision(result), table])


def _with_verified(source: Source, rows: Sequence[Row]) -> list[dict[str, Any]]:
    if not rows:
        return []
    keys = ("model", "hardware", "platform", "precision")
    cells = source.compatibility(by_hardware=True)
    verified = {
        (row["model_id"], row["hardware_id"], row["platform"], row["precision"]): row["verified"] for row in cells
    }
    return [{**row, "verified": verified.get(tuple(row[key] for key in keys))} for row in rows]


def _by_precision(result: Sequence[Row]) -> Table:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for pair in result:
        groups.setdefault((*likeness.option(pair), pair["mode"]), []).append(pair)
    rows = [
        {
            **{name: members[0][name] for name in ("hardware", "hardware_count", "platform", "precision", "mode")},
            **worst(members),
            **likeness.geometric(pair["factor"] for pair in members),
            "models": len({pair["model"] for pair in members}),
            "memory_ratio": likeness.geometric(pair["memory_ratio"] for pair in members)["factor"],
            "right": sum(pair["verified"] is True for pair in members),
            "wrong": sum(pair["verified"] is False for pair in members),
        }
        for _, members in sorted(groups.items(), key=lambda item: str(item[0]))
    ]
    columns = (
        Column("hardware", "Where", option_words),
        Column("platform"),
        Column("precision"),
        Column("mode", "Mode"),
        Column("models", "Models", lambda row: formatting.count(row["models"]), figures=True),
        Column("factor", "Against fp32", families.joined_words, figures=True),
        Column("smallest"),
        Column("largest"),
        Column("pairs"),
        Column("memory_ratio", "Memory", lambda row: formatting.factor(row["memory_ratio"]), figures=True),
        Column("right", "Right", lambda row: f"{row['right']} of {row['right'] + row['wrong']} tested", figures=True),
        Column("wrong"),
        Column("origin", "Origin", origin_words),
        Column("verdict"),
        evidence_column(),
    )
    return Table("by-precision", "By hardware, platform and precision", columns, rows, "Geometric means with range.")


_ON_RANKS = (
    Column("model", "Model", lambda row: f"{row['model']}\n{work_words(row)}"),
    Column("hardware", "Where", where_words),
    Column("strategy", "Ranks", ranks_words),
    Column("ranks"),
    Column("nodes"),
    Column("backend"),
    Column("local_batch_size"),
    Column("latency_p50_ms", "Step", lambda row: formatting.latency(row["latency_p50_ms"]), figures=True),
    Column(
        "exposed_communication_ms",
        "Communication",
        lambda row: formatting.latency(row["exposed_communication_ms"]),
        figures=True,
    ),
    Column("all_reduce_ms", "All-reduce", lambda row: formatting.latency(row["all_reduce_ms"]), figures=True),
    Column("factor", "Speed-up", lambda row: formatting.factor(row["factor"]), figures=True),
    Column("efficiency", "Efficiency", efficiency_words, figures=True),
    Column("efficiency_verdict"),
    Column("efficiency_reasons"),
    Column("least_core_share"),
    Column("peak_memory_bytes"),
    Column("origin", "Origin", origin_words),
    evidence_column(),
)
_STRONG = (
    "Strong scaling: the baseline trains the same batch on one rank, on a processor with the threads of one rank. Efficiency is "
    "the speed-up over the number of ranks. Communication is what no computing hid; all-reduce adds up the gradients' bytes alone."
)


def on_ranks(source: Source) -> list[Section]:
    """Say how well trainings on several ranks scale against one rank with the same batch; nothing where there are none."""
    rows = source.on_ranks
    if not rows:
        return []
    scaled = [row for row in rows if row["factor"]]
    parts: list[Part] = []
    if scaled:
        what = "How often the work of one rank is done"
        ordered = sorted(scaled, key=lambda row: -row["factor"])
        drawn = pairs.factor_chart(ordered, "ranks", "Training on ranks against one rank", what)
        named = [
            {
                **row,
                "label": f"{model_name(row['model'])} · {ranks_words(row)} · {row['hardware']} · batch {row['batch_size']}",
            }
            for row in drawn.rows
        ]
        first = f"{what}. {named[0]['label']}: {formatting.factor(named[0]['factor'])}."
        parts.append(drawn._replace(rows=named, sentence=first))
    missing = next((row for row in rows if not row["factor"]), None)
    if missing:
        parts.append(f"Without a baseline there is no efficiency. This measures one: {baseline_command(missing)}")
    return [
        Section(
            "Training on ranks", [*parts, Table("ranks", "Training on ranks, row by row", _ON_RANKS, rows, _STRONG)]
        )
    ]


def modes(source: Source) -> Section:
    """Compare a training step with an inference call."""
    phases = pairs.phases_table(source.kept)
    steps: list[Part] = [phases] if phases else []
    let = source.let_in(likeness.training_over_inference(source.rows))
    if not let:
        none = "No model was measured in both modes with the same sizes, hardware, platform, precision and software."
        return Section("Training against inference", [none, *steps])
    note = (
        "One training step over one inference call; both agree in model, sizes, hardware, platform, precision and software. "
        "Optimizer and checkpointing are those of the training row."
    )
    what = "How many inference calls one training step takes"
    chart = pairs.factor_chart(let, "modes", "A training step in inference calls", what)
    table = pairs.compared_table(let, "modes", "Training against inference, row by row", "Step over call", note)
    return Section("Training against inference", [chart, table, *steps])


def model_pictures(source: Source, most: int = MOST_PICTURES) -> Section:
    """Draw, for the models that ran in the most ways, the latencies of one workload."""
    drawn: list[Part] = []
    seen: set[tuple[str, str]] = set()
    for group in pairs.shown_rows(source.kept):
        first = group[0]
        if source.asked.kind != "model" and (first["model"], first["mode"]) in seen:
            continue
        seen.add((first["model"], first["mode"]))
        title = f"{first['model']}: {work_words(first)}"
        drawn.append(pairs.latency_chart(group, f"model-{len(drawn) + 1}", title))
        if len(drawn) == most:
            break
    if not drawn:
        return Section("Latencies side by side", ["No model ran the same workload in two ways."])
    said = "One picture a model and workload: rows of a picture do the same work, and differ in what their names say."
    return Section("Latencies side by side", [said, *drawn])


def hardware_overview(source: Source) -> Section:
    """Say what each hardware was tried with, and how much of it is ours."""
    result = []
    contests = likeness.contests(source.rows)
    wins = Counter(contest[0]["hardware"] for contest in contests)
    entered = Counter(name for contest in contests for name in {row["hardware"] for row in contest})
    for name in sorted({row["hardware"] for row in source.kept}):
        members = [row for row in source.kept if row["hardware"] == name]
        result.append(
            {
                "hardware": name,
                "hardware_kind": members[0]["hardware_kind"],
                "models": len({row["model"] for row in members}),
                "configurations": len(members),
                "platforms": sorted({str(row["platform"]) for row in members}),
                "precisions": sorted({str(row["precision"]) for row in members if row["precision"]}),
                "measured": sum(row["origin"] == "measured" for row in members),
                "imported": sum(row["origin"] == "imported" for row in members),
                "suspect": sum(row["verdict"] == "suspect" for row in members),
                "wins": wins[name],
                "contests": entered[name],
            }
        )
    count = ("models", "configurations", "measured", "imported", "suspect")
    columns = (
        Column("hardware", "Hardware"),
        Column("hardware_kind", "Kind"),
        Column("platforms", "Platforms", lambda row: ", ".join(row["platforms"])),
        Column("precisions", "Precisions", lambda row: ", ".join(row["precisions"]) or formatting.MISSING),
        *(Column(key, key.capitalize(), _count(key), figures=True) for key in count),
        Column("wins", "Fastest in", lambda row: f"{row['wins']} of {row['contests']}", figures=True),
        Column("contests"),
    )
    note = "Fastest in: of the contests (one model and workload that ran in two ways or more) that the hardware was part of."
    return Section("Hardware", [Table("hardware", "What was tried on which hardware", columns, result, note)])


def _count(key: str) -> Any:
    return lambda row: formatting.count(row[key])


def rivals(source: Source) -> Section:
    """Compare hardware with hardware over all that both have run."""
    every = likeness.rivals(source.rows if source.hardware else source.kept)
    matching_every = [pair for pair in every if source.hardware in (None, pair["hardware"], pair["other"])]
    if not matching_every:
        return Section(
            "Hardware against hardware", ["No two hardware ran the same model and workload in the same precision."]
        )
    what = "How much faster, over all that both ran alike; the line is the range of the ratios, not an interval"
    drawn = [{**pair, "factor_low": pair["smallest"], "factor_high": pair["largest"]} for pair in matching_every]
    chart = pairs.factor_chart(drawn, "rivals", "Hardware against hardware", what, first="hardware")
    return Section("Hardware against hardware", [chart, pairs.rivals_table(matching_every)])


def models_on_hardware(source: Source, most: int = 1) -> list[Section]:
    """Draw the models of each hardware: those with one mode, scenario, batch and precision, most models first."""
    by_hardware: dict[str, dict[Any, dict[str, Row]]] = {}
    for row in source.kept:
        if row.get("latency_ms"):
            kind = tuple(row.get(name) for name in ("mode", "scenario", "batch_size", "precision"))
            best = by_hardware.setdefault(row["hardware"], {}).setdefault(kind, {})
            existing = best.get(row["model"])
            best[row["model"]] = row if existing is None else likeness.faster([existing, row])
    charts: list[tuple[int, Chart]] = []
    for place, (name, kinds) in enumerate(sorted(by_hardware.items()), 1):
        ordered = sorted(kinds.values(), key=lambda best: (-len(best), str(next(iter(best.values()))["batch_size"])))
        for number, best in enumerate([best for best in ordered if len(best) > 1][:most], 1):
            rows = list(best.values())
            same = work_words({key: rows[0].get(key) for key in ("mode", "scenario", "batch_size")})
            title = f"{name}: {same}, {rows[0]['precision'] or 'precision not said'}"
            chart = pairs.latency_chart(rows, f"hardware-{place}-{number}", title, by_model=True)
            charts.append((len(rows), chart))
    if not charts:
        return []
    charts = sorted(charts, key=lambda item: -item[0])[: max(MOST_HARDWARE, most)]
    said = "Different models do different work: these pictures say what each takes here, not which is better."
    return [Section("Models on each hardware", [said, *(chart for _, chart in charts)])]


def over_time(source: Source) -> list[Section]:
    """Follow the latencies of a model's configurations over time; nothing where none was measured twice."""
    answer = source.trends
    lines = [
        line
        for line in source.let_in(answer["lines"])
        if len({str(point["time"] or point["recorded_at"]) for point in line["points"]}) > 1
    ]
    if not lines:
        return []
    chart = trend_chart(answer, lines)
    return [Section("Over time", [chart])]


def trend_chart(answer: Row, lines: Sequence[Row], name: str = "trend") -> Chart:
    """Return a metric over time as a picture, the lines with the most points first; simulated points are left out."""
    chosen = sorted(lines, key=lambda line: -len(line["points"]))[:MOST_LINES]
    apart = pairs.sizes_apart(chosen)

    def batch(line: Row) -> list[str]:
        return [f"batch {line['batch_size']}"] if line["batch_size"] else []

    points = [
        {
            **{key: line[key] for key in ("hardware", "platform", "precision", "batch_size")},
            **point,
            "when": point["time"] or point["recorded_at"],
            "basis": "measured" if point["origin"] == "measured" else "imported",
            "series": str(place),
            "label": " · ".join([where_words({**line, "compiled": None}), *batch(line), *apart(line)]),
        }
        for place, line in enumerate(chosen)
        for point in line["points"]
        if point["origin"] not in ("page", "simulated") and point["verdict"] != "invalid"
    ]
    rest = f" {len(chosen)} of {len(lines)} configurations are drawn." if len(lines) > len(chosen) else ""
    said = f"{counted(len(chosen), 'configuration')} of {answer['model']}, each followed over time.{rest}"
    options = {"metric": answer["metric"], "better": answer["better"]}
    return Chart(name, f"{answer['model']}: {answer['metric']} over time", said, "trend", points, options)


def configurations(source: Source) -> Section:
    """List every configuration, by model and workload, the fastest first."""
    ordered = in_order(source.kept)
    note = (
        "The best measurement of each configuration: measured before imported, valid before suspect, then the newest. Latency "
        "is the median of one call at that batch with its 95 % interval; (mean) where no median was recorded."
    )
    table = pairs.measured_table(ordered, "configurations", "Every configuration", note)
    return Section("Every configuration", [table])


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Order rows by model, then workload, then the fastest first."""
    return sorted(
        rows,
        key=lambda row: (
            row["model"],
            str(row["mode"]),
            row["batch_size"] or 0,
            work_words(row),
            -likeness.speed(row),
            row["position"],
        ),
    )


_OF_VARIANTS = {
    "recipe": "Variant", "platform": "Platform", "precision": "Precision", "latency_ms": "Latency", "speedup": "Speed",
    "bytes": "Size on disk", "quality_loss": "Quality loss", "peak_memory_bytes": "Memory", "hardware": "Hardware",
}  # fmt: skip
_OF_FILES = (
    "model", "form", "batch_size", "latency_ms_low", "latency_ms_high", "throughput_per_s", "quality_metric", "quality_unit",
    "quality_low", "quality_high", "quality_examples", "quality_data", "verdict", "evidence",
)  # fmt: skip
_OF_QUALITY = ("metric", "unit", "loss", "low", "high", "examples", "data")


def variants_section(source: Source) -> list[Section]:
    """Return speed, memory, size and quality of a model's variants side by side, losers included; nothing where there are none."""
    rows = source.variants
    if not any(row.recipe or row.quality for row in rows):
        return []
    drawn = charts.variants_drawn(rows)
    parts: list[Part] = []
    if len(drawn) > 1:
        parts.append(
            Chart(
                "variants",
                "What variants cost in quality",
                "Loss of quality with its 95 % interval against the latency of one call: left and low is better.",
                "variants",
                [msgspec.to_builtins(row) for row in rows],
            )
        )
    worded = variants_table(rows)
    columns = (
        *(
            Column(key, head, _variant_word(head), key.endswith(("_ms", "bytes", "speedup")))
            for key, head in _OF_VARIANTS.items()
        ),
        *(Column(name) for name in _OF_FILES),
    )
    ordered = sorted(rows, key=lambda row: (row.hardware or "~", row.platform or "~", row.latency_ms or 1e12))
    lines = [{**_variant_raw(row), "words": words} for row, words in zip(ordered, worded, strict=True)]
    parts.append(Table("variants", "Variants side by side", columns, lines, variants_note(rows, len(drawn))))
    return [Section("Variants", parts)]


def _variant_word(head: str) -> Any:
    return lambda row: row["words"][head]


def _variant_raw(row: VariantRow) -> Row:
    quality = {f"quality_{name}": row.quality and getattr(row.quality, name) for name in _OF_QUALITY}
    return {**{name: getattr(row, name) for name in VariantRow.__struct_fields__ if name != "quality"}, **quality}
