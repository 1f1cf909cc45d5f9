"""One run, as a CI reads it: what was measured, what changed since, what failed a test, what gave no number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from presentation import formatting, run_progress
from presentation.reports import likeness, pairs
from presentation.reports.content import Column, Part, Row, Section, Table
from presentation.reports.evidence import FIGURES, HIDDEN, WHERE, counted, evidence_column, model_columns, origin_words
from presentation.reports.sections import in_order
from presentation.reports.source import Source

__all__ = ["change_of", "changes_table", "run_facts", "run_sections"]


def run_facts(source: Source) -> list[str]:
    """Say what the run was: when, where, how it ended."""
    run = source.run
    began, ended = run.get("started_at"), run.get("finished_at")
    facts = [
        f"Run {run['run_id']}, {run.get('kind') or 'kind not said'}, by {run_progress.source_words(run.get('source'), run.get('attestation'), run.get('peer'))}"
    ]
    if began:
        facts.append(f"Began {formatting.date(began)}{_took(began, ended)}")
    if run.get("outcome"):
        facts.append(f"Ended: {run['outcome']}{', ' + str(run['reason']) if run.get('reason') else ''}")
    if run.get("retracted_because"):
        facts.append(f"VOID: {run['retracted_because']}")
    if run.get("environment_fingerprint"):
        facts.append(f"Environment {formatting.digest(run['environment_fingerprint'])}")
    return facts


def _took(began: str, ended: str | None) -> str:
    """Say how long a run took; an import knows only the day of its file."""
    if ended is None:
        return ", not finished"
    seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    return f", took {formatting.latency(seconds * 1000)}" if seconds > 0 else ""


def run_sections(source: Source) -> list[Section]:
    """Return what changed, what was measured, the tests and what gave no number; empty parts say so or are left out."""
    measured = source.measured
    tests, failures = source.outcomes(failures=False), source.outcomes(failures=True)
    if not (measured or tests or failures):
        return []
    sections: list[Section] = []
    if measured:
        sections += [_changes(measured, source.earlier), _measured(measured)]
    if tests:
        sections.append(Section("Tests", [_outcomes(tests, "tests", "Tests")]))
    if failures:
        sections.append(Section("Not measured", [_outcomes(failures, "failures", "What gave no number")]))
    return sections


def change_of(row: Row, before: Row | None) -> dict[str, Any]:
    """Return how a row stands against the last known one of its configuration: `change`, and the ratio of the speeds.

    faster, slower: the two 95 % intervals do not meet; alike: they do; unclear: one side has none; new: nothing is known;
    not compared: the row is invalid, simulated, or of a page whose device nobody has accepted.
    """
    if row.get("origin") in ("page", "simulated") or row.get("verdict") == "invalid":
        return {"change": "not compared", "factor": None, "factor_low": None, "factor_high": None}
    if before is None:
        return {"change": "new", "factor": None, "factor_low": None, "factor_high": None}
    ratio = likeness.ratio(row, before)
    low, high = ratio["factor_low"], ratio["factor_high"]
    if ratio["factor"] is None or low is None or high is None:
        word = "unclear"
    else:
        word = "faster" if low > 1 else "slower" if high < 1 else "alike"
    return {"change": word, **ratio}


def _changes(measured: Sequence[Row], earlier: Mapping[str, Row]) -> Section:
    result = []
    for row in measured:
        before = earlier.get(row["configuration"])
        beside = {} if before is None else likeness.paired(row, before)
        result.append({**row, **beside, **change_of(row, before), **_moved(row, before)})
    counts = Counter(row["change"] for row in result)
    words = ", ".join(f"{counts[word]} {word}" for word in _WORDS if counts[word])
    moved = sorted(
        (row for row in result if row["change"] not in ("alike", "new")), key=lambda row: row["factor"] or 9.9
    )
    parts: list[Part] = [f"Against the best that was known of each configuration before this run: {words}."]
    if moved:
        parts.append(changes_table(moved))
    drawn = [row for row in result if row["factor"]]
    if drawn:
        slowest = sorted(drawn, key=lambda row: row["factor"])
        parts.append(pairs.factor_chart(slowest, "changes", "Speed against before", "New speed over the last known"))
    return Section("What changed", parts)


_WORDS = ("slower", "faster", "alike", "unclear", "new", "not compared")


def _moved(row: Row, before: Row | None) -> dict[str, Any]:
    """Keep the row's own origin and verdict, and say whether its surroundings are the same."""
    same = None if before is None else before.get("environment") == row.get("environment")
    evidence = [*row["evidence"], *(before["evidence"] if before else ())]
    return {"origin": row["origin"], "verdict": row["verdict"], "same_environment": same, "evidence": evidence}


def changes_table(rows: Sequence[Row]) -> Table:
    """Return what is faster, slower or unclear, the slowest first."""
    columns = (
        Column("change", "Change", lambda row: row["change"].upper() if row["change"] == "slower" else row["change"]),
        Column("factor", "Speed", pairs.factor_words, figures=True),
        Column("factor_low"),
        Column("factor_high"),
        *model_columns(),
        *WHERE,
        Column("latency_ms", "Latency", FIGURES[0].show, figures=True),
        Column(
            "baseline_latency_ms",
            "Before",
            lambda row: formatting.latency(row.get("baseline_latency_ms")),
            figures=True,
        ),
        Column("same_environment", "Environment", lambda row: "the same" if row["same_environment"] else "another"),
        Column("differs"),
        Column("origin", "Origin", origin_words),
        Column("verdict"),
        evidence_column(),
        *(column for column in HIDDEN if column.key != "mode"),
    )
    note = "Speed: of this run over the last known. faster, slower: the 95 % intervals of both sides do not meet."
    return Table("changes", "Faster and slower", columns, rows, note)


def _measured(measured: Sequence[Row]) -> Section:
    simulated = sum(row["origin"] == "simulated" for row in measured)
    invalid = sum(row["verdict"] == "invalid" for row in measured)
    parts: list[Part] = []
    if simulated or invalid:
        parts.append(f"{counted(simulated, 'row')} simulated and {formatting.count(invalid)} invalid; each says so.")
    table = pairs.measured_table(in_order(measured), "configurations", "Every measurement of the run")
    phases = pairs.phases_table(in_order(measured))
    return Section("Measured", [*parts, table, *([phases] if phases else [])])


def _outcomes(rows: Sequence[Row], name: str, title: str) -> Table:
    """Return outcomes, what failed first."""
    result = [
        {**row, "model": row["model_id"], "hardware": row["hardware_id"], "evidence": [row["event_id"]]} for row in rows
    ]
    result.sort(key=lambda row: (row["outcome"] == "passed", str(row["outcome"]), row["model"], row["position"]))
    document = ({"test": "Test"} if name == "tests" else {}) | {"outcome": "Outcome", "stage": "Stage"}
    columns = (
        *(Column(key, head, _text(key)) for key, head in document.items()),
        *model_columns(),
        *WHERE,
        Column("message", "Message", lambda row: str(row.get("message") or "").split("\n", 1)[0]),
        Column("error"),
        Column("remedy", "What to do", _text("remedy")),
        Column("origin"),
        evidence_column(),
        Column("configuration"),
        Column("environment_fingerprint"),
        Column("position"),
        Column("time"),
    )
    counts = Counter(str(row["outcome"]) for row in result)
    return Table(name, title, columns, result, ", ".join(f"{n} {word}" for word, n in sorted(counts.items())) + ".")


def _text(key: str) -> Any:
    return lambda row: str(row.get(key) or formatting.MISSING)
