"""What neither weights nor cache are: activations, what lies outside torch, CUDA graphs. Ranges only; nobody can predict them exactly."""

from __future__ import annotations

import msgspec

from .architecture import Architecture
from .parts import parameters
from .setting import GIB, Setting, is_v0

MIB = 1 << 20


class Range(msgspec.Struct, frozen=True):
    """Bytes: at least `low`, usually `mid`, at most `high`."""

    low: int
    mid: int
    high: int

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.mid + other.mid, self.high + other.high)


def _gib(low: float, mid: float, high: float) -> Range:
    return Range(int(low * GIB), int(mid * GIB), int(high * GIB))


def activations(a: Architecture, s: Setting, seqs: int, batched: int, total: int) -> Range:
    """The peak of the profile run. Up to 0.16 the dummy sampler run decides: 38.24 B x sequences x vocabulary + 2.56 B x tokens x hidden,
    fitted on recorded starts (within 0.15 % on six others of 0.11.0). Later versions: measured from 0.4 GiB on consumer cards to 4 GiB, and
    6 GiB for large sparse models."""
    vision = 2.0 if a.vision and not s.language_only else 0.0
    if s.engine == "sglang":
        return _gib(0.3, 1.0 + vision / 2, 3.0 + vision)
    sampler = (38.24 * seqs * a.vocabulary + 2.56 * batched * a.width) / GIB
    if is_v0(s):
        hidden = 20.0 * batched * a.width / GIB
        return _gib(0.1, sampler + hidden / 4, 1.5 * sampler + hidden + 1.0 + vision)
    if s.at < (0, 17):
        return _gib(0.85 * sampler, sampler + vision / 2, 1.15 * sampler + 0.5 + vision)
    logits = 4.0 * seqs * a.vocabulary / GIB
    step = 12.0 * batched * a.width / GIB
    small = total < 48 * GIB
    sparse = (
        2.0
        if a.experts
        and any(x.state is not None or (x.attention is not None and x.attention.index_dim) for x in a.layers)
        else 0.0
    )
    mid = max(0.4, logits + step + (0.2 if small else 0.5)) + vision / 2
    return _gib(0.25, mid, max(2.0 if small else 4.0, 2.5 * mid) + vision / 2 + sparse)


def outside_torch(s: Setting) -> Range:
    """CUDA libraries and NCCL: by the number of ranks that talk to each other."""
    ranks = s.tp * s.pp
    late = s.engine == "sglang" or s.at >= (0, 27)
    if ranks == 1:
        return _gib(0.25, 0.4, 0.7) if late else _gib(0.02, 0.12, 0.4)
    if ranks == 2:
        return _gib(0.4, 1.0, 1.6)
    if ranks <= 4:
        return _gib(0.6, 1.1, 2.0)
    return _gib(0.8, 1.7, 3.0 if not s.ep else 5.7)


_last: list[tuple[Architecture, int]] = []


def _parameters(a: Architecture) -> int:
    if not _last or _last[0][0] is not a:
        _last[:] = [(a, parameters(a))]
    return _last[0][1]


def graphs(a: Architecture, s: Setting) -> Range:
    """CUDA graphs: none with --enforce-eager."""
    if s.eager:
        return _gib(0, 0, 0)
    size = _parameters(a)
    if size / max(1, s.tp) > 30e9 or size > 60e9:
        return _gib(0.2, 1.0, 4.1)
    if s.engine == "vllm" and any(x.state is not None for x in a.layers):
        return _gib(0.05, 0.6, 3.0)  # a hybrid of 27 B has died in capture with 2.7 GiB to spare
    return _gib(0.05, 0.5, 1.3)


def adapters(a: Architecture, s: Setting) -> Range:
    """Buffers for LoRA adapters, 16-bit, taken when the model is loaded (vllm/lora/layers: lora_a_stacked whole on every rank where the output
    is split, lora_b_stacked where the input is). With experts, and with adapters for embedding and head, at most."""
    if not s.lora_slots:
        return Range(0, 0, 0)
    rank, tp, hidden = s.lora_rank, max(1, s.tp), a.width
    plain = experts = 0.0
    for layer in a.layers:
        x, f = layer.attention, layer.feed
        if x is not None and x.kind not in ("mla", "compressed"):
            queries, pairs = x.heads * x.head_dim, x.kv_heads * (x.head_dim + x.v_head_dim)
            plain += rank * (3 * hidden + (queries + pairs) / tp + x.heads * x.v_head_dim / tp + hidden)
        elif x is not None:
            plain += rank * (4 * hidden + 2 * x.heads * x.head_dim / tp)
        if layer.state is not None:
            plain += rank * (4 * hidden + layer.state.conv / tp)
        if f is not None and (f.width or f.shared_width):
            wide = f.width + f.shared_width
            plain += rank * (3 * hidden + 3 * wide / tp)
        if f is not None and f.experts:
            experts += f.experts * rank * (3 * hidden + 3 * f.expert_width / tp)
    stages = max(1, s.pp)
    each = 2 * s.lora_slots / stages
    ends = 2 * rank * (a.vocabulary / tp + hidden)
    return Range(int(0.5 * each * plain), int(each * plain), int(each * (plain + experts + ends) + 0.5 * GIB))


def graphs_counted(s: Setting) -> bool:
    """Whether the estimate for graphs comes off the cache before it is taken (from 0.20.0)."""
    return s.engine == "vllm" and s.at >= (0, 20)


def context(s: Setting) -> int:
    """Bytes that are in use on an idle card before the engine's first look: its own CUDA context."""
    return int((0.5 if s.tp * s.pp == 1 else 1.3) * GIB)
