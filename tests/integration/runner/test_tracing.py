"""Tracing: known FLOPs, weights told from activations, classes by shape, and nothing that depends on luck."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import torch
from torch import nn

from domain.catalogues.models import catalogue
from domain.configuration import Workload
from domain.errors import UnsupportedWorkload, Untraceable
from domain.payloads import ModelTraced
from runner.models.sources import resolve
from runner.tracing.operators import Recorder
from runner.tracing.trace import architecture, call_of, phases_of, record, trace


def traced(name: str, **sizes):
    return trace(resolve(name, "random"), Workload(mode="inference", **sizes))


def rows_of(module: nn.Module, *shape: int):
    with torch.device("meta"):
        return record(module.to("meta").eval(), (torch.empty(*shape),))


def total(data, op_class: str, key: str) -> float:
    return sum(row[key] * row["count"] for row in data["operators"] if row["class"] == op_class)


@pytest.mark.parametrize(
    ("name", "multiply_accumulates"),
    [
        ("vit-base-patch16-224", 17.56e9),
        ("resnet-50", 4.09e9),
        ("deit-base-distilled-patch16-224", 17.66e9),
    ],
)
def test_flops_are_twice_the_published_multiply_accumulates(name: str, multiply_accumulates: float) -> None:
    assert traced(name)["totals"]["flops"] == pytest.approx(2 * multiply_accumulates, rel=0.005)


def test_bert_at_128_tokens_is_the_sum_of_its_matrix_products() -> None:
    data = traced("bert-base-uncased", sequence_length=128)
    linear = 12 * 2 * 128 * (4 * 768 * 768 + 2 * 768 * 3072) + 2 * 768 * 768
    attention = 12 * 2 * 2 * 12 * 128 * 128 * 64
    assert total(data, "mm", "flops") == linear
    assert total(data, "attention", "flops") == attention
    assert data["totals"]["flops"] == linear + attention


def test_attention_grows_with_the_square_of_the_length_and_weights_not_at_all() -> None:
    short, long = traced("bert-tiny", sequence_length=64), traced("bert-tiny", sequence_length=128)
    assert total(long, "attention", "flops") == 4 * total(short, "attention", "flops")
    assert total(long, "mm", "weight_elements") == total(short, "mm", "weight_elements")
    assert short["workload"]["sequence_length"] == 64


def test_the_batch_asked_for_does_not_change_a_trace() -> None:
    assert traced("bert-tiny", batch_size=32) == traced("bert-tiny", batch_size=1)


def test_a_caller_in_inference_mode_gets_the_same_trace() -> None:
    expected = traced("resnet-50")
    with torch.inference_mode():
        assert traced("resnet-50") == expected


def test_every_weight_of_a_network_that_uses_each_once_is_read_once() -> None:
    data = traced("resnet-50")
    statistics_of_norms = 2 * 26_560
    assert data["totals"]["parameters"] == 25_557_032
    assert data["totals"]["weight_elements"] == 25_557_032 + statistics_of_norms


def test_convolutions_are_told_apart_by_groups_and_kernel() -> None:
    network = nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1, bias=False),
        nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False),
        nn.Conv2d(16, 32, 5, padding=2, stride=2, groups=4, bias=False),
        nn.Conv2d(32, 8, 1, bias=False),
    )
    rows, _ = rows_of(network, 1, 8, 10, 10)
    assert [row["class"] for row in rows] == ["conv", "depthwise", "grouped", "conv1x1"]
    assert [row["inner"] for row in rows] == [72, 9, 100, 32]
    assert [(row["kernel"], row["stride"], row["groups"]) for row in rows] == [
        (3, 1, 1),
        (3, 1, 16),
        (5, 2, 4),
        (1, 1, 1),
    ]
    assert [row["flops"] for row in rows] == [2 * 100 * 16 * 72, 2 * 100 * 16 * 9, 2 * 25 * 32 * 100, 2 * 25 * 8 * 32]
    assert [row["weight_elements"] for row in rows] == [16 * 72, 16 * 9, 32 * 100, 8 * 32]
    assert [row["read_elements"] for row in rows] == [800, 1600, 1600, 800]


def test_a_transposed_convolution_costs_what_it_spreads() -> None:
    rows, _ = rows_of(nn.ConvTranspose2d(4, 6, 2, stride=2, bias=False), 1, 4, 5, 5)
    assert rows[0]["flops"] == 2 * (4 * 25) * 6 * 4


def test_identical_calls_are_counted_and_not_repeated() -> None:
    rows, totals = rows_of(nn.Sequential(*[nn.Linear(16, 16, bias=False) for _ in range(5)]), 4, 16)
    assert len(rows) == 1
    assert (rows[0]["class"], rows[0]["count"], rows[0]["flops"]) == ("mm", 5, 2 * 4 * 16 * 16)
    assert totals["operators"] == 5
    assert totals["flops"] == 5 * rows[0]["flops"]


def test_an_embedding_reads_the_rows_it_takes_and_not_the_table() -> None:
    with torch.device("meta"):
        rows, _ = record(nn.Embedding(10_000, 32), (torch.zeros(1, 7, dtype=torch.long),))
    assert rows[0]["class"] == "embedding"
    assert (rows[0]["read_elements"], rows[0]["weight_elements"]) == (7 + 7 * 32, 0)


def test_what_follows_from_weights_alone_does_not_grow_with_the_batch() -> None:
    class Standardized(nn.Linear):
        def forward(self, x):
            weight = (self.weight - self.weight.mean()) * 2
            return nn.functional.linear(x, weight)

    rows, _ = rows_of(Standardized(8, 8, bias=False), 1, 8)
    product = next(row for row in rows if row["class"] == "mm")
    others = [row for row in rows if row["class"] != "mm"]
    assert (product["read_elements"], product["weight_elements"]) == (8, 64)
    assert others
    assert all(row["read_elements"] == 0 and row["write_elements"] == 0 for row in others)


def test_peak_activations_are_what_lives_at_the_same_time() -> None:
    class Residual(nn.Module):
        def forward(self, x):
            kept = torch.cat([x, x])
            return kept + torch.relu(kept)

    _, totals = rows_of(Residual(), 100)
    assert totals["peak_activation_elements"] == 100 + 3 * 200


def test_attention_is_given_back_when_tracing_ends_even_by_an_error() -> None:
    original = nn.functional.scaled_dot_product_attention

    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        rows_of(Broken(), 1)
    assert nn.functional.scaled_dot_product_attention is original


def test_an_architecture_has_one_name_at_every_size_and_another_has_another() -> None:
    default, longer = traced("bert-tiny"), traced("bert-tiny", sequence_length=256)
    assert default["model"]["architecture"] == longer["model"]["architecture"] == architecture(resolve("bert-tiny"))
    assert default["operators"] != longer["operators"]
    assert traced("all-minilm-l6-v2")["model"]["architecture"] != default["model"]["architecture"]
    assert len(default["model"]["architecture"]) == 64


PUBLISHED = [model for model in catalogue() if model.variant != "small" and not model.requires]


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.id)
def test_every_model_of_the_catalogue_gives_a_valid_event(model) -> None:
    data = traced(model.id)
    event = msgspec.convert(data, ModelTraced)
    assert event.model.id == model.id
    assert data["totals"]["flops"] > 0
    assert len(msgspec.json.encode(data)) < 64 * 1024
    multiplied = sum(row["weight_elements"] * row["count"] for row in data["operators"])
    assert multiplied >= 0.05 * data["totals"]["parameters"]
    for row in data["operators"]:
        assert row["flops"] == 0 or row["class"] in (
            "conv",
            "conv1x1",
            "depthwise",
            "grouped",
            "mm",
            "bmm",
            "attention",
        )


def test_a_seven_billion_parameter_model_is_traced_in_little_memory() -> None:
    data = traced("llava-1.5-7b-hf")
    assert data["model"]["parameters"] == 7_063_427_072
    assert data["totals"]["flops"] > 2 * 6e9 * 704


def phase(name: str, which: str, **sizes):
    return trace(resolve(name, "random"), Workload(mode="inference", **sizes), phase=which)


def test_prefill_does_the_work_of_a_forward_pass_and_decoding_that_of_one_token() -> None:
    forward = phase("gpt2", "forward", sequence_length=128)
    prefill = phase("gpt2", "prefill", input_tokens=128)
    decode = phase("gpt2", "decode", input_tokens=128)
    layers = 12 * 2 * 12 * 768 * 768 + 2 * 768 * 50257
    assert prefill["totals"]["flops"] == forward["totals"]["flops"]
    assert total(decode, "mm", "flops") == layers
    assert total(decode, "attention", "flops") == 12 * 2 * 2 * 129 * 768
    assert prefill["workload"] == {
        "mode": "inference",
        "phase": "prefill",
        "batch_size": 1,
        "sequence_length": None,
        "image_size": None,
        "input_tokens": 128,
    }
    assert decode["model"]["architecture"] == forward["model"]["architecture"]


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("gpt2", 12 * 2 * 768),
        ("qwen2-0.5b", 24 * 2 * 2 * 64),
        ("t5-small", 6 * 2 * 512),
        ("whisper-tiny", 4 * 2 * 384),
        ("assay/qwen-vl-small", 2 * 2 * 1 * 32),
    ],
)
def test_the_totals_hold_what_a_cache_keeps_of_a_token(name: str, elements: int) -> None:
    totals = phase(name, "decode")["totals"]
    assert totals["kv_elements_per_token"] == elements
    assert totals["kv_bytes_per_token"] == 4 * elements


def test_a_training_step_is_forward_and_backward_and_gradients_do_not_grow_with_the_batch() -> None:
    network = nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 4, bias=False)).to("meta")
    recorder = Recorder(network)
    with recorder.recording(gradients=True):
        network(torch.empty(2, 8, device="meta")).sum().backward()
    products = [row for row in recorder.rows() if row["class"] == "mm"]
    forward = 2 * 2 * (8 * 16 + 16 * 4)
    # The first layer's input needs no gradient.
    assert sum(row["flops"] * row["count"] for row in products) == 3 * forward - 2 * 2 * 8 * 16
    gradients = [row for row in products if row["write_elements"] == 0]
    assert sorted(row["weight_elements"] for row in gradients) == [16 * 4, 8 * 16]


def test_a_training_trace_counts_every_pass_and_recomputing_costs_another() -> None:
    forward = phase("bert-tiny", "forward")["totals"]["flops"]
    step = phase("bert-tiny", "training")
    assert msgspec.convert(step, ModelTraced).workload["mode"] == "training"
    assert step["totals"]["flops"] == pytest.approx(3 * forward, rel=0.1)
    backward = [row for row in step["operators"] if row["name"] == "aten.scaled_dot_product_attention_backward"]
    ahead = [row for row in step["operators"] if row["name"] == "aten.scaled_dot_product_attention"]
    assert backward[0]["flops"] == 2.5 * ahead[0]["flops"]
    plain, again = (phase("vit-tiny", "training", gradient_checkpointing=each)["totals"] for each in (None, True))
    assert again["flops"] == pytest.approx(plain["flops"] * 4 / 3, rel=0.1)
    assert again["peak_activation_elements"] < 0.3 * plain["peak_activation_elements"]


def test_convolutions_cost_as_much_again_for_their_input_and_for_their_weights() -> None:
    forward = phase("resnet-50", "forward")["totals"]["flops"]
    step = phase("resnet-50", "training")["totals"]["flops"]
    first = 2 * 112 * 112 * 64 * 3 * 7 * 7
    assert step == pytest.approx(3 * forward - first, rel=0.001)


@pytest.mark.parametrize(
    ("name", "which"),
    [("bert-tiny", "prefill"), ("assay/blip-small", "decode"), ("assay/detr-small", "training"), ("dpt", "training")],
)
def test_a_phase_that_a_model_has_not_is_unsupported(name: str, which: str) -> None:
    with pytest.raises(UnsupportedWorkload) as caught:
        phase(name, which)
    assert caught.value.remedy


def test_work_consists_of_its_phases() -> None:
    gpt2, bert = resolve("gpt2", "random"), resolve("bert-tiny", "random")
    assert phases_of(gpt2, Workload(mode="inference", output_tokens=4)) == ("prefill", "decode")
    assert phases_of(bert, Workload(mode="inference", output_tokens=4)) == ("forward",)
    assert phases_of(gpt2, Workload(mode="training")) == ("forward", "training")


@pytest.mark.parametrize(
    "name", ["assay/gptj-small", "assay/led-small", "assay/musicgen-small", "assay/qwen3-vl-small"]
)
def test_families_with_caches_of_their_own_kind_decode_one_token(name: str) -> None:
    prefill, decode = (phase(name, which)["totals"] for which in ("prefill", "decode"))
    assert decode["kv_elements_per_token"] == prefill["kv_elements_per_token"] > 0
    assert 0 < decode["flops"] < 0.1 * prefill["flops"]


def test_a_call_that_cannot_be_followed_names_the_operator(tmp_path: Path) -> None:
    # Rotary positions turn pairs: an odd number of turned channels builds, and cannot run.
    config = {**resolve("assay/gptj-small").config, "rotary_dim": 15}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(Untraceable, match=r"the forward trace of local/\S+ stopped at aten\.mul: ") as caught:
        trace(resolve(str(tmp_path), "random"))
    assert caught.value.field == "model"
    assert "assay bench" in str(caught.value.remedy)


def test_what_follows_from_values_names_the_operator() -> None:
    class Positive(nn.Module):
        def forward(self, x):
            return x[x > 0]

    with pytest.raises(NotImplementedError) as caught:
        rows_of(Positive(), 4)
    assert caught.value.__notes__ == ["while tracing operator aten.index"]


def test_the_modules_of_a_pipeline_are_traced_beside_its_denoiser() -> None:
    source = resolve("stable-diffusion-v1-5", "random")
    work, phases = call_of(source, Workload(mode="inference"))
    assert (work, phases) == (Workload(mode="inference"), ("forward", "text_encoder", "vae_decoder"))
    text = trace(source, work, phase="text_encoder")
    # 12 layers of 768 over 77 tokens: four projections and two of the inner width, scores and their products.
    products = 12 * 2 * 77 * (4 * 768**2 + 2 * 768 * 3072)
    scores = 12 * 2 * 2 * 12 * 77 * 77 * 64
    assert text["totals"]["flops"] == pytest.approx(products + scores, rel=0.001)
    assert (text["totals"]["usual_steps"], text["totals"]["guided"]) == (50, 1)
    assert text["totals"]["parameters"] == 123_060_480
    assert "image_size" not in {name for name, size in text["workload"].items() if size}
    picture = trace(source, Workload(mode="inference", image_size=256), phase="vae_decoder")
    assert (picture["workload"]["image_size"], picture["totals"]["parameters"]) == (256, 83_653_863)
    larger = trace(source, Workload(mode="inference", image_size=512), phase="vae_decoder")
    assert 4 < larger["totals"]["flops"] / picture["totals"]["flops"] < 4.5
    assert msgspec.convert({**picture, "run_id": "r"}, ModelTraced).model.family == "unet"


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("assay/unet-small", 1e8),
        ("assay/sd3-small", 1e6),
        ("assay/flux-small", 1e6),
    ],
)
def test_denoisers_of_every_kind_are_followed(name: str, flops: float) -> None:
    assert traced(name)["totals"]["flops"] > flops


def test_the_work_of_a_call_is_that_of_its_kind() -> None:
    def phases(name: str, *, forward: bool = False, **sizes) -> tuple[str, ...]:
        work, result = call_of(resolve(name, "random"), Workload(mode="inference", **sizes), forward=forward)
        assert work.audio_seconds in (None, 30.0)
        return result

    assert phases("assay/whisper-small", audio_seconds=95.0) == ("prefill", "decode")
    assert phases("assay/whisper-small", output_tokens=900) == ("prefill", "decode")
    assert phases("assay/whisper-small", forward=True) == ("forward",)
    assert phases("assay/gpt2-small") == ("forward", "prefill", "decode")
    assert phases("assay/gpt2-small", sequence_length=8) == ("forward",)
    assert phases("bert-tiny") == ("forward",)
    with pytest.raises(UnsupportedWorkload):
        trace(resolve("bert-tiny", "random"), phase="text_encoder")


def test_few_rows_read_few_experts() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(8, 32, 16, dtype=torch.bfloat16))

        def forward(self, x):
            ends = torch.arange(8, dtype=torch.int32, device=x.device)
            return torch._grouped_mm(x, self.weight, offs=ends)

    def weights(rows: int) -> float:
        with torch.device("meta"):
            module = Experts()
            found, _ = record(module, (torch.empty(rows, 32, dtype=torch.bfloat16),))
        return sum(row["weight_elements"] for row in found if row["class"] == "mm")

    # Beside the experts the eight ends of their groups.
    assert weights(2) == 2 * 32 * 16 + 8
    assert weights(64) == 8 * 32 * 16 + 8
