"""Every recipe on a model that was trained: what each costs in accuracy on examples that it never saw."""

import time

import numpy as np
import pytest
import torch

from runner.compression.recipes import recipes
from runner.models.build import build
from runner.models.sources import resolve
from runner.platforms import torch_precision
from tests.digits import trained_digits
from tests.unit.runner.compression.conftest import carried_out, examples


def accuracy(folder, form, pixels, labels):
    if form.kind == "checkpoint":
        module = build(resolve(str(folder / "checkpoint"))).module
        dtype = getattr(torch, torch_precision.DTYPES[form.precision])
        module = module.to(dtype)
        if form.precision in torch_precision.QUANTIZED:
            torch_precision.quantize(module, form.precision, "cpu")
        with torch.no_grad():
            logits = module(torch.from_numpy(pixels).to(dtype)).logits.float().numpy()
    elif form.kind == "openvino":
        import openvino as ov

        path = str(folder / "openvino" / "model.xml")
        logits = ov.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"pixel_values": pixels})[0]
    else:
        import onnxruntime as ort

        session = ort.InferenceSession(str(folder / "onnx" / "model.onnx"), providers=["CPUExecutionProvider"])
        logits = session.run(None, {"pixel_values": pixels})[0]
    return float((logits.argmax(-1) == labels).mean())


@pytest.mark.torture
def test_planted_losses_come_in_order_and_all_recipes_take_under_three_minutes(tmp_path, capsys):
    digits = trained_digits()
    training, held_out = np.load(digits.training), np.load(digits.evaluation)
    data = examples({"pixel_values": training["pixel_values"]}, training["labels"])
    built = build(resolve(str(digits.model)))
    begun = time.process_time()
    scores = {}
    for recipe in recipes():
        steps = {"epochs": 1} if recipe.name == "int8-qat" else {}
        made = carried_out(recipe.name, built, tmp_path / recipe.name, data, **steps)
        for form in made.forms:
            scores[recipe.name, form.kind] = accuracy(
                tmp_path / recipe.name, form, held_out["pixel_values"], held_out["labels"]
            )
    seconds = time.process_time() - begun
    with capsys.disabled():
        print(
            f"\n{seconds:.0f} s of processor",
            *(f"{' '.join(key)}: {value:.4f}" for key, value in scores.items()),
            sep="\n",
        )
    by_recipe = {name: score for (name, _), score in scores.items()}
    with torch.no_grad():
        logits = built.module(torch.from_numpy(held_out["pixel_values"])).logits.numpy()
    base = float((logits.argmax(-1) == held_out["labels"]).mean())
    assert by_recipe["prune-90"] < by_recipe["prune-50"] < base
    assert by_recipe["prune-2:4"] < by_recipe["prune-50"] < by_recipe["prune-70"]
    assert by_recipe["distill-tiny"] < 0.5 < base - 0.05 < by_recipe["distill-half"]
    for name in ("int8-ptq", "int8-ptq-onnx", "int8-dynamic", "int8-dynamic-onnx", "int8-qat", "mixed", "int4-weights"):
        assert by_recipe[name] > base - 0.03
    assert by_recipe["onnx-optimised"] == pytest.approx(base, abs=0.002)
    # Two cores: as many seconds of processor as there are in three minutes of both.
    assert seconds < 360
