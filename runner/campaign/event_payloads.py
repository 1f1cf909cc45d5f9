"""Events from what children report: the runner's source, and the data of measurements, failures and tests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from domain.canonical import digest
from domain.catalogues.hardware import HardwareSpec, fill, find, spec_from_event
from domain.conditions import Conditions
from domain.configuration import Execution, Hardware, Model, Parallelism, Runtime, Workload
from domain.events import new_event
from domain.payloads import (
    Environment,
    Failure,
    MeasurementFailed,
    MeasurementRecorded,
    Metrics,
    Observed,
    Provenance,
    Requested,
    SamplesRecorded,
    SamplesReference,
    Validity,
)
from domain.performance.energy import Energy
from domain.performance.energy import figures as energy_figures
from domain.performance.roofline import limits_of, roofline_share
from domain.statistics import latency_summary, median
from domain.verdicts import ENERGY, judge
from domain.vocabulary import IN_BROWSERS
from runner.measure.measuring import circumstances_of
from runner.measure.stopping import MAXIMUM_SAMPLES
from runner.platforms.registry import word
from runner.protocol.tasks import Case, Failed

__all__ = [
    "Machine",
    "failure_data",
    "measurement_data",
    "observed_of",
    "provenance",
    "runner_source",
    "stamped",
    "used_hardware",
]

RUNNER_VERSION = "0.1"
_MOST_PARTS = 12_000
"""What one samples event can hold beside the samples themselves."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """This machine as it was surveyed: environment, the data of its hardware events, its platforms by name.

    `placement` has one `{"hardware", "addresses": {platform: [device]}}` for each device, the processor first.
    """

    environment: dict[str, Any]
    hardware: list[dict[str, Any]]
    placement: list[dict[str, Any]]
    platforms: dict[str, dict[str, Any]]

    def reference(self) -> Environment:
        """Return the environment as rows carry it."""
        return msgspec.convert(self.environment, Environment)

    def available(self, platform: str) -> bool:
        """Return whether the platform's probe said yes."""
        return bool(self.platforms[platform]["probe"]["available"])

    def spec_of(self, hardware: Hardware) -> HardwareSpec | None:
        """Return what is known of one of this machine's devices: what was found here, then what the catalogue says."""
        described = next((item for item in self.hardware if item["hardware"]["id"] == hardware.id), None)
        if described is None:
            return None
        spec, existing = spec_from_event(described), find(hardware.id)
        return fill(spec, existing) if existing else spec

    def hardware_for(self, platform: str, device: str | None = None) -> Hardware:
        """Return the hardware that a device of a platform is; the processor where a platform names no other."""
        for place in self.placement:
            address = place["addresses"].get(platform, ())
            if device in address or (device is None and address):
                return msgspec.convert(place["hardware"], Hardware)
        where = (device or platform).lower()
        processor = self.placement[0]
        if platform in IN_BROWSERS:
            # A software adapter is the processor, and what a browser does not tell is never said to be an accelerator.
            gpus = [place for place in self.placement[1:] if place["hardware"].get("kind") == "gpu"]
            adapter = platform == "webgpu" and device is not None and not where.startswith("cpu")
            return msgspec.convert((gpus[0] if adapter and len(gpus) == 1 else processor)["hardware"], Hardware)
        others = [place for place in self.placement[1:] if platform in place["addresses"]]
        chosen = processor if where.startswith("cpu") or not others else others[0]
        return msgspec.convert(chosen["hardware"], Hardware)


def runner_source(environment: Mapping[str, Any]) -> str:
    """Return the source of this runner's events: ASSAY_SOURCE, else version and the environment's fingerprint.

    The fingerprint changes with every library; a token or a key that is bound to a source wants one that stays.
    """
    return os.environ.get("ASSAY_SOURCE") or f"assay-runner/{RUNNER_VERSION}/{environment['fingerprint'][:12]}"


def provenance() -> Provenance:
    """Return where our own numbers come from."""
    return Provenance(origin="measured", source=f"assay-runner {RUNNER_VERSION}")


def stamped(type_: str, data: Any, source: str, subject: str | None = None, id_: str | None = None) -> dict[str, Any]:
    """Return a new event of now."""
    return new_event(type_, data, source=source, time=datetime.now(UTC), subject=subject, id=id_)


def observed_of(case: Case, row: Mapping[str, Any]) -> Observed:
    """Return what did the work, and beside it what was asked for."""
    requested = Requested(
        device=case.device, platform=word(case.platform), precision=case.precision, options=_shown(case.options) or None
    )
    return Observed(
        device=row["device"],
        platform=row["platform"],
        precision=row["precision"],
        fallback_share=row["fallback_share"],
        precision_share=row.get("precision_share"),
        details=row.get("details") or None,
        requested=requested,
    )


def _shown(options: Sequence[str]) -> list[str]:
    """Return the options without the folders of programs, which are private to this machine."""
    return [re.sub(r"(?<=^browser=).*[/\\]", "", word) for word in options]


def execution_of(case: Case, result: Mapping[str, Any]) -> Execution:
    """Return the execution that happened: platform and precision are those that did the work."""
    observed, options = result["observed"], dict(result.get("options") or {})
    spread = (observed.get("details") or {}).get("devices")
    split = Parallelism(
        tensor=options.pop("tensor_parallel", None),
        data=options.pop("data_parallel", None),
        pipeline=len(spread) if spread else None,
    )
    return Execution(
        platform=observed["platform"],
        runtime=msgspec.convert(result["runtime"], Runtime),
        precision=observed["precision"],
        compiled=case.compiled,
        threads=result["threads"],
        streams=options.pop("streams", None),
        parallelism=split if split != Parallelism() else None,
        options=options or None,
    )


def measurement_data(
    case: Case,
    result: Mapping[str, Any],
    *,
    run_id: str,
    model: Mapping[str, Any],
    machine: Machine,
    operators: Sequence[Mapping[str, Any]] | None = None,
) -> tuple[MeasurementRecorded, SamplesRecorded]:
    """Return the data of a measurement and of its samples (times in ms, to the nanosecond).

    `operators` are those of one call at batch 1 (`runner.tracing.combined_traces`) and give the share of the roofline.
    """
    series = result["series"]
    samples = [round(value, 6) for value in series["samples_ms"]]
    warmup = [round(value, 6) for value in series["warmup_ms"]]
    observed = observed_of(case, result["observed"])
    hardware = used_hardware(machine.hardware_for(observed.platform or case.platform, observed.device), observed)
    metrics = _metrics(case.workload, result, samples)
    if operators and case.workload.arrival_rate_per_s is None:
        # Ranks work at once, so that the limit is that of all their devices; spread layers work one after the other.
        at_once = hardware.count or 1 if "ranks" in (observed.details or {}) else 1
        took = median(samples) * at_once
        share = _roofline_share(operators, machine, hardware, observed, case.workload, took)
        metrics = msgspec.structs.replace(metrics, roofline_share=share)
    named = [name for name in Metrics.__struct_fields__ if getattr(metrics, name) is not None]
    validity = judge(samples, named, circumstances_of(series, observed))
    kept = samples[-MAXIMUM_SAMPLES:]
    reference = digest(kept)
    measured = MeasurementRecorded(
        run_id=run_id,
        model=_model(model, result["model"]),
        workload=case.workload,
        execution=execution_of(case, result),
        hardware=hardware,
        metrics=_without_invalid_energy(metrics, validity),
        provenance=provenance(),
        environment=machine.reference(),
        observed=observed,
        samples=SamplesReference(digest=reference, n=len(kept)),
        validity=validity,
        conditions=msgspec.convert(series["conditions"], Conditions),
    )
    parts = _kept(result.get("parts", {}))
    return measured, SamplesRecorded(
        run_id=run_id, digest=reference, n=len(kept), values=kept, warmup=warmup, parts=parts
    )


def used_hardware(hardware: Hardware, observed: Observed) -> Hardware:
    """Return the hardware with as many devices as did the work: a machine has more accelerators than one call uses."""
    details = observed.details or {}
    devices = details.get("devices") or {(rank.get("node"), rank["device"]) for rank in details.get("ranks", ())}
    if hardware.kind == "cpu" and "ranks" not in details:
        return hardware
    return msgspec.structs.replace(hardware, count=len(devices) or 1)


def _kept(parts: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, list[float]]:
    """Return the times of each part in order, the last ones where all are too many for one event."""
    most = _MOST_PARTS // max(1, len(parts))
    return {name: [round(value, 6) for value in _flat(calls)][-most:] for name, calls in parts.items()}


def _flat(calls: Iterable[Iterable[float]]) -> list[float]:
    return [value for call in calls for value in call]


def _roofline_share(
    operators: Sequence[Mapping[str, Any]],
    machine: Machine,
    hardware: Hardware,
    observed: Observed,
    workload: Workload,
    measured_ms: float,
) -> float | None:
    spec = machine.spec_of(hardware)
    if spec is None:
        return None
    limits = limits_of(spec, observed.precision or "fp32", observed.platform or "")
    return roofline_share(operators, limits, batch_size=workload.batch_size or 1, measured_ms=measured_ms)


def _model(prepared: Mapping[str, Any], built: Mapping[str, Any]) -> Model:
    existing = {**prepared, **{key: value for key, value in built.items() if value is not None}}
    return msgspec.convert(existing, Model)


def _metrics(workload: Workload, result: Mapping[str, Any], samples: list[float]) -> Metrics:
    """Return the metrics; throughput is batch × calls over the sum of the calls' own times.

    Where calls were due at arrivals their times hold the wait; then it is over the wall time.
    """
    times = result["times"]
    queued = workload.arrival_rate_per_s is not None
    busy_s = (result["series"]["elapsed_ms"] if queued else sum(samples)) / 1e3
    items = (workload.batch_size or 1) * len(samples)
    audio_s = workload.audio_seconds
    tokens = workload.output_tokens if workload.mode == "inference" else None
    return Metrics(
        latency_ms=latency_summary(samples),
        throughput_per_s=items / busy_s,
        tokens_per_s=tokens * items / busy_s if tokens else None,
        realtime_factor=audio_s * items / busy_s if audio_s else None,
        load_ms=times["load_ms"],
        convert_ms=times["convert_ms"],
        compile_ms=times["compile_ms"],
        first_run_ms=times["first_run_ms"],
        preprocess_ms=times.get("preprocess_ms"),
        postprocess_ms=times.get("postprocess_ms"),
        **_part_metrics(result.get("parts", {})),
        peak_memory_bytes=result["peak_memory_bytes"],
        mean_memory_bytes=result["series"]["mean_memory_bytes"],
        device_memory_bytes=result["device_memory_bytes"],
        kv_cache_bytes=result.get("facts", {}).get("kv_cache_bytes"),
        utilisation=result["series"]["conditions"]["utilisation"],
        **energy_figures(
            msgspec.convert(result["series"]["conditions"].get("energy"), Energy | None),
            calls=len(samples),
            batch_size=workload.batch_size or 1,
            tokens=tokens,
        ),
    )


def _without_invalid_energy(metrics: Metrics, validity: Validity) -> Metrics:
    """Return the metrics without an energy that nobody may use; its verdict and reason stay where they are."""
    invalid = [name for name in ENERGY if name in validity.metrics and validity.metrics[name].verdict == "invalid"]
    return msgspec.structs.replace(metrics, **dict.fromkeys(invalid)) if validity.verdict != "invalid" else metrics


def _part_metrics(parts: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    """Return the median over the calls of each part; of tokens, of the mean time of one within its call."""
    medians = {name: median([sum(call) / len(call) for call in calls]) for name, calls in parts.items() if calls}
    if "token_ms" in medians:
        medians["tpot_ms"] = medians.pop("token_ms")
    return medians


def asked_execution(case: Case, machine: Machine) -> Execution:
    """Return the execution that was asked for, where none happened."""
    runtime = machine.platforms[case.platform]["runtime"]
    asked: dict[str, Any] = {"asked": _shown(case.options)} if case.options else {}
    if case.nodes:
        asked["nodes"] = len(case.nodes.hosts)
    return Execution(
        platform=word(case.platform),
        runtime=msgspec.convert(runtime, Runtime),
        precision=case.precision,
        compiled=case.compiled,
        threads=case.threads,
        options=asked or None,
    )


def failure_data(
    case: Case, failed: Failed, *, run_id: str, model: Mapping[str, Any], machine: Machine
) -> MeasurementFailed:
    """Return the data of a configuration that gave no measurement."""
    return MeasurementFailed(
        run_id=run_id,
        model=msgspec.convert(model, Model),
        workload=case.workload,
        execution=asked_execution(case, machine),
        hardware=machine.hardware_for(word(case.platform), case.device),
        outcome=failed.outcome,  # type: ignore[arg-type]
        stage=failed.stage,  # type: ignore[arg-type]
        failure=Failure(error=failed.error, message=failed.message),
        provenance=provenance(),
        environment=machine.reference(),
        remedy=failed.remedy,
    )
