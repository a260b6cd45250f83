"""Which layer of a model is what, from a config.json: full, sliding, chunked, linear, mamba, conv; it counts nothing."""

from __future__ import annotations

from collections.abc import Callable

from .values import Values

# What the engines and transformers call a layer -> what it is here.
_WORDS = {
    "full_attention": "full", "attention": "full", "full": "full", "global": "full", "global_attention": "full", "indexed_attention": "full",
    "compressed_sparse_attention": "full", "heavily_compressed_attention": "full", "sparse_attention": "full", "minimax_m3_sparse": "full", "*": "full",
    "sliding_attention": "sliding", "local_attention": "sliding", "local": "sliding", "swa": "sliding", "sliding": "sliding", "sliding_window": "sliding",
    "chunked_attention": "chunked", "linear_attention": "linear", "kda": "linear", "linear": "linear", "lightning": "linear",
    "mamba": "mamba", "mamba2": "mamba", "M": "mamba", "recurrent": "mamba", "conv": "conv", "short_conv": "conv",
    "hybrid": "hybrid", "mlp": "feed", "-": "feed", "moe": "feed", "E": "feed",
}  # fmt: skip


def kinds(v: Values, kind: str, layers: int) -> list[str]:
    """One word a layer: full, sliding, chunked, linear, mamba, conv, hybrid (zamba: mamba and attention), feed (no attention at all)."""
    told = _told(v, kind, layers)
    if told is not None:
        return told
    special = _RULES.get(kind)
    if special is not None:
        return special(v, layers)
    counted = _counted(v, layers)
    if counted is not None:
        return counted
    if kind in ("mamba", "mamba2", "falcon_mamba"):
        return ["mamba"] * layers
    if _slides(v, kind):
        return ["sliding"] * layers
    return ["full"] * layers


def _told(v: Values, kind: str, layers: int) -> list[str] | None:
    """A list with a word for each layer."""
    for name in ("layer_types", "layers_block_type", "layers_types", "hybrid_layer_types"):
        words = v.words(name)
        if words is not None and len(words) >= layers:
            return [_WORDS.get(w, "full") for w in words[:layers]]
    pattern = v.word("hybrid_override_pattern")  # nemotron_h
    if pattern and len(pattern) == layers:
        return [_WORDS.get(c, "full") for c in pattern]
    for name, ones in (("hybrid_layer_pattern", "sliding"), ("attn_type_list", "full"), ("swa_layers", "sliding")):
        numbers = v.each(name, layers)
        if numbers is not None:
            zeros = {"sliding": "full", "full": "linear"}[ones]
            return [ones if n else zeros for n in numbers]
    inner = v.inner("linear_attn_config")  # kimi_linear: layers counted from one
    if inner is not None and isinstance(inner.raw("full_attn_layers"), list):
        full = {n for n in inner.raw("full_attn_layers") if isinstance(n, int)}
        return ["full" if i + 1 in full else "linear" for i in range(layers)]
    rates = v.each("compress_ratios", layers)
    if rates is not None:
        return ["full"] * layers
    return None


def _counted(v: Values, layers: int) -> list[str] | None:
    """Some descriptions give only how many layers of each kind there are; the order does not change the memory of a whole model."""
    full = v.whole("full_attention_layers", default=-1, low=0, high=layers)
    if full < 0:
        return None
    other = "linear" if "linear_layers" in v else "sliding"
    every = -(-layers // full) if full else 0
    spread = [("full" if full and (i + 1) % every == 0 else other) for i in range(layers)]
    for i in range(layers):  # a remainder of the division goes to the first ones
        if spread.count("full") >= full:
            break
        if spread[i] != "full":
            spread[i] = "full"
    return spread


def _slides(v: Values, kind: str) -> bool:
    if kind.startswith("qwen") and not v.flag("use_sliding_window"):
        return False
    window = v.raw("sliding_window")
    return (
        isinstance(window, int)
        and not isinstance(window, bool)
        and 0 < window < v.whole("max_position_embeddings", default=1 << 40, high=1 << 40)
        and v.flag("use_sliding_window", default=True)
    )


_Rule = Callable[[Values, int], list[str]]


def _every(of: int, rest: str = "sliding") -> _Rule:
    def rule(v: Values, layers: int) -> list[str]:
        step = (
            v.whole("sliding_window_pattern", "_sliding_window_pattern", default=of, high=layers)
            if isinstance(v.raw("sliding_window_pattern", "_sliding_window_pattern"), int)
            else of
        )
        return ["full" if (i + 1) % step == 0 else rest for i in range(layers)]

    return rule


def _alternating(v: Values, layers: int) -> list[str]:
    return ["full" if i % 2 else "sliding" for i in range(layers)]


def _interval(v: Values, layers: int) -> list[str]:
    step = v.whole("full_attention_interval", default=4, high=1 << 12)
    return ["full" if (i + 1) % step == 0 else "linear" for i in range(layers)]


def _jamba(v: Values, layers: int) -> list[str]:
    period, offset = v.whole("attn_layer_period", default=8), v.whole("attn_layer_offset", default=4, low=0)
    return ["full" if i % period == offset else "mamba" for i in range(layers)]


def _llama4(v: Values, layers: int) -> list[str]:
    flags = v.each("no_rope_layers", layers)
    if flags is None or not any(f == 0 for f in flags):
        step = v.whole("no_rope_layer_interval", default=4)
        flags = [int((i + 1) % step != 0) for i in range(layers)]
    return ["chunked" if f else "full" for f in flags]


def _word_pattern(v: Values, layers: int) -> list[str]:
    """exaone4: "LLLG" over and over."""
    pattern = v.word("sliding_window_pattern")
    if not pattern or not v.raw("sliding_window"):
        return ["full"] * layers
    return ["sliding" if pattern[i % len(pattern)] == "L" and i != layers - 1 else "full" for i in range(layers)]


def _bamba(v: Values, layers: int) -> list[str]:
    at = v.raw("attn_layer_indices")
    full = {n for n in at if isinstance(n, int)} if isinstance(at, list) else set()
    return ["full" if i in full else "mamba" for i in range(layers)]


def _zamba2(v: Values, layers: int) -> list[str]:
    at = v.raw("hybrid_layer_ids")
    full = {n for n in at if isinstance(n, int)} if isinstance(at, list) else set(range(6, layers, 6))
    return ["hybrid" if i in full else "mamba" for i in range(layers)]


def _lfm2(v: Values, layers: int) -> list[str]:
    at = v.raw("full_attn_idxs")
    full = {n for n in at if isinstance(n, int)} if isinstance(at, list) else set(range(layers))
    return ["full" if i in full else "conv" for i in range(layers)]


def _mimo(v: Values, layers: int) -> list[str]:
    return _counted(v, layers) or ["full" if i == 0 or (i + 1) % 6 == 0 else "sliding" for i in range(layers)]


def _minimax(v: Values, layers: int) -> list[str]:
    return ["full" if (i + 1) % 8 == 0 else "linear" for i in range(layers)]


def _glm5_next(v: Values, layers: int) -> list[str]:
    return ["full" if i % 4 == 3 else "linear" for i in range(layers)]


_RULES: dict[str, _Rule] = {
    "gemma2": _alternating, "gemma3": _every(6), "gemma3_text": _every(6), "gemma3n": _every(5), "gemma3n_text": _every(5),
    "gemma4": _every(6), "gemma4_text": _every(6), "gemma4_unified_text": _every(6),
    "gpt_oss": _alternating, "cohere2": _every(4), "cohere2_moe": _every(4), "afmoe": _every(4), "olmo3": _every(4), "ministral": _every(4),
    "qwen3_next": _interval, "qwen3_5": _interval, "qwen3_5_text": _interval, "qwen3_5_moe": _interval, "qwen3_5_moe_text": _interval,
    "jamba": _jamba, "llama4": _llama4, "llama4_text": _llama4, "exaone4": _word_pattern, "exaone_moe": _word_pattern,
    "bamba": _bamba, "zamba2": _zamba2, "lfm2": _lfm2, "lfm2_moe": _lfm2, "mimo_v2_flash": _mimo, "minimax": _minimax,
    "minimax_text_01": _minimax, "minimax_m1": _minimax, "glm5_next": _glm5_next, "glm5_next_text": _glm5_next,
}  # fmt: skip
