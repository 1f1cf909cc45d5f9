"""`assay validate`: measurements in the tables whose figures contradict each other, and voiding them as new events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click

from assay.cli.confirming import confirm, confirmed
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.errors import UsageError
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from ingest.importers.draft import Draft

__all__ = ["contradictions", "validate"]

PAGE = 10_000
PORTION = 20_000
"""So many rows at the most are compared with each other; those of one model are kept together below that."""
SHOWN = 40
OF_MEASURED = ("impossible-speed", "inconsistent-rate", "slower-elsewhere")
"""The rules that a runner's own rows are held against; the others look for what other tools get wrong."""
_LATENCY = {"mean": "latency_mean_ms", "min": "latency_min_ms", "max": "latency_max_ms", "p50": "latency_p50_ms"}
_METRICS = ("throughput_per_s", "tokens_per_s", "first_run_ms")
_COLUMNS = (
    "position",
    "event_id",
    "model_id",
    "parameters",
    "category",
    "workload::VARCHAR AS workload",
    "platform",
    "execution::VARCHAR AS execution",
    "hardware_id",
    "hardware_kind",
    "hardware_count",
    "origin",
    "verdict",
    "reference",
    *_LATENCY.values(),
    *_METRICS,
)


class Contradiction(msgspec.Struct, kw_only=True):
    """A measurement that a rule caught; `verdict` is the rule's, `marked` what the row says of itself already."""

    event_id: str
    position: int
    model: str
    hardware: str
    platform: str
    rule: str
    verdict: str
    origin: str
    marked: str | None
    reason: str
    reference: str | None


@click.command(
    epilog="""\b
Examples:
  assay validate
  assay validate --rule inconsistent-rate --repair --yes"""
)
@click.option("--repair", is_flag=True, help="Void what was found: a retraction with the reason for each.")
@click.option("--rule", "rules", multiple=True, metavar="NAME", help="Only what this rule finds; may be repeated.")
@confirmed
@served
@as_json
def validate(
    repair: bool, rules: tuple[str, ...], yes: bool, server: str | None, token: str | None, as_json: bool
) -> int:
    """Look for measurements whose figures contradict each other, by the cleaning rules; exit 1 where there are any.

    Rows that are simulated or invalid already are not looked at. Rows are compared with those of the same origin and
    hardware; measured ones are held against physics and the same configuration alone. --repair shows what each rule would
    void, asks, and voids what cannot be true; what is merely suspect is voided only where --rule names the rule. It voids
    imported rows alone: what a runner measured is for `assay retract`. Nothing is ever changed: a retraction is a fact of its own.
    """
    from assay.cli.connection import connected
    from ingest.importers.rules import ROW_RULES, TOGETHER_RULES

    row_rules = [*ROW_RULES, *TOGETHER_RULES]
    if unknown := [rule for rule in rules if rule not in row_rules]:
        raise UsageError(
            f"no rule is called {unknown[0]!r}.", field="rule", remedy=f"There are {', '.join(row_rules)}."
        )
    with connected(server, token) as client:
        matching_contradictions = [
            contradiction for contradiction in contradictions(client) if not rules or contradiction.rule in rules
        ]
        if not as_json:
            _tell(matching_contradictions, repair=repair)
        voided = _void(client, matching_contradictions, rules, yes=yes) if repair and matching_contradictions else []
    if as_json:
        print_json({"found": matching_contradictions, "voided": voided})
    elif repair:
        say(f"{formatting.count(len(voided))} were voided")
    return 1 if len({item.event_id for item in matching_contradictions}) > len(voided) else 0


def contradictions(client: Client) -> Iterator[Contradiction]:
    """Yield what the rules find in the measurements of a service, model by model; memory stays flat."""
    from ingest.importers.rules import judge, judge_together

    for rows in _portions(client):
        drafts = [_draft(row) for row in rows]
        origins: dict[str, list[Draft]] = {}
        for row, draft in zip(rows, drafts, strict=True):
            judge(draft)
            origins.setdefault(row["origin"], []).append(draft)
        for alike in origins.values():
            judge_together(alike)
        for row, draft in zip(rows, drafts, strict=True):
            for finding in draft.findings:
                if row["origin"] == "measured" and finding.rule not in OF_MEASURED:
                    continue
                yield Contradiction(
                    event_id=row["event_id"],
                    position=row["position"],
                    model=row["model_id"],
                    hardware=row["hardware_id"],
                    platform=row["platform"],
                    rule=finding.rule,
                    verdict=finding.verdict,
                    origin=row["origin"],
                    marked=row["verdict"],
                    reason=finding.reason,
                    reference=row["reference"],
                )


def _portions(client: Client) -> Iterator[list[dict[str, Any]]]:
    """Yield rows, all those of a model together as far as a portion holds them."""
    waiting: list[dict[str, Any]] = []
    for row in _rows(client):
        if waiting and (
            (row["model_id"] != waiting[-1]["model_id"] and len(waiting) >= PAGE) or len(waiting) >= PORTION
        ):
            yield waiting
            waiting = []
        waiting.append(row)
    if waiting:
        yield waiting


def _rows(client: Client) -> Iterator[dict[str, Any]]:
    model, position = "", -1
    newest = client.ready()["position"]
    while True:
        name = model.replace("'", "''")
        sql = (
            f"SELECT {', '.join(_COLUMNS)} FROM measurements "
            f"WHERE origin <> 'simulated' AND coalesce(verdict, '') <> 'invalid' "
            f"AND (model_id > '{name}' OR (model_id = '{name}' AND position > {position})) "
            f"ORDER BY model_id, position LIMIT {PAGE}"
        )
        answer = client.query(sql, limit=PAGE, timeout_s=60, min_position=newest)
        names = [column["name"] for column in answer["columns"]]
        for values in answer["rows"]:
            yield dict(zip(names, values, strict=True))
        if len(answer["rows"]) < PAGE:
            return
        model, position = answer["rows"][-1][names.index("model_id")], answer["rows"][-1][names.index("position")]


def _draft(row: dict[str, Any]) -> Draft:
    """Return a row of the view as the rules know rows."""
    from ingest.importers.draft import Draft

    model = {"id": row["model_id"], "parameters": row["parameters"], "category": row["category"]}
    hardware = {"id": row["hardware_id"], "kind": row["hardware_kind"], "count": row["hardware_count"] or 1}
    latency = {name: row[column] for name, column in _LATENCY.items() if row[column] is not None}
    metrics = {name: row[name] for name in _METRICS if row[name] is not None}
    return Draft(
        model={name: value for name, value in model.items() if value is not None},
        workload=msgspec.json.decode(row["workload"]),
        execution=msgspec.json.decode(row["execution"]) | {"platform": row["platform"]},
        hardware={name: value for name, value in hardware.items() if value is not None},
        metrics=metrics | ({"latency_ms": latency} if latency else {}),
    )


def _void(client: Client, contradictions: list[Contradiction], rules: tuple[str, ...], *, yes: bool) -> list[str]:
    """Append a retraction for each row that cannot be true, or that a named rule caught; return their ids."""
    from assay.cli.connection import event_source
    from domain.events import MEASUREMENT_RETRACTED, new_event
    from domain.payloads import MeasurementRetracted

    reasons: dict[str, list[str]] = {}
    by_rule: Counter[str] = Counter()
    for item in contradictions:
        if item.origin == "imported" and (item.verdict == "invalid" or item.rule in rules):
            reasons.setdefault(item.event_id, []).append(f"{item.rule}: {item.reason}")
            by_rule[item.rule] += 1
    measured = len({item.event_id for item in contradictions if item.origin == "measured"})
    if measured:
        say(f"{formatting.count(measured)} were measured here and stay: look at them, then `assay retract --event ID`")
    if not reasons:
        say("nothing of it cannot be true; name a --rule to void what is suspect")
        return []
    say("would void, by rule: " + ", ".join(f"{formatting.count(n)} {rule}" for rule, n in by_rule.most_common()))
    confirm(f"{formatting.count(len(reasons))} measurements are voided: they leave answers and training.", yes=yes)
    now = datetime.now(UTC)
    events = [
        new_event(
            MEASUREMENT_RETRACTED,
            MeasurementRetracted(event_id=id_, reason="; ".join(said)[:4000]),
            source=event_source(),
            time=now,
        )
        for id_, said in reasons.items()
    ]
    answer = client.post_events(events)
    if answer["last_position"] is not None:
        client.wait_for(answer["last_position"])
    return list(reasons)


def _tell(contradictions: list[Contradiction], *, repair: bool) -> None:
    if not contradictions:
        say("no measurement contradicts itself or another")
        return
    alike: dict[tuple[str, ...], list[Contradiction]] = {}
    for item in contradictions:
        alike.setdefault((item.rule, item.verdict, item.origin, item.model, item.hardware, item.platform), []).append(
            item
        )
    rows = [[formatting.count(len(same)), *key, same[0].reason] for key, same in alike.items()]
    columns: list[str | tuple[str, str]] = [
        ("rows", "right"),
        ("rule", "fixed"),
        ("verdict", "fixed"),
        ("origin", "fixed"),
        "model",
        "hardware",
        ("platform", "fixed"),
        "why, for example",
    ]
    answers().print(grid("Contradictions", columns, rows[:SHOWN]))
    if len(rows) > SHOWN:
        say(f"and {formatting.count(len(rows) - SHOWN)} kinds more; --json has every row")
    if not repair:
        say("--repair voids what cannot be true")
