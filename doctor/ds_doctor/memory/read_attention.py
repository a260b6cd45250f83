"""One layer's attention from a config.json, for each family that keeps something of its own; it decides no size in bytes."""

from __future__ import annotations

from typing import Any

from .architecture import Attention
from .values import COUNT, TOKENS, Values


def attention(v: Values, kind: str, word: str, number: int, layers: int) -> Attention:
    """The attention of layer `number`, which `word` calls full, sliding or chunked."""
    if kind in ("deepseek_v4", "deepseek_v41"):
        return _compressed(v, kind, number, layers)
    if v.whole("kv_lora_rank", default=0, low=0):
        return _latent(v, kind, number, layers)
    heads, kv_heads, head_dim, v_head_dim = _shape(v, kind, word)
    return Attention(
        kind=word,  # type: ignore[arg-type]
        heads=heads,
        kv_heads=min(kv_heads, heads),
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        window=window(v, word),
        caches=_caches(v, number, layers),
        output_gate=_output_gate(v, kind),
        same_kv=word == "full" and v.flag("attention_k_eq_v"),
        bias=_bias(v, kind),
        **_minimax_index(v, kind, number, layers),
    )


def width(v: Values) -> int:
    return v.whole("hidden_size", "d_model", "n_embd", "model_dim", "n_embed", "dim")


def heads_of(v: Values) -> int:
    return v.whole("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", high=COUNT)


def window(v: Values, word: str) -> int:
    """Tokens that a sliding or chunked layer looks back at."""
    if word == "sliding":
        return v.whole("sliding_window", "sliding_window_size", "window_size", default=4096, low=0, high=TOKENS)
    if word == "chunked":
        return v.whole("attention_chunk_size", default=8192, high=TOKENS)
    return 0


def _kv_heads(v: Values, kind: str, heads: int) -> int:
    if kind in ("falcon", "RefinedWeb", "RefinedWebModel"):
        if v.flag("new_decoder_architecture"):
            return v.whole("num_kv_heads", "n_head_kv", default=8, high=COUNT)
        return 1 if v.flag("multi_query", default=True) else heads
    if kind == "gpt_bigcode":
        return 1 if v.flag("multi_query", default=True) else heads
    if "multi_query_group_num" in v:  # chatglm
        return v.whole("multi_query_group_num", high=COUNT) if v.flag("multi_query_attention", default=True) else heads
    inner = v.inner("attn_config")  # dbrx, mpt
    if inner is not None and "kv_n_heads" in inner:
        return inner.whole("kv_n_heads", high=COUNT)
    return v.whole(
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "num_attention_groups",
        "num_query_groups",
        default=heads,
        high=COUNT,
    )


def _shape(v: Values, kind: str, word: str) -> tuple[int, int, int, int]:
    """Query heads, KV heads, and the width of a key and of a value head."""
    heads = heads_of(v)
    other = (
        v.inner("attention_other_setting") if word == "sliding" else None
    )  # step3p5: the sliding layers have their own
    if other is not None:
        heads = other.whole("num_attention_heads", default=heads, high=COUNT)
    elif word == "sliding":
        heads = v.whole("swa_num_attention_heads", default=heads, high=COUNT)
    kv_heads = _kv_heads(v, kind, heads)
    head_dim = v.whole("head_dim", "kv_channels", "d_kv", "attention_head_dim", default=0, low=0) or -(
        -width(v) // heads
    )
    v_head_dim = v.whole("v_head_dim", default=head_dim)
    if other is not None:
        kv_heads = other.whole("num_attention_groups", default=kv_heads, high=COUNT)
        head_dim = v_head_dim = other.whole("head_dim", default=head_dim)
    elif word == "sliding":
        kv_heads = v.whole("swa_num_key_value_heads", default=kv_heads, high=COUNT)
        head_dim = v.whole("swa_head_dim", default=head_dim)
        v_head_dim = v.whole("swa_v_head_dim", default=v_head_dim)
    elif word == "full" and kind.startswith(("gemma4", "diffusion_gemma")):
        head_dim = v_head_dim = v.whole("global_head_dim", default=head_dim)
        if v.flag("attention_k_eq_v"):
            kv_heads = v.whole("num_global_key_value_heads", default=kv_heads, high=COUNT)
    return heads, kv_heads, head_dim, v_head_dim


def _caches(v: Values, number: int, layers: int) -> bool:
    """gemma3n and gemma4: the last layers read the cache of an earlier one."""
    shared = v.whole("num_kv_shared_layers", default=0, low=0, high=1 << 12)
    return number < layers - shared or shared >= layers


def _output_gate(v: Values, kind: str) -> bool:
    return kind.startswith(("qwen3_next", "qwen3_5", "qwen4")) or v.flag("attn_output_gate")


def _bias(v: Values, kind: str) -> bool:
    return kind in ("qwen", "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "chatglm", "gptj") or v.flag(
        "attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias"
    )


def _latent(v: Values, kind: str, number: int, layers: int) -> Attention:
    rope = v.whole("qk_rope_head_dim", default=64, low=0)
    nope = v.whole("qk_nope_head_dim", default=128, low=0)
    heads = heads_of(v)
    index = v.whole("index_head_dim", default=0, low=0) if _has_indexer(v, kind, number, layers) else 0
    pool = v.whole("index_kpool_cache_ratio", default=4 if kind.startswith("glm5_next") else 1)
    return Attention(
        kind="mla",
        heads=heads,
        kv_heads=1,
        head_dim=nope + rope,
        v_head_dim=v.whole("v_head_dim", default=128),
        q_rank=v.whole("q_lora_rank", default=0, low=0),
        kv_rank=v.whole("kv_lora_rank"),
        rope_dim=rope,
        nope_dim=nope,
        index_heads=v.whole("index_n_heads", default=0, low=0, high=COUNT) if index else 0,
        index_dim=index,
        index_bytes=-(-(index + 4 * -(-index // 128)) // pool),
    )


def _has_indexer(v: Values, kind: str, number: int, layers: int) -> bool:
    """Sparse MLA keeps an index key in each layer, or only in those that run the indexer."""
    if not v.whole("index_topk", default=0, low=0, high=TOKENS) and "index_head_dim" not in v:
        return False
    types = v.words("indexer_types")
    if types is not None and len(types) >= layers:
        return types[number] == "full"
    pattern = v.word("index_topk_pattern")
    if pattern and len(pattern) >= layers:
        return pattern[number] == "F"
    step = v.whole("index_topk_freq", default=1)
    offset = v.whole("index_skip_topk_offset", default=2, low=0)
    return max(number - offset + 1, 0) % step == 0


def _minimax_index(v: Values, kind: str, number: int, layers: int) -> dict[str, Any]:
    """MiniMax M3: a key of the sparse layers' indexer beside K and V, in the model's own type, on every rank."""
    if not kind.startswith("minimax_m3"):
        return {}
    inner = v.inner("sparse_attention_config")
    dim = v.whole("index_head_dim", default=0, low=0) or (
        inner.whole("sparse_index_dim", default=128) if inner else 128
    )
    heads = v.whole("index_n_heads", default=0, low=0, high=COUNT) or (
        inner.whole("sparse_num_index_heads", default=4) if inner else 4
    )
    flags = inner.each("sparse_attention_freq", layers) if inner else None
    types = v.words("layer_types")
    if flags is not None:
        sparse = bool(flags[number])
    elif types is not None and len(types) >= layers:
        sparse = types[number] != "full_attention"
    else:
        sparse = number >= layers - v.whole("sparse_indexer_layers", default=max(layers - 3, 0), low=0, high=layers)
    return {"index_heads": heads, "index_dim": dim, "index_bytes": 2 * dim} if sparse else {}


def _compressed(v: Values, kind: str, number: int, layers: int) -> Attention:
    """DeepSeek V4: each layer keeps a window; most also a latent for each 4 or 128 tokens. V4.1: only source layers keep a latent."""
    head_dim = v.whole("head_dim", default=512)
    rates = v.each("compress_ratios", layers)
    words = v.words("layer_types")
    if rates is not None:
        rate = rates[number]
    elif words is not None and len(words) >= layers:
        rate = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}.get(words[number], 0)
    elif kind == "deepseek_v41":
        # two layers of window only, the rest of the encoder halved, the decoder whole ([0, 0] + [2] * 18 + [1] * 20)
        rate = 0 if number < 2 else 2 if number < layers // 2 else 1
    else:  # V4-Flash: two layers of window only, then 4 and 128 in turn
        rate = 0 if number < 2 else (4 if number % 2 == 0 else 128)
    caches, indexed = True, rate == 4
    if kind == "deepseek_v41":
        sources, index_sources = v.raw("kv_source_layer_ids"), v.raw("index_source_layer_ids")
        caches = number in (sources if isinstance(sources, list) else (2, 8, 14, 20))
        indexed = number in (index_sources if isinstance(index_sources, list) else (2, 8, 14, 20, 24, 28, 32, 36))
    return Attention(
        kind="compressed",
        heads=heads_of(v),
        kv_heads=1,
        head_dim=head_dim,
        v_head_dim=head_dim,
        window=v.whole("sliding_window", default=128, high=TOKENS),
        q_rank=v.whole("q_lora_rank", default=1024),
        kv_rank=v.whole("o_lora_rank", default=1024),
        rope_dim=v.whole("qk_rope_head_dim", default=64, low=0),
        nope_dim=v.whole("o_groups", default=8, high=COUNT),
        index_heads=v.whole("index_n_heads", default=64, high=COUNT) if indexed else 0,
        index_dim=v.whole("index_head_dim", default=128) if indexed else 0,
        compress=rate,
        caches=caches,
    )
