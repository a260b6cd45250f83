"""Bytes of weights on each GPU: from the tensors' headers, from the checkpoint's size, or from the configuration alone."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from .architecture import Architecture, Quantisation
from .exceptions import exceptions
from .kv import stage_layers
from .parts import Part, layer_parts, parts
from .quantisation import named
from .setting import GIB, Setting
from .tensors import TensorGroup
from .tensors import parts as tensor_parts

# The error of each way, as a share; measured on the recorded starts in fixtures/memory and on the published sizes of known models.
_SPREAD = {
    "tensors": 0.01,
    "size": 0.02,
    "config": 0.03,
    "config-quantised": 0.08,
    "config-fp8": 0.04,
    "uncertain": 0.15,
}


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


def weights(
    a: Architecture, s: Setting, *, tensors: tuple[TensorGroup, ...] | None = None, total: int | None = None
) -> Weights:
    """The best that can be said: from `tensors`, else from the checkpoint's `total` bytes, else from the configuration."""
    sized = _sized(a, s)
    source = "config"
    if tensors:
        sized = tensor_parts(a, tensors)
        source = "tensors"
    elif total:
        known = sum(size for _, size in sized)
        spare = sum(_bytes(a, p, _quantisation(a, s)) for x in a.spare for p in layer_parts(a, x, None))
        factor = total / (known + spare) if known + spare else 1.0
        if 0.2 < factor < 5:  # else the size is not this model's
            sized = [(p, int(size * factor)) for p, size in sized]
            source = "size"
    padding = _padding(a, s)
    if padding != 1.0:
        sized = [(p, int(size * padding) if p.role == "experts" else size) for p, size in sized]
    extra = (
        [
            (Part(role="latent copies", count=p.count, layer=p.layer, split="heads"), 2 * p.count)
            for p, _ in sized
            if p.role == "latent"
        ]
        if _copies(a, s)
        else []
    )
    made = _divided(a, s, [*sized, *extra], source, sum(size for _, size in sized))
    # Some kernels pad less.
    return made if padding == 1.0 else msgspec.structs.replace(made, low=int(made.low / padding))


def _padding(a: Architecture, s: Setting) -> float:
    """MXFP4 experts are padded for the kernels when they are loaded: hidden to 256, each rank's width to 128
    (fused_moe/oracle/mxfp4.py: mxfp4_round_up_hidden_size_and_intermediate_size; 65.97 GiB for gpt-oss-120b on an H100)."""
    q = _quantisation(a, s)
    feed = next((x.feed for x in a.layers if x.feed is not None and x.feed.experts), None)
    if s.engine != "vllm" or q is None or q.method != "mxfp4" or feed is None:
        return 1.0
    ranks = 1 if s.ep else s.tp * s.dp
    wide = -(-feed.expert_width // ranks)
    return (-(-wide // 128) * 128 / (feed.expert_width / ranks)) * (-(-a.width // 256) * 256 / a.width)


def _copies(a: Architecture, s: Setting) -> bool:
    """MLA keeps 16-bit copies of the latent's projection for decoding (process_weights_after_loading)."""
    return s.at >= (0, 7) if s.engine == "vllm" else True


def _quantisation(a: Architecture, s: Setting) -> Quantisation | None:
    if s.quantisation and (a.quantisation is None or a.quantisation.bits == 16):
        return named(s.quantisation)
    return a.quantisation


_last: list[
    tuple[Architecture, Quantisation | None, list[tuple[Part, int]]]
] = []  # planning asks for the same model many times


def _sized(a: Architecture, s: Setting) -> list[tuple[Part, int]]:
    q = _quantisation(a, s)
    for known, how, sized in _last:
        if known is a and how == q:
            return sized
    sized = _alike([(p, _bytes(a, p, q)) for p in parts(a)])
    _last[:] = [*_last[-3:], (a, q, sized)]
    return sized


def _alike(sized: list[tuple[Part, int]]) -> list[tuple[Part, int]]:
    """Parts of one layer that are divided alike, as one."""
    sums: dict[tuple[str, int | None, str, int], list[int]] = {}
    for p, size in sized:
        one = sums.setdefault((p.role, p.layer, p.split, p.heads), [0, 0])
        one[0] += p.count
        one[1] += size
    return [
        (Part(role=role, count=n[0], layer=layer, split=split, heads=heads), n[1])  # type: ignore[arg-type]
        for (role, layer, split, heads), n in sums.items()
    ]


def _element(a: Architecture) -> int:
    return 2 if a.element == 4 else a.element  # 32-bit checkpoints are loaded as 16-bit ones


def _bytes(a: Architecture, p: Part, q: Quantisation | None) -> int:
    if q is None or not p.stored:
        return p.count * _element(a)
    bits = q.bits
    if q.feed_bits is not None and p.role in ("mlp", "shared", "experts"):
        bits = q.feed_bits
    if q.expert_bits is not None and p.role == "experts":
        bits = q.expert_bits
    if p.role == "tables":
        bits = 8.25
    kept = exceptions(q.skips).share(p.role, p.split, p.layer) if q.skips else 0.0
    return int(p.count * (kept * _element(a) + (1 - kept) * bits / 8))


def _share(p: Part, s: Setting) -> float:
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
        return 1 / (s.tp * s.dp) if s.engine == "vllm" else 1 / s.tp
    if p.split == "host":
        return 0.0 if _host_tables(s) else 1 / s.tp
    return 1 / (attention if p.role == "state" else s.tp)


def _host_tables(s: Setting) -> bool:
    """vLLM keeps the Engram tables of DeepSeek V4.1 on the host by default (EngramConfig.cpu_offload); SGLang when told to."""
    return s.engine == "vllm" if s.host_tables is None else s.host_tables


def _divided(a: Architecture, s: Setting, sized: list[tuple[Part, int]], source: str, whole: int) -> Weights:
    stages = stage_layers(len(a.layers), s.pp)
    totals: list[dict[str, float]] = [defaultdict(float) for _ in stages]
    host = 0.0
    of_layer = {layer: number for number, stage in enumerate(stages) for layer in stage}
    last = len(stages) - 1
    shares: dict[tuple[str, str, int], float] = {}
    for p, size in sized:
        if p.role == "vision" and s.language_only:
            continue
        if p.split == "host" and _host_tables(s):
            host += size
            continue
        key = (p.role, p.split, p.heads)
        if key not in shares:
            shares[key] = _share(p, s)
        share = size * shares[key]
        if p.layer is None:
            totals[last][p.role] += share
        elif p.layer >= 0:
            totals[of_layer.get(p.layer, last)][p.role] += share
        else:
            totals[0][p.role] += share
            if last and p.role == "embedding" and a.tied:
                totals[last][p.role] += share
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
    q = _quantisation(a, s)
    if q is None:
        return "config"
    return "config-fp8" if q.known and 8 <= q.bits < 8.1 and q.feed_bits is None and not q.skips else "config-quantised"
