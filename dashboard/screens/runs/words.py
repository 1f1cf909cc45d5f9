"""Runs in words and rows: what the page shows of a list of them, and of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TypedDict
from uuid import UUID

import msgspec
import pandas as pd
from msgspec.structs import asdict

from assay.client.row_types import Environment, Run
from dashboard.address import Params, Read, Reader, one_of, position, text, understood
from dashboard.screens.runs.query import RunPage
from domain.answers.run import MeasuredRow, TriedRow
from domain.measured import Latency
from presentation import formatting, loads, run_progress
from presentation.palette import VERDICT_GLYPHS

__all__ = [
    "TABS",
    "RunBar",
    "RunQuestion",
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
Value = str | int | float | None


class RunQuestion(TypedDict):
    """What the service is asked for a page of runs."""

    kind: str | None
    origin: str | None
    hardware: str | None
    outcome: str | None
    cursor: str | None
    limit: int


class RunBar(msgspec.Struct, frozen=True, kw_only=True):
    """What the picture of a list shows of a run: its name, its rows by verdict, and these in words."""

    run: str
    label: str
    counts: dict[str, int]
    text: str
    brief: str
    detail: str


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


def asked_of_list(runs: Runs, limit: int) -> RunQuestion:
    """Return what the service is asked for a page of runs."""
    return {
        "kind": runs.kind or None,
        "origin": runs.origin or None,
        "hardware": runs.hw or None,
        "outcome": runs.outcome or None,
        "cursor": runs.cursor or None,
        "limit": limit,
    }


def finding(page: RunPage, now: datetime) -> str:
    """Say how many runs were found, and how the newest of them stands."""
    total, items, first = page.total, page.runs.items, page.first
    newest = items[0]
    runs = "1 run" if total == 1 else f"{formatting.count(total)} runs"
    if first is not None and first != 1:
        return f"Runs {formatting.count(first)}–{formatting.count(first + len(items) - 1)} of {formatting.count(total)}"
    return f"{runs}; the newest, {heading(newest)}, {standing(newest, now)}: {run_progress.length(newest)}"


def heading(run: Run) -> str:
    """Name a run by what it did and where: `bench on intel-xeon-2c`."""
    if run.kind == "import" and run.provenance_source:
        return f"import of {_with_file(run.provenance_source, run.reference or '')}"
    return f"{run.kind or 'run'} on {run_progress.where(run)}"


def _with_file(source: str, reference: str) -> str:
    """Name the file as well, where the source does not: imports of one source are distinguished."""
    file = reference.rpartition("/")[2]
    return source if not file or file.partition(".")[0] in source else f"{source}, {file}"


def standing(run: Run, now: datetime) -> str:
    """Say how a run stands in a sentence: completed, is running, was never ended."""
    word, live = run_progress.state(run, now)
    return "is running" if live else {"never ended": "never ended", "retracted": "was retracted"}.get(word, word)


def sentence(run: Run, now: datetime) -> str:
    """Say of one run how far it came and what its rows are worth."""
    text = f"{heading(run)[:1].upper()}{heading(run)[1:]} {standing(run, now)}: {run_progress.length(run)}"
    return f"{text}; {run_progress.verdicts(run)}" if run.rows else text


def mix(items: Sequence[Run], now: datetime, zone: tzinfo | None) -> list[RunBar]:
    """Return what the picture of a list shows of each run."""
    bars = []
    for run in items:
        words = f"{formatting.count(run.rows)} rows: {run_progress.verdicts(run)}" if run.rows else "no rows"
        bars.append(
            RunBar(
                run=run.run_id,
                label=f"{_begun(run, zone)} · {heading(run)}",
                counts=run_progress.by_verdict(run),
                text=_figures(run),
                brief=_brief(run),
                detail=f"{words} · {run_progress.length(run)} · {standing(run, now)}",
            )
        )
    return bars


def _figures(run: Run) -> str:
    """Write the verdicts that there are: `92 ✓ · 7 ⚠`; the table beside the picture has those that are 0 as well."""
    if run.retracted_because:
        return "retracted"
    texts = [
        f"{formatting.count(count)} {VERDICT_GLYPHS.get(name, 'no verdict')}"
        for name, count in run_progress.by_verdict(run).items()
        if count
    ]
    if run.rows_failed:
        texts.append(f"{formatting.count(run.rows_failed)} failed")
    if run.rows_tested:
        texts.append(_tested(run))
    return " · ".join(texts or ["no rows"])


def _tested(run: Run) -> str:
    return f"{formatting.count(run.tests_passed or 0)}/{formatting.count(run.rows_tested)} tests passed"


def _brief(run: Run) -> str:
    if run.retracted_because:
        return "retracted"
    if not run.rows:
        return _tested(run) if run.rows_tested else "no rows"
    counts = run_progress.by_verdict(run)
    name = max(counts, key=lambda item: counts[item])
    glyph = VERDICT_GLYPHS.get(name) or VERDICT_GLYPHS[None]
    return f"{formatting.share(counts[name] / run.rows)} {glyph}"


def listed(items: Sequence[Run], now: datetime, zone: tzinfo | None) -> pd.DataFrame:
    """Return runs as a table, in words and figures."""
    counts = {
        "Rows": [run.rows for run in items],
        "Valid": [run.rows_valid for run in items],
        "Suspect": [run.rows_suspect for run in items],
        "Invalid": [run.rows_invalid for run in items],
        "Failed": [run.rows_failed for run in items],
        "Tests": [run.rows_tested for run in items],
        "Models": [run.models for run in items],
        "Planned": [run.planned for run in items],
    }
    return pd.DataFrame(
        {
            "Run": [heading(run) for run in items],
            "State": [run_progress.state(run, now).word for run in items],
            "Started": [_begun(run, zone) for run in items],
            "Took": [run_progress.duration(run) for run in items],
            **{head: pd.Series(values, dtype="Int64") for head, values in counts.items()},
            "Source": [run_progress.source_words(run.source, run.attestation) for run in items],
            "Id": [run.run_id for run in items],
        }
    )


def _begun(run: Run, zone: tzinfo | None) -> str:
    """Say when a run began; one that does not say so, when it came."""
    if run.started_at:
        return formatting.when(run.started_at, zone)
    return f"came {formatting.date(run.recorded_at, zone)}"


def named(row: MeasuredRow | TriedRow) -> str:
    """Name a row of a run: model, platform, precision, batch."""
    parts = [row.model_id.rpartition("/")[2], row.platform, row.precision or "precision unknown"]
    return " · ".join([*parts, loads.batch_words(asdict(row))])


def verdict(word: str | None) -> str:
    """Write a verdict with its glyph."""
    return f"{VERDICT_GLYPHS.get(word, VERDICT_GLYPHS[None])} {word or 'no verdict'}"


def latency(times: Latency) -> str:
    """Write a median with its interval; where there is none a mean or a percentile, which say so."""
    if times.p50 is not None:
        low, high = (times.ci95 or {}).get("p50", (None, None))
        return formatting.latency(times.p50, low, high)
    for name, value in {"mean": times.mean, "p90": times.p90, "p95": times.p95, "p99": times.p99}.items():
        if value is not None:
            return f"{formatting.latency(value)} ({name})"
    return formatting.MISSING


def _times(row: MeasuredRow) -> Latency:
    low, high = row.latency_p50_ci95_low_ms, row.latency_p50_ci95_high_ms
    return Latency(
        p50=row.latency_p50_ms,
        mean=row.latency_mean_ms,
        p90=row.latency_p90_ms,
        p95=row.latency_p95_ms,
        p99=row.latency_p99_ms,
        ci95=None if low is None or high is None else {"p50": (low, high)},
    )


def measured(rows: Sequence[MeasuredRow]) -> pd.DataFrame:
    """Return rows of a run as a table: what was measured, how fast, and why it is doubted."""
    memory = formatting.memory_scale([row.peak_memory_bytes for row in rows])
    return pd.DataFrame(
        {
            **_subject(rows),
            "Latency p50 (95 % CI)": [latency(_times(row)) for row in rows],
            "n": pd.Series([row.latency_n for row in rows], dtype="Int64"),
            "Verdict": [verdict(row.verdict) for row in rows],
            "Throughput": [formatting.throughput(row.throughput_per_s) for row in rows],
            f"Peak memory {memory.unit}": [formatting.significant(memory.of(row.peak_memory_bytes)) for row in rows],
            "Why": ["; ".join(row.verdict_reasons or []) or formatting.MISSING for row in rows],
            "Hardware": [loads.hardware_words(asdict(row), row.hardware_id) for row in rows],
        }
    )


def _subject(rows: Sequence[MeasuredRow] | Sequence[TriedRow]) -> dict[str, pd.Series]:
    return {
        "Model": pd.Series([row.model_id.rpartition("/")[2] for row in rows]),
        "Platform": pd.Series([row.platform for row in rows]),
        "Precision": pd.Series([row.precision or formatting.MISSING for row in rows]),
        "Batch": pd.Series([row.batch_size for row in rows], dtype="Int64"),
    }


def failures(rows: Sequence[TriedRow]) -> pd.DataFrame:
    """Return failures or tests of a run as a table: what, how far it came, and what to try."""
    return pd.DataFrame(
        {
            **_subject(rows),
            "Outcome": [row.outcome.replace("_", " ") for row in rows],
            "Stage": [row.stage.replace("_", " ") for row in rows],
            "Message": [(row.message or formatting.MISSING).partition("\n")[0] for row in rows],
            "What to try": [row.remedy or formatting.MISSING for row in rows],
        }
    )


def environment(now: Environment, differs: Mapping[str, tuple[Value, Value]] | None) -> pd.DataFrame:
    """Return an environment as a table: what it was, and where that changed, what it was in the run before."""
    stated: dict[str, Value] = {name: value for name in KEPT_FIELDS if (value := getattr(now, name)) is not None}
    existing = {KEPT_FIELDS[name]: (name, value) for name, value in stated.items()}
    existing |= {name: (name, version) for name, version in (now.libraries or {}).items()}
    changed = differs or {}
    gone = {KEPT_FIELDS.get(name, name): (name, None) for name, (_, new) in changed.items() if new is None}
    document = {**existing, **gone}
    return pd.DataFrame(
        {
            "What": list(document),
            "This run": [_shown(name, value) for name, value in document.values()],
            "The run before": [
                _shown(name, changed[name][0]) if name in changed else "the same" for name, _ in document.values()
            ],
        }
    )


def _shown(name: str, value: Value) -> str:
    if name == "memory_bytes" and not isinstance(value, str):
        return formatting.memory(value)
    return formatting.MISSING if value is None else str(value)
