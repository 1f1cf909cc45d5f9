"""Memory is counted before loading: close to what is really used, and with what would fit where it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from domain.configuration import Workload
from runner.machine.headroom import NotEnoughMemory
from runner.machine.memory_check import MARGIN, check_fits, required_bytes
from runner.models.sources import resolve

GB = 10**9


def needed(name: str, precision: str = "fp32", platform: str = "cpu", **sizes):
    workload = Workload(**{"mode": "inference", **sizes})
    return required_bytes(resolve(name, "random"), precision, workload, platform=platform)


def test_weights_are_parameters_times_the_bytes_of_the_precision() -> None:
    assert needed("bert-base-uncased").weights == 4 * 109_482_240
    assert needed("bert-base-uncased", "bf16").weights == 2 * 109_482_240
    assert needed("bert-base-uncased", "int8").weights == 5 * 109_482_240
    assert needed("bert-base-uncased", platform="openvino").weights == 8 * 109_482_240


def test_activations_grow_with_the_batch_and_shrink_with_the_precision() -> None:
    one, four = needed("bert-tiny"), needed("bert-tiny", batch_size=4)
    assert four.activations == 4 * one.activations
    assert needed("bert-tiny", "bf16").activations * 2 == one.activations
    assert four.total - one.total == pytest.approx((1 + MARGIN) * 3 * one.activations, abs=2)


def test_training_keeps_gradients_and_what_the_optimizer_needs() -> None:
    adam = needed("assay/llama-small", mode="training", optimizer="adamw")
    sgd = needed("assay/llama-small", mode="training", optimizer="sgd")
    assert (adam.gradients, adam.optimizer) == (4 * 1_417_856, 8 * 1_417_856)
    assert (sgd.gradients, sgd.optimizer) == (4 * 1_417_856, 0)
    assert adam.activations > 2 * needed("assay/llama-small").activations


def test_a_loss_without_a_trace_is_counted_by_what_the_forward_pass_writes() -> None:
    step = needed("assay/detr-small", mode="training")
    assert step.activations > 2 * needed("assay/detr-small").activations


def test_checkpointing_keeps_fewer_activations() -> None:
    plain = needed("vit-base", mode="training")
    checkpointed = needed("vit-base", mode="training", gradient_checkpointing=True)
    assert checkpointed.activations < 0.3 * plain.activations


def test_a_cache_grows_with_every_token_kept() -> None:
    short = needed("gpt2", batch_size=2, input_tokens=100, output_tokens=28)
    long = needed("gpt2", batch_size=2, input_tokens=100, output_tokens=156)
    assert short.kv_cache == 4 * 2 * 128 * (12 * 2 * 768)
    assert long.kv_cache == 2 * short.kv_cache
    assert needed("gpt2").kv_cache == 0
    pictures = needed("assay/llava-small", input_tokens=16, output_tokens=4)
    assert pictures.kv_cache == 4 * (16 + 16 + 4) * 128


def test_what_does_not_fit_is_refused_with_both_figures_and_what_would() -> None:
    source, work = resolve("bert-base-uncased", "random"), Workload(mode="inference", batch_size=32)
    fits = check_fits(source, "fp32", work, free_bytes=2 * GB)
    assert fits.total < 2 * GB
    with pytest.raises(
        NotEnoughMemory, match=r"takes 1\.\d+ GB .*weights 0\.44.* and 1\.00 GB of memory are free"
    ) as e:
        check_fits(source, "fp32", work, free_bytes=GB)
    assert "--low-memory (weights in bf16) would fit" in e.value.remedy
    with pytest.raises(NotEnoughMemory) as e:
        check_fits(source, "fp32", work, free_bytes=1_100_000_000)
    assert "a batch of 1 would fit" in e.value.remedy
    with pytest.raises(NotEnoughMemory) as e:
        check_fits(resolve("llama-3.2-1b", "random"), "fp32", Workload(mode="inference"), free_bytes=2 * GB)
    assert "--precision" not in e.value.remedy
    assert "the smaller facebook/opt-125m would fit" in e.value.remedy
    with pytest.raises(NotEnoughMemory) as e:
        check_fits(source, "fp32", work, free_bytes=1000)
    assert e.value.remedy == "Take a machine with more memory."


MEASURE = """
import sys, torch
from domain.configuration import Workload
from runner.models.build import build
from runner.models.inputs import make_inputs, training_inputs
from runner.machine.resident_memory import peak_memory_bytes
from runner.models.sources import resolve
torch.set_num_threads(1)
mode, batch = sys.argv[1], int(sys.argv[2])
work = Workload(mode=mode, batch_size=batch, optimizer="adamw" if mode == "training" else None)
built = build(resolve("distilbert", "random"), purpose=mode)
if mode == "training":
    optimizer = torch.optim.AdamW(built.module.parameters(), foreach=False)
    built.module(**training_inputs(built, work))["loss"].backward()
    optimizer.step()
else:
    with torch.inference_mode():
        built.module(**make_inputs(built, work))
print(peak_memory_bytes())
"""


@pytest.mark.torture
@pytest.mark.parametrize(("mode", "batch"), [("inference", 8), ("training", 2)])
def test_the_count_is_close_to_the_highest_resident_memory_of_a_real_process(mode: str, batch: int) -> None:
    run = [sys.executable, "-W", "ignore", "-c", MEASURE, mode, str(batch)]
    peak = int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    optimizer = "adamw" if mode == "training" else None
    counted = needed("distilbert", mode=mode, batch_size=batch, optimizer=optimizer).total
    assert 0.95 * peak < counted < 1.5 * peak
