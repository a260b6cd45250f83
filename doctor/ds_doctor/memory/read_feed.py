"""One layer's feed-forward part from a config.json: dense or experts, how wide, how many matrices; it decides no size in bytes."""

from __future__ import annotations

from .architecture import Feed
from .read_attention import width
from .values import COUNT, WIDTH, Values

# Types whose feed-forward part has an up and a down matrix, and no gate.
TWO = frozenset(
    [
        "falcon",
        "RefinedWeb",
        "RefinedWebModel",
        "bloom",
        "mpt",
        "gptj",
        "gpt_neox",
        "gpt_neo",
        "gpt2",
        "gpt_bigcode",
        "opt",
        "phi",
        "starcoder2",
        "nemotron",
        "nemotron_h",
        "nanochat",
        "apertus",
        "arcee",
        "persimmon",
        "codegen",
        "whisper",
        "bart",
        "mbart",
        "xglm",
        "biogpt",
        "t5",
        "mt5",
        "arctic_gpt2",
        "openai-gpt",
        "gpt-sw3",
        "nemotron_h_omni",
    ]
)
# Types whose experts are as wide as intermediate_size says.
_PLAIN = frozenset(
    [
        "mixtral",
        "gpt_oss",
        "olmoe",
        "granitemoe",
        "granitemoeshared",
        "granitemoehybrid",
        "phimoe",
        "minimax",
        "minimax_text_01",
        "minimax_m1",
        "minimax_m2",
        "minimax_m3_vl",
        "minimax_m3_vl_text",
        "jamba",
        "dbrx",
        "grok-1",
        "grok",
        "minimax_text_01",
        "jetmoe",
        "arctic",
        "flex_olmo",
    ]
)


def matrices(v: Values, kind: str) -> int:
    if kind in ("t5", "mt5", "umt5"):
        return 3 if "gated" in v.word("feed_forward_proj", "dense_act_fn") or kind != "t5" else 2
    if kind in TWO or v.word("mlp_hidden_act") == "relu2":
        return 2
    return 3


def feed(v: Values, kind: str, number: int, layers: int) -> Feed:
    """The feed-forward part of layer `number`."""
    count = _experts(v, kind)
    per = matrices(v, kind)
    if not count or not _is_sparse(v, kind, number, layers):
        return Feed(width=_dense(v, kind, number, layers), matrices=per)
    one = _expert_width(v, kind)
    side = 0
    if kind.startswith("gemma4") or kind == "arctic":
        side = _dense(v, kind, number, layers)  # a dense part beside the experts
    latent = v.whole("moe_latent_size", default=0, low=0)
    return Feed(
        width=side,
        matrices=per,
        experts=count,
        expert_width=one,
        expert_matrices=per,
        shared_width=_shared(v, kind, one),
        used=v.whole(
            "num_experts_per_tok",
            "moe_k",
            "moe_topk",
            "num_selected_experts",
            "top_k_experts",
            "moe_top_k",
            default=2,
            high=COUNT,
        ),
        latent=latent,
    )


def _experts(v: Values, kind: str) -> int:
    if kind.startswith("gemma4") and not v.flag("enable_moe_block"):
        return 0
    inner = v.inner("ffn_config")  # dbrx
    if inner is not None and "moe_num_experts" in inner:
        return inner.whole("moe_num_experts", high=COUNT)
    count = v.whole(
        "n_routed_experts",
        "num_local_experts",
        "num_experts",
        "moe_num_experts",
        "num_moe_experts",
        "num_routed_experts",
        default=0,
        low=0,
        high=COUNT,
    )
    return count if count > 1 else 0


def _expert_width(v: Values, kind: str) -> int:
    inner = v.inner("ffn_config")
    if inner is not None and "ffn_hidden_size" in inner:
        return inner.whole("ffn_hidden_size")
    if kind in _PLAIN or kind == "llama4_text" or kind == "llama4":
        return v.whole("moe_intermediate_size", "intermediate_size", "ffn_hidden_size", default=4 * width(v))
    return v.whole(
        "moe_intermediate_size",
        "expert_ffn_hidden_size",
        "moe_ffn_hidden_size",
        "expert_intermediate_size",
        "intermediate_size",
    )


def _shared(v: Values, kind: str, one: int) -> int:
    """The width of all shared experts together."""
    if kind in ("llama4", "llama4_text"):
        return v.whole("intermediate_size")
    whole = v.whole(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "share_expert_dim",
        "shared_intermediate_size",
        default=0,
        low=0,
    )
    count = v.whole(
        "n_shared_experts",
        "moe_num_shared_experts",
        "num_shared_experts",
        "num_shared_expert",
        default=0,
        low=0,
        high=COUNT,
    )
    if whole:
        return whole * (count if kind == "nemotron_h" and count else 1)
    return min(count * one, WIDTH)


def _is_sparse(v: Values, kind: str, number: int, layers: int) -> bool:
    words = v.words("mlp_layer_types")
    if words is not None and len(words) >= layers:
        return words[number] != "dense"
    flags = v.each("moe_layer_freq", layers)
    if flags is not None:
        return bool(flags[number])
    told = v.word("moe_layers_enum")  # step3: "4,5,6,..."
    if told:
        return str(number) in told.split(",")
    if kind in ("llama4", "llama4_text"):
        at = v.raw("moe_layers")
        if isinstance(at, list) and at:
            return number in at
        return (number + 1) % v.whole("interleave_moe_layer_step", default=1) == 0
    if kind == "jamba":
        return number % v.whole("expert_layer_period", default=2) == v.whole("expert_layer_offset", default=1, low=0)
    only = v.raw("mlp_only_layers")
    if isinstance(only, list) and number in only:
        return False
    if kind.startswith("mimo_v2") and "first_k_dense_replace" not in v:
        return number > 0
    if kind.startswith("minimax_m3"):
        return number >= 3
    first = v.whole(
        "first_k_dense_replace",
        "num_dense_layers",
        "moe_layer_start_index",
        "num_dense_replace",
        default=0,
        low=0,
        high=1 << 12,
    )
    if number < first:
        return False
    last = v.raw("moe_layer_end_index")
    if isinstance(last, int) and not isinstance(last, bool) and 0 <= last < number:
        return False
    step = v.whole("decoder_sparse_step", "moe_layer_interval", default=1)
    if kind.startswith("ernie4_5"):
        return (number + 1) % step == 0
    if isinstance(v.raw("moe_layer_freq"), int):
        return number % v.whole("moe_layer_freq", default=1) == 0
    return (number + 1) % step == 0


def _dense(v: Values, kind: str, number: int, layers: int) -> int:
    """The width of a dense layer."""
    for name in ("intermediate_size", "ffn_hidden_size"):
        each = v.each(name, layers)
        if each is not None:
            return each[number]
    hidden = width(v)
    if kind == "qwen":  # the first Qwen counts both halves
        return v.whole("intermediate_size", default=8 * hidden) // 2
    if kind.startswith("minimax_m3"):
        return v.whole("dense_intermediate_size", default=12288)
    if kind in ("llama4", "llama4_text"):
        return v.whole("intermediate_size_mlp", "intermediate_size")
    if kind in ("granitemoehybrid", "granitemoeshared"):
        return v.whole("shared_intermediate_size", "intermediate_size")
    inner = v.inner("ffn_config")
    if inner is not None and "ffn_hidden_size" in inner:
        return inner.whole("ffn_hidden_size")
    one = v.whole(
        "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "decoder_ffn_dim", default=4 * hidden
    )
    if kind == "mpt":
        return int(v.number("expansion_ratio", default=4.0) * hidden)
    if kind.startswith("gemma4") and v.flag("use_double_wide_mlp"):
        shared = v.whole("num_kv_shared_layers", default=0, low=0, high=1 << 12)
        return 2 * one if number >= layers - shared else one
    return one
