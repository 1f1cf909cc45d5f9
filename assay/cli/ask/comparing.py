"""`assay compare`: what is known, side by side."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from presentation import formatting, loads

__all__ = ["compare"]

_DRAWN = {"energy_per_token_j": "a token", "power_w": "power"}
"""Heads of what was drawn, by the metric that is asked for; else the energy of an item."""
_NOTHING = f" {formatting.MISSING}"
_PARTS = (
    ("platform", "fixed", "platform"),
    ("precision", "fixed", "precision"),
    ("runtime", "fixed", "runtime"),
    ("tokens", "right", "sequence_length"),
    ("px", "right", "image_size"),
)
_NAMES = {
    "hardware_stated": "hardware",
    "arrival_rate_per_s": "requests a second",
    "concurrency": "requests at once",
    "target_latency_ms": "target latency in ms",
}


@click.command(
    epilog="""\b
Examples:
  assay compare hardware bert-base-uncased
  assay compare models nvidia-rtx-4090
  assay compare hardware bert-base-uncased --platform cuda --precision fp16,bf16
  assay compare hardware bert-base-uncased --metric energy_per_item_j"""
)
@click.argument("what", type=click.Choice(["hardware", "models", "modes"]))
@click.argument("subject", metavar="MODEL|HARDWARE")
@click.option(
    "--metric",
    help="What orders the rows: latency_ms, throughput_per_s, peak_memory_bytes, energy_per_item_j, energy_per_token_j or power_w.",
)
@click.option("--platform", multiple=True, help="Only this platform; may be repeated. Not of modes.")
@click.option("--precision", multiple=True, help="Only this precision; may be repeated. Not of modes.")
@click.option("--batch-size", type=click.IntRange(min=1), help="Only this batch size. Not of modes.")
@served
@as_json
def compare(
    what: str,
    subject: str,
    metric: str | None,
    platform: tuple[str, ...],
    precision: tuple[str, ...],
    batch_size: int | None,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Put what was measured or imported side by side: hardware for a model, models on a hardware, modes of a model."""
    from assay.cli.connection import connected

    given = {
        "metric": metric,
        "platform": ",".join(platform),
        "precision": ",".join(precision),
        "batch_size": batch_size,
    }
    filters = {name: value for name, value in given.items() if value}
    if filters and what == "modes":
        option = f"--{next(iter(filters)).replace('_', '-')}"
        raise click.UsageError(f"modes stand in pairs, all of them and in no order: leave {option} out.")
    with connected(server, token) as client:
        if what == "hardware":
            answer = client.compare_hardware(subject, **filters)
        elif what == "models":
            answer = client.compare_models(subject, **filters)
        else:
            answer = client.compare_modes(subject)
    rows = answer.get("rows", [])
    if as_json:
        print_json(answer)
    elif not rows:
        say(f"nothing was measured or imported for {subject}; `assay recommend` predicts, `assay bench` measures")
    else:
        _tell_comparison(answer, rows, metric)
    return 0 if rows else 1


def _tell_comparison(answer: dict[str, Any], rows: list[dict[str, Any]], metric: str | None) -> None:
    same, differs = answer.get("same") or {}, answer.get("differs") or {}
    shared = {name: {row.get(name) for row in rows} for name in ("hardware", "platform", "precision")}
    same = {**{name: values.pop() for name, values in shared.items() if len(values) == 1}, **same}
    texts = [f"{name} {value}" for name, value in same.items() if value is not None and name != "hardware_stated"]
    if same.get("hardware_stated"):
        texts.append(f"hardware {loads.STATED_WORDS}")
    if texts:
        answers().print("Same for all: " + ", ".join(texts), markup=False)
    for name, values in differs.items():
        said = [_differing(name, value) for value in values]
        answers().print(f"Differs: {_NAMES.get(name, name)} ({', '.join(said)})", markup=False)
    answers().print()
    subjects = [name for name in ("model", "hardware", "mode") if len({row[name] for row in rows}) > 1]
    columns: list[tuple[str, str, list[str]]] = [
        *((name, "text", [_named(row, name) for row in rows]) for name in subjects),
        *((head, kind, _varying(rows, name)) for head, kind, name in _PARTS),
        ("batch", "right", [_batch(row) for row in rows]),
        ("latency", "right", [_latency(row) for row in rows]),
        ("items", "right", [formatting.throughput(row.get("throughput_per_s")) for row in rows]),
        ("memory", "right", [formatting.memory(row.get("peak_memory_bytes")) for row in rows]),
        (_DRAWN.get(metric or "", "energy"), "right", [_energy(row, metric) for row in rows]),
        ("n", "right", [formatting.count(row.get("n")) for row in rows]),
        ("origin", "fixed", [_origin(row) for row in rows]),
    ]
    matching_columns = [
        column for column in columns if column[0] in subjects or any(cell.strip(_NOTHING) for cell in column[2])
    ]
    lines = [list(line) for line in zip(*(cells for _, _, cells in matching_columns), strict=True)]
    answers().print(grid(None, [(head, kind) for head, kind, _ in matching_columns], lines))


def _origin(row: dict[str, Any]) -> str:
    """The origin, with a verdict that is not valid."""
    origin, verdict = str(row.get("origin") or ""), row.get("verdict")
    return origin if verdict in (None, "valid") else f"{origin}, {verdict}"


def _varying(rows: list[dict[str, Any]], name: str) -> list[str]:
    """The cells of a part in which rows differ; of one that all share, or that follows from the platform, none."""
    if name == "runtime" and len({(row["platform"], row.get(name)) for row in rows}) == len(
        {row["platform"] for row in rows}
    ):
        return [formatting.MISSING] * len(rows)
    cells = [formatting.MISSING if row.get(name) is None else str(row[name]) for row in rows]
    return cells if len(set(cells)) > 1 else [formatting.MISSING] * len(cells)


def _named(row: dict[str, Any], name: str) -> str:
    return loads.hardware_words(row, str(row[name])) if name == "hardware" else str(row[name])


def _batch(row: dict[str, Any]) -> str:
    load, batch = loads.arrivals(row), formatting.count(row.get("batch_size"))
    return batch if load is None else load if row.get("batch_size") in (None, 1) else f"{batch}, {load}"


def _energy(row: dict[str, Any], metric: str | None) -> str:
    """Energy of an item (of a token, or the power, where asked), with a verdict of its own where that is not valid."""
    if metric == "power_w":
        energy = formatting.si(row.get("power_w"), "W")
    else:
        energy = formatting.energy(row.get("energy_per_token_j" if metric in _DRAWN else "energy_per_item_j"))
    verdict = row.get("energy_verdict")
    if verdict in (None, "valid"):
        return energy
    return str(verdict) if energy == formatting.MISSING else f"{energy} {verdict}"


def _differing(name: str, value: Any) -> str:
    if name == "hardware_stated":
        return loads.STATED_WORDS if value else "seen where it ran"
    return formatting.MISSING if value is None else str(value)


def _latency(row: dict[str, Any]) -> str:
    return formatting.latency(
        row.get("latency_ms"),
        row.get("latency_ms_low"),
        row.get("latency_ms_high"),
        mean=bool(row.get("latency_is_mean")),
    )
