"""The layers of a decoder by its config: how many are of which kind, their feed-forward parts, and those that keep a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from domain.catalogues.decoder_members import CONVENTIONS, Members
from domain.errors import UsageError

__all__ = ["Kinds", "feed_forward", "kinds_of", "layer_words", "linear"]


class Kinds(msgspec.Struct, frozen=True, kw_only=True):
    """How many layers are of which kind. Where one of them holds two (Falcon-H1), it counts in both."""

    layers: int
    full: int
    windowed: int = 0
    linear: int = 0
    feed_forward: int | None = None
    experts: int | None = None


def kinds_of(members: Members, family: str, layers: int, words: Sequence[str]) -> Kinds:
    """The kinds of the layers, by their list where there is one, else by the rule of the family."""
    if words:
        return _by_words(words, layers, members)
    if family == "falcon_h1":
        return Kinds(layers=layers, full=layers, linear=layers)
    if family in ("mamba", "mamba2", "falcon_mamba"):
        return Kinds(layers=layers, full=0, linear=layers, feed_forward=0)
    full = _full_by_rule(members, family, layers)
    if full is not None:
        return Kinds(layers=layers, full=full, linear=layers - full)
    windowed = _windowed(members, family, layers)
    return Kinds(layers=layers, full=layers - windowed, windowed=windowed)


def layer_words(members: Members) -> list[str]:
    """Return the kind of each layer in the config's own words; none where it does not list them."""
    pattern = members.get("hybrid_override_pattern", default=None)
    if isinstance(pattern, str):
        return list(pattern)
    listed = members.get("layer_types", "layers_block_type", "block_types", default=None)
    if isinstance(listed, list):
        return [str(item) for item in listed]
    spelled = members.get("sliding_window_pattern", default=None)
    if isinstance(spelled, str):
        layers = members.named("layers")
        return ["global" if spelled[at % len(spelled)] == "G" else "local" for at in range(layers)]
    return []


def _by_words(words: Sequence[str], layers: int, members: Members) -> Kinds:
    unknown = sorted(
        {
            word
            for word in words
            if word
            not in (
                *CONVENTIONS.linear_words,
                *CONVENTIONS.full_words,
                *CONVENTIONS.window_words,
                "-",
                "E",
                "moe",
                "mlp",
                "hybrid",
            )
        }
    )
    if unknown:
        raise UsageError(
            f"a kind of layer is not known: {', '.join(unknown)}.",
            field=f"{members.path}.layer_types",
            remedy=f"Known are {', '.join((*CONVENTIONS.full_words[:2], *CONVENTIONS.window_words[:2], *CONVENTIONS.linear_words[:4]))}.",
        )
    both = sum(word == "hybrid" for word in words)
    windowed = sum(word in CONVENTIONS.window_words for word in words)
    if windowed and not members.get("sliding_window", "attention_chunk_size", "sliding_window_size", default=None):
        windowed = 0
    linear = sum(word in CONVENTIONS.linear_words for word in words) + both
    full = sum(word in (*CONVENTIONS.full_words, *CONVENTIONS.window_words) for word in words) - windowed + both
    alone = {"-", "E", "mlp", "moe"} & set(words)
    return Kinds(
        layers=layers,
        full=full,
        windowed=windowed,
        linear=linear,
        feed_forward=sum(word in ("-", "E", "mlp", "moe") for word in words) if alone else None,
        experts=sum(word in ("E", "moe") for word in words) if alone else None,
    )


def _full_by_rule(members: Members, family: str, layers: int) -> int | None:
    """Layers of full attention among linear ones; None where there are no linear ones."""
    every = members.get("full_attention_interval", "attn_layer_period", default=None)
    if every:
        start = members.size("attn_layer_offset", default=every - 1)
        return len(range(start, layers, every))
    for name in ("attn_layer_indices", "full_attn_idxs"):
        listed = members.get(name, default=[] if family == "bamba" else None)
        if isinstance(listed, list):
            return len(listed)
    listed = members.part("linear_attn_config").get("full_attn_layers", default=None)
    if isinstance(listed, list):
        return len(listed)
    kinds = members.get("attn_type_list", default=None)
    return sum(kind == 1 for kind in kinds) if family.startswith("minimax") and isinstance(kinds, list) else None


def _windowed(members: Members, family: str, layers: int) -> int:
    """Layers that look back a window, by the rule of the family."""
    hybrid = members.get("hybrid_layer_pattern", default=None)
    if isinstance(hybrid, list):
        return sum(item == 1 for item in hybrid)
    if family == "gpt_neo":
        kinds = members.get("attention_types", default=[[["global"], layers]])
        return sum(list(names).count("local") * times for names, times in kinds)
    if family in ("llama4", "llama4_text"):
        listed = members.get("no_rope_layers", default=[])
        return sum(bool(item) for item in listed) if listed else layers - layers // 4
    if not members.get("sliding_window", default=None):
        return 0
    if family in CONVENTIONS.patterns:
        every = members.size("sliding_window_pattern", "_sliding_window_pattern", default=CONVENTIONS.patterns[family])
        return layers - layers // every
    if family in CONVENTIONS.windowed:
        return layers
    if members.get("use_sliding_window", default=False):
        return max(layers - members.size("max_window_layers", default=0), 0)
    return 0


def feed_forward(members: Members, family: str, hidden: int, kinds: Kinds) -> dict[str, Any]:
    """Return the sizes of the feed-forward parts, dense or of experts."""
    if kinds.feed_forward == 0:
        return {"feed_forward_layers": 0}
    inner = members.part("ffn_config")
    width = members.named("intermediate_size", default=inner.named("intermediate_size", default=0))
    if not width and family in CONVENTIONS.four_times:
        width = round(hidden * float(members.get("expansion_ratio", default=4)))
    experts = members.named("experts", default=inner.named("experts", default=0))
    sizes: dict[str, Any] = {"feed_forward_layers": kinds.feed_forward}
    if not experts:
        wide = members.size("shared_intermediate_size", default=0) if family == "granitemoehybrid" else 0
        if members.get("block_auto_adjust_ff_dim", default=False):
            width = _adjusted(members, width)
        return sizes | {"intermediate_size": wide or width or members.named("intermediate_size")}
    each = members.named("expert_size", default=inner.size("ffn_hidden_size", default=width)) or width
    sizes |= {
        "experts": experts,
        "experts_per_token": _per_token(members, inner),
        "expert_size": each,
        "shared_size": _shared(members, family, each, width),
        "dense_layers": _dense_layers(members, kinds),
    }
    if family.startswith("llama4"):
        width = members.size("intermediate_size_mlp", default=width)
    return sizes | ({"intermediate_size": width} if sizes["dense_layers"] else {})


def _adjusted(members: Members, width: int) -> int:
    """LFM2's width: two thirds, times a factor, rounded up to a multiple."""
    wide = int(2 * width / 3 * float(members.get("block_ffn_dim_multiplier", default=1.0)))
    unit = members.size("block_multiple_of", default=256)
    return unit * -(-wide // unit)


def _per_token(members: Members, inner: Members) -> int:
    count = members.named("experts_per_token", default=inner.named("experts_per_token", default=0))
    return count or members.named("experts_per_token")


def _shared(members: Members, family: str, each: int, width: int) -> int:
    """Width of the experts that every token passes."""
    if family.startswith("llama4"):
        return members.size("intermediate_size")
    if family.startswith("gemma4"):
        return width
    if family == "longcat_flash":
        return 2 * members.size("ffn_hidden_size")
    stated = members.size(
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size", default=0
    )
    if stated:
        return stated
    names = ("n_shared_experts", "moe_num_shared_experts", "num_shared_experts", "num_shared_expert")
    return members.size(*names, default=0) * each


def _dense_layers(members: Members, kinds: Kinds) -> int:
    """Layers with a feed-forward part that do not choose among experts."""
    layers = kinds.layers if kinds.feed_forward is None else kinds.feed_forward
    if kinds.experts is not None:
        return layers - kinds.experts
    listed = members.get("mlp_layer_types", default=None)
    if isinstance(listed, list):
        return sum(item == "dense" for item in listed)
    listed = members.get("moe_layers", "moe_layers_enum", default=None)
    if isinstance(listed, str):
        listed = [item for item in listed.split(",") if item.strip()]
    if isinstance(listed, list) and listed:
        return layers - len(listed)
    return layers - sum(1 for at in range(layers) if _chooses(members, at))


def _chooses(members: Members, at: int) -> bool:
    """Whether the layer at this place chooses among experts."""
    first = members.size("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", default=0)
    last = members.get("moe_layer_end_index", default=-1)
    if at < first or (isinstance(last, int) and 0 <= last < at):
        return False
    if at in (members.get("mlp_only_layers", default=None) or ()):
        return False
    every = members.get("expert_layer_period", default=None)
    if every:
        return bool(at % every == members.size("expert_layer_offset", default=0))
    frequency = members.get("moe_layer_freq", "moe_layer_interval", default=1)
    if isinstance(frequency, list):
        return bool(frequency[at])
    step = members.get("decoder_sparse_step", "interleave_moe_layer_step", default=frequency) or 1
    return (at + 1) % step == 0


def linear(members: Members, family: str, hidden: int, kinds: Kinds, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return weights and state of the layers that keep a state in place of keys and values."""
    if not kinds.linear:
        return {}
    parameters, state = _linear_layer(members, family, hidden, sizes)
    return {"linear_layers": kinds.linear, "linear_parameters": parameters, "linear_state": state}


def _linear_layer(members: Members, family: str, hidden: int, sizes: Mapping[str, Any]) -> tuple[int, int]:
    if members.get("linear_num_value_heads", default=None):
        return _gated_delta(members, hidden)
    if family == "kimi_linear":
        inner = members.part("linear_attn_config")
        return _kimi_delta(inner if inner.config else members, hidden)
    if members.get("conv_L_cache", default=None):
        kernel = members.size("conv_L_cache")
        return hidden * (4 * hidden + kernel), hidden * kernel
    if members.get("mamba_n_heads", "mamba_num_heads", default=None) or family == "mamba2":
        return _mamba2(members, hidden)
    if members.get("mamba_d_state", "state_size", default=None):
        return _mamba(members, hidden)
    if family.startswith("minimax"):
        width = sizes["heads"] * sizes["head_size"]
        return hidden * 5 * width, width * sizes["head_size"]
    raise UsageError(
        "nothing says what its layers without attention are.",
        field=f"{members.path}.layer_types",
        remedy="Known are gated delta nets (linear_num_value_heads), Mamba (mamba_d_state), and short convolutions (conv_L_cache).",
    )


def _gated_delta(members: Members, hidden: int) -> tuple[int, int]:
    heads, size = members.size("linear_num_value_heads"), members.size("linear_value_head_dim")
    keys = members.size("linear_num_key_heads") * members.size("linear_key_head_dim")
    values, kernel = heads * size, members.size("linear_conv_kernel_dim", default=4)
    mixed = 2 * keys + values
    return hidden * (2 * keys + 3 * values + 2 * heads) + mixed * kernel, (
        heads * size * members.size("linear_key_head_dim") + mixed * (kernel - 1)
    )


def _kimi_delta(members: Members, hidden: int) -> tuple[int, int]:
    heads = members.size("linear_num_heads", "num_heads")
    size = members.size("linear_head_dim", "head_dim")
    width, kernel = heads * size, members.size("short_conv_kernel_size", "linear_conv_kernel_dim", default=4)
    gates = 2 * size * (hidden + width) + hidden * heads
    return 4 * hidden * width + gates + 3 * width * kernel, width * size + 3 * width * (kernel - 1)


def _mamba2(members: Members, hidden: int) -> tuple[int, int]:
    heads = members.size("mamba_n_heads", "mamba_num_heads", "num_heads")
    size = members.size("mamba_d_head", "mamba_head_dim", "head_dim", default=0)
    width = members.size("mamba_d_ssm", default=0) or heads * size
    state = members.size("mamba_d_state", "ssm_state_size", "state_size")
    groups = members.size("mamba_n_groups", "n_groups", default=1)
    kernel = members.size("mamba_d_conv", "conv_kernel", default=4)
    mixed = width + 2 * groups * state
    parameters = hidden * (width + mixed + heads) + mixed * kernel + width * hidden
    return parameters, width * state + mixed * kernel


def _mamba(members: Members, hidden: int) -> tuple[int, int]:
    width = members.size("mamba_expand", "expand", default=2) * hidden
    state = members.size("mamba_d_state", "state_size")
    kernel = members.size("mamba_d_conv", "conv_kernel", default=4)
    rank = members.get("mamba_dt_rank", "time_step_rank", default="auto")
    rank = -(-hidden // 16) if rank == "auto" else int(rank)
    parameters = 3 * hidden * width + width * (kernel + 2 * (rank + state) + state)
    return parameters, width * (state + kernel)
