"""The table of a terminal for what an endpoint showed: a row a load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from assay.cli.output import grid
from presentation import formatting

__all__ = ["scenario_notes", "served_table"]


def served_table(events: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return one row a load that was measured, or None where there is none; times are medians."""
    datas = [event["data"] for event in events if event["type"] == "assay.measurement.recorded.v1"]
    if not datas:
        return None
    first = datas[0]
    where = f"{first['hardware']['id']} × {first['hardware']['count']}, {first['execution']['platform']}, {first['execution']['precision']}"
    title = f"{first['model']['id']}, served; {where} as stated"
    right = ["load", "tokens", "first token", "each token", "request (95 %)", "tokens/s", "requests/s", "good/s", "n"]
    columns: list[str | tuple[str, str]] = [*((name, "right") for name in right), ("verdict", "fixed")]
    goodput = any(data["metrics"].get("goodput_per_s") is not None for data in datas)
    rows = [_row(data) for data in datas]
    if not goodput:
        at = right.index("good/s")
        columns.pop(at)
        for row in rows:
            row.pop(at)
    return grid(title, columns, rows)


def _row(data: Mapping[str, Any]) -> list[str]:
    metrics, workload = data["metrics"], data["workload"]
    latency = metrics.get("latency_ms") or {}
    low, high = (latency.get("ci95") or {}).get("p50") or (None, None)
    return [
        _load(workload),
        f"{workload.get('input_tokens') or formatting.MISSING}+{workload.get('output_tokens') or formatting.MISSING}",
        formatting.latency(metrics.get("ttft_ms")),
        formatting.latency(metrics.get("tpot_ms")),
        formatting.latency(latency.get("p50"), low, high),
        formatting.significant(metrics.get("tokens_per_s")),
        formatting.significant(metrics.get("throughput_per_s")),
        formatting.significant(metrics.get("goodput_per_s")),
        formatting.count(latency.get("n")),
        (data.get("validity") or {}).get("verdict") or formatting.MISSING,
    ]


def _load(workload: Mapping[str, Any]) -> str:
    if workload.get("arrival_rate_per_s"):
        return f"{workload['arrival_rate_per_s']:g}/s"
    return f"×{workload.get('concurrency') or 1}"


def scenario_notes(events: Sequence[Mapping[str, Any]]) -> tuple[list[str], bool]:
    """Return what the scenarios of a run came to, a sentence each, and whether all that were held to a rule kept it."""
    datas = [event["data"] for event in events if event["type"] == "assay.measurement.recorded.v1"]
    document = [(data, result) for data in datas if (result := (data["observed"].get("details") or {}).get("scenario"))]
    kept = all(result["result"] == "valid" for _, result in document)
    return [_sentence(data, result) for data, result in document], kept


def _sentence(data: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    rate = f" at {result['target_qps']:g}/s" if result.get("target_qps") else ""
    figure = (
        f" ({result['percentile']} {formatting.latency(result['percentile_ms'])})"
        if result.get("percentile_ms")
        else ""
    )
    why = f": {'; '.join(result['reasons'])}" if result["reasons"] else ""
    short = "" if result["mlperf"] else "; MLPerf asks for 600 s and 100 queries at the least"
    return f"{data['model']['id']} {result['scenario']}{rate}: {result['result']}{figure}{why}{short}"
