"""Sizes of a decoder from its own `config.json`, as `transformers` writes it: any family, published or not.

Members have other names from family to family, and a family is known by its `model_type`. A type that is not known is
read as a decoder of usual layers, and a note says so, unless one of its members tells of layers that are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from domain.catalogues.decoder_layers import Kinds, feed_forward, kinds_of, layer_words, linear
from domain.catalogues.decoder_members import CONVENTIONS, FIELD, Members
from domain.catalogues.language_models import LanguageModel
from domain.errors import UsageError

__all__ = ["ConfigReading", "is_decoder", "read_config"]

_WORDS_OF_A_DECODER = ("ForCausalLM", "LMHeadModel", "LMHead")
_POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


class ConfigReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a `config.json` says: the sizes, the `precision` of quantised weights, and what a person should know of it.

    `members` are those that were read, nested as they were: they alone give the same reading. `positions` is the longest
    sequence that the model was made for.
    """

    model: LanguageModel
    precision: str | None
    positions: int | None
    notes: tuple[str, ...]
    members: dict[str, Any]


def is_decoder(config: Mapping[str, Any]) -> bool:
    """Whether a config is that of a language model that writes token after token, alone or behind eyes and ears."""
    if config.get("is_encoder_decoder"):
        return False
    said = config.get("architectures")
    names = [str(name) for name in said] if isinstance(said, list) else []
    if any(word in name for name in names for word in _WORDS_OF_A_DECODER):
        return True
    inner = next((config[name] for name in CONVENTIONS.text_parts if isinstance(config.get(name), dict)), None)
    if inner is not None:
        return (
            any("ForConditionalGeneration" in name for name in names)
            and str(inner.get("model_type")) in CONVENTIONS.known
        )
    return not names and str(config.get("model_type")) in CONVENTIONS.known


def read_config(config: Mapping[str, Any], name: str) -> ConfigReading:
    """Return the sizes of a decoder's config under this name. Raises UsageError naming the member that is wrong."""
    try:
        return _read(config, name)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"a member of the config is not of its usual form: {error}.",
            field=FIELD,
            remedy="Take the config.json that was published with the weights.",
        ) from error


def _read(config: Mapping[str, Any], name: str) -> ConfigReading:
    outer = Members(config)
    if outer.get("is_encoder_decoder"):
        raise UsageError(
            "the config is that of an encoder and a decoder, whose calls are traced.",
            field=f"{FIELD}.is_encoder_decoder",
            remedy="Name the model or its folder, not its config.json, where torch is installed.",
        )
    notes: list[str] = []
    members = _text_part(outer, notes)
    family = str(members.get("model_type", default=None) or outer.get("model_type", default="decoder"))
    unread = [member for member in CONVENTIONS.members_not_read if members.config.get(member)]
    if unread or family in CONVENTIONS.families_not_read:
        member = next(iter(unread), "model_type")
        raise UsageError(
            f"{member} tells of layers that are not known of ({family}).",
            field=f"{members.path}.{member}",
            remedy="Measure it where it is served: assay bench --endpoint URL; or name a model of the catalogue (assay model list).",
        )
    sizes = _sizes(members, outer, family)
    _check(sizes, members)
    if family not in CONVENTIONS.known:
        notes.append(f"model_type {family} is not known: its config is read as that of a decoder of usual layers")
    model = LanguageModel(id=name, family=family, source="its own config.json", **sizes)
    layers = (model.full_layers, model.expert_layers, model.layers - model.linear_layers)
    if min(*layers, *(size for size in sizes.values() if isinstance(size, int))) < 0:
        raise ValueError("its numbers of layers contradict each other")
    precision, note = _quantised(outer)
    notes += [note] if note else []
    positions = members.get(*_POSITIONS)
    return ConfigReading(
        model=model,
        precision=precision,
        positions=positions if isinstance(positions, int) and positions > 0 else None,
        notes=tuple(notes),
        members=outer.read,
    )


def _check(sizes: Mapping[str, Any], members: Members) -> None:
    """Refuse heads without a size, fewer than one head of keys, and more experts a token than there are."""
    said = {name: sizes[name] for name in ("head_size", "kv_heads", "experts_per_token") if name in sizes}
    most = {"kv_heads": sizes.get("heads", 0), "experts_per_token": sizes.get("experts", 0)}
    for name, value in said.items():
        needed = bool(sizes.get("experts") if name == "experts_per_token" else sizes.get("heads"))
        if needed and not 0 < value <= most.get(name, value):
            raise UsageError(
                f"{value} is no number that fits the other sizes.",
                field=f"{members.path}.{CONVENTIONS.names[name][0]}",
                remedy="Take the config.json that was published with the weights.",
            )


def _text_part(outer: Members, notes: list[str]) -> Members:
    """The config of the language model inside one that also sees or hears."""
    for name in CONVENTIONS.text_parts:
        inner = outer.part(name)
        if inner.config:
            notes.append(f"{name} alone is read: what sees or hears is not counted")
            return _text_part(inner, []) if inner.config.get("text_config") else inner
    return outer


def _sizes(members: Members, outer: Members, family: str) -> dict[str, Any]:
    words = layer_words(members)
    layers, hidden = members.named("layers", default=len(words) or None), members.named("hidden_size")
    kinds = kinds_of(members, family, layers, words)
    vocabulary = members.size(
        *CONVENTIONS.names["vocabulary"], default=outer.size("vocab_size", default=0)
    ) or members.named("vocabulary")
    tied = members.get("tie_word_embeddings")
    tied = outer.get("tie_word_embeddings") if tied is None else tied
    sizes: dict[str, Any] = {
        "layers": layers,
        "hidden_size": hidden,
        "vocabulary": vocabulary,
        "tied": family in CONVENTIONS.tied if tied is None else bool(tied),
        "gated": family not in CONVENTIONS.two_matrices and members.get("hidden_act", "mlp_hidden_act") != "relu2",
    }
    sizes |= _attention(members, family, hidden, kinds)
    sizes |= feed_forward(members, family, hidden, kinds)
    sizes |= linear(members, family, hidden, kinds, sizes)
    sizes |= _extra(members, family, hidden, layers)
    return {key: value for key, value in sizes.items() if value is not None}


def _attention(members: Members, family: str, hidden: int, kinds: Kinds) -> dict[str, Any]:
    if not kinds.full and not kinds.windowed:
        return {"heads": 0, "head_size": 0, "attention_layers": 0}
    heads = members.named("heads")
    sizes: dict[str, Any] = {"heads": heads, "window_layers": kinds.windowed}
    if kinds.windowed:
        default = 256 if family == "gpt_neo" else 8192 if family.startswith("llama4") else None
        sizes["window"] = members.size(
            "sliding_window", "attention_chunk_size", "sliding_window_size", "window_size", default=default
        )
    attending = (kinds.full + kinds.windowed) * (2 if family == "longcat_flash" else 1)
    if attending != kinds.layers - kinds.linear:
        sizes["attention_layers"] = attending
    rank = members.size("kv_lora_rank", default=0)
    if rank:
        return sizes | _compressed(members, rank)
    sizes["head_size"] = members.named("head_size", default=hidden // heads)
    sizes["kv_heads"] = _kv_heads(members, family, heads)
    value = members.size("v_head_dim", default=0)
    if value and value != sizes["head_size"]:
        sizes["value_size"] = value
    sizes["output_gate"] = bool(members.get("attn_output_gate", default=family.startswith(("qwen3_next", "qwen3_5"))))
    sizes["sparse_tokens"] = members.size("index_topk", default=0)
    return sizes | _of_windows(members, kinds)


def _compressed(members: Members, rank: int) -> dict[str, Any]:
    rope = members.size("qk_rope_head_dim")
    return {
        "head_size": members.size("qk_nope_head_dim") + rope,
        "value_size": members.size("v_head_dim"),
        "query_rank": members.size("q_lora_rank", default=0),
        "latent_rank": rank,
        "rope_size": rope,
        "sparse_tokens": members.size("index_topk", default=0),
    }


def _kv_heads(members: Members, family: str, heads: int) -> int:
    if family == "falcon" and not members.get("new_decoder_architecture", default=False):
        return 1 if members.get("multi_query", default=True) else heads
    if family == "gpt_bigcode":
        return 1 if members.get("multi_query", default=True) else heads
    if members.get("multi_query_attention", default=False):
        return members.size("multi_query_group_num")
    inner = members.part("attn_config")
    return members.named("kv_heads", default=inner.named("kv_heads", default=heads))


def _of_windows(members: Members, kinds: Kinds) -> dict[str, Any]:
    """What windowed layers have for themselves, and what layers share."""
    sizes: dict[str, Any] = {}
    full = _full_heads(members)
    if full is not None:
        # The plain members are those of windowed layers; the others have wider heads, and fewer.
        sizes["window_head_size"] = members.size("head_dim")
        sizes["window_kv_heads"] = members.named("kv_heads")
        sizes["head_size"], sizes["kv_heads"] = full
        sizes["keys_as_values"] = bool(members.get("attention_k_eq_v", default=False))
    elif members.get("swa_num_key_value_heads", default=None):
        sizes["window_heads"] = members.size("swa_num_attention_heads", default=members.named("heads"))
        sizes["window_kv_heads"] = members.size("swa_num_key_value_heads")
        sizes["window_head_size"] = members.size("swa_head_dim", "head_dim")
    shared = members.size("num_kv_shared_layers", default=0)
    if shared:
        words = layer_words(members)[-shared:]
        sizes["sharing_layers"] = shared
        sizes["sharing_window_layers"] = (
            sum(word in CONVENTIONS.window_words for word in words)
            if words
            else shared * kinds.windowed // kinds.layers
        )
    return sizes


def _full_heads(members: Members) -> tuple[int, int] | None:
    """Size and number of the heads of keys in layers without a window, where Gemma 4 says that they are others."""
    kept = members.named("kv_heads", default=0)
    if members.get("global_head_dim", default=None):
        return members.size("global_head_dim"), members.size("num_global_key_value_heads", default=kept)
    layers = members.get("per_layer_config", default=None)
    alike = [layer for layer in layers.values() if layer.get("head_dim")] if isinstance(layers, dict) else []
    return (alike[0]["head_dim"], alike[0].get("num_key_value_heads", kept)) if alike else None


def _extra(members: Members, family: str, hidden: int, layers: int) -> dict[str, Any]:
    """What a family has beside the usual layers: a table of positions, embeddings of each layer."""
    sizes: dict[str, Any] = {}
    if family in CONVENTIONS.positions:
        positions = members.size("max_position_embeddings", "n_positions", "n_ctx")
        sizes["looked_up_parameters"] = (positions + CONVENTIONS.positions[family]) * hidden
    each = members.size("hidden_size_per_layer_input", default=0)
    if each:
        table = members.size("vocab_size_per_layer_input", default=members.named("vocabulary"))
        sizes["looked_up_parameters"] = table * each * layers
        sizes["other_parameters"] = hidden * each * layers * 3
        if members.get("use_double_wide_mlp", default=False):
            shared = members.size("num_kv_shared_layers", default=0)
            sizes["other_parameters"] += shared * 3 * hidden * members.named("intermediate_size")
        if family.startswith("gemma3n"):
            ways, rank = members.size("altup_num_inputs", default=4), members.size("laurel_rank", default=64)
            sizes["other_parameters"] += 2 * (ways - 1) * hidden * hidden + layers * 2 * hidden * rank
    return sizes


_BY_METHOD = {
    "awq": "int4",
    "gptq": "int4",
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "mxfp4": "mxfp4",
    "auto-round": "int4",
    "auto_round": "int4",
}


def _quantised(outer: Members) -> tuple[str | None, str | None]:
    """The precision of the stored weights, and a note where they are stored in one that has no figures."""
    inner = outer.part("quantization_config")
    if not inner.config:
        inner = outer.part("quantization")  # MLX
        return (f"int{inner.size('bits')}", None) if inner.config else (None, None)
    method = str(inner.get("quant_method", default="unknown"))
    bits = inner.get("bits", "w_bit", "weight_bits", default=None) or next(_group_bits(inner), None)
    algorithm = str(inner.get("quant_algo", default="")).upper()
    if inner.get("load_in_4bit", "_load_in_4bit", default=False):
        return "int4", None
    if inner.get("load_in_8bit", "_load_in_8bit", default=False):
        return "int8", None
    if "FP4" in algorithm:
        return "fp4", None
    if "FP8" in algorithm:
        return "fp8", None
    if isinstance(bits, tuple):
        number, kind = bits
        return ({("float", 8): "fp8", ("float", 4): "fp4"}.get((kind, number)) or f"int{number}"), None
    if isinstance(bits, int) and method != "fp8":
        return f"int{bits}", None
    if method in _BY_METHOD:
        return _BY_METHOD[method], None
    return None, f"its weights are quantised by {method}, of which no size is known: 16 bits are taken"


def _group_bits(inner: Members) -> Iterator[tuple[int, str]]:
    """The bits of the weights as compressed-tensors tells them."""
    groups = inner.get("config_groups", default=None)
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") or {}
        if isinstance(weights.get("num_bits"), int):
            yield weights["num_bits"], str(weights.get("type") or "int")
