"""The results of one of the earlier framework's skill tests: a test for each platform, and a time for each example that has one.

`statuses` are members such as `cpu_init: "Success (REAL)"`, `cuda_tests: "CUDA not available"`; all those of one platform make one test: an
error or a failure decides, then what is not available (skipped), then success. Examples stand in a list, each with its `platform`, or as members
such as `cuda_example`; times stand in them (`elapsed_time`, `inference_time`, `generation_time` in s, `processing_time_ms`) or beside them
(`cpu_similarity_time`, `cuda_benchmark`, `cuda_generation_time`). A single call with nothing before it is `first_run_ms`; a mean over several is a latency.

What a status, a result or the metadata admits holds for all rows of the platform, unless nothing ran there; what an example admits, for the
example and the platform's test. A time that was typed into the test, or an answer that no model gives, condemns the platform's test too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from domain.scrub import scrub
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.identity import model_of
from ingest.importers.legacy.vocabulary import (
    Machine,
    category_of,
    error_of,
    flags_of,
    machine_of,
    model_named,
    moment,
    platform_of,
    record_at,
)
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["Skill", "skill_drafts"]

_PREFIX = re.compile(r"(cpu|cuda|openvino|apple|mps|rocm|qualcomm|qnn|webnn|webgpu)(?:_(.+))?")
_STATUS = re.compile(
    r"\W*(?:success|fail|error|valid|skipped|ready|real|mock|unknown|handler error)|.*\b(?:not available|not installed|not found|not tested)\b",
    re.IGNORECASE,
)
_ABSENT = re.compile(r"not available|not installed|skipped|not tested|sdk not", re.IGNORECASE)
_BAD = re.compile(r"\W*(?:fail|error)|.*\berror\b.*:", re.IGNORECASE)
_GOOD = re.compile(r"\W*(?:success|valid|real|ready)", re.IGNORECASE)
_SAYS = re.compile(r"mock|simul", re.IGNORECASE)
_BATCH = re.compile(r"Batch of (\d{1,4})\b")
_MOCKED_AS_A_WHOLE = ("transformers_mocked", "using_mocks", "mock_implementation")
_NOT_STATUS = re.compile(r"output|text|response|transcription$|sample|timestamp|_type$|device|metadata|shape")


class Skill(NamedTuple):
    """Whose results they are: the short name of the model, where they stand in the file, and what the file says around them."""

    name: str
    place: str = ""
    time: str | None = None
    machine: Machine | None = None


class _Time(NamedTuple):
    """A time of a platform, with the record it stands in and the figures that were written beside it."""

    record: str
    platform: str
    document: Mapping[str, Any]
    ms: float
    clock: list[float]
    mean_of: int | None = None
    metrics: dict[str, Any] = {}  # noqa: RUF012 - never changed


def skill_drafts(document: Document, results: Mapping[str, Any], skill: Skill) -> Iterator[Draft | Refused]:
    """Yield the tests and the times of one skill's results."""
    reader = _Reader(results, skill)
    times: list[_Time] = []
    for time in reader.times():
        if isinstance(time, BadRow):
            yield document.refused(time.reason, field=time.field)
        else:
            times.append(time)
    try:
        for platform in reader.platforms():
            own = [each for each in times if each.platform == platform]
            draft = reader.test(platform, own)
            if draft is not None:
                yield draft
            for each in own:
                yield reader.measurement(each)
    except BadRow as bad:
        yield document.refused(bad.reason, field=record_at(skill.place, bad.field))


class _Reader:
    """Reads one skill's results; statuses may stand in `status` or at the top."""

    def __init__(self, results: Mapping[str, Any], skill: Skill) -> None:
        status = results.get("status")
        self._top = {**results, **(status if isinstance(status, dict) else {})}
        self._skill = skill
        metadata = results.get("metadata")
        self._metadata = metadata if isinstance(metadata, dict) else {}
        self._statuses: dict[str, dict[str, str]] = {}
        self._kinds: dict[str, dict[str, str]] = {}
        for name, value in self._top.items():
            match = _PREFIX.fullmatch(str(name))
            platform = platform_of(match[1]) if match else None
            if platform is None or not isinstance(value, str):
                continue
            if name.endswith("_type") and _SAYS.search(value):
                self._kinds.setdefault(platform, {})[name] = value
            elif _STATUS.match(value) and not _NOT_STATUS.search(name):
                self._statuses.setdefault(platform, {})[name] = value
        self._examples = list(self._listed())
        self._answers: dict[str, list[str]] = {}
        for _, platform, document in self._examples:
            self._answers.setdefault(platform, []).extend(_answer(document))
        for name, value in self._top.items():
            match = _PREFIX.fullmatch(str(name))
            if match and isinstance(value, str) and re.search(r"output|text|response|transcription$", name):
                self._answers.setdefault(platform_of(match[1]) or "", []).append(value)

    def platforms(self) -> list[str]:
        """Return the platforms that anything is said of, in the file's order."""
        named = [each[1] for each in self._examples]
        timed = [time.platform for time in self.times() if not isinstance(time, BadRow)]
        return list(dict.fromkeys([*self._statuses, *named, *timed]))

    def _listed(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield where each example stands, its platform, and the example."""
        examples = self._top.get("examples")
        for index, example in enumerate(examples if isinstance(examples, list) else []):
            platform = platform_of(example.get("platform")) if isinstance(example, dict) else None
            if platform:
                yield record_at(self._skill.place, f"examples[{index}]"), platform, example
        for name, example in self._top.items():
            match = _PREFIX.fullmatch(str(name))
            if match and isinstance(example, dict) and (match[2] or "").endswith("example"):
                platform = platform_of(example.get("platform")) or platform_of(match[1])
                assert platform is not None
                yield record_at(self._skill.place, name), platform, example

    def times(self) -> Iterator[_Time | BadRow]:
        """Yield every time there is, or what is wrong with it."""
        for record, platform, document in self._examples:
            yield from _taken(_of_example, record, platform, document)
        for name, value in self._top.items():
            match = _PREFIX.fullmatch(str(name))
            where = platform_of(match[1]) if match else None
            if match is None or where is None:
                continue
            rest, record = match[2] or "", record_at(self._skill.place, name)
            if rest == "benchmark" and isinstance(value, dict):
                yield from _taken(_of_benchmark, record, where, value)
            elif rest in ("generation_time", "timing"):
                yield from _taken(self._of_generation, record, where, match[1])
            elif rest.endswith("_time") and rest != "total_time" and not isinstance(value, dict):
                yield from _taken(_of_figure, record, where, value)

    def _of_generation(self, record: str, platform: str, prefix: str) -> _Time | None:
        """Return the time of a generation that members side by side describe, or those of `timing` and `metrics`."""
        timing, metrics = self._top.get(f"{prefix}_timing"), self._top.get(f"{prefix}_metrics")
        values = (
            {
                name.removeprefix(f"{prefix}_"): value
                for name, value in self._top.items()
                if name.startswith(f"{prefix}_")
            }
            | (timing if isinstance(timing, dict) else {})
            | (metrics if isinstance(metrics, dict) else {})
        )
        took = number(values, "total_time", unit="s") or number(values, "generation_time", unit="s")
        typed = number(values, "generation_time")
        if took is None:
            return None
        rate = number(values, "tokens_per_second")
        tokens = whole(values, "generated_tokens")
        beside = {
            "output": self._top.get(f"{prefix}_output"),
            "output_tokens": tokens,
            "total_time (s)": values.get("total_time"),
        }
        clock = [value for value in (typed, rate if rate and typed and tokens is None else None) if value]
        return _Time(record, platform, beside, took, clock, metrics={"tokens_per_s": rate})

    def _claims(self, platform: str, record: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what the file admits of a platform, and of one record."""
        flags: dict[str, Any] = {
            name: value for name, value in self._statuses.get(platform, {}).items() if _SAYS.search(value)
        }
        flags |= self._kinds.get(platform, {})
        states = self._metadata.get("platform_status")
        for word, state in (states if isinstance(states, dict) else {}).items():
            if platform_of(word) == platform and isinstance(state, str) and _SAYS.search(state):
                flags[f"platform_status.{word}"] = state
        for name, value in self._top.items():
            match = _PREFIX.fullmatch(str(name))
            if match and platform_of(match[1]) == platform and not (match[2] or "").endswith("example"):
                flags |= flags_of(value, str(name))
        if not self._absent(platform):
            flags |= {name: True for name in _MOCKED_AS_A_WHOLE if self._metadata.get(name) is True}
            if self._metadata.get("transformers_version") == "mocked":
                flags["transformers_version"] = "mocked"
        flags |= flags_of(record or {})
        claims: dict[str, Any] = {"flags": flags} if flags else {}
        if start := self._failed_start(platform):
            claims["start"] = start
        return claims

    def _absent(self, platform: str) -> bool:
        """Return whether all that is said of a platform is that it is not there."""
        said = self._statuses.get(platform, {})
        return bool(said) and all(_ABSENT.search(value) and not _GOOD.match(value) for value in said.values())

    def _failed_start(self, platform: str) -> str | None:
        """Return the status of an initialization that failed where something of the platform succeeded all the same."""
        said = self._statuses.get(platform, {})
        start = next((value for name, value in said.items() if name.endswith("_init") and _BAD.match(value)), None)
        answered = any(_GOOD.match(value) for name, value in said.items() if not name.endswith("_init"))
        return start if answered else None

    def _subject(self, platform: str, document: Mapping[str, Any]) -> dict[str, Any]:
        machine = self._skill.machine or machine_of(self._metadata)
        names = ("model_name", "test_model", "model_id", "model")
        model = next((said for name in names if (said := text(self._metadata, name))), None)
        named = model_named(model) if model and model != "Unknown" else None
        device = next(
            (text(each, "device_name") or text(each, "cuda_device") for each in self._devices(platform)), None
        )
        if platform == "cuda" and device and not device.startswith("cuda"):
            machine = machine._replace(gpu=device)
        time = moment(document.get("timestamp")) or moment(
            self._metadata.get("test_timestamp") or self._metadata.get("timestamp")
        )
        return {
            "model": named or model_of(f"skill/{self._skill.name}", category=category_of(self._skill.name)),
            "execution": {"platform": platform},
            "hardware": machine.hardware(platform),
            "environment": machine.environment,
            "time": time or self._skill.time,
        }

    def _devices(self, platform: str) -> Iterator[Mapping[str, Any]]:
        for name in (f"{platform}_capabilities", f"{platform}_benchmark"):
            document = self._top.get(name)
            if isinstance(document, dict):
                yield document
        yield {"device_name": self._top.get(f"{platform}_device")}

    def test(self, platform: str, times: list[_Time]) -> Draft | None:
        """Return the test of a platform, or None where nothing is said of how it went."""
        said = self._statuses.get(platform, {})
        telling = {name: value for name, value in said.items() if not value.upper().startswith("UNKNOWN")}
        if not telling:
            return None
        claims = self._claims(platform)
        for _, where, document in self._examples:
            if where == platform:
                claims["flags"] = {**flags_of(document), **claims.get("flags", {})}
        claims["answer"] = self._answers.get(platform)
        if times and all(each.clock for each in times):
            claims["clock"] = [value for each in times for value in each.clock]
        draft = Draft(
            kind="test",
            test="skill",
            workload={"mode": "inference"},
            **self._subject(platform, {}),
            outcome="passed",
            stage="run",
            metrics={"first_run_ms": min(each.ms for each in times)} if times else {},
            checks={"statuses": {name: scrub(value, limit=300) for name, value in telling.items()}},
            key=self._skill.name,
            original={"record": record_at(self._skill.place, platform), "skill": self._skill.name},
            claims={**{name: value for name, value in claims.items() if value}, "python_call": True},
        )
        bad = {name: value for name, value in telling.items() if _BAD.match(value) and not _ABSENT.search(value)}
        if bad and not claims.get("start"):
            name, value = next(iter(bad.items()))
            draft.outcome = "error" if value.lower().lstrip("( ").startswith("error") else "failed"
            draft.stage = "load" if name.endswith("_init") else "run"
            draft.error, draft.message = error_of(value)
        elif not any(_GOOD.match(value) or _SAYS.search(value) for value in telling.values()):
            draft.outcome, draft.message = "skipped", None
        return draft

    def measurement(self, time: _Time) -> Draft:
        """Return a time as a measurement."""
        document = time.document
        claims = self._claims(time.platform, document)
        if answers := _answer(document):
            claims["answer"] = answers
        if time.clock:
            claims["clock"] = time.clock
        memory = _device_memory(time.platform, document, self._top)
        if memory is not None:
            claims["counters"] = memory
        draft = Draft(
            workload={"mode": "inference", "scenario": "single_stream", **_sizes(document)},
            **self._subject(time.platform, document),
            key=[self._skill.name, text(document, "test_type"), time.record.rpartition("/")[2]],
            original={"record": time.record, "ms": time.ms},
            claims={**claims, "python_call": True},
        )
        if time.mean_of is None:
            draft.metrics = {"first_run_ms": time.ms, **time.metrics}
        else:
            draft.metrics = {"latency_ms": {"mean": time.ms, "n": time.mean_of}, **time.metrics}
        return draft


def _taken(read: Callable[..., _Time | None], record: str, platform: str, document: Any) -> Iterator[_Time | BadRow]:
    try:
        result = read(record, platform, document)
    except BadRow as bad:
        yield BadRow(record_at(record, bad.field), bad.reason)
    else:
        if result is not None:
            yield result


def _of_example(record: str, platform: str, document: Mapping[str, Any]) -> _Time | None:
    parts = [
        document,
        *(
            part
            for name in ("performance", "performance_metrics", "metrics", "timing")
            if isinstance(part := document.get(name), dict)
        ),
    ]
    for part in parts:
        for field, unit in (
            ("elapsed_time", "s"),
            ("execution_time", "s"),
            ("inference_time", "s"),
            ("generation_time", "s"),
            ("processing_time_ms", "ms"),
        ):
            took = number(part, field, unit=unit)
            if took is not None:
                rates = {
                    "tokens_per_s": _of(parts, "tokens_per_second"),
                    "realtime_factor": _of(parts, "realtime_factor"),
                }
                return _Time(record, platform, document, took, [float(part[field])], metrics=rates)
    return None


def _of(parts: list[Mapping[str, Any]], field: str) -> float | None:
    return next((result for part in parts if (result := number(part, field)) is not None), None)


def _of_benchmark(record: str, platform: str, document: Mapping[str, Any]) -> _Time | None:
    took = number(document, "average_inference_time", unit="s")
    if took is None:
        return None
    clock = [float(document["average_inference_time"])]
    n = whole(document, "iterations")
    return _Time(record, platform, document, took, clock, mean_of=n if n and n > 1 else None)


def _of_figure(record: str, platform: str, value: Any) -> _Time | None:
    took = number({"time": value}, "time", unit="s")
    return None if took is None else _Time(record, platform, {}, took, [took / 1e3])


def _answer(document: Mapping[str, Any]) -> list[str]:
    """Return the texts that an example's model is said to have given, none or one."""
    output = document.get("output")
    if isinstance(output, dict):
        output = next(
            (output[name] for name in ("text", "generated_text", "first_output") if isinstance(output.get(name), str)),
            None,
        )
    return [output] if isinstance(output, str) else []


def _device_memory(platform: str, document: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the bytes that counters of the device show for a time, or None where the file has no such counters."""
    output = document.get("output")
    places = [document, document.get("performance"), output, top.get(f"{platform}_capabilities")]
    matches: dict[str, float] = {}
    for place in places:
        for name in ("memory_allocated_mb", "gpu_memory_mb", "cuda_memory_used_mb", "peak_memory_mb"):
            value = place.get(name) if isinstance(place, dict) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                matches.setdefault(name, value * 2.0**20)
    return matches or None


def _sizes(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the batch size where the example says one, and the tokens that came out."""
    row: dict[str, Any] = {}
    batch = _BATCH.search(str(document.get("input") or ""))
    size = document.get("batch_size")
    if batch:
        row["batch_size"] = int(batch[1])
    elif isinstance(size, int) and not isinstance(size, bool) and size > 0:
        row["batch_size"] = size
    tokens = document.get("output_tokens")
    if isinstance(tokens, int) and tokens > 0:
        row["output_tokens"] = tokens
    return row
