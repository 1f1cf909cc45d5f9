"""Tables of a terminal: measurements, tests, failures, and ranked answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from assay.cli.output import grid
from domain.answers import ExcludedConfigurations, Reach, Recommendation
from presentation import formatting
from presentation.answer_words import evidence_words

__all__ = [
    "at_hand_table",
    "comparison_table",
    "doubts",
    "excluded_table",
    "failures_table",
    "measured_parts",
    "measurements_table",
    "parts_table",
    "ranks_table",
    "verifications_table",
    "would_do_table",
]

Event = Mapping[str, Any]

_PARTS = {
    "ttft_ms": "first token",
    "tpot_ms": "per token",
    "forward_ms": "forward",
    "loss_ms": "loss",
    "backward_ms": "backward",
    "optimizer_ms": "optimizer",
    "preprocess_ms": "before the model",
    "realtime_factor": "real time",
}
"""What the times of tokens are, what a training step consists of, and what comes before the model; sound beside its length."""


def _of_type(events: Sequence[Event], name: str) -> list[Mapping[str, Any]]:
    return [event["data"] for event in events if event["type"] == name]


def _short(model_id: str) -> str:
    return model_id.rpartition("/")[2]


def _several(rows: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the platforms that rows of more than one runtime share."""
    pairs = {(data["execution"]["platform"], (data["execution"].get("runtime") or {}).get("name")) for data in rows}
    counts = Counter(platform for platform, _ in pairs)
    return frozenset(platform for platform, count in counts.items() if count > 1)


def _platform(execution: Mapping[str, Any], actual: str | None, several: frozenset[str]) -> str:
    """Name a platform, with its browser, or with the runtime where rows of another one stand beside it."""
    platform = str(actual or execution["platform"])
    if browser := _browser(execution):
        return f"{platform} {browser}"
    runtime = (execution.get("runtime") or {}).get("name")
    return f"{platform} {runtime}" if execution["platform"] in several and runtime else platform


def _browser(execution: Mapping[str, Any]) -> str | None:
    """Return the browser that a page ran in, or was asked to run in."""
    options = execution.get("options") or {}
    asked = (word.partition("browser=")[2] for word in options.get("asked") or () if word.startswith("browser="))
    return options.get("browser") or next(asked, None)


def measurements_table(events: Sequence[Event]) -> Table | None:
    """Return one row a measurement, or None where there is none."""
    of_type = _of_type(events, "assay.measurement.recorded.v1")
    several = _several(of_type)
    rows = []
    for data in of_type:
        latency = data["metrics"].get("latency_ms") or {}
        low, high = (latency.get("ci95") or {}).get("p50") or (None, None)
        observed = data.get("observed") or {}
        validity = data.get("validity") or {}
        rows.append(
            [
                _short(data["model"]["id"]),
                _platform(data["execution"], observed.get("platform"), several),
                observed.get("precision") or data["execution"].get("precision") or formatting.MISSING,
                str(data["workload"].get("batch_size") or formatting.MISSING),
                formatting.latency(latency.get("p50"), low, high),
                formatting.throughput(data["metrics"].get("throughput_per_s")),
                formatting.memory(data["metrics"].get("peak_memory_bytes")),
                formatting.count(latency.get("n")),
                validity.get("verdict") or formatting.MISSING,
            ]
        )
    right = ["batch", "p50 (95 %)", "items", "memory", "n"]
    columns: list[str | tuple[str, str]] = [
        "model",
        ("platform", "fixed"),
        ("precision", "fixed"),
        *((name, "right") for name in right),
        ("verdict", "fixed"),
    ]
    return grid("Measured", columns, rows) if rows else None


def doubts(events: Sequence[Event]) -> list[str]:
    """Return why measurements are not valid: each reason once, in the figures of its first row, with how many rows it marks."""
    counted: dict[str, list[str]] = {}
    for data in _of_type(events, "assay.measurement.recorded.v1"):
        for reason in (data.get("validity") or {}).get("reasons") or []:
            kind = re.sub(r"[-+±]?\d+(\.\d+)? ?%?", "…", reason) if any(mark.isdigit() for mark in reason) else reason
            counted.setdefault(kind, []).append(reason)
    ordered = sorted(counted.values(), key=len, reverse=True)
    return [f"{len(said)} suspect or invalid{', such as' if len(said) > 1 else ''}: {said[0]}" for said in ordered]


def parts_table(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return what a call or a step consists of, a row a name, or None where no row has any of it.

    Rows hold times in ms: of tokens (`ttft_ms`, `tpot_ms`), of the phases of training, of what comes before the model.
    """
    heads = [(name, word) for name, word in _PARTS.items() if any(row.get(name) is not None for row in rows)]
    document = [
        [of, *(_part(name, row.get(name)) for name, _ in heads)]
        for of, row in zip(names, rows, strict=True)
        if any(row.get(name) is not None for name, _ in heads)
    ]
    return grid("Parts", ["what", *((word, "right") for _, word in heads)], document) if document else None


def _part(name: str, value: float | None) -> str:
    return formatting.factor(value) if name == "realtime_factor" else formatting.latency(value)


def measured_parts(events: Sequence[Event]) -> Table | None:
    """Return what the calls and steps of measurements consist of, or None where nothing was timed apart."""
    data = _of_type(events, "assay.measurement.recorded.v1")
    names = [
        " ".join(
            [
                _short(each["model"]["id"]),
                _platform(each["execution"], (each.get("observed") or {}).get("platform"), _several(data)),
                (each.get("observed") or {}).get("precision") or each["execution"].get("precision") or "",
                f"batch {each['workload'].get('batch_size')}" if each["workload"].get("batch_size") else "",
            ]
        ).rstrip()
        for each in data
    ]
    return parts_table(names, [each["metrics"] for each in data])


def ranks_table(events: Sequence[Event]) -> Table | None:
    """Return one row a rank of each training on ranks, or None where there was none."""
    rows = []
    for data in _of_type(events, "assay.measurement.recorded.v1"):
        details = (data.get("observed") or {}).get("details") or {}
        communication = details.get("communication") or {}
        for rank in details.get("ranks", ()) if communication else ():
            strategy = (data["execution"].get("options") or {}).get("strategy", "")
            where = f"node {rank['node']} {rank['device']}" if "node" in rank else str(rank["device"])
            rows.append(
                [
                    f"{_short(data['model']['id'])} {strategy} batch {data['workload'].get('batch_size')}",
                    f"{rank['rank']} ({where})",
                    str(rank["threads"]),
                    formatting.memory(rank["peak_memory_bytes"]),
                    f"{rank['computing_core_share']:.0%}",
                    formatting.latency(rank["exposed_communication_ms"]),
                    formatting.latency(communication["all_reduce_ms"]),
                ]
            )
    right: list[str | tuple[str, str]] = [(name, "right") for name in _OF_RANKS]
    return grid("Ranks", ["what", ("rank", "fixed"), *right], rows) if rows else None


_OF_RANKS = ("threads", "memory", "of a core", "communication", "all-reduce")


def verifications_table(events: Sequence[Event]) -> Table | None:
    """Return one row a test, or None where there is none."""
    rows = []
    of_type = _of_type(events, "assay.test.reported.v1")
    several = _several(of_type)
    for data in of_type:
        outputs, failure = (data.get("checks") or {}).get("outputs") or [], data.get("failure") or {}
        rows.append(
            [
                _short(data["model"]["id"]),
                _platform(data["execution"], None, several),
                data["execution"].get("precision") or formatting.MISSING,
                data["outcome"],
                data["stage"],
                _worst(outputs, "cosine", min, 6),
                _worst(outputs, "max_absolute", max, 3),
                failure.get("message", "").splitlines()[0] if failure.get("message") else "",
            ]
        )
    columns: list[str | tuple[str, str]] = [
        "model",
        ("platform", "fixed"),
        ("precision", "fixed"),
        ("outcome", "fixed"),
        ("stage", "fixed"),
        ("cosine", "right"),
        ("max abs error", "right"),
        "why",
    ]
    return grid("Verified against fp32 on the CPU", columns, rows) if rows else None


def _worst(outputs: Sequence[Mapping[str, Any]], name: str, pick: Callable[[list[float]], float], digits: int) -> str:
    existing = [output[name] for output in outputs if output.get(name) is not None]
    return formatting.significant(pick(existing), digits) if existing else formatting.MISSING


def failures_table(events: Sequence[Event]) -> Table | None:
    """Return one row a failed configuration, or None where there is none."""
    rows = [
        [
            _short(data["model"]["id"]),
            data["execution"]["platform"],
            data["execution"].get("precision") or formatting.MISSING,
            f"{data['outcome']} at {data['stage']}",
            data["failure"]["message"].splitlines()[0] if data["failure"]["message"] else "",
            data.get("remedy") or "",
        ]
        for data in _of_type(events, "assay.measurement.failed.v1")
    ]
    columns: list[str | tuple[str, str]] = [
        "model",
        "platform",
        "precision",
        ("what happened", "text"),
        ("why", "text"),
        "what to try",
    ]
    return grid("Not measured", columns, rows) if rows else None


def at_hand_table(answer: Recommendation) -> Table | None:
    """Return which of the devices at hand to use and which after it, or None where none were given."""
    at_hand = answer.at_hand
    if not at_hand:
        return None
    rows = [
        [
            "use" if place == 0 else "then",
            str(item.name),
            str(item.platform),
            str(item.precision),
            formatting.latency(item.latency_ms, item.latency_ms_low, item.latency_ms_high),
            evidence_words(item.basis),
        ]
        for place, item in enumerate(at_hand.order)
    ]
    rows += [["not", str(item.name), "", "", "", str(item.why)] for item in at_hand.left_out]
    columns: list[str | tuple[str, str]] = ["", "device", "platform", "precision", ("latency", "right"), "evidence"]
    return grid("At hand", columns, rows)


def would_do_table(answer: Recommendation) -> Table | None:
    """Return which limit had to be what for something to meet all of them, or None where something does."""
    rows = [
        [
            str(item.constraint),
            f"{item.limit:g}",
            f"{item.would_do:g}",
            f"{item.hardware} {item.platform} {item.precision}{_load(item)}",
            evidence_words(item.basis),
        ]
        for item in answer.within_reach
    ]
    columns: list[str | tuple[str, str]] = [
        "limit",
        ("asked", "right"),
        ("would do", "right"),
        ("with", "text"),
        ("evidence", "fixed"),
    ]
    return grid("What would do", columns, rows) if rows else None


def _load(row: Reach) -> str:
    if row.concurrency:
        return f", {row.concurrency} requests"
    return "" if row.batch_size is None else f" batch {row.batch_size}"


def excluded_table(answer: Recommendation) -> Table | None:
    """Return what was left out, counted by rule, or None where nothing was."""
    by_rule: dict[str, list[ExcludedConfigurations]] = {}
    for row in answer.excluded:
        by_rule.setdefault(str(row.rule), []).append(row)
    rows = [
        [
            str(len(items)),
            rule,
            _examples(items),
        ]
        for rule, items in sorted(by_rule.items(), key=lambda item: -len(item[1]))
    ]
    return grid("Left out", [("n", "right"), "rule", "for example"], rows) if rows else None


def _examples(items: Sequence[ExcludedConfigurations], most: int = 3) -> str:
    names = list(dict.fromkeys(str(item.hardware or formatting.MISSING) for item in items))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def comparison_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str | None = None) -> Table:
    """Return rows of a read as they are; nulls are dashes, numbers have three figures."""
    shown: list[str | tuple[str, str]] = [
        (name, "right") if _figures(row.get(name) for row in rows) else name for name in columns
    ]
    return grid(title, shown, [[_cell(row.get(name)) for name in columns] for row in rows])


def _figures(values: Iterable[Any]) -> bool:
    return all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values)


def _cell(value: Any) -> str:
    if value is None:
        return formatting.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return formatting.significant(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
