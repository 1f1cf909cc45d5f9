"""`assay trends`: a metric of a model's configurations over time, as a line of blocks and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from assay.cli.tables import comparison_table
from presentation import formatting, loads
from presentation.answer_words import software_names

__all__ = ["sparkline", "trends"]

BLOCKS = "▁▂▃▄▅▆▇█"
MOST = 24
"""Points of a line of blocks: the newest."""
MOST_LINES = 40
_SIZES = {"sequence_length": "tokens", "image_size": "px"}
_SHOW: dict[str, Callable[[float], str]] = {
    "_ms": formatting.latency,
    "_bytes": formatting.memory,
    "_per_s": formatting.throughput,
    "_j": formatting.energy,
    "_w": lambda value: formatting.si(value, "W"),
}


@click.command(
    epilog="""\b
Examples:
  assay trends bert-base-uncased
  assay trends bert-base-uncased --hardware nvidia-l4 --precision fp16
  assay trends bert-base-uncased --metric throughput_per_s --picture bert.svg"""
)
@click.argument("model")
@click.option(
    "--metric", default="latency_ms", show_default=True, help="latency_ms is the median, or the mean where that is all."
)
@click.option("--hardware", multiple=True, metavar="SLUG", help="Only on this hardware; may be repeated.")
@click.option("--platform", multiple=True, help="Only on this platform; may be repeated.")
@click.option("--precision", multiple=True, help="Only in this precision; may be repeated.")
@click.option("--points", "each", is_flag=True, help="Every point with its time, verdict and event.")
@click.option("--picture", type=OutputFile(parents=True), help="Draw into a .svg or .png file.")
@click.option("--as-of", metavar="POSITION|SNAPSHOT", help="As of a position of the log, or of a named snapshot.")
@overwritable
@served
@as_json
def trends(
    model: str,
    metric: str,
    hardware: tuple[str, ...],
    platform: tuple[str, ...],
    precision: tuple[str, ...],
    each: bool,
    picture: Path | None,
    as_of: str | None,
    force: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Follow a metric of a model's configurations over time, one line a configuration."""
    from assay.cli.connection import reading

    if picture is not None and picture.suffix not in (".svg", ".png"):
        raise click.UsageError(f"{picture.name}: a picture is a .svg or a .png file.")
    with reading(server, token) as client:
        filters = {"hardware": list(hardware), "platform": list(platform), "precision": list(precision)}
        answer = client.trends(
            model, metric=metric, as_of=as_of, **{name: item for name, item in filters.items() if item}
        )
    lines = answer.get("lines", [])
    if picture is not None and lines:
        _draw(answer, lines, picture, force=force)
    if as_json:
        print_json(answer)
    elif not lines:
        say(f"nothing was measured for {model}, or nothing has {metric}")
    elif each:
        _tell_points(answer, lines)
    else:
        _tell_lines(answer, lines)
    return 0 if lines else 1


def sparkline(values: Sequence[float]) -> str:
    """Return values as a line of blocks from the smallest to the largest; values that are all alike stand in the middle."""
    low, high = min(values), max(values)
    if high == low:
        return BLOCKS[3] * len(values)
    return "".join(BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))] for value in values)


def _tell_lines(answer: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    metric, smaller = str(answer["metric"]), answer["better"] == "smaller"
    words = ("faster", "slower") if metric.endswith(("_ms", "_per_s")) else ("better", "worse")
    rows = []
    ordered = sorted(lines, key=lambda line: -len(line["points"]))
    names = software_names((line["platform"], line["runtime"], line.get("browser")) for line in ordered)
    for line, name in list(zip(ordered, names, strict=True))[:MOST_LINES]:
        points = line["points"]
        values = [point["value"] for point in points]
        below, above = (values[-1], values[0]) if smaller else (values[0], values[-1])
        ratio = above / below if len(points) > 1 and below > 0 else None
        doubted = sum(point["verdict"] != "valid" for point in points)
        rows.append(
            [
                loads.hardware_words(line, str(line["hardware"])),
                " ".join(filter(None, (str(line["platform"]), name))),
                str(line["precision"] or formatting.MISSING),
                formatting.count(line["batch_size"]),
                _work(line),
                str(len(points)),
                sparkline(values[-MOST:]),
                _value(metric, values[0]),
                _value(metric, values[-1]),
                formatting.change(ratio, *words),
                f"{doubted} of {len(points)}" if doubted else "",
            ]
        )
    columns: list[str | tuple[str, str]] = [
        "hardware",
        ("platform", "fixed"),
        ("precision", "fixed"),
        ("batch", "right"),
        "work",
        ("n", "right"),
        (f"newest {MOST}" if any(len(line["points"]) > MOST for line in lines) else "over time", "fixed"),
        ("first", "right"),
        ("newest", "right"),
        ("since", "right"),
        ("doubted", "right"),
    ]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    answers().print(grid(f"{answer['model']}: {metric}, {answer['better']} is better", columns, rows))
    if len(lines) > MOST_LINES:
        say(
            f"{MOST_LINES} of {formatting.count(len(lines))} configurations, those with the most points; --json has all"
        )


def _work(line: Mapping[str, Any]) -> str:
    """Say what else tells lines apart: `training 224 px compiled`."""
    parts = [str(line.get("mode") or "")]
    parts += [f"{line[name]} {unit}" for name, unit in _SIZES.items() if line.get(name)]
    return " ".join([*parts, *filter(None, [loads.arrivals(line)]), *(["compiled"] if line.get("compiled") else [])])


def _value(metric: str, value: float) -> str:
    show = next((show for end, show in _SHOW.items() if metric.endswith(end)), None)
    return show(value) if show else formatting.significant(value)


def _tell_points(answer: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    names = ("hardware", "platform", "precision", "batch_size")
    rows = [{**{name: line[name] for name in names}, **point} for line in lines for point in line["points"]]
    columns = [*names, "time", "value", "verdict", "event_id"]
    answers().print(comparison_table(rows, columns, f"{answer['model']}: {answer['metric']}"))


def _draw(answer: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], path: Path, *, force: bool) -> None:
    from presentation.reports import charts
    from presentation.reports.sections import trend_chart
    from presentation.reports.writing import write

    chart = trend_chart(answer, lines)
    if not chart.rows:
        say("nothing to draw: every point is simulated or invalid")
        return
    footer = f"position {formatting.count(answer['position'])}"
    content = charts.png(chart, footer=footer) if path.suffix == ".png" else charts.svg(chart, footer=footer).encode()
    write({path: content}, force=force)
    say(f"wrote {path}")
