"""A config.json as an Architecture: which level of it is the text model, and what stands around the layers; Unreadable for what no model can say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._data import table
from .architecture import Architecture, Attention, Feed, Layer
from .quantisation import quantisation
from .read_attention import attention, heads_of, width
from .read_feed import feed, matrices
from .read_layers import kinds
from .read_state import state
from .read_vision import towers
from .values import LAYERS, TOKENS, WORDS, Unreadable, Values

__all__ = ["Unreadable", "architecture"]

_ENGRAM_ROWS = 384_006_168  # of each table (config.json of DeepSeek-V4.1-Flash: engram_num_embeddings)
_TEXT = ("text_config", "llm_config", "language_config", "language_model_config", "text_model_config")
# Types that neither transformers nor the tables name, but that are read as what they are.
_KNOWN = frozenset(
    [
        "qwen",
        "baichuan",
        "internlm",
        "internlm2",
        "internlm3",
        "chatglm",
        "deepseek_v3",
        "deepseek_v32",
        "deepseek_v4",
        "deepseek_v41",
        "kimi_k2",
        "kimi_k25",
        "kimi_linear",
        "minimax_text_01",
        "minimax_m1",
        "minimax_m2",
        "minimax_m3_vl",
        "mimo",
        "mimo_v2",
        "mimo_v2_flash",
        "step3",
        "step3_text",
        "step3p5",
        "step3_vl",
        "orion",
        "yi",
        "aquila",
        "xverse",
        "grok-1",
        "RefinedWeb",
        "RefinedWebModel",
        "deepseek_vl_v2",
        "internvl_chat",
        "ernie4_5_moe",
        "hunyuan",
        "hunyuan_v1_moe",
        "bailing_moe",
        "bailing_moe_v2",
        "dots1",
        "pangu",
        "telechat2",
        "exaone",
        "solar",
        "qwen4_exp",
        "glm5_next",
    ]
)
# A type that differs from another only in its name.
_SAME = {
    "kimi_k2": "deepseek_v3", "kimi_k25": "deepseek_v3", "kimi_vl": "deepseek_v3", "glm_moe_dsa": "glm_moe_dsa", "mimo_v2": "mimo_v2_flash",
    "hunyuan": "hunyuan_v1_moe",
}  # fmt: skip


def architecture(config: Mapping[str, Any]) -> Architecture:
    """What the configuration says. Unreadable: it cannot be a model's."""
    if not isinstance(config, Mapping):
        raise Unreadable("config.json holds no object")
    top_kind, kind, fields, known = _text(config)
    v = Values(fields, defaults=_defaults(kind))
    count = v.whole(
        "num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "num_decoder_layers", high=LAYERS
    )
    hidden = width(v)
    words = kinds(v, kind, count)
    cross = v.flag("is_encoder_decoder") or kind in ("whisper", "bart", "mbart", "t5", "mt5")
    seen: dict[Layer, Layer] = {}  # layers that are alike are one object: what is worked out of one holds for all
    layers = tuple(
        seen.setdefault(x, x) for x in (_layer(v, kind, words[i], i, count, hidden, cross) for i in range(count))
    )
    notes = []
    if not known:
        notes.append("unknown-type")
    encoder, tokens = _encoder(v, kind, hidden) if cross else ((), 0)
    return Architecture(
        model_type=top_kind,
        width=hidden,
        vocabulary=v.whole("vocab_size", "padded_vocab_size", "n_vocab", high=WORDS),
        layers=layers,
        tied=_tied(config, v),
        dtype=_dtype(config, v),
        positions=_positions(v, kind),
        spare=_spare(v, kind, layers),
        encoder=encoder,
        encoder_tokens=tokens,
        vision=towers(config, top_kind, hidden),
        host_tables=_tables(v, kind),
        position_table=_position_table(v, kind, hidden),
        input_tables=_input_tables(v, hidden),
        quantisation=quantisation(config, fields),
        certain=known,
        notes=tuple(notes),
    )


def _text(config: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any], bool]:
    """The type as given, the text model's type, its fields, and whether the type is known."""
    table_ = table("defaults")
    top = config.get("model_type")
    top_kind = top if isinstance(top, str) else ""
    inner: Mapping[str, Any] | None = None
    thinker = config.get("thinker_config")
    holder: Mapping[str, Any] = thinker if isinstance(thinker, Mapping) else config
    for name in _TEXT:
        candidate = holder.get(name)
        if isinstance(candidate, Mapping):
            inner = candidate
            break
    entry = table_.get(top_kind, {})
    kind = top_kind
    if inner is not None:
        told = inner.get("model_type")
        kind = told if isinstance(told, str) and told else entry.get("text", top_kind)
        fields = {**{k: x for k, x in holder.items() if k not in _TEXT}, **inner}
    else:
        fields = dict(config)
        if "text" in entry and entry["text"] in table_:
            kind = entry["text"]
    kind = kind or top_kind
    known = kind in table_ or kind in _KNOWN
    return top_kind or kind, _SAME.get(kind, kind), fields, known


def _defaults(kind: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = table("defaults").get(kind, {})
    return found


def _layer(v: Values, kind: str, word: str, number: int, count: int, hidden: int, cross: bool) -> Layer:
    other = _norms(kind, hidden)
    if word == "feed":  # nemotron_h: layers that are only a feed-forward part
        return Layer(feed=_nemotron_feed(v, kind, number, count), other=hidden)
    if word in ("mamba", "linear", "conv"):
        alone = kind.startswith("nemotron_h") or kind in ("mamba", "mamba2", "falcon_mamba", "zamba2", "zamba")
        both = kind == "falcon_h1"
        return Layer(
            attention=attention(v, kind, "full", number, count) if both else None,
            state=state(v, kind, word),
            feed=None if alone else feed(v, kind, number, count),
            other=other,
        )
    if word == "hybrid":
        if kind == "falcon_h1":
            return Layer(
                attention=attention(v, kind, "full", number, count),
                state=state(v, kind, "mamba"),
                feed=feed(v, kind, number, count),
                other=other,
            )
        return Layer(attention=attention(v, kind, "full", number, count), state=state(v, kind, "mamba"), other=other)
    a = attention(v, kind, word, number, count)
    if cross:
        a = _with_cross(a)
    both_state = state(v, kind, "mamba") if kind == "falcon_h1" else None
    return Layer(
        attention=a,
        state=both_state,
        feed=None if kind.startswith("nemotron_h") else feed(v, kind, number, count),
        other=other,
    )


def _with_cross(a: Attention) -> Attention:
    import msgspec

    return msgspec.structs.replace(a, cross=True)


def _nemotron_feed(v: Values, kind: str, number: int, count: int) -> Feed:
    pattern = v.word("hybrid_override_pattern")
    words = v.words("layers_block_type") or v.words("layer_types")
    if (pattern and number < len(pattern) and pattern[number] == "-") or (
        words is not None and number < len(words) and words[number] == "mlp"
    ):
        return Feed(width=v.whole("intermediate_size"), matrices=matrices(v, kind))
    return feed(v, kind, number, count)


def _norms(kind: str, hidden: int) -> int:
    return (4 if kind.startswith(("gemma2", "gemma3", "gemma4", "glm4", "olmo2", "olmo3")) else 2) * hidden


def _tied(config: Mapping[str, Any], v: Values) -> bool:
    told = config.get("tie_word_embeddings")
    if isinstance(told, bool) and not isinstance(v.fields.get("tie_word_embeddings"), bool):
        return told
    return v.flag("tie_word_embeddings")


def _dtype(config: Mapping[str, Any], v: Values) -> str:
    for place in (v.fields, config):
        for name in ("torch_dtype", "dtype"):
            told = place.get(name)
            if isinstance(told, str) and told:
                return told.removeprefix("torch.")[:16]
    return "bfloat16"


def _positions(v: Values, kind: str) -> int:
    """The longest context, as the engines derive it: the trained one, times the scaling, unless the scaling is in it already."""
    length = v.whole(
        "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions", "max_sequence_length",
        default=0, low=0, high=TOKENS,
    )  # fmt: skip
    rope = v.inner("rope_scaling", "rope_parameters")
    if rope is None or not length:
        return length
    if rope.inner("full_attention") is not None:
        rope = rope.inner("full_attention") or rope
    method = rope.word("rope_type", "type")
    factor = rope.number("factor", default=1.0)
    if (
        method in ("", "default", "su", "longrope", "llama3", "mrope", "proportional")
        or kind.startswith("gemma3")
        or not 1.0 <= factor <= 1 << 20
    ):
        return length
    if method == "yarn":
        original = rope.whole("original_max_position_embeddings", default=0, low=0, high=TOKENS)
        return int(original * factor) if original else length
    return min(int(length * factor), TOKENS)


def _spare(v: Values, kind: str, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Multi-token prediction layers: like the last layer."""
    count = v.whole(
        "num_nextn_predict_layers",
        "mtp_num_hidden_layers",
        "num_mtp_modules",
        "num_mtp_layers",
        default=0,
        low=0,
        high=64,
    )
    like = next((x for x in reversed(layers) if x.attention is not None), None)
    return (like,) * count if like is not None else ()


def _encoder(v: Values, kind: str, hidden: int) -> tuple[tuple[Layer, ...], int]:
    count = v.whole("encoder_layers", "num_layers", "num_hidden_layers", default=0, low=0, high=LAYERS)
    heads = v.whole("encoder_attention_heads", "num_heads", default=heads_of(v))
    wide = v.whole("encoder_ffn_dim", "d_ff", default=4 * hidden)
    dim = v.whole("d_kv", default=-(-hidden // heads))
    one = Layer(
        attention=Attention(kind="full", heads=heads, kv_heads=heads, head_dim=dim, v_head_dim=dim, caches=False),
        feed=Feed(width=wide, matrices=matrices(v, kind)),
        other=2 * hidden,
    )
    return (one,) * count, v.whole("max_source_positions", "n_positions", default=1500, high=TOKENS)


def _tables(v: Values, kind: str) -> int:
    """DeepSeek V4.1: the Engram tables, one a layer of engram_layer_ids."""
    if kind != "deepseek_v41":
        return 0
    width_ = v.whole("engram_head_dim", "engram_dim", default=256)
    rows = v.raw("engram_num_embeddings")
    if isinstance(rows, list) and rows and all(type(n) is int and 0 < n < 1 << 34 for n in rows[:64]):
        return sum(rows[:64]) * width_
    layers = v.raw("engram_layer_ids")
    return (len(layers[:64]) if isinstance(layers, list) else 2) * _ENGRAM_ROWS * width_


def _position_table(v: Values, kind: str, hidden: int) -> int:
    if kind in ("opt", "gpt2", "gpt_bigcode", "gpt_neo", "whisper", "bart", "mbart", "xglm", "openai-gpt", "gpt-sw3"):
        return (
            v.whole("max_position_embeddings", "n_positions", "max_target_positions", default=0, low=0, high=1 << 24)
            * hidden
        )
    return 0


def _input_tables(v: Values, hidden: int) -> int:
    """gemma3n and small gemma4: an embedding of each word for each layer."""
    per = v.whole("hidden_size_per_layer_input", default=0, low=0)
    if not per:
        return 0
    count = v.whole("num_hidden_layers", high=LAYERS)
    return v.whole("vocab_size_per_layer_input", default=0, low=0, high=WORDS) * per * count
