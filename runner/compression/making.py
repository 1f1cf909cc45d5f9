"""One recipe carried out inside its child process: the model built, its forms written, and the card beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from domain.errors import UsageError
from domain.variants.lineage import Form, Variant, variant_id
from runner.campaign.discovery import Announcer
from runner.compression.contract import Examples, Made, Recipe, Work
from runner.compression.folder import (
    describe_form,
    keep_examples,
    no_room,
    require_room,
    variant_digest,
    weights_digest,
    write_card,
)
from runner.compression.recipes import carry_out, recipe_named, refusal
from runner.machine.processor import threads_allowed
from runner.models.build import Built, build, build_meta
from runner.models.sources import ModelSource, resolve
from runner.models.weights import choose_weights
from runner.protocol.tasks import Compress, Progress
from runner.quality.examples import read_examples

__all__ = ["make_variant"]

_FP32_BYTES = 4


def make_variant(task: Compress, speaker: Announcer) -> dict[str, Any]:
    """Write a variant into the task's folder; return its card, and base and variant as events carry models.

    Raises what the recipe refuses, and NoRoom where the disk is full.
    """
    import torch

    torch.set_num_threads(threads_allowed())
    allowed: dict[str, Any] = {"trust_remote_code": task.trust_remote_code, "allow_pickle": task.allow_pickle}
    speaker.reach("resolve")
    source = msgspec.structs.replace(resolve(task.model, task.weights, **allowed), unreachable=task.unreachable)
    recipe = recipe_named(task.recipe)
    if error := refusal(recipe, source):
        raise error
    examples = _examples(task, recipe, source)
    speaker.reach("load")
    built = build(source, dtype=torch.float32)
    folder = Path(task.folder)
    needed = built.parameters * _FP32_BYTES * len(recipe.forms)
    require_room(folder, needed)
    speaker.reach("convert")
    work = Work(recipe=recipe, built=built, folder=folder, examples=examples, seed=task.seed)
    try:
        made = carry_out(work, lambda what, share: speaker.say(Progress(what=what, share=share)))
        forms = tuple(_form(folder, made_form.kind, made, index) for index, made_form in enumerate(made.forms))
        variant = _card(task, built, made, forms, examples)
        write_card(folder, variant)
    except Exception as error:
        if full := no_room(error, folder, needed):
            raise full from error
        raise
    compressed = build_meta(resolve(str(folder), **allowed)).model()
    return {
        "variant": msgspec.to_builtins(variant),
        "base": msgspec.to_builtins(built.model()),
        "model": msgspec.to_builtins(msgspec.structs.replace(compressed, weights=built.weights)),
    }


def _examples(task: Compress, recipe: Recipe, source: ModelSource) -> Examples | None:
    if recipe.needs is None or task.calibrate is None:
        return None
    return read_examples(task.calibrate, source, labels=recipe.needs == "training" or None, flag="calibrate")


def _form(folder: Path, kind: Any, made: Made, index: int) -> Form:
    """Return a form that was written, after reading it back: some libraries write half a file and say nothing."""
    what = made.forms[index]
    form = describe_form(folder, kind, what.precision, what.quantization, what.folder)
    if what.folder != kind:
        raise UsageError(f"the recipe wrote {kind} into {what.folder}/.", field="recipe", remedy="Report the recipe.")
    try:
        _read_back(folder / kind, kind)
    except Exception as error:
        raise OSError(f"File too large or no space left on device: {kind} was written in part ({error})") from error
    return form


def _read_back(folder: Path, kind: str) -> None:
    if kind == "openvino":
        import openvino as ov

        ov.Core().read_model(str(folder / "model.xml"))
    elif kind == "onnx":
        import onnx

        onnx.load(str(folder / "model.onnx"))
    else:
        from safetensors import safe_open

        for path in folder.glob("*.safetensors"):
            with safe_open(path, framework="pt") as file:
                file.keys()


def _card(task: Compress, built: Built, made: Made, forms: tuple[Form, ...], examples: Examples | None) -> Variant:
    calibration = examples.reference if examples else None
    location = None if built.weights == "random" else choose_weights(built.source).folder
    digest, size = weights_digest(location)
    if calibration and made.used:
        calibration = msgspec.structs.replace(calibration, examples=made.used)
    card = Variant(
        id=built.id,
        base=built.id,
        source=task.source,
        recipe=task.recipe,
        forms=forms,
        digest="sha256:" + 64 * "0",
        base_digest=digest,
        base_bytes=size or built.parameters * _FP32_BYTES,
        parameters=made.parameters,
        tools=made.tools,
        calibration=calibration,
        notes=made.notes,
        request=task.request,
        examples=keep_examples(Path(task.folder), examples.inputs) if examples else None,
    )
    own = variant_digest(card)
    return msgspec.structs.replace(card, id=variant_id(built.id, task.recipe, own), digest=own)
