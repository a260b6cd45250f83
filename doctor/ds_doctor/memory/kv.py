"""What each layer keeps of a request on one GPU: bytes a token, or a state; how an engine packs them into blocks stands in the pools."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from .architecture import Architecture, Attention, Layer, State
from .setting import Setting

# --kv-cache-dtype -> bits of one element with its share of scales (vllm 0.33 config/cache.py, sglang 0.5.23 server_args.py).
_BITS = {
    "fp8": 8.0, "fp8_e4m3": 8.0, "fp8_e5m2": 8.0, "fp8_inc": 8.0, "fp8_ds_mla": 8.0, "int8": 8.0,
    "bfloat16": 16.0, "bf16": 16.0, "float16": 16.0, "half": 16.0, "fp16": 16.0, "float32": 32.0,
    "nvfp4": 4.5, "fp4_e2m1": 4.5, "mxfp4": 4.25, "mxfp8": 8.25,
}  # fmt: skip


# The engines' other names of types, whose share of scales differs from version to version.
_OTHER = re.compile(
    r"(?:turboquant|octave|ultraquant)_\w{1,30}|(?:int4|int8|fp8)_per_token_head|nvfp4\w{0,12}|fp4\w{0,12}"
)


def known_type(word: str) -> bool:
    """Whether an engine knows a KV cache type of that name."""
    return word.lower() in ("auto", "", *_BITS) or _OTHER.fullmatch(word.lower()) is not None


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One cache of one layer on one GPU. `kind`: full (grows with the request), sliding or chunked (`window` tokens), state (`page` bytes a
    request, whatever its length), ring (one block a request), cross (the encoder's tokens). `page`: bytes of `block` tokens. `layer`: its number."""

    kind: Literal["full", "sliding", "chunked", "state", "cross", "ring"]
    layer: int
    block: int
    page: int
    window: int = 0


def element_bits(a: Architecture, s: Setting) -> float:
    """Bits of one element of the KV cache."""
    word = s.kv_dtype.lower()
    if word in ("auto", ""):
        q = a.quantisation
        if q is not None and q.kv_bytes is not None:
            return 8.0 * q.kv_bytes
        if s.dtype not in ("auto", ""):
            return 32.0 if s.dtype in ("float32", "float") else 16.0
        return 8.0 * a.element if a.element != 4 else 16.0  # the engines load 32-bit models as 16-bit ones
    for known, bits in _BITS.items():
        if word == known:
            return bits
    if word.startswith("fp8") or "8" in word:
        return 8.0
    if "4" in word:
        return 4.5
    return 16.0


def kv_heads(heads: int, tp: int) -> int:
    """KV heads on one rank: split, and copied once there are more ranks than heads."""
    return max(1, heads // tp)


def attention_tp(s: Setting) -> int:
    """Over how many ranks attention is split."""
    if s.engine == "sglang" and s.dp_attention:
        return max(1, s.tp // max(1, s.dp))
    return s.tp


def token_bytes(a: Architecture, x: Attention, s: Setting) -> int:
    """Bytes that one layer keeps of one token on one GPU, the sparse indexer's key apart."""
    bits = element_bits(a, s)
    if x.kind == "mla":
        if s.engine == "vllm" and s.at < (0, 7):  # cached as plain heads, padded to 256
            return int(kv_heads(x.heads, s.tp) * 2 * 256 * bits / 8)
        if x.index_dim and bits == 8:
            return 656 if x.rope_dim else x.kv_rank + 16  # fp8 latent, its scales, a 16-bit rope part
        return int((x.kv_rank + x.rope_dim) * bits / 8)
    heads = kv_heads(x.kv_heads, attention_tp(s))
    per_head = (x.head_dim + x.v_head_dim) * bits / 8
    word = s.kv_dtype.lower()
    if word.endswith("per_token_head"):  # a 32-bit scale for each of K and V
        per_head = (x.head_dim + x.v_head_dim) * (0.5 if word.startswith("int4") else 1) + 8
    return int(heads * per_head)


def index_bytes(x: Attention) -> int:
    return x.index_bytes


def state_bytes(a: Architecture, x: State, s: Setting) -> int:
    """Bytes of one recurrent layer's state of one request on one GPU."""
    tp = attention_tp(s) if x.split else 1
    element = a.element if a.element != 4 else 2
    groups = x.groups
    if groups and groups % tp:
        groups = tp if groups < tp else groups
    conv = (x.conv + 2 * groups * x.group_size) // tp * max(x.kernel - 1 + s.speculative, 0) * element
    wide = x.wide if s.state_dtype in ("auto", "") else s.state_dtype == "float32"
    if x.kind == "kda" and s.state_dtype in ("auto", ""):
        wide = True
    return conv + x.cells // tp * (4 if wide else element)


def stage_layers(count: int, stages: int) -> list[range]:
    """Which layers each pipeline stage holds (vllm/distributed/utils.py: get_pp_indices)."""
    each = [count // stages] * stages
    for i in range(2, count % stages + 2):
        each[-i] += 1
    first, result = 0, []
    for n in each:
        result.append(range(first, first + n))
        first += n
    return result


def cached_layers(a: Architecture, s: Setting) -> list[Layer]:
    """The layers that may keep something, the drafter's behind the model's own."""
    like = next((x for x in reversed(a.layers) if x.attention is not None), None)
    more = [like] * s.drafter_layers if like is not None else []
    return [*a.layers, *more]


def growing_bytes(a: Architecture, s: Setting, layers: list[Layer] | None = None) -> int:
    """Bytes that one more token takes on one GPU once the request is long: full-attention layers and index keys only."""
    total = 0
    sizes: dict[int, int] = {}
    for layer in cached_layers(a, s) if layers is None else layers:
        x = layer.attention
        if x is None or not x.caches:
            continue
        if x.kind in ("full", "mla"):
            one = sizes.get(id(x), -1)
            if one < 0:
                one = sizes[id(x)] = token_bytes(a, x, s) + index_bytes(x)
            total += one
    if not total and any(x.attention is not None and x.attention.kind == "compressed" for x in a.layers):
        from . import vllm_compressed

        total = sum(k.page // k.block for k in vllm_compressed.kept(a, s) if k.kind == "full")
    return total
