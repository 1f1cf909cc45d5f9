"""The two logs of one run of MLPerf's load generator (mlcommons/inference, loadgen ≥ v1.0).

`mlperf_log_detail.txt` has one record a line, `:::MLLOG {"key": …, "value": …, "time_ms": …, "namespace": "mlperf::logging", …}`;
keys used: test_datetime, effective_/requested_scenario and _test_mode, requested_server_target_qps, generated_samples_per_query,
result_validity, result_invalid_reason, result_query_count, result_{min,max,mean}_latency_ns and
result_<p>_percentile_latency_ns (with MultiStream those of queries, `…_query_latency_ns`), result_samples_per_second,
result_completed_samples_per_sec, result_tokens_per_second, result_completed_tokens_per_second (also `inferred`),
result_first_token_*_latency_ns and result_time_to_output_token_*.

`mlperf_log_summary.txt` tells the same in lines of `name : value`, with fewer digits and without a time; where both lie in one
folder, the detailed one is the run.

Neither says which model or machine it was. The folders do, as the submission rules lay them out:
`results/<system>/<benchmark>/<scenario>/performance/run_1/`, and `systems/<system>.json` beside `results` describes the system
(also taken: `system.json` or `<system>.json` beside the log). Where no description lies there, as in an archive, the
system's name stands for the hardware.

Latencies of Offline runs are not taken: all samples are sent at once and wait for each other. The rate of SingleStream is the
reciprocal of its latency, and is not taken either. ttft_ms and tpot_ms are medians, else means; the 99th percentiles that the
rules judge are kept as they stood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from domain.catalogues.slugs import slug
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.members import as_said, latency_of, moment
from ingest.importers.mlperf.results import environment_of, marked
from ingest.importers.mlperf.vocabulary import Scenario, System, benchmark_of, runtime_named, scenario_of
from ingest.importers.reading import BadFile, json_document, number, text, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["drafts", "sniff"]

_MARK = ":::MLLOG "
_DETAIL, _SUMMARY = "mlperf_log_detail", "mlperf_log_summary"
_TITLE = "MLPerf Results Summary"
_STATISTICS = {
    "mean": "mean",
    "min": "min",
    "max": "max",
    "50.00": "p50",
    "90.00": "p90",
    "95.00": "p95",
    "99.00": "p99",
}
_SUMMARY_LINE = re.compile(r"\s*([^:]+?)\s*:\s*(.*?)\s*")
_FROM_SUMMARY: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), key)
    for pattern, key in (
        (r"scenario", "effective_scenario"),
        (r"mode", "effective_test_mode"),
        (r"result is", "result_validity"),
        (r"target_qps", "requested_server_target_qps"),
        (r"samples_per_query", "generated_samples_per_query"),
        (r"(min|max|mean) latency \(ns\)", r"result_\1_latency_ns"),
        (r"([\d.]+) percentile latency \(ns\)", r"result_\1_percentile_latency_ns"),
        (r"(min|max|mean) first token latency \(ns\)", r"result_first_token_\1_latency_ns"),
        (r"([\d.]+) percentile first token latency \(ns\)", r"result_first_token_\1_percentile_latency_ns"),
        (r"(min|max|mean) time to output token \(ns\)", r"result_time_to_output_token_\1"),
        (r"([\d.]+) percentile time to output token \(ns\)", r"result_time_per_output_token_\1_percentile_ns"),
        (r"samples per second", "result_samples_per_second"),
        (r"completed samples per second", "result_completed_samples_per_sec"),
        (r"tokens per second(?: \(inferred\))?", "result_tokens_per_second"),
        (r"completed tokens per second(?: \(inferred\))?", "result_completed_tokens_per_second"),
    )
)
_RATES = {
    "throughput_per_s": ("result_samples_per_second", "result_completed_samples_per_sec"),
    "tokens_per_s": (
        "result_tokens_per_second",
        "result_completed_tokens_per_second",
        "result_inferred_tokens_per_second",
        "result_inferred_completed_tokens_per_second",
    ),
}
_JUDGED = (
    "early_stopping_latency_ss",
    "early_stopping_latency_ms",
    "result_first_token_99.00_percentile_latency_ns",
    "result_time_per_output_token_99.00_percentile_ns",
    "result_99.90_percentile_latency_ns",
    "loadgen_version",
)


class _Place(NamedTuple):
    """What the folders of a log say."""

    system: str
    benchmark: str
    test: str | None
    description: File | None


def sniff(file: File) -> bool:
    """Return whether the file is a log of the load generator that is to be read."""
    if file.base.startswith(_DETAIL):
        return _MARK in file.head()
    if not file.base.startswith(_SUMMARY) or _TITLE not in file.head():
        return False
    return file.given or not file.path.with_name(file.base.replace(_SUMMARY, _DETAIL)).is_file()


def drafts(file: File, document: Document) -> Iterator[Draft | Refused]:
    """Yield the run's draft, or why it is none."""
    said = _summary(file) if _TITLE in file.head() else _detail(file)
    try:
        yield _draft(file, said)
    except BadRow as bad:
        yield document.refused(bad.reason, field=bad.field)


def _detail(file: File) -> dict[str, Any]:
    """Return the values by key, the last of each; lines that are no records are those of an older load generator."""
    row: dict[str, Any] = {}
    with file.open_text("replace") as opened:
        for line in iter(lambda: opened.readline(1 << 20), ""):
            if line.startswith(_MARK):
                try:
                    record = json.loads(line[len(_MARK) :], parse_constant=lambda _: None)
                except (ValueError, RecursionError):
                    continue
                if isinstance(record, dict) and isinstance(record.get("key"), str):
                    row[record["key"]] = record.get("value")
    if not any(key.startswith("result_") for key in row):
        raise BadFile("holds no result: the run was ended before its time, or an older load generator wrote it")
    return row


def _summary(file: File) -> dict[str, Any]:
    row: dict[str, Any] = {}
    per_query = False
    with file.open_text("replace") as opened:
        for line in iter(lambda: opened.readline(1 << 16), ""):
            per_query = per_query or line.startswith("Per-query latency")
            if pair := _SUMMARY_LINE.fullmatch(line.rstrip("\r\n")):
                name = pair[1].lower()
                key = next(
                    (match.expand(to) for pattern, to in _FROM_SUMMARY if (match := pattern.fullmatch(name))), None
                )
                if key is not None:
                    row.setdefault(key.replace("latency_ns", "per_query_latency_ns") if per_query else key, pair[2])
    if "effective_scenario" not in row:
        raise BadFile("does not say its scenario")
    return row


def _draft(file: File, said: dict[str, Any]) -> Draft:
    mode = text(said, "effective_test_mode") or text(said, "requested_test_mode") or "PerformanceOnly"
    if "accuracy" in mode.lower():
        raise BadRow("test_mode", "an accuracy run measures no speed")
    scenario = scenario_of(_scenario_named(said))
    place = _place(file)
    benchmark = benchmark_of(place.benchmark)
    described = _described(place)
    hardware, platform = described.device() if described else ({"id": slug(place.system), "count": 1}, "other")
    n = whole(said, "result_query_count")
    metrics, original = _metrics(said, scenario, n)
    if not metrics:
        raise BadRow("result", "there is no figure of its scenario")
    original |= {key: as_said(said[key]) for key in _JUDGED if said.get(key) not in (None, 0, "")}
    original |= {"system": place.system, "benchmark": place.benchmark, "scenario": scenario.name}
    if place.test:
        original["compliance test"] = place.test
    if reason := text(said, "result_invalid_reason"):
        original["result_invalid_reason"] = reason[:500]
    workload: dict[str, Any] = {"mode": "inference", "scenario": scenario.word, "batch_size": scenario.batch_size}
    if scenario.batch_size not in (None, 1):
        workload["batch_size"] = whole(said, "generated_samples_per_query") or scenario.batch_size
    if scenario.word == "server":
        workload["arrival_rate_per_s"] = number(said, "requested_server_target_qps")
    software = described.software if described else None
    draft = Draft(
        model=benchmark.model,
        workload=workload,
        execution={"platform": platform, "runtime": runtime_named(software), "options": benchmark.options or None},
        hardware=hardware,
        metrics=metrics,
        environment=environment_of(described) if described else None,
        time=moment(said.get("test_datetime"), "test_datetime"),
        row=1,
        original=original,
        key=[place.system, place.test],
    )
    return marked(draft, **{"constraints-missed": text(said, "result_validity") == "INVALID"})


def _scenario_named(said: dict[str, Any]) -> str:
    name = text(said, "effective_scenario") or text(said, "requested_scenario")
    if name is None:
        raise BadRow("scenario", "is missing")
    return name


def _metrics(said: dict[str, Any], scenario: Scenario, n: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
    metrics: dict[str, Any] = {}
    original: dict[str, Any] = {}
    if scenario.word != "offline":
        kind = "_per_query_latency_ns" if scenario.name == "multistream" else "_latency_ns"
        fields = {
            ours: f"result_{name}{kind}" if name in ("mean", "min", "max") else f"result_{name}_percentile{kind}"
            for name, ours in _STATISTICS.items()
        }
        if kind.startswith("_per"):
            fields |= {
                name: f"result_{name}_query_latency_ns" for name in ("mean", "min", "max") if fields[name] not in said
            }
        latency, original = latency_of(said, fields, unit="ns", n=n)
        if set(latency) - {"n"}:
            metrics["latency_ms"] = latency
    if scenario.word != "single_stream":
        for ours, names in _RATES.items():
            result = next(
                (name for name in names if said.get(name) is not None and number(said, name) is not None), None
            )
            if result is not None:
                metrics[ours] = number(said, result)
                original[result] = as_said(said[result])
    for ours, median, mean in (
        ("ttft_ms", "result_first_token_50.00_percentile_latency_ns", "result_first_token_mean_latency_ns"),
        ("tpot_ms", "result_time_per_output_token_50.00_percentile_ns", "result_time_to_output_token_mean"),
    ):
        for name in (median, mean):
            if ours not in metrics and (value := number(said, name, unit="ns")) is not None:
                metrics[ours] = value
                original[f"{name} (ns)"] = as_said(said[name])
    return metrics, original


def _place(file: File) -> _Place:
    """Return what the folders say; BadRow where they are not laid out as the rules ask."""
    unpacked = file.path.name != file.base
    path = PurePosixPath(file.name) if unpacked else PurePosixPath(file.path.absolute().as_posix())
    parts = list(path.parts[:-1])
    while parts and re.fullmatch(r"run_\d+|performance|accuracy|power|ranging|testing", parts[-1]):
        parts.pop()
    test = parts.pop() if parts and re.fullmatch(r"TEST\d+", parts[-1]) else None
    try:
        scenario_of(parts[-1])
        system, benchmark = parts[-3], parts[-2]
    except (IndexError, BadRow):
        raise BadRow(
            "path",
            "does not say system and benchmark: it has to end in <system>/<benchmark>/<scenario>/performance/run_1/",
        ) from None
    return _Place(system, benchmark, test, None if unpacked else _description(file.path, Path(*parts[:-3]), system))


def _description(log: Path, results: Path, system: str) -> File | None:
    """Return the file that describes a system; `results` is the folder that holds the systems' results."""
    candidates = (
        log.with_name("system.json"),
        log.with_name(f"{system}.json"),
        results / f"{system}.json",
        results.parent / "systems" / f"{system}.json",
    )
    return next((File(path, path.name) for path in candidates if path.is_file()), None)


def _described(place: _Place) -> System | None:
    if place.description is None:
        return None
    said = json_document(place.description)
    if not isinstance(said, dict):
        raise BadFile(f"is described by {place.description.name}, which is not an object")
    return System(
        accelerator=text(said, "accelerator_model_name"),
        accelerators=_count(said, "accelerators_per_node"),
        nodes=_count(said, "number_of_nodes"),
        processor=text(said, "host_processor_model_name"),
        processors=_count(said, "host_processors_per_node"),
        cores=_count(said, "host_processor_core_count"),
        software=text(said, "framework"),
        name=place.system,
        os=text(said, "operating_system"),
    )


def _count(said: dict[str, Any], field: str) -> int | None:
    try:
        return whole(said, field) or (0 if number(said, field, zero=True) == 0 else None)
    except BadRow:
        return None
