"""Sizes read from published `config.json` files: parameters, keys and values, and what an unreadable one says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.catalogues import language_models, models
from domain.catalogues.language_config import is_decoder, read_config
from domain.errors import UsageError

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "tie_word_embeddings": False,
    "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip
GEMMA3_27B = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text", "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504,
        "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16, "sliding_window": 1024,
        "sliding_window_pattern": 6, "vocab_size": 262208,
    },
}  # fmt: skip
QWEN3_NEXT = {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "decoder_sparse_step": 1,
    "full_attention_interval": 4, "head_dim": 256, "hidden_size": 2048, "intermediate_size": 5120,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_value_head_dim": 128, "mlp_only_layers": [], "moe_intermediate_size": 512, "num_attention_heads": 16,
    "num_experts": 512, "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2,
    "shared_expert_intermediate_size": 512, "tie_word_embeddings": False, "vocab_size": 151936,
}  # fmt: skip
DEEPSEEK_V3 = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "first_k_dense_replace": 3,
    "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "moe_intermediate_size": 2048,
    "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": False, "v_head_dim": 128,
    "vocab_size": 129280,
    "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
GPT_OSS_20B = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880,
    "intermediate_size": 2880, "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
    "num_key_value_heads": 8, "num_local_experts": 32, "sliding_window": 128, "tie_word_embeddings": False,
    "vocab_size": 201088, "layer_types": ["sliding_attention", "full_attention"] * 12,
    "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip

PUBLISHED: dict[str, tuple[float, dict[str, Any]]] = {
    "meta-llama/Llama-3.1-8B": (8_030_261_248, LLAMA),
    "meta-llama/Llama-3.1-70B": (70_553_706_496, {
        **LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80,
    }),
    "meta-llama/Llama-3.1-405B": (405_853_388_800, {
        **LLAMA, "hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128, "num_hidden_layers": 126,
    }),
    "HuggingFaceTB/SmolLM2-1.7B": (1_711_376_384, {
        **LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24, "num_key_value_heads": 32,
        "tie_word_embeddings": True, "vocab_size": 49152,
    }),
    "mistralai/Mistral-7B-v0.1": (7_241_732_096, {
        **LLAMA, "model_type": "mistral", "sliding_window": 4096, "vocab_size": 32000,
    }),
    "mistralai/Mixtral-8x7B-v0.1": (46_702_792_704, {
        **LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None,
        "vocab_size": 32000,
    }),
    "Qwen/Qwen2.5-7B": (7_615_616_512, {
        "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "max_window_layers": 28,
        "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072,
        "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 152064,
    }),
    "Qwen/Qwen3-8B": (8_190_735_360, {
        "model_type": "qwen3", "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
        "num_hidden_layers": 36, "num_key_value_heads": 8, "tie_word_embeddings": False, "vocab_size": 151936,
    }),
    "Qwen/Qwen3-30B-A3B": (30_532_122_624, {
        "model_type": "qwen3_moe", "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
        "intermediate_size": 6144, "mlp_only_layers": [], "moe_intermediate_size": 768, "num_attention_heads": 32,
        "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
        "tie_word_embeddings": False, "vocab_size": 151936,
    }),
    "Qwen/Qwen1.5-MoE-A2.7B": (14_315_784_192, {
        "model_type": "qwen2_moe", "decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632,
        "moe_intermediate_size": 1408, "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
        "num_hidden_layers": 24, "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632,
        "tie_word_embeddings": False, "vocab_size": 151936,
    }),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": (79_674_391_296, QWEN3_NEXT),
    "google/gemma-2-9b": (9_241_705_984, {
        "model_type": "gemma2", "head_dim": 256, "hidden_size": 3584, "intermediate_size": 14336,
        "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8, "sliding_window": 4096,
        "vocab_size": 256000,
    }),
    "google/gemma-3-1b-it": (999_885_952, {
        "model_type": "gemma3_text", "head_dim": 256, "hidden_size": 1152, "intermediate_size": 6912,
        "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "sliding_window": 512,
        "sliding_window_pattern": 6, "vocab_size": 262144,
    }),
    # The report on Gemma 3 counts 1,416M of embeddings and 25,600M others beside the vision tower.
    "google/gemma-3-27b-it": (27_016e6, GEMMA3_27B),
    "microsoft/phi-4": (14_659_507_200, {
        "model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920, "num_attention_heads": 40,
        "num_hidden_layers": 40, "num_key_value_heads": 10, "sliding_window": None, "tie_word_embeddings": False,
        "vocab_size": 100352,
    }),
    "microsoft/Phi-3-mini-4k-instruct": (3_821_079_552, {
        "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 32, "sliding_window": 2047, "tie_word_embeddings": False,
        "vocab_size": 32064,
    }),
    "microsoft/Phi-3.5-MoE-instruct": (41_873_153_344, {
        "model_type": "phimoe", "hidden_size": 4096, "intermediate_size": 6400, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 16,
        "sliding_window": 131072, "tie_word_embeddings": False, "vocab_size": 32064,
    }),
    "openai-community/gpt2-xl": (1_557_611_200, {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_ctx": 1024, "n_embd": 1600, "n_head": 25,
        "n_layer": 48, "n_positions": 1024, "vocab_size": 50257,
    }),
    "facebook/opt-1.3b": (1_315_758_080, {
        "model_type": "opt", "ffn_dim": 8192, "hidden_size": 2048, "max_position_embeddings": 2048,
        "num_attention_heads": 32, "num_hidden_layers": 24, "vocab_size": 50272, "word_embed_proj_dim": 2048,
    }),
    "EleutherAI/pythia-6.9b": (6_857_302_016, {
        "model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384, "num_attention_heads": 32,
        "num_hidden_layers": 32, "tie_word_embeddings": False, "vocab_size": 50432,
    }),
    "EleutherAI/gpt-j-6b": (6_050_882_784, {
        "model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_inner": None, "n_layer": 28, "n_positions": 2048,
        "rotary_dim": 64, "tie_word_embeddings": False, "vocab_size": 50400,
    }),
    "bigscience/bloom-560m": (559_214_592, {
        "model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16, "vocab_size": 250880,
    }),
    "bigcode/starcoder2-3b": (3_030_371_328, {
        "model_type": "starcoder2", "hidden_size": 3072, "intermediate_size": 12288, "num_attention_heads": 24,
        "num_hidden_layers": 30, "num_key_value_heads": 2, "sliding_window": 4096, "vocab_size": 49152,
    }),
    "databricks/dbrx-base": (131_596_523_520, {
        "model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "tie_word_embeddings": False,
        "vocab_size": 100352, "attn_config": {"kv_n_heads": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    }),
    "CohereLabs/c4ai-command-r-v01": (34_980_831_232, {
        "model_type": "cohere", "hidden_size": 8192, "intermediate_size": 22528, "num_attention_heads": 64,
        "num_hidden_layers": 40, "num_key_value_heads": 64, "vocab_size": 256000,
    }),
    "allenai/OLMo-2-1124-7B": (7_298_617_344, {
        "model_type": "olmo2", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 32, "tie_word_embeddings": False, "vocab_size": 100352,
    }),
    "deepseek-ai/DeepSeek-V2-Lite": (15_706_484_224, {
        **DEEPSEEK_V3, "model_type": "deepseek_v2", "first_k_dense_replace": 1, "hidden_size": 2048,
        "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
        "q_lora_rank": None, "vocab_size": 102400,
    }),
    "deepseek-ai/DeepSeek-V3": (671_026_419_200, DEEPSEEK_V3),
    "openai/gpt-oss-20b": (20_914_757_184, GPT_OSS_20B),
    "openai/gpt-oss-120b": (116_829_156_672, {
        **GPT_OSS_20B, "num_hidden_layers": 36, "num_local_experts": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 18,
    }),
    "ai21labs/Jamba-v0.1": (51_570_323_328, {
        "model_type": "jamba", "attn_layer_offset": 4, "attn_layer_period": 8, "expert_layer_offset": 1,
        "expert_layer_period": 2, "hidden_size": 4096, "intermediate_size": 14336, "mamba_d_conv": 4, "mamba_d_state": 16,
        "mamba_dt_rank": 256, "mamba_expand": 2, "num_attention_heads": 32, "num_experts": 16, "num_experts_per_tok": 2,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "tie_word_embeddings": False, "vocab_size": 65536,
    }),
    "tiiuae/falcon-mamba-7b": (7_272_665_088, {
        "model_type": "falcon_mamba", "conv_kernel": 4, "expand": 2, "hidden_size": 4096, "intermediate_size": 8192,
        "num_hidden_layers": 64, "state_size": 16, "tie_word_embeddings": False, "time_step_rank": 256,
        "vocab_size": 65024,
    }),
    "LiquidAI/LFM2-1.2B": (1_170_340_608, {
        "model_type": "lfm2", "block_auto_adjust_ff_dim": True, "block_ff_dim": 12288, "block_ffn_dim_multiplier": 1.0,
        "block_multiple_of": 256, "conv_L_cache": 3, "full_attn_idxs": [2, 5, 8, 10, 12, 14], "hidden_size": 2048,
        "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "vocab_size": 65536,
    }),
    # The model card says 109B with the vision tower, whose 0.9B are not counted here.
    "meta-llama/Llama-4-Scout-17B-16E": (107_770e6, {
        "model_type": "llama4",
        "text_config": {
            "model_type": "llama4_text", "attention_chunk_size": 8192, "head_dim": 128, "hidden_size": 5120,
            "interleave_moe_layer_step": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
            "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
            "num_local_experts": 16, "tie_word_embeddings": False, "vocab_size": 202048,
        },
    }),
}  # fmt: skip
"""Parameters as their publishers count them (the files of weights, or the report that is named) beside their configs."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_of_a_published_config_are_the_published_ones(name: str) -> None:
    published, config = PUBLISHED[name]
    model = read_config(config, name).model
    assert model.parameters == pytest.approx(published, rel=0.01)
    assert 0 < model.active_parameters <= model.parameters + model.hidden_size * model.vocabulary


@pytest.mark.parametrize(
    "entry",
    [one for one in models.catalogue() if one.category == "text_generation" and one.size],
    ids=lambda one: one.id,
)
def test_every_decoder_of_the_model_catalogue_is_read(entry: models.CatalogueModel) -> None:
    reading = read_config({**entry.config, "architectures": [entry.class_name]}, entry.id)
    assert reading.model.parameters == pytest.approx(entry.size, rel=0.01 if entry.parameters else 0.02)


@pytest.mark.parametrize(
    "name",
    # The packaged Phi-3 mini stands for its siblings of 128 thousand tokens too, which have no window.
    [name for name in PUBLISHED if language_models.find(name) and name != "microsoft/Phi-3-mini-4k-instruct"],
)
def test_a_config_and_the_packaged_sizes_do_the_same_work(name: str) -> None:
    own, packaged = read_config(PUBLISHED[name][1], name).model, language_models.find(name)
    assert packaged is not None
    assert own.parameters == pytest.approx(packaged.parameters, rel=0.005)
    assert own.active_parameters == pytest.approx(packaged.active_parameters, rel=0.01)
    for context in (1000, 50_000):
        assert own.kv_kept(context) == pytest.approx(packaged.kv_kept(context))
        assert own.kv_read(context) == pytest.approx(packaged.kv_read(context))


def test_a_config_of_published_sizes_has_its_twin_and_another_has_none() -> None:
    reading = read_config(LLAMA, "local/mine")
    twin = language_models.twin(reading.model)
    assert twin is not None
    assert twin.id == "meta-llama/Llama-3.1-8B"
    assert language_models.twin(read_config({**LLAMA, "num_hidden_layers": 31}, "local/mine").model) is None


def test_windows_end_the_growth_of_keys_and_values_where_layers_alternate() -> None:
    model = read_config(GEMMA3_27B, "gemma").model
    each = 2 * 16 * 128
    assert (model.full_layers, model.window_layers) == (10, 52)
    assert model.kv_kept(131072) == each * (10 * 131072 + 52 * 1024)
    # As the report on Gemma 3 says, most of the memory of a long context is saved.
    assert model.kv_kept(32768) < 0.25 * 62 * each * 32768


def test_layers_with_a_state_keep_the_same_whatever_the_length() -> None:
    model = read_config(QWEN3_NEXT, "next").model
    state = 36 * (32 * 128 * 128 + (2 * 2048 + 4096) * 3)
    assert model.kv_kept(0) == state
    assert model.kv_kept(10_000) - state == 12 * 2 * 2 * 256 * 10_000
    mamba = read_config(PUBLISHED["tiiuae/falcon-mamba-7b"][1], "mamba").model
    assert mamba.kv_kept(10) == mamba.kv_kept(100_000) > 0
    assert mamba.kv_elements == 0


def test_layers_that_share_keys_and_values_keep_none_and_read_those() -> None:
    kinds = (["sliding_attention"] * 4 + ["full_attention"]) * 7
    config = {
        "model_type": "gemma3n_text", "head_dim": 256, "hidden_size": 2048, "intermediate_size": [16384] * 35,
        "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144, "num_attention_heads": 8,
        "num_hidden_layers": 35, "num_key_value_heads": 2, "num_kv_shared_layers": 15, "sliding_window": 512,
        "vocab_size": 262400, "layer_types": kinds, "altup_num_inputs": 4, "laurel_rank": 64,
    }  # fmt: skip
    model = read_config(config, "gemma-3n-E4B").model
    each = 2 * 2 * 256
    assert model.kv_kept(10_000) == each * (4 * 10_000 + 16 * 512)
    assert model.kv_read(10_000) == each * (7 * 10_000 + 28 * 512)
    assert model.parameters == pytest.approx(6.87e9, rel=0.01)
    # The embeddings of each layer are looked up and never multiplied with.
    assert model.active_parameters < 0.7 * model.parameters


def test_wide_heads_of_layers_without_a_window_are_counted_apart() -> None:
    config = {
        "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4",
        "text_config": {
            "model_type": "gemma4_text", "attention_k_eq_v": True, "global_head_dim": 512, "head_dim": 256,
            "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32,
            "num_global_key_value_heads": 4, "num_hidden_layers": 60, "num_key_value_heads": 16, "sliding_window": 1024,
            "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10, "vocab_size": 262144,
        },
    }  # fmt: skip
    model = read_config(config, "google/gemma-4-31B").model
    assert model.parameters == pytest.approx(30.7e9, rel=0.01)
    assert model.kv_kept(100_000) == 10 * 2 * 4 * 512 * 100_000 + 50 * 2 * 16 * 256 * 1024


@pytest.mark.parametrize(
    ("quantisation", "precision"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "fp4"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}, "int4"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, "fp8"),
        (None, None),
    ],
)  # fmt: skip
def test_the_precision_of_quantised_weights_is_read(quantisation: Any, precision: str | None) -> None:
    assert read_config({**LLAMA, "quantization_config": quantisation}, "mine").precision == precision


def test_mlx_weights_tell_their_bits_and_an_unknown_method_a_note() -> None:
    assert read_config({**LLAMA, "quantization": {"bits": 4, "group_size": 64}}, "mine").precision == "int4"
    unknown = read_config({**LLAMA, "quantization_config": {"quant_method": "aqlm"}}, "mine")
    assert unknown.precision is None
    assert "aqlm" in unknown.notes[0]


def test_only_members_that_count_are_kept_and_they_alone_read_the_same() -> None:
    config = {**GEMMA3_27B, "_name_or_path": "/home/someone/private", "vision_config": {"hidden_size": 1152}}
    reading = read_config(config, "mine")
    assert "_name_or_path" not in reading.members
    assert "vision_config" not in reading.members
    assert read_config(reading.members, "mine").model == reading.model


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"hidden_size": None}, "config.hidden_size"),
        ({"num_hidden_layers": "32"}, "config.num_hidden_layers"),
        ({"vocab_size": -1}, "config.vocab_size"),
        ({"intermediate_size": None}, "config.intermediate_size"),
        ({"num_local_experts": 8}, "config.num_experts_per_tok"),
        ({"is_encoder_decoder": True}, "config.is_encoder_decoder"),
        ({"lru_width": 2560}, "config.lru_width"),
        ({"layer_types": ["full_attention", "retention"]}, "config.layer_types"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "config.layer_types"),
        ({"model_type": "rwkv"}, "config.model_type"),
        ({"num_key_value_heads": 0}, "config.num_key_value_heads"),
        ({"num_key_value_heads": 64}, "config.num_key_value_heads"),
        ({"hidden_size": 7}, "config.head_dim"),
        ({"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9}, "config.num_experts_per_tok"),
    ],
)
def test_a_config_that_cannot_be_read_is_refused_by_its_member(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_config({**LLAMA, **changed}, "mine")
    assert refused.value.field == field
    assert refused.value.remedy


def test_an_unknown_type_is_read_as_usual_and_says_so() -> None:
    reading = read_config({**LLAMA, "model_type": "brandnew"}, "mine")
    assert reading.model.parameters == read_config(LLAMA, "mine").model.parameters
    assert any("brandnew" in note for note in reading.notes)


@pytest.mark.parametrize(
    ("config", "decoder"),
    [
        (LLAMA, True),
        (GEMMA3_27B, True),
        ({"model_type": "llama", "hidden_size": 8}, True),
        ({"architectures": ["BertForMaskedLM"], "model_type": "bert"}, False),
        ({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, False),
        (
            {"architectures": ["CLIPModel"], "model_type": "clip", "text_config": {"model_type": "clip_text_model"}},
            False,
        ),
        ({"architectures": ["ViTForImageClassification"], "model_type": "vit"}, False),
    ],
)
def test_decoders_are_told_from_other_configs(config: dict[str, Any], decoder: bool) -> None:
    assert is_decoder(config) is decoder


ODD: list[Any] = [None, True, -1, 0, 1, 3, 10**12, 0.5, "x", "auto", [], [1], ["full_attention"], {}, {"a": 1}]
MEMBERS = sorted(
    {*QWEN3_NEXT, *DEEPSEEK_V3, *GPT_OSS_20B, "text_config", "per_layer_config", "moe_layers", "attn_type_list"}
)


@given(
    config=st.sampled_from([LLAMA, QWEN3_NEXT, DEEPSEEK_V3, GPT_OSS_20B, GEMMA3_27B]),
    changed=st.dictionaries(st.sampled_from(MEMBERS), st.sampled_from(ODD), max_size=4),
)
def test_whatever_stands_in_a_config_is_read_or_refused_with_a_remedy(
    config: dict[str, Any], changed: dict[str, Any]
) -> None:
    assert is_decoder({**config, **changed}) in (True, False)
    reading, refused = None, None
    try:
        reading = read_config({**config, **changed}, "mine")
    except UsageError as error:
        refused = error
    if reading is not None:
        assert reading.model.parameters > 0
        assert reading.model.kv_kept(100) >= 0
    if refused is not None:
        assert str(refused.field).startswith("config")
        assert refused.remedy


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("mistralai/Mixtral-8x7B-v0.1", 12.9),
        ("deepseek-ai/DeepSeek-V3", 37),
        ("deepseek-ai/DeepSeek-V2-Lite", 2.4),
        ("Qwen/Qwen3-30B-A3B", 3.3),
        ("openai/gpt-oss-20b", 3.61),
        ("openai/gpt-oss-120b", 5.13),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 17),
        ("ai21labs/Jamba-v0.1", 12),
    ],
)
def test_active_parameters_are_those_that_publishers_round_to(name: str, billions: float) -> None:
    """Some count the embedding, of which a token reads one row; figures are rounded to what stands here."""
    facts = language_models.catalogue()[name]
    embedding = facts.vocabulary * facts.hidden_size
    near = min(
        abs(count / 1e9 / billions - 1) for count in (facts.active_parameters, facts.active_parameters + embedding)
    )
    assert near < 0.025
