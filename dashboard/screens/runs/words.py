"""Runs in words and rows: what the page shows of a list of them, and of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any
from uuid import UUID

import msgspec
import pandas as pd

from dashboard.address import Params, Read, Reader, one_of, position, text, understood
from presentation import formatting, loads, run_progress
from presentation.palette import VERDICT_GLYPHS

__all__ = [
    "TABS",
    "Runs",
    "asked_of_list",
    "environment",
    "failures",
    "finding",
    "heading",
    "latency",
    "listed",
    "measured",
    "mix",
    "named",
    "read_runs",
    "sentence",
    "standing",
    "verdict",
]

TABS = ("row", "rows", "failures", "tests", "environment")
KEPT_FIELDS = {
    "driver": "Driver",
    "os": "Operating system",
    "kernel": "Kernel",
    "python": "Python",
    "cpu": "Processor",
    "machine": "Machine",
    "hypervisor": "Hypervisor",
    "memory_bytes": "Memory",
}
Row = Mapping[str, Any]


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows: a page of runs that are of one kind, or one run and of it a tab, or one row of it."""

    run: str = ""
    row: str = ""
    tab: str = ""
    kind: str = ""
    origin: str = ""
    hw: str = ""
    outcome: str = ""
    cursor: str = ""
    as_of: int | None = None


def _event(values: Sequence[str]) -> str:
    try:
        return str(UUID(values[-1].strip()))
    except ValueError:
        raise ValueError("must be the id of an event") from None


_READERS: dict[str, Reader] = {
    "run": text,
    "row": _event,
    "tab": one_of(TABS),
    "kind": text,
    "origin": text,
    "hw": text,
    "outcome": text,
    "cursor": text,
    "as_of": position,
}


def read_runs(params: Params) -> Read:
    """Read the page's parameters; a row alone is enough to find its run."""
    return understood(Runs, params, _READERS)


def asked_of_list(runs: Runs, limit: int) -> dict[str, Any]:
    """Return what the service is asked for a page of runs."""
    named = {"kind": runs.kind, "origin": runs.origin, "hardware": runs.hw, "outcome": runs.outcome}
    return {**{name: value or None for name, value in named.items()}, "cursor": runs.cursor or None, "limit": limit}


def finding(row: Row, now: datetime) -> str:
    """Say how many runs were found, and how the newest of them stands."""
    total, items = row["total"], row["items"]
    newest = items[0]
    runs = "1 run" if total == 1 else f"{formatting.count(total)} runs"
    if row["first"] not in (None, 1):
        return f"Runs {formatting.count(row['first'])}–{formatting.count(row['first'] + len(items) - 1)} of {formatting.count(total)}"
    return f"{runs}; the newest, {heading(newest)}, {standing(newest, now)}: {run_progress.length(newest)}"


def heading(run: Row) -> str:
    """Name a run by what it did and where: `bench on intel-xeon-2c`."""
    source = run.get("provenance_source")
    if run.get("kind") == "import" and source:
        return f"import of {_with_file(str(source), str(run.get('reference') or ''))}"
    return f"{run.get('kind') or 'run'} on {run_progress.where(run)}"


def _with_file(source: str, reference: str) -> str:
    """Name the file as well, where the source does not: imports of one source are distinguished."""
    file = reference.rpartition("/")[2]
    return source if not file or file.partition(".")[0] in source else f"{source}, {file}"


def standing(run: Row, now: datetime) -> str:
    """Say how a run stands in a sentence: completed, is running, was never ended."""
    word, live = run_progress.state(run, now)
    return "is running" if live else {"never ended": "never ended", "retracted": "was retracted"}.get(word, word)


def sentence(run: Row, now: datetime) -> str:
    """Say of one run how far it came and what its rows are worth."""
    text = f"{heading(run)[:1].upper()}{heading(run)[1:]} {standing(run, now)}: {run_progress.length(run)}"
    return f"{text}; {run_progress.verdicts(run)}" if run.get("rows") else text


def mix(items: Sequence[Row], now: datetime, zone: tzinfo | None) -> list[dict[str, Any]]:
    """Return what the picture of a list shows of each run: its name, its shares by verdict, and these in words."""
    drawn = []
    for run in items:
        shares = {name: int(run.get(f"rows_{name}") or 0) for name in run_progress.VERDICTS}
        words = f"{formatting.count(run['rows'])} rows: {run_progress.verdicts(run)}" if run.get("rows") else "no rows"
        drawn.append(
            {
                "run": run["run_id"],
                "label": f"{_begun(run, zone)} · {heading(run)}",
                "counts": shares,
                "text": _figures(run),
                "brief": _brief(run),
                "detail": f"{words} · {run_progress.length(run)} · {standing(run, now)}",
            }
        )
    return drawn


def _figures(run: Row) -> str:
    """Write the verdicts that there are: `92 ✓ · 7 ⚠`; the table beside the picture has those that are 0 as well."""
    if run.get("retracted_because"):
        return "retracted"
    counts = {name: run.get(f"rows_{name}") for name in run_progress.VERDICTS}
    texts = [
        f"{formatting.count(count)} {VERDICT_GLYPHS.get(name, 'no verdict')}" for name, count in counts.items() if count
    ]
    if run.get("rows_failed"):
        texts.append(f"{formatting.count(run['rows_failed'])} failed")
    if run.get("rows_tested"):
        texts.append(_tested(run))
    return " · ".join(texts or ["no rows"])


def _tested(run: Row) -> str:
    return f"{formatting.count(run.get('tests_passed') or 0)}/{formatting.count(run['rows_tested'])} tests passed"


def _brief(run: Row) -> str:
    if run.get("retracted_because") or not run.get("rows"):
        return "retracted" if run.get("retracted_because") else _tested(run) if run.get("rows_tested") else "no rows"
    name = max(run_progress.VERDICTS, key=lambda item: int(run.get(f"rows_{item}") or 0))
    said = VERDICT_GLYPHS.get(name) or VERDICT_GLYPHS[None]
    return f"{formatting.share(run[f'rows_{name}'] / run['rows'])} {said}"


def listed(items: Sequence[Row], now: datetime, zone: tzinfo | None) -> pd.DataFrame:
    """Return runs as a table, in words and figures."""
    heads = {
        "Rows": "rows",
        "Valid": "rows_valid",
        "Suspect": "rows_suspect",
        "Invalid": "rows_invalid",
        "Failed": "rows_failed",
        "Tests": "rows_tested",
        "Models": "models",
    }
    return pd.DataFrame(
        {
            "Run": [heading(run) for run in items],
            "State": [run_progress.state(run, now).word for run in items],
            "Started": [_begun(run, zone) for run in items],
            "Took": [run_progress.duration(run) for run in items],
            **{head: pd.Series([run.get(key) for run in items], dtype="Int64") for head, key in heads.items()},
            "Planned": pd.Series([run.get("planned") for run in items], dtype="Int64"),
            "Source": [run_progress.source_words(run) for run in items],
            "Id": [run["run_id"] for run in items],
        }
    )


def _begun(run: Row, zone: tzinfo | None) -> str:
    """Say when a run began; one that does not say so, when it came."""
    if run.get("started_at"):
        return formatting.when(run["started_at"], zone)
    return f"came {formatting.date(run.get('recorded_at'), zone)}"


def named(row: Row) -> str:
    """Name a row of a run: model, platform, precision, batch."""
    parts = [str(row["model_id"]).rpartition("/")[2], row["platform"], row.get("precision") or "precision unknown"]
    return " · ".join([*parts, loads.batch_words(row)])


def verdict(word: str | None) -> str:
    """Write a verdict with its glyph."""
    return f"{VERDICT_GLYPHS.get(word, VERDICT_GLYPHS[None])} {word or 'no verdict'}"


def latency(row: Row) -> str:
    """Write a row's median with its interval; where it has none its mean or a percentile, which say so."""
    if row.get("latency_p50_ms") is not None:
        ends = (row.get("latency_p50_ci95_low_ms"), row.get("latency_p50_ci95_high_ms"))
        return formatting.latency(row["latency_p50_ms"], *ends)
    for name in ("mean", "p90", "p95", "p99"):
        if row.get(f"latency_{name}_ms") is not None:
            return f"{formatting.latency(row[f'latency_{name}_ms'])} ({name})"
    return formatting.MISSING


def measured(rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows of a run as a table: what was measured, how fast, and why it is doubted."""
    memory = formatting.memory_scale([row.get("peak_memory_bytes") for row in rows])
    return pd.DataFrame(
        {
            **_subject(rows),
            "Latency p50 (95 % CI)": [latency(row) for row in rows],
            "n": pd.Series([row.get("latency_n") for row in rows], dtype="Int64"),
            "Verdict": [verdict(row.get("verdict")) for row in rows],
            "Throughput": [formatting.throughput(row.get("throughput_per_s")) for row in rows],
            f"Peak memory {memory.unit}": [
                formatting.significant(memory.of(row.get("peak_memory_bytes"))) for row in rows
            ],
            "Why": ["; ".join(row.get("verdict_reasons") or []) or formatting.MISSING for row in rows],
            "Hardware": [loads.hardware_words(row, row["hardware_id"]) for row in rows],
        }
    )


def _subject(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "Model": [str(row["model_id"]).rpartition("/")[2] for row in rows],
        "Platform": [row["platform"] for row in rows],
        "Precision": [row.get("precision") or formatting.MISSING for row in rows],
        "Batch": pd.Series([row.get("batch_size") for row in rows], dtype="Int64"),
    }


def failures(rows: Sequence[Row]) -> pd.DataFrame:
    """Return failures or tests of a run as a table: what, how far it came, and what to try."""
    return pd.DataFrame(
        {
            **_subject(rows),
            "Outcome": [str(row["outcome"]).replace("_", " ") for row in rows],
            "Stage": [str(row["stage"]).replace("_", " ") for row in rows],
            "Message": [str(row.get("message") or formatting.MISSING).partition("\n")[0] for row in rows],
            "What to try": [row.get("remedy") or formatting.MISSING for row in rows],
        }
    )


def environment(now: Row, differs: Mapping[str, Sequence[Any]] | None) -> pd.DataFrame:
    """Return an environment as a table: what it was, and where that changed, what it was in the run before."""
    existing = {KEPT_FIELDS[name]: (name, now.get(name)) for name in KEPT_FIELDS if now.get(name) is not None}
    existing |= {name: (name, version) for name, version in (now.get("libraries") or {}).items()}
    gone = {name: (name, None) for name, (_, new) in (differs or {}).items() if new is None}
    document = {**existing, **{KEPT_FIELDS.get(name, name): value for name, value in gone.items()}}
    changed = differs or {}
    return pd.DataFrame(
        {
            "What": list(document),
            "This run": [_shown(name, value) for name, value in document.values()],
            "The run before": [
                _shown(name, changed[name][0]) if name in changed else "the same" for name, _ in document.values()
            ],
        }
    )


def _shown(name: str, value: Any) -> str:
    return formatting.memory(value) if name == "memory_bytes" else formatting.MISSING if value is None else str(value)
