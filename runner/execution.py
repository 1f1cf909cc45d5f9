"""One case, stage by stage, inside its child process: convert it, measure it, or compare its outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeVar

import msgspec

from domain.errors import PlatformUnavailable, UnsupportedPrecision
from runner.measuring import measure, timed_ms
from runner.memory import peak_memory_bytes
from runner.platforms.base import Converted, Platform, Settings
from runner.platforms.registry import create
from runner.processor import threads_allowed
from runner.survey import Announcer
from runner.tasks import Case, Convert, Measure, Verify

__all__ = ["convert", "measure_case", "verify_case"]

Result = TypeVar("Result")
_INPUTS = "inputs.npz"
_REFERENCE = "reference.npz"
_CARD = "card.json"


def convert(task: Convert, speaker: Announcer) -> dict[str, Any]:
    """Build the model, write it in the platform's form with its inputs and a card, and return the card."""
    case, folder = task.case, Path(task.folder)
    speaker.reach("resolve")
    platform = _available(case)
    _set_threads(case)
    built, inputs, load_ms = _built(case, "float32", speaker)
    speaker.reach("convert")
    _, convert_ms = _timed(lambda: platform.convert(built.module, inputs, folder))
    _write_arrays(folder / _INPUTS, inputs)
    _write_arrays(folder / _REFERENCE, reference_outputs(built.module, inputs))
    card = {"model": msgspec.to_builtins(built.model()), "load_ms": load_ms, "convert_ms": convert_ms}
    (folder / _CARD).write_bytes(msgspec.json.encode(card))
    return card


def measure_case(task: Measure, speaker: Announcer) -> dict[str, Any]:
    """Return times, memory and what was observed of one case."""
    ready = _Ready(task.case, task.folder, speaker, want_reference=False)
    platform, inputs = ready.platform, ready.inputs
    speaker.reach("run")
    series = measure(lambda: platform.run(inputs), platform.synchronize, task.method)
    peak, device_peak = peak_memory_bytes(), platform.device_memory_bytes()
    observation = platform.observe(inputs)
    platform.close()
    return {
        "model": ready.model,
        "runtime": msgspec.to_builtins(platform.runtime()),
        "threads": ready.threads,
        "series": msgspec.to_builtins(series),
        "observed": msgspec.to_builtins(observation),
        "times": ready.times,
        "peak_memory_bytes": peak,
        "device_memory_bytes": device_peak,
    }


def verify_case(task: Verify, speaker: Announcer) -> dict[str, Any]:
    """Return the comparisons of one case's outputs with the reference, and whether a repeat gave the same."""
    import numpy as np

    from runner.comparison import compare, tolerance_for, worst

    ready = _Ready(task.case, task.folder, speaker, want_reference=True)
    platform, inputs = ready.platform, ready.inputs
    speaker.reach("run")
    first = platform.outputs(platform.run(inputs))
    again = platform.outputs(platform.run(inputs))
    speaker.reach("verify")
    tolerance = tolerance_for(task.case.precision)
    found = dict(first)
    missing = sorted(ready.reference.keys() - found.keys())
    comparisons = [
        compare(name, found[name], expected, tolerance) for name, expected in ready.reference.items() if name in found
    ]
    observation = platform.observe(inputs)
    platform.close()
    return {
        "model": ready.model,
        "runtime": msgspec.to_builtins(platform.runtime()),
        "threads": ready.threads,
        "observed": msgspec.to_builtins(observation),
        "missing": missing,
        "outputs": msgspec.to_builtins(comparisons),
        "worst": msgspec.to_builtins(worst(comparisons)) if comparisons else None,
        "tolerance": msgspec.to_builtins(tolerance),
        "deterministic": all(np.array_equal(a, b, equal_nan=True) for (_, a), (_, b) in zip(first, again, strict=True)),
    }


class _Ready:
    """A case loaded, compiled and run once, with the times of each stage in ms."""

    def __init__(self, case: Case, folder: str | None, speaker: Announcer, *, want_reference: bool) -> None:
        speaker.reach("resolve")
        self.platform = _available(case)
        self.threads = case.threads or threads_allowed()
        self.reference: dict[str, Any] = {}
        self.times: dict[str, float | None] = {"convert_ms": None, "compile_ms": None}
        self._settings = Settings(
            precision=case.precision, threads=self.threads, device=case.device, compiled=case.compiled
        )
        if folder is None:
            raw = self._load_module(case, speaker, want_reference)
        else:
            raw = self._load_converted(Path(folder), speaker)
        speaker.reach("compile")
        compiled, compile_ms = _timed(self.platform.compile)
        if compiled:
            self.times["compile_ms"] = compile_ms
        self.inputs = self.platform.place(raw)
        speaker.reach("first_run")
        self.times["first_run_ms"] = timed_ms(lambda: self.platform.run(self.inputs), self.platform.synchronize)

    def _load_module(self, case: Case, speaker: Announcer, want_reference: bool) -> dict[str, Any]:
        _set_threads(case)
        dtype = "float32" if want_reference else self.platform.weights_dtype(case.precision)
        built, inputs, load_ms = _built(case, dtype, speaker)
        if want_reference:
            self.reference = {name: tensor.numpy() for name, tensor in reference_outputs(built.module, inputs).items()}
        _, moved_ms = _timed(lambda: self.platform.load(built.module, self._settings))
        self.times["load_ms"] = load_ms + moved_ms
        self.model = msgspec.to_builtins(built.model())
        return inputs

    def _load_converted(self, folder: Path, speaker: Announcer) -> dict[str, Any]:
        speaker.reach("load")
        card = msgspec.json.decode((folder / _CARD).read_bytes())
        _, self.times["load_ms"] = _timed(lambda: self.platform.load(Converted(folder=folder), self._settings))
        self.times["convert_ms"] = card["convert_ms"]
        self.model = card["model"]
        self.reference = _read_arrays(folder / _REFERENCE)
        return _read_arrays(folder / _INPUTS)


def reference_outputs(module: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the outputs (name → float32 tensor) of the module in fp32 on the processor."""
    import torch

    from runner.platforms.outputs import flatten

    torch.set_float32_matmul_precision("highest")
    with torch.inference_mode():
        return {name: tensor.float() for name, tensor in flatten(module(**inputs))}


def _available(case: Case) -> Platform:
    platform = create(case.platform)
    probe = platform.probe()
    if not probe.available:
        raise PlatformUnavailable(
            f"{case.platform} is not available here: {probe.reason or 'its probe said no'}",
            field="platform",
            remedy=probe.remedy or "Name a platform that `assay detect` lists as available.",
        )
    possible = platform.precisions()
    if case.precision not in possible:
        raise UnsupportedPrecision(
            f"{case.platform} cannot compute in {case.precision} here.",
            field="precision",
            remedy=f"It can in {', '.join(possible)}.",
        )
    return platform


def _set_threads(case: Case) -> None:
    """Set torch's threads before anything of it runs: its pool cannot shrink afterwards without leaving sleepers."""
    import torch

    torch.set_num_threads(case.threads or threads_allowed())


def _built(case: Case, dtype: str, speaker: Announcer) -> tuple[Any, dict[str, Any], float]:
    """Return the built model, its inputs and the time of building in ms; importing the libraries is not counted."""
    import torch

    from runner.build import build, build_meta
    from runner.inputs import make_inputs
    from runner.sources import resolve

    source = resolve(case.model, case.weights, trust_remote_code=case.trust_remote_code)
    size = case.workload.image_size
    # Once without weights: the first build of a family imports its code, which is not the time of loading.
    build_meta(source, image_size=size)
    speaker.reach("load")
    built, load_ms = _timed(lambda: build(source, dtype=getattr(torch, dtype), image_size=size))
    return built, make_inputs(built, case.workload, seed=case.seed), load_ms


def _timed(call: Callable[[], Result]) -> tuple[Result, float]:
    started = perf_counter_ns()
    result = call()
    return result, (perf_counter_ns() - started) / 1e6


def _write_arrays(path: Path, tensors: dict[str, Any]) -> None:
    """Write name → array, in order."""
    import numpy as np

    arrays = {f"{index:03d} {name}": np.asarray(tensor) for index, (name, tensor) in enumerate(tensors.items())}
    with path.open("wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def _read_arrays(path: Path) -> dict[str, Any]:
    import numpy as np

    with np.load(path) as stored:
        return {name.split(" ", 1)[1]: stored[name] for name in sorted(stored.files)}
