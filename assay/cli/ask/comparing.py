"""`assay compare`: what is known, side by side."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay.cli.options import as_json, served, verbose
from assay.cli.output import answers, fitted, print_json, say, shortened
from presentation import formatting, loads
from presentation.answer_words import evidence_words, short_name, software_names

__all__ = ["best_rows", "compare", "tell_comparison"]

_DRAWN = {"energy_per_token_j": "a token", "power_w": "power"}
"""Heads of what was drawn, by the metric that is asked for; else the energy of an item."""
_NOTHING = f" {formatting.MISSING}"
LONGEST_NAME = 26
MOST_SLOWER = 3
"""Sentences on slower precisions that are shown without --all."""
SPARE = ("memory", "energy", "px", "items", "mode", "software", "platform", "precision")
"""Columns that give way in a narrow terminal, the first of them first."""
_PARTS = (
    ("platform", "fixed", "platform"),
    ("precision", "fixed", "precision"),
    ("tokens", "right", "sequence_length"),
    ("px", "right", "image_size"),
)
_NAMES = {
    "hardware_stated": "hardware",
    "arrival_rate_per_s": "requests a second",
    "concurrency": "requests at once",
    "target_latency_ms": "target latency in ms",
    "batch_size": "batch",
    "sequence_length": "tokens",
    "image_size": "px",
    "environment": "machine and software",
}


@click.command(
    epilog="""\b
Examples:
  assay compare hardware bert-base-uncased
  assay compare models nvidia-rtx-4090
  assay compare hardware bert-base-uncased --platform cuda --precision fp16,bf16
  assay compare hardware bert-tiny --platform cpu,openvino,web --all
  assay compare hardware bert-base-uncased --metric energy_per_item_j"""
)
@click.argument("what", type=click.Choice(["hardware", "models", "modes"]))
@click.argument("subject", metavar="MODEL|HARDWARE")
@click.option(
    "--metric",
    help="What orders the rows: latency_ms, throughput_per_s, peak_memory_bytes, energy_per_item_j, energy_per_token_j or power_w.",
)
@click.option(
    "--platform", multiple=True, help="Only this platform; `web` is wasm,webgpu,webnn. May be repeated. Not of modes."
)
@click.option("--precision", multiple=True, help="Only this precision; may be repeated. Not of modes.")
@click.option("--batch-size", type=click.IntRange(min=1), help="Only this batch size. Not of modes.")
@click.option("--all", "every", is_flag=True, help="Every row; else the best of each device or model.")
@verbose
@served
@as_json
def compare(
    what: str,
    subject: str,
    metric: str | None,
    platform: tuple[str, ...],
    precision: tuple[str, ...],
    batch_size: int | None,
    every: bool,
    verbose: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Put what was measured or imported side by side: hardware for a model, models on a hardware, modes of a model."""
    from assay.cli.connection import reading

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
    with reading(server, token) as client:
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
        shown = rows if every or what == "modes" else best_rows(rows, "model" if what == "models" else "hardware")
        tell_comparison(answer, shown, metric, verbose=verbose)
        if len(shown) < len(rows):
            said = f"the best of each, of {formatting.count(len(rows))} rows that may differ in all that is named above"
            answers().print(f"[dim]{said}; --all shows every one[/dim]")
        slower = answer.get("slower_precisions") or []
        for item in slower if every else slower[:MOST_SLOWER]:
            answers().print(f"{item['hardware']}: {item['sentence']}", markup=False)
    return 0 if rows else 1


def best_rows(rows: list[dict[str, Any]], subject: str) -> list[dict[str, Any]]:
    """Return the first row of each device or model: rows come in the order of the metric."""
    first: dict[Any, dict[str, Any]] = {}
    for row in rows:
        first.setdefault((row[subject], row.get("hardware_count")), row)
    return list(first.values())


def tell_comparison(
    answer: dict[str, Any], rows: list[dict[str, Any]], metric: str | None, *, verbose: bool = False
) -> None:
    """Print rows of a comparison side by side, below what all of them share and in what they differ."""
    same, differs = answer.get("same") or {}, answer.get("differs") or {}
    shared = {name: {row.get(name) for row in rows} for name in ("hardware", "platform", "precision")}
    same = {**{name: values.pop() for name, values in shared.items() if len(values) == 1}, **same}
    texts = [f"{name} {value}" for name, value in same.items() if value is not None and name != "hardware_stated"]
    if same.get("hardware_stated"):
        texts.append(f"hardware {loads.STATED_WORDS}")
    if texts:
        answers().print("Same for all: " + ", ".join(texts), markup=False)
    if differs and not verbose:
        names = [_NAMES.get(name, name.replace("_", " ")) for name in differs]
        answers().print(f"Differ in: {', '.join(names)}", markup=False)
    for name, values in differs.items() if verbose else ():
        said = [_differing(name, value) for value in values]
        answers().print(f"Differ in {_NAMES.get(name, name.replace('_', ' '))}: {', '.join(said)}", markup=False)
    answers().print()
    software = software_names((row.get("platform"), row.get("runtime"), row.get("browser")) for row in rows)
    subjects = [name for name in ("model", "hardware", "mode") if len({row[name] for row in rows}) > 1]
    columns: list[tuple[str, str, list[str]]] = [
        *((name, "fixed", [shortened(_named(row, name), LONGEST_NAME) for row in rows]) for name in subjects),
        *((head, kind, _varying(rows, name)) for head, kind, name in _PARTS[:2]),
        ("software", "fixed", [name or formatting.MISSING for name in software]),
        *((head, kind, _varying(rows, name)) for head, kind, name in _PARTS[2:]),
        ("batch", "right", [_batch(row) for row in rows]),
        ("latency", "right", [_latency(row) for row in rows]),
        ("items", "right", [formatting.throughput(row.get("throughput_per_s")) for row in rows]),
        ("memory", "right", [formatting.memory(row.get("peak_memory_bytes")) for row in rows]),
        (_DRAWN.get(metric or "", "energy"), "right", [_energy(row, metric) for row in rows]),
        *([("n", "right", [formatting.count(row.get("n")) for row in rows])] if verbose else []),
        ("evidence", "fixed", [_evidence(row) for row in rows]),
    ]
    matching_columns = [
        column for column in columns if column[0] in subjects or any(cell.strip(_NOTHING) for cell in column[2])
    ]
    answers().print(fitted(None, matching_columns, () if verbose else SPARE))


def _evidence(row: dict[str, Any]) -> str:
    """What a row rests on, with a verdict that is not valid."""
    evidence, verdict = evidence_words(row.get("basis") or row.get("origin"), row.get("origin")), row.get("verdict")
    return evidence if verdict in (None, "valid") else f"{evidence}, {verdict}"


def _varying(rows: list[dict[str, Any]], name: str) -> list[str]:
    """The cells of a part in which rows differ; of one that all share, none."""
    cells = [formatting.MISSING if row.get(name) is None else str(row[name]) for row in rows]
    return cells if len(set(cells)) > 1 else [formatting.MISSING] * len(cells)


def _named(row: dict[str, Any], name: str) -> str:
    return loads.hardware_words(row, short_name(str(row[name]))) if name == "hardware" else str(row[name])


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
