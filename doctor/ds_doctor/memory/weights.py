"""Bytes of weights on each GPU: from the tensors' headers, from the checkpoint's size, or from the configuration alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from .architecture import Architecture, Quantisation
from .kv import stage_layers
from .parts import Part, layer_parts, parts
from .quantisation import named
from .setting import GIB, Setting

# The error of each way, as a share; measured on the recorded starts in fixtures/memory and on the published sizes of known models.
_SPREAD = {"tensors": 0.01, "size": 0.02, "config": 0.03, "config-quantised": 0.08, "uncertain": 0.15}


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of the fullest GPU, bytes: `fullest`, with its range `low` to `high`; `stages`: of each pipeline stage. `host`: bytes kept
    in host memory, of all GPUs of the host together. `checkpoint`: the whole model once. `source`: tensors, size or config. `by_role`: what the
    fullest GPU holds, by part."""

    fullest: int
    low: int
    high: int
    stages: tuple[int, ...]
    checkpoint: int
    host: int
    source: str
    by_role: dict[str, int]


class TensorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors that differ only in their numbers: `name` with each number as `*`, an index of a layer beyond the model's as `+`; `bytes`
    altogether, `layers` the least and the greatest layer number (-1: none)."""

    name: str
    dtype: str
    count: int
    bytes: int
    elements: int = 0


_NUMBER = re.compile(r"(?<![A-Za-z_0-9])\d+(?![A-Za-z_0-9])")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer)\.(\d+)\.")


def summarise(tensors: Iterable[tuple[str, str, int, int]], layers: int) -> tuple[TensorGroup, ...]:
    """Many tensors (name, dtype, elements, bytes) as few groups, for a model of so many layers."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for name, dtype, elements, size in tensors:
        m = _LAYER.search(name)
        spare = m is not None and len(m[1]) < 7 and int(m[1]) >= layers
        key = _NUMBER.sub("+" if spare else "*", name)[:300]
        group = groups[key, dtype]
        group[0] += 1
        group[1] += size
        group[2] += elements
        if len(groups) > 4096:  # no checkpoint is so varied; what comes on top is counted in one group
            key = "other"
    return tuple(
        TensorGroup(name=name, dtype=dtype, count=g[0], bytes=g[1], elements=g[2]) for (name, dtype), g in sorted(groups.items())
    )


def weights(a: Architecture, s: Setting, *, tensors: tuple[TensorGroup, ...] | None = None, total: int | None = None) -> Weights:
    """The best that can be said: from `tensors`, else from the checkpoint's `total` bytes, else from the configuration."""
    sized = _sized(a, s)
    source = "config"
    if tensors:
        sized = _from_tensors(a, tensors)
        source = "tensors"
    elif total:
        known = sum(size for p, size in sized if p.split != "spare")
        spare = sum(_bytes(a, p, _quantisation(a, s)) for x in a.spare for p in layer_parts(a, x, None))
        factor = total / (known + spare) if known + spare else 1.0
        if not 0.2 < factor < 5:
            factor = 1.0
        sized = [(p, int(size * factor)) for p, size in sized]
        source = "size"
    extra = [(Part(role="latent copies", count=p.count, layer=p.layer, split="heads"), 2 * p.count) for p, _ in sized if p.role == "latent"] if _copies(a, s) else []
    return _divided(a, s, [*sized, *extra], source, sum(size for _, size in sized))


def _copies(a: Architecture, s: Setting) -> bool:
    """MLA keeps 16-bit copies of the latent's projection for decoding (process_weights_after_loading)."""
    return s.at >= (0, 7) if s.engine == "vllm" else True


def _quantisation(a: Architecture, s: Setting) -> Quantisation | None:
    if s.quantisation and (a.quantisation is None or a.quantisation.bits == 16):
        return named(s.quantisation)
    return a.quantisation


def _sized(a: Architecture, s: Setting) -> list[tuple[Part, int]]:
    q = _quantisation(a, s)
    return [(p, _bytes(a, p, q)) for p in parts(a)]


def _element(a: Architecture) -> int:
    return 2 if a.element == 4 else a.element  # 32-bit checkpoints are loaded as 16-bit ones


def _bytes(a: Architecture, p: Part, q: Quantisation | None) -> int:
    if q is None or not p.stored or _skipped(p, q):
        return p.count * _element(a)
    bits = q.bits
    if q.feed_bits is not None and p.role in ("mlp", "shared", "experts"):
        bits = q.feed_bits
    if q.expert_bits is not None and p.role == "experts":
        bits = q.expert_bits
    if p.role == "tables":
        bits = 8.25
    return int(p.count * bits / 8)


# What a checkpoint's list of exceptions calls each role.
_SKIP_WORDS = {
    "attention": ("self_attn", "attention", "attn"), "latent": ("kv_b_proj", "self_attn"), "indexer": ("indexer",), "state": ("linear_attn", "mamba", "mixer"),
    "mlp": ("mlp.gate_proj", "feed_forward", "mlp.down_proj"), "shared": ("shared_expert",), "experts": ("mlp.experts", "block_sparse_moe.experts"),
}  # fmt: skip


def _skipped(p: Part, q: Quantisation) -> bool:
    """Whether the checkpoint leaves this part in the model's own type: all of it, as far as the patterns say."""
    words = _SKIP_WORDS.get(p.role, ())
    for skip in q.skips:
        text = skip.removeprefix("re:").replace("\\", "")
        if not any(w in text for w in words):
            continue
        number = re.search(r"layers\.(\d+)", text)
        if number is None or p.layer is not None and number[1] == str(p.layer):
            return True
    return False


_ROLES = (  # the first that is in the name
    ("embed_tokens_per_layer", "embedding"), ("engram", "tables"), ("vision", "vision"), ("visual", "vision"), ("audio", "vision"), ("mm_projector", "vision"), ("multi_modal", "vision"),
    ("vit.", "vision"), ("mlp1.", "vision"), ("shared_expert", "shared"), ("shared_mlp", "shared"), ("experts", "experts"), ("embed", "embedding"), ("wte", "embedding"),
    ("lm_head", "head"), ("output.weight", "head"), ("indexer", "indexer"), ("compressor", "compressor"), ("linear_attn", "state"), ("mamba", "state"), ("mixer", "state"), ("conv.", "state"),
    ("norm", "norm"), ("q_a_proj", "latent whole"), ("kv_a_proj", "latent whole"), ("wq_a", "latent whole"), ("wkv.", "latent whole"), ("kv_b_proj", "latent"), ("k_proj", "kv"), ("v_proj", "kv"), ("attn", "attention"), ("attention", "attention"),
    ("mlp.gate.", "router"), ("router", "router"), ("gate.weight", "router"), ("gate.e_score", "router"), ("mlp", "mlp"), ("feed_forward", "mlp"), ("block_sparse_moe", "experts"),
)  # fmt: skip
_WHOLE = frozenset({"norm", "router", "indexer", "compressor", "latent whole"})


def _from_tensors(a: Architecture, groups: tuple[TensorGroup, ...]) -> list[tuple[Part, int]]:
    """The groups as parts: what a multi-token prediction layer or a spare layer holds is not loaded."""
    result: list[tuple[Part, int]] = []
    kv = a.kv_heads
    layers = range(len(a.layers))
    sparse = [i for i in layers if a.layers[i].feed is not None and a.layers[i].feed.experts] or list(layers)  # type: ignore[union-attr]
    dense = [i for i in layers if i not in set(sparse)] or list(layers)
    attending = [i for i in layers if a.layers[i].attention is not None] or list(layers)
    recurrent = [i for i in layers if a.layers[i].state is not None] or list(layers)
    for g in groups:
        if "+" in g.name or re.search(r"(?:^|\.)(?:mtp|nextn|eagle|drafter|dspark)", g.name):
            continue
        if g.name.endswith(("rotary_emb.inv_freq", "masked_bias")):
            continue
        role = next((r for word, r in _ROLES if word in g.name), "mlp")
        if role == "head" and a.tied:
            continue
        if role == "mlp" and not g.name.endswith(("weight", "weight_scale_inv", "weight_scale", "qweight", "scales", "qzeros", "weight_packed")):
            role = "mlp"
        split = "whole" if role in _WHOLE else {"kv": "kv", "attention": "heads", "latent": "heads", "embedding": "vocabulary", "head": "vocabulary", "experts": "experts", "tables": "host"}.get(role, "ranks")
        places = {"experts": sparse, "router": sparse, "shared": sparse, "mlp": dense if a.experts else list(layers), "state": recurrent, "kv": attending, "attention": attending}.get(role, list(layers))
        if "*" not in g.name or role in ("embedding", "head", "vision", "tables"):
            where = None if role in ("head", "norm") else -1
            result.append((Part(role=role, count=g.elements, layer=where, split=split, heads=kv), g.bytes))  # type: ignore[arg-type]
            continue
        for i in places:
            result.append((Part(role=role, count=g.elements // len(places), layer=i, split=split, heads=kv), g.bytes // len(places)))  # type: ignore[arg-type]
    return result


def _share(p: Part, a: Architecture, s: Setting) -> float:
    """The part of a part that one GPU of its stage holds."""
    attention = max(1, s.tp // max(1, s.dp)) if s.engine == "sglang" and s.dp_attention else s.tp
    if p.split == "whole":
        return 1.0
    if p.split == "kv":
        heads = max(1, p.heads)
        return max(1, heads // attention) / heads if heads >= 1 else 1 / attention
    if p.split == "heads":
        return 1 / attention
    if p.split == "vocabulary":
        return 1.0 if s.engine == "sglang" and s.dp_attention and p.role == "embedding" else 1 / s.tp
    if p.split == "experts":
        return 1 / (s.tp * s.dp) if s.engine == "vllm" and a.experts else 1 / s.tp
    if p.split == "host":
        return 0.0 if _host_tables(s) else 1 / s.tp
    return 1 / (attention if p.role == "state" else s.tp)


def _host_tables(s: Setting) -> bool:
    """vLLM keeps the Engram tables of DeepSeek V4.1 on the host by default (EngramConfig.cpu_offload); SGLang when told to."""
    return s.engine == "vllm"


def _divided(a: Architecture, s: Setting, sized: list[tuple[Part, int]], source: str, whole: int) -> Weights:
    stages = stage_layers(len(a.layers), s.pp)
    totals: list[dict[str, float]] = [defaultdict(float) for _ in stages]
    host = 0.0
    for p, size in sized:
        if p.role == "vision" and s.language_only:
            continue
        if p.split == "host" and _host_tables(s):
            host += size
            continue
        share = size * _share(p, a, s)
        for number, stage in enumerate(stages):
            first, last = number == 0, number == len(stages) - 1
            if p.layer is None:
                here = last
            elif p.layer < 0:
                here = first or last and p.role == "embedding" and a.tied and s.pp > 1
            else:
                here = p.layer in stage
            if here:
                totals[number][p.role] += share
    sums = [int(sum(t.values())) for t in totals]
    fullest = max(range(len(sums)), key=lambda i: sums[i])
    offload = min(int(s.offload_gib * GIB), sums[fullest])
    host += offload * s.tp * s.pp
    top = sums[fullest] - offload
    spread = _SPREAD[_way(a, s, source)]
    return Weights(
        fullest=top,
        low=int(top * (1 - spread)),
        high=int(top * (1 + spread)),
        stages=tuple(x - min(offload, x) for x in sums),
        checkpoint=whole,
        host=int(host),
        source=source,
        by_role={role: int(size) for role, size in sorted(totals[fullest].items(), key=lambda item: -item[1])},
    )


def _way(a: Architecture, s: Setting, source: str) -> str:
    if source != "config":
        return source
    if not a.certain:
        return "uncertain"
    return "config" if _quantisation(a, s) is None else "config-quantised"


def roles(w: Weights) -> Mapping[str, int]:
    return w.by_role
