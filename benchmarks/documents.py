"""Events as JSON text, fast enough to make ten million: measurements of about 1.5 KB, and their raw samples.

The members are those that `assay bench` writes; names, sizes and figures vary as they do between runs. Equal arguments
give equal texts. Every text passes `domain.events.decode_event`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
import numpy as np

from assay.synthesis import identifiers

__all__ = ["MEASUREMENT", "SAMPLES", "Document", "measurements", "model_name", "models_for", "retractions", "samples"]

MEASUREMENT = "assay.measurement.recorded.v1"
RETRACTION = "assay.measurement.retracted.v1"
SAMPLES = "assay.samples.recorded.v1"
_CHUNK = 1000
_RUN = 500
"""Measurements of one run: they share machine, environment and source."""
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_STEP_MS = 250


class Document(NamedTuple):
    """One event: the columns of the log beside its text."""

    id: str
    type: str
    source: str
    subject: str
    time: datetime
    body: bytes


def models_for(count: int) -> int:
    """Return among how many models `count` measurements are spread: 40, and one a 5,000 measurements above that."""
    return max(40, count // 5000)


def model_name(number: int) -> str:
    """Return the id of the model of this number."""
    return f"acme-research/encoder-{number:05d}"


_MODEL = (
    '{"id":"%s","category":"embedding","family":"%s","task":"feature-extraction","parameters":%d,"weights":"random"}'
)
_FAMILIES = ("bert", "roberta", "mpnet", "electra", "deberta")
_PRECISIONS = ("fp32", "fp16", "bf16")
_BATCHES = (1, 4, 8, 32)
_SINGLE = ("load_ms", "first_run_ms", "peak_memory_bytes")
_VALID = '{"verdict":"valid"}'
_DOUBTS = (
    '"the 95 %% interval of the median is ±%d.%d%%"',
    '"no steady state was reached before the budget ended"',
    '"other work used %d%% of the cores meanwhile"',
)


class _Machine(NamedTuple):
    """What the measurements of one machine share, as text."""

    source: str
    hardware: str
    environment: tuple[str, str]
    platform: str
    device: str
    speed: float


_LIBRARIES = '"transformers":"5.23.0","openvino":"2026.4.1","numpy":"2.4.6","nncf":"3.4.0"'


def _machine(number: int) -> _Machine:
    platform = ("cuda", "cpu", "openvino", "rocm")[number % 4]
    kind = "gpu" if platform in ("cuda", "rocm") else "cpu"
    fingerprint = f"{(number + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}"
    told = (
        f'{{"fingerprint":"{fingerprint}","driver":"{550 + number}.54","os":"Debian GNU/Linux 12 (bookworm)",'
        f'"cpu":"Acme {9000 + number}","memory_bytes":{(number + 1) * 16 * 2**30},'
        f'"libraries":{{"torch":"2.13.0"'
    )
    return _Machine(
        source=f"assay-runner/0.1/{fingerprint[:12]}",
        hardware=f'{{"id":"acme-{kind}-{number:02d}00","kind":"{kind}","count":1}}',
        environment=(f"{told}}}}}", f"{told},{_LIBRARIES}}}}}"),
        platform=platform,
        device=f"{platform}:0" if kind == "gpu" else platform,
        speed=1.0 + number / 3,
    )


_MACHINES = [_machine(number) for number in range(12)]
_RUNTIMES = {
    "cuda": ("torch", "2.13.0"), "cpu": ("torch", "2.13.0"), "openvino": ("openvino", "2026.4.1"),
    "rocm": ("torch", "2.13.0+rocm7.0"),
}  # fmt: skip
_BODY = (
    '{"specversion":"1.0","id":"%s","source":"%s","type":"assay.measurement.recorded.v1","subject":"%s","time":"%s",'
    '"data":{"run_id":"%s","model":%s,"workload":{"mode":"inference",'
    '"scenario":"single_stream","batch_size":%d,"sequence_length":128},"execution":{"platform":"%s","runtime":'
    '{"name":"%s","version":"%s"},"precision":"%s","compiled":false,"threads":2},"hardware":%s,"metrics":{"latency_ms":'
    '{"mean":%r,"min":%r,"max":%r,"stddev":%r,"p50":%r,"p90":%r,"ci95":{"p50":[%r,%r]},"n":%d},'
    '"throughput_per_s":%r,"load_ms":%r,"first_run_ms":%r,"peak_memory_bytes":%d},"provenance":'
    '{"origin":"measured","source":"assay-runner 0.1"},"environment":%s,"observed":{"device":"%s","platform":"%s",'
    '"precision":"%s","fallback_share":0.0},"samples":{"digest":"sha256:%s","n":%d},"validity":%s}}'
)


def measurements(count: int, *, seed: int, models: int = 40, whole: bool = False) -> Iterator[Document]:
    """Yield `count` measurements of `models` models on twelve machines; another `seed` gives other events.

    `whole` gives them every member that the runner writes, about 2 KB an event.
    """
    known = [(model_name(number), _model(number, whole)) for number in range(models)]
    for chunk in range(0, count, _CHUNK):
        yield from _chunk(min(_CHUNK, count - chunk), chunk, np.random.default_rng((seed, chunk)), known, whole)


def _model(number: int, whole: bool) -> str:
    name, family = model_name(number), _FAMILIES[number % len(_FAMILIES)]
    told = _MODEL % (name, family, 4_385_920 * (number + 1))
    if whole:
        told = f'{told[:-1]},"architecture":"{hashlib.sha256(name.encode()).hexdigest()}"}}'
    return told


def _chunk(
    size: int, first: int, random: np.random.Generator, models: list[tuple[str, str]], whole: bool
) -> Iterator[Document]:
    identifiers = _identifiers(size, first, random)
    chosen = random.integers(0, len(models), size).tolist()
    precisions = random.integers(0, len(_PRECISIONS), size).tolist()
    batches = random.integers(0, len(_BATCHES), size).tolist()
    counts = random.integers(44, 200, size).tolist()
    noise = np.exp(random.normal(0, 0.05, (size, 8))).tolist()
    digests = random.bytes(32 * size).hex()
    machines = random.integers(0, len(_MACHINES), size // _RUN + 1).tolist()
    runs = _identifiers(size // _RUN + 1, first, random)
    doubtful = (random.random(size) < 0.15).tolist()
    for row in range(size):
        machine = _MACHINES[machines[row // _RUN]]
        name, model = models[chosen[row]]
        batch, precision = _BATCHES[batches[row]], _PRECISIONS[precisions[row]]
        runtime, version = _RUNTIMES[machine.platform]
        n, (a, b, c, d, e, f, g, h) = counts[row], noise[row]
        middle = 0.4 * batch**0.8 * machine.speed * (1 + chosen[row] % 97 / 20) / (1 + precisions[row]) * a
        time = _BEGIN + timedelta(milliseconds=_STEP_MS * (first + row))
        body = _BODY % (
            identifiers[row], machine.source, name, time.isoformat(), runs[row // _RUN], model, batch, machine.platform,
            runtime, version, precision, machine.hardware,
            middle * (1 + min(0.3, abs(b - 1))), round(middle * 0.93 * min(1.0, c), 6),
            round(middle * 1.4 * (1 + abs(d - 1)), 6), middle * 0.04 * e, round(middle, 6),
            round(middle * (1.02 + min(0.3, abs(f - 1))), 6), round(middle * 0.995, 6), round(middle * 1.004, 6), n,
            1000 * batch / middle, round(900 * g, 6), round(80 * h, 6),
            int(4.1e8 * g * (1 + chosen[row] % 97)) // 4096 * 4096,
            machine.environment[whole], machine.device, machine.platform, precision, digests[64 * row : 64 * row + 64], n,
            _validity(doubtful[row], a, b, whole),
        )  # fmt: skip
        yield Document(identifiers[row], MEASUREMENT, machine.source, name, time, body.encode())


def _validity(doubtful: bool, a: float, b: float, whole: bool) -> str:
    verdict = _VALID
    if doubtful:
        width, load = int(a * 100) % 60, int(b * 100) % 50
        reasons = ",".join((_DOUBTS[0] % (width, load % 10), _DOUBTS[1], _DOUBTS[2] % load))
        verdict = f'{{"verdict":"suspect","reasons":[{reasons}]}}'
    others = ""
    if whole:
        others = f',"throughput_per_s":{verdict}' + "".join(f',"{name}":{_VALID}' for name in _SINGLE)
    return f'{verdict[:-1]},"metrics":{{"latency_ms":{verdict}{others}}}}}'


def _identifiers(size: int, first: int, random: np.random.Generator) -> list[str]:
    return identifiers(size, int(_BEGIN.timestamp() * 1000) + _STEP_MS * first, _STEP_MS, random)


def retractions(count: int, *, seed: int) -> Iterator[Document]:
    """Yield small events, of 320 bytes: what a log of short facts holds."""
    random = np.random.default_rng((seed, 1))
    source = _MACHINES[0].source
    for row, identifier in enumerate(_identifiers(count, 0, random)):
        time = _BEGIN + timedelta(milliseconds=_STEP_MS * row)
        text = time.isoformat(timespec="microseconds")
        body = (
            f'{{"specversion":"1.0","id":"{identifier}","source":"{source}","type":"{RETRACTION}",'
            f'"time":"{text}","data":{{"event_id":"{identifier[:-8]}{row:08x}",'
            f'"reason":"the machine ran on battery power: see ticket number {row:09d}"}}}}'
        )
        yield Document(identifier, RETRACTION, source, "", time, body.encode())


def samples(of: Document, random: np.random.Generator) -> Document:
    """Return the raw samples of a measurement: its call times in ms, to the nanosecond, and those of the warm-up."""
    data = msgspec.json.decode(of.body)["data"]
    middle, n = data["metrics"]["latency_ms"]["p50"], data["samples"]["n"]
    (identifier,) = _identifiers(1, 0, random)
    values = np.round(middle * np.exp(random.normal(0, 0.04, n)), 6).tolist()
    warmup = np.round(middle * np.exp(random.normal(0.5, 0.3, 8)), 6).tolist()
    event = {
        "specversion": "1.0", "id": identifier, "source": of.source, "type": SAMPLES, "time": of.time,
        "datacontenttype": "application/json",
        "data": {
            "run_id": data["run_id"], "measurement_id": of.id, "digest": data["samples"]["digest"], "n": n,
            "values": values, "warmup": warmup,
        },
    }  # fmt: skip
    return Document(identifier, SAMPLES, of.source, "", of.time, msgspec.json.encode(event))
