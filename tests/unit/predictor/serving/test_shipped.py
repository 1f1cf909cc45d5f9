"""What is shipped of serving: parameters that tell of unseen models and devices, and what later rows make of them."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from domain.catalogues import hardware, language_models
from predictor.features.dataset import Row
from predictor.learning.training import Learner, Trees
from predictor.llm_serving.building import serving_of
from predictor.llm_serving.shipped import PARTS, FittedShipped, Serving, part_name
from predictor.llm_serving.table import tabulate, taught

TINY = {
    part: (Learner(objective="l2", trees=30, learning_rate=0.2, leaves=8, rows_per_leaf=10, feature_share=0.8),)
    for part in PARTS
}
MODELS = (
    "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B", "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b",
)  # fmt: skip
SLOWER = {"nvidia-h200-sxm": 1.6, "nvidia-b200-sxm": 1.8, "nvidia-h100-sxm": 1.7}
NEW = "nvidia-l4"


def slowed(row: Row, factor: float) -> Row:
    """The row with what physics says of it, so many times slower."""
    priors = {target: tabulate([row], hardware.find, target).prior[0] for target in ("ttft", "tpot")}
    return msgspec.structs.replace(row, ttft_ms=priors["ttft"] * 2e3, tpot_ms=priors["tpot"] * factor * 1e3)


@pytest.fixture(scope="module")
def rows(served: Callable[..., Row]) -> list[Row]:
    """Models on three devices under two engines, slower than physics by device, engine and load."""
    found = []
    for model, device, load, engine in itertools.product(MODELS, SLOWER, (1, 8, 32, 128), ("vllm", "sglang")):
        row = served(model=model, hardware=device, concurrency=load, runtime=engine, precision="bf16")
        factor = SLOWER[device] * (1.3 if engine == "sglang" else 1.0) * (1 + load / 500)
        found.append(slowed(row, factor))
    return found


@pytest.fixture(scope="module")
def built(rows: list[Row]) -> tuple[Serving, dict[str, Trees]]:
    return serving_of(rows, hardware.find, TINY)


@pytest.fixture(scope="module")
def fitted(built: tuple[Serving, dict[str, Trees]]) -> FittedShipped:
    """What an installation has: the card as JSON and the trees as text."""
    serving, trees = built
    card = msgspec.json.decode(msgspec.json.encode(serving), type=Serving)
    return card.restored("tpot", {name: Trees(dict(one.texts)) for name, one in trees.items()})


def off(fitted: FittedShipped, rows: list[Row]) -> float:
    table = taught(rows, hardware.find, "tpot")
    return float(np.mean(np.abs(np.expm1(fitted.predict(table).residual - table.residual))))


def test_what_trained_is_told_again_from_parameters_alone(built, fitted, rows) -> None:
    assert off(fitted, rows) < 0.06
    serving, trees = built
    assert set(trees) == {part_name(target, part) for target in ("ttft", "tpot") for part in PARTS}
    text = msgspec.json.encode(serving).decode() + "".join(
        one for each in trees.values() for one in each.texts.values()
    )
    assert not any(f"{row.tpot_ms:.6g}" in text for row in rows[::7])


def test_another_model_and_another_device_take_what_the_engine_usually_adds(fitted, served) -> None:
    other = slowed(served(model="Qwen/Qwen2-72B", precision="bf16"), 1.7)
    assert off(fitted, [other]) < 0.15
    new = slowed(served(hardware=NEW, model="meta-llama/Llama-3.1-8B", precision="bf16", parallelism={}), 1.7)
    assert off(fitted, [new]) < 0.25


def test_a_few_rows_of_a_device_correct_what_is_said_of_it_and_nothing_else(fitted, served) -> None:
    def on(device: str, model: str, load: int) -> Row:
        row = served(hardware=device, model=model, concurrency=load, precision="bf16", parallelism={})
        return slowed(row, 4.0 if device == NEW else 1.6)

    shots = [on(NEW, "meta-llama/Llama-3.1-8B", load) for load in (1, 2, 4, 8, 16, 32)]
    asked = [on(NEW, "Qwen/Qwen3-32B", load) for load in (1, 8)]
    adapted = fitted.adapted(taught(shots, hardware.find, "tpot"))
    assert off(adapted, asked) < 0.5 * off(fitted, asked)
    table = taught([*asked, on("nvidia-h200-sxm", "Qwen/Qwen3-32B", 8)], hardware.find, "tpot")
    near, _, far = adapted.predict(table).difficulty.tolist()
    assert near < far <= 1.0
    assert fitted.predict(table).difficulty.tolist() == [1.0, 1.0, 1.0]
    elsewhere = table.take([2])
    moved = adapted.predict(elsewhere).residual - fitted.predict(elsewhere).residual
    assert abs(moved[0]) < 0.2


@pytest.mark.parametrize(
    ("changed", "model", "level", "covered"),
    [
        ({}, "meta-llama/Llama-3.1-8B", "interpolation", True),
        ({}, "mistralai/Mistral-7B-v0.1", "new_family", True),
        ({"hardware": NEW}, "meta-llama/Llama-3.1-8B", "new_hardware", True),
        ({"hardware": NEW}, "mistralai/Mistral-7B-v0.1", "new_hardware", False),
        ({"runtime": "llama.cpp"}, "meta-llama/Llama-3.1-8B", "new_hardware", False),
        ({"precision": "fp8"}, "meta-llama/Llama-3.1-8B", "interpolation", False),
    ],
)
def test_how_far_a_question_lies_is_told_and_whether_anything_that_was_held_out_lay_as_far(
    built, served, changed: dict[str, Any], model: str, level: str, covered: bool
) -> None:
    facts = language_models.find(model)
    assert facts is not None
    found = built[0].level("tpot", served(**{"precision": "bf16", **changed}), facts.architecture, facts.family)
    assert found == (level, covered)


def test_the_farther_the_wider_and_scores_are_of_what_was_left_out(built) -> None:
    serving, _ = built
    widths = [serving.widths["tpot"].of(level) for level in ("interpolation", "new_architecture", "new_family")]
    assert None not in widths
    assert widths == sorted(widths)
    assert set(serving.scores["tpot"]) == {
        "configuration", "architecture", "family", "hardware", "architecture-10", "hardware-10",
    }  # fmt: skip


def test_tokens_a_second_teach_where_nothing_else_was_measured(served) -> None:
    row = served(ttft_ms=None, tpot_ms=None, tokens_per_s=900.0)
    (prior,) = tabulate([row], hardware.find, "throughput").prior
    impossible = served(ttft_ms=None, tpot_ms=None, tokens_per_s=3 / prior)
    table = taught([row, served(), impossible], hardware.find, "tpot")
    assert len(table) == 2
    assert table.residual[1] == pytest.approx(np.log(1 / 900 / prior))
