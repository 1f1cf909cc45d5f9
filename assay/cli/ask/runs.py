"""`assay runs`: what was run, how far each run came, what its rows are worth, and the samples behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import rich_click as click
from rich.markup import escape

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say, shortened
from assay.cli.tables import parts_table
from assay.client.row_types import Run
from domain.errors import Expired, NotFound
from domain.verdicts import ENERGY
from presentation import energy, formatting, loads, run_progress

__all__ = ["runs"]

SHOWN = 20
"""Rows of a run that are shown; `--json` and the API have them all."""
WHERE = 25
"""Letters of what was run and where: the id beside it stands on one line then."""
_COLUMNS = (
    "event_id,model_id,platform,precision,batch_size,latency_p50_ms,latency_p50_ci95_low_ms,latency_p50_ci95_high_ms,"
    "latency_mean_ms,latency_n,verdict,samples_n,hardware_id,device,concurrency,arrival_rate_per_s,scenario_result,"
    "energy_j,energy_per_item_j,energy_per_token_j,energy_above_idle_j,idle_power_w,power_w,energy_verdict,energy_reading,metric_verdicts,"
    "peak_memory_bytes,ttft_ms,tpot_ms,forward_ms,loss_ms,backward_ms,optimizer_ms,"
    "preprocess_ms,realtime_factor"
)
_STEPS = ("ttft_ms", "tpot_ms", "forward_ms", "loss_ms", "backward_ms", "optimizer_ms")
_BEFORE = ("preprocess_ms", "realtime_factor")
_LEVELS = "▁▂▃▄▅▆▇█"


@click.group(
    epilog="""\b
Examples:
  assay runs list --outcome unfinished
  assay runs show 01a2021c-1db8-7580-86cd-1099f3c397d2 --samples"""
)
def runs() -> None:
    """Runs: one call of a runner or an importer each, with what came of it."""


@runs.command("list")
@click.option("--kind", help="bench, verify or import.")
@click.option("--origin", help="measured, imported or simulated.")
@click.option("--hardware", help="A device that it named or has rows of; an alias does as well.")
@click.option("--outcome", help="completed, interrupted, stopped; unfinished or retracted.")
@click.option(
    "--limit", type=click.IntRange(min=1, max=1000), default=20, show_default=True, help="The newest so many."
)
@served
@as_json
def list_runs(
    kind: str | None,
    origin: str | None,
    hardware: str | None,
    outcome: str | None,
    limit: int,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """List runs, newest first: how each stands, and what its rows are worth."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        page = client.page("runs", limit=limit, kind=kind, origin=origin, hardware=hardware, outcome=outcome)
    if as_json:
        print_json(page["items"])
        return 0
    if not page["items"]:
        say("no run is of that kind" if page["choices"]["kind"] else "nothing was run yet; `assay bench MODEL` begins")
        return 0
    columns: list[str | tuple[str, str]] = [
        ("started", "fixed"),
        ("state", "fixed"),
        ("done", "right"),
        ("valid", "right"),
        ("what, where", "fixed"),
        "run",
    ]
    answers().print(grid(None, columns, [_line(msgspec.convert(run, Run)) for run in page["items"]]))
    if page["total"] > len(page["items"]):
        say(
            f"the newest {formatting.count(len(page['items']))} of {formatting.count(page['total'])}; --limit shows more"
        )
    return 0


def _line(run: Run) -> list[str]:
    done, planned = run_progress.done(run), run.planned
    return [
        f"{run.started_at or run.recorded_at:%Y-%m-%d}",
        run_progress.state(run, datetime.now(UTC)).word,
        f"{formatting.count(done)}/{formatting.count(planned)}" if planned else formatting.count(done),
        formatting.count(run.rows_valid) if run.rows else formatting.MISSING,
        shortened(f"{run.kind}, {run_progress.where(run)}", WHERE),
        run.run_id,
    ]


@runs.command("show")
@click.argument("run_id", metavar="RUN")
@click.option("--samples", is_flag=True, help="Show for each row its raw samples: warm-up, distribution, percentiles.")
@served
@as_json
def show(run_id: str, samples: bool, server: str | None, token: str | None, as_json: bool) -> int:
    """Show one run: its rows and failures, why rows are suspect, and what changed on the machine since the run before."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        result = client.run(run_id)
        at = {"run_id": run_id, "as_of": result["position"]}
        rows = client.page("tables/measurements", columns=None if as_json else _COLUMNS, limit=10_000, **at)["items"]
        every, rows = rows, rows if as_json else rows[:SHOWN]
        failures = client.page("tests", failures=True, limit=1000 if as_json else SHOWN, **at)["items"]
        drawn = (
            {row["event_id"]: _samples(client, row["event_id"]) for row in rows if row["samples_n"]} if samples else {}
        )
    if as_json:
        print_json({**result, "rows": rows, "failures": failures, **({"samples": drawn} if samples else {})})
        return 0
    _tell_run(result)
    _tell_rows(result["run"], rows)
    _tell_phases(every)
    _tell_energy(rows)
    _tell_failures(failures)
    if samples:
        _tell_samples(rows, drawn)
    return 0


def _samples(client: Any, event_id: str) -> dict[str, Any]:
    try:
        return dict(client.samples(event_id))
    except (Expired, NotFound) as problem:
        return {"missing": problem.detail}


def _tell_run(row: Mapping[str, Any]) -> None:
    run = msgspec.convert(row["run"], Run)
    state = run_progress.state(run, datetime.now(UTC))
    begun = f"{run.started_at or run.recorded_at:%Y-%m-%d %H:%M}"
    source = escape(run_progress.source_words(run.source, run.attestation, run.peer))
    lines = [
        f"[bold]{run.kind} on {run_progress.where(run)}: {state.word}[/bold], {run_progress.length(run)}",
        f"started {begun}, took {formatting.plain(run_progress.duration(run))}, {source}, event {run.position}",
        f"rows: {run_progress.verdicts(run)}",
    ]
    if run.retracted_because:
        lines.append(f"[red]retracted: {run.retracted_because}[/red]")
    if row["differs"]:
        changes = ", ".join(f"{name} {before} → {now}" for name, (before, now) in row["differs"].items())
        lines.append(f"since the run before on this machine: {changes}")
    elif row["differs"] is not None:
        lines.append("the environment is that of the run before on this machine")
    for line in lines:
        answers().print(line, soft_wrap=True)
    if row["reasons"]:
        document = [[formatting.count(reason["rows"]), reason["reason"]] for reason in row["reasons"]]
        answers().print(grid("Why rows are not valid", [("rows", "right"), "reason"], document))


def _tell_rows(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    document = [
        [
            _name(row),
            _latency(row),
            formatting.memory(row["peak_memory_bytes"]),
            formatting.count(row["latency_n"]),
            row["verdict"] or formatting.MISSING,
        ]
        for row in rows
    ]
    answers().print(
        grid(
            "Rows", ["what", ("latency", "right"), ("memory", "right"), ("n", "right"), ("verdict", "fixed")], document
        )
    )
    if run["rows"] > len(rows):
        say(f"the first {formatting.count(len(rows))} of {formatting.count(run['rows'])}; --json shows all")


def _tell_phases(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show what a call or a step consists of, where that was measured: tokens, phases of training, what comes before."""
    for names in (_STEPS, _BEFORE):
        shown = [row for row in rows if any(row.get(name) is not None for name in names)][:SHOWN]
        parts = [{name: row.get(name) for name in names} for row in shown]
        table = parts_table([_name(row) for row in shown], parts)
        if table is not None:
            answers().print(table)


def _tell_energy(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show what was drawn, with the verdict on it and how it was read; one line where nothing could be read."""
    document = [
        [
            _name(row),
            formatting.energy(row["energy_per_item_j"]),
            formatting.energy(row["energy_per_token_j"]),
            formatting.si(row["power_w"], "W"),
            formatting.si(reading.get("idle_w"), "W"),
            _doubted(row),
            energy.method(reading),
        ]
        for row in rows
        if (reading := row["energy_reading"] or {}).get("meter") or row["energy_verdict"]
    ]
    unread = {row["energy_reading"]["unread"] for row in rows if (row["energy_reading"] or {}).get("unread")}
    if document:
        heads: list[str | tuple[str, str]] = [
            "what",
            ("an item", "right"),
            ("a token", "right"),
            ("power", "right"),
            ("rest", "right"),
            "verdict",
            "read by",
        ]
        tokens = any(line[2] != formatting.MISSING for line in document)
        kept = [at for at in range(len(heads)) if tokens or at != 2]
        answers().print(grid("Energy", [heads[at] for at in kept], [[line[at] for at in kept] for line in document]))
    for reason in sorted(unread):
        answers().print(f"energy not read: {reason}", markup=False, soft_wrap=True)


def _doubted(row: Mapping[str, Any]) -> str:
    """The verdict on energy with its reasons."""
    judged = row["metric_verdicts"] or {}
    reasons = next((judged[name].get("reasons") for name in ENERGY if name in judged), None) or []
    return ": ".join([row["energy_verdict"] or formatting.MISSING, *(["; ".join(reasons)] if reasons else [])])


def _latency(row: Mapping[str, Any]) -> str:
    if row["latency_p50_ms"] is None:
        return formatting.plain(formatting.latency(row["latency_mean_ms"], mean=True))
    bounds = (row["latency_p50_ci95_low_ms"], row["latency_p50_ci95_high_ms"])
    return formatting.plain(formatting.latency(row["latency_p50_ms"], *bounds))


def _tell_failures(failures: Sequence[Mapping[str, Any]]) -> None:
    if failures:
        document = [
            [
                _name(failure),
                f"{failure['outcome']} at {failure['stage']}",
                failure["message"] or "",
                failure["remedy"] or "",
            ]
            for failure in failures
        ]
        answers().print(grid("Failed", ["what", "how", "message", "what to try"], document))


def _tell_samples(rows: Sequence[Mapping[str, Any]], drawn: Mapping[str, Mapping[str, Any]]) -> None:
    document = []
    for row in rows:
        item = drawn.get(row["event_id"])
        if item is None or "missing" in item:
            document.append([_name(row), "", "", item["missing"] if item else "no samples were recorded", ""])
            continue
        bins = item["histogram"]
        span = f"{formatting.significant(bins[0]['low'])}–{formatting.significant(bins[-1]['high'])} ms"
        beyond = (
            f", {item['beyond']['count']} up to {formatting.significant(item['beyond']['largest'])}"
            if item["beyond"]
            else ""
        )
        document.append(
            [
                _name(row),
                formatting.count(item["warmup_n"]),
                formatting.count(item["n"]),
                f"{_bars(bins)} {span}{beyond}",
                _tails(item),
            ]
        )
    columns: list[str | tuple[str, str]] = [
        "what",
        ("warm-up", "right"),
        ("steady", "right"),
        "how steady times lie",
        "percentiles",
    ]
    answers().print(grid("Samples", columns, document))


def _bars(bins: Sequence[Mapping[str, Any]], most: int = 16) -> str:
    """Draw a histogram in one line; an empty bin is a space, and bins beyond `most` are drawn together."""
    width = -(-len(bins) // most)
    counts = [sum(item["count"] for item in bins[at : at + width]) for at in range(0, len(bins), width)]
    top = max(counts)
    return "".join(_LEVELS[-(-count * (len(_LEVELS) - 1) // top)] if count else " " for count in counts)


def _tails(drawn: Mapping[str, Any]) -> str:
    named = drawn["percentiles"].items()
    known = ", ".join(
        f"{name} {formatting.significant(value['ms'])} ms" for name, value in named if value["ms"] is not None
    )
    lacking = ", ".join(f"{name} needs {value['needs']}" for name, value in named if value["ms"] is None)
    return f"{known}; {lacking}" if lacking else known


def _name(row: Mapping[str, Any]) -> str:
    batch = "" if row.get("batch_size") is None else f" batch {row['batch_size']}"
    load = f" {coming}" if (coming := loads.arrivals(row)) else ""
    name = (
        f"{row['model_id'].rpartition('/')[2]} {row['platform']} {row['precision'] or formatting.MISSING}{batch}{load}"
    )
    where = f" on {row['hardware_id']}, {loads.STATED_WORDS}" if loads.is_stated(row) else ""
    return f"{name}{where}{_by_rules(row)}"


def _by_rules(row: Mapping[str, Any]) -> str:
    """Say what a scenario came to by its rules, where it has any."""
    scenario_result = row.get("scenario_result")
    return f"; {scenario_result['scenario']} {scenario_result['result']} by its rules" if scenario_result else ""
