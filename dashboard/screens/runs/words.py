"""Runs in words and rows: what the page shows of a list of them, and of one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, tzinfo
from typing import NamedTuple, TypedDict
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec.structs import asdict

from assay.client.row_types import Environment, Run
from dashboard import evidence
from dashboard.address import Params, Read, Reader, one_of, position, text, understood
from dashboard.screens.runs.query import RunPage
from dashboard.tables.result_table import Column, filled
from domain.answers.run import MeasuredRow, TriedRow
from domain.measured import Latency
from presentation import formatting, loads, run_progress
from presentation.answer_words import model_name
from presentation.palette import VERDICT_GLYPHS

__all__ = [
    "SHARES",
    "TABS",
    "Mending",
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
    "mending",
    "moment",
    "nothing_of",
    "read_runs",
    "run_path",
    "sentence",
    "short",
    "standing",
    "verdict",
]

TABS = ("row", "rows", "failures", "tests", "environment")
SHARES = ("doubtful", "all")
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
MOST_MODELS = 8
LONGER = 4
"""Times the budget, where it ended before the interval was narrow."""
_SHORT = ("budget", "samples", "steady")
"""Words of reasons that more time mends."""
_AT_REST = "on an idle, cool machine"
_BUDGET_S = 5.0
"""What `assay bench` spends on a configuration where the run does not say."""


class RunQuestion(TypedDict):
    """What the service is asked for a page of runs."""

    kind: str | None
    origin: str | None
    hardware: str | None
    outcome: str | None
    cursor: str | None
    limit: int


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows: a page of runs that are of one kind, or one run and of it a tab, or one row of it.

    `rows` are those of a run that are listed: the doubtful ones, or all of them.
    """

    run: str = ""
    row: str = ""
    tab: str = ""
    rows: str = ""
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
    "rows": one_of(SHARES),
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


def nothing_of(request: Runs) -> str:
    """Say that no run is of the kind that was asked for."""
    names = {"kind": "kind", "origin": "origin", "hw": "hardware", "outcome": "outcome"}
    asked = ", ".join(f"{word} {getattr(request, name)}" for name, word in names.items() if getattr(request, name))
    return f"No run is of {asked or 'that kind'}."


def heading(run: Run) -> str:
    """Name a run by what it did and where: `bench on intel-xeon-2c`."""
    if run.kind == "import" and run.provenance_source:
        return f"import of {_with_file(run.provenance_source, run.reference or '')}"
    whose = " by a page, not accepted," if run.origin == "page" else ""
    return f"{run.kind or 'run'}{whose} on {run_progress.where(run)}"


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


def _figures(run: Run) -> str:
    """Write the verdicts that there are: `92 ✓ · 7 ⚠`."""
    if run.retracted_because:
        return "retracted"
    texts = [
        f"{formatting.count(count)} {VERDICT_GLYPHS.get(name, VERDICT_GLYPHS[None])}"
        for name, count in run_progress.by_verdict(run).items()
        if count
    ]
    if run.rows_tested:
        texts.append(_tested(run))
    if run.kernels and not texts:
        texts.append(f"{formatting.count(run.kernels)} kernels")
    return " · ".join(texts) or formatting.MISSING


def _tested(run: Run) -> str:
    return f"{formatting.count(run.tests_passed or 0)}/{formatting.count(run.rows_tested)} tests passed"


def listed(items: Sequence[Run], now: datetime, zone: tzinfo | None) -> list[Column]:
    """Return the columns of a list of runs: each leads to its page, and its rows by verdict are a bar."""
    doubted = [_doubted(run) for run in items]
    states = [run_progress.state(run, now).word for run in items]
    columns = [
        Column(head="Run", values=[short(run) for run in items], links=[run_path(run.run_id) for run in items]),
        Column(
            head="Verdicts",
            values=[count / run.rows if run.rows else None for count, run in zip(doubted, items, strict=True)],
            shown=[_figures(run) for run in items],
            parts=[run_progress.by_verdict(run) for run in items],
            help="✓ valid, ⚠ suspect, ✕ invalid, · no verdict; sorted by the share that is suspect or invalid",
        ),
        _counts("Failed", [run.rows_failed for run in items]),
        Column(
            head=f"Started, {now.astimezone(zone or UTC):%Z}",
            values=[moment(run).timestamp() for run in items],
            shown=[_begun(run, zone) for run in items],
            help="`added` is when a run came that does not say when it began",
        ),
        Column(
            head="Took",
            values=[run_progress.seconds(run) for run in items],
            shown=[run_progress.duration(run) for run in items],
        ),
        _counts("Models", [run.models for run in items]),
    ]
    if set(states) != {"completed"}:
        columns.insert(2, Column(head="State", values=states))
    return [column for column in columns if column.parts or any(value is not None for value in column.values)]


def _counts(head: str, counts: Sequence[int | None]) -> Column:
    """Return a column of counts, where 0 is nothing to read."""
    return Column(head=head, values=[count or None for count in counts])


def run_path(run_id: str) -> str:
    """Return the address of the page that shows one run."""
    return f"runs?run={quote(run_id)}"


def _doubted(run: Run) -> int:
    return (run.rows_suspect or 0) + (run.rows_invalid or 0)


def short(run: Run) -> str:
    """Name a run in a list: an import by its source alone, without the ending of its file."""
    name = heading(run)
    return name if run.kind != "import" else re.sub(r"\.[a-z]{2,7}$", "", name.removeprefix("import of "))


def moment(run: Run) -> datetime:
    """Return when a run began, or when it came where it does not say so."""
    begun = run.started_at or run.recorded_at
    return begun if begun.tzinfo else begun.replace(tzinfo=UTC)


def _begun(run: Run, zone: tzinfo | None) -> str:
    """Say when a run began, to the minute or by its day; one that does not say so, on which day it came."""
    begun = moment(run)
    local = begun.astimezone(zone or UTC)
    if not run.started_at:
        return f"added {local:%Y-%m-%d}"
    # Midnight of UTC is how files say a day: it is the same day in every zone.
    utc = begun.astimezone(UTC)
    return f"{utc:%Y-%m-%d}" if utc.time() == time() else f"{local:%Y-%m-%d %H:%M}"


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


def measured(rows: Sequence[MeasuredRow]) -> list[Column]:
    """Return the columns of a run's rows, the doubtful first: what was measured, how fast, and why it is doubted."""
    rows = sorted(rows, key=_severity)
    times = [_times(row) for row in rows]
    memory = formatting.memory_scale([row.peak_memory_bytes for row in rows])
    devices = [loads.hardware_words(asdict(row), row.hardware_id) for row in rows]
    columns = [
        *_subject(rows),
        Column(
            head="Verdict",
            values=[f"{_severity(row)} {row.verdict}" for row in rows],
            shown=[verdict(row.verdict) for row in rows],
        ),
        Column(head="Why", values=["; ".join(row.verdict_reasons or []) or None for row in rows]),
        Column(
            head="Latency",
            values=[_typical(item) for item in times],
            shown=[latency(item) for item in times],
            low=[(item.ci95 or {}).get("p50", (None, None))[0] for item in times],
            high=[(item.ci95 or {}).get("p50", (None, None))[1] for item in times],
            help="The median with its 95 % interval, or what stands in brackets",
        ),
        Column(head="Samples", values=[row.latency_n for row in rows]),
        _shown("Throughput", [row.throughput_per_s for row in rows], formatting.throughput),
        Column(
            head=f"Peak memory, {memory.unit}",
            values=[row.peak_memory_bytes for row in rows],
            shown=[formatting.significant(memory.of(row.peak_memory_bytes)) for row in rows],
        ),
    ]
    if len(set(devices)) > 1:
        columns.append(Column(head="Hardware", values=devices))
    return filled(columns)


def _severity(row: MeasuredRow) -> int:
    order = ("invalid", "suspect", None, "valid")
    return order.index(row.verdict) if row.verdict in order else order.index(None)


def _typical(times: Latency) -> float | None:
    return next(
        (value for value in (times.p50, times.mean, times.p90, times.p95, times.p99) if value is not None), None
    )


def _shown(head: str, values: Sequence[float | None], words: Callable[[float | None], str]) -> Column:
    return Column(head=head, values=values, shown=[words(value) for value in values])


def _subject(rows: Sequence[MeasuredRow] | Sequence[TriedRow]) -> list[Column]:
    return [
        Column(
            head="Model",
            values=[model_name(row.model_id) for row in rows],
            links=[evidence.row_path(row.event_id) for row in rows],
        ),
        Column(head="Platform", values=[row.platform for row in rows]),
        Column(head="Precision", values=[row.precision for row in rows]),
        Column(head="Batch", values=[row.batch_size for row in rows]),
    ]


def failures(rows: Sequence[TriedRow]) -> list[Column]:
    """Return the columns of a run's failures or tests: what, how far it came, and what to try."""
    columns = [
        *_subject(rows),
        Column(head="Outcome", values=[row.outcome.replace("_", " ") for row in rows]),
        Column(head="Stage", values=[row.stage.replace("_", " ") for row in rows]),
        Column(head="Message", values=[(row.message or "").partition("\n")[0] or None for row in rows]),
        Column(head="What to try", values=[row.remedy for row in rows]),
    ]
    return filled(columns)


def environment(now: Environment, differs: Mapping[str, tuple[Value, Value]] | None) -> list[Column]:
    """Return the columns of an environment: what it is, and where a run before is known, what it was there."""
    stated: dict[str, Value] = {name: value for name in KEPT_FIELDS if (value := getattr(now, name)) is not None}
    existing = {KEPT_FIELDS[name]: (name, value) for name, value in stated.items()}
    existing |= {name: (name, version) for name, version in (now.libraries or {}).items()}
    changed = differs or {}
    gone = {KEPT_FIELDS.get(name, name): (name, None) for name, (_, new) in changed.items() if new is None}
    document = {**existing, **gone}
    columns = [
        Column(head="What", values=list(document)),
        Column(head="This run", values=[_stated(name, value) for name, value in document.values()]),
    ]
    if differs is None:
        return columns
    before = [_stated(name, changed[name][0]) if name in changed else "the same" for name, _ in document.values()]
    return [*columns, Column(head="The run before", values=before)]


def _stated(name: str, value: Value) -> str:
    if name == "memory_bytes" and not isinstance(value, str):
        return formatting.memory(value)
    return formatting.MISSING if value is None else str(value)


class Mending(NamedTuple):
    """What to do, and the command for it."""

    words: str
    command: str


def mending(run: Run, doubted: Sequence[MeasuredRow], failed: Sequence[TriedRow], now: datetime) -> Mending | None:
    """Return what mends a run, the gravest first; None where nothing is to be done."""
    state = run_progress.state(run, now)
    if state.live or run.retracted_because:
        return None
    if run.kind == "import":
        refused = (run.failed or 0) - (run.rows_failed or 0)
        if refused > 0:
            words = f"{formatting.count(refused)} rows of the file were refused. Write them to a file, mend them and import that:"
            return Mending(words, f"assay import auto {_file(run)} --rejects refused.ndjson")
        return None
    if run.kind not in ("bench", "verify"):
        return None
    if run.outcome is None:
        return Mending("The end never came. If its machine kept rows, send them from there:", "assay spool send")
    if failed:
        remedy = next((row.remedy for row in failed if row.remedy), None)
        words = f"{formatting.count(run.rows_failed)} failed. {remedy or 'Once the cause is gone, try them again:'}"
        return Mending(words, _again(run, failed))
    return _measure_again(run, doubted) if doubted else None


def _measure_again(run: Run, doubted: Sequence[MeasuredRow]) -> Mending:
    reasons = [_is_short(reason) for row in doubted for reason in row.verdict_reasons or []]
    how = [words for words, applies in ((_AT_REST, False in reasons), ("for longer", True in reasons)) if applies]
    models = len(_several(row.model_id for row in doubted))
    which = "them" if models <= MOST_MODELS else f"the first {MOST_MODELS} of {models} models"
    count = "1 row is" if len(doubted) == 1 else f"{formatting.count(len(doubted))} rows are"
    words = " ".join([f"{count} doubtful. Measure {which} again", " and ".join(how)]).rstrip()
    return Mending(f"{words}:", _again(run, doubted, longer=True in reasons))


def _is_short(reason: str) -> bool:
    return any(word in reason for word in _SHORT)


def _again(run: Run, rows: Sequence[MeasuredRow] | Sequence[TriedRow], *, longer: bool = False) -> str:
    """Write the command that measures the configurations of these rows again."""
    verb = "verify" if run.kind == "verify" else "bench"
    words = ["assay", verb, *_several(row.model_id for row in rows)[:MOST_MODELS]]
    words += ["--platform", ",".join(_several(row.platform for row in rows))]
    words += ["--precision", ",".join(_several(row.precision for row in rows if row.precision)) or "fp32"]
    if sizes := _several(str(row.batch_size) for row in rows if row.batch_size):
        words += ["--batch-sizes", ",".join(sizes)]
    if longer and verb == "bench":
        method = (run.plan or {}).get("method") or {}
        words += ["--budget", f"{LONGER * float(method.get('budget_s') or _BUDGET_S):g}"]
    return shlex.join(words)


def _several(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _file(run: Run) -> str:
    return shlex.quote((run.reference or "FILE").rpartition("/")[2].partition("@")[0])
