"""The operators of one call, as the data of an `assay.model.traced.v1` event.

Nothing is computed and no weight is loaded: the module is built and called on torch's meta device, at batch 1.
Operator rows are per single call; `count` says how many identical calls there are. A phase is one forward pass,
the prefill of a generation, its first decoding step, or the forward and backward pass of a training step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import msgspec
import torch

from domain.calls import window_of
from domain.configuration import Workload
from domain.errors import AssayError, UnsupportedWorkload, Untraceable
from runner.models import diffusion
from runner.models.build import Built, build_meta, count_parameters
from runner.models.heads import Purpose, generates
from runner.models.inputs import make_inputs, workload_defaults
from runner.models.sources import ModelSource
from runner.tracing.operator_rows import architecture_digest, sums_of
from runner.tracing.operators import STOPPED_AT, Recorder
from runner.tracing.phases import Phase, cache_of, decode_step, kv_elements_per_token, on_meta, prefill, training_step

__all__ = [
    "MODULES",
    "TRACER_NAME",
    "TRACER_VERSION",
    "architecture",
    "architecture_digest",
    "call_of",
    "phases_of",
    "record",
    "trace",
    "traced_data",
    "traced_phases",
]

TRACER_NAME = "assay-tracer"
TRACER_VERSION = 1
"""Raised whenever the same model would give other rows."""
_SIZES = (
    "sequence_length",
    "image_size",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "gradient_checkpointing",
)
_BYTES_OF_FP32 = 4
MODULES: tuple[Phase, ...] = ("text_encoder", "vae_decoder")
"""Phases of an image beside the steps of its denoiser."""
Rows = list[dict[str, Any]]


def trace(source: ModelSource, workload: Workload | None = None, *, phase: Phase = "forward") -> dict[str, Any]:
    """Return the data of an `assay.model.traced.v1` event for this model at the workload's sizes.

    Sizes left out are the model's defaults; the batch size does not matter, because the trace is that of one call at
    batch 1. `prefill` reads the prompt into an attention cache and `decode` writes one token after it (both with
    `kv_elements_per_token` in their totals, and `kv_bytes_per_token` at fp32); `training` is the forward pass, the
    loss and the backward pass, in the class that computes a loss. Takes a second or two and no weights, whatever the
    model's size. Raises what building and inputs raise: UnknownModel, UsageError, PartMissing, UnsupportedWorkload
    for a phase that the model has not, and Untraceable with the operator where the call cannot be followed.
    """
    single = _single(source, workload or Workload(mode="inference"), phase)
    default = workload_defaults(source, Workload(mode="inference"))
    with _naming(source, phase):
        if phase in MODULES:
            return _module(source, single, default, phase)
    rows, totals = _traced(source, single, phase)
    same = phase == "forward" and _sizes(single) == _sizes(default)
    default_rows = rows if same else _traced(source, default)[0]
    return traced_data(_described(source, default_rows), _sizes(single), rows, totals, phase)


def _described(source: ModelSource, default_rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": source.id,
        "category": source.category,
        "family": source.family,
        "task": source.task,
        "architecture": architecture_digest(default_rows),
    }


def _module(source: ModelSource, single: Workload, default: Workload, phase: Phase) -> dict[str, Any]:
    """Return the data of a module of a pipeline; a text encoder has the same work whatever the picture's size."""
    rows, totals = _module_rows(source, phase, single.image_size or 0)
    sizes = {"sequence_length": None, "image_size": single.image_size if phase == "vae_decoder" else None}
    return traced_data(_described(source, _traced(source, default)[0]), sizes, rows, totals, phase)


def call_of(source: ModelSource, workload: Workload, *, forward: bool = False) -> tuple[Workload, tuple[Phase, ...]]:
    """Return the work and the phases to trace for a call of a model as its user means it, or for a `forward` pass.

    The encoder of a family that reads windows of audio is traced on one, and a model that generates in its forward pass as
    well, which an answer may be of.
    """
    if workload.mode == "training":
        return workload, phases_of(source, workload)
    window = window_of(source.family)
    work = msgspec.structs.replace(workload, audio_seconds=window) if window else workload
    if forward:
        return msgspec.structs.replace(work, output_tokens=None), ("forward",)
    if source.pipeline is not None and not workload.sequence_length:
        return work, ("forward", *MODULES)
    if not generates(source) or workload.sequence_length:
        return work, phases_of(source, work)
    # How many tokens a window of audio gives is no part of its phases.
    work = msgspec.structs.replace(work, output_tokens=1 if window else work.output_tokens or 1)
    return work, ("prefill", "decode") if workload.output_tokens or window else ("forward", "prefill", "decode")


def traced_phases(source: ModelSource, workload: Workload, forward: bool | None = None) -> Iterator[dict[str, Any]]:
    """Yield what `trace` gives of each phase that the work consists of.

    With `forward` the work is a call as its user means it (false), or a forward pass (true).
    """
    phases = phases_of(source, workload)
    if forward is not None:
        workload, phases = call_of(source, workload, forward=forward)
    for phase in phases:
        # A model without a phase has the others.
        with suppress(UnsupportedWorkload) if forward is False and phase != phases[0] else nullcontext():
            yield trace(source, workload, phase=phase)


def phases_of(source: ModelSource, workload: Workload) -> tuple[Phase, ...]:
    """Return the phases of which this work consists: of generation two, the forward pass of everything else.

    Training has its own phase beside the forward pass.
    """
    if workload.mode == "training":
        return ("forward", "training")
    return ("prefill", "decode") if workload.output_tokens and generates(source) else ("forward",)


def architecture(source: ModelSource) -> str:
    """Return the name of the model's architecture: 64 hex digits, the same for models that do the same work."""
    return architecture_digest(_traced(source, workload_defaults(source))[0])


def record(module: Any, inputs: dict[str, Any] | tuple[Any, ...]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the operator rows of one forward call and their totals.

    The module's parameters lie on the meta device; inputs are tensors on it, integer ones may be real.
    """
    recorder = Recorder(module)
    with recorder.recording():
        result = module(*inputs) if isinstance(inputs, tuple) else module(**inputs)
    del result
    return _told(recorder, module)


def _told(recorder: Recorder, module: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    rows = recorder.rows()
    totals = sums_of(rows)
    totals["parameters"] = count_parameters(module)
    totals["peak_activation_elements"] = recorder.peak_activation_elements
    return rows, totals


def traced_data(
    model: dict[str, Any],
    sizes: dict[str, Any],
    rows: list[dict[str, Any]],
    totals: dict[str, Any],
    phase: Phase = "forward",
) -> dict[str, Any]:
    """Put the parts of an `assay.model.traced.v1` event's data together; `model` holds id, category, family, task."""
    return {
        "model": {**model, "parameters": totals["parameters"]},
        "workload": {
            "mode": "training" if phase == "training" else "inference",
            "phase": phase,
            "batch_size": 1,
            **sizes,
        },
        "tracer": {"name": TRACER_NAME, "version": TRACER_VERSION, "torch": torch.__version__.split("+")[0]},
        "operators": rows,
        "totals": totals,
    }


def _single(source: ModelSource, workload: Workload, phase: Phase) -> Workload:
    """Return the work of one call of this phase at batch 1, sizes filled in."""
    mode = "training" if phase == "training" else "inference"
    generated = (workload.output_tokens or 1) if phase in ("prefill", "decode") else None
    checkpointing = workload.gradient_checkpointing or None if phase == "training" else None
    item = msgspec.structs.replace(
        workload,
        mode=mode,
        scenario=None,
        batch_size=1,
        output_tokens=generated,
        optimizer=None,
        gradient_checkpointing=checkpointing,
    )
    return workload_defaults(source, item)


def _sizes(workload: Workload) -> dict[str, Any]:
    """The sizes of one item; `sequence_length` and `image_size` stand there even where they are null."""
    result = {name: getattr(workload, name) for name in _SIZES}
    always = ("sequence_length", "image_size")
    return {name: value for name, value in result.items() if value is not None or name in always}


def _traced(
    source: ModelSource, workload: Workload, phase: Phase = "forward"
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    purpose: Purpose = {"forward": "inference", "training": "training"}.get(phase, "generation")  # type: ignore[assignment]
    with torch.inference_mode(False):
        built = build_meta(source, image_size=workload.image_size, purpose=purpose)
        with _naming(source, phase):
            if phase == "forward":
                return record(built.module, on_meta(make_inputs(built, workload)))
            if phase == "training":
                return _trained(built, workload)
            return _generated(built, workload, phase)


@contextmanager
def _naming(source: ModelSource, phase: Phase) -> Iterator[None]:
    """Say of a call that fails which model, phase and operator it was."""
    try:
        yield
    except AssayError:
        raise
    except Exception as error:
        stopped = [note for note in getattr(error, "__notes__", ()) if note.startswith(STOPPED_AT)]
        at = f"at {stopped[-1].removeprefix(STOPPED_AT)}" if stopped else "outside of any operator"
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise Untraceable(
            f"the {phase} trace of {source.id} stopped {at}: {reason}.",
            field="model",
            remedy="A config whose sizes do not fit together stops so, and a step that needs the values of tensors. "
            f"Where the model runs, measure it instead: assay bench {source.id}",
        ) from error


def _trained(built: Built, workload: Workload) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    inputs = training_step(built, workload)
    recorder = Recorder(built.module)
    with recorder.recording(gradients=True):
        built.module(**inputs)["loss"].backward()
    return _told(recorder, built.module)


def _generated(built: Built, workload: Workload, phase: Phase) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    inputs = prefill(built, workload)
    recorder = Recorder(built.module)
    with recorder.recording():
        outputs = built.module(**inputs)
    kept = kv_elements_per_token(cache_of(built, outputs))
    if phase == "decode":
        step = decode_step(built, inputs, outputs)
        recorder = Recorder(built.module)
        with recorder.recording():
            built.module(**step)
    rows, totals = _told(recorder, built.module)
    return rows, {**totals, "kv_elements_per_token": kept, "kv_bytes_per_token": kept * _BYTES_OF_FP32}


def _module_rows(source: ModelSource, phase: Phase, image_size: int) -> tuple[Rows, dict[str, Any]]:
    """Return the operator rows of one text through all text encoders, or of one picture through the decoder, and their totals.

    The totals of the text encoders say how the pipeline makes an image. Raises UnsupportedWorkload for a model without one.
    """
    pipeline = source.pipeline
    if pipeline is None:
        raise UnsupportedWorkload(
            f"{source.id} is no diffusion pipeline.", field="steps", remedy="Trace its forward call."
        )
    with torch.inference_mode(False):
        if phase == "vae_decoder":
            with torch.device("meta"):
                module = diffusion.VaeDecoder(diffusion.create(pipeline.vae.class_name, pipeline.vae.config)).eval()
                inputs = {"latent": diffusion.latents(pipeline.vae, image_size)}
            return _recorded([(module, inputs)])
        encoders = []
        for component in pipeline.text_encoders:
            with torch.device("meta"):
                encoders.append(diffusion.text_encoder(component))
        rows, totals = _recorded(encoders)
    return rows, {**totals, "usual_steps": pipeline.steps, "guided": int(pipeline.guided)}


def _recorded(calls: list[tuple[Any, dict[str, Any]]]) -> tuple[Rows, dict[str, Any]]:
    """Return the rows of calls one after the other, with the parameters of all modules and the largest peak."""
    rows: Rows = []
    peaks: list[float] = []
    for module, inputs in calls:
        recorder = Recorder(module.to("meta"))
        with recorder.recording():
            module(**inputs)
        rows += recorder.rows()
        peaks.append(recorder.peak_activation_elements)
    totals = sums_of(rows)
    totals["parameters"] = sum(count_parameters(module) for module, _ in calls)
    totals["peak_activation_elements"] = max(peaks, default=0)
    return rows, totals
