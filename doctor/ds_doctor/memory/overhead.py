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


def graphs(a: Architecture, s: Setting) -> Range:
    """CUDA graphs: none with --enforce-eager."""
    if s.eager:
        return _gib(0, 0, 0)
    size = parameters(a) / max(1, s.tp)
    if size > 30e9 or parameters(a) > 60e9:
        return _gib(0.2, 1.0, 4.1)
    return _gib(0.05, 0.5, 1.3)


def graphs_counted(s: Setting) -> bool:
    """Whether the estimate for graphs comes off the cache before it is taken (from 0.20.0)."""
    return s.engine == "vllm" and s.at >= (0, 20)


def context(s: Setting) -> int:
    """Bytes that are in use on an idle card before the engine's first look: its own CUDA context."""
    return int((0.5 if s.tp * s.pp == 1 else 1.3) * GIB)
