"""A checkpoint's tensors as a few groups, and the groups as parts of the model; it reads no header itself."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from .architecture import Architecture
from .parts import Part, Split

_NUMBER = re.compile(r"(?<![A-Za-z_0-9])\d+(?![A-Za-z_0-9])")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer)\.(\d{1,6})\.")
_GROUPS = 4096  # no checkpoint is so varied; what comes on top is counted as one


class TensorGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tensors that differ only in their numbers. `name` has each number as `*`; as `+` where the layer's number is beyond the model's
    layers, which is how layers for multi-token prediction are stored. `bytes` and `elements` altogether."""

    name: str
    dtype: str
    count: int
    bytes: int
    elements: int = 0


def summarise(tensors: Iterable[tuple[str, str, int, int]], layers: int) -> tuple[TensorGroup, ...]:
    """Tensors (name, dtype, elements, bytes) of a model of so many layers, as groups: 96,000 tensors are about 60 of them."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for name, dtype, elements, size in tensors:
        m = _LAYER.search(name)
        key = _NUMBER.sub("+" if m is not None and int(m[1]) >= layers else "*", name[:300])
        if len(groups) >= _GROUPS and (key, dtype) not in groups:
            key = "(other)"
        group = groups[key, dtype]
        group[0] += 1
        group[1] += size
        group[2] += elements
    return tuple(
        TensorGroup(name=name, dtype=dtype, count=g[0], bytes=g[1], elements=g[2])
        for (name, dtype), g in sorted(groups.items())
    )


# The first word that a name holds tells what it is.
_ROLES: tuple[tuple[str, str, Split], ...] = (
    ("embed_tokens_per_layer", "embedding", "vocabulary"), ("engram", "tables", "host"),
    ("vision", "vision", "ranks"), ("visual", "vision", "ranks"), ("audio", "vision", "ranks"), ("mm_projector", "vision", "ranks"),
    ("multi_modal", "vision", "ranks"), ("vit.", "vision", "ranks"), ("mlp1.", "vision", "ranks"),
    ("shared_expert", "shared", "ranks"), ("shared_mlp", "shared", "ranks"), ("experts", "experts", "experts"), ("block_sparse_moe.gate", "router", "whole"),
    ("block_sparse_moe", "experts", "experts"),
    ("embed", "embedding", "vocabulary"), ("wte", "embedding", "vocabulary"), ("wpe", "positions", "whole"), ("lm_head", "head", "vocabulary"),
    ("output.weight", "head", "vocabulary"), ("indexer", "indexer", "whole"), ("compressor", "compressor", "whole"),
    ("norm", "norm", "whole"), ("ln_", "norm", "whole"),
    ("linear_attn", "state", "ranks"), ("mamba", "state", "ranks"), ("mixer", "state", "ranks"), ("short_conv", "state", "ranks"),
    ("q_a_proj", "attention", "whole"), ("kv_a_proj", "attention", "whole"), ("wq_a", "attention", "whole"), ("attn.wkv", "attention", "whole"),
    ("kv_b_proj", "latent", "heads"), ("k_proj", "attention", "kv"), ("v_proj", "attention", "kv"), ("attn", "attention", "heads"), ("attention", "attention", "heads"),
    ("mlp.gate.", "router", "whole"), ("router", "router", "whole"), ("ffn.gate.", "router", "whole"),
)  # fmt: skip
_SPARE = re.compile(r"(?:^|\.)(?:mtp|nextn|eagle|drafter|dspark|draft)")
_UNUSED = ("rotary_emb.inv_freq", "attn.bias", "masked_bias")


def parts(a: Architecture, groups: Iterable[TensorGroup]) -> list[tuple[Part, int]]:
    """The groups as parts with their bytes. What only speculation needs, and a head that repeats the embedding, is not loaded."""
    result: list[tuple[Part, int]] = []
    layers = list(range(len(a.layers)))
    sparse = [i for i, x in enumerate(a.layers) if x.feed is not None and x.feed.experts] or layers
    places = {
        "experts": sparse,
        "router": sparse,
        "shared": sparse,
        "mlp": [i for i in layers if i not in set(sparse)] or layers if a.experts else layers,
        "state": [i for i, x in enumerate(a.layers) if x.state is not None] or layers,
        "attention": [i for i, x in enumerate(a.layers) if x.attention is not None] or layers,
    }
    for g in groups:
        if "+" in g.name or _SPARE.search(g.name) or g.name.endswith(_UNUSED):
            continue
        role, split = next(((r, how) for word, r, how in _ROLES if word in g.name), ("mlp", "ranks"))
        if role == "head" and a.tied:
            continue
        if "*" not in g.name or role in ("embedding", "head", "vision", "tables"):
            where = None if role in ("head", "norm") else -1
            result.append((Part(role=role, count=g.elements, layer=where, split=split, heads=a.kv_heads), g.bytes))
            continue
        at = places.get(role, layers)
        share = Part(role=role, count=g.elements // len(at), layer=at[0], split=split, heads=a.kv_heads)
        result += [(msgspec.structs.replace(share, layer=i), g.bytes // len(at)) for i in at]
    return result
