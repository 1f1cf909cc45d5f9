"""The earlier framework's skill tests: does a model's worker run on each platform, and what did an example take.

Ten shapes, all read to the same tests and times (`ingest.importers.legacy.examples`):

* **collected**, **expected** (`hf_<skill>_test_results.json`): the results themselves, at the top or under `status`, with `examples` and `metadata`;
* **performance** (`hf_<skill>_performance_<date>.json`): `metadata.model` and `results`;
* **performance of all** (`performance_test_results_<date>.json`): `results.<script>.performance_metrics.<platform>`, each with its part of the results;
* **runs of scripts** (`performance_test_skills_*.json`): `skill_tests.<script>` with `return_code`, `stderr`, and `json_result`, the results; **one script**: the same at the top;
* **hardware** (`hardware_<platform>_results_<date>.json`): `<test>` or `<platform>.<test>`: results, or the text of an exception;
* **platforms**: `results.<platform>` or `tests.<platform>` with `status` or `success` and a time;
* **ways** (`bert_test_*.json`): `results.<pipeline|from_pretrained>_<platform>` with `…_avg_time`, `…_min_time`, `…_max_time` and `…_load_time` in s, over three calls;
* **one model**: `model`, `platform`, `success`, `error`.

The model is the one that the metadata names, else `skill/<short name>`. A script whose output was no JSON, and that ended well, says nothing: it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from domain.scrub import scrub
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import model_of
from ingest.importers.legacy.examples import Skill, skill_drafts
from ingest.importers.legacy.vocabulary import (
    NOWHERE,
    category_of,
    error_of,
    flags_of,
    has_members,
    machine_of,
    model_named,
    moment,
    platform_of,
    record_at,
)
from ingest.importers.reading import BadFile, json_document, number, text, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["SeedSkills"]

NAME = "seed-skills"
_KNOWN = re.compile(r'"(?:cpu|cuda|openvino|apple|qualcomm)_(?:init|tests|handler)"')
_WAY = re.compile(r"(pipeline|from_pretrained|openvino)(?:_(cpu|cuda|mps|rocm|openvino))?")
_SCRIPT = re.compile(r"(?:.*/)?test_(?:hf_|default_)?(.+?)(?:\.py)?")
_SKILL = re.compile(r"hf_(.+?)_(?:test_results|performance)")


class SeedSkills:
    """Skill tests (JSON)."""

    name = NAME
    title = "earlier framework: hf_*_test_results.json, hf_*_performance_*.json and other results of skill tests"

    def sniff(self, file: File) -> bool:
        """Return whether the file is one of the shapes."""
        if file.suffix != ".json":
            return False
        return (
            bool(_KNOWN.search(file.head()))
            or has_members(file, "skill_tests", "command")
            or (
                has_members(file, "test_file", "return_code", "elapsed_time")
                and not has_members(file, "generation_results")
            )
            or has_members(file, "status", "test_error", "metadata")
            or has_members(file, "results", "handler_created")
            or has_members(file, "tests", "summary", "implementation_type", "realtime_factor")
            or has_members(file, "results", "pipeline", "from_pretrained")
            or has_members(file, "results", "metadata", "pipeline_cuda")
            or has_members(file, "model", "platform", "execution_time", "total_execution_time", "success")
        )

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its tests and its times; see Importer."""
        result = json_document(file)
        if not isinstance(result, dict):
            raise BadFile("is not an object of results")
        metadata = _object(result.get("metadata"))
        time = moment(result.get("timestamp")) or moment(metadata.get("timestamp"))
        document = Document(file, NAME, source="earlier framework, skill tests", time=time)
        yield from document.events(_numbered(_shaped(document, result, _named(file), time)))


def _numbered(rows: Iterator[Draft | Refused]) -> Iterator[Draft | Refused]:
    for row, item in enumerate(rows, start=1):
        if isinstance(item, Draft):
            item.row = row
        yield item


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _named(file: File) -> str:
    """Return the short name of the model that a file's name says."""
    match = _SKILL.match(file.base)
    return match[1] if match else file.base.removesuffix(".json")


def _of_script(name: str) -> str:
    match = _SCRIPT.fullmatch(name)
    return match[1] if match else name


def _shaped(document: Document, row: dict[str, Any], name: str, time: str | None) -> Iterator[Draft | Refused]:
    """Yield the rows of a file, whichever shape it has."""
    if isinstance(row.get("skill_tests"), dict):
        for script, run in row["skill_tests"].items():
            yield from _script(document, _object(run), script, record_at("skill_tests", script), time)
    elif "return_code" in row and "test_file" in row:
        yield from _script(document, row, str(row["test_file"]), "", time)
    elif "execution_time" in row and "platform" in row:
        yield from _tried(document, lambda: _one_model(row))
    elif isinstance(row.get("tests"), dict):
        yield from _platforms(document, row["tests"], row, "tests", name)
    elif isinstance(row.get("results"), dict):
        yield from _inside(document, row["results"], row, name, time)
    elif any(key.startswith("test_") for key in row):
        yield from _by_hardware(document, row, None, "", time)
    elif row and all(platform_of(key) for key in row):
        for word, tests in row.items():
            yield from _by_hardware(document, _object(tests), platform_of(word), word, time)
    else:
        yield from _collected(document, row, Skill(name, "", time))


def _inside(
    document: Document, results: dict[str, Any], row: dict[str, Any], name: str, time: str | None
) -> Iterator[Draft | Refused]:
    """Yield the rows of a file whose `results` hold them: by way of calling, by script, by platform, or of one skill."""
    metadata = _object(row.get("metadata"))
    if any(_WAY.fullmatch(key) and isinstance(result, dict) for key, result in results.items()):
        yield from _ways(document, results, _object(row.get("performance")), metadata)
    elif any("/" in key for key in results):
        for script, run in results.items():
            parts = [_object(part) for part in _object(_object(run).get("performance_metrics")).values()]
            merged = {key: value for part in parts for key, value in part.items() if key != "examples"}
            yield from skill_drafts(document, merged, Skill(_of_script(script), record_at("results", script), time))
    elif any(platform_of(key) for key in results):
        yield from _platforms(document, results, metadata, "results", name)
    else:
        skill = Skill((text(metadata, "model") or name).removeprefix("hf_"), "results", time)
        yield from skill_drafts(document, results, skill)


def _tried(document: Document, read: Any) -> Iterator[Draft | Refused]:
    try:
        yield read()
    except BadRow as bad:
        yield document.refused(bad.reason, field=bad.field)


def _failed(name: str, platform: str | None, said: str, record: str, time: str | None, outcome: str = "error") -> Draft:
    """Return the test of a script that ended with an error before it said anything of a platform."""
    error, message = error_of(said)
    where = platform or "other"
    return Draft(
        kind="test",
        test="skill",
        model=model_of(f"skill/{name}", category=category_of(name)),
        workload={"mode": "inference"},
        execution={"platform": where},
        hardware=NOWHERE.hardware(where),
        outcome=outcome,
        stage="resolve",
        error=error,
        message=message,
        time=time,
        key=name,
        original={"record": record, "skill": name},
    )


def _collected(document: Document, row: dict[str, Any], skill: Skill) -> Iterator[Draft | Refused]:
    """Yield the rows of results, or the failure where the whole test ended with an exception."""
    status = _object(row.get("status"))
    error = text(status, "test_error") or text(row, "test_error")
    if error is not None:
        traceback = text(_object(row.get("metadata")), "traceback") or text(row, "traceback") or error
        yield _failed(skill.name, None, traceback, record_at(skill.place, "test_error"), skill.time)
    yield from skill_drafts(document, row, skill)


def _script(
    document: Document, run: dict[str, Any], script: str, place: str, time: str | None
) -> Iterator[Draft | Refused]:
    name = _of_script(script)
    results = run.get("json_result")
    if run.get("return_code"):
        said = text(run, "stderr") or text(run, "stdout") or f"ended with {run['return_code']}"
        yield _failed(name, None, said, record_at(place, "return_code"), time)
    elif not isinstance(results, dict):
        why = text(run, "json_parse_error") or "there is none"
        yield document.refused(f"the script's output is not JSON: {why}", field=record_at(place, "json_result"))
    else:
        yield from _collected(document, results, Skill(name, record_at(place, "json_result"), time))


def _by_hardware(
    document: Document, tests: dict[str, Any], platform: str | None, place: str, time: str | None
) -> Iterator[Draft | Refused]:
    for test, results in tests.items():
        name, record = _of_script(test), record_at(place, test)
        if isinstance(results, dict):
            yield from _collected(document, results, Skill(name, record, time))
        else:
            yield _failed(name, platform, f"{results}", record, time)


def _platforms(
    document: Document, report: dict[str, Any], around: dict[str, Any], place: str, name: str
) -> Iterator[Draft | Refused]:
    """Yield a test, and a time where there is one, for each platform that has an object of its own."""
    for word, result in report.items():
        platform, result = platform_of(word), _object(result)
        if platform is None or not result:
            continue
        model = text(result, "model") or text(around, "model_id") or text(around, "model")
        took = next((field for field in ("inference_time", "execution_time") if field in result), None)
        written = [
            value
            for field in (took, "peak_memory_mb", "realtime_factor")
            if field and isinstance(value := result.get(field), float)
        ]
        say = {
            part: scrub(value, limit=300)
            for part in ("status", "init", "handler_created")
            if (value := text(result, part))
        }
        shared: dict[str, Any] = {
            "model": model_named(model) if model else model_of(f"skill/{name}", category=category_of(name)),
            "execution": {"platform": platform},
            "hardware": NOWHERE.hardware(platform),
            "time": moment(result.get("timestamp")) or moment(around.get("timestamp")),
            "claims": {"flags": flags_of(result), "clock": written, "python_call": True},
        }
        passed = result.get("success") is True or (text(result, "status") or "").lower().startswith("success")
        draft = Draft(
            kind="test", test="skill", stage="run", workload={"mode": "inference"}, outcome="passed", **shared
        )
        draft.checks, draft.key, draft.original = (
            {"statuses": say},
            name,
            {"record": record_at(place, word), "skill": name},
        )
        if not passed:
            draft.outcome = "error"
            draft.error, draft.message = error_of(text(result, "error") or text(result, "status") or "no success")
        yield draft
        if took and passed:
            yield from _tried(
                document, lambda r=result, t=took, s=shared, w=word: _timed(r, t, s, record_at(place, w, t))
            )


def _timed(result: dict[str, Any], field: str, shared: dict[str, Any], record: str) -> Draft:
    took = number(result, field, unit="s")
    if took is None:
        raise BadRow(field, "is missing")
    memory = number(result, "peak_memory_mb", unit="mib")
    workload: dict[str, Any] = {"mode": "inference", "scenario": "single_stream"}
    if (seconds := number(result, "audio_duration")) is not None:
        workload["audio_seconds"] = seconds
    return Draft(
        **{**shared, "claims": dict(shared["claims"])},
        workload=workload,
        metrics={
            "first_run_ms": took,
            "realtime_factor": number(result, "realtime_factor"),
            "device_memory_bytes": round(memory) if memory else None,
        },
        original={"record": record, f"{field} (s)": result.get(field)},
    )


def _ways(
    document: Document, results: dict[str, Any], performance: dict[str, Any], metadata: dict[str, Any]
) -> Iterator[Draft | Refused]:
    """Yield a test and a latency for each way of calling a model."""
    for key, result in results.items():
        match, result = _WAY.fullmatch(key), _object(result)
        if match is None or not result:
            continue
        way = match[1]
        platform = platform_of(match[2] or result.get("device") or way) or "other"
        machine = machine_of(metadata)
        shared: dict[str, Any] = {
            "model": model_named(text(result, "model") or text(metadata, "model") or "unknown"),
            "execution": {"platform": platform, "options": {"way": way}},
            "hardware": machine.hardware(platform),
            "environment": machine.environment,
            "time": moment(metadata.get("timestamp")),
        }
        passed = result.get(f"{way}_success", result.get("success")) is True
        draft = Draft(
            kind="test", test="skill", stage="run", workload={"mode": "inference"}, outcome="passed", **shared
        )
        draft.original = {"record": record_at("results", key)}
        times = {
            **{name.removeprefix(f"{way}_"): value for name, value in result.items()},
            **_object(performance.get(key)),
        }
        written = [
            value for field in ("avg_time", "inference_time") if isinstance(value := times.get(field), int | float)
        ]
        draft.claims = {"flags": flags_of(result), "clock": written}
        if not passed:
            said = text(result, f"{way}_error") or text(result, f"{way}_test") or text(result, "error") or "no success"
            kind = text(result, f"{way}_error_type")
            draft.outcome = "error"
            draft.error, draft.message = error_of(said)
            draft.error = kind if draft.error == "error" and kind and kind != "none" else draft.error
            draft.stage = "load"
        yield draft
        if passed and written:
            yield from _tried(
                document, lambda t=times, s=shared, d=draft, k=key: _latency(t, s, d, record_at("performance", k))
            )


def _latency(times: Mapping[str, Any], shared: dict[str, Any], test: Draft, record: str) -> Draft:
    calls = whole(times, "num_runs")
    mean = number(times, "avg_time", unit="s") or number(times, "inference_time", unit="s")
    if mean is None:
        raise BadRow("avg_time", "is missing")
    low, high = number(times, "min_time", unit="s"), number(times, "max_time", unit="s")
    load = number(times, "load_time", unit="s") or number(times, "model_load_time", unit="s")
    return Draft(
        **shared,
        workload={"mode": "inference", "scenario": "single_stream"},
        metrics={"latency_ms": {"mean": mean, "min": low, "max": high, "n": calls}, "load_ms": load},
        original={"record": record, "avg_time (s)": times.get("avg_time") or times.get("inference_time")},
        claims=dict(test.claims),
    )


def _one_model(row: dict[str, Any]) -> Draft:
    platform = platform_of(row.get("platform"))
    if platform is None:
        raise BadRow("platform", "is not a platform")
    draft = Draft(
        kind="test",
        test="skill",
        model=model_named(row.get("model")),
        workload={"mode": "inference"},
        execution={"platform": platform},
        hardware=NOWHERE.hardware(platform),
        outcome="passed",
        stage="run",
        time=moment(row.get("timestamp")),
        original={"record": ""},
        claims={"flags": flags_of(row)},
    )
    if row.get("success") is not True:
        draft.outcome = "error"
        draft.error, draft.message = error_of(text(row, "traceback") or text(row, "error") or "no success")
    return draft
