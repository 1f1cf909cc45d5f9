"""A case made ready to run: built or read, loaded, compiled and run once, with the time of each stage."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeVar

import msgspec

from domain.configuration import Workload
from domain.errors import PlatformUnavailable
from domain.variants.lineage import Form
from domain.vocabulary import arithmetic_precision
from runner.campaign.discovery import Announcer
from runner.compression.folder import form_taken, kept_examples, quantized_already, read_variant, variant_at
from runner.machine.devices.lock import DeviceLock, take
from runner.machine.devices.watching import Watcher, Watching
from runner.machine.processor import threads_allowed
from runner.measure.measuring import timed_ms
from runner.measure.output_comparison import Sensitivity
from runner.measure.power.meter import Meter, Unread
from runner.measure.power.sampling import rest
from runner.measure.workloads import Training, make_work, purpose_of
from runner.models.sources import ModelSource
from runner.platforms.base import Converted, Observation, Platform, Rank, Settings, Trainer
from runner.platforms.data_parallel import local_part
from runner.platforms.execution_options import read_options
from runner.platforms.registry import create
from runner.protocol.rank_training import Closing, LeadingSteps
from runner.protocol.ranks import Ranks, report_of, require_divisible, require_ranks
from runner.protocol.tasks import Case, RankReport

__all__ = [
    "CARD",
    "INPUTS",
    "REFERENCE",
    "Ready",
    "alone",
    "available",
    "built_for",
    "check_work",
    "load_code",
    "rank_inputs",
    "read_arrays",
    "require_probe",
    "set_threads",
    "timed",
    "variant_form",
    "write_arrays",
]

Result = TypeVar("Result")
INPUTS, REFERENCE, CARD = "inputs.npz", "reference.npz", "card.json"
_COMPILING_CALLS = 4
_REST_S = 1.0
"""How long the device is left alone to see what it draws then; only where that can be read."""
_OF_QUANTIZING = frozenset({"quantization", "preset", "calibration", "weights", "activations", "group_size"})
"""Options by which a platform says how it quantized."""
_ROUNDED = frozenset({"bf16", "fp16"})
_IN_MAIN_MEMORY = frozenset({"cpu", "openvino", "onnxruntime"})


class Ready:
    """A platform with a case loaded, its placed inputs, and the work to call.

    `checkpoint` is the folder of its weights, where they come from one. `times` has load, convert, compile and first run in ms. With `verifying` the reference is there too, dropout is
    off, and nothing was run yet.
    """

    def __init__(self, case: Case, folder: str | None, speaker: Announcer, *, verifying: bool) -> None:
        speaker.reach("resolve")
        self._verifying = verifying
        self.platform = available(case)
        self.ranks = self._ranks(case, speaker)
        self.lock = alone(self.platform, case.device)
        watcher = self.platform.watcher(case.device)
        self.watching = _watching(watcher)
        self.meter: Meter | Unread = (
            Unread("nothing is measured.") if verifying else _meter(self.platform, watcher, case)
        )
        self.idle = rest(self.meter, _REST_S)
        self.purpose = purpose_of(case.workload)
        self.threads = case.threads or threads_allowed()
        if self.ranks and self.ranks.training:
            self.threads = self.ranks.threads * self.ranks.size
        self._leading: LeadingSteps | None = None
        self._closing: Closing | None = None
        self.reference: dict[str, Any] = {}
        self.sensitivities: dict[str, Sensitivity] = {}
        self.checkpoint: Path | None = None
        self.form: Form | None = None
        self.times: dict[str, float | None] = {"convert_ms": None, "compile_ms": None, "first_run_ms": None}
        self._settings = Settings(
            precision=case.precision,
            threads=self.ranks.threads if self.ranks else self.threads,
            device=case.device,
            compiled=case.compiled,
            purpose=self.purpose,
            dropout=not verifying,
            options=case.options,
            rank=self.ranks.own if self.ranks else None,
            threads_named=case.threads is not None,
        )
        if folder is None:
            self.form = variant_form(case, self.platform)
        raw = self._load_module(case, speaker) if folder is None else self._load_converted(Path(folder), speaker)
        speaker.reach("compile")
        compiled, compile_ms = timed(self.platform.compile)
        self.threads = self.platform.threads_used() or self.threads
        self.inputs = self.platform.place(rank_inputs(raw, case, self.ranks.own) if self.ranks else raw)
        self.work = make_work(self.platform, self.inputs, case.workload)
        if isinstance(self.work, Training):
            self.work.steps = self._led(self.work.steps)
        compile_ms += self._let_it_compile()
        if compiled:
            self.times["compile_ms"] = compile_ms
        if not verifying:
            speaker.reach("first_run")
            self.times["first_run_ms"] = timed_ms(self.work, self.platform.synchronize)
        self.times |= self.platform.stage_times()

    def _let_it_compile(self) -> float:
        """Call until nothing new is compiled, where compiling happens inside the first calls; return the time in ms."""
        spent, before = 0.0, self.platform.compiling()
        if before is None or (self._verifying and self.purpose == "training"):
            return spent
        for _ in range(_COMPILING_CALLS):
            spent += timed_ms(self.work, self.platform.synchronize)
            after = self.platform.compiling()
            if after == before:
                break
            before = after
        return spent

    def _ranks(self, case: Case, speaker: Announcer) -> Ranks | None:
        """Start the other ranks of a case that is split; they build the model while this process does."""
        options = read_options(case.options, platform=case.platform, names=self.platform.known_options)
        if options.strategy is None:
            return None
        require_ranks(case, self.platform, options)
        return Ranks(case, options, speaker, verifying=self._verifying)

    def _led(self, steps: Any) -> Any:
        """Return the steps, or where other ranks take part in them those that tell them so."""
        if not (self.ranks and self.ranks.training):
            return steps
        self._leading = LeadingSteps(steps, self.platform.synchronize, self.ranks.own)
        return self._leading

    def trainer(self, workload: Workload, learning_rate: float) -> Trainer:
        """Return a training of its own beside that of the work."""
        trainer: Trainer = self._led(self.platform.trainer(self.inputs, workload, learning_rate))
        return trainer

    def _load_module(self, case: Case, speaker: Announcer) -> dict[str, Any]:
        set_threads(self.ranks.case if self.ranks else case)
        dtype = "float32" if self._verifying else self.platform.weights_dtype(case.precision)
        built, inputs, load_ms = built_for(case, dtype, speaker)
        if self._verifying:
            self._refer(built.module, inputs, case)
        if self.ranks:
            self.ranks.meet(self.platform)
        _, moved_ms = timed(lambda: self.platform.load(built.module, self._settings))
        self.times["load_ms"] = load_ms + moved_ms
        if self.ranks and not self.ranks.training:
            self.ranks.lead(built.module)
        self.model = msgspec.to_builtins(built.model())
        self.checkpoint = built.source.location
        return inputs

    def taken(self, samples: int | None = None) -> list[RankReport]:
        """Return what each rank took so far; of a case that is not split this process is the only one.

        A training on ranks ends with it: `samples` are the steps that were sampled last, None for all of them.
        """
        if self._leading and self.ranks:
            self._closing = self._leading.close(self.platform, self.ranks.threads, self.inputs, samples)
            return self._closing.reports
        if self.ranks:
            return self.ranks.reports(self.platform)
        return [report_of(self.platform, None, self.threads)]

    def observed(self, taken: Sequence[RankReport]) -> Observation:
        """Return what did the work, with the ranks where there are several."""
        observe = self._closing.observed if self._closing else self.platform.observe(self.inputs)
        if not self.ranks:
            return observe
        details = {**observe.details, "ranks": msgspec.to_builtins(taken)}
        if self._closing:
            details["communication"] = msgspec.to_builtins(self._closing.communication)
        return msgspec.structs.replace(observe, details=details)

    def options(self) -> dict[str, Any]:
        """Return what else was set, after load; of a variant its form, and of a graph how it was quantized when it was made."""
        options = self.platform.options()
        if self.form is None:
            return options
        options["form"] = self.form.kind
        if self.form.kind == "checkpoint":
            return options
        kept = {name: value for name, value in options.items() if name not in _OF_QUANTIZING}
        return kept | ({"quantization": self.form.quantization} if self.form.quantization else {})

    def close(self) -> None:
        """Let the other ranks end, and let go of the device."""
        if self.ranks:
            self.ranks.end()
        self.platform.close()

    def _refer(self, module: Any, inputs: dict[str, Any], case: Case) -> None:
        from runner.measure.reference_outputs import reference_of, sensitivities

        self.reference = reference_of(module, inputs, case.workload)
        if arithmetic_precision(case.precision) in _ROUNDED:
            own = copy.deepcopy(module)
            self.sensitivities = sensitivities(own, inputs, case.workload, self.reference)

    def _load_converted(self, folder: Path, speaker: Announcer) -> dict[str, Any]:
        speaker.reach("load")
        card = msgspec.json.decode((folder / CARD).read_bytes())
        _, self.times["load_ms"] = timed(lambda: self.platform.load(Converted(folder=folder), self._settings))
        self.times["convert_ms"] = card["convert_ms"]
        self.form = msgspec.convert(card.get("form"), Form | None)
        self.model = card["model"]
        self.checkpoint = Path(card["checkpoint"]) if card.get("checkpoint") else None
        self.reference = read_arrays(folder / REFERENCE)
        self.sensitivities = msgspec.convert(card.get("sensitivities", {}), dict[str, Sensitivity])
        return read_arrays(folder / INPUTS)


def alone(platform: Platform, device: str | None) -> DeviceLock | None:
    """Return the lock of the device that the work is done on, which no other runner holds then; None without one."""
    key = platform.device_key(device)
    return None if key is None else take(key)


def _watching(watcher: Watcher | Unread | None) -> Watching:
    """Return a look at a device, which is as it is before anything is loaded now."""
    if watcher is None or isinstance(watcher, Unread):
        return Watching(watcher)
    return Watching(watcher, before=watcher.state())


def _meter(platform: Platform, watcher: Watcher | Unread | None, case: Case) -> Meter | Unread:
    """Return the meter of the device that does the work; never that of the processor beside an accelerator."""
    if case.nodes:
        return Unread("several machines did the work, and power is read from one.")
    if watcher is None:
        return platform.meter(case.device)
    options = read_options(case.options, platform=case.platform, names=platform.known_options)
    if options.device_map or options.ranks > 1:
        return Unread("several devices did the work, and power is read from one.")
    return watcher if isinstance(watcher, Unread) else watcher.meter()


def available(case: Case) -> Platform:
    """Return the case's platform; raises where it is not here, or cannot do this work in this precision."""
    platform = create(case.platform)
    try:
        require_probe(platform, case.options)
        check_work(platform, case)
    except BaseException:
        platform.close()
        raise
    return platform


def require_probe(platform: Platform, options: tuple[str, ...]) -> None:
    """Raise PlatformUnavailable where the platform is not here; its probe may leave open what a load needs."""
    probe = platform.probe_for(options)
    if not probe.available:
        raise PlatformUnavailable(
            f"{platform.name} is not available here: {probe.reason or 'its probe said no'}",
            field="platform",
            remedy=probe.remedy or "Name a platform that `assay detect` lists as available.",
        )


def check_work(platform: Platform, case: Case) -> None:
    """Raise where the platform cannot do this work in this precision, or does not know an option."""
    form = variant_form(case, platform)
    plain = "fp32" if form and quantized_already(form) else case.precision
    platform.check(purpose_of(case.workload), plain)
    require_divisible(case, read_options(case.options, platform=case.platform, names=platform.known_options))


def variant_form(case: Case, platform: Platform) -> Form | None:
    """Return the form of a variant that the platform takes, None for a model that is no variant; raises where it takes none."""
    folder = variant_at(case.model)
    if folder is None:
        return None
    purpose = purpose_of(case.workload)
    return form_taken(
        read_variant(folder), platform.forms, platform=case.platform, precision=case.precision, purpose=purpose
    )


def set_threads(case: Case) -> None:
    """Set torch's threads before anything of it runs: its pool cannot shrink afterwards without leaving sleepers."""
    import torch

    torch.set_num_threads(case.threads or threads_allowed())


def load_code(case: Case) -> None:
    """Import torch and the code of a case's model, in the order and with the threads with which measuring it begins."""
    set_threads(case)
    _without_weights(case)


def built_for(case: Case, dtype: str, speaker: Announcer) -> tuple[Any, dict[str, Any], float]:
    """Return the built model, its inputs and the time of building in ms; importing the libraries is not counted."""
    import torch

    from runner.machine.memory_check import check_fits
    from runner.models.build import build

    source, how = _without_weights(case)
    speaker.reach("load")
    if case.platform in _IN_MAIN_MEMORY:
        check_fits(source, case.precision, case.workload, platform=case.platform)
    built, load_ms = timed(lambda: build(source, dtype=getattr(torch, dtype), **how))
    return built, _inputs(built, case), load_ms


def _without_weights(case: Case) -> tuple[ModelSource, dict[str, Any]]:
    """Build a case's model without weights; return where it comes from, and how it is built.

    The first build of a family imports its code, which is not the time of loading.
    """
    from runner.models.build import build_meta
    from runner.models.sources import resolve

    allowed = {"trust_remote_code": case.trust_remote_code, "allow_pickle": case.allow_pickle}
    source = msgspec.structs.replace(resolve(case.model, case.weights, **allowed), unreachable=case.unreachable)
    how: dict[str, Any] = {"image_size": case.workload.image_size, "purpose": purpose_of(case.workload)}
    build_meta(source, **how)
    return source, how


def _inputs(built: Any, case: Case) -> dict[str, Any]:
    from runner.models.inputs import generation_inputs, make_inputs, training_inputs

    makers = {"inference": make_inputs, "generation": generation_inputs, "training": training_inputs}
    purpose = purpose_of(case.workload)
    inputs: dict[str, Any] = makers[purpose](built, case.workload, seed=case.seed)
    folder = built.source.variant_folder
    if folder is None or purpose != "inference":
        return inputs
    # Ranges that were calibrated with examples cut off noise, so that outputs on it say nothing.
    return kept_examples(folder, inputs) or inputs


def rank_inputs(inputs: dict[str, Any], case: Case, rank: Rank) -> dict[str, Any]:
    """Return what a rank is given of a call's inputs: its part of the batch where it trains, else all of them."""
    return inputs if rank.strategy == "tensor" else local_part(inputs, case.workload.batch_size or 1, rank)


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """Return what a call gives and its time in ms."""
    started = perf_counter_ns()
    result = call()
    return result, (perf_counter_ns() - started) / 1e6


def write_arrays(path: Path, tensors: dict[str, Any]) -> None:
    """Write name → array, in order."""
    import numpy as np

    arrays = {f"{index:03d} {name}": np.asarray(tensor) for index, (name, tensor) in enumerate(tensors.items())}
    with path.open("wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def read_arrays(path: Path) -> dict[str, Any]:
    """Return name → array as `write_arrays` wrote them."""
    import numpy as np

    with np.load(path) as stored:
        return {name.split(" ", 1)[1]: stored[name] for name in sorted(stored.files)}
