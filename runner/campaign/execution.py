"""One case, stage by stage, inside its child process: convert it, measure it, or compare its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from domain.errors import UnsupportedWorkload
from domain.statistics import median
from runner.campaign.discovery import Announcer
from runner.measure.arrivals import poisson
from runner.measure.measuring import Series, measure
from runner.measure.prepared_case import (
    CARD,
    INPUTS,
    REFERENCE,
    Ready,
    available,
    built_for,
    set_threads,
    timed,
    variant_form,
    write_arrays,
)
from runner.measure.scenarios import scenario_result
from runner.measure.workloads import purpose_of
from runner.platforms.base import Recipe
from runner.protocol.tasks import Case, Convert, Measure, RankReport, Verify

__all__ = ["conversion_of", "convert", "measure_case", "verify_case"]

_QUANTIZED = frozenset({"int8", "int4"})


def conversion_of(case: Case) -> dict[str, Any]:
    """Return what of a case changes its converted form: the workload, the seed, and which weights it gets."""
    return {
        "workload": msgspec.to_builtins(case.workload),
        "seed": case.seed,
        "weights": case.weights,
        "unreachable": case.unreachable,
        "quantization": case.precision if case.precision in _QUANTIZED else None,
    }


def convert(task: Convert, speaker: Announcer) -> dict[str, Any]:
    """Build the model, write it in the platform's form with its inputs, reference and a card, and return the card."""
    from runner.measure.reference_outputs import reference_of, sensitivities

    case, folder = task.case, Path(task.folder)
    speaker.reach("resolve")
    platform = available(case)
    set_threads(case)
    built, inputs, load_ms = built_for(case, "float32", speaker)
    form = variant_form(case, platform)
    speaker.reach("convert")
    recipe = Recipe(purpose=purpose_of(case.workload), precision=case.precision)
    # First, because recording a model may leave something in it.
    reference = reference_of(built.module, inputs, case.workload)
    write_arrays(folder / REFERENCE, reference)
    convert_ms: float | None = None
    if form and form.kind != "checkpoint":
        platform.take(built.source.variant_folder / form.kind, inputs, folder)
    else:
        _, convert_ms = timed(lambda: platform.convert(built.module, inputs, folder, recipe))
    write_arrays(folder / INPUTS, inputs)
    card = {
        "model": msgspec.to_builtins(built.model()),
        "checkpoint": str(built.source.location) if built.source.location else None,
        "load_ms": load_ms,
        "convert_ms": convert_ms,
        "form": msgspec.to_builtins(form),
        "sensitivities": msgspec.to_builtins(sensitivities(built.module, inputs, case.workload, reference)),
    }
    (folder / CARD).write_bytes(msgspec.json.encode(card))
    return card


def measure_case(task: Measure, speaker: Announcer) -> dict[str, Any]:
    """Return times, memory and what was observed of one case.

    `parts` maps a part of the work to its times in ms in each of the calls that were sampled.
    """
    from runner.measure.preprocessing import processing_times

    case = task.case
    ready = Ready(case, task.folder, speaker, verifying=False)
    platform, work = ready.platform, ready.work
    speaker.reach("run")
    rate, timer = case.workload.arrival_rate_per_s, platform.timer()
    if rate and timer:
        raise UnsupportedWorkload(
            f"{case.platform} times its own calls and takes none at arrivals.",
            field="scenario",
            remedy="Leave out --scenario server, or take the onnxruntime platform.",
        )
    series = measure(
        work,
        platform.synchronize,
        task.method,
        meter=ready.meter,
        idle=ready.idle,
        watching=ready.watching,
        arrivals=poisson(rate, case.seed) if rate else None,
        ranks=ready.ranks.pids if ready.ranks else platform.processes(),
        timer=timer,
    )
    ready.meter.close()
    taken = ready.taken(len(series.samples_ms))
    parts, facts = work.parts(len(series.samples_ms)), work.facts()
    series = _with_device(series, _allocated(taken), parts.get("device_time_ms"))
    if ready.ranks:
        # What was seen of memory meanwhile is the first rank's; each rank holds as much of the cache as it.
        series = msgspec.structs.replace(series, mean_memory_bytes=None)
        facts = {name: value * len(taken) for name, value in facts.items()}
    observation = ready.observed(taken)
    if result := scenario_result(case.workload, task.method, series.samples_ms, series.elapsed_ms / 1e3):
        details = {**(observation.details or {}), "scenario": result}
        observation = msgspec.structs.replace(observation, details=details)
    times = {**ready.times, **processing_times(ready.checkpoint, case.workload)}
    if before := platform.preprocessing(ready.checkpoint, ready.model.get("family"), case.workload):
        times["preprocess_ms"] = before.ms
        details = {**(observation.details or {}), "preprocessing": before.details}
        observation = msgspec.structs.replace(observation, details=details)
    options = ready.options()
    ready.close()
    return {
        "model": ready.model,
        "runtime": msgspec.to_builtins(platform.runtime()),
        "threads": ready.threads,
        "options": options,
        "series": msgspec.to_builtins(series),
        "parts": parts,
        "facts": facts,
        "observed": msgspec.to_builtins(observation),
        "times": times,
        "peak_memory_bytes": sum(each.peak_memory_bytes for each in taken),
        "device_memory_bytes": _sum(each.device_memory_bytes for each in taken),
    }


def _sum(amounts: Iterable[int | None]) -> int | None:
    matching_amounts = [amount for amount in amounts if amount]
    return sum(matching_amounts) if matching_amounts else None


def _allocated(taken: Sequence[RankReport]) -> dict[str, int]:
    result = {name: _sum(getattr(each, name) for each in taken) for name in ("allocated_bytes", "reserved_bytes")}
    return {name: amount for name, amount in result.items() if amount}


def _with_device(series: Series, allocated: dict[str, int], device_ms: list[list[float]] | None) -> Series:
    """Return the series with what its runtime allocated on a device and how the device's clock compares to the host's."""
    result = series.conditions.device
    if result is None or not (allocated or device_ms):
        return series
    ratio = median([call[0] for call in device_ms]) / median(series.samples_ms) if device_ms else None
    device = msgspec.structs.replace(result, time_ratio=ratio, **allocated)
    return msgspec.structs.replace(series, conditions=msgspec.structs.replace(series.conditions, device=device))


def verify_case(task: Verify, speaker: Announcer) -> dict[str, Any]:
    """Return the checks of one case against the reference, and what did the work."""
    from runner.measure.output_checks import check_work

    ready = Ready(task.case, task.folder, speaker, verifying=True)
    platform = ready.platform
    checks = check_work(ready, task.case, speaker)
    observation = ready.observed(ready.taken())
    options = ready.options()
    ready.close()
    return {
        "model": ready.model,
        "runtime": msgspec.to_builtins(platform.runtime()),
        "threads": ready.threads,
        "options": options,
        "observed": msgspec.to_builtins(observation),
        **checks,
    }
