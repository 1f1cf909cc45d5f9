"""Events from what children report: the runner's source, and the data of measurements, failures and tests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from domain.canonical import digest
from domain.configuration import Execution, Hardware, Model, Runtime, Workload
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
)
from domain.statistics import latency_summary
from domain.verdicts import Circumstances, judge
from runner.tasks import Case, Failed

__all__ = ["Machine", "failure_data", "measurement_data", "observed_of", "provenance", "runner_source", "stamped"]

RUNNER_VERSION = "0.1"


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

    def hardware_for(self, platform: str, device: str | None = None) -> Hardware:
        """Return the hardware that a device of a platform is; the processor where a platform names no other."""
        for place in self.placement:
            known = place["addresses"].get(platform, ())
            if device in known or (device is None and known):
                return msgspec.convert(place["hardware"], Hardware)
        where = (device or platform).lower()
        processor = self.placement[0]
        others = [place for place in self.placement[1:] if platform in place["addresses"]]
        chosen = processor if where.startswith("cpu") or not others else others[0]
        return msgspec.convert(chosen["hardware"], Hardware)


def runner_source(environment: Mapping[str, Any]) -> str:
    """Return the source of this runner's events: version and the environment's fingerprint, nothing private."""
    return f"assay-runner/{RUNNER_VERSION}/{environment['fingerprint'][:12]}"


def provenance() -> Provenance:
    """Return where our own numbers come from."""
    return Provenance(origin="measured", source=f"assay-runner {RUNNER_VERSION}")


def stamped(type_: str, data: Any, source: str, subject: str | None = None, id_: str | None = None) -> dict[str, Any]:
    """Return a new event of now."""
    return new_event(type_, data, source=source, time=datetime.now(UTC), subject=subject, id=id_)


def observed_of(case: Case, found: Mapping[str, Any]) -> Observed:
    """Return what did the work, and beside it what was asked for."""
    requested = Requested(device=case.device, platform=case.platform, precision=case.precision)
    return Observed(
        device=found["device"],
        platform=found["platform"],
        precision=found["precision"],
        fallback_share=found["fallback_share"],
        requested=requested,
    )


def execution_of(case: Case, result: Mapping[str, Any]) -> Execution:
    """Return the execution that happened: platform and precision are those that did the work."""
    observed = result["observed"]
    return Execution(
        platform=observed["platform"],
        runtime=msgspec.convert(result["runtime"], Runtime),
        precision=observed["precision"],
        compiled=case.compiled,
        threads=result["threads"],
    )


def measurement_data(
    case: Case, result: Mapping[str, Any], *, run_id: str, model: Mapping[str, Any], machine: Machine
) -> tuple[MeasurementRecorded, SamplesRecorded]:
    """Return the data of a measurement and of its samples (times in ms, to the nanosecond)."""
    series = result["series"]
    samples = [round(value, 6) for value in series["samples_ms"]]
    warmup = [round(value, 6) for value in series["warmup_ms"]]
    observed = observed_of(case, result["observed"])
    metrics = _metrics(case.workload, result, samples)
    named = [name for name in Metrics.__struct_fields__ if getattr(metrics, name) is not None]
    circumstances = Circumstances(
        steady=series["steady"],
        timer_resolution_ms=time.get_clock_info("perf_counter").resolution * 1e3,
        other_load=series["conditions"]["other_load"],
        observed=observed,
    )
    reference = digest(samples)
    measured = MeasurementRecorded(
        run_id=run_id,
        model=_model(model, result["model"]),
        workload=case.workload,
        execution=execution_of(case, result),
        hardware=machine.hardware_for(observed.platform or case.platform, observed.device),
        metrics=metrics,
        provenance=provenance(),
        environment=machine.reference(),
        observed=observed,
        samples=SamplesReference(digest=reference, n=len(samples)),
        validity=judge(samples, named, circumstances),
    )
    return measured, SamplesRecorded(run_id=run_id, digest=reference, n=len(samples), values=samples, warmup=warmup)


def _model(prepared: Mapping[str, Any], built: Mapping[str, Any]) -> Model:
    known = {**prepared, **{key: value for key, value in built.items() if value is not None}}
    return msgspec.convert(known, Model)


def _metrics(workload: Workload, result: Mapping[str, Any], samples: list[float]) -> Metrics:
    """Return the metrics; throughput is batch × calls over the sum of the calls' own times."""
    times = result["times"]
    busy_s = sum(samples) / 1e3
    items = (workload.batch_size or 1) * len(samples)
    audio_s = workload.audio_seconds
    return Metrics(
        latency_ms=latency_summary(samples),
        throughput_per_s=items / busy_s,
        realtime_factor=audio_s * items / busy_s if audio_s else None,
        load_ms=times["load_ms"],
        convert_ms=times["convert_ms"],
        compile_ms=times["compile_ms"],
        first_run_ms=times["first_run_ms"],
        peak_memory_bytes=result["peak_memory_bytes"],
        mean_memory_bytes=result["series"]["mean_memory_bytes"],
        device_memory_bytes=result["device_memory_bytes"],
        utilisation=result["series"]["conditions"]["utilisation"],
    )


def asked_execution(case: Case, machine: Machine) -> Execution:
    """Return the execution that was asked for, where none happened."""
    runtime = machine.platforms[case.platform]["runtime"]
    return Execution(
        platform=case.platform,
        runtime=msgspec.convert(runtime, Runtime),
        precision=case.precision,
        compiled=case.compiled,
        threads=case.threads,
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
        hardware=machine.hardware_for(case.platform, case.device),
        outcome=failed.outcome,  # type: ignore[arg-type]
        stage=failed.stage,  # type: ignore[arg-type]
        failure=Failure(error=failed.error, message=failed.message),
        provenance=provenance(),
        environment=machine.reference(),
        remedy=failed.remedy,
    )
