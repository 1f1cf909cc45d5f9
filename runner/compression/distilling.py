"""Distillation: a student of the same family with fewer layers, trained on its teacher's outputs."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import torch

from domain.errors import UnsupportedWorkload
from runner.compression.contract import Made, MadeForm, OnStep, Work
from runner.compression.examples import Tensors, tensors_of
from runner.compression.exporting import save_checkpoint, tool_versions
from runner.compression.training import label_loss, train
from runner.models.build import count_parameters
from runner.models.heads import generates
from runner.models.quiet import quiet
from runner.platforms.outputs import flatten

__all__ = ["distill"]


def distill(work: Work, on_step: OnStep) -> Made:
    """Make a student with a share of the teacher's layers, train it on the teacher's outputs, and write its checkpoint."""
    settings = work.recipe.parameters
    tensors = tensors_of(work, settings["least_examples"])
    teacher = work.built.module
    student, kept = _student(work, settings)
    on_step("asking the teacher", None)
    answers = _answers(teacher, tensors, settings["batch_size"])
    student_loss = _loss(work, student, tensors, answers, settings)
    trained = train(student, student_loss, tensors.size, settings, seed=work.seed, what="distillation", on_step=on_step)
    on_step("writing the checkpoint", None)
    save_checkpoint(student, work.folder / "checkpoint")
    sizes = {"parameters": count_parameters(student), "teacher_parameters": work.built.parameters, "kept_layers": kept}
    objective = "logits" if "logits" in answers else "outputs"
    labels = {"labels": tensors.targets is not None and objective == "logits", "objective": objective}
    return Made(
        forms=(MadeForm(kind="checkpoint", precision="fp32", folder="checkpoint"),),
        parameters=settings | sizes | labels | trained.parameters(),
        tools=tool_versions("torch", "transformers"),
        used=tensors.size,
    )


def _student(work: Work, settings: dict[str, Any]) -> tuple[Any, list[int]]:
    """Return a module of the teacher's class with fewer layers, and how many of each stack (or which layers) it kept."""
    teacher, share = work.built.module, float(settings["depth"])
    config = copy.deepcopy(teacher.config)
    depths = getattr(config, "depths", None)
    if depths:
        chosen = [_fewer(depth, share) for depth in depths]
        config.depths = type(depths)(chosen)
        names: dict[str, str] = {}
        smaller = sum(chosen) < sum(depths)
    else:
        total = int(getattr(config, "num_hidden_layers", 0) or 0)
        stack = _stack(teacher, total)
        chosen = _spread(total, _fewer(total, share)) if stack else []
        smaller = bool(chosen) and len(chosen) < total
        names = {f"{stack}.{new}.": f"{stack}.{old}." for new, old in enumerate(chosen)}
        if smaller:
            config.num_hidden_layers = len(chosen)
            if isinstance(getattr(config, "layer_types", None), list):
                config.layer_types = [config.layer_types[index] for index in chosen]
    if not smaller:
        raise UnsupportedWorkload(
            f"{work.built.id} has no stack of layers in which some can be left out.",
            field="recipe",
            remedy="Take a recipe that quantizes or prunes (int8-dynamic, prune-50).",
        )
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(work.seed)
        student = type(teacher)._from_config(config, dtype=torch.float32)
    if settings["start"] == "teacher":
        _copy(teacher, student, names)
    return student, chosen


def _fewer(total: int, share: float) -> int:
    return max(1, math.ceil(total * share))


def _spread(total: int, count: int) -> list[int]:
    """Return layers at even distances, the first and the last among them; of one, the first."""
    if count == 1:
        return [0]
    return [round(index * (total - 1) / (count - 1)) for index in range(count)]


def _stack(module: Any, total: int) -> str | None:
    """Return the name of the one list of layers that is as long as the config says; None where there is no such list."""
    stacks = [
        name for name, each in module.named_modules() if isinstance(each, torch.nn.ModuleList) and len(each) == total
    ]
    outer = [name for name in stacks if not any(name.startswith(f"{other}.") for other in stacks)]
    return outer[0] if len(outer) == 1 and total > 1 else None


def _copy(teacher: Any, student: Any, names: dict[str, str]) -> None:
    """Copy into the student each tensor that the teacher has under the same name, or under that of the layer it kept."""
    source = teacher.state_dict()
    weights = {}
    for name, tensor in student.state_dict().items():
        prefix = next((new for new in names if name.startswith(new)), "")
        original = source.get(names.get(prefix, "") + name.removeprefix(prefix))
        if original is not None and original.shape == tensor.shape:
            weights[name] = original
    student.load_state_dict(weights, strict=False)
    if hasattr(student, "tie_weights"):
        student.tie_weights()


def _answers(teacher: Any, tensors: Tensors, size: int) -> dict[str, Any]:
    """Return the teacher's outputs for all examples, computed once."""
    batches = torch.arange(tensors.size).split(size)
    with torch.no_grad():
        parts = [dict(flatten(teacher(**tensors.rows(batch)))) for batch in batches]
    names = ["logits"] if "logits" in parts[0] else [name for name in parts[0] if not re.search(r"\.\d", name)]
    return {name: torch.cat([part[name] for part in parts]) for name in names}


def _loss(work: Work, student: Any, tensors: Tensors, answers: dict[str, Any], settings: dict[str, Any]) -> Any:
    temperature, share = float(settings["temperature"]), float(settings["label_share"])
    next_token = generates(work.built.source)

    def batch_loss(batch: Any) -> Any:
        outputs = dict(flatten(student(**tensors.rows(batch))))
        if "logits" not in answers:
            return sum(torch.nn.functional.mse_loss(outputs[name], answers[name][batch]) for name in answers)
        logits = outputs["logits"]
        soft = (
            torch.nn.functional.kl_div(
                torch.log_softmax(logits / temperature, -1).flatten(0, -2),
                torch.log_softmax(answers["logits"][batch] / temperature, -1).flatten(0, -2),
                reduction="batchmean",
                log_target=True,
            )
            * temperature**2
        )
        if tensors.targets is None:
            return soft
        return (1 - share) * soft + share * label_loss(logits, tensors.targets[batch], next_token=next_token)

    return batch_loss
