"""The earlier framework's benchmark suite: `benchmark_results.json` and `benchmark_summary.json`.

Three shapes. **Inner** (hardware_benchmark_runner.py): `benchmarks.<family>.<model>.<platform>` with `status`, `model_load_time` in
s, and `benchmark_results.batch_<n>_seq_<n>`: `latencies` in s, one a call, `avg_latency` in s, `throughput` in items a second, or `status:
failed` with its `error`. **Outer** (run_model_benchmarks.py): `performance_benchmarks.<family>` holds an inner one, or the error that
ended the whole family before any model was named, which is refused; `functionality_verification.<platform>` holds tests, read
as `seed-functionality` reads them. **Summary**: `hardware_results.<platform>` has lists beside `models_tested`, each value a mean over
all batch sizes and lengths.

Mean, minimum, maximum, median and deviation are those of the latencies in the file. The precision and the runtime are not said.
`performance_summary`, a mean over unlike configurations, is not taken.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.legacy.functionality import functionality
from ingest.importers.legacy.vocabulary import (
    Machine,
    error_of,
    has_members,
    machine_of,
    model_named,
    moment,
    platform_of,
    record_at,
    simulated_platforms,
)
from ingest.importers.reading import BadFile, json_document, number, text
from ingest.importers.refusals import BadRow, Refused

__all__ = ["SeedSuite"]

NAME = "seed-suite"
SOURCE = "earlier framework, benchmark suite"
_CASE = re.compile(r"batch_(\d{1,6})(?:_seq_(\d{1,7}))?")


class SeedSuite:
    """Benchmark suites (JSON)."""

    name = NAME
    title = "earlier framework: benchmark_results.json and benchmark_summary.json of its benchmark suite"

    def sniff(self, file: File) -> bool:
        """Return whether the file is one of the three shapes."""
        return (
            has_members(file, "system_info", "benchmarks")
            or has_members(file, "functionality_verification", "models")
            or has_members(file, "model_families", "hardware_results", "models_tested")
        )

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run and its rows, and a run for each functionality check inside; see Importer."""
        document = json_document(file)
        if not isinstance(document, dict):
            raise BadFile("is not an object")
        simulated = simulated_platforms(document)
        yield from self._performance(file, document, simulated)
        checks = document.get("functionality_verification")
        for platform, check in (checks if isinstance(checks, dict) else {}).items():
            if isinstance(check, dict):
                place = record_at("functionality_verification", platform)
                yield from functionality(file, check, simulated=simulated, place=place)

    def _performance(
        self, file: File, document: dict[str, Any], simulated: set[str]
    ) -> Iterator[dict[str, Any] | Refused]:
        inner = document if "system_info" in document else _first_inner(document)
        machine = machine_of(inner.get("system_info"))
        opened = Document(
            file, NAME, source=SOURCE, time=moment(document.get("timestamp")), environment=machine.environment
        )
        yield from opened.events(_numbered(_rows(opened, document, simulated)))


def _numbered(rows: Iterator[Draft | Refused]) -> Iterator[Draft | Refused]:
    for number_, row in enumerate(rows, start=1):
        if isinstance(row, Draft):
            row.row = number_
        yield row


def _first_inner(document: dict[str, Any]) -> dict[str, Any]:
    benchmarks = document.get("performance_benchmarks")
    result = (benchmarks or {}).values() if isinstance(benchmarks, dict) else ()
    return next((each for each in result if isinstance(each, dict) and "system_info" in each), {})


def _rows(opened: Document, document: dict[str, Any], simulated: set[str]) -> Iterator[Draft | Refused]:
    if "model_families" in document:
        yield from _summary(opened, document, simulated)
    elif "benchmarks" in document:
        yield from _inner(opened, document, simulated, "")
    families = document.get("performance_benchmarks")
    for family, inner in (families if isinstance(families, dict) else {}).items():
        if isinstance(inner, dict) and "benchmarks" in inner:
            yield from _inner(opened, inner, simulated, record_at("performance_benchmarks", family))
        else:
            why = error_of(str(inner.get("error")))[1] if isinstance(inner, dict) else "is not an object"
            reason = "the benchmark of a whole family ended before it named a model"
            yield opened.refused(f"{reason}: {why[:200]}", field=f"performance_benchmarks.{family}")


def _inner(opened: Document, inner: Mapping[str, Any], simulated: set[str], place: str) -> Iterator[Draft | Refused]:
    machine = machine_of(inner.get("system_info"))
    for family, name, word, record in _records(inner.get("benchmarks")):
        where = record_at(place, "benchmarks", family, name, word)
        try:
            if not isinstance(record, dict):
                raise BadRow(where, "is not an object")
            shared = _shared(record, family, name, word, machine, simulated)
        except BadRow as bad:
            yield opened.refused(bad.reason, field=bad.field)
            continue
        cases = record.get("benchmark_results")
        if not isinstance(cases, dict) or not cases:
            yield _failed(shared, record, where)
        for case, result in (cases if isinstance(cases, dict) else {}).items():
            try:
                yield _case(shared, record, case, result, f"{where}/{case}")
            except BadRow as bad:
                yield opened.refused(bad.reason, field=f"{where}/{case}/{bad.field}")


def _records(benchmarks: Any) -> Iterator[tuple[str, str, str, Any]]:
    """Yield family, model, platform and what is said of them."""
    for family, models in (benchmarks if isinstance(benchmarks, dict) else {}).items():
        for name, platforms in (models if isinstance(models, dict) else {}).items():
            for word, record in (platforms if isinstance(platforms, dict) else {}).items():
                yield family, name, word, record


def _shared(
    record: Mapping[str, Any], family: str, name: str, word: str, machine: Machine, simulated: set[str]
) -> dict[str, Any]:
    """Return the members of a draft that all cases of a model on a platform have in common."""
    platform = platform_of(record.get("hardware") or word)
    if platform is None:
        raise BadRow("hardware", f"{word!r} is not a platform")
    claims: dict[str, Any] = {"counters": _counters(record)}
    if platform in simulated:
        claims["flags"] = {"simulated_hardware": f"{platform} is simulated"}
    return {
        "model": model_named(record.get("model_name") or name, family=family),
        "execution": {"platform": platform},
        "hardware": machine.hardware(platform),
        "environment": machine.environment,
        "time": moment(record.get("timestamp")),
        "claims": {key: value for key, value in claims.items() if value is not None},
    }


def _counters(record: Mapping[str, Any]) -> bool | None:
    """Return False where the suite's own place for memory is empty: on a device it would have filled it."""
    summary = record.get("performance_summary")
    memory = summary.get("memory") if isinstance(summary, dict) else None
    return bool(memory) if isinstance(memory, dict) else None


def _case(shared: dict[str, Any], record: Mapping[str, Any], case: str, result: Any, where: str) -> Draft:
    match = _CASE.fullmatch(case)
    if match is None or not isinstance(result, dict):
        raise BadRow(case, "is not a batch of a benchmark")
    batch, length = int(match[1]), int(match[2]) if match[2] else None
    workload = {"mode": "inference", "scenario": "single_stream", "batch_size": batch, "sequence_length": length}
    if batch < 1 or length == 0:
        raise BadRow(case, "has a size of 0")
    draft = Draft(**{**shared, "claims": dict(shared["claims"])}, workload=workload, original={"record": where})
    if result.get("status") != "completed":
        return _as_failure(draft, str(result.get("error") or result.get("status") or ""))
    mean = number(result, "avg_latency", unit="s")
    samples = _samples(result)
    if mean is None and not samples:
        raise BadRow("avg_latency", "is missing")
    draft.metrics = {"latency_ms": _latency(mean, samples)}
    if (rate := number(result, "throughput")) is not None:
        draft.metrics["throughput_per_s"] = rate
    if (load := number(record, "model_load_time", unit="s", zero=True)) is not None:
        draft.metrics["load_ms"] = load
        draft.original["model_load_time (s)"] = record["model_load_time"]
    draft.original["avg_latency (s)"] = result.get("avg_latency")
    draft.claims |= {"samples_ms": samples, "clock": [value for value in (result.get("avg_latency"), rate) if value]}
    return draft


def _samples(result: Mapping[str, Any]) -> list[float]:
    listed = result.get("latencies")
    numbers = [
        number({"latencies": value}, "latencies", unit="s") for value in (listed if isinstance(listed, list) else [])
    ]
    return [value for value in numbers if value is not None]


def _latency(mean: float | None, samples: list[float]) -> dict[str, Any]:
    """Return the latency as its samples say; the mean as the file says it, unless it says none."""
    if not samples:
        return {"mean": mean}
    result = {
        "mean": mean or statistics.fmean(samples),
        "min": min(samples),
        "max": max(samples),
        "p50": statistics.median(samples),
        "n": len(samples),
    }
    return result | ({"stddev": statistics.stdev(samples)} if len(samples) > 1 else {})


def _failed(shared: dict[str, Any], record: Mapping[str, Any], where: str) -> Draft:
    draft = Draft(**{**shared, "claims": {}}, workload={"mode": "inference"}, original={"record": where})
    said = str(record.get("error") or f"the benchmark is {record.get('status')} and gave no figures")
    return _as_failure(draft, said)


def _as_failure(draft: Draft, said: str) -> Draft:
    draft.kind, draft.outcome = "failure", "out_of_memory" if "out of memory" in said.lower() else "error"
    draft.error, draft.message = error_of(said)
    draft.stage = "first_run" if said.startswith("Warmup") else "load" if "load" in said.lower()[:40] else "run"
    return draft


def _summary(opened: Document, document: Mapping[str, Any], simulated: set[str]) -> Iterator[Draft | Refused]:
    machine = machine_of(document.get("system_info"))
    families = document.get("model_families")
    for family, value in (families if isinstance(families, dict) else {}).items():
        value = value if isinstance(value, dict) else {}
        names, platforms = value.get("models_tested"), value.get("hardware_results")
        for word, lists in (platforms if isinstance(platforms, dict) else {}).items():
            where = record_at("model_families", family, "hardware_results", word)
            try:
                yield from _averages(names, lists, family, word, machine, simulated, where)
            except BadRow as bad:
                yield opened.refused(bad.reason, field=f"{where}/{bad.field}")


def _averages(
    names: Any, lists: Any, family: str, word: str, machine: Machine, simulated: set[str], where: str
) -> Iterator[Draft]:
    platform = platform_of(word)
    if platform is None:
        raise BadRow("hardware", f"{word!r} is not a platform")
    latencies = lists.get("latency_ms") if isinstance(lists, dict) else None
    rates = lists.get("throughput") if isinstance(lists, dict) else None
    if not isinstance(names, list) or not isinstance(latencies, list) or len(names) != len(latencies):
        raise BadRow("latency_ms", "is not a list with a value for each model")
    if not isinstance(rates, list) or len(rates) != len(names):
        rates = [None] * len(names)
    for index, (name, latency, rate) in enumerate(zip(names, latencies, rates, strict=True)):
        took = number({"latency_ms": latency}, "latency_ms")
        if took is None:
            continue
        draft = Draft(
            model=model_named(text({"model": name}, "model"), family=family),
            workload={"mode": "inference", "scenario": "single_stream"},
            execution={"platform": platform},
            hardware=machine.hardware(platform),
            metrics={"latency_ms": {"mean": took}},
            original={"record": f"{where}[{index}]"},
            claims={"averaged_over": ["batch sizes", "sequence lengths"]},
        )
        if (per_second := number({"throughput": rate}, "throughput")) is not None:
            draft.metrics["throughput_per_s"] = per_second
        if platform in simulated:
            draft.claims["flags"] = {"simulated_hardware": f"{platform} is simulated"}
        yield draft
