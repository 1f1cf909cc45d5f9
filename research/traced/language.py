"""Text architectures, built from configurations of transformers: sizes of the published `config.json` of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import transformers as hf

from research.traced.entry import Entry, Made, tokens

__all__ = ["entries"]

BERT_LARGE: dict[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
GPT = {"vocab_size": 50257, "n_positions": 2048}

ENCODERS: dict[str, tuple[str, str, dict[str, Any], tuple[int, ...], bool]] = {
    # trace: family, class, what differs from the class's defaults, sequence lengths (the usual one first), training
    "google-bert/bert-large-uncased": ("bert", "BertModel", BERT_LARGE, (128, 384, 512), True),
    "nvidia/megatron-large-sparse": ("megatron-bert", "MegatronBertModel", {"vocab_size": 30592}, (128, 384), False),
    "architecture/bert-4l-288d": (
        "bert",
        "BertModel",
        {"hidden_size": 288, "num_hidden_layers": 4, "num_attention_heads": 12, "intermediate_size": 1152},
        (384,),
        False,
    ),
    "architecture/bert-6l-768d": ("bert", "BertModel", {"num_hidden_layers": 6}, (384,), False),
    "prajjwal1/bert-mini": (
        "bert",
        "BertModel",
        {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
        (128,),
        False,
    ),
    "google-bert/bert-base-uncased": ("bert", "BertModel", {}, (512,), True),
    "microsoft/MiniLM-L12-H384-uncased": (
        "bert",
        "BertModel",
        {"hidden_size": 384, "intermediate_size": 1536},
        (128,),
        False,
    ),
    "FacebookAI/roberta-large": (
        "roberta",
        "RobertaModel",
        BERT_LARGE | {"vocab_size": 50265, "max_position_embeddings": 514},
        (384,),
        False,
    ),
    "FacebookAI/xlm-roberta-large": (
        "xlm-roberta",
        "XLMRobertaModel",
        BERT_LARGE | {"vocab_size": 250002},
        (128,),
        False,
    ),
    "google/electra-small-discriminator": (
        "electra",
        "ElectraModel",
        {
            "embedding_size": 128,
            "hidden_size": 256,
            "num_hidden_layers": 12,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
        (128,),
        False,
    ),
    "nomic-ai/nomic-embed-text-v1.5": ("nomic_bert", "NomicBertModel", {}, (128,), False),
    "xlnet/xlnet-base-cased": (
        "xlnet",
        "XLNetModel",
        {"d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072},
        (128,),
        False,
    ),
    "funnel-transformer/small": (
        "funnel",
        "FunnelModel",
        {"block_sizes": [4, 4, 4], "num_decoder_layers": 2, "n_head": 12, "d_head": 64, "d_inner": 3072},
        (128,),
        False,
    ),
    "distilbert/distilgpt2": ("gpt2", "GPT2LMHeadModel", {"n_layer": 6}, (128, 1024), False),
    "openai-community/gpt2-large": (
        "gpt2",
        "GPT2LMHeadModel",
        {"n_embd": 1280, "n_layer": 36, "n_head": 20},
        (1024,),
        True,
    ),
    # What NeuSight calls gpt3_xl and gpt3_27: hidden sizes 3072 and 2560, as its configurations say.
    "neusight/gpt3_xl": (
        "gpt2",
        "GPT2LMHeadModel",
        GPT | {"n_embd": 3072, "n_layer": 24, "n_head": 24},
        (2048,),
        True,
    ),
    "neusight/gpt3_27": (
        "gpt2",
        "GPT2LMHeadModel",
        GPT | {"n_embd": 2560, "n_layer": 32, "n_head": 32},
        (2048,),
        True,
    ),
    "neusight/bert_large": ("bert", "BertLMHeadModel", BERT_LARGE | {"is_decoder": True}, (512,), True),
    "facebook/opt-1.3b": (
        "opt",
        "OPTForCausalLM",
        {"hidden_size": 2048, "ffn_dim": 8192, "num_hidden_layers": 24, "num_attention_heads": 32},
        (2048,),
        True,
    ),
}
SEQUENCE_PAIRS: dict[str, tuple[str, str, dict[str, Any], int]] = {
    # trace: family, class, sizes, tokens on both sides
    "facebook/bart-large": (
        "bart",
        "BartModel",
        {"d_model": 1024, "encoder_layers": 12, "decoder_layers": 12},
        128,
    ),
    "google/pegasus-large": (
        "pegasus",
        "PegasusForConditionalGeneration",
        {
            "vocab_size": 96103,
            "d_model": 1024,
            "encoder_layers": 16,
            "decoder_layers": 16,
            "encoder_ffn_dim": 4096,
            "decoder_ffn_dim": 4096,
        },
        128,
    ),
    "moussaKam/barthez": (
        "mbart",
        "MBartModel",
        {
            "vocab_size": 50002,
            "d_model": 768,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
        },
        128,
    ),
    "Helsinki-NLP/opus-mt-en-ro": (
        "marian",
        "MarianMTModel",
        {
            "vocab_size": 59543,
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
        },
        128,
    ),
}


def _built(name: str, sizes: dict[str, Any]) -> Any:
    model = getattr(hf, name)
    return model(model.config_class(**sizes))


def _encoder(name: str, sizes: dict[str, Any], length: int) -> Made:
    kept = {"use_cache": False} if name.endswith(("LMHeadModel", "ForCausalLM")) else {}
    return _built(name, sizes), {"input_ids": tokens(length), **kept}


def _pair(name: str, sizes: dict[str, Any], length: int) -> Made:
    inputs = {"input_ids": tokens(length), "decoder_input_ids": tokens(length), "use_cache": False}
    return _built(name, sizes), inputs


def entries() -> Iterator[Entry]:
    """Yield the text architectures."""
    for name, (family, cls, sizes, lengths, training) in ENCODERS.items():
        category = "text_generation" if cls.endswith(("LMHeadModel", "ForCausalLM")) else "embedding"
        for length in lengths:
            yield Entry(
                name,
                category,
                family,
                lambda cls=cls, sizes=sizes, length=length: _encoder(cls, sizes, length),
                "text-generation" if category == "text_generation" else "feature-extraction",
                {"sequence_length": length},
                training,
            )
    for name, (family, cls, sizes, length) in SEQUENCE_PAIRS.items():
        yield Entry(
            name,
            "text_to_text",
            family,
            lambda cls=cls, sizes=sizes, length=length: _pair(cls, sizes, length),
            "text2text-generation",
            {"sequence_length": length},
        )
